package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// forgetful is a stateful server: it names the session in which a call runs, and its tools end in every way that a client can bring about.
type forgetful struct {
	u         *upstream
	started   chan *call // calls that do not end by themselves
	questions atomic.Int64

	mu    sync.Mutex
	names map[string]int           // of sessions
	open  map[string]chan struct{} // questions, by id
}

func newForgetful(u *upstream) *forgetful {
	f := &forgetful{u: u, started: make(chan *call, 64), names: map[string]int{}, open: map[string]chan struct{}{}}
	u.on("tools/call", f.call)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.getOpen = true
	u.heard = func(s *seen, _ *stream) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if answered := f.open[s.id]; s.method == "response" && answered != nil {
			delete(f.open, s.id)
			close(answered)
		}
	}
	return f
}

// session names the session, or process, of a call.
func (f *forgetful) session(c *call) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := fmt.Sprintf("%s %p", c.header.Get("Mcp-Session-Id"), c.out)
	if _, known := f.names[key]; !known {
		f.names[key] = len(f.names) + 1
	}
	return strconv.Itoa(f.names[key])
}

func (f *forgetful) call(c *call) {
	switch textAfter(c.body, `"name":"`) {
	case "where":
		c.result(`{"content":[{"type":"text","text":"session ` + f.session(c) + `"}]}`)
	case "fails":
		c.error(200, `{"code":-32603,"message":"no"}`)
	case "asks":
		id := strconv.FormatInt(f.questions.Add(1), 10)
		answered := make(chan struct{})
		f.mu.Lock()
		f.open[id] = answered
		f.mu.Unlock()
		c.event(fmt.Sprintf(elicit, id, "?"))
		select {
		case <-answered:
			c.result(`{"content":[{"type":"text","text":"answered"}]}`)
		case <-c.cancelled:
		}
	case "idles":
		<-c.cancelled
	case "works":
		c.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`)
		f.started <- c
		<-c.cancelled
	case "deaf": // its work goes on after the cancellation
		f.started <- c
		select {
		case <-f.u.t.Context().Done():
		case <-time.After(testkit.Patient):
		}
	default:
		f.started <- c
		<-c.cancelled
	}
}

// sequentialClient makes one call after the other.
type sequentialClient interface {
	// begin sends a call.
	begin(name, extra string)
	// answer returns the answer to the call.
	answer() string
	// leave gives the call up as the transport does.
	leave()
}

// sequentialCall is the call of a client that can be asked and wants progress.
func sequentialCall(id, name, extra string) string {
	return strings.Replace(asksCall(id, name, extra), `"_meta":{`, `"_meta":{"progressToken":1,`, 1)
}

// sequentialHTTP has a connection for each call, which no other goroutine uses: Close has closed it when it returns.
type sequentialHTTP struct {
	r    *rig
	conn net.Conn
}

func (s *sequentialHTTP) begin(name, extra string) {
	s.r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.r.base, "http://"))
	if err != nil {
		s.r.t.Fatal(err)
	}
	s.r.t.Cleanup(func() { _ = conn.Close() })
	s.conn = conn
	req, err := http.NewRequest("POST", s.r.base+"/mcp", strings.NewReader(sequentialCall("1", name, extra)))
	if err != nil {
		s.r.t.Fatal(err)
	}
	for i, h := 0, modernHeaders("tools/call", name); i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	if err := req.Write(conn); err != nil {
		s.r.t.Fatal(err)
	}
}

func (s *sequentialHTTP) answer() string {
	s.r.t.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(testkit.Patient))
	res, err := http.ReadResponse(bufio.NewReader(s.conn), nil)
	if err != nil {
		s.r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.r.t.Fatal(err)
	}
	return string(body)
}

func (s *sequentialHTTP) leave() { _ = s.conn.Close() }

type sequentialPipe struct {
	p *pipes
	n int
}

func (s *sequentialPipe) begin(name, extra string) {
	s.n++
	s.p.send(sequentialCall(strconv.Itoa(s.n), name, extra))
}

func (s *sequentialPipe) answer() string {
	s.p.t.Helper()
	for {
		line := testkit.Receive(s.p.t, "an answer", s.p.lines)
		if strings.Contains(line, fmt.Sprintf(`"id":%d,`, s.n)) {
			return line
		}
	}
}

func (s *sequentialPipe) leave() {
	s.p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, s.n))
}

// endings are the ways in which a call ends for its client. Each begins one call and ends it.
var endings = []struct {
	name string
	run  func(f *forgetful, c sequentialClient)
}{
	{"cancelled at once", func(_ *forgetful, c sequentialClient) { c.begin("idles", ""); c.leave() }}, // it may not reach the server
	{"cancelled at the server", func(f *forgetful, c sequentialClient) { c.begin("waits", ""); f.reached(); c.leave() }},
	{"cancelled after progress", func(f *forgetful, c sequentialClient) { c.begin("works", ""); f.reached(); c.leave() }},
	{"cancelled, but it goes on", func(f *forgetful, c sequentialClient) { c.begin("deaf", ""); f.reached(); c.leave() }},
	{"failed", func(_ *forgetful, c sequentialClient) { c.begin("fails", ""); c.answer() }},
	{"asked, never answered", func(f *forgetful, c sequentialClient) { c.begin("asks", ""); f.asked(c) }},
	{"asked, answered after another call", func(f *forgetful, c sequentialClient) {
		c.begin("asks", "")
		question := f.asked(c)
		c.begin("where", "")
		c.answer()
		c.begin("asks", fmt.Sprintf(`,"inputResponses":{%q:{"action":"decline"}},"requestState":%q`, textAfter(question, `"inputRequests":{"`), statePattern.FindStringSubmatch(question)[1]))
		if got := c.answer(); !strings.Contains(got, `"answered"`) {
			f.u.t.Errorf("after the answer: %s", got)
		}
	}},
}

// asked returns the answer to a call, which must be a question.
func (f *forgetful) asked(c sequentialClient) string {
	f.u.t.Helper()
	got := c.answer()
	if !strings.Contains(got, `"input_required"`) {
		f.u.t.Fatalf("no question: %s", got)
	}
	return got
}

// reached waits until a call that does not end by itself has reached the server.
func (f *forgetful) reached() {
	f.u.t.Helper()
	testkit.Receive(f.u.t, "the call at the server", f.started)
}

// The calls that a client makes one after the other run in one session, in which the server remembers what the client did, however each of
// them ends. DRAGOMAN_TEST_ROUNDS is the number of rounds, for a long run on a busy machine.
func TestSequentialCallsStayInOneSession(t *testing.T) {
	rounds := 2
	if n, err := strconv.Atoi(os.Getenv("DRAGOMAN_TEST_ROUNDS")); err == nil {
		rounds = n
	}
	const limits = "[questions]\nmax_parked_per_principal = 1000\n[limits]\nrequest_time = \"30s\"\n"
	for _, kind := range legacyKinds {
		for _, transport := range []string{"http", "stdio"} {
			t.Run(kind+" "+transport, func(t *testing.T) {
				t.Parallel()
				u := newUpstream(t, kind)
				f := newForgetful(u)
				var c sequentialClient
				if toml := limits + u.toml("max_sessions = 1000"); transport == "http" {
					c = &sequentialHTTP{r: startRig(t, toml, true)}
				} else {
					c = &sequentialPipe{p: startStdio(t, toml)}
				}
				for round := range rounds {
					for _, e := range endings {
						e.run(f, c)
						c.begin("where", "")
						if got := c.answer(); !strings.Contains(got, `"session 1"`) {
							t.Fatalf("round %d: after a call that was %s: %s", round+1, e.name, got)
						}
					}
				}
			})
		}
	}
}
