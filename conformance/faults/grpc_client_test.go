package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// caller is a client of 2026-07-28 whose calls run side by side.
type caller struct {
	t    *testing.T
	d    *dragoman
	path string
	http *http.Client
	n    atomic.Int32
}

func newCaller(t *testing.T, d *dragoman, path string) *caller {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: t, d: d, path: path, http: &http.Client{Transport: transport}}
}

// running is a call that runs. Its outcome is valid after end.
type running struct {
	t         *testing.T
	tag       string
	moved     chan struct{} // has an element after progress
	done      chan struct{}
	outcome   outcome
	text      string // of the result
	began     time.Time
	ended     time.Time
	responses int
	leave     context.CancelFunc
}

// body returns the request of a call.
func (w work) body(tool string, load int, progress bool) string {
	meta := modernMeta
	if progress {
		meta += fmt.Sprintf(`,"progressToken":%q`, w.Tag)
	}
	arguments, _ := json.Marshal(struct {
		work
		Load string
	}{w, strings.Repeat("z", load)})
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%s}}}`, w.Tag, tool, arguments, meta)
}

// begin begins a call with load bytes of arguments, and reads its answer.
func (c *caller) begin(tool string, w work, load int, progress bool) *running {
	w.Tag = fmt.Sprintf("t%d", c.n.Add(1))
	r := &running{t: c.t, tag: w.Tag, moved: make(chan struct{}, 1), done: make(chan struct{}), began: time.Now()}
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*patient)
	r.leave = cancel
	go func() { // ends with the answer, or with ctx
		defer close(r.done)
		defer cancel()
		if err := c.read(ctx, r, tool, w.body(tool, load, progress)); err != nil {
			r.outcome = broken(err)
		}
		r.ended = time.Now()
		r.outcome.took = r.ended.Sub(r.began)
	}()
	return r
}

func (c *caller) read(ctx context.Context, r *running, tool, body string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.d.base+c.path, strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
		q.Header.Set(name, value)
	}
	res, err := c.http.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewReader(res.Body)
	streams := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	for {
		line, err := lines.ReadBytes('\n')
		data, is := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !streams {
			data, is = line, len(line) > 0
		}
		if is {
			r.take(data)
		}
		if err != nil {
			break
		}
	}
	if r.responses != 1 {
		return fmt.Errorf("%d responses to one request (%s)", r.responses, res.Status)
	}
	return nil
}

// take takes a message of the answer.
func (r *running) take(data []byte) {
	var m struct {
		Method string
		Result struct{ Content []struct{ Text string } }
	}
	_ = json.Unmarshal(data, &m)
	if m.Method != "" {
		select {
		case r.moved <- struct{}{}:
		default:
		}
		return
	}
	r.responses++
	r.outcome = judge(data)
	if n := len(m.Result.Content); n > 0 {
		r.text = m.Result.Content[n-1].Text
	}
}

// moves waits for progress, n times.
func (r *running) moves(n int) {
	r.t.Helper()
	for range n {
		select {
		case <-r.moved:
		case <-r.done:
			r.t.Fatalf("%s is over: %+v", r.tag, r.outcome)
		case <-time.After(patient):
			r.t.Fatalf("%s reports no progress", r.tag)
		}
	}
}

// end waits for the end of the call, and checks that it had one.
func (r *running) end() outcome {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * patient):
		r.t.Fatalf("%s never ends", r.tag)
	}
	if r.outcome.Broken {
		r.t.Errorf("%s: %s: %s", r.tag, r.outcome.Code, r.outcome.Message)
	}
	return r.outcome
}

// answered waits for the end of the call, checks that it has a result, and returns its text.
func (r *running) answered() string {
	r.t.Helper()
	if o := r.end(); o.Code != "" {
		r.t.Errorf("%s after %s: %s: %s", r.tag, o.took, o.Code, o.Message)
	}
	return r.text
}

// leaves ends a call that runs at a provider, which gets to know it.
func (c *caller) leaves(r *running, at *process) {
	c.t.Helper()
	r.leave()
	<-r.done
	eventually(c.t, "the provider's call is cancelled", func() bool { return at.noted("cancelled", r.tag) == 1 })
}

// load is callers that make one call after the other until they are stopped.
type load struct {
	c     *caller
	stop  chan struct{}
	group sync.WaitGroup

	mu    sync.Mutex
	calls []*running
	last  map[string]time.Time // when a text was answered last
}

// newLoad begins callers of a tool, whose work takes some ms.
func newLoad(c *caller, callers int, tool string, ms int) *load {
	l := &load{c: c, stop: make(chan struct{}), last: map[string]time.Time{}}
	for range callers {
		l.group.Go(func() {
			for {
				r := c.begin(tool, work{Pause: ms}, 0, false)
				<-r.done
				l.mu.Lock()
				l.calls = append(l.calls, r)
				l.last[r.text] = r.ended
				l.mu.Unlock()
				select {
				case <-l.stop:
					return
				default:
				}
			}
		})
	}
	return l
}

// meets waits until a call that begins now or later is answered with the text.
func (l *load) meets(text string) time.Duration {
	l.c.t.Helper()
	began := time.Now()
	eventually(l.c.t, "an answer "+text, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.last[text].After(began)
	})
	return time.Since(began)
}

// end stops the callers and returns the calls.
func (l *load) end() []*running {
	close(l.stop)
	l.group.Wait()
	return l.calls
}

// saved stops the callers, and checks that all calls were answered and how often each ran: once, or with repeated, up to three times.
func (l *load) saved(repeated bool, by ...*process) int {
	t := l.c.t
	t.Helper()
	calls := l.end()
	if len(calls) == 0 {
		t.Error(errors.New("no call was made"))
	}
	for _, r := range calls {
		r.answered()
		ran := 0
		for _, p := range by {
			ran += p.noted("ran", r.tag)
		}
		if ran < 1 || ran > 1 && !repeated || ran > 3 {
			t.Errorf("%s ran %d times", r.tag, ran)
		}
	}
	return len(calls)
}
