package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// Commands are refused whose packages have no fixed version, or whose arguments hold a secret. What may be a secret in others is not shown,
// and stays if it comes back as it was shown.
func TestRegisteredCommands(t *testing.T) {
	toml := strings.Replace(aggregatorToml(t, ""), "[aggregator]\n", "[aggregator]\ncommands = [\"npx\", \"docker\"]\n", 1)
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", toml))
	body := func(name, connection string) string {
		return `{"name":"` + name + `","transport_type":"STDIO","connection_config":` + connection + `}`
	}
	for connection, part := range map[string]string{
		`{"command":"npx","args":["-y","@scope/server"]}`:                                    "`npx -y @scope/server@1.2.3`",
		`{"command":"docker","args":["run","-i","--rm","mcp/server:latest"]}`:                "`docker run -i --rm mcp/server:1.2.3`",
		`{"command":"npx","args":["server@1.2.3","--token=5ecret"]}`:                         `"loc":["body","connection_config","args","1"],"msg":"holds a secret, the value of --token`,
		`{"command":"docker","args":["run","-e","GITHUB_TOKEN=5ecret","mcp/server:1"]}`:      "the value of GITHUB_TOKEN",
		`{"command":"npx","args":["mcp-remote@1.2.3","https://me:5ecret@example.com/mcp"]}`:  "the password of a URL",
		`{"command":"npx","args":["mcp-remote@1.2.3","https://x.example/?api_key=5ecret5"]}`: "the parameter api_key",
	} {
		if res := a.want(422, "POST", "/servers", body("one", connection), nil); !strings.Contains(res.body, part) || strings.Contains(res.body, "5ecret") {
			t.Errorf("%s: %s", connection, res.body)
		}
	}
	a.want(201, "POST", "/servers", body("one", `{"command":"npx","args":["mcp-remote@1.2.3","https://x.example/mcp?tenant=5ecret"]}`), nil)
	var s struct {
		Connection json.RawMessage `json:"connection_config"`
	}
	if res := a.want(200, "GET", "/servers/one", "", &s); strings.Contains(res.body, "5ecret") || !strings.Contains(res.body, `"https://x.example/mcp?(hidden)"`) {
		t.Fatalf("shown %s", res.body)
	}
	a.want(200, "PATCH", "/servers/one", `{"description":"new","connection_config":`+string(s.Connection)+`}`, nil)
	for from, to := range map[string]string{"mcp-remote@1.2.3": "evil@1.2.3", `"npx"`: `"docker"`} {
		if res := a.want(422, "PATCH", "/servers/one", `{"connection_config":`+strings.Replace(string(s.Connection), from, to, 1)+`}`, nil); !strings.Contains(res.body, "is hidden, and is kept with the same command") {
			t.Errorf("%s", res.body)
		}
	}
	if strings.Contains(a.logs.String(), "5ecret") {
		t.Error("the log has what is hidden")
	}
}
