package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// sseClient is a client of 2024-11-05.
type sseClient struct {
	t    *testing.T
	r    *rig
	res  *http.Response
	br   *bufio.Reader
	post string
}

func (r *rig) sse(path string) *sseClient {
	r.t.Helper()
	req, _ := http.NewRequestWithContext(r.t.Context(), "GET", r.base+path, nil)
	req.Header.Set("Accept", "text/event-stream")
	res, err := r.http.Do(req) //nolint:bodyclose // by the cleanup
	if err != nil {
		r.t.Fatal(err)
	}
	c := &sseClient{t: r.t, r: r, res: res, br: bufio.NewReader(res.Body)}
	r.t.Cleanup(func() { _ = res.Body.Close() })
	name, data := c.event()
	if name != "endpoint" {
		r.t.Fatalf("first event %q %q", name, data)
	}
	base, _ := url.Parse(r.base)
	c.post = strings.TrimPrefix(data, base.Path) // of a rig of a group
	return c
}

func (c *sseClient) event() (name, data string) {
	c.t.Helper()
	for {
		line, err := c.br.ReadString('\n')
		if err != nil {
			return "", err.Error()
		}
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case line == "" && (name != "" || data != ""):
			return name, data
		}
	}
}

func (c *sseClient) send(body string) {
	c.t.Helper()
	if res := c.r.must("POST", c.post, body, "Content-Type", jsonType); res.status != 202 || res.body != "" {
		c.t.Errorf("POST: %d %s", res.status, res.body)
	}
}

func (c *sseClient) receives(pattern string) {
	c.t.Helper()
	if name, data := c.event(); name != "message" || !matches(pattern, data) {
		c.t.Errorf("event %q\n  %s\nwant\n  %s", name, data, pattern)
	}
}

// HTTP+SSE clients at every kind of server (vector 81).
func TestSSEClient(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			r := startRig(t, u.toml(""), false)
			u.on("tools/call", func(c *call) {
				c.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`)
				c.result(`{"resultType":"complete","content":[]}`)
			})
			c := r.sse("/sse")
			if !strings.HasPrefix(c.post, "/messages?sessionId=") {
				t.Errorf("endpoint %q", c.post)
			}
			c.send(stdioInit)
			c.receives(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25",…`)
			c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			c.send(`{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"a","_meta":{"progressToken":7}}}`)
			c.receives(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`)
			c.receives(`{"jsonrpc":"2.0","id":"7","result":{…"content":[]}}`)
			started := hanging(u, 0)
			c.send(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a"}}`)
			call := testkit.Receive(t, "the call", started)
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`)
			testkit.Receive(t, "the cancellation", call.cancelled)
			c.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
			c.receives(`{"jsonrpc":"2.0","id":9,"result":{}}`) // without an answer to 8
			// a session of one transport is none of the other
			id := strings.TrimPrefix(c.post, "/messages?sessionId=")
			if res := r.must("POST", "/messages?sessionId="+r.open("2025-11-25", "{}"), `{"jsonrpc":"2.0","id":1,"method":"ping"}`); res.status != 404 {
				t.Errorf("a streamable session over HTTP+SSE: %d", res.status)
			}
			if res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, legacyHeaders(id)...); res.status != 404 {
				t.Errorf("an HTTP+SSE session over streamable HTTP: %d %s", res.status, res.body)
			}
			if res := r.must("POST", "/messages?sessionId=unknown", `{"jsonrpc":"2.0","id":1,"method":"ping"}`); res.status != 404 {
				t.Errorf("unknown session: %d", res.status)
			}
			// the stream is the session, and its end cancels
			c.send(`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"a"}}`)
			call = testkit.Receive(t, "the call", started)
			_ = c.res.Body.Close()
			testkit.Receive(t, "the cancellation", call.cancelled)
			testkit.Eventually(t, "the session's end", func() bool {
				return r.must("POST", c.post, `{"jsonrpc":"2.0","method":"notifications/x"}`).status == 404
			})
		})
	}
}

// Concurrent messages of all sizes arrive complete at their own client: the memory of a request is not reused before its end. (Memory that
// is released too early is overwritten under the race detector.)
func TestSSELargeMessages(t *testing.T) {
	for _, isolation := range []string{"session", "shared"} {
		t.Run(isolation, func(t *testing.T) {
			self := testkit.Executable(t)
			r := startRig(t, fmt.Sprintf("[upstreams.default]\nisolation = %q\ncommand = [%q, \"demo\", \"--era\", \"legacy\", \"--log-level\", \"error\"]\n[upstreams.default.env]\n%s = \"main\"\n", isolation, self, testkit.AsDragoman), false)
			for client := range 3 {
				t.Run(strconv.Itoa(client), func(t *testing.T) {
					t.Parallel()
					c := r.sse("/sse")
					c.t = t
					c.send(stdioInit)
					c.receives(`{"jsonrpc":"2.0","id":"i","result":{…`)
					c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
					for i, size := range []int{1, 5 << 10, 20 << 10, 70 << 10, 300 << 10, 1 << 20, 3, 100 << 10} {
						text := strings.Repeat(string(rune('a'+client)), size)
						c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"message":"%s"}}}`, i, text))
						_, data := c.event()
						if !strings.HasPrefix(data, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":`, i)) || !strings.Contains(data, ": "+text+`"`) {
							t.Errorf("of %d bytes came %d: %.150s", size, len(data), data)
						}
					}
				})
			}
		})
	}
}

// A server that names an endpoint of another origin would get its credentials sent there (vector 82).
func TestForeignEndpoint(t *testing.T) {
	u := newUpstream(t, "sse")
	u.on("endpoint", func(*call) {})
	r := startRig(t, u.toml(`transport = "sse"`), false)
	res := r.must("POST", "/mcp", strings.Replace(stdioInit, `"i"`, "1", 1), legacyHeaders("")...)
	if res.status != 200 || !matches(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…another origin…","data":{…}}}`, res.body) {
		t.Errorf("%d %s", res.status, res.body)
	}
	if res.header.Get("Mcp-Session-Id") != "" {
		t.Error("a session without a server")
	}
}
