package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

var deep = strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10000)

// hostileBodies are bodies that no endpoint may accept as a message, with the code and, if it can be read, the id of the answer. $META is
// filled in for modern clients only.
var hostileBodies = []struct{ name, body, code string }{
	{"empty", ``, "-32700"},
	{"space", " \r\n\t ", "-32700"},
	{"truncated", `{"jsonrpc":"2.0","id":1,"method":"tools/list"`, "-32700"},
	{"trailing", `{"jsonrpc":"2.0","id":1,"method":"tools/list"} x`, "-32700"},
	{"two messages", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "-32700"},
	{"comma", `{"jsonrpc":"2.0","id":1,"method":"tools/list",}`, "-32700"},
	{"single quotes", `{'jsonrpc':'2.0'}`, "-32700"},
	{"NaN", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}`, "-32700"},
	{"leading zero", `{"jsonrpc":"2.0","id":01,"method":"m"}`, "-32700"},
	{"NUL outside", "{\"jsonrpc\":\"2.0\",\x00\"id\":1,\"method\":\"m\"}", "-32700"},
	{"NUL in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\x00\"}", "-32700"},
	{"raw newline in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\nn\"}", "-32700"},
	{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"a\":\"\xff\xfe\"}}", "-32700"},
	{"overlong UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc0\xaf\"}", "-32700"},
	{"nesting", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + deep + `}`, "-32"},
	{"nesting of arrays", strings.Repeat("[", 10000) + strings.Repeat("]", 10000), "-32"},
	{"no object", `"hello"`, "-32"},
	{"null", `null`, "-32"},
	{"number", `12`, "-32"},
	{"duplicate id", `{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`, "-32600"},
	{"duplicate method", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`, "-32600"},
	{"duplicate params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"params":{"name":"b"}}`, "-32600"},
	{"duplicate name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, "-32600"},
	{"case variant", `{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call"}`, "-32600"},
	{"case variant of params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"PARAMS":{"name":"b"}}`, "-32600"},
	{"escaped duplicate", `{"jsonrpc":"2.0","id":1,"method":"tools/list","\u006dethod":"tools/call"}`, "-32600"},
	{"id null", `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, "-32600"},
	{"id fraction", `{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}`, "-32600"},
	{"id object", `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, "-32600"},
	{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, "-32600"},
	{"no jsonrpc", `{"id":1,"method":"tools/list"}`, "-32600"},
	{"params array", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, "-32600"},
	{"method number", `{"jsonrpc":"2.0","id":1,"method":5}`, "-32600"},
	{"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, "-32600"},
}

func TestHostileClients(t *testing.T) {
	u := newUpstream(t, "modern-stdio")
	u.on("tools/list", func(c *call) { c.result(`{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`) })
	r := startRig(t, u.toml(""), true)
	session := r.open("2025-11-25", "{}")
	sse := r.sse("/sse")
	sse.send(stdioInit)
	sse.receives("…")
	faces := []struct {
		name   string
		status string
		send   func(body string) *response
		alive  func() bool
	}{
		{"modern", "400", func(body string) *response {
			return r.must("POST", "/mcp", body, modernHeaders("tools/list", "")...)
		}, func() bool {
			res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`, modernHeaders("tools/list", "")...)
			return strings.Contains(res.body, `"tools":[]`)
		}},
		{"legacy", "400", func(body string) *response {
			return r.must("POST", "/mcp", body, legacyHeaders(session)...)
		}, func() bool {
			return strings.Contains(r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, legacyHeaders(session)...).body, `"tools":[]`)
		}},
		{"sse", "400", func(body string) *response { return r.must("POST", sse.post, body, "Content-Type", jsonType) }, func() bool {
			sse.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			_, data := sse.event()
			return strings.Contains(data, `"tools":[]`)
		}},
	}
	for _, face := range faces {
		t.Run(face.name, func(t *testing.T) {
			u.forget()
			for _, h := range hostileBodies {
				res := face.send(h.body)
				if fmt.Sprint(res.status) != face.status || !strings.Contains(res.body, `"error":{"code":`+h.code) {
					t.Errorf("%s: %d %s", h.name, res.status, res.body)
				}
			}
			if n := u.posts(); n != 0 {
				t.Errorf("the server saw %d messages", n)
			}
			if !face.alive() {
				t.Error("not served afterwards")
			}
		})
	}
}

func TestHostileLines(t *testing.T) {
	u := newUpstream(t, "modern-stdio")
	u.on("tools/list", func(c *call) { c.result(`{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`) })
	p := startStdio(t, "[limits]\nline = \"64KiB\"\n"+u.toml(""))
	for _, h := range hostileBodies {
		if strings.TrimSpace(h.body) == "" || strings.Contains(h.body, "\n") || len(h.body) > 60<<10 {
			continue // no line, or several
		}
		p.send(h.body)
		p.receives(`{"jsonrpc":"2.0",…"error":{"code":` + h.code + `…`)
	}
	p.send(strings.Repeat("x", 100<<10))
	p.receives(`{"jsonrpc":"2.0","error":{"code":-32600,"message":"…limits.line, 65536 bytes"}}`)
	p.send("\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + modernMeta + `}}` + "\r") // BOM and CRLF
	p.receives(`{"jsonrpc":"2.0","id":2,"result":{…"tools":[]…`)
	p.send("")
	p.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{` + modernMeta + `}}`)
	p.receives(`{"jsonrpc":"2.0","id":3,"result":{…"tools":[]…`)
}

// Other output of a child is skipped; lines that break a call's answer end that call; and the same child serves the next request.
func TestHostileChildren(t *testing.T) {
	u := newUpstream(t, "legacy-stdio")
	r := startRig(t, "[limits]\nline = \"64KiB\"\n"+u.toml(""), true)
	f := func(name, line, want string) {
		t.Helper()
		u.on("tools/call", func(c *call) { c.event(line) })
		if want == "" {
			u.on("tools/call", func(c *call) { c.event(line); c.result(`{"content":[]}`) })
			want = `{"jsonrpc":"2.0","id":1,"result":{…`
		}
		res := r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
		if !matches(want, res.body) {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
		u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
		res = r.must("POST", "/mcp", modernCall("2", "a", ""), modernHeaders("tools/call", "a")...)
		if !matches(`{"jsonrpc":"2.0","id":2,"result":{…`, res.body) {
			t.Errorf("%s: afterwards %d %s", name, res.status, res.body)
		}
	}
	f("text", "Server started on stdio", "")
	f("empty line", "", "")
	f("a log line in JSON", `{"level":"info","id":1,"msg":"started"}`, "")
	f("CRLF", "hello\r", "")
	f("NUL", "\x00\x00", "")
	f("invalid UTF-8", "\xff\xfe", "")
	f("an answer to nobody", `{"jsonrpc":"2.0","id":99999,"result":{}}`, "")
	f("an answer with a strange id", `{"jsonrpc":"2.0","id":"x","result":{}}`, "")
	f("an unknown notification", `{"jsonrpc":"2.0","method":"notifications/unknown"}`, "")
	f("long noise", strings.Repeat("x", 100<<10), "")
	f("a long notification", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+strings.Repeat("x", 100<<10)+`"}}`, "")
	f("a long answer with its id at the end", `{"result":{"content":"`+strings.Repeat("x", 100<<10)+`"},"jsonrpc":"2.0","id":$ID}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…limits.line…","data":{"code":"response_too_large","retryable":false}}}`)
	f("a long answer", `{"jsonrpc":"2.0","id":$ID,"result":{"content":"`+strings.Repeat("x", 100<<10)+`"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…limits.line, 65536 bytes","data":{"code":"response_too_large","retryable":false}}}`)
	f("a deep answer", `{"jsonrpc":"2.0","id":$ID,"result":`+strings.Repeat("[", 10000)+strings.Repeat("]", 10000)+`}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…","data":{"code":"upstream_bad_answer","retryable":false}}}`)
	f("an answer in invalid UTF-8", `{"jsonrpc":"2.0","id":$ID,"result":{"content":"`+"\xff"+`"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…","data":{"code":"upstream_bad_answer","retryable":false}}}`)
	f("result and error", `{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…","data":{"code":"upstream_bad_answer","retryable":false}}}`)
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.procs); n != 2 { // one to probe, one to serve
		t.Errorf("%d processes", n)
	}
}

// Answers over HTTP beyond the limits, or invalid ones: an error that names the limit, and the next request is served.
func TestHostileServers(t *testing.T) {
	big := strings.Repeat("x", 100<<10)
	tooLarge := func(limit string) string {
		return `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…` + limit + `…","data":{"code":"response_too_large","retryable":false}}}`
	}
	bad := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…","data":{"code":"upstream_bad_answer","retryable":false}}}`
	f := func(name string, a answer, want string) {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{"modern", "legacy"} {
				u := newUpstream(t, kind)
				r := startRig(t, "[limits]\nresponse_body = \"64KiB\"\nevent = \"64KiB\"\n"+u.toml(""), true)
				u.on("tools/call", a)
				res := r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
				if got := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(res.body), "event: message\ndata: ")); !matches(want, got) {
					t.Errorf("%s: %d %s", kind, res.status, res.body)
				}
				u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
				res = r.must("POST", "/mcp", modernCall("2", "a", ""), modernHeaders("tools/call", "a")...)
				if !matches(`{"jsonrpc":"2.0","id":2,"result":{…`, res.body) {
					t.Errorf("%s afterwards: %d %s", kind, res.status, res.body)
				}
			}
		})
	}
	f("a large body", func(c *call) { c.result(`{"resultType":"complete","content":"` + big + `"}`) }, tooLarge("limits.response_body, 65536 bytes"))
	f("a large event", func(c *call) {
		c.raw(200, "text/event-stream", `data: {"jsonrpc":"2.0","id":$ID,"result":{"content":"`+big+`"}}`+"\n\n")
	}, tooLarge("limits.event"))
	f("an endless line", func(c *call) { c.raw(200, "text/event-stream", "data: "+big+big) }, tooLarge("limits.event"))
	f("an event of many lines", func(c *call) {
		c.raw(200, "text/event-stream", strings.Repeat("data: x\n", 40<<10)+"\n")
	}, tooLarge("limits.event"))
	f("deep", func(c *call) { c.result(strings.Repeat("[", 10000) + strings.Repeat("]", 10000)) }, bad)
	f("invalid UTF-8", func(c *call) { c.result("{\"a\":\"\xff\"}") }, bad)
	f("NUL", func(c *call) { c.result("{\"a\":\"\x00\"}") }, bad)
	f("duplicate members", func(c *call) { c.message(200, `{"jsonrpc":"2.0","id":$ID,"result":{},"result":{}}`) }, bad)
	f("another id", func(c *call) { c.message(200, `{"jsonrpc":"2.0","id":"zzz","result":{}}`) }, bad)
	f("HTML", func(c *call) { c.raw(200, "text/html", "<html>") }, bad)
	f("an event of garbage", func(c *call) { c.raw(200, "text/event-stream", "data: garbage\n\n") }, bad)
	f("an empty array", func(c *call) { c.raw(200, "text/event-stream", "data: []\n\n") }, bad)
	f("202", func(c *call) { c.raw(202, "text/plain", "") }, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…HTTP 202…","data":{"code":"upstream_http_status","retryable":false}}}`)
	f("a closed connection", func(c *call) { c.drop() }, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…","data":{"code":"upstream_lost","retryable":false}}}`)
	f("no HTTP", func(c *call) {
		conn, _, err := c.w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "SSH-2.0-x\r\n\r\n")
			_ = conn.Close()
		}
	}, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…","data":{"code":"upstream_…","retryable":false}}}`)
}

// A body or head beyond the limit, and requests that are no HTTP.
func TestRequestLimits(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[limits]\nrequest_body = \"4KiB\"\nheader = \"4KiB\"\n"+u.toml(""), true)
	u.forget()
	raw := func(request string) (status int, body string) {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		go func() { _, _ = io.WriteString(conn, request) }() // may fail: the answer comes before everything is read
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = res.Body.Close() }()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	f := func(name, request string, want int, text string) {
		t.Helper()
		if status, body := raw(request); status != want || !strings.Contains(body, text) {
			t.Errorf("%s: %d %s; want %d %s", name, status, body, want, text)
		}
		res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modernMeta+`}}`, modernHeaders("server/discover", "")...)
		if res.status != 200 {
			t.Errorf("%s: afterwards %d %s", name, res.status, res.body)
		}
	}
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	large := strings.Repeat("x", 8<<10)
	f("a body by length", head+"Content-Length: 8192\r\n\r\n"+large, 413, "limits.request_body, 4096 bytes")
	f("a body in chunks", head+"Transfer-Encoding: chunked\r\n\r\n2000\r\n"+large+"\r\n0\r\n\r\n", 413, "limits.request_body, 4096 bytes")
	f("a length beyond reason", head+"Content-Length: 99999999999999999999\r\n\r\n", 400, "")
	f("a large head", head+"X-Large: "+large+"\r\n\r\n", 431, "limits.header, 4096 bytes")
	f("no HTTP", "hello\r\n\r\n", 400, "")
	f("two lengths", head+"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", 400, "")
	f("two bodies", head+"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "")
	f("two versions", head+"MCP-Protocol-Version: 2026-07-28\r\nMCP-Protocol-Version: 2025-11-25\r\nMcp-Method: tools/list\r\nContent-Length: 300\r\n\r\n"+
		fmt.Sprintf("%-300s", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`), 400, "occurs more than once")
	f("two names", head+"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: a\r\nMcp-Name: b\r\nContent-Length: 300\r\n\r\n"+
		fmt.Sprintf("%-300s", modernCall("1", "a", "")), 400, "occurs more than once")
	if n := len(u.all("tools/list")) + len(u.all("tools/call")); n != 0 {
		t.Errorf("the server saw %d of these", n)
	}
}

// Names and values that would be header lines if they were not encoded.
func TestHeaderInjection(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}],"ttlMs":0,"cacheScope":"private"}`)
	})
	ok := func(c *call) { c.result(`{"resultType":"complete","content":[]}`) }
	u.on("tools/call", ok)
	u.fallback = ok
	r := startRig(t, u.toml(""), true)
	session := r.open("2025-11-25", "{}")
	u.forget()
	send := func(body string) *response { return r.must("POST", "/mcp", body, legacyHeaders(session)...) }
	if res := send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x\r\nX-Evil: 1","arguments":{}}}`); !strings.Contains(res.body, `"result"`) {
		t.Errorf("%s", res.body)
	}
	if res := send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{"a":"v\r\nX-Evil: 1"}}}`); !strings.Contains(res.body, `"result"`) {
		t.Errorf("%s", res.body)
	}
	if res := send(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"x:/\nX-Evil: 1"}}`); !strings.Contains(res.body, `"result"`) {
		t.Errorf("%s", res.body)
	}
	if res := send(`{"jsonrpc":"2.0","id":4,"method":"x\r\nX-Evil: 1"}`); !strings.Contains(res.body, `"error":{"code":-32602`) {
		t.Errorf("a method with line ends: %s", res.body)
	}
	if res := r.must("POST", "/mcp", modernCall("5", "t", ""), append(modernHeaders("tools/call", "t"), "Mcp-Param-Z", "=?base64?dg0KWC1FdmlsOiAx?=")...); !strings.Contains(res.body, `"result"`) {
		t.Errorf("%s", res.body)
	}
	calls := u.all("tools/call")
	if len(calls) != 3 || calls[0].header.Get("Mcp-Name") != "=?base64?eA0KWC1FdmlsOiAx?=" || calls[1].header.Get("Mcp-Param-A") != "=?base64?dg0KWC1FdmlsOiAx?=" ||
		calls[2].header.Get("Mcp-Param-Z") != "=?base64?dg0KWC1FdmlsOiAx?=" {
		for _, c := range calls {
			t.Errorf("%v", c.header)
		}
	}
	for _, s := range u.everything() {
		if _, evil := s.header["X-Evil"]; evil {
			t.Errorf("injected into %s", s.body)
		}
	}
}
