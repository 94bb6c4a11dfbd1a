package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// TestChaosAtRealWires tests the property of the chaos test of adapters/era with real transports, the whole proxy and real processes.
// Servers ask, are silent, break off and are killed; clients answer correctly, twice, wrongly or never, cancel and leave. Every request is
// answered exactly once or was cancelled, a question reaches the call in which it was asked, no tool runs twice, and nothing is left. It
// runs two seconds for each kind of server, or DRAGOMAN_TEST_SECONDS.
func TestChaosAtRealWires(t *testing.T) {
	lasts := 2 * time.Second
	if n, err := strconv.Atoi(os.Getenv("DRAGOMAN_TEST_SECONDS")); err == nil {
		lasts = time.Duration(n) * time.Second
	}
	for i, kind := range []string{"legacy-stdio", "legacy", "modern", "modern-stdio"} {
		t.Run(kind, func(t *testing.T) {
			t.Cleanup(func() { testkit.Eventually(t, "the end of all children", func() bool { return len(children()) == 0 }) })
			c := &chaos{t: t, u: newUpstream(t, kind), until: time.Now().Add(lasts), rand: rand.New(rand.NewPCG(uint64(i), 7)),
				asked: map[string]chan string{}, runs: map[string]int{}}
			c.u.getOpen = true
			c.u.on("tools/call", c.serve)
			c.u.mu.Lock()
			c.u.heard = c.received
			c.u.mu.Unlock()
			c.r = startRig(t, c.u.toml("max_sessions = 8")+"\n[questions]\nttl = \"1s\"\n", true)
			var clients sync.WaitGroup
			for n := range 3 {
				clients.Go(func() { c.modern(fmt.Sprintf("m%d", n)) })
				clients.Go(func() { c.legacy(fmt.Sprintf("l%d", n)) })
			}
			clients.Wait()
			testkit.Eventually(t, "the end of what is parked", func() bool { return c.r.h.Pending().Suspended() == 0 })
			testkit.Eventually(t, "the end of all leases", func() bool { _, leased := c.r.h.Targets.All[0].Sessions(); return leased == 0 })
			testkit.Eventually(t, "the end of all calls at the server", func() bool { return c.number(&c.live) == 0 })
			t.Logf("%d calls, %d answered, %d questions, %d children killed", c.number(&c.calls), c.number(&c.answered), c.number(&c.questions), c.number(&c.killed))
			if c.number(&c.answered) == 0 || c.number(&c.questions) == 0 {
				t.Error("nothing happened")
			}
		})
	}
}

// children returns the child processes of this one.
func children() (pids []int) {
	lists, _ := os.ReadDir("/proc/self/task")
	for _, task := range lists {
		raw, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, f := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// chaos is one run: the server's script, and the clients.
type chaos struct {
	t     *testing.T
	u     *upstream
	r     *rig
	until time.Time

	mu                                             sync.Mutex
	rand                                           *rand.Rand
	asked                                          map[string]chan string // answers, by the question's id
	runs                                           map[string]int
	live, calls, answered, questions, killed, next int
}

func (c *chaos) chance(percent int) bool { return c.int(100) < percent }

func (c *chaos) int(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

func (c *chaos) add(n *int, d int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n += d
	return *n
}

func (c *chaos) number(n *int) int { return c.add(n, 0) }

// received passes answers to their questions.
func (c *chaos) received(s *seen, _ *stream) {
	if s.method != "response" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.asked[s.id]; ch != nil {
		select {
		case ch <- s.body:
		default:
			if strings.HasPrefix(c.u.kind, "modern") {
				c.t.Errorf("an unexpected answer: %s", s.body)
			}
		}
	}
}

// serve handles a call at the server.
func (c *chaos) serve(call *call) {
	tag := textAfter(call.body, `"name":"`)
	again := strings.Contains(call.body, `"inputResponses"`)
	c.add(&c.live, 1)
	defer c.add(&c.live, -1)
	c.mu.Lock()
	if !again {
		if c.runs[tag]++; c.runs[tag] > 1 {
			c.t.Errorf("%s runs %d times", tag, c.runs[tag])
		}
	}
	c.mu.Unlock()
	for c.chance(30) {
		call.event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}`)
		c.rest(call)
	}
	switch {
	case again:
		if said := textAfter(call.body, `"text":"`); said != tag {
			c.t.Errorf("%s is answered %s", tag, call.body)
		}
	case c.u.legacy:
		for c.chance(45) {
			if gone := c.ask(call, tag); gone {
				return
			}
		}
	case c.chance(45):
		c.add(&c.questions, 1)
		call.result(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object","properties":{}}}}},"requestState":%q}`, tag, tag))
		return
	}
	c.finish(call, tag)
}

// rest waits for a random time.
func (c *chaos) rest(call *call) {
	select {
	case <-call.cancelled:
	case <-time.After(time.Duration(c.int(10)) * time.Millisecond):
	}
}

// ask asks a question in a call.
func (c *chaos) ask(call *call, tag string) (gone bool) {
	c.add(&c.questions, 1)
	id := strconv.Itoa(c.add(&c.next, 1))
	answer := make(chan string, 1)
	c.mu.Lock()
	c.asked[id] = answer
	c.mu.Unlock()
	call.event(fmt.Sprintf(elicit, id, tag))
	select {
	case <-call.cancelled:
		return true
	case body := <-answer:
		if strings.Contains(body, `"result"`) && textAfter(body, `"text":"`) != tag {
			c.t.Errorf("%s is answered %s", tag, body)
		}
	}
	return false
}

func (c *chaos) finish(call *call, tag string) {
	switch k := c.int(100); {
	case k < 5:
		call.drop()
	case k < 9:
		<-call.cancelled
	case k < 12 && runtime.GOOS == "linux":
		if pids := children(); len(pids) > 0 {
			c.add(&c.killed, 1)
			if child, err := os.FindProcess(pids[c.int(len(pids))]); err == nil {
				_ = child.Kill()
			}
		}
		fallthrough
	case k < 20:
		call.error(200, fmt.Sprintf(`{"code":-32000,"message":%q}`, tag))
	default:
		call.result(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, tag))
	}
}

// reply is the part of an answer that is read.
type reply struct {
	ID     json.RawMessage
	Method string
	Params struct{ Message string }
	Result *struct {
		Content       []struct{ Text string }
		ResultType    string
		RequestState  string
		InputRequests map[string]struct{ Params struct{ Message string } }
	}
	Error *struct {
		Code    int
		Message string
		Data    struct{ Code string }
	}
}

// post sends a request and passes every message of its answer to told. The client cancels it after the patience. leave, if not nil, is how;
// then the answer must end.
func (c *chaos) post(tag, body string, headers []string, leave func(), told func(m *reply)) (last *reply, status int) {
	c.add(&c.calls, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patient)
	defer cancel()
	left := make(chan struct{})
	patience := time.AfterFunc(time.Duration(20+c.int(300))*time.Millisecond, func() {
		close(left)
		if leave == nil {
			cancel()
			return
		}
		leave()
	})
	defer patience.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.r.base+"/mcp", strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return nil, 0
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.r.http.Do(req)
	if err == nil {
		defer func() { _ = res.Body.Close() }()
		status = res.StatusCode
		last, err = c.read(tag, res, told)
	}
	select {
	case <-left:
		if leave != nil && err != nil {
			c.t.Errorf("%s: cancelled, and the answer does not end: %v", tag, err)
		}
	default:
		if err != nil || last == nil && status != 404 {
			c.t.Errorf("%s: no response: status %d, %v", tag, status, err)
		}
	}
	return last, status
}

// read reads an answer to its end, with one response at most.
func (c *chaos) read(tag string, res *http.Response, told func(m *reply)) (last *reply, err error) {
	one := func(raw string) {
		m := &reply{}
		if err := json.Unmarshal([]byte(raw), m); err != nil {
			c.t.Errorf("%s: %q: %v", tag, raw, err)
		}
		if m.Method != "" {
			told(m)
			return
		}
		if last != nil {
			c.t.Errorf("%s: a second response: %s", tag, raw)
		}
		last = m
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		raw, err := io.ReadAll(res.Body)
		if len(raw) > 0 && err == nil {
			one(string(raw))
		}
		return last, err
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data:"); ok && strings.TrimSpace(data) != "" {
			one(data)
		}
	}
	return last, lines.Err()
}

// judge checks that a response belongs to the call.
func (c *chaos) judge(tag string, m *reply) {
	switch {
	case m == nil:
		return
	case m.Error != nil:
		if m.Error.Code == -32000 && m.Error.Message != tag || m.Error.Data.Code == "internal" {
			c.t.Errorf("%s gets %+v", tag, m.Error)
		}
	case m.Result == nil:
		c.t.Errorf("%s gets neither a result nor an error", tag)
	case m.Result.ResultType == "input_required":
		for _, q := range m.Result.InputRequests {
			if q.Params.Message != tag {
				c.t.Errorf("%s is asked %q", tag, q.Params.Message)
			}
		}
		return
	case len(m.Result.Content) != 1 || m.Result.Content[0].Text != tag && !strings.HasPrefix(m.Result.Content[0].Text, "the client could not answer"):
		c.t.Errorf("%s gets %+v", tag, m.Result)
	}
	c.add(&c.answered, 1)
}

// modern is a modern client: one call after the other.
func (c *chaos) modern(name string) {
	for n := 0; time.Now().Before(c.until); n++ {
		tag, extra := fmt.Sprintf("%s-%d", name, n), ""
		for round := 0; ; round++ {
			end := c.send(tag, fmt.Sprintf("%d", 10*n+round), extra)
			if end == nil || end.Result == nil || end.Result.ResultType != "input_required" || c.chance(10) {
				break
			}
			answers := ""
			for key := range end.Result.InputRequests {
				answers = fmt.Sprintf(`%q:{"action":"accept","content":{"text":%q}}`, key, tag)
			}
			state := end.Result.RequestState
			extra = fmt.Sprintf(`,"inputResponses":{%s},"requestState":%q`, answers, state)
			if c.u.legacy && c.chance(10) {
				if end := c.send(tag, "7", strings.Replace(extra, state, "v1.A"+state, 1)); end != nil && end.Result != nil {
					c.t.Errorf("%s: a changed state counts", tag)
				}
			}
			if c.u.legacy && c.chance(10) {
				c.twice(tag, extra)
				break
			}
		}
	}
}

// twice sends two retries with one state: one is accepted.
func (c *chaos) twice(tag, extra string) {
	var group sync.WaitGroup
	ends := make([]*reply, 2)
	for i := range ends {
		group.Go(func() { ends[i] = c.send(tag, strconv.Itoa(1000+i), extra) })
	}
	group.Wait()
	if ends[0] != nil && ends[1] != nil && ends[0].Result != nil && ends[1].Result != nil {
		c.t.Errorf("%s: one state counts twice", tag)
	}
}

func (c *chaos) send(tag, id, extra string) *reply {
	last, _ := c.post(tag, asksCall(id, tag, extra), modernHeaders("tools/call", tag), nil, func(m *reply) {
		if m.ID != nil {
			c.t.Errorf("%s, which is modern, is sent a request", tag)
		}
	})
	c.judge(tag, last)
	return last
}

// legacy is a legacy client: sessions, and calls in them one after the other.
func (c *chaos) legacy(name string) {
	for n := 0; time.Now().Before(c.until); {
		session := c.session(name)
		if session == "" {
			continue
		}
		for time.Now().Before(c.until) {
			n++
			tag := fmt.Sprintf("%s-%d", name, n)
			id := n
			leave := func() {
				c.notify(session, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
			}
			last, status := c.post(tag, legacyCall(strconv.Itoa(n), tag), legacyHeaders(session), leave, func(m *reply) { c.reply(session, tag, m) })
			if status == 404 { // the session is lost
				break
			}
			c.judge(tag, last)
			if c.chance(5) {
				if req, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, c.r.base+"/mcp", nil); err == nil {
					req.Header.Set("Mcp-Session-Id", session)
					if res, err := c.r.http.Do(req); err == nil {
						_ = res.Body.Close()
					}
				}
				break
			}
		}
	}
}

// session opens a session; the server may be dead or be killed meanwhile.
func (c *chaos) session(name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patient)
	defer cancel()
	res, err := c.r.do(ctx, "POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":%q,"version":"1"}}}`, name), legacyHeaders("")...)
	if err != nil {
		c.t.Errorf("initialize: %v", err)
		return ""
	}
	session := res.header.Get("Mcp-Session-Id")
	if session != "" {
		c.notify(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return session
}

func (c *chaos) notify(session, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patient)
	defer cancel()
	if res, err := c.r.do(ctx, "POST", "/mcp", body, legacyHeaders(session)...); err != nil || res.status != 202 && res.status != 404 {
		c.t.Errorf("%s: %+v, %v", body, res, err)
	}
}

// reply answers a question that came in a call.
func (c *chaos) reply(session, tag string, m *reply) {
	if m.Method != "elicitation/create" {
		return
	}
	name, _, _ := strings.Cut(tag, "-")
	switch asks, _, _ := strings.Cut(m.Params.Message, "-"); {
	case m.Params.Message == tag:
	case c.u.kind == "legacy-stdio" && asks == name: // of an earlier call: between legacy parties a process's question names no call
	default:
		c.t.Errorf("%s is asked %q", tag, m.Params.Message)
	}
	right := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"text":%q}}}`, m.ID, m.Params.Message)
	switch k := c.int(100); {
	case k < 8:
		c.notify(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}`, m.ID))
	case k < 14: // not at all
	case k < 20:
		c.notify(session, right)
		c.notify(session, right)
	default:
		c.notify(session, right)
	}
}
