package translate

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestStampResult(t *testing.T) {
	f := func(method, in, want string) {
		t.Helper()
		m := parse(t, in)
		if method == "tools/list" {
			DropExecution(m, false)
		}
		StampResult(m, method, []byte(`{"name":"s","version":"1"}`))
		if got := render(t, m); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
	const info = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}`
	f("tools/call", `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete",`+info+`}}`)
	f("tools/list", `{"jsonrpc":"2.0","id":1,"result":{"tools":[],"ttlMs":5,"cacheScope":"public"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[],"ttlMs":0,"cacheScope":"private","resultType":"complete",`+info+`}}`)
	f("prompts/get", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"odd","messages":[],"inputRequests":{},"_meta":{"x":1}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","messages":[],"_meta":{"x":1,"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}}`)
	f("tools/list", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","execution":{"taskSupport":"optional"}},{"name":"b","execution":{"taskSupport":"required"}},{"name":"c"}]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"c"}],"resultType":"complete","ttlMs":0,"cacheScope":"private",`+info+`}}`)
}

func TestLegacyResult(t *testing.T) {
	f := func(method, in, want string) {
		t.Helper()
		m := parse(t, in)
		LegacyResult(m, method, rules.LegacyVersion)
		if got := render(t, m); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
	f("tools/list", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
	f("tools/call", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"_meta":{"v/x":1,"io.modelcontextprotocol/serverInfo":{}}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{"v/x":1}}}`)
	f("tools/call", `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":[1,2],"content":[{"type":"text","text":"x"}]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"},{"type":"text","text":"[1,2]"}]}}`)
	f("tools/call", `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":[1,2],"content":[{"type":"text","text":"[1,2]"}]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"[1,2]"}]}}`)
	f("tools/call", `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"a":9007199254740993},"content":[]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"a":9007199254740993},"content":[]}}`)
	f("tools/list", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","outputSchema":{"type":"array"}},{"name":"b","outputSchema":{"type":"object"}}]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b","outputSchema":{"type":"object"}}]}}`)
}

func TestStrip(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		m := parse(t, in)
		Strip(m, false, nil)
		if got := render(t, m); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}`)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","inputResponses":{},"requestState":"s","_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"traceparent":"00-1","progressToken":"t"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"traceparent":"00-1","progressToken":"t"},"arguments":{}}}`)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x":1}}}`)
}

func TestErrorsCross(t *testing.T) {
	m := parse(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"gone"}}`)
	if e := ModernError(m, []byte(`"u"`)); e == nil || e.Code != -32602 || string(e.Data) != `{"uri":"u"}` {
		t.Errorf("-32002: %+v", e)
	}
	m = parse(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32050,"message":"own"}}`)
	if e := ModernError(m, nil); e == nil || e.Code != -32603 || !bytes.Contains(e.Data, []byte(`"originalCode":-32050`)) {
		t.Errorf("-32050: %+v", e)
	}
	m = parse(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"url"}}`)
	if e := ModernError(m, nil); e == nil || e.Code != -32021 || e.Status != 400 {
		t.Errorf("-32042: %+v", e)
	}
	for _, code := range []string{"-32601", "-32602", "-32000", "-32005", "7"} {
		if e := ModernError(parse(t, `{"jsonrpc":"2.0","id":1,"error":{"code":`+code+`,"message":"m"}}`), nil); e != nil {
			t.Errorf("%s should pass: %+v", code, e)
		}
	}
	m = parse(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"uri":"u"}}}`)
	if e := LegacyError(m, "resources/read", []byte(`"u"`)); e == nil || e.Code != -32002 || string(e.Data) != `{"uri":"u"}` {
		t.Errorf("read: %+v", e)
	}
	if e := LegacyError(m, "resources/read", []byte(`"other"`)); e != nil {
		t.Errorf("another uri should pass: %+v", e)
	}
}

func TestAnnotations(t *testing.T) {
	f := func(schema string, want int, valid bool) {
		t.Helper()
		got, ok := MirroredParams([]byte(`{"name":"t","inputSchema":` + schema + `}`))
		if ok != valid || valid && len(got) != want {
			t.Errorf("%s: %v, %v", schema, got, ok)
		}
	}
	f(`{"type":"object"}`, 0, true)
	f(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":["integer","null"],"x-mcp-header":"B"}}}`, 2, true)
	f(`{"properties":{"a":{"type":"object","properties":{"b":{"type":"boolean","x-mcp-header":"B"}}}}}`, 1, true)
	f(`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, 0, false)
	f(`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, 0, false)
	f(`{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`, 0, false)
	f(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, 0, false)
	f(`{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`, 0, false)
	f(`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`, 0, false)
	f(`{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, 0, false)
}

func TestMirroredValues(t *testing.T) {
	of := []MirroredParam{{path: []string{"region"}, name: "Region"}, {path: []string{"n"}, name: "N", integer: true}}
	call := func(args string) *wire.Message {
		return parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":`+args+`}}`)
	}
	f := func(args string, headers []proxy.Header, ok bool) {
		t.Helper()
		if err := CheckParamHeaders(call(args), of, headers); (err == nil) != ok {
			t.Errorf("%s %v: %v", args, headers, err)
		}
	}
	region := func(v string) proxy.Header { return proxy.Header{Name: "mcp-param-region", Value: v} }
	f(`{"region":"us"}`, []proxy.Header{region("us")}, true)
	f(`{"region":"us"}`, nil, false)
	f(`{"region":"us"}`, []proxy.Header{region("US")}, false)
	f(`{"region":null}`, nil, true)
	f(`{}`, nil, true)
	f(`{"region":"1e1"}`, []proxy.Header{region("10")}, false)
	f(`{"n":42.0}`, []proxy.Header{{Name: "Mcp-Param-N", Value: "42"}}, true)
	f(`{"n":42}`, []proxy.Header{{Name: "Mcp-Param-N", Value: "43"}}, false)
	f(`{"n":9007199254740993}`, []proxy.Header{{Name: "Mcp-Param-N", Value: "9007199254740993"}}, false)
	if got, err := ParamHeaders(call(`{"region":" x","n":7}`), of); err != nil || len(got) != 2 || got[0].Value != " x" || got[1].Value != "7" {
		t.Errorf("build: %v %v", got, err)
	}
}

// TestUpThenDown tests that a result that is translated to the legacy era and back stays the same: no member of the server's own is lost or
// changed either way.
func TestUpThenDown(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		body := randomObject(r, 3)
		m := parse(t, `{"jsonrpc":"2.0","id":1,"result":`+body+`}`)
		before := render(t, m)
		StampResult(m, "resources/read", []byte(`{"name":"s","version":"1"}`))
		up := parse(t, render(t, m))
		LegacyResult(up, "resources/read", rules.LegacyVersion)
		if after := render(t, up); after != before {
			t.Fatalf("before %s\nafter  %s", before, after)
		}
	}
}

func randomObject(r *rand.Rand, depth int) string {
	out := "{"
	for i := range r.IntN(4) {
		if i > 0 {
			out += ","
		}
		out += `"` + string(rune('a'+i)) + `":`
		switch k := r.IntN(4); {
		case k == 0 && depth > 0:
			out += randomObject(r, depth-1)
		case k == 1:
			out += `[1, "x\\\"}",null]`
		case k == 2:
			out += `-9007199254740993`
		default:
			out += `"té}]"`
		}
	}
	return out + "}"
}

func parse(t *testing.T, raw string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return &m
}

// render applies the edits and checks that the outcome is still a message.
func render(t *testing.T, m *wire.Message) string {
	t.Helper()
	out := m.Append(nil)
	if _, err := wire.Scan(out); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return string(out)
}

// "Method not found" for a method that the server offers means the name. Everything else of the error stays as it is.
func TestUnknownName(t *testing.T) {
	const caps = `{"tools":{}}`
	for _, c := range []struct{ method, in, out string }{
		{"tools/call", `{"code":-32601,"message":"m","x":1}`, `{"code":-32602,"message":"m","x":1}`},
		{"prompts/get", `{"code":-32601,"message":"m"}`, `{"code":-32601,"message":"m"}`},
		{"tools/list", `{"code":-32601,"message":"m"}`, `{"code":-32601,"message":"m"}`},
		{"tools/call", `{"code":-32600,"message":"m"}`, `{"code":-32600,"message":"m"}`},
	} {
		m := parse(t, `{"jsonrpc":"2.0","id":1,"error":`+c.in+`}`)
		UnknownName(m, c.method, []byte(caps))
		if got := string(m.Append(nil)); got != `{"jsonrpc":"2.0","id":1,"error":`+c.out+`}` || parse(t, got).ErrorCode != m.ErrorCode {
			t.Errorf("%s: %s, code %d", c.method, got, m.ErrorCode)
		}
	}
}
