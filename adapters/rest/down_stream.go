package rest

import (
	"context"
	"errors"
	"io"
	"time"

	"dragoman/adapters/eventstream"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// stream is a request that is answered with events: progress and log as they come, each with the notification's params as
// data, notification for what is neither, and result, whose data is what the whole answer would have been. A comment keeps it
// alive in between.
type stream struct {
	r       *request
	ex      *proxy.Exchange
	replies proxy.Replies
	judge   judge
	release func()
	undrain func() bool
}

// Next implements httpd.Source.
func (s *stream) Next(dst []byte) ([]byte, error) {
	until := time.Now().Add(s.r.d.opt.KeepAlive)
	if s.r.end.Before(until) && !s.lasts() {
		until = s.r.end
	}
	m, err := s.replies.Next(until)
	s.r.learn(s.ex)
	switch {
	case err == nil && m.IsResponse():
		return s.result(dst, s.r.render(m, s.judge)), io.EOF
	case err == nil:
		return s.event(dst, m), nil
	case errors.Is(err, proxy.ErrNotYet) && (s.lasts() || time.Now().Before(s.r.end)):
		return eventstream.AppendComment(dst, "keep-alive"), nil
	case errors.Is(err, proxy.ErrNotYet):
		return s.result(dst, s.r.refusal(proxy.Overdue(s.r.d.opt.Cap))), io.EOF
	case errors.Is(s.ex.Err(), proxy.ErrDraining):
		end := proxy.ListenEnd(s.ex.Msg.Of(s.ex.Msg.ID))
		return s.result(dst, s.r.render(&end, s.judge)), io.EOF
	}
	return s.result(dst, s.r.refusal(s.r.why(s.ex, err))), io.EOF
}

// lasts tells whether the request has no response while it lasts.
func (s *stream) lasts() bool { return s.ex.Msg.Is("subscriptions/listen") }

func (s *stream) result(dst []byte, a answer) []byte {
	return eventstream.Append(dst, "result", nil, a.body)
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
	p := members{}
	p.add("method", m.Of(m.Method))
	p.add("params", params)
	return eventstream.Append(dst, "notification", nil, braced(p))
}

// drains ends a listen when the proxy is about to end.
func (s *stream) drains(with context.Context) {
	if with != nil && s.lasts() {
		s.undrain = context.AfterFunc(with, func() { s.ex.Cancel(proxy.ErrDraining) })
	}
}

// Close implements httpd.Source.
func (s *stream) Close(bool) {
	s.r.armed.Disarm()
	if s.undrain != nil {
		s.undrain()
	}
	_ = s.replies.Close()
	s.release()
	s.r.leave(nil)
}
