package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/grpc/providerpb"
	"dragoman/examples/provider-go/hello"
	"dragoman/internal/app"
	"dragoman/internal/testkit"
	"dragoman/policies/health"
)

// startProvider starts the example provider at an address; "" chooses one. stop ends it at once.
func startProvider(t *testing.T, address string) (at string, stop func()) {
	t.Helper()
	return serveProvider(t, address, hello.New("hello-go"))
}

func serveProvider(t *testing.T, address string, of providerpb.ProviderServer) (at string, stop func()) {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	providerpb.RegisterProviderServer(s, of)
	reflection.Register(s)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	stop = func() { s.Stop(); <-served }
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// A provider and its methods as tools are servers for every kind of client; the provider's events reach a sink.
func TestProvider(t *testing.T) {
	at, _ := startProvider(t, "")
	hook := newEventReceiver(t)
	r := startRig(t, fmt.Sprintf("[upstreams.default]\nurl = \"grpc://%s\"\n", at)+hook.toml(""), true)
	for _, w := range r.waysIn() {
		t.Run(w.name, func(t *testing.T) {
			for _, c := range []struct{ method, params, want string }{
				{"tools/list", "", `"echo.v1"`},
				{"tools/call", `"name":"echo.v1","arguments":{"message":"to and fro"}`, "to and fro"},
				{"tools/call", `"name":"echo.v1","arguments":{"message":7}`, "/message"},
				{"tools/call", `"name":"notify.v1","arguments":{"metric":"m","value":42}`, "sent"},
				{"resources/read", `"uri":"hello://greeting"`, "Hello, MCP"},
				{"prompts/get", `"name":"hello-plan","arguments":{"name":"Ada"}`, "Greet Ada"},
				{"completion/complete", `"ref":{"type":"ref/prompt","name":"hello-plan"},"argument":{"name":"name","value":"Al"}`, "Alan"},
				{"tools/call", `"name":"none.v1","arguments":{}`, "none.v1"},
			} {
				if w.name == "rest" && strings.HasPrefix(c.method, "completion") {
					continue // REST has no such path
				}
				if got := w.ask(c.method, c.params); !strings.Contains(got, c.want) {
					t.Errorf("%s %s: %s", c.method, c.params, got)
				}
			}
		})
	}
	e := hook.of(t, "provider.metric.reported", 1)[0]
	if e.Source != "urn:provider:hello-go" || e.Data["metric"] != "m" || e.Data["value"] != 42.0 {
		t.Errorf("%+v", e)
	}
}

// Any service's methods are tools.
func TestServiceMethods(t *testing.T) {
	at, _ := startProvider(t, "")
	r := startRig(t, fmt.Sprintf("[upstreams.default]\nurl = \"grpc://%s\"\ngrpc.methods = [\"mcp.provider.v1.Provider\"]\n", at), true)
	for _, w := range r.waysIn() {
		if got := w.ask("tools/call", `"name":"Provider.ReadResource","arguments":{"uri":"hello://greeting"}`); !strings.Contains(got, "Hello, MCP") {
			t.Errorf("%s: %s", w.name, got)
		}
	}
}

// refusing is a provider whose only tool cannot be called now.
type refusing struct {
	providerpb.UnimplementedProviderServer
}

func (refusing) ListCapabilities(context.Context, *providerpb.ListCapabilitiesRequest) (*providerpb.ListCapabilitiesResponse, error) {
	return &providerpb.ListCapabilitiesResponse{Tools: []*providerpb.Tool{{Name: "echo.v1", Description: "d", InputSchema: `{"type":"object"}`}}}, nil
}

func (refusing) CallTool(*providerpb.CallToolRequest, grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
	return status.Error(codes.FailedPrecondition, "not yet")
}

// A status is a row of the error table for every kind of client.
func TestStatusOfProvider(t *testing.T) {
	at, _ := serveProvider(t, "", refusing{})
	r := startRig(t, fmt.Sprintf("[upstreams.default]\nurl = \"grpc://%s\"\n", at), true)
	for _, w := range r.waysIn() {
		if got := w.ask("tools/call", `"name":"echo.v1","arguments":{}`); !strings.Contains(got, `"code":"upstream_grpc_status"`) || !strings.Contains(got, "FAILED_PRECONDITION: not yet") {
			t.Errorf("%s: %s", w.name, got)
		}
	}
}

// A provider that dies is an error and one that is back is used again, without anybody's help (seed 002, State Transitions).
func TestProviderComesBack(t *testing.T) {
	at, stop := startProvider(t, "")
	r := startRig(t, fmt.Sprintf("[upstreams.default]\nurl = \"grpc://%s\"\nretries = 0\n", at), true)
	w := r.modernWay()
	echo := func() string { return w.ask("tools/call", `"name":"echo.v1","arguments":{"message":"to and fro"}`) }
	if got := echo(); !strings.Contains(got, "to and fro") {
		t.Fatal(got)
	}
	stop()
	testkit.Eventually(t, "calls fail, and the provider is an error", func() bool {
		return strings.Contains(echo(), "upstream_") && r.state("default").State == health.Errored
	})
	startProvider(t, at)
	testkit.Eventually(t, "calls succeed", func() bool { return strings.Contains(echo(), "to and fro") })
	r.becomes(health.Connected)
}

// A change of a providers.yaml is one of the configuration.
func TestReloadOfProviders(t *testing.T) {
	one, _ := startProvider(t, "")
	two, _ := startProvider(t, "")
	entry := func(name, address string) string {
		return fmt.Sprintf("  - name: %s\n    type: grpc\n    address: %s\n", name, address)
	}
	file := testkit.WriteFile(t, "providers.yaml", "providers:\n"+entry("one", one))
	base := fallibleToml(t, "modern", "/no/such/file", "")
	r := startRig(t, base, true)
	r.h.Cfg.Loaded.Providers = []string{file}
	r.reload(app.ReloadApplied, base)
	ask := func(server string) string {
		return r.must("POST", "/servers/"+server+"/mcp", modernBody(1, "tools/call", `"name":"echo.v1","arguments":{"message":"here"}`), modernHeaders("tools/call", "echo.v1")...).body
	}
	if got := ask("one"); !strings.Contains(got, "here") {
		t.Error(got)
	}
	testkit.PutFile(t, file, "providers:\n"+entry("two", two))
	r.reload(app.ReloadApplied, base)
	if got := ask("two"); !strings.Contains(got, "here") {
		t.Error(got)
	}
	if got := ask("one"); !strings.Contains(got, `no server \"one\"`) {
		t.Error(got)
	}
	testkit.PutFile(t, file, "providers:\n"+entry("two", "nowhere"))
	r.reload(app.ReloadRefused, base)
	if got := ask("two"); !strings.Contains(got, "here") {
		t.Error(got)
	}
}

// gRPC services are registered while Dragoman runs: a provider, and the methods of any other; addresses are judged as those of other servers.
func TestRegisteredGRPC(t *testing.T) {
	at, _ := startProvider(t, "")
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	body := func(name, connection, more string) string {
		return fmt.Sprintf(`{"name":%q,"transport_type":"GRPC","connection_config":%s%s}`, name, connection, more)
	}
	var tried struct {
		OK    bool   `json:"ok"`
		Error string `json:"error_message"`
		Tools int    `json:"tool_count"`
	}
	if res := a.want(200, "POST", "/test", body("tried", `{"url":"grpc://`+at+`"}`, ""), &tried); !tried.OK || tried.Tools == 0 {
		t.Error(res.body)
	}
	for name, c := range map[string]struct{ connection, tool, args, want string }{
		"hello":   {`{"url":"grpc://` + at + `"}`, "hello.echo.v1", `{"message":"to and fro"}`, "to and fro"},
		"methods": {`{"url":"grpc://` + at + `","methods":["mcp.provider.v1.Provider/Complete"]}`, "methods.Provider.Complete", `{"prompt":"hello-plan","argument":"name","value":"Al"}`, "Alan"},
	} {
		var s aggregator.Server
		a.want(201, "POST", "/servers", body(name, c.connection, `,"auto_connect":true`), &s)
		if s = a.becomes(name, "CONNECTED"); s.Transport != "GRPC" || s.Connection["url"] != "grpc://"+at {
			t.Errorf("%+v", s)
		}
		testkit.Eventually(t, "its tools are known", func() bool {
			a.want(200, "GET", "/servers/"+name, "", &s)
			return s.ToolCount > 0
		})
		if res := a.send(a.base+"/mcp", "", "POST", strings.Replace(modernCall("1", c.tool, ""), "{}", c.args, 1), nil, modernHeaders("tools/call", c.tool)...); !strings.Contains(res.body, c.want) {
			t.Errorf("%s: %d %s", c.tool, res.status, res.body)
		}
	}
	if res := a.want(200, "POST", "/test", body("far", `{"url":"grpc://10.255.255.1:50051"}`, ""), &tried); tried.OK || !strings.Contains(tried.Error, "10.255.255.1") {
		t.Error(res.body)
	}
}
