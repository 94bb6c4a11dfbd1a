//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// gossip is a modern server that writes each call, and what is secret in its environment, to its stderr.
const gossip = `while read -r line; do
  id=${line#*\"id\":}; id=${id%%%%[,\}]*}
  case $line in
  *'"method":"server/discover"'*) printf '{"jsonrpc":"2.0","id":%%s,"result":%s}\n' "$id" ;;
  *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%%s,"result":{"resultType":"complete","tools":[{"name":"crash","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}}\n' "$id" ;;
  *'"name":"crash"'*) exit 3 ;;
  *) printf '%%s token %%s\n' "$line" "$TOKEN" >&2; printf '{"jsonrpc":"2.0","id":%%s,"result":{"resultType":"complete","content":[]}}\n' "$id" ;;
  esac
done`

// What a child writes to its standard error for one caller reaches no other one, and secrets in it reach nobody.
func TestStderrReachesNoOtherCaller(t *testing.T) {
	command, err := json.Marshal([]string{"/bin/sh", "-c", fmt.Sprintf(gossip, discovered)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		extra        string
		own, crossed bool // alice sees her own lines; bob can crash her process
	}{
		{"", false, true},
		{`stderr = "off"`, false, true},
		{`stderr_to_clients = true`, false, true},
		{"isolation = \"shared\"\nstderr_to_clients = true", false, true},
		{"isolation = \"pool(1)\"\nstderr_to_clients = true", false, true},
		{"isolation = \"principal\"\nstderr_to_clients = true", true, false},
		{"isolation = \"principal\"", false, false},
	} {
		t.Run(c.extra, func(t *testing.T) {
			t.Parallel()
			toml, keys := keysToml("alice", "bob")
			r := startRig(t, "[security]\napi_keys_enabled = true\n"+toml+fmt.Sprintf("[upstreams.default]\ncommand = %s\nenv = { TOKEN = \"hunter2-token\" }\nbreaker_failures = 0\nretries = 0\n%s\n", command, c.extra), true)
			alice, bob := r.as(keys["alice"]), r.as(keys["bob"])
			says := func() {
				res := alice.must("POST", "/mcp", modernCall("1", "say", ""), append(modernHeaders("tools/call", "say"), "X-Request-Id", "alices")...)
				if res.status != 200 || strings.Contains(res.body, "error") {
					t.Fatalf("%d %s", res.status, res.body)
				}
				if !strings.Contains(c.extra, "off") {
					testkit.Eventually(t, "the line in the log", func() bool { return strings.Contains(r.logs.String(), "token (hidden)") })
				}
			}
			for what, ask := range map[string]func(*rig) *response{
				"MCP": func(r *rig) *response {
					return r.must("POST", "/mcp", modernCall("2", "crash", ""), modernHeaders("tools/call", "crash")...)
				},
				"REST": func(r *rig) *response {
					return r.must("POST", "/call-tool", `{"tool":"crash","arguments":{}}`, "Content-Type", jsonType)
				},
			} {
				says()
				res := ask(bob)
				if text := fmt.Sprint(res.header) + res.body; !strings.Contains(text, "has ended") || strings.Contains(text, `say`) || strings.Contains(text, "hunter2") {
					t.Errorf("%s: bob: %d %s", what, res.status, text)
				}
				if c.crossed {
					says()
				}
				res = ask(alice)
				if text := res.body; !strings.Contains(text, "has ended") || strings.Contains(text, "say") != c.own || strings.Contains(text, "hunter2") {
					t.Errorf("%s: alice: %d %s", what, res.status, text)
				}
			}
			for range 1 { // the circuit of starts opens, and everybody gets the last failure
				says := alice.must("POST", "/mcp", modernCall("3", "say", ""), modernHeaders("tools/call", "say")...)
				text := bob.must("POST", "/mcp", modernCall("4", "crash", ""), modernHeaders("tools/call", "crash")...).body + bob.must("GET", "/health", "").body
				if strings.Contains(text, "say") || says.status == 0 {
					t.Errorf("bob: %s", text)
				}
			}
			if strings.Contains(r.logs.String(), "hunter2") {
				t.Errorf("a secret in the log:\n%s", r.logs)
			}
		})
	}
}
