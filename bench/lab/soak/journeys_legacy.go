//go:build linux

package main

import (
	"errors"
	"fmt"

	"dragoman/bench/lab/soak/child"
	"dragoman/bench/lab/soak/client"
)

// legacy calls and deletes its session.
func (a *actor) legacy(s *client.Legacy) error {
	if err := a.calls(1+a.rng.IntN(4), s.Call); err != nil {
		return err
	}
	return s.Delete()
}

// legacyMany makes several calls at once in one session.
func (a *actor) legacyMany(s *client.Legacy) error {
	const many = 4
	type begun struct {
		*client.Legacy
		id   string
		call client.Call
	}
	var all []begun
	for i := range many {
		b, err := s.Beside(a.ctx)
		if err != nil {
			return err
		}
		defer b.Leave()
		b.From(i * many)
		call := a.echo(child.Arguments{DelayMS: a.rng.IntN(50)})
		id, err := b.Begin(call)
		if err != nil {
			return err
		}
		all = append(all, begun{b, id, call})
	}
	for _, b := range all {
		if err := a.done(b.End(b.id, b.call, nil)); err != nil {
			return err
		}
	}
	return s.Delete()
}

// abandon leaves without deleting the session.
func (a *actor) abandon(s *client.Legacy) error { return a.calls(a.rng.IntN(3), s.Call) }

// handshake leaves before the answer to initialize.
func (a *actor) handshake(*client.Legacy) error {
	if a.rng.IntN(2) == 0 {
		return nil
	}
	return a.linger(nil, moment/10)
}

// cancel cancels a call with a notification, and leaves.
func (a *actor) cancel(s *client.Legacy) error {
	id, err := s.Begin(a.long())
	if err = a.linger(err, moment); err != nil {
		return err
	}
	b, err := s.Beside(a.ctx)
	if err != nil {
		return err
	}
	defer b.Leave()
	return b.Cancel(id)
}

// stream opens the session's GET stream, calls, and leaves while the stream is open.
func (a *actor) stream(s *client.Legacy) error {
	b, err := s.Beside(a.ctx)
	if err != nil {
		return err
	}
	defer b.Leave()
	if _, err = b.Stream(); err != nil {
		return err
	}
	return a.linger(a.calls(a.rng.IntN(2), s.Call), moment)
}

// unread opens the session's GET stream and calls, reads neither, and leaves.
func (a *actor) unread(s *client.Legacy) error {
	b, err := s.Beside(a.ctx)
	if err != nil {
		return err
	}
	defer b.Leave()
	b.Conn().Unread()
	if _, err = b.Stream(); err != nil {
		return err
	}
	s.Conn().Unread()
	_, err = s.Begin(a.echo(child.Arguments{Size: largeText}))
	return a.linger(err, 3*moment)
}

var errAsked = errors.New("soak: the question has come")

// asked makes a call in which the server asks a question, and leaves when the question comes.
func (a *actor) asked(s *client.Legacy) error {
	call := a.ask()
	id, err := s.Begin(call)
	if err != nil {
		return err
	}
	err = s.End(id, call, func(m *client.Message) error {
		if m.Method == "elicitation/create" {
			return errAsked
		}
		return nil
	})
	switch {
	case errors.Is(err, errAsked):
		return nil
	case err == nil:
		return fmt.Errorf("%w: an answer instead of a question", client.ErrWrong)
	}
	return err
}

// flood sends more than pipes and buffers hold to a server that does not read.
func (a *actor) flood(s *client.Legacy) error {
	for i := range floods {
		b, err := s.Beside(a.ctx)
		if err != nil {
			return err
		}
		defer b.Leave()
		b.From(i * floods)
		if _, err = b.Begin(a.echo(child.Arguments{Pad: padding})); err != nil {
			return err
		}
	}
	return a.linger(nil, moment)
}
