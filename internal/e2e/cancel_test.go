package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

var kinds = []string{"modern", "legacy", "sse", "modern-stdio", "legacy-stdio"}

// hanging scripts a tool that sends a number of events and then waits for its cancellation.
func hanging(u *upstream, events int) chan *call {
	started := make(chan *call, 16)
	u.on("tools/call", func(c *call) {
		for range events {
			c.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`)
		}
		started <- c
		select {
		case <-c.cancelled:
		case <-time.After(testkit.Patient):
		}
	})
	return started
}

func TestModernClientLeaves(t *testing.T) {
	for _, kind := range kinds {
		for _, events := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s-%d", kind, events), func(t *testing.T) {
				u := newUpstream(t, kind)
				r := startRig(t, u.toml(""), true)
				started := hanging(u, events)
				testkit.Promptly(t, "the cancellation", func() time.Duration {
					conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
					if err != nil {
						t.Fatal(err)
					}
					body := strings.Replace(modernCall("1", "slow", ""), `"_meta":{`, `"_meta":{"progressToken":5,`, 1)
					_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: slow\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
					c := testkit.Receive(t, "the call", started)
					if events > 0 { // wait for the event, so that the answer has begun
						br := bufio.NewReader(conn)
						for line := ""; !strings.Contains(line, "progressToken"); {
							if line, err = br.ReadString('\n'); err != nil {
								t.Fatal(err)
							}
						}
					}
					began := time.Now()
					_ = conn.Close()
					testkit.Receive(t, "the cancellation", c.cancelled)
					return time.Since(began)
				})
				if kind != "modern" {
					testkit.Eventually(t, "notifications/cancelled", func() bool { return len(u.all("notifications/cancelled")) > 0 })
					want := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + u.all("tools/call")[0].id + `}}`
					if got := u.all("notifications/cancelled")[0].body; got != want {
						t.Errorf("%s, want %s", got, want)
					}
				} else if n := len(u.all("notifications/cancelled")); n > 0 {
					t.Errorf("%d notifications to a modern server", n)
				}
				u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
				if res := r.must("POST", "/mcp", modernCall("2", "quick", ""), modernHeaders("tools/call", "quick")...); res.status != 200 || !strings.Contains(res.body, `"result"`) {
					t.Errorf("afterwards: %d %s", res.status, res.body)
				}
			})
		}
	}
}

// A legacy client that loses its connection has not cancelled anything (vector 45).
func TestLegacyClientLosesItsConnection(t *testing.T) {
	for _, kind := range kinds {
		for _, events := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s-%d", kind, events), func(t *testing.T) {
				u := newUpstream(t, kind)
				r := startRig(t, u.toml(""), true)
				release, ended := make(chan struct{}), make(chan bool, 1)
				started := make(chan struct{})
				u.on("tools/call", func(c *call) {
					for range events {
						c.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`)
					}
					close(started)
					select {
					case <-c.cancelled:
						ended <- true
					case <-release:
						ended <- false
						c.result(`{"resultType":"complete","content":[]}`)
					}
				})
				session := r.open("2025-11-25", "{}")
				ctx, leave := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = r.do(ctx, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"t"}}}`, legacyHeaders(session)...)
				}()
				testkit.Receive(t, "the call", started)
				leave()
				<-done
				select {
				case <-ended:
					t.Fatal("the call was cancelled")
				case <-time.After(150 * time.Millisecond): // the absence of an event takes time to observe
				}
				close(release)
				if testkit.Receive(t, "the end of the call", ended) {
					t.Error("the call was cancelled")
				}
				testkit.Eventually(t, "the request being over", func() bool {
					res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, legacyHeaders(session)...)
					return strings.Contains(res.body, `"result"`) // the id is free again
				})
			})
		}
	}
}

// notifications/cancelled reaches the server, the client's POST ends, and no response is sent (vectors 43, 44).
func TestLegacyClientCancels(t *testing.T) {
	for _, kind := range kinds {
		for _, events := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s-%d", kind, events), func(t *testing.T) {
				u := newUpstream(t, kind)
				r := startRig(t, u.toml(""), true)
				started := hanging(u, events)
				session := r.open("2025-11-25", "{}")
				answered := make(chan *response, 1)
				go func() {
					res, err := r.do(t.Context(), "POST", "/mcp", `{"jsonrpc":"2.0","id":"k","method":"tools/call","params":{"name":"a","_meta":{"progressToken":"t"}}}`, legacyHeaders(session)...)
					if err != nil {
						t.Error(err)
					}
					answered <- res
				}()
				c := testkit.Receive(t, "the call", started)
				res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"k"}}`, legacyHeaders(session)...)
				if res.status != 202 {
					t.Errorf("%d", res.status)
				}
				testkit.Receive(t, "the cancellation", c.cancelled)
				res = testkit.Receive(t, "the end of the answer", answered)
				if res == nil {
					t.FailNow()
				}
				if res.status != 200 || strings.Contains(res.body, `"id"`) || res.header.Get("Content-Type") != "text/event-stream" {
					t.Errorf("%d %v %q", res.status, res.header, res.body)
				}
			})
		}
	}
}

// A modern client's notifications/cancelled over HTTP cancels nothing: ids of different clients collide (vector 16).
func TestModernCancelledNotificationIsIgnored(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, u.toml(""), true)
	started, release := make(chan *call, 1), make(chan struct{})
	u.on("tools/call", func(c *call) {
		started <- c
		<-release
		c.result(`{"resultType":"complete","content":[]}`)
	})
	answered := make(chan *response, 1)
	go func() {
		res, _ := r.do(t.Context(), "POST", "/mcp", modernCall("2", "a", ""), modernHeaders("tools/call", "a")...)
		answered <- res
	}()
	c := testkit.Receive(t, "the call", started)
	for _, body := range []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,` + modernMeta + `}}`} {
		if res := r.must("POST", "/mcp", body, "Content-Type", jsonType, "MCP-Protocol-Version", "2026-07-28"); res.status != 202 {
			t.Errorf("%d %s", res.status, res.body)
		}
	}
	select {
	case <-c.cancelled:
		t.Error("cancelled")
	default:
	}
	close(release)
	if res := testkit.Receive(t, "the answer", answered); res == nil || res.status != 200 {
		t.Errorf("%+v", res)
	}
}

// pipes is Dragoman on standard input and output, in this process.
type pipes struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string
	done  chan error
}

func startStdio(t *testing.T, toml string) *pipes {
	t.Helper()
	cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "stdio.toml", toml)})
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &pipes{t: t, in: inW, lines: make(chan string, 100), done: make(chan error, 1)}
	logs := &testkit.LockedBuffer{}
	go func() {
		err := app.RunStdio(context.Background(), cfg, app.Streams{In: inR, Out: outW, Err: logs})
		_ = outW.Close()
		p.done <- err
	}()
	go func() {
		defer close(p.lines)
		s := bufio.NewScanner(outR)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		for range p.lines { // to its end
		}
		if err := testkit.Receive(t, "the end of stdio", p.done); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *pipes) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// receives checks that the next line matches; … matches anything.
func (p *pipes) receives(pattern string) {
	p.t.Helper()
	if got := testkit.Receive(p.t, "a line like "+pattern, p.lines); !matches(pattern, got) {
		p.t.Errorf("line\n  %s\nwant\n  %s", got, pattern)
	}
}

const stdioInit = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// Cancellation, and the end of the input, of a stdio client in both eras.
func TestStdioClient(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			started := hanging(u, 0)
			p := startStdio(t, u.toml(""))
			p.send(modernCall("1", "a", ""))
			c := testkit.Receive(t, "the modern call", started)
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			testkit.Receive(t, "its cancellation", c.cancelled)
			p.send(`{"jsonrpc":"2.0","id":5,"method":"ping","params":{` + modernMeta + `}}`)
			p.receives(`{"jsonrpc":"2.0","id":5,"error":{"code":-32601,…`) // without an answer to the cancelled call
			p.send(`{"jsonrpc":"2.0","id":6,"method":"tools/list"}`)
			p.receives(`{"jsonrpc":"2.0","id":6,"error":{"code":-32600,…`)
			p.send(stdioInit)
			p.receives(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25",…`)
			p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			p.send(legacyCall(`"1"`, "a"))
			p.send(modernCall("1", "a", "")) // the same id in the other era
			c1, c2 := testkit.Receive(t, "the legacy call", started), testkit.Receive(t, "the modern call", started)
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
			select {
			case <-c1.cancelled:
			case <-c2.cancelled:
			case <-time.After(testkit.Patient):
				t.Fatal("never cancelled")
			}
			_ = p.in.Close()
			testkit.Receive(t, "the end of one", c1.cancelled)
			testkit.Receive(t, "the end of the other", c2.cancelled)
		})
	}
}

// GET streams: messages outside of requests reach the client of that session, and a newer stream takes over.
func TestChangeNoticesReachTheSession(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.getOpen = true
	r := startRig(t, u.toml(""), true)
	session := r.open("2025-11-25", "{}")
	get := func() (*http.Response, *bufio.Reader) {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", r.base+"/mcp", nil)
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Mcp-Session-Id", session)
		res, err := r.http.Do(req) //nolint:bodyclose // closed by the caller
		if err != nil {
			t.Fatal(err)
		}
		return res, bufio.NewReader(res.Body)
	}
	first, br := get()
	defer func() { _ = first.Body.Close() }()
	var upSession string
	for _, s := range u.all("notifications/initialized") {
		upSession = s.header.Get("Mcp-Session-Id")
	}
	push := func(data string) {
		var s *stream
		testkit.Eventually(t, "a GET stream at the server for "+upSession, func() bool { // it is opened after the handshake
			u.mu.Lock()
			defer u.mu.Unlock()
			s = u.streams["get-"+upSession]
			return s != nil
		})
		s.send(data)
	}
	next := func(br *bufio.Reader) string {
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return err.Error()
			}
			if strings.HasPrefix(line, "data: ") {
				return strings.TrimSpace(line[6:])
			}
		}
	}
	push(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	if got := next(br); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("%s", got)
	}
	second, br2 := get()
	defer func() { _ = second.Body.Close() }()
	if got := next(br); got != "EOF" {
		t.Errorf("the older stream goes on: %s", got)
	}
	push(`{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{}}`)
	if got := next(br2); got != `{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{}}` {
		t.Errorf("%s", got)
	}
	push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/"}}`)
	if got := next(br2); got != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/"}}` {
		t.Errorf("%s", got)
	}
	r.must("DELETE", "/mcp", "", "Mcp-Session-Id", session)
	if got := next(br2); got != "EOF" {
		t.Errorf("the stream outlives its session: %s", got)
	}
	testkit.Eventually(t, "the server's session ended", func() bool { return len(u.all("DELETE")) > 0 })
}
