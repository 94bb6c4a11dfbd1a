//go:build linux

package main

import (
	"dragoman/bench/lab/soak/child"
	"dragoman/bench/lab/soak/client"
)

// sse calls and leaves, which is how such a session ends.
func (a *actor) sse(s *client.SSE) error { return a.calls(1+a.rng.IntN(3), s.Call) }

// sseHalfOpen asks for a stream and does not wait for it.
func (a *actor) sseHalfOpen() error {
	c, err := client.Dial(a.ctx, a.at.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Send("GET", a.at.Base+"/sse", []client.Header{{Name: "Accept", Value: "text/event-stream"}}, "")
}

// sseUnread makes calls, reads none of the answers, and leaves.
func (a *actor) sseUnread(s *client.SSE) error {
	s.Unread()
	for range 3 {
		if _, err := s.Begin(a.echo(child.Arguments{Size: largeText})); err != nil {
			return err
		}
	}
	return a.linger(nil, moment)
}

// modern calls.
func (a *actor) modern(m *client.Modern) error { return a.calls(1+a.rng.IntN(4), m.Call) }

// modernSuspend gets a question, and does not come back with the answer.
func (a *actor) modernSuspend(m *client.Modern) error {
	_, err := m.Ask(a.ask())
	return err
}

// modernAsked gets a question, and answers it.
func (a *actor) modernAsked(m *client.Modern) error {
	call := a.ask()
	asked, err := m.Ask(call)
	if err != nil {
		return err
	}
	return a.done(m.Answer(call, asked))
}

// modernListen listens for a while.
func (a *actor) modernListen(m *client.Modern) error { return a.linger(m.Listen(), moment) }

// modernUnread asks for a large answer, reads none of it, and leaves.
func (a *actor) modernUnread(m *client.Modern) error {
	m.Unread()
	call := a.echo(child.Arguments{Size: largeText, Progress: 3})
	call.Progress = true
	_, err := m.Begin(call)
	return a.linger(err, 3*moment)
}

// huge asks for an answer of megabytes.
func (a *actor) huge(m *client.Modern) error {
	return a.done(m.Call(a.echo(child.Arguments{Size: hugeText})))
}
