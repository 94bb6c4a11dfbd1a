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

// complete is the resultType of a result that is the whole answer.
const complete = "complete"

// outcome is what a tool came to.
type outcome struct {
	kind    string       // resultType; what is no complete result brings its own members
	members string       // the result's other members: raw JSON without the braces
	refusal *proxy.Error // instead of a result: an error response
	stopped bool         // the call was stopped: nobody waits for an answer
}

// query is a call of a tool, as far as an answer can be computed from it.
type query struct {
	server *Server
	msg    wire.Message // borrowed like Exchange.Msg; a tool that asks finds inputResponses and requestState in it
	client proxy.Client
	args   arguments
}

// declares tells whether the client declared a capability. What is known beside the message goes before what it says.
func (q *query) declares(capability string) bool {
	caps := q.client.Caps
	if caps == nil {
		caps = q.msg.Of(q.msg.Caps)
	}
	if len(caps) == 0 {
		return false
	}
	return wire.Get(caps, wire.Span{From: 0, To: uint32(len(caps))}, capability).Present() //nolint:gosec // part of a message
}

// message makes the response.
func (q *query) message(out outcome) wire.Message {
	if out.refusal != nil {
		return proxy.ErrorMessage(q.msg.Of(q.msg.ID), out.refusal)
	}
	return proxy.ResultMessage(q.msg.Of(q.msg.ID), q.server.result(out.kind, out.members))
}

// call is a query whose tool runs: the Replies of the exchange, and the goroutine behind them.
type call struct {
	query
	ex    *proxy.Exchange
	token []byte // progressToken, raw JSON; nil: no progress is wanted
	level int    // the least severe log level wanted; one above the highest if none is

	queue chan wire.Message
	stop  chan struct{} // closed when the call is to end
	done  chan struct{} // closed when the goroutine has ended
	once  sync.Once
	cause error // why it was stopped; to be read after stop is closed

	answered bool        // Next has given the response; belongs to the reader
	timer    *time.Timer // of Next
}

var (
	_ proxy.Replies = (*call)(nil)
	_ proxy.Aborter = (*call)(nil)
)

// levels are the log levels in order (2026-07-28 logging, Log Levels).
var levels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// call answers tools/call.
func (s *Server) call(ex *proxy.Exchange, m wire.Message) (proxy.Replies, error) {
	refuse := func(e *proxy.Error) (proxy.Replies, error) {
		return proxy.Reply(proxy.ErrorMessage(m.Of(m.ID), e)), nil
	}
	t, ok := s.tools[string(m.Text(m.Name))]
	if !ok {
		return refuse(proxy.Errf(proxy.InvalidParams, "unknown tool: %s", m.Of(m.Name)))
	}
	args, refusal := argumentsOf(&m)
	if refusal != nil {
		return refuse(refusal)
	}
	wanted := ex.Client.LogLevel
	if wanted == "" {
		wanted = string(m.Text(m.LogLevel))
	}
	level := slices.Index(levels[:], wanted)
	switch {
	case wanted == "" && !m.LogLevel.Present():
		level = len(levels)
	case level < 0:
		return refuse(proxy.Errf(proxy.InvalidParams, "unknown log level %q", wanted))
	}
	s.calls.Add(1)
	q := query{server: s, msg: m, client: ex.Client, args: args}
	if t.answer != nil {
		return proxy.Reply(q.message(t.answer(&q))), nil
	}
	c := &call{
		query: q, ex: ex, token: tokenOf(&m), level: level,
		queue: make(chan wire.Message, queueSize), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := s.start(c); err != nil {
		return nil, err
	}
	ex.Attach(c)
	go c.work(t.run)
	return c, nil
}

// tokenOf gives the progress token, a string or a number (2026-07-28 progress); nil if there is none.
func tokenOf(m *wire.Message) []byte {
	b := m.Of(m.Token)
	if len(b) > 0 && (b[0] == '"' || b[0] == '-' || b[0] >= '0' && b[0] <= '9') {
		return b
	}
	return nil
}

// start takes the call among the running ones.
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

// work is the goroutine of the call.
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

// end stops the call; only the first cause counts.
func (c *call) end(cause error) {
	c.once.Do(func() {
		c.cause = cause
		close(c.stop)
	})
}

// Abort implements proxy.Aborter: the exchange was cancelled.
func (c *call) Abort() {
	cause := c.ex.Err()
	if cause == nil {
		cause = proxy.ErrCancelled
	}
	c.end(cause)
}

// Next implements proxy.Replies. After a stop it may still give what had been queued, and then the cause.
func (c *call) Next(until time.Time) (wire.Message, error) {
	if c.answered {
		return wire.Message{}, io.EOF
	}
	select {
	case m := <-c.queue:
		return c.take(m), nil
	default:
	}
	late, soon := c.alarm(until)
	if !soon {
		select {
		case <-c.stop:
			return wire.Message{}, c.cause
		default:
			return wire.Message{}, proxy.ErrNotYet
		}
	}
	select {
	case m := <-c.queue:
		return c.take(m), nil
	case <-c.stop:
		return wire.Message{}, c.cause
	case <-late:
		return wire.Message{}, proxy.ErrNotYet
	}
}

// alarm gives a channel that fires at the time, nil for the zero time, and whether there is anything to wait for.
func (c *call) alarm(until time.Time) (<-chan time.Time, bool) {
	if until.IsZero() {
		return nil, true
	}
	wait := time.Until(until)
	if wait <= 0 {
		return nil, false
	}
	if c.timer == nil {
		c.timer = time.NewTimer(wait)
	} else {
		c.timer.Reset(wait)
	}
	return c.timer.C, true
}

func (c *call) take(m wire.Message) wire.Message {
	c.answered = m.IsResponse()
	return m
}

// Close implements proxy.Replies. It returns when the goroutine of the call has ended.
func (c *call) Close() error {
	c.ex.Detach(c)
	c.end(proxy.ErrCancelled)
	<-c.done
	if c.timer != nil {
		c.timer.Stop()
	}
	return nil
}

// send queues a message, waiting for the reader if the queue is full. It answers false if the call was stopped.
func (c *call) send(m wire.Message) bool {
	select {
	case c.queue <- m:
		return true
	case <-c.stop:
		return false
	}
}

// pause waits. It answers false if the call was stopped.
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

// progress reports progress, if a token was given; note may be empty. It answers false if the call was stopped.
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

// log sends a log message, if the client wants such: severity is one of levels, data raw JSON. It answers false if the
// call was stopped.
func (c *call) log(severity, data string) bool {
	if slices.Index(levels[:], severity) < c.level {
		return true
	}
	return c.notify("notifications/message", object("level", quote(severity), "logger", `"demo"`, "data", data))
}

var errNotification = errors.New("everything: a notification made here is no message")

func (c *call) notify(method, params string) bool {
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`))
	if err != nil {
		c.end(errors.Join(errNotification, err))
		return false
	}
	return c.send(m)
}
