package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// auditedRig serves a configuration with an audit trail of everything, and returns a function that reads its lines.
func auditedRig(t *testing.T, toml string) (r *rig, lines func(part string) []auditLine) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	r = startRig(t, fmt.Sprintf("audit.enabled = true\naudit.methods = [\"*\"]\naudit.file = %q\n", file)+toml, true)
	return r, func(part string) (all []auditLine) {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			var a auditLine
			if strings.Contains(line, part) && strings.HasSuffix(line, "\n") {
				if err := json.Unmarshal([]byte(line), &a); err != nil {
					t.Errorf("%v: %s", err, line)
				}
				all = append(all, a)
			}
		}
		return all
	}
}

type auditLine struct{ Decision, Policy, Outcome, Status, Method, Verb, Path, Address, CorrelationID, Principal string }

// endpoints are all paths of the main listener, as requests that are well-formed but for what a test adds.
var endpoints = [][2]string{{"POST", "/mcp"}, {"GET", "/mcp"}, {"DELETE", "/mcp"}, {"GET", "/sse"}, {"POST", "/messages"}, {"POST", "/servers/default/mcp"},
	{"POST", "/call-tool"}, {"POST", "/tools/drop"}, {"POST", "/mcp/tools/call"}, {"GET", "/tools"}, {"GET", "/health"}, {"GET", "/openapi.json"}, {"GET", "/docs"}}

// What a gate refuses by its head is denied in the audit trail and counted, at every endpoint, once.
func TestRefusedHeadsAreRecorded(t *testing.T) {
	keys, _ := keysToml("ci")
	for name, c := range map[string]struct {
		config  string
		headers []string
		policy  string
		open    string // paths that need no credential
	}{
		"origin":            {headers: []string{"Origin", "https://evil.example"}, policy: "origin"},
		"host":              {headers: []string{"Host", "evil.example"}, policy: "origin"},
		"page of no origin": {headers: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, policy: "origin"},
		"credential":        {config: "[security]\napi_keys_enabled = true\n" + keys, headers: []string{"Authorization", "Bearer wrong"}, policy: "auth"},
		"no credential":     {config: "[security]\napi_keys_enabled = true\n" + keys, policy: "auth", open: "/health /docs"},
		"rate of address":   {config: "[security]\naddress_rate_limit = 10\n", policy: "rate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, lines := auditedRig(t, c.config+newUpstream(t, "legacy").toml(""))
			if c.policy == "rate" {
				for n := 0; r.must("GET", "/tools", "").status != 429; n++ {
					if n > 100 {
						t.Fatal("no rate")
					}
				}
				testkit.Eventually(t, "its line", func() bool { return len(lines(`"denied"`)) == 1 })
			}
			for _, at := range endpoints {
				if strings.Contains(c.open, at[1]) {
					continue
				}
				before, counted := len(lines("")), r.sum("dragoman_gate_refusals_total", "policy", c.policy)
				body := ""
				if at[0] == "POST" {
					body = modernCall("1", "drop", "")
				}
				res := r.must(at[0], at[1], body, append(append([]string{}, modernHeaders("tools/call", "drop")...), c.headers...)...)
				if res.status < 400 {
					t.Errorf("%s: %d %s", at, res.status, res.body)
				}
				testkit.Eventually(t, fmt.Sprint(at, ": a line"), func() bool { return len(lines("")) > before })
				all := lines("")
				got := all[len(all)-1]
				if len(all) != before+1 || got.Decision != "denied" || got.Policy != c.policy || got.Status != "error" || got.Verb != at[0] || got.Path != at[1] ||
					got.Address == "" || got.CorrelationID != res.header.Get("X-Request-Id") || got.Outcome == "" {
					t.Errorf("%s: %d new lines, the last one %+v", at, len(all)-before, got)
				}
				if n := r.sum("dragoman_gate_refusals_total", "policy", c.policy) - counted; n != 1 {
					t.Errorf("%s: counted %v times", at, n)
				}
			}
		})
	}
}

// A request that its session refuses, or for which there can be no session, is denied in the audit trail, counted and logged like others.
func TestRefusalsOfSessionsAreRecorded(t *testing.T) {
	recorded := func(t *testing.T, r *rig, lines func(string) []auditLine, policy, outcome, method string) {
		t.Helper()
		testkit.Eventually(t, "a line", func() bool { return len(lines(`"outcome":"`+outcome+`"`)) > 0 })
		all := lines(`"outcome":"` + outcome + `"`)
		if len(all) != 1 || all[0].Decision != "denied" || all[0].Policy != policy || all[0].Method != method {
			t.Errorf("lines: %+v", all)
		}
		if n := r.sum("dragoman_requests_total", "outcome", outcome, "method", method); n != 1 {
			t.Errorf("counted %v times", n)
		}
		if n := strings.Count(r.logs.String(), `"outcome":"`+outcome+`"`); n != 1 {
			t.Errorf("logged %d times", n)
		}
	}
	hang := func(u *upstream) <-chan *call { return hanging(u, 0) }
	for _, c := range [][2]string{{"http", "replay"}, {"sse", "replay"}, {"http", "off"}, {"sse", "off"}} {
		face, mode := c[0], c[1]
		t.Run("id in flight, "+face+", idempotency "+mode, func(t *testing.T) {
			u := newUpstream(t, "legacy")
			started := hang(u)
			r, lines := auditedRig(t, fmt.Sprintf("[idempotency]\nmode = %q\n", mode)+u.toml(""))
			client := testClient(newHTTPTestClient(r))
			if face == "sse" {
				client = newSSEChannelClient(r)
			}
			client.open("2025-11-25", "{}")
			client.send("a", legacyCall(`"same"`, "a"))
			testkit.Receive(t, "the first call", started)
			client.send("b", legacyCall(`"same"`, "b"))
			if got := client.receives("b"); !strings.Contains(got, `"error":{"code":-32600,"message":"`) {
				t.Errorf("received %s", got)
			}
			recorded(t, r, lines, "idempotency", "duplicate_request_id", "tools/call")
			client.send("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"same"}}`)
		})
	}
	t.Run("sessions.max", func(t *testing.T) {
		u := newUpstream(t, "legacy")
		started := hang(u)
		r, lines := auditedRig(t, "[sessions]\nmax = 1\n"+u.toml(""))
		client := newHTTPTestClient(r)
		client.open("2025-11-25", "{}")
		client.send("a", legacyCall("1", "a"))
		testkit.Receive(t, "the first call", started)
		if res := r.must("POST", "/mcp", stdioInit, legacyHeaders("")...); !strings.Contains(res.body, "sessions.max") || res.status != 200 {
			t.Errorf("%d %s", res.status, res.body)
		}
		recorded(t, r, lines, "limits", "too_many_sessions", "initialize")
		client.send("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	})
}
