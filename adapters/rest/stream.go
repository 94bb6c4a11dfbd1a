package rest

import (
	"context"
	"errors"
	"io"
	"time"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// stream answers a request with events. progress and log carry the params of the notification, notification carries any other
// one, and result carries what the answer would have been without a stream. Comments keep the connection alive in between.
type stream struct {
	r         *request
	ex        *proxy.Exchange
	replies   proxy.Replies
	shape     shaper
	release   func()
	stopDrain func() bool
}

// Next implements httpserver.Source.
func (s *stream) Next(dst []byte) ([]byte, error) {
	until := time.Now().Add(s.r.d.opt.KeepAlive)
	if s.r.End.Before(until) && !s.isListen() {
		until = s.r.End
	}
	m, err := s.replies.Next(until)
	s.r.learn(s.ex)
	switch {
	case err == nil && m.IsResponse():
		return s.last(dst, s.r.answerTo(m, s.shape))
	case err == nil:
		return s.event(dst, m), nil
	case errors.Is(err, proxy.ErrNotYet) && (s.isListen() || time.Now().Before(s.r.End)):
		return append(dst, eventstream.KeepAlive...), nil
	case errors.Is(err, proxy.ErrNotYet):
		return s.last(dst, s.r.refusal(proxy.Overdue(s.r.d.opt.Cap)))
	case errors.Is(s.ex.Err(), proxy.ErrDraining):
		end := proxy.ListenEnd(s.ex.Msg.Of(s.ex.Msg.ID))
		return s.last(dst, s.r.answerTo(&end, s.shape))
	}
	return s.last(dst, s.r.refusal(s.r.Why(s.ex, err)))
}

// isListen reports whether the request is a subscriptions/listen, which has no deadline.
func (s *stream) isListen() bool { return s.ex.Msg.Is("subscriptions/listen") }

// last appends the event that ends the stream. It is a copy: nothing is held while the caller reads it.
func (s *stream) last(dst []byte, a answer) ([]byte, error) {
	dst = eventstream.Append(dst, "result", nil, a.body)
	_ = s.replies.Close()
	s.replies = nil
	return dst, io.EOF
}

func (s *stream) event(dst []byte, m *wire.Message) []byte {
	params := m.AppendPart(nil, m.Params)
	switch {
	case !m.Params.Present():
		params = []byte("{}")
	case m.Kind != wire.Notification:
		return dst // nothing else comes before the response
	}
	switch {
	case m.Is("notifications/progress"):
		return eventstream.Append(dst, "progress", nil, params)
	case m.Is("notifications/message"):
		return eventstream.Append(dst, "log", nil, params)
	}
	p := mcpcall.Members{}
	p.Add("method", m.Of(m.Method))
	p.Add("params", params)
	return eventstream.Append(dst, "notification", nil, p.Object())
}

// endOnDrain ends a listen when draining ends.
func (s *stream) endOnDrain(draining context.Context) {
	if draining != nil && s.isListen() {
		s.stopDrain = context.AfterFunc(draining, func() { s.ex.Cancel(proxy.ErrDraining) })
	}
}

// Close implements httpserver.Source.
func (s *stream) Close(bool) {
	s.r.watch.Stop()
	if s.stopDrain != nil {
		s.stopDrain()
	}
	if s.replies != nil {
		_ = s.replies.Close()
	}
	s.release()
	s.r.leave(nil)
}
