package reference

import (
	"bytes"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

func call(length int, form byte) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` +
		string(AppendToken(nil, 42, length, form)) + `xx"}}}`
}

func TestToken(t *testing.T) {
	token := AppendToken(nil, 42, 300, FormSSE)
	if string(token) != "0000000042"+"00000300"+"s" || len(token) != TokenLen {
		t.Errorf("token %q", token)
	}
	if PutNumber(token, 9_876_543_210); string(token) != "9876543210"+"00000300"+"s" {
		t.Errorf("renumbered %q", token)
	}
	if n := len(AppendFiller([]byte("a"), 200_000)); n != 200_001 {
		t.Errorf("%d bytes with filler", n)
	}
}

func TestParse(t *testing.T) {
	f := func(raw, id, method, token string, length int) {
		t.Helper()
		r := parse([]byte(raw))
		if string(r.id) != id || string(r.method) != method || string(r.token) != token || r.length != length {
			t.Errorf("%s: id %s, method %s, token %s, length %d", raw, r.id, r.method, r.token, r.length)
		}
	}
	token := string(AppendToken(nil, 42, 100, FormJSON))
	f(call(100, FormJSON), "7", "tools/call", token, 100)
	f(strings.Replace(call(100, FormJSON), `"id":7`, `"id":"a,}b"`, 1), `"a,}b"`, "tools/call", token, 100)
	f(call(3, FormJSON), "7", "tools/call", "", 0)        // shorter than the token
	f(call(99999999, FormJSON), "7", "tools/call", "", 0) // larger than the limit
	f(`{"method":"tools/call","params":{"arguments":{"text":"0"}},"id":7}`, "7", "tools/call", "", 0)
	f(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", "notifications/initialized", "", 0)
	f(`{"id":"x`, "", "", "", 0)
	f(``, "", "", "", 0)
}

func TestEcho(t *testing.T) {
	initialize := `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}`
	discover := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`
	f := func(era Era, in []string, want ...string) {
		t.Helper()
		var out bytes.Buffer
		if err := ServeEcho(strings.NewReader(strings.Join(in, "\n")+"\n"), &out, era); err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(got) != len(want) {
			t.Fatalf("%s: %q", era, got)
		}
		for i := range want {
			if !json.Valid([]byte(got[i])) || !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: line %d is %s, want %s", era, i, got[i], want[i])
			}
		}
	}
	large := call(1<<20, FormJSON)
	f(Dual, []string{discover, call(100, FormJSON), initialize,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, large, discover},
		"supportedVersions", `"resultType":"complete"`, `"id":"a","result":{"protocolVersion"`,
		`{"jsonrpc":"2.0","id":7,"result":{"content":[{`, "-32601")
	f(Modern, []string{initialize, `{"id":1,"method":"tools/list"}`}, "-32022", `"cacheScope"`)
	f(Legacy, []string{discover, initialize, `{"id":1,"method":"ping"}`, call(3, FormJSON)}, "-32601", `"a"`, `{}`, "-32602")
}

func TestListOf(t *testing.T) {
	r := parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`))
	for n, tools := range map[int]string{1: "", 3: listOf(3), 10_000: listOf(10_000)} {
		r.tools = tools
		var got struct {
			Result struct{ Tools []struct{ Name string } }
		}
		answer, status := appendAnswer(nil, &r, true)
		if err := json.Unmarshal(answer, &got); err != nil || status != 200 || len(got.Result.Tools) != n || got.Result.Tools[0].Name != "echo" {
			t.Errorf("%d tools: %d, %v, %.200s", n, status, err, answer)
		}
	}
}

// ask posts to a server over an in-memory connection and gives status and body.
func ask(t *testing.T, l *fasthttputil.InmemoryListener, session, version, body string) (int, string, string) {
	t.Helper()
	client := fasthttp.HostClient{Addr: "x", Dial: func(string) (net.Conn, error) { return l.Dial() }}
	defer client.CloseIdleConnections()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod("POST")
	req.SetRequestURI("http://x/mcp")
	req.SetBodyString(body)
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	if version != "" {
		req.Header.Set("MCP-Protocol-Version", version)
	}
	if err := client.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode(), string(resp.Body()), string(resp.Header.Peek("Mcp-Session-Id"))
}

func TestUpstream(t *testing.T) {
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
	f := func(era Era, session, version, body string, status int, want string) {
		t.Helper()
		l := fasthttputil.NewInmemoryListener()
		done := make(chan error, 1)
		go func() { done <- NewUpstream(era).Serve(l) }()
		if session == "open" {
			_, _, session = ask(t, l, "", "", initialize)
		}
		got, answer, _ := ask(t, l, session, version, body)
		if got != status || !strings.Contains(answer, want) {
			t.Errorf("%s, version %q, %.60s: %d %s", era, version, body, got, answer)
		}
		_ = l.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	json, sse := call(100, FormJSON), call(100, FormSSE)
	f(Modern, "", ModernVersion, json, 200, `"resultType":"complete","content"`)
	f(Modern, "", ModernVersion, sse, 200, "event: message\ndata: {")
	f(Modern, "", "", json, 400, "-32020")
	f(Modern, "", "", initialize, 400, "-32022")
	f(Modern, "", ModernVersion, `{"id":1,"method":"nope"}`, 404, "-32601")
	f(Legacy, "", ModernVersion, json, 400, "-32000")
	f(Legacy, "", "", json, 400, "-32000")
	f(Legacy, "reference-2", "", json, 400, "-32000")
	f(Legacy, "", "", initialize, 200, LegacyVersion)
	f(Legacy, "open", LegacyVersion, json, 200, `"result":{"content"`)
	f(Legacy, "open", LegacyVersion, `{"id":1,"method":"nope"}`, 200, "-32601")
	f(Legacy, "open", LegacyVersion, `{"method":"notifications/initialized"}`, 202, "")
	f(Dual, "open", LegacyVersion, json, 200, `"result":{"content"`)
	f(Dual, "", ModernVersion, json, 200, `"resultType"`)
}
