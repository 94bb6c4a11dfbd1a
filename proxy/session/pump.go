package session

import (
	"errors"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Answerable tells whether the client of an exchange that failed is to be told: not if it has cancelled it itself, or left.
func Answerable(ex *proxy.Exchange) bool {
	var e *proxy.Error
	cause := ex.Err()
	return cause == nil || errors.As(cause, &e)
}

// endListen ends a listen on a channel that lives on: the result, and the notification that the revision demands besides
// (2026-07-28 cancellation).
func endListen(id []byte, write func(m *wire.Message) error) {
	m := proxy.ListenEnd(id)
	_ = write(&m)
	raw := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...)
	if m, err := wire.Scan(append(raw, "}}"...)); err == nil {
		_ = write(&m)
	}
}

// Task is how one request is served: what runs it, and where its replies go. Both are called on one goroutine, Run once and first.
type Task interface {
	Run(ex *proxy.Exchange) (proxy.Replies, error)
	// Write takes a reply, which is borrowed until it returns. A channel that fails is noticed by its reader.
	Write(m *wire.Message) error
}

// Pump runs one request of a client that receives everything on one channel, and writes its replies there as they come:
// always a response, unless the client itself has cancelled the request. It returns when the request has ended.
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

// Serve is Pump for a Course, on a goroutine whose stack has grown (GrowStack).
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

// fail tells the client of a request that it has failed, if it is to be told.
func fail(ex *proxy.Exchange, c Task, err error) {
	id := ex.Msg.Of(ex.Msg.ID)
	switch {
	case errors.Is(ex.Err(), proxy.ErrDraining):
		endListen(id, c.Write)
	case Answerable(ex):
		m := proxy.ErrorMessage(id, proxy.AsError(ex.Why(err)))
		_ = c.Write(&m) // a channel that fails is noticed by its reader
	}
}
