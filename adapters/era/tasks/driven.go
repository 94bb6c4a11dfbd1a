// Package tasks drives tasks for clients of the other era, which cannot do so themselves: the client waits for the response as if
// there were no task. Drive follows a task of a legacy server (2025-11-25 tasks), Poll one of a modern server (SEP-2663).
package tasks

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// requestTime bounds requests about a task other than waiting for its result.
const requestTime = 10 * time.Second

const relatedTask = wire.MetaPrefix + "related-task"

// drivenCall is a call at a legacy server that runs as a task. Its response is the task, and a second request waits for
// the result. Its replies look like those of one call.
type drivenCall struct {
	proxy.Replies
	work  *work.Group
	link  transport.Link
	ex    *proxy.Exchange
	task  []byte          // its id, raw JSON; nil before it is known
	inner *proxy.Exchange // the tasks/result request
	done  atomic.Bool     // the task has ended or is being cancelled
}

// Drive sends a call that asks to run as a task, and follows the task to its end.
func Drive(link transport.Link, ex *proxy.Exchange, group *work.Group) (proxy.Replies, error) {
	replies, err := link.Call(ex)
	if err != nil {
		return nil, err
	}
	return &drivenCall{Replies: replies, work: group, link: link, ex: ex}, nil
}

// Next implements proxy.Replies.
func (c *drivenCall) Next(until time.Time) (*wire.Message, error) {
	for {
		m, err := c.Replies.Next(until)
		if err != nil {
			return m, err
		}
		id := wire.Path(m.Raw, m.Result, "task", "taskId")
		if m.Kind == wire.Result && c.task == nil && id.IsString(m.Raw) {
			if err := c.wait(bytes.Clone(id.Of(m.Raw))); err != nil {
				return nil, err
			}
			continue
		}
		if m.IsResponse() {
			c.done.Store(true)
		}
		if token := c.ex.Msg.Token; c.task != nil && token.Present() && m.Is("notifications/progress") && m.ProgressToken.Present() {
			m.Replace(m.ProgressToken, c.ex.Msg.Of(token)) // the link no longer restores the token of the first call
		}
		if m.Kind == wire.Result && c.task != nil && m.Meta.IsObject(m.Raw) {
			m.EditObject(m.Meta, []wire.Change{{Key: relatedTask}}) // the client does not know the task
			if _, err := m.Settle(nil); err != nil {
				return m, proxy.Errf(proxy.Internal, "a translated result is no message: %w", err)
			}
		}
		return m, nil
	}
}

// wait requests the result of the task; the response arrives when the task has ended.
func (c *drivenCall) wait(task []byte) error {
	c.task = task
	c.ex.Lasting.Store(true)
	_ = c.Replies.Close()
	inner, err := transport.NewExchange(proxy.Modern, Request(c.ex.Msg.Of(c.ex.Msg.ID), "tasks/result", task))
	if err != nil {
		return proxy.Errf(proxy.BadAnswer, "the upstream server's taskId cannot be used: %w", err)
	}
	inner.Client.LogLevel, inner.Caller = c.ex.Client.LogLevel, c.ex.Caller
	translate.ContinueTrace(inner, c.ex)
	c.inner = inner
	c.ex.Attach(c)
	c.Replies, err = c.link.Call(inner)
	if err != nil {
		c.Replies = proxy.Reply(wire.Message{})
		c.cancel()
	}
	return err
}

// Abort implements proxy.Aborter.
func (c *drivenCall) Abort() {
	c.inner.Cancel(proxy.ErrCancelled)
	c.cancel()
}

// Close implements proxy.Replies.
func (c *drivenCall) Close() error {
	c.ex.Detach(c)
	if c.task != nil {
		c.cancel()
	}
	return c.Replies.Close()
}

// cancel sends tasks/cancel once, unless the task has ended: a task is not cancelled by cancelling a request (2025-11-25
// cancellation). Like other cancellations it is pending on the link until it is sent (transport.Settler).
func (c *drivenCall) cancel() {
	if c.done.Swap(true) {
		return
	}
	sent := func() {}
	if link, ok := transport.As[interface{ Begin() func() }](c.link); ok {
		sent = link.Begin()
	}
	under := c.work.Spawn(func() {
		defer sent()
		ctx, stop := context.WithTimeout(proxy.WithForwarded(c.work.Context(), c.ex.Caller.Forwarded), requestTime)
		defer stop()
		if _, err := transport.AskLegacy(ctx, c.link, Request([]byte(`"cancel"`), "tasks/cancel", c.task)); err != nil {
			c.work.Note("debug", "a task of the upstream's could not be cancelled", err)
		}
	})
	if !under {
		sent()
	}
}

// Request returns a request about a task. id and task are raw JSON.
func Request(id []byte, method string, task []byte) []byte {
	out := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	out = append(append(out, `,"method":"`...), method...)
	return append(append(append(out, `","params":{"taskId":`...), task...), "}}"...)
}

// NotOffered returns the error for task methods across the eras: the two protocols share only names, and neither is
// offered to clients of the other era (SEP-2663, Backward Compatibility).
func NotOffered(method string) *proxy.Error {
	return proxy.Errf(proxy.MethodNotFound, "method %s is not offered: tasks do not exist between this client and this server", method)
}
