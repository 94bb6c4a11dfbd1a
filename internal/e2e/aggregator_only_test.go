package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/adapters/aggregator"
	"dragoman/internal/testkit"
)

// The only registered server has the names that the API says, which stay when a second one comes, and clients keep their sessions.
func TestOnlyRegisteredServer(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	a.want(201, "POST", "/servers", registration("one", toolsServer(t, "greet"), true), nil)
	a.becomes("one", "CONNECTED")
	var tools []aggregator.Tool
	testkit.Eventually(t, "the tools are known", func() bool {
		a.want(200, "GET", "/tools", "", &tools)
		return len(tools) == 1
	})
	if tools[0].Name != "one.greet" {
		t.Fatalf("the API calls it %q", tools[0].Name)
	}
	if res := a.call("/mcp", "one.greet"); res.status != 200 || !strings.Contains(res.body, "called greet") {
		t.Errorf("the only server: %d %s", res.status, res.body)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: a.base + "/mcp", HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	call := func(tool string) {
		t.Helper()
		got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage("{}")})
		if err != nil || got.IsError {
			t.Errorf("%s: %+v, %v", tool, got, err)
		}
	}
	call("one.greet")
	a.want(201, "POST", "/servers", registration("two", toolsServer(t, "part"), true), nil)
	a.becomes("two", "CONNECTED")
	call("one.greet")
	call("two.part")
	a.want(204, "DELETE", "/servers/two", "", nil)
	call("one.greet")
}

// The state of a server that an operator has disconnected says so.
func TestStateOfADisconnectedServer(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	a.want(201, "POST", "/servers", registration("one", toolsServer(t, "greet"), true), nil)
	a.becomes("one", "CONNECTED")
	a.want(200, "POST", "/servers/one/disconnect", "", nil)
	if res := a.send(a.admin+"/readyz", "", "GET", "", nil); !strings.Contains(res.body, "disconnected until an operator connects it") || strings.Contains(res.body, "not reached") {
		t.Errorf("%d %s", res.status, res.body)
	}
	a.want(200, "POST", "/servers/one/connect", "", nil)
	a.becomes("one", "CONNECTED")
	if res := a.send(a.admin+"/readyz", "", "GET", "", nil); res.status != 200 || strings.Contains(res.body, "disconnected") {
		t.Errorf("connected again: %d %s", res.status, res.body)
	}
}
