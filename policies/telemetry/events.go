package telemetry

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Types of the events that requests lead to.
const (
	ToolCalled    = "dev.dragoman.tool.called"
	QuestionAsked = "dev.dragoman.question.asked"
	LimitHit      = "dev.dragoman.limit.hit"
)

// Event is something that others are told about.
type Event struct {
	Type    string
	Server  string // that it is about; empty: Dragoman itself
	Subject string // what it is about there; empty: all of it
	Trace   string // traceparent of the request that led to it; empty: none
	// Data writes the members of its data.
	Data func(b *wire.Builder)
}

// EventOptions configures [Events].
type EventOptions struct {
	// Wants reports whether anybody is told about events of a type, Report tells them. Neither waits.
	Wants  func(typ string) bool
	Report func(Event)
	// Content is how much of arguments and results an event has.
	Content policies.Arguments
}

// Events returns the policy that reports, for each request, what a call of a tool came to, the questions that servers ask in it, and the limits that it
// exceeds. It runs outside all policies that refuse requests.
func Events(opt EventOptions) proxy.Policy {
	limits := &limitEvents{}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request || ex.Own || !opt.Wants(ToolCalled) && !opt.Wants(QuestionAsked) && !opt.Wants(LimitHit) {
				return next(ex)
			}
			// The message as it came: a later policy may rename the tool in it.
			r := &reported{opt: &opt, limits: limits, ex: ex, msg: ex.Msg, began: time.Now()}
			replies, err := next(ex)
			if err != nil {
				r.failed(err)
				return nil, err
			}
			r.Replies = replies
			return r, nil
		}
	}
}

// reported watches the replies of a request.
type reported struct {
	proxy.Replies
	opt    *EventOptions
	limits *limitEvents
	ex     *proxy.Exchange
	msg    wire.Message
	began  time.Time
	done   bool
}

// Next implements proxy.Replies.
func (r *reported) Next(until time.Time) (*wire.Message, error) {
	m, err := r.Replies.Next(until)
	switch {
	case r.done || policies.Pending(err):
	case err != nil:
		r.failed(err)
	case m.Kind == wire.Request:
		r.asked(m.Text(m.Method))
	case m.IsResponse():
		r.answered(m)
	}
	return m, err
}

// Close implements proxy.Replies.
func (r *reported) Close() error {
	if !r.done {
		r.failed(policies.Unanswered(r.ex))
	}
	return r.Replies.Close()
}

func (r *reported) answered(m *wire.Message) {
	r.done = true
	end := answered(&r.msg, m)
	if end.outcome == needsAnswers {
		for _, question := range wire.Members(m.Raw, m.InputRequests) {
			r.asked(wire.Get(m.Raw, question, "method").Text(m.Raw))
		}
	}
	r.called(&end, m)
}

func (r *reported) failed(err error) {
	if r.done {
		return
	}
	r.done = true
	end := failed(r.ex, err)
	if end.policy == "rate" || end.policy == "limits" {
		r.exceeded(&end)
	}
	r.called(&end, nil)
}

// event begins an event about the request.
func (r *reported) event(typ string, data func(b *wire.Builder)) Event {
	e := Event{Type: typ, Server: r.server(), Data: data}
	if r.msg.Is(toolsCall) {
		e.Subject = string(r.msg.Text(r.msg.Name))
	}
	if t := r.ex.Trace; t != nil {
		e.Trace = t.Parent
	}
	return e
}

// server returns the server for which the request is, which there need not be; empty: it names none.
func (r *reported) server() string { return cmp.Or(r.ex.Target, r.ex.Server) }

// who writes the members that all of these events have.
func (r *reported) who(b *wire.Builder) {
	b.Some("server", wire.Shown(r.server()))
	b.Some("method", wire.Shown(r.msg.Text(r.msg.Method)))
	if r.msg.Is(toolsCall) {
		b.Some("tool", wire.Shown(r.msg.Text(r.msg.Name)))
	}
	b.Some("correlationId", wire.Shown(r.ex.ID()))
	b.Some("principal", wire.Shown(r.ex.Caller.Principal))
}

// called reports a call of a tool that is over. m is its response; nil: it has none.
func (r *reported) called(end *ending, m *wire.Message) {
	if !r.msg.Is(toolsCall) || !r.opt.Wants(ToolCalled) {
		return
	}
	r.opt.Report(r.event(ToolCalled, func(b *wire.Builder) {
		r.who(b)
		state, in := end.state(r.ex)
		b.Text("state", state)
		b.Some("failedIn", in)
		b.Text("outcome", end.outcome)
		b.Some("deniedBy", end.policy)
		if !end.ok {
			b.Key("errorCode")
			b.Raw = strconv.AppendInt(b.Raw, int64(end.code), 10)
		}
		b.Text("startedAt", r.began.UTC().Format(auditTime))
		b.Key("durationMs")
		b.Raw = strconv.AppendInt(b.Raw, max(time.Since(r.began).Milliseconds(), 0), 10)
		if r.msg.Arguments.Present() {
			b.Raw, _ = r.opt.Content.Append(b.Raw, "arguments", "argumentKeys", r.msg.Raw, r.msg.Arguments)
		}
		if m != nil && m.Kind == wire.Result {
			b.Raw, _ = r.opt.Content.Append(b.Raw, "result", "resultKeys", m.Raw, m.Result)
		}
	}))
}

// asked reports a question of a server. Of what it asks, only the method is told.
func (r *reported) asked(method []byte) {
	question := wire.Shown(method)
	r.opt.Report(r.event(QuestionAsked, func(b *wire.Builder) {
		r.who(b)
		b.Text("question", question)
	}))
}

// exceeded reports a limit that the request has exceeded.
func (r *reported) exceeded(end *ending) {
	left, ok := r.limits.take(time.Now().Unix())
	if !ok {
		return
	}
	r.opt.Report(r.event(LimitHit, func(b *wire.Builder) {
		r.who(b)
		b.Text("limit", end.outcome)
		b.Text("policy", end.policy)
		b.Key("unreported")
		b.Raw = strconv.AppendUint(b.Raw, left, 10)
	}))
}

// limitEvents bounds the events about limits: who sends too much may not fill the queues with that.
type limitEvents struct {
	mu     sync.Mutex
	second int64
	events int
	left   uint64 // that were not reported since the last one was
}

// take reports whether the second has room for one more event, and how many were left out before it.
func (l *limitEvents) take(second int64) (left uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.second != second {
		l.second, l.events = second, 0
	}
	if l.events++; l.events > refusedLines {
		l.left++
		return 0, false
	}
	left, l.left = l.left, 0
	return left, true
}
