// The Java SDK as a server and as a client.
import io.modelcontextprotocol.json.McpJsonDefaults;
import io.modelcontextprotocol.server.McpServer;
import io.modelcontextprotocol.server.McpSyncServerExchange;
import io.modelcontextprotocol.server.transport.*;
import io.modelcontextprotocol.spec.McpSchema;
import io.modelcontextprotocol.spec.McpSchema.*;
import jakarta.servlet.http.HttpServlet;
import java.util.*;
import java.util.function.BiFunction;
import org.apache.catalina.startup.Tomcat;

class Server {
  static final Map<String, Object> TEXT = Map.of("type", "object", "properties", Map.of("text", Map.of("type", "string")));
  static final Map<String, Object> COUNT = Map.of("type", "object", "properties", Map.of("n", Map.of("type", "integer")));
  static final Map<String, Object> NAME = Map.of("type", "object", "properties", Map.of("name", Map.of("type", "string")), "required", List.of("name"));

  static CallToolResult said(String text) { return CallToolResult.builder().addTextContent(text).build(); }

  static <S extends McpServer.SyncSpecification<S>> void tools(McpServer.SyncSpecification<S> spec) {
    tool(spec, "echo", TEXT, (ex, r) -> said(String.valueOf(r.arguments().get("text"))));
    tool(spec, "count", COUNT, (ex, r) -> {
      int n = ((Number) r.arguments().get("n")).intValue();
      Object token = r.progressToken();
      for (int i = 1; i <= n && token != null; i++) ex.progressNotification(new ProgressNotification(token, i, (double) n, "step " + i));
      return said("counted " + n);
    });
    tool(spec, "fail", TEXT, (ex, r) -> CallToolResult.builder().addTextContent("failed on purpose").isError(true).build());
    tool(spec, "ask", TEXT, (ex, r) -> {
      ElicitResult a = ex.createElicitation(ElicitRequest.builder("Who are you?", NAME).build());
      return said(a.action().name().toLowerCase() + " " + (a.content() == null ? "" : a.content().get("name")));
    });
    tool(spec, "slow", COUNT, (ex, r) -> {
      try { Thread.sleep(((Number) r.arguments().get("n")).longValue()); } catch (InterruptedException e) { return said("interrupted"); }
      return said("slept");
    });
  }

  static <S extends McpServer.SyncSpecification<S>> void tool(McpServer.SyncSpecification<S> spec, String name, Map<String, Object> schema,
      BiFunction<McpSyncServerExchange, CallToolRequest, CallToolResult> run) {
    spec.toolCall(Tool.builder(name, schema).description(name).build(), run);
  }

  static void http(HttpServlet servlet) throws Exception {
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
    tomcat.setPort(0);
    tomcat.getConnector().setProperty("address", "127.0.0.1");
    var context = tomcat.addContext("", null);
    var wrapper = Tomcat.addServlet(context, "mcp", servlet);
    wrapper.setAsyncSupported(true);
    context.addServletMappingDecoded("/*", "mcp");
    tomcat.start();
    int port = tomcat.getConnector().getLocalPort();
    String path = servlet instanceof HttpServletSseServerTransportProvider ? "/sse" : "/mcp";
    System.out.println("listening on http://127.0.0.1:" + port + path);
    tomcat.getServer().await();
  }

  static void run(String transport) throws Exception {
    var capabilities = ServerCapabilities.builder().tools(true).logging().build();
    switch (transport) {
      case "http" -> {
        var p = HttpServletStreamableServerTransportProvider.builder().mcpEndpoint("/mcp").build();
        var spec = McpServer.sync(p).serverInfo("java", "1").capabilities(capabilities);
        tools(spec); spec.build(); http(p);
      }
      case "sse" -> {
        var p = HttpServletSseServerTransportProvider.builder().sseEndpoint("/sse").messageEndpoint("/message").build();
        var spec = McpServer.sync(p).serverInfo("java", "1").capabilities(capabilities);
        tools(spec); spec.build(); http(p);
      }
      default -> {
        var spec = McpServer.sync(new StdioServerTransportProvider(McpJsonDefaults.getMapper())).serverInfo("java", "1").capabilities(capabilities);
        tools(spec); spec.build();
        Thread.currentThread().join();
      }
    }
  }
}

public class Maker {
  public static void main(String[] args) throws Exception {
    if (args[0].equals("serve")) Server.run(args[1]);
    else Client.run(args[1], Arrays.copyOfRange(args, 2, args.length));
  }
}
