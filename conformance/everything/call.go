package everything

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// queueSize is how many messages a call may be ahead of its reader.
const queueSize = 16

// complete is the resultType of a final result.
const complete = "complete"

// outcome is the result of a tool or a prompt.
type outcome struct {
	kind       string       // resultType
	members    string       // the result's other members: raw JSON without the braces
	structured string       // structuredContent, raw JSON; empty if none
	refusal    *proxy.Error // an error response instead of a result
	stopped    bool         // the call was stopped and gets no answer
}

// query is the request of a tool or a prompt.
type query struct {
	server *Server
	msg    wire.Message // borrowed like Exchange.Msg
	client proxy.Client
	caller proxy.Caller
	args   arguments
}

// query returns the query of a request.
func (s *Server) query(ex *proxy.Exchange, m wire.Message) (query, *proxy.Error) {
	args, refusal := argumentsOf(&m)
	return query{server: s, msg: m, client: ex.Client, caller: ex.Caller, args: args}, refusal
}

// since reports whether the client's revision is version or later. Revisions are dates and compare as text.
func (q *query) since(version string) bool {
	return q.client.Era == proxy.Modern || q.client.Version >= version
}

// hasStructured is the revision that introduced structuredContent and the content block resource_link; hasAudio is the
// one that introduced audio.
const (
	hasStructured = "2025-06-18"
	hasAudio      = "2025-03-26"
)

// message returns the response.
func (q *query) message(out outcome) wire.Message {
	if out.refusal != nil {
		return proxy.ErrorMessage(q.msg.Of(q.msg.ID), out.refusal)
	}
	if out.structured != "" && q.since(hasStructured) {
		out.members += `,"structuredContent":` + out.structured
	}
	return proxy.ResultMessage(q.msg.Of(q.msg.ID), q.server.result(q.client.Era, out.kind, out.members))
}

// fails returns a result that reports an error or, for a prompt, whose results cannot, an error response.
func (q *query) fails(text string) outcome {
	if q.msg.Is("prompts/get") {
		return refuses(proxy.Errf(proxy.Question, "%s", text))
	}
	return fails(text)
}

// call is a query with its own goroutine, and the Replies of the exchange.
type call struct {
	query
	ex    *proxy.Exchange
	token []byte // progressToken, raw JSON; nil if no progress is wanted
	level int    // index of the lowest log level wanted; len(levels) if none

	queue chan wire.Message
	stop  chan struct{} // closed when the call is to end
	done  chan struct{} // closed when the goroutine has ended
	once  sync.Once
	cause error // why it was stopped; valid once stop is closed

	answered bool // Next has returned the response; used by the reader only
	alarm    alarm
}

var (
	_ proxy.Replies = (*call)(nil)
	_ proxy.Aborter = (*call)(nil)
)

// levels are the log levels, lowest first (2026-07-28 logging, Log Levels).
var levels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// call answers tools/call.
func (s *Server) call(ex *proxy.Exchange, m wire.Message) (proxy.Replies, error) {
	t, ok := s.tools[string(m.Text(m.Name))]
	if !ok || t.name == sometimes && !s.isShown(tools) {
		return refuse(&m, proxy.Errf(proxy.InvalidParams, "unknown tool: %s", m.Of(m.Name)))
	}
	q, refusal := s.query(ex, m)
	if refusal == nil && ex.Mirrors {
		refusal = checkMirrors(&q, t.mirrors, ex.Headers)
	}
	level := 0
	if refusal == nil {
		level, refusal = levelOf(&q)
	}
	if refusal != nil {
		return refuse(&m, refusal)
	}
	s.calls.Add(1)
	switch {
	case t.script != nil:
		return s.interview(ex, q, t.script)
	case t.answer != nil:
		return proxy.Reply(q.message(t.answer(&q))), nil
	}
	return s.run(ex, q, level, t.run)
}

// levelOf returns the lowest log level wanted, as an index into levels; len(levels) if none. The level recorded in the
// exchange takes precedence over the message's; a legacy client sets its level in the session, never in a request.
func levelOf(q *query) (int, *proxy.Error) {
	wanted, asked := q.client.LogLevel, q.client.LogLevel != ""
	if !asked && q.client.Era == proxy.Modern {
		wanted, asked = string(q.msg.Text(q.msg.LogLevel)), q.msg.LogLevel.Present()
	}
	if !asked {
		return len(levels), nil
	}
	level := slices.Index(levels[:], wanted)
	if level < 0 {
		return 0, proxy.Errf(proxy.InvalidParams, "unknown log level %q", wanted)
	}
	return level, nil
}

// run starts a call with its own goroutine.
func (s *Server) run(ex *proxy.Exchange, q query, level int, run func(*call) outcome) (proxy.Replies, error) {
	c := &call{
		query: q, ex: ex, token: tokenOf(&q.msg), level: level,
		queue: make(chan wire.Message, queueSize), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := s.start(c); err != nil {
		return nil, err
	}
	ex.Attach(c)
	go c.work(run) // ends after its answer, or with Close, the exchange or the server
	return c, nil
}

// tokenOf returns the progress token, a string or a number (2026-07-28 progress); nil if there is none.
func tokenOf(m *wire.Message) []byte {
	b := m.Of(m.Token)
	if len(b) > 0 && (b[0] == '"' || b[0] == '-' || b[0] >= '0' && b[0] <= '9') {
		return b
	}
	return nil
}

// start registers the call as running.
func (s *Server) start(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return shutDown()
	}
	if len(s.running) >= maxRunning {
		return proxy.Errf(proxy.Overloaded, "%d calls are running, which is the limit", maxRunning)
	}
	s.running[c] = struct{}{}
	s.workers.Add(1)
	return nil
}

func (s *Server) forget(c *call) {
	s.mu.Lock()
	delete(s.running, c)
	s.mu.Unlock()
	s.workers.Done()
}

// work runs the call in its goroutine.
func (c *call) work(run func(*call) outcome) {
	defer c.server.forget(c)
	defer close(c.done)
	out := run(c)
	if out.stopped {
		c.server.cancelled.Add(1)
		return
	}
	c.send(c.message(out))
}

// end stops the call. The first cause counts.
func (c *call) end(cause error) {
	c.once.Do(func() {
		c.cause = cause
		close(c.stop)
	})
}

// Abort implements proxy.Aborter. It stops the call because the exchange was cancelled.
func (c *call) Abort() {
	cause := c.ex.Err()
	if cause == nil {
		cause = proxy.ErrCancelled
	}
	c.end(cause)
}

// Next implements proxy.Replies. After a stop it may still return queued messages, and then the cause.
func (c *call) Next(until time.Time) (*wire.Message, error) {
	if c.answered {
		return nil, io.EOF
	}
	select {
	case m := <-c.queue:
		return c.take(m), nil
	default:
	}
	late, soon := c.alarm.until(until)
	if !soon {
		select {
		case <-c.stop:
			return nil, c.cause
		default:
			return nil, proxy.ErrNotYet
		}
	}
	select {
	case m := <-c.queue:
		return c.take(m), nil
	case <-c.stop:
		return nil, c.cause
	case <-late:
		return nil, proxy.ErrNotYet
	}
}

func (c *call) take(m wire.Message) *wire.Message {
	c.answered = m.IsResponse()
	return &m
}

// Close implements proxy.Replies. It returns when the goroutine of the call has ended.
func (c *call) Close() error {
	c.ex.Detach(c)
	c.end(proxy.ErrCancelled)
	<-c.done
	c.alarm.stop()
	return nil
}

// send queues a message. It waits while the queue is full, and returns false if the call was stopped.
func (c *call) send(m wire.Message) bool {
	select {
	case c.queue <- m:
		return true
	case <-c.stop:
		return false
	}
}

// pause waits for ms milliseconds; false if the call was stopped.
func (c *call) pause(ms int) bool {
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.stop:
		return false
	}
}

// progress sends a progress notification if there is a token; note may be empty. It returns false if the call was
// stopped.
func (c *call) progress(at, total int, note string) bool {
	if c.token == nil {
		return true
	}
	if note != "" {
		note = quote(note)
	}
	return c.notify("notifications/progress", object("progressToken", string(c.token),
		"progress", strconv.Itoa(at), "total", strconv.Itoa(total), "message", note))
}

// log sends a log message if the client wants its level. severity is one of levels, data is raw JSON. It returns false if
// the call was stopped.
func (c *call) log(severity, data string) bool {
	if slices.Index(levels[:], severity) < c.level {
		return true
	}
	return c.notify("notifications/message", object("level", quote(severity), "logger", `"demo"`, "data", data))
}

var errMade = errors.New("everything: what was made here is no message")

// notify sends a notification; false if the call was stopped.
func (c *call) notify(method, params string) bool {
	return c.say(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`)
}

// say sends a message that the server has made; false if the call was stopped.
func (c *call) say(raw string) bool {
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		c.end(errors.Join(errMade, err))
		return false
	}
	return c.send(m)
}
