package e2e

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/adapters/rest/envelope"
	"dragoman/internal/testkit"
)

// Without tracing, a client's trace context is passed on unchanged through translations. Of the headers, only configured ones are passed
// on, and none is added.
func TestTraceContextPassesUntouched(t *testing.T) {
	const said = `"traceparent":"not even one","tracestate":7,"baggage":"k=v"`
	for _, era := range []string{"modern", "legacy", "asked"} {
		for _, kind := range kinds {
			t.Run(era+" client, "+kind+" server", func(t *testing.T) {
				t.Parallel()
				u := newUpstream(t, kind)
				answering(u)
				extra := ""
				if !strings.HasSuffix(kind, "stdio") {
					extra = "forward_headers = { tracestate = \"tracestate\" }"
				}
				r := startRig(t, u.toml(extra), true)
				headers, body := modernHeaders("tools/call", "a"), tracedCall("modern", "1", said)
				switch era {
				case "legacy":
					headers, body = legacyHeaders(r.open("2025-11-25", "{}")), tracedCall("legacy", "1", said)
				case "asked":
					body = strings.Replace(asksCall("1", "a", ""), `"_meta":{`, `"_meta":{`+said+`,`, 1)
				}
				res := r.must("POST", "/mcp", body, append(headers, "traceparent", aParent, "tracestate", "v=1", "baggage", "k=head", "X-Request-Id", "mine")...)
				if !strings.Contains(res.body, "content") {
					t.Fatal(res.body)
				}
				got := u.all("tools/call")[0]
				for _, member := range strings.Split(said, ",") {
					if !strings.Contains(got.body, member) {
						t.Errorf("no %s in %s", member, got.body)
					}
				}
				if _, headers := traceOf(got); extra != "" && headers != [3]string{"", "v=1", ""} || got.header.Get("X-Request-Id") != "" {
					t.Errorf("the server got %v", got.header)
				}
			})
		}
	}
}

// lines returns the ids of the log's lines about a method.
func (r *rig) lines(method string) (ids []string) {
	for line := range strings.SplitSeq(r.logs.String(), "\n") {
		if strings.Contains(line, `"method":"`+method+`"`) {
			ids = append(ids, textAfter(line, `"request":"`))
		}
	}
	return ids
}

// last returns the id of the last of them, once there are this many.
func (r *rig) last(method string, n int) string {
	r.t.Helper()
	testkit.Eventually(r.t, fmt.Sprintf("line %d about %s", n, method), func() bool { return len(r.lines(method)) >= n })
	return r.lines(method)[n-1]
}

// A request has one id, in the answer and in the log: the client's if valid, else a generated one or that of the trace.
func TestRequestID(t *testing.T) {
	u := newUpstream(t, "modern")
	answering(u)
	r := startRig(t, u.toml(""), true)
	for i, x := range []struct {
		sent  []string
		taken bool
	}{
		{sent: nil}, {sent: []string{"mine-1/2;3"}, taken: true}, {sent: []string{strings.Repeat("x", 128)}, taken: true},
		{sent: []string{strings.Repeat("x", 129)}}, {sent: []string{"a b"}}, {sent: []string{"ä"}}, {sent: []string{""}}, {sent: []string{"one", "two"}},
	} {
		headers := modernHeaders("tools/call", "a")
		for _, id := range x.sent {
			headers = append(headers, "X-Request-Id", id)
		}
		res := r.must("POST", "/mcp", modernCall(fmt.Sprint(i), "a", ""), headers...)
		id := res.header.Get("X-Request-Id")
		if len(res.header.Values("X-Request-Id")) != 1 || x.taken != (len(x.sent) > 0 && id == x.sent[0]) || !x.taken && !envelope.ValidRequestID(id) {
			t.Errorf("%q: the answer has %q", x.sent, res.header.Values("X-Request-Id"))
		}
		if line := r.last("tools/call", i+1); line != id {
			t.Errorf("%q: the log has %q, the answer %q", x.sent, line, id)
		}
	}
	session := r.open("2025-03-26", "{}")
	res := r.must("POST", "/mcp", legacyCall("1", "a"), append(legacyHeaders(session), "X-Request-Id", "legacy")...)
	if id := res.header.Get("X-Request-Id"); id != "legacy" || r.last("tools/call", 9) != id {
		t.Errorf("a legacy call: %q", id)
	}
	res = r.must("POST", "/mcp", "["+legacyCall("2", "a")+","+legacyCall("3", "a")+"]", legacyHeaders(session)...)
	if id := res.header.Get("X-Request-Id"); id == "" || r.last("tools/call", 10) != id || r.last("tools/call", 11) != id {
		t.Errorf("an array: %q, %q", id, r.lines("tools/call"))
	}
	for what, res := range map[string]*response{
		"a refused host":  r.must("POST", "/mcp", modernCall("1", "a", ""), append(modernHeaders("tools/call", "a"), "Host", "evil.example", "X-Request-Id", "h")...),
		"nothing there":   r.must("GET", "/nothing", "", "X-Request-Id", "h"),
		"no message":      r.must("POST", "/mcp", "{", append(modernHeaders("tools/call", "a"), "X-Request-Id", "h")...),
		"a notification":  r.must("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/x"}`, append(modernHeaders("notifications/x", ""), "X-Request-Id", "h")...),
		"session unknown": r.must("POST", "/mcp", legacyCall("1", "a"), append(legacyHeaders("none"), "X-Request-Id", "h")...),
	} {
		if got := res.header.Values("X-Request-Id"); len(got) != 1 || got[0] != "h" {
			t.Errorf("%s: %d, %q", what, res.status, got)
		}
	}
}

// The id is the same if the answer is sent before the request is processed, and if it is a stream.
func TestRequestIDOfStreams(t *testing.T) {
	for name, tracing := range map[string]bool{"plain": false, "traced": true} {
		t.Run(name, func(t *testing.T) {
			u, prefix := newUpstream(t, "modern"), ""
			if tracing {
				prefix = newCollector(t).toml("")
			}
			u.on("tools/call", func(c *call) {
				c.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`)
				c.result(`{"resultType":"complete","content":[]}`)
			})
			r := startRig(t, prefix+u.toml(""), true)
			res := r.must("POST", "/mcp", tracedCall("modern", "1", `"progressToken":1`), modernHeaders("tools/call", "a")...)
			id := res.header.Get("X-Request-Id")
			if !strings.Contains(res.body, "data:") || r.last("tools/call", 1) != id || tracing == envelope.ValidRequestID(id) || tracing && len(id) != 32 {
				t.Errorf("a stream: %q, %q, %s", id, r.lines("tools/call"), res.body)
			}
			c := r.sse("/sse")
			defer func() { _ = c.res.Body.Close() }()
			c.send(anInitialize)
			_, _ = c.event()
			if res = r.must("POST", c.post, legacyCall("2", "a"), "Content-Type", jsonType); res.header.Get("X-Request-Id") == "" || r.last("tools/call", 2) != res.header.Get("X-Request-Id") {
				t.Errorf("HTTP+SSE: %q, %q", res.header.Get("X-Request-Id"), r.lines("tools/call"))
			}
		})
	}
}

// A REST caller's envelope has the id, a UUID (seed 000).
func TestRequestIDOfREST(t *testing.T) {
	for name, tracing := range map[string]bool{"plain": false, "traced": true} {
		t.Run(name, func(t *testing.T) {
			u, prefix := newUpstream(t, "modern"), ""
			if tracing {
				prefix = newCollector(t).toml("")
			}
			answering(u)
			r := startRig(t, prefix+u.toml(""), true)
			const own, body = "550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440001"
			for i, x := range []struct{ sent, args, want string }{{"", "", ""}, {own, "", own}, {"mine", "", ""}, {own, `,"request_id":"` + body + `"`, body}} {
				res := r.must("POST", "/call-tool", `{"tool":"a","arguments":{}`+x.args+`}`, "Content-Type", jsonType, "X-Request-Id", x.sent)
				id := textAfter(res.body, `"request_id":"`)
				if !envelope.ValidRequestID(id) || x.want != "" && id != x.want || res.header.Get("X-Request-Id") != id || len(res.header.Values("X-Request-Id")) != 1 || r.last("tools/call", i+1) != id {
					t.Errorf("%+v: %q, %q, %q: %s", x, id, res.header.Values("X-Request-Id"), r.lines("tools/call"), res.body)
				}
			}
			res := r.must("POST", "/call-tool", `{`, "Content-Type", jsonType, "Host", "evil.example", "X-Request-Id", own)
			if got := res.header.Values("X-Request-Id"); len(got) != 1 || got[0] != own || !strings.Contains(res.body, own) {
				t.Errorf("refused by a gate: %q %s", got, res.body)
			}
		})
	}
}
