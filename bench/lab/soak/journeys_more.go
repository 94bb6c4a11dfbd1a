//go:build linux

package main

import (
	"strings"
	"time"

	"dragoman/bench/lab/soak/child"
	"dragoman/bench/lab/soak/client"
)

// padding makes a request large. It is written once, since it is large.
var padding = strings.Repeat("p", largePad)

func (a *actor) openSSE() (*client.SSE, error) {
	s, err := client.OpenSSE(a.ctx, a.at)
	if err == nil {
		a.t.session()
	}
	return s, err
}

// sse comes, calls and leaves; such a session has no other end.
func (a *actor) sse() error {
	s, err := a.openSSE()
	if err != nil {
		return err
	}
	defer s.Leave()
	return a.calls(1+a.rng.IntN(3), s.Call)
}

// sseCut leaves in the middle of a call.
func (a *actor) sseCut() error {
	s, err := a.openSSE()
	if err != nil {
		return err
	}
	defer s.Leave()
	if _, err = s.Begin(a.long()); err != nil {
		return err
	}
	a.moment()
	return nil
}

// sseDoor asks for a stream and does not wait for it.
func (a *actor) sseDoor() error {
	c, err := client.Dial(a.ctx, a.at.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Send("GET", a.at.Base+"/sse", []client.Header{{Name: "Accept", Value: "text/event-stream"}}, "")
}

// sseUnread makes calls, reads none of the answers, and leaves.
func (a *actor) sseUnread() error {
	s, err := a.openSSE()
	if err != nil {
		return err
	}
	defer s.Leave()
	s.Unread()
	for range 3 {
		if _, err = s.Begin(a.echo(child.Arguments{Size: largeText})); err != nil {
			return err
		}
	}
	a.moment()
	return nil
}

// modern calls.
func (a *actor) modern() error {
	m, err := client.OpenModern(a.ctx, a.at, false)
	if err != nil {
		return err
	}
	defer m.Leave()
	return a.calls(1+a.rng.IntN(4), m.Call)
}

// modernCut leaves in the middle of a call, which cancels it.
func (a *actor) modernCut() error {
	m, err := client.OpenModern(a.ctx, a.at, a.rng.IntN(2) == 0)
	if err != nil {
		return err
	}
	defer m.Leave()
	if _, err = m.Begin(a.long()); err != nil {
		return err
	}
	a.moment()
	return nil
}

// modernHalf sends half a call and leaves.
func (a *actor) modernHalf() error {
	m, err := client.OpenModern(a.ctx, a.at, false)
	if err != nil {
		return err
	}
	defer m.Leave()
	if err = m.BeginHalf(a.plain()); err != nil {
		return err
	}
	a.moment()
	return nil
}

// modernPark is asked, and does not come back.
func (a *actor) modernPark() error {
	m, err := client.OpenModern(a.ctx, a.at, true)
	if err != nil {
		return err
	}
	defer m.Leave()
	_, err = m.Ask(a.ask())
	return err
}

// modernAsked is asked, and answers.
func (a *actor) modernAsked() error {
	m, err := client.OpenModern(a.ctx, a.at, true)
	if err != nil {
		return err
	}
	defer m.Leave()
	call := a.ask()
	asked, err := m.Ask(call)
	if err != nil {
		return err
	}
	return a.done(m.Answer(call, asked))
}

// modernListen listens for a while.
func (a *actor) modernListen() error {
	m, err := client.OpenModern(a.ctx, a.at, false)
	if err != nil {
		return err
	}
	defer m.Leave()
	if err = m.Listen(); err != nil {
		return err
	}
	a.moment()
	return nil
}

// modernUnread asks for much, reads none of it, and leaves.
func (a *actor) modernUnread() error {
	m, err := client.OpenModern(a.ctx, a.at, false)
	if err != nil {
		return err
	}
	defer m.Leave()
	m.Unread()
	call := a.echo(child.Arguments{Size: largeText, Progress: 3})
	call.Progress = true
	if _, err = m.Begin(call); err != nil {
		return err
	}
	pause(a.ctx, 3*time.Duration(a.rng.IntN(100))*time.Millisecond)
	return nil
}
