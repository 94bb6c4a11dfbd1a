import io.modelcontextprotocol.client.McpClient;
import io.modelcontextprotocol.client.McpSyncClient;
import io.modelcontextprotocol.client.transport.*;
import io.modelcontextprotocol.json.McpJsonDefaults;
import io.modelcontextprotocol.spec.McpClientTransport;
import io.modelcontextprotocol.spec.McpSchema.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentLinkedQueue;

/** The Java SDK as a client: a line for each case, its name, a tab, what came of it. */
class Client {
  static McpSyncClient client;

  static void say(String name, String value) { System.out.println(name + "\t" + value); System.out.flush(); }

  static String call(String name, Map<String, Object> arguments, Object token) {
    CallToolResult r = client.callTool(CallToolRequest.builder(name).arguments(arguments).meta(token == null ? Map.of() : Map.of("progressToken", token)).build());
    String text = ((TextContent) r.content().get(0)).text();
    return Boolean.TRUE.equals(r.isError()) ? "isError: " + text : text;
  }

  static McpClientTransport transport(String kind, String[] target) {
    return switch (kind) {
      case "http" -> HttpClientStreamableHttpTransport.builder(target[0].replaceAll("/mcp$", "")).endpoint("/mcp").build();
      case "sse" -> HttpClientSseClientTransport.builder(target[0].replaceAll("/sse$", "")).sseEndpoint("/sse").build();
      default -> new StdioClientTransport(new ServerParameters.Builder(target[0]).args(Arrays.copyOfRange(target, 1, target.length)).build(), McpJsonDefaults.getMapper());
    };
  }

  static void run(String kind, String[] target) throws Exception {
    Queue<String> reported = new ConcurrentLinkedQueue<>();
    client = McpClient.sync(transport(kind, target)).requestTimeout(Duration.ofSeconds(20)).capabilities(ClientCapabilities.builder().elicitation().build())
        .elicitation(r -> ElicitResult.builder(ElicitResult.Action.ACCEPT).content(Map.of("name", "anna")).build())
        .progressConsumer(p -> reported.add(String.valueOf(p.progress().intValue()))).build();
    client.initialize();
    say("list", String.join(",", client.listTools().tools().stream().map(Tool::name).sorted().toList()));
    say("call", call("echo", Map.of("text", "hällo"), null));
    call("count", Map.of("n", 3), "t1");
    for (int i = 0; i < 100 && reported.size() < 3; i++) Thread.sleep(10);
    say("progress", String.join(" ", reported.stream().sorted().toList())); // its stdio transport keeps no order
    say("fail", call("fail", Map.of("text", ""), null));
    String unknown;
    try { unknown = call("nonsense", Map.of(), null).startsWith("isError") ? "refused" : "called"; } catch (RuntimeException e) { unknown = "refused"; }
    say("unknown", unknown);
    say("ask", call("ask", Map.of("text", ""), null));
    say("afterwards", call("echo", Map.of("text", "still here"), null));
    client.closeGracefully();
    System.exit(0);
  }
}
