package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// countMain is this process as an SDK server on stdio whose tool records each call in a file that several such processes may share. A call
// takes a moment.
func countMain() {
	book, err := os.OpenFile(os.Getenv("DRAGOMAN_TEST_BOOK"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "count", Version: "1"}, nil)
	type in struct {
		N int `json:"n"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "count"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		_, err := fmt.Fprintln(book, a.N)
		time.Sleep(5 * time.Millisecond) // the work of the tool
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("call ", a.N)}}}, nil, err
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// Ten thousand concurrent requests that are a few hundred calls sent repeatedly, under a key or as one id of a session: each reaches the
// server once, and every client gets the answer under its own id.
func TestDuplicatesReachTheServerOnce(t *testing.T) {
	calls, each, clients := 250, 40, 200
	if raceDetector {
		calls, clients = 50, 100
	}
	for _, era := range []string{"modern", "legacy"} {
		for _, by := range []string{"key", "id"} {
			if raceDetector && (by == "key") != (era == "modern") {
				continue // one of each is enough if everything takes ten times as long
			}
			t.Run(by+" at a "+era+" server", func(t *testing.T) {
				book := filepath.Join(t.TempDir(), "book")
				self := testkit.Executable(t)
				r := startRig(t, fmt.Sprintf("[upstreams.default]\ncommand = [%q]\nera = %q\n[upstreams.default.env]\n%s = \"count\"\nDRAGOMAN_TEST_BOOK = %q\nGORACE = \"atexit_sleep_ms=0\"\n",
					self, era, testkit.AsDragoman, book), false)
				transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: clients}
				defer transport.CloseIdleConnections()
				r.http = &http.Client{Transport: transport}
				var session string
				if by == "id" {
					session = r.open("2025-11-25", "{}")
				}
				var next, marked atomic.Int64
				var group sync.WaitGroup
				for range clients {
					group.Go(func() {
						for i := int(next.Add(1)) - 1; i < calls*each && !t.Failed(); i = int(next.Add(1)) - 1 {
							if r.counted(by, session, i/each, i%each) {
								marked.Add(1)
							}
						}
					})
				}
				group.Wait()
				raw, err := os.ReadFile(book)
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]int{}
				for line := range strings.FieldsSeq(string(raw)) {
					seen[line]++
				}
				for n, times := range seen {
					if times != 1 {
						t.Errorf("call %s reached the server %d times", n, times)
					}
				}
				if len(seen) != calls || int(marked.Load()) != calls*(each-1) {
					t.Errorf("%d calls reached the server, %d answers were marked; want %d and %d", len(seen), marked.Load(), calls, calls*(each-1))
				}
			})
		}
	}
}

// counted makes one of the requests and checks its answer; it returns true if the answer was replayed.
func (r *rig) counted(by, session string, n, copy int) bool {
	id := fmt.Sprint(n)
	headers, meta := legacyHeaders(session), ""
	if by == "key" {
		id = fmt.Sprintf(`"%d-%d"`, n, copy) // a key is not bound to an id
		headers, meta = append(modernHeaders("tools/call", "count"), "Idempotency-Key", fmt.Sprint("call-", n)), ","+modernMeta
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	res, err := r.do(ctx, "POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"count","arguments":{"n":%d}%s}}`, id, n, meta), headers...)
	if err != nil {
		r.t.Error(err)
		return false
	}
	again := strings.Contains(res.body, `"io.dragoman/replayed":true`)
	if res.status != 200 || !strings.HasPrefix(res.body, `{"jsonrpc":"2.0","id":`+id+`,"result":{`) && !strings.Contains(res.body, `"id":`+id+`,`) ||
		!strings.Contains(res.body, fmt.Sprintf(`"text":"call %d"`, n)) || again != (res.header.Get("Idempotent-Replayed") == "true") {
		r.t.Errorf("call %s: %d %s", id, res.status, res.body)
	}
	return again
}

// A duplicate during the call gets its answer, at every endpoint; cancelling the id cancels both.
func TestRepeatWhileItRuns(t *testing.T) {
	for _, kind := range []string{"modern", "legacy-stdio"} {
		for _, how := range []string{"http", "sse", "stdio"} {
			t.Run(how+" at "+kind, func(t *testing.T) {
				u := newUpstream(t, kind)
				began, free := u.hold(t)
				var f testClient
				waits := func(int) {}
				if how == "stdio" {
					f = newPipeClient(t, startStdio(t, u.toml("")))
				} else {
					r := startRig(t, u.toml(""), true)
					if f = newHTTPTestClient(r); how == "sse" {
						f = newSSEChannelClient(r)
					}
					waits = func(n int) {
						testkit.Eventually(t, "a repeat that waits", func() bool { return r.h.Duplicates().Waiting() == n })
					}
				}
				f.open("2025-11-25", "{}")
				u.forget()
				if how != "stdio" {
					f.send("first", legacyCall("7", "a"))
					testkit.Receive(t, "the call", began)
					f.send("again", legacyCall("7", "a"))
					waits(1)
					f.send("cancel", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
					waits(0)
				}
				f.send("first", legacyCall("7", "a")) // a cancelled call is not cached
				testkit.Receive(t, "the call", began)
				f.send("again", legacyCall("7", "a"))
				waits(1)
				f.send("other", legacyCall("7", "b"))
				if got := f.receives("other"); !matches(`{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"…another message…"}}`, got) {
					t.Error(got)
				}
				free()
				answers := map[bool]int{}
				for _, label := range []string{"first", "again"} {
					got := f.receives(label)
					answers[strings.Contains(got, `"io.dragoman/replayed":true`)]++
					if !strings.Contains(got, `"text":"held"`) || !strings.Contains(got, `"id":7,`) {
						t.Error(got)
					}
				}
				f.over("again", "200")
				if n := len(u.all("tools/call")); answers[true] != 1 || answers[false] != 1 || n != 1 && how == "stdio" || n > 2 {
					t.Errorf("answers %v, %d calls at the server", answers, n)
				}
			})
		}
	}
}

// A modern client that leaves has cancelled its call: a waiting duplicate runs it again. A duplicate that has waited for long has been kept
// alive on an event stream, and its answer says that it is not a replay.
func TestRepeatTakesOver(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "modern")
	began, free := u.hold(t)
	r := startRig(t, "keepalive = \"1s\"\n"+u.toml(""), true)
	ctx, leave := context.WithCancel(t.Context())
	ask := func(ctx context.Context, id string) <-chan *response {
		out := make(chan *response, 1)
		go func() {
			res, err := r.do(ctx, "POST", "/mcp", modernCall(id, "a", ""), append(modernHeaders("tools/call", "a"), "Idempotency-Key", "k")...)
			if err != nil {
				res = &response{body: err.Error()}
			}
			out <- res
		}()
		return out
	}
	first := ask(ctx, "1")
	testkit.Receive(t, "the call", began)
	second := ask(t.Context(), "2")
	testkit.Eventually(t, "a repeat that waits", func() bool { return r.h.Duplicates().Waiting() == 1 })
	leave()
	testkit.Receive(t, "the first's end", first)
	testkit.Receive(t, "the call anew", began)
	third := ask(t.Context(), "3")
	testkit.Eventually(t, "a repeat that waits", func() bool { return r.h.Duplicates().Waiting() == 1 })
	time.Sleep(app.Patience + 1500*time.Millisecond) // that long is what is tested
	free()
	for id, res := range map[string]*response{"2": testkit.Receive(t, "the second's answer", second), "3": testkit.Receive(t, "the third's answer", third)} {
		if res.status != 200 || res.header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(res.body, ": keep-alive\n") ||
			!strings.Contains(res.body, `"id":`+id+`,`) || strings.Contains(res.body, "replayed") != (id == "3") {
			t.Errorf("%s: %d %v %s", id, res.status, res.header, res.body)
		}
	}
	if n := len(u.all("tools/call")); n != 2 {
		t.Errorf("%d calls at the server, want 2", n)
	}
}

// A key is valid over HTTP+SSE too, and in another session than the first call's: a client that has lost its session with the answer gets
// it in the next one.
func TestKeyOutlivesItsSession(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"content":[{"type":"text","text":"x"}]}`) })
	r := startRig(t, u.toml(""), true)
	for i := range 2 {
		c := r.sse("/sse")
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c%d","version":"1"}}}`, i))
		c.receives(`{"jsonrpc":"2.0","id":"open","result":{…`)
		if res := r.must("POST", c.post, legacyCall(fmt.Sprint(i), "a"), "Content-Type", jsonType, "Idempotency-Key", "k"); res.status != 202 {
			t.Errorf("%d %s", res.status, res.body)
		}
		c.receives([]string{`{"jsonrpc":"2.0","id":0,"result":{"content":[{"type":"text","text":"x"}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"_meta":{"io.dragoman/replayed":true}}}`}[i])
		_ = c.res.Body.Close()
	}
	if n := len(u.all("tools/call")); n != 1 {
		t.Errorf("%d calls at the server, want 1", n)
	}
}
