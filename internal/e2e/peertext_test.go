package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/prometheus/common/expfmt"
)

// peerFields are the places in which a client or a server can put a text of its own, each as what it sends or answers.
var peerFields = map[string]func(r *rig, u *upstream, text string){
	"method":     func(r *rig, _ *upstream, text string) { r.sends(text, "", "") },
	"tool":       func(r *rig, _ *upstream, text string) { r.sends("tools/call", text, "") },
	"prompt":     func(r *rig, _ *upstream, text string) { r.sends("prompts/get", text, "") },
	"uri":        func(r *rig, _ *upstream, text string) { r.sends("resources/read", "demo://"+text, "") },
	"denied uri": func(r *rig, _ *upstream, text string) { r.sends("resources/read", "denied://"+text, "") },
	"client":     func(r *rig, _ *upstream, text string) { r.sends("tools/list", "", text) },
	"version": func(r *rig, _ *upstream, text string) {
		r.says(legacyHeaders(""), fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":%s}}}`, quote(text)))
	},
	"legacy version": func(r *rig, _ *upstream, text string) {
		r.says(legacyHeaders(""), strings.Replace(stdioInit, `"2025-11-25"`, quote(text), 1))
	},
	"legacy client": func(r *rig, _ *upstream, text string) {
		r.says(legacyHeaders(""), strings.Replace(stdioInit, `"name":"c"`, `"name":`+quote(text), 1))
	},
	"id": func(r *rig, _ *upstream, text string) {
		r.says(modernHeaders("x", ""), strings.Replace(modernBody(1, "x", ""), `"id":1`, `"id":`+quote(text), 1))
	},
	"level": func(r *rig, _ *upstream, text string) {
		r.says(legacyHeaders(r.open("2025-11-25", "{}")), legacyBody(1, "logging/setLevel", `"level":`+quote(text)))
	},
	"member": func(r *rig, _ *upstream, text string) {
		r.says(legacyHeaders(""), `{"jsonrpc":"2.0","id":1,"method":"x","params":{`+quote(text)+`:1,`+quote(text)+`:2}}`)
	},
	"session": func(r *rig, _ *upstream, text string) {
		r.says(legacyHeaders(headerText(text)), legacyBody(1, "tools/list", ""))
	},
	"mirrored name": func(r *rig, _ *upstream, text string) {
		r.says(modernHeaders("tools/call", headerText(text)), modernBody(1, "tools/call", theTool))
	},
	"mirrored method": func(r *rig, _ *upstream, text string) {
		r.says(modernHeaders(headerText(text), ""), modernBody(1, "tools/list", ""))
	},
	"media type": func(r *rig, _ *upstream, text string) {
		r.says([]string{"Content-Type", headerText(text)}, modernBody(1, "tools/list", ""))
	},
	"origin": func(r *rig, _ *upstream, text string) {
		r.says(append(modernHeaders("tools/list", ""), "Origin", headerText(text)), modernBody(1, "tools/list", ""))
	},
	"request id": func(r *rig, _ *upstream, text string) {
		r.says(append(modernHeaders("tools/list", ""), "X-Request-Id", headerText(text)), modernBody(1, "tools/list", ""))
	},
	"user agent": func(r *rig, _ *upstream, text string) {
		r.says(append(modernHeaders("tools/list", ""), "User-Agent", headerText(text)), modernBody(1, "tools/list", ""))
	},
	"trace": func(r *rig, _ *upstream, text string) {
		r.says(append(modernHeaders("tools/list", ""), "Traceparent", headerText(text), "Baggage", headerText(text)), modernBody(1, "tools/list", ""))
	},
	"path": func(r *rig, _ *upstream, text string) {
		r.asks("POST", "/"+pathText(text), "{}", "Content-Type", jsonType)
	},
	"server in a path": func(r *rig, _ *upstream, text string) {
		r.asks("POST", "/servers/"+pathText(text)+"/mcp", "{}", "Content-Type", jsonType)
	},
	"rest method": func(r *rig, _ *upstream, text string) {
		r.asks("POST", "/mcp/"+pathText(text), "{}", "Content-Type", jsonType)
	},
	"rest tool": func(r *rig, _ *upstream, text string) {
		r.asks("POST", "/call-tool", `{"tool":`+quote(text)+`,"arguments":{}}`, "Content-Type", jsonType)
	},
	"rest tool's path": func(r *rig, _ *upstream, text string) {
		r.asks("POST", "/tools/"+pathText(text), "{}", "Content-Type", jsonType)
	},
	"rest level": func(r *rig, _ *upstream, text string) {
		r.asks("POST", "/call-tool", `{"tool":"drop","arguments":{},"log_level":`+quote(text)+`}`, "Content-Type", jsonType)
	},
	"server's error": func(r *rig, u *upstream, text string) {
		u.on("prompts/get", func(c *call) { c.error(200, `{"code":-32050,"message":`+quote(text)+`}`) })
		r.sends("prompts/get", "p", "")
	},
	"server's refusal": func(r *rig, u *upstream, text string) {
		u.on("prompts/get", func(c *call) { c.error(200, `{"code":-32022,"message":`+quote(text)+`}`) })
		r.sends("prompts/get", "p", "")
	},
	"server's status": func(r *rig, u *upstream, text string) {
		u.on("prompts/get", func(c *call) { c.raw(502, "text/plain", text) })
		r.sends("prompts/get", "p", "")
	},
	"server's media type": func(r *rig, u *upstream, text string) {
		u.on("prompts/get", func(c *call) { c.raw(200, headerText(text), text) })
		r.sends("prompts/get", "p", "")
	},
	"server's nonsense": func(r *rig, u *upstream, text string) {
		u.on("prompts/get", func(c *call) { c.raw(200, jsonType, `{"jsonrpc":"2.0","id":$ID,"`+quote(text)[1:]+`:1}`) })
		r.sends("prompts/get", "p", "")
	},
	"server's tools": func(r *rig, u *upstream, text string) {
		u.on("tools/list", func(c *call) {
			c.result(`{"tools":[{"name":` + quote(text) + `,"inputSchema":{"type":"object","pattern":` + quote(text) + `}}]}`)
		})
		r.sends("tools/list", "", "")
		r.asks("GET", "/tools", "")
		r.sends("tools/call", text, "")
		u.on("tools/list", func(c *call) { c.result(`{"tools":[]}`) })
	},
}

// passed are the fields whose texts an answer has because they belong to it: the id of the request, and what a server says.
var passed = map[string]bool{"id": true, "server's error": true, "server's refusal": true, "legacy version": true}

// headerText and pathText are a text as far as a header and a path can have it.
func headerText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text[:min(len(text), 20<<10)])
}

func pathText(text string) string {
	return strings.NewReplacer("\x1b", "%1B", "\u202e", "%E2%80%AE", "\n", "%0A", "\u2028", "%E2%80%A8", "\u200b", "%E2%80%8B").Replace(text[:min(len(text), 20<<10)])
}

// sends makes a modern request about a name, by a client of a name.
func (r *rig) sends(method, name, client string) {
	params := ""
	if name != "" {
		params = map[bool]string{true: `"uri":`, false: `"name":`}[method == "resources/read"] + quote(name)
		if method == "tools/call" {
			params += `,"arguments":{}`
		}
	}
	body := modernBody(1, method, params)
	if client != "" {
		body = strings.Replace(body, `"name":"c"`, `"name":`+quote(client), 1)
	}
	headers := modernHeaders(headerText(method), "")
	if named := mirrored(method, params); named != "" && len(named) < 40<<10 {
		headers = append(headers, "Mcp-Name", named)
	}
	r.says(headers, body)
}

// says posts a message.
func (r *rig) says(headers []string, body string) { r.asks("POST", "/mcp", body, headers...) }

// asks is must, and keeps the answer.
func (r *rig) asks(verb, path, body string, headers ...string) {
	r.answer = r.must(verb, path, body, headers...)
}

// A text that a peer chose is cut and made visible in the log, the audit trail, spans, metrics and errors, whatever it is part of.
func TestTextsOfPeersAreBoundedAndVisible(t *testing.T) {
	const evil = "x\x1b[2J\u202ey\n\u2028\u200b"
	texts := map[string]string{"long": strings.Repeat("L", 1<<20), "evil": evil, "long and evil": strings.Repeat(evil, 1<<16)}
	u := newUpstream(t, "legacy")
	u.on("tools/list", func(c *call) { c.result(`{"tools":[]}`) })
	file, spans := filepath.Join(t.TempDir(), "audit.log"), newCollector(t)
	toml := fmt.Sprintf("[limits]\nrequest_body = \"8MiB\"\nheader = \"128KiB\"\n[audit]\nenabled = true\nmethods = [\"*\"]\narguments = \"full\"\nfile = %q\n", file) +
		spans.toml("") + u.toml("") + "[upstreams.default.access.\"*\"]\ndeny_resources = [\"denied:*\"]\n"
	r := startRig(t, toml, true)
	for field, send := range peerFields {
		for kind, text := range texts {
			logs, audit := len(r.logs.String()), fileSize(file)
			spans.forget()
			send(r, u, text)
			if n := len(r.answer.body); n > 8<<10 && !passed[field] {
				t.Errorf("%s, %s: an answer of %d bytes: %.300s", field, kind, n, r.answer.body)
			}
			for name, values := range r.answer.header {
				if n := len(strings.Join(values, "")); n > 1<<10 {
					t.Errorf("%s, %s: a header %s of %d bytes", field, kind, name, n)
				}
			}
			u.on("prompts/get", func(c *call) { c.result(`{"messages":[]}`) })
			r.must("POST", "/mcp", modernBody(2, "prompts/get", `"name":"p"`), modernHeaders("prompts/get", "p")...) // the records of all that came before are made
			said := r.logs.String()[logs:]
			if len(said) > 16<<10 {
				t.Errorf("%s, %s: %d bytes of log: %.300s", field, kind, len(said), said)
			}
			if n := fileSize(file) - audit; n > 16<<10 {
				t.Errorf("%s, %s: %d bytes of audit trail", field, kind, n)
			}
			visibly(t, field+", "+kind+": the log", said)
			for _, s := range spans.all() {
				if n := len(s.String()); n > 4<<10 {
					t.Errorf("%s, %s: a span of %d bytes", field, kind, n)
				}
				for _, a := range s.Attributes {
					visibly(t, field+", "+kind+": a span", a.Value.GetStringValue())
				}
				visibly(t, field+", "+kind+": a span", s.Name+s.Status.GetMessage())
			}
		}
	}
	text, _ := os.ReadFile(file)
	visibly(t, "the audit trail", string(text))
	all, err := r.h.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var metrics strings.Builder
	for _, f := range all {
		_, _ = expfmt.MetricFamilyToText(&metrics, f)
	}
	for line := range strings.Lines(metrics.String()) {
		if len(line) > 1<<10 {
			t.Errorf("a metric of %d bytes: %.100s", len(line), line)
		}
	}
	visibly(t, "the metrics", metrics.String())
}

// visibly checks that every character of a text can be seen.
func visibly(t *testing.T, what, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%s has %q", what, text[max(0, i-60):min(len(text), i+60)])
	}
}

func fileSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}
