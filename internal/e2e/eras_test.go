package e2e

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// initAs is an initialize that asks for a revision.
func initAs(version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, version)
}

const (
	modernDiscover = `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + modernMeta + `}}`
	// noInitialize is the answer to initialize of a listener without legacy revisions.
	noInitialize = `{"jsonrpc":"2.0","id":"i","error":{"code":-32022,"message":"initialize is not served here; send single requests of revision 2026-07-28","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`
)

// A listener without legacy revisions answers like a modern-only server, whatever the server behind it speaks.
func TestModernOnlyListener(t *testing.T) {
	for _, kind := range kinds {
		for _, list := range []string{`["modern"]`, `["2026-07-28"]`} {
			t.Run(kind+list, func(t *testing.T) {
				u := newUpstream(t, kind)
				u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
				r := startRig(t, "eras = "+list+"\n"+u.toml(""), true)
				u.forget()
				f := func(verb, path, body string, status int, want string, headers ...string) {
					t.Helper()
					if res := r.must(verb, path, body, headers...); res.status != status || !matches(want, res.body) || res.header.Get("Mcp-Session-Id") != "" {
						t.Errorf("%s %s %s: %d\n  %s\nwant %d\n  %s", verb, path, body, res.status, res.body, status, want)
					}
				}
				f("POST", "/mcp", initAs("2025-11-25"), 400, noInitialize, legacyHeaders("")...)
				f("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"header MCP-Protocol-Version is missing"}}`, legacyHeaders("")...)
				f("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, ``, legacyHeaders("x")...)
				f("POST", "/mcp", `[`+initAs("2025-03-26")+`]`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,…`, legacyHeaders("")...)
				f("GET", "/mcp", "", 405, `…"code":-32600,…`, "Accept", "text/event-stream")
				f("DELETE", "/mcp", "", 405, `…"code":-32600,…`, "Mcp-Session-Id", "x")
				f("GET", "/sse", "", 404, `…HTTP+SSE is not served here: eras has no legacy revision…`, "Accept", "text/event-stream")
				f("GET", "/mcp/sse", "", 404, `…HTTP+SSE is not served here…`, "Accept", "text/event-stream")
				f("POST", "/messages?sessionId=x", initAs("2024-11-05"), 404, `…HTTP+SSE is not served here…`, "Content-Type", jsonType)
				f("POST", "/mcp", modernCall("1", "a", ""), 200, `{"jsonrpc":"2.0","id":1,"result":{…"content":[]…}}`, modernHeaders("tools/call", "a")...)
				if n := r.h.Sessions().Len(); n != 0 {
					t.Errorf("%d sessions", n)
				}
			})
		}
	}
}

// A listener without modern revisions answers like a legacy server: with a 400 that is no modern error, after which clients of both eras
// send initialize.
func TestLegacyOnlyListener(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
			r := startRig(t, "eras = [\"legacy\"]\n"+u.toml(""), true)
			u.forget()
			refused := `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"…send initialize…"}}`
			for _, res := range []struct{ body, id, method, name string }{
				{modernDiscover, `"d"`, "server/discover", ""},
				{modernCall("1", "a", ""), "1", "tools/call", "a"},
				{strings.ReplaceAll(modernDiscover, "2026-07-28", "2031-01-01"), `"d"`, "server/discover", ""},
			} {
				got := r.must("POST", "/mcp", res.body, modernHeaders(res.method, res.name)...)
				if got.status != 400 || !matches(fmt.Sprintf(refused, res.id), got.body) {
					t.Errorf("%s: %d %s", res.body, got.status, got.body)
				}
			}
			if n := len(u.all("tools/call")); n != 0 {
				t.Errorf("the server saw %d calls", n)
			}
			id := r.open("2025-06-18", "{}")
			if res := r.must("POST", "/mcp", legacyCall("2", "a"), legacyHeaders(id)...); res.status != 200 || !matches(`{"jsonrpc":"2.0","id":2,"result":{…"content":[]}}`, res.body) {
				t.Errorf("%d %s", res.status, res.body)
			}
			c := r.sse("/sse")
			c.send(stdioInit)
			c.receives(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25",…`)
		})
	}
}

// A list of revisions limits what initialize negotiates, at every server and over every transport.
func TestListenerRevisions(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			toml := "eras = [\"2025-06-18\", \"2025-03-26\"]\n" + u.toml("")
			r := startRig(t, toml, true)
			u.forget()
			for asked, want := range map[string]string{"2025-11-25": "2025-06-18", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "2024-11-05": "2025-06-18", "1999-01-01": "2025-06-18"} {
				res := r.must("POST", "/mcp", initAs(asked), legacyHeaders("")...)
				if !matches(`{"jsonrpc":"2.0","id":"i","result":{…"protocolVersion":"`+want+`"…}}`, res.body) || res.header.Get("Mcp-Session-Id") == "" {
					t.Errorf("asked for %s: %d %s", asked, res.status, res.body)
				}
			}
			c := r.sse("/sse")
			c.send(initAs("2024-11-05"))
			c.receives(`{"jsonrpc":"2.0","id":"i","result":{…"protocolVersion":"2025-06-18"…}}`)
			p := startStdio(t, toml)
			p.send(initAs("2025-11-25"))
			p.receives(`{"jsonrpc":"2.0","id":"i","result":{…"protocolVersion":"2025-06-18"…}}`)
			for _, s := range u.all("initialize") {
				if u.legacy && !strings.Contains(s.body, `"name":"dragoman"`) && !strings.Contains(s.body, `"2025-06-18"`) && !strings.Contains(s.body, `"2025-03-26"`) {
					t.Errorf("the server saw %s", s.body)
				}
			}
		})
	}
}

// If the server negotiates a revision that the listener does not serve, the handshake fails and no session is left.
func TestServerNegotiatesAnotherRevision(t *testing.T) {
	for _, kind := range []string{"legacy", "sse", "legacy-stdio"} {
		u := newUpstream(t, kind)
		u.on("initialize", func(c *call) { c.result(fmt.Sprintf(welcomed, "2025-06-18")) })
		r := startRig(t, "eras = [\"2025-11-25\"]\n"+u.toml(""), true)
		res := r.must("POST", "/mcp", initAs("2025-11-25"), legacyHeaders("")...)
		if res.status != 200 || !matches(`{"jsonrpc":"2.0","id":"i","error":{"code":-32603,"message":"…settled on revision 2025-06-18, which eras…","data":{"code":"upstream_bad_answer","retryable":false}}}`, res.body) {
			t.Errorf("%s: %d %s", kind, res.status, res.body)
		}
		testkit.Eventually(t, "the end of the session", func() bool { return r.h.Sessions().Len() == 0 })
	}
}

// The policy applies to each request of a stdio client.
func TestStdioEras(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
			p := startStdio(t, "eras = [\"modern\"]\n"+u.toml(""))
			p.send(initAs("2025-11-25"))
			p.receives(noInitialize)
			p.send(modernCall("1", "a", ""))
			p.receives(`{"jsonrpc":"2.0","id":1,"result":{…`)

			p = startStdio(t, "eras = [\"legacy\"]\n"+u.toml(""))
			p.send(modernDiscover)
			p.receives(`{"jsonrpc":"2.0","id":"d","error":{"code":-32600,"message":"revision 2026-07-28 is not served here; send initialize with one of 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"}}`)
			p.send(initAs("2025-11-25"))
			p.receives(`{"jsonrpc":"2.0","id":"i","result":{…`)
			p.send(legacyCall("2", "a"))
			p.receives(`{"jsonrpc":"2.0","id":2,"result":{…`)
		})
	}
}

// server/discover offers no revision that initialize would refuse.
func TestDiscoverNamesWhatIsServed(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("server/discover", func(c *call) {
		c.result(strings.Replace(discovered, `["2026-07-28"]`, `["2031-01-01", "2026-07-28", "2025-11-25", "2025-06-18"]`, 1))
	})
	r := startRig(t, "eras = [\"modern\", \"2025-06-18\"]\n"+u.toml(""), true)
	if res := r.must("POST", "/mcp", modernDiscover, modernHeaders("server/discover", "")...); !matches(`{…"supportedVersions":["2031-01-01","2026-07-28","2025-06-18"],"capabilities"…}`, res.body) {
		t.Errorf("%d %s", res.status, res.body)
	}
}

// The eras of a server: an excluded era is not probed, and an excluded revision is not requested.
func TestUpstreamEras(t *testing.T) {
	for _, kind := range []string{"legacy", "sse", "legacy-stdio"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
			r := startRig(t, u.toml(`eras = ["2025-06-18", "2024-11-05"]`), true)
			if n := len(u.all("server/discover")); n != 0 {
				t.Errorf("%d probes of an excluded era", n)
			}
			for asked, want := range map[string]string{"2025-11-25": "2025-06-18", "2024-11-05": "2024-11-05"} {
				if res := r.must("POST", "/mcp", initAs(asked), legacyHeaders("")...); !matches(`{…"protocolVersion":"`+want+`"…}`, res.body) {
					t.Errorf("asked for %s: %s", asked, res.body)
				}
			}
			if res := r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...); !matches(`{"jsonrpc":"2.0","id":1,"result":{…`, res.body) {
				t.Errorf("%s", res.body)
			}
			for _, s := range u.all("initialize") {
				if !strings.Contains(s.body, `"2025-06-18"`) && !strings.Contains(s.body, `"2024-11-05"`) {
					t.Errorf("the server saw %s", s.body)
				}
			}
		})
	}
	for _, kind := range []string{"modern", "modern-stdio"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			r := startRig(t, u.toml(`eras = ["modern"]`), true)
			if n := len(u.all("initialize")); n != 0 {
				t.Errorf("%d handshakes of an excluded era", n)
			}
			_ = r.open("2025-11-25", "{}")
		})
	}
}

// A server without an allowed revision is not used with another one.
func TestUpstreamNegotiatesAnotherRevision(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.on("initialize", func(c *call) { c.result(fmt.Sprintf(welcomed, "2024-11-05")) })
	r := startRig(t, u.toml(`eras = ["2025-06-18"]`), false)
	res := r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
	if !matches(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…settled on revision 2024-11-05, which upstreams.NAME.eras excludes…","data":{"code":"upstream_era_unknown","retryable":true}}}`, res.body) {
		t.Errorf("%d %s", res.status, res.body)
	}
}

// The errors that the specification sends with 400 and 404 have status 200 and the same body if error_status is compat.
func TestErrorStatus(t *testing.T) {
	cases := []struct {
		name, body, want string
		strict           int
		headers          []string
	}{
		{"no version header", modernCall("1", "a", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"header MCP-Protocol-Version is missing"}}`, 400, legacyHeaders("")},
		{"unknown revision", strings.ReplaceAll(modernCall("2", "a", ""), "2026-07-28", "2031-01-01"), `{"jsonrpc":"2.0","id":2,"error":{"code":-32022,"message":"protocol revision \"2031-01-01\" is not supported for single requests","data":{"supported":["2026-07-28"],"requested":"2031-01-01"}}}`, 400,
			[]string{"Content-Type", jsonType, "MCP-Protocol-Version", "2031-01-01", "Mcp-Method", "tools/call", "Mcp-Name", "a"}},
		{"envelope", `{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"params._meta[\"io.modelcontextprotocol/clientCapabilities\"] must be an object"}}`, 400, modernHeaders("tools/list", "")},
		{"removed method", `{"jsonrpc":"2.0","id":4,"method":"ping","params":{` + modernMeta + `}}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"method ping does not exist in revision 2026-07-28"}}`, 404, modernHeaders("ping", "")},
		{"the server's own", `{"jsonrpc":"2.0","id":5,"method":"x/y","params":{` + modernMeta + `}}`, `{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"unknown method"}}`, 404, modernHeaders("x/y", "")},
		{"missing capability", modernCall("6", "asks", ""), `{"jsonrpc":"2.0","id":6,"error":{"code":-32021,"message":"needed","data":{"requiredCapabilities":{"sampling":{}}}}}`, 400, modernHeaders("tools/call", "asks")},
		{"media type", modernCall("7", "a", ""), `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,…`, 415, []string{"Content-Type", "text/plain"}},
		{"host", modernCall("8", "a", ""), `…"code":-32600,…`, 403, []string{"Content-Type", jsonType, "Host", "evil.example"}},
		{"no JSON", `{`, `{"jsonrpc":"2.0","error":{"code":-32700,…`, 400, modernHeaders("tools/call", "a")},
		{"no request", `{"jsonrpc":"2.0","id":1,"result":{}}`, `…"code":-32600,…`, 400, modernHeaders("tools/call", "a")},
		{"success", modernCall("9", "a", ""), `{"jsonrpc":"2.0","id":9,"result":{…`, 200, modernHeaders("tools/call", "a")},
	}
	for _, mode := range []string{"strict", "compat"} {
		u := newUpstream(t, "modern")
		u.on("tools/call", func(c *call) {
			if strings.Contains(c.body, `"asks"`) {
				c.error(400, `{"code":-32021,"message":"needed","data":{"requiredCapabilities":{"sampling":{}}}}`)
				return
			}
			c.result(`{"resultType":"complete","content":[]}`)
		})
		r := startRig(t, fmt.Sprintf("error_status = %q\n", mode)+u.toml(""), true)
		for _, c := range cases {
			status := c.strict
			if mode == "compat" && c.name != "no JSON" && c.name != "no request" && (status == 400 || status == 404) {
				status = 200
			}
			if res := r.must("POST", "/mcp", c.body, c.headers...); res.status != status || !matches(c.want, res.body) {
				t.Errorf("%s, %s: %d\n  %s\nwant %d\n  %s", mode, c.name, res.status, res.body, status, c.want)
			}
		}
		if res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, legacyHeaders("unknown")...); res.status != 404 {
			t.Errorf("%s: a legacy client's unknown session: %d", mode, res.status)
		}
	}
}

// What is lost is logged once the server profile is known: a line for operators, and the table at debug.
func TestDegradationsAreLogged(t *testing.T) {
	f := func(kind, head, want, not string) {
		t.Helper()
		u := newUpstream(t, kind)
		h, logs := startApp(t, head+u.toml(""))
		h.Probe(t.Context(), make(chan error, 1))
		testkit.Eventually(t, "the line of "+kind, func() bool { return matches("…"+want+"…", logs.String()) })
		if not != "" && strings.Contains(logs.String(), not) {
			t.Errorf("%s: %s", kind, logs)
		}
	}
	f("modern", "", `"level":"info","upstream":"default",…legacy clients: structured results, …only if the server has no legacy side`, "modern clients:")
	f("legacy", "", `"level":"info","upstream":"default",…modern clients: lists, questions, url elicitation, tasks, logs, errors"`, "legacy clients:")
	f("legacy", "eras = [\"legacy\"]\n", `no client loses anything by translation`, "modern clients:")
	f("sse", "", `"clients":"all","feature":"resumption",`, "")
}

// dragoman probe prints the table.
func TestProbeReport(t *testing.T) {
	f := func(kind string, asJSON bool, want string) {
		t.Helper()
		u := newUpstream(t, kind)
		cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "probe.toml", u.toml("probe_timeout = \"5s\""))})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := app.RunProbe(t.Context(), cfg, app.Streams{Out: &out, Err: &testkit.LockedBuffer{}}, asJSON, testkit.Patient); err != nil {
			t.Fatal(err)
		}
		if !matches(want, out.String()) {
			t.Errorf("%s:\n%s\nwant\n%s", kind, out.String(), want)
		}
	}
	f("legacy", false, "…\ndegrades       modern  lists            may differ from session…\n               modern  questions        come as input_required…\n               modern  tasks            tools that can only run as a task are hidden\n…")
	f("legacy", true, `{…"degrades": [
    {
      "clients": "modern",
      "feature": "lists",
      "what": "may differ…"
    },…`)
	f("modern-stdio", false, "…               legacy before 2025-06-18  elicitation         is not asked at all\n…               all                       logs                a log message of the child names no call;…")
}
