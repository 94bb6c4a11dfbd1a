package session

import (
	"errors"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Answerable reports whether a failed exchange is to be answered: not if the client has cancelled it, or left.
func Answerable(ex *proxy.Exchange) bool {
	var e *proxy.Error
	cause := ex.Err()
	return cause == nil || errors.As(cause, &e)
}

// endListen ends a listen on a channel that stays open: it writes the result, and the notification that the revision demands as well
// (2026-07-28 cancellation).
func endListen(id []byte, write func(m *wire.Message) error) {
	m := proxy.ListenEnd(id)
	_ = write(&m)
	raw := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...)
	if m, err := wire.Scan(append(raw, "}}"...)); err == nil {
		_ = write(&m)
	}
}

// Task serves one request. Both methods are called on one goroutine, Run first and once.
type Task interface {
	Run(ex *proxy.Exchange) (proxy.Replies, error)
	// Write writes a reply, which is borrowed until it returns. The reader of the channel handles failures.
	Write(m *wire.Message) error
}

// Pump runs one request of a client that receives everything on one channel, and writes its replies there as they come. It always writes
// a response, unless the client has cancelled the request. It returns when the request has ended.
func Pump(ex *proxy.Exchange, run proxy.Handler, limit time.Duration, write func(m *wire.Message) error) {
	GrowStack()
	Serve(ex, limit, task{run, write})
}

type task struct {
	run   proxy.Handler
	write func(m *wire.Message) error
}

func (c task) Run(ex *proxy.Exchange) (proxy.Replies, error) { return c.run(ex) }
func (c task) Write(m *wire.Message) error                   { return c.write(m) }

// Serve is Pump for a Task, on a goroutine whose stack has grown (GrowStack).
func Serve(ex *proxy.Exchange, limit time.Duration, c Task) {
	end := ex.GiveUp(limit)
	defer ex.Release()
	replies, err := c.Run(ex)
	if err != nil {
		fail(ex, c, err)
		return
	}
	defer func() { _ = replies.Close() }()
	for {
		m, err := replies.Next(end)
		switch {
		case err == proxy.ErrNotYet:
			fail(ex, c, proxy.Overdue(limit))
			return
		case err != nil:
			fail(ex, c, err)
			return
		}
		if c.Write(m) != nil || m.IsResponse() {
			return
		}
	}
}

// fail writes the error of a failed request, if it is Answerable.
func fail(ex *proxy.Exchange, c Task, err error) {
	id := ex.Msg.Of(ex.Msg.ID)
	switch {
	case errors.Is(ex.Err(), proxy.ErrDraining):
		endListen(id, c.Write)
	case Answerable(ex):
		m := proxy.ErrorMessage(id, proxy.AsError(ex.Why(err)))
		_ = c.Write(&m)
	}
}
