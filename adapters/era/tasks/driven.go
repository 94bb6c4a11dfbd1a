// Package tasks drives tasks for clients of the other era, which cannot do so themselves: the client waits for the response as if
// there were no task. Drive follows a task of a legacy server (2025-11-25 tasks), Poll one of a modern server (SEP-2663).
package tasks

import (
	"bytes"
	"context"
	"errors"
	"sync"
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
//
// A request that asks for a task is not cancelled itself: its task is (2025-11-25 cancellation). So a call whose client leaves before
// the task is known waits for the task first.
type drivenCall struct {
	proxy.Replies
	work *work.Group
	link transport.Link
	ex   *proxy.Exchange
	done atomic.Bool // the task has ended or is being cancelled, or there is none

	mu    sync.Mutex
	inner *proxy.Exchange // the request that waits for its response: the call itself, then tasks/result
	task  []byte          // its id, raw JSON; nil before it is known
	late  *time.Timer     // ends the wait for the task after the client has left; nil: it has not left
}

// Drive sends a call that asks to run as a task, and follows the task to its end.
func Drive(link transport.Link, ex *proxy.Exchange, group *work.Group) (proxy.Replies, error) {
	c := &drivenCall{work: group, link: link, ex: ex}
	inner, err := c.request(ex.Msg.Append(nil))
	if err != nil {
		return nil, proxy.Errf(proxy.Internal, "a call that asks for a task is no message: %w", err)
	}
	inner.Inherit(ex)
	c.inner = inner
	if c.Replies, err = link.Call(inner); err != nil {
		return nil, err
	}
	ex.Attach(c)
	return c, nil
}

// request returns the exchange of a request that is sent for the call.
func (c *drivenCall) request(raw []byte) (*proxy.Exchange, error) {
	inner, err := transport.NewExchange(proxy.Modern, raw)
	if err != nil {
		return nil, err
	}
	inner.Client.LogLevel, inner.Caller = c.ex.Client.LogLevel, c.ex.Caller
	return inner, nil
}

// Next implements proxy.Replies.
func (c *drivenCall) Next(until time.Time) (*wire.Message, error) {
	for {
		m, err := c.Replies.Next(until)
		if err != nil {
			if c.task == nil && !errors.Is(err, proxy.ErrNotYet) {
				c.done.Store(true) // no task will come
			}
			return m, err
		}
		if id := taskOf(m); c.task == nil && id != nil {
			if err := c.wait(id); err != nil {
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

// taskOf returns the id of the task that a response begins, raw JSON; nil if it begins none.
func taskOf(m *wire.Message) []byte {
	if id := wire.Path(m.Raw, m.Result, "task", "taskId"); m.Kind == wire.Result && id.IsString(m.Raw) {
		return bytes.Clone(id.Of(m.Raw))
	}
	return nil
}

// wait requests the result of the task; the response arrives when the task has ended. If the client has left, the task is cancelled
// instead.
func (c *drivenCall) wait(task []byte) error {
	inner, err := c.request(Request(c.ex.Msg.Of(c.ex.Msg.ID), "tasks/result", task))
	if err != nil {
		return proxy.Errf(proxy.BadAnswer, "the upstream server's taskId cannot be used: %w", err)
	}
	translate.ContinueTrace(inner, c.ex)
	c.mu.Lock()
	c.task, c.inner = task, inner
	left := c.late != nil
	c.mu.Unlock()
	c.ex.Lasting.Store(true)
	_ = c.Replies.Close()
	if left {
		err = c.ex.Err()
	} else {
		c.Replies, err = c.link.Call(inner)
	}
	if err != nil {
		c.Replies = proxy.Reply(wire.Message{})
		c.cancel()
	}
	return err
}

// Abort implements proxy.Aborter.
func (c *drivenCall) Abort() {
	c.mu.Lock()
	inner, known := c.inner, c.task != nil
	if !known && c.late == nil {
		c.late = time.AfterFunc(requestTime, func() { inner.Cancel(proxy.ErrCancelled) })
	}
	c.mu.Unlock()
	if known {
		inner.Cancel(proxy.ErrCancelled)
		c.cancel()
	}
}

// Close implements proxy.Replies.
func (c *drivenCall) Close() error {
	c.ex.Detach(c)
	c.mu.Lock()
	if c.late != nil {
		c.late.Stop()
	}
	c.mu.Unlock()
	if c.task == nil && !c.done.Load() {
		return c.abandon()
	}
	c.cancel()
	return c.Replies.Close()
}

// abandon waits for the task of a call that nobody waits for any more, and cancels it.
func (c *drivenCall) abandon() error {
	sent := c.pending()
	under := c.work.Spawn(func() {
		defer sent()
		ctx, stop := context.WithTimeout(c.work.Context(), requestTime)
		defer stop()
		defer c.inner.Follow(ctx)()
		m, err := proxy.Response(c.Replies, time.Time{})
		if task := taskOf(&m); err == nil && task != nil {
			c.mu.Lock()
			c.task = task
			c.mu.Unlock()
			c.cancel()
		}
	})
	if under {
		return nil
	}
	sent()
	return c.Replies.Close()
}

// cancel sends tasks/cancel once, unless the task has ended.
func (c *drivenCall) cancel() {
	if c.done.Swap(true) {
		return
	}
	sent := c.pending()
	under := c.work.Spawn(func() {
		defer sent()
		ctx, stop := context.WithTimeout(proxy.WithForwarded(c.work.Context(), c.inner.Caller.Forwarded), requestTime)
		defer stop()
		if _, err := transport.AskLegacy(ctx, c.link, Request([]byte(`"cancel"`), "tasks/cancel", c.task)); err != nil {
			c.work.Note("debug", "a task of the upstream's could not be cancelled", err)
		}
	})
	if !under {
		sent()
	}
}

// pending marks a cancellation as pending on the link, as other cancellations are, until the returned function is called
// (transport.Settler).
func (c *drivenCall) pending() (sent func()) {
	if link, ok := transport.As[interface{ Begin() func() }](c.link); ok {
		return link.Begin()
	}
	return func() {}
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
