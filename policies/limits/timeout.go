package limits

import (
	"bytes"
	"errors"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Timeouts is how long a server may be silent in a call: before its first message, and between one message and the
// next. Progress, log messages and questions of the call count as messages. limits.request_time bounds the whole call.
type Timeouts struct {
	Tool, Resource, Prompt time.Duration                    // by kind (seed 001: 30, 10 and 5 s); 0: no limit
	Tools                  policies.Patterns[time.Duration] // of single tools, instead of Tool
	Server                 string                           // name, for the error
}

// kind returns the limit of a request and the key that sets it, or 0 if there is none. Requests that open a session, or
// that last, have other limits.
func (t *Timeouts) kind(m *wire.Message) (time.Duration, string) {
	method := m.Text(m.Method)
	switch {
	case string(method) == "tools/call":
		if d, ok := t.Tools.Find(m.Text(m.Name)); ok {
			return d, ""
		}
		return t.Tool, "tool_timeout"
	case string(method) == "tools/list":
		return t.Tool, "tool_timeout"
	case bytes.HasPrefix(method, []byte("resources/")):
		return t.Resource, "resource_timeout"
	case bytes.HasPrefix(method, []byte("prompts/")), string(method) == "completion/complete":
		return t.Prompt, "prompt_timeout"
	}
	return 0, ""
}

// Policy ends the calls of a silent server, and tells the server so. The clock starts when the request has been sent:
// the start of a process and the wait for a session have their own limits. It stops while a question waits for the
// client's answer, until the server's next message, and for the rest of a call that becomes a task.
func (t *Timeouts) Policy(next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Msg.Kind != wire.Request {
			return next(ex)
		}
		limit, key := t.kind(&ex.Msg)
		replies, err := next(ex)
		if err != nil || limit == 0 {
			return replies, err
		}
		timing := proxy.Lend[timed](ex, timedSlot)
		*timing = timed{Replies: replies, of: t, ex: ex, key: key, limit: limit, due: time.Now().Add(limit)}
		return timing, nil
	}
}

var timedSlot = proxy.NewSlot()

type timed struct {
	proxy.Replies
	of    *Timeouts
	ex    *proxy.Exchange
	key   string // configuration key; empty: the tool's own
	limit time.Duration
	due   time.Time // zero while a question is open
}

// Clear implements proxy.Clearer.
func (t *timed) Clear() { *t = timed{} }

// Next implements proxy.Replies.
func (t *timed) Next(until time.Time) (m *wire.Message, err error) {
	at, ours := until, false
	if t.ex.Lasting.Load() {
		t.due = time.Time{}
	}
	if !t.due.IsZero() && (until.IsZero() || t.due.Before(until)) {
		at, ours = t.due, true
	}
	m, err = t.Replies.Next(at)
	switch {
	case err == nil && m.IsResponse():
	case err == nil && m.Kind == wire.Request:
		t.due = time.Time{}
	case err == nil:
		t.due = time.Now().Add(t.limit)
	case ours && errors.Is(err, proxy.ErrNotYet):
		if t.ex.Lasting.Load() {
			return t.Next(until)
		}
		return m, t.silent()
	}
	return m, err
}

// silent returns the error of a call whose server was silent for too long.
func (t *timed) silent() error {
	m := &t.ex.Msg
	own := "upstreams." + t.of.Server + `.tools."` + policies.About(m) + `".timeout`
	switch {
	case t.key == "":
		return proxy.Errf(proxy.UpstreamTimeout, "the tool was silent for %s, the most that %s allows; raise it, or let the tool report progress", t.limit, own)
	case m.Is("tools/call"):
		return proxy.Errf(proxy.UpstreamTimeout, "the tool was silent for %s, the most that %s allows; raise it, or %s for this tool, or let the tool report progress", t.limit, t.key, own)
	}
	return proxy.Errf(proxy.UpstreamTimeout, "the server was silent for %s, the most that %s allows; raise it if that is too little", t.limit, t.key)
}
