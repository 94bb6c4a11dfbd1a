package tasks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds on polling a task at a modern server, which names the interval.
const (
	pollStandard = time.Second
	pollLeast    = 50 * time.Millisecond
	pollMost     = time.Minute
	pollFailures = 5 // consecutive failures that end the call
)

// Polled is a task that a modern server made of a legacy client's call (SEP-2663). It is polled until it ends, while the
// client waits for its response as if there were none. As Replies it returns the states in which the task asks for input
// (Asks), and then the response of the call.
type Polled struct {
	work    *work.Group
	link    transport.Link // the same for all requests: another process would not know the task
	ex      *proxy.Exchange
	id      []byte // raw JSON
	every   time.Duration
	due     time.Time       // time of the next poll
	inner   *proxy.Exchange // the pending request about the task, and its replies
	replies proxy.Replies
	answers []byte // to questions of the task, raw JSON, until the server has received them
	asks    bool
	failed  int // consecutive failures to reach the server
	over    bool
}

// Poll begins to poll the task that the result m of a call over link names.
func Poll(ex *proxy.Exchange, link transport.Link, group *work.Group, m *wire.Message) (*Polled, error) {
	id := wire.Get(m.Raw, m.Result, "taskId")
	if !id.IsString(m.Raw) {
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server made a task without taskId of the call")
	}
	ex.Lasting.Store(true)
	t := &Polled{work: group, link: link, ex: ex, id: bytes.Clone(id.Of(m.Raw))}
	t.schedule(m)
	return t, nil
}

// schedule sets the time of the next poll by the server's interval.
func (t *Polled) schedule(m *wire.Message) {
	every := pollStandard
	if n, err := strconv.ParseInt(string(wire.Get(m.Raw, m.Result, "pollIntervalMs").Of(m.Raw)), 10, 32); err == nil {
		every = time.Duration(n) * time.Millisecond
	} else if t.every > 0 {
		every = t.every
	}
	t.every = min(max(every, pollLeast), pollMost)
	t.due = time.Now().Add(t.every)
}

// Asks reports whether the message that Next returned last is a state of the task that asks for input.
func (t *Polled) Asks() bool { return t.asks }

// Answer sends the task answers to its questions, an inputResponses object, with the next request.
func (t *Polled) Answer(answers []byte) { t.answers, t.due = answers, time.Now() }

// Next implements proxy.Replies.
func (t *Polled) Next(until time.Time) (m *wire.Message, err error) {
	if t.over {
		return nil, io.EOF
	}
	for t.asks = false; ; {
		if t.inner == nil {
			if err := t.request(until); err != nil {
				return nil, err
			}
			continue
		}
		m, err = t.replies.Next(until)
		switch {
		case errors.Is(err, proxy.ErrNotYet):
			return nil, err
		case err != nil:
			t.endRequest()
			if err := t.tolerate(err); err != nil {
				return nil, err
			}
			continue
		case !m.IsResponse():
			continue // no notification is defined here
		}
		t.endRequest()
		t.failed = 0
		if m.Kind == wire.Failure {
			t.over = true
			return nil, proxy.Errf(proxy.BadAnswer, "the upstream server has lost the task: %s (code %d)", m.Text(m.ErrorText), m.ErrorCode)
		}
		if t.answers != nil {
			t.answers, t.due = nil, time.Now()
			continue
		}
		if m, err := t.state(m); m != nil || err != nil {
			return m, err
		}
	}
}

// request sends the next request when it is due, at the given time at the latest.
func (t *Polled) request(until time.Time) error {
	for time.Now().Before(t.due) {
		wait := until
		if wait.IsZero() || t.due.Before(wait) {
			wait = t.due
		}
		select {
		case <-work.After(wait):
		case <-t.ex.Done():
		}
		if err := t.ex.Err(); err != nil {
			return err
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return proxy.ErrNotYet
		}
	}
	if t.answers != nil {
		return t.tolerate(t.send("tasks/update", []wire.Change{{Key: "inputResponses", Value: t.answers}}))
	}
	return t.tolerate(t.send("tasks/get", nil))
}

// tolerate ignores a limited number of consecutive failures to reach the server: the task goes on meanwhile, and both
// methods may be repeated.
func (t *Polled) tolerate(err error) error {
	if err == nil {
		return nil
	}
	var status *transport.StatusError
	if errors.As(err, &status) {
		err = transport.StatusFault(status)
	}
	var known *proxy.Error
	switch t.failed++; {
	case t.ex.Err() != nil, !errors.As(err, &known):
		return err
	case t.failed > pollFailures: // Lost: the call has been processed and must not be repeated
		return proxy.Errf(proxy.Lost, "the upstream server cannot be asked how the task is doing: %w", err)
	}
	t.due = time.Now().Add(t.every)
	return nil
}

// state returns the message that the result of tasks/get amounts to; nil if the task goes on.
func (t *Polled) state(m *wire.Message) (*wire.Message, error) {
	id := t.ex.Msg.Of(t.ex.Msg.ID)
	status := string(wire.Get(m.Raw, m.Result, "status").Text(m.Raw))
	switch t.over = status == "completed" || status == "failed" || status == "cancelled"; status {
	case "completed":
		if !wire.Get(m.Raw, m.Result, "result").IsObject(m.Raw) {
			return nil, proxy.Errf(proxy.BadAnswer, "the upstream server's task is completed, and has no result")
		}
		result := proxy.ResultMessage(id, bytes.Clone(wire.Get(m.Raw, m.Result, "result").Of(m.Raw)))
		return &result, nil
	case "failed":
		raw := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"error":`...)
		failure, err := proxy.Scanned(append(append(raw, wire.Get(m.Raw, m.Result, "error").Of(m.Raw)...), '}'))
		if err != nil {
			return nil, proxy.Errf(proxy.BadAnswer, "the upstream server's task has failed, and it does not say why")
		}
		return failure, nil
	case "cancelled":
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server has cancelled the task")
	}
	t.schedule(m)
	if t.asks = status == "input_required"; t.asks {
		return m, nil
	}
	return nil, nil
}

// send sends one request about the task.
func (t *Polled) send(method string, changes []wire.Change) error {
	inner, err := t.message(method, changes)
	if err != nil {
		return err
	}
	t.closeReplies()
	t.ex.Attach(transport.Along{Inner: inner})
	replies, err := t.link.Call(inner)
	if err != nil {
		t.ex.Detach(transport.Along{Inner: inner})
		return err
	}
	t.replies, t.inner = replies, inner
	return nil
}

// message returns a request about the task on behalf of the client.
func (t *Polled) message(method string, changes []wire.Change) (*proxy.Exchange, error) {
	inner, err := transport.NewExchange(proxy.Legacy, Request([]byte(`"dragoman-task"`), method, t.id))
	if err != nil {
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server's taskId cannot be used: %w", err)
	}
	client := &t.ex.Client
	inner.Client, inner.Session, inner.Caller = *client, t.ex.Session, t.ex.Caller // with a session, the link assigns the id
	inner.Client.LogLevel = ""
	inner.Inherit(t.ex)
	caps := translate.WithTasksExtension(translate.ModernCaps(client.Caps, client.Version))
	stamp := rules.ModernMeta(client.Info, caps)
	inner.Msg.EditParams(append(changes, wire.Change{Key: "_meta", Value: wire.Object(append(stamp, translate.TraceMembers(inner)...))}))
	return inner, nil
}

// endRequest detaches the pending request. Its replies stay open, since the message read last is in their memory.
func (t *Polled) endRequest() {
	t.ex.Detach(transport.Along{Inner: t.inner})
	t.inner = nil
}

func (t *Polled) closeReplies() {
	if t.replies != nil {
		_ = t.replies.Close()
		t.replies = nil
	}
}

// Close implements proxy.Replies. It cancels a task whose client no longer waits.
func (t *Polled) Close() error {
	defer t.closeReplies()
	if t.over {
		return nil
	}
	t.over = true
	if t.inner != nil {
		t.endRequest()
	}
	inner, err := t.message("tasks/cancel", nil)
	if err != nil {
		return nil
	}
	t.work.Spawn(func() {
		ctx, stop := context.WithTimeout(t.work.Context(), requestTime)
		defer stop()
		if _, err := transport.Ask(ctx, t.link, inner); err != nil {
			t.work.Note("debug", "a task of the upstream's could not be cancelled", err)
		}
	})
	return nil
}
