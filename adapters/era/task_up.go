package era

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/tasks"
	"dragoman/adapters/era/translate"
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

// task is a task that a modern server made of a legacy client's call (SEP-2663). It is polled until it ends, while the
// client waits for its response as if there were none.
type task struct {
	id      []byte // raw JSON
	every   time.Duration
	due     time.Time // time of the next poll
	inner   *proxy.Exchange
	answers []byte // to questions of the task, raw JSON, until the server has received them
	known   map[string]bool
	failed  int // consecutive failures to reach the server
	over    bool
}

// drive begins to poll the task that a result names.
func (c *upCall) drive(m *wire.Message) error {
	id := wire.Get(m.Raw, m.Result, "taskId")
	if !id.IsString(m.Raw) {
		return proxy.Errf(proxy.BadAnswer, "the upstream server made a task without taskId of the call")
	}
	c.doNotRecycle()
	c.ex.Lasting.Store(true)
	c.task = &task{id: bytes.Clone(id.Of(m.Raw)), known: make(map[string]bool)}
	c.task.next(m)
	return nil
}

// next schedules the next poll by the server's interval.
func (t *task) next(m *wire.Message) {
	every := pollStandard
	if n, err := strconv.ParseInt(string(wire.Get(m.Raw, m.Result, "pollIntervalMs").Of(m.Raw)), 10, 32); err == nil {
		every = time.Duration(n) * time.Millisecond
	} else if t.every > 0 {
		every = t.every
	}
	t.every = min(max(every, pollLeast), pollMost)
	t.due = time.Now().Add(t.every)
}

// poll advances the task by one step; give says that m is for the client.
func (c *upCall) poll(until time.Time) (m *wire.Message, give bool, err error) {
	t := c.task
	if t.inner == nil {
		if now := time.Now(); now.Before(t.due) {
			wait := until
			if wait.IsZero() || t.due.Before(wait) {
				wait = t.due
			}
			if !c.pause(wait) && !until.IsZero() && !time.Now().Before(until) {
				return m, false, proxy.ErrNotYet
			}
			return m, false, c.ex.Err()
		}
		if t.answers != nil {
			return m, false, c.tolerate(c.sendTaskRequest("tasks/update", []wire.Change{{Key: "inputResponses", Value: t.answers}}))
		}
		return m, false, c.tolerate(c.sendTaskRequest("tasks/get", nil))
	}
	m, err = c.Replies.Next(until)
	switch {
	case errors.Is(err, proxy.ErrNotYet):
		return m, false, err
	case err != nil:
		c.endRequest()
		return m, false, c.tolerate(err)
	}
	if !m.IsResponse() {
		return m, false, nil // no notification is defined here
	}
	c.endRequest()
	t.failed = 0
	if m.Kind == wire.Failure {
		t.over = true
		return m, false, proxy.Errf(proxy.BadAnswer, "the upstream server has lost the task: %s (code %d)", m.Text(m.ErrorText), m.ErrorCode)
	}
	if t.answers != nil {
		t.answers, t.due = nil, time.Now()
		return m, false, nil
	}
	return c.state(m)
}

// tolerate ignores a limited number of consecutive failures to reach the server: the task goes on meanwhile, and both
// methods may be repeated.
func (c *upCall) tolerate(err error) error {
	if err == nil {
		return nil
	}
	t := c.task
	var status *transport.StatusError
	if errors.As(err, &status) {
		err = transport.StatusFault(status)
	}
	var known *proxy.Error
	switch t.failed++; {
	case c.ex.Err() != nil, !errors.As(err, &known):
		return err
	case t.failed > pollFailures: // Lost: the call has been processed and must not be repeated
		return proxy.Errf(proxy.Lost, "the upstream server cannot be asked how the task is doing: %w", err)
	}
	t.due = time.Now().Add(t.every)
	return nil
}

// state handles the result of tasks/get.
func (c *upCall) state(m *wire.Message) (*wire.Message, bool, error) {
	t := c.task
	id := c.ex.Msg.Of(c.ex.Msg.ID)
	switch string(wire.Get(m.Raw, m.Result, "status").Text(m.Raw)) {
	case "completed":
		t.over = true
		if !wire.Get(m.Raw, m.Result, "result").IsObject(m.Raw) {
			return m, false, proxy.Errf(proxy.BadAnswer, "the upstream server's task is completed, and has no result")
		}
		result := proxy.ResultMessage(id, bytes.Clone(wire.Get(m.Raw, m.Result, "result").Of(m.Raw)))
		return &result, true, nil
	case "failed":
		t.over = true
		raw := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"error":`...)
		failure, err := proxy.Scanned(append(append(raw, wire.Get(m.Raw, m.Result, "error").Of(m.Raw)...), '}'))
		if err != nil {
			return failure, false, proxy.Errf(proxy.BadAnswer, "the upstream server's task has failed, and it does not say why")
		}
		return failure, true, nil
	case "cancelled":
		t.over = true
		return m, false, proxy.Errf(proxy.BadAnswer, "the upstream server has cancelled the task")
	case "input_required":
		if err := c.inquireTask(m); err != nil {
			return m, false, err
		}
	}
	t.next(m)
	return m, false, nil
}

// inquireTask puts each of a task's questions to the client once.
func (c *upCall) inquireTask(m *wire.Message) error {
	requests := wire.Get(m.Raw, m.Result, "inputRequests")
	c.ask.list, c.ask.failed, c.ask.due = nil, "", time.Time{}
	for k, q := range wire.Members(m.Raw, requests) {
		key := string(k.Text(m.Raw))
		if c.task.known[key] {
			continue
		}
		if len(c.task.known) >= input.MaxOpen*c.u.store.Options().Rounds {
			return proxy.Errf(proxy.BadAnswer, "the upstream server's task asks more than questions.rounds allows")
		}
		c.task.known[key] = true
		msg, err := c.question(key, m.Raw, q)
		if err != nil {
			c.withdraw()
			return err
		}
		if msg != nil {
			c.out = append(c.out, msg)
		}
	}
	c.ask.again = len(c.ask.list) > 0
	return nil
}

// sendTaskRequest sends one request about the task.
func (c *upCall) sendTaskRequest(method string, changes []wire.Change) error {
	inner, err := c.taskRequest(method, changes)
	if err != nil {
		return err
	}
	_ = c.Replies.Close()
	c.Replies = proxy.Reply(wire.Message{})
	c.ex.Attach(transport.Along{Inner: inner})
	replies, err := c.link.Call(inner) // the same link: another process would not know the task
	if err != nil {
		c.ex.Detach(transport.Along{Inner: inner})
		return err
	}
	c.Replies, c.task.inner = replies, inner
	return nil
}

// taskRequest returns a request about the task on behalf of the client.
func (c *upCall) taskRequest(method string, changes []wire.Change) (*proxy.Exchange, error) {
	inner, err := transport.NewExchange(proxy.Legacy, tasks.Request([]byte(`"dragoman-task"`), method, c.task.id))
	if err != nil {
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server's taskId cannot be used: %w", err)
	}
	inner.Client, inner.Session, inner.Caller = c.ex.Client, c.ex.Session, c.ex.Caller // with a session, the link assigns the id
	inner.Client.LogLevel = ""
	inner.Inherit(c.ex)
	caps := translate.WithTasksExtension(translate.ModernCaps(c.ex.Client.Caps, c.ex.Client.Version))
	stamp := []wire.Change{{Key: wire.MetaPrefix + "protocolVersion", Value: []byte(`"` + rules.ModernVersion + `"`)},
		{Key: wire.MetaPrefix + "clientInfo", Value: c.ex.Client.Info}, {Key: wire.MetaPrefix + "clientCapabilities", Value: caps}}
	inner.Msg.EditParams(append(changes, wire.Change{Key: "_meta", Value: wire.Object(append(stamp, translate.TraceMembers(inner)...))}))
	return inner, nil
}

// endRequest detaches the pending task request.
func (c *upCall) endRequest() {
	c.ex.Detach(transport.Along{Inner: c.task.inner})
	c.task.inner = nil
}

// abandon cancels a running task whose client no longer waits.
func (c *upCall) abandon() {
	t := c.task
	if t == nil || t.over {
		return
	}
	t.over = true
	if t.inner != nil {
		c.endRequest()
	}
	inner, err := c.taskRequest("tasks/cancel", nil)
	if err != nil {
		return
	}
	link := c.link
	c.u.work.Spawn(func() {
		ctx, stop := context.WithTimeout(c.u.work.Context(), tasks.RequestTime)
		defer stop()
		if _, err := transport.Ask(ctx, link, inner); err != nil {
			c.u.work.Note("debug", "a task of the upstream's could not be cancelled", err)
		}
	})
}
