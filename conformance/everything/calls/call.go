package calls

import (
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"dragoman/adapters/rules"
	"dragoman/conformance/everything/alarm"
	"dragoman/conformance/everything/arguments"
	"dragoman/conformance/everything/content"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// queueSize is how many messages a call may be ahead of its reader.
const queueSize = 16

// Query is the request of a tool or a prompt.
type Query struct {
	runner *Runner
	Msg    wire.Message // borrowed like Exchange.Msg
	Client proxy.Client
	caller proxy.Caller
	Args   arguments.Reader
	level  int // index of the lowest log level wanted; len(rules.LogLevels) if none
}

// Has reports whether the client's revision has a feature, which every modern revision has.
func (q *Query) Has(f rules.Feature) bool {
	return q.Client.Era == proxy.Modern || f.In(q.Client.Version)
}

// Message returns the response. Invalid arguments take precedence over the outcome.
func (q *Query) Message(out Outcome) wire.Message {
	if q.Args.Wrong != "" {
		out = Fails("invalid arguments: " + q.Args.Wrong)
	}
	if out.refusal != nil {
		return proxy.ErrorMessage(q.Msg.Of(q.Msg.ID), out.refusal)
	}
	if out.structured != "" && q.Has(rules.StructuredContent) {
		out.members += `,"structuredContent":` + out.structured
	}
	return proxy.ResultMessage(q.Msg.Of(q.Msg.ID), q.runner.result(q.Client.Era, out.kind, out.members))
}

// fails returns a result that reports an error or, for a prompt, whose results cannot, an error response.
func (q *Query) fails(text string) Outcome {
	if q.Msg.Is("prompts/get") {
		return refuses(proxy.NewError(proxy.Question, text))
	}
	return Fails(text)
}

// Call is a query with its own goroutine, and the Replies of the exchange.
type Call struct {
	Query
	ex    *proxy.Exchange
	token []byte // progressToken, raw JSON; nil if no progress is wanted

	queue chan wire.Message
	stop  chan struct{} // closed when the call is to end
	done  chan struct{} // closed when the goroutine has ended
	once  sync.Once
	cause error // why it was stopped; valid once stop is closed

	answered bool // Next has returned the response; used by the reader only
	alarm    alarm.Alarm
}

var (
	_ proxy.Replies = (*Call)(nil)
	_ proxy.Aborter = (*Call)(nil)
)

// ReadLevel sets the lowest log level wanted. The level recorded in the exchange takes precedence over the message's; a
// legacy client sets its level in the session, never in a request.
func (q *Query) ReadLevel() *proxy.Error {
	wanted, asked := q.Client.LogLevel, q.Client.LogLevel != ""
	if !asked && q.Client.Era == proxy.Modern {
		wanted, asked = string(q.Msg.Text(q.Msg.LogLevel)), q.Msg.LogLevel.Present()
	}
	if !asked {
		return nil
	}
	if q.level = slices.Index(rules.LogLevels, wanted); q.level < 0 {
		return proxy.Errf(proxy.InvalidParams, "unknown log level %q", wanted)
	}
	return nil
}

// tokenOf returns the progress token, a string or a number (2026-07-28 progress); nil if there is none.
func tokenOf(m *wire.Message) []byte {
	b := m.Of(m.Token)
	if len(b) > 0 && (b[0] == '"' || b[0] == '-' || b[0] >= '0' && b[0] <= '9') {
		return b
	}
	return nil
}

// work runs the call in its goroutine.
func (c *Call) work(run func(*Call) Outcome) {
	defer c.runner.forget(c)
	defer close(c.done)
	out := run(c)
	select {
	case <-c.stop:
		c.runner.cancelled.Add(1)
	default:
		c.send(c.Message(out))
	}
}

// end stops the call. The first cause counts.
func (c *Call) end(cause error) {
	c.once.Do(func() {
		c.cause = cause
		close(c.stop)
	})
}

// Abort implements proxy.Aborter. It stops the call because the exchange was cancelled.
func (c *Call) Abort() {
	cause := c.ex.Err()
	if cause == nil {
		cause = proxy.ErrCancelled
	}
	c.end(cause)
}

// Next implements proxy.Replies. After a stop it may still return queued messages, and then the cause.
func (c *Call) Next(until time.Time) (*wire.Message, error) {
	if c.answered {
		return nil, io.EOF
	}
	select {
	case m := <-c.queue:
		return c.take(m), nil
	default:
	}
	late, soon := c.alarm.Until(until)
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

func (c *Call) take(m wire.Message) *wire.Message {
	c.answered = m.IsResponse()
	return &m
}

// Close implements proxy.Replies. It returns when the goroutine of the call has ended.
func (c *Call) Close() error {
	c.ex.Detach(c)
	c.end(proxy.ErrCancelled)
	<-c.done
	c.alarm.Stop()
	return nil
}

// send queues a message. It waits while the queue is full, and returns false if the call was stopped.
func (c *Call) send(m wire.Message) bool {
	select {
	case c.queue <- m:
		return true
	case <-c.stop:
		return false
	}
}

// Pause waits for ms milliseconds; false if the call was stopped.
func (c *Call) Pause(ms int) bool {
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.stop:
		return false
	}
}

// Progress sends a progress notification if there is a token; note may be empty. It returns false if the call was
// stopped.
func (c *Call) Progress(at, total int, note string) bool {
	if c.token == nil {
		return true
	}
	if note != "" {
		note = content.Quote(note)
	}
	return c.notify("notifications/progress", content.Object("progressToken", string(c.token),
		"progress", strconv.Itoa(at), "total", strconv.Itoa(total), "message", note))
}

// Log sends a log message if the client wants its level. severity is one of rules.LogLevels, data is raw JSON. It returns false if
// the call was stopped.
func (c *Call) Log(severity, data string) bool {
	if slices.Index(rules.LogLevels, severity) < c.level {
		return true
	}
	return c.notify("notifications/message", content.Object("level", content.Quote(severity), "logger", `"demo"`, "data", data))
}

// notify sends a notification; false if the call was stopped.
func (c *Call) notify(method, params string) bool {
	return c.say(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`)
}

// say sends a message that the server has made; false if the call was stopped.
func (c *Call) say(raw string) bool {
	m, err := content.Scan([]byte(raw))
	if err != nil {
		c.end(err)
		return false
	}
	return c.send(m)
}
