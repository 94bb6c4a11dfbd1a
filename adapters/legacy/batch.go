package legacy

import (
	"errors"
	"io"
	"time"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/mcphttp"
	"dragoman/proxy"
	"dragoman/proxy/session"
)

// batch answers the requests of one array, one after the other.
type batch struct {
	requests []*proxy.Exchange
	run      proxy.Handler
	manner   mcphttp.Manner
	replies  proxy.Replies // of the first of requests, once begun
	end      time.Time
}

func newBatch(requests []*proxy.Exchange, run proxy.Handler, manner mcphttp.Manner) *batch {
	return &batch{requests: requests, run: run, manner: manner, end: time.Now().Add(manner.Cap)}
}

// Next implements httpd.Source.
func (b *batch) Next(dst []byte) ([]byte, error) {
	ex := b.requests[0]
	if b.replies == nil {
		replies, err := b.run(ex)
		if err != nil {
			return b.fail(dst, err)
		}
		b.replies = replies
	}
	until := time.Now().Add(b.manner.KeepAlive)
	if b.end.Before(until) {
		until = b.end
	}
	m, err := b.replies.Next(until)
	switch {
	case errors.Is(err, proxy.ErrNotYet) && time.Now().Before(b.end):
		return eventstream.AppendComment(dst, "keep-alive"), nil
	case err != nil:
		return b.fail(dst, err)
	}
	dst = eventstream.AppendMessage(dst, m.AppendLine(nil))
	if m.IsResponse() {
		return dst, b.advance()
	}
	return dst, nil
}

func (b *batch) fail(dst []byte, err error) ([]byte, error) {
	ex := b.requests[0]
	if session.Answerable(ex) {
		m := proxy.ErrorMessage(ex.Msg.Of(ex.Msg.ID), proxy.AsError(err))
		dst = eventstream.AppendMessage(dst, m.Raw)
	}
	return dst, b.advance()
}

// advance goes to the next request; io.EOF if there is none.
func (b *batch) advance() error {
	if b.replies != nil {
		_ = b.replies.Close()
		b.replies = nil
	}
	if b.requests = b.requests[1:]; len(b.requests) == 0 {
		return io.EOF
	}
	return nil
}

// Close implements httpd.Source: what has begun goes on without its client, what has not is not begun.
func (b *batch) Close(bool) {
	if b.replies != nil {
		go session.Drain(b.replies, b.end) // ends with the session at the latest, and with the cap
		b.replies = nil
	}
}
