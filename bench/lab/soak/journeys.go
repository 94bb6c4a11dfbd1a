//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"dragoman/bench/lab/soak/child"
	"dragoman/bench/lab/soak/client"
)

const (
	sureLimit   = 60 * time.Second // a good answer may take that long on a busy machine
	crashLimit  = 30 * time.Second // an error must come sooner than this
	silentLimit = 800 * time.Millisecond

	longCall  = 4000 // milliseconds: whoever makes one leaves before its end
	hugeText  = 8 << 20
	largeText = 300 << 10
	largePad  = 900 << 10
	presses   = 8
)

// actor is one client on its visit to one server.
type actor struct {
	ctx   context.Context
	rng   *rand.Rand
	s     *server
	at    client.Place
	t     *tally
	token string
	n     int
}

// journey is one way to come and to leave.
type journey struct {
	name   string
	weight int
	run    func(a *actor) error
	// when says whether a server is visited like that; nil is always.
	when func(s *server) bool
}

func asks(s *server) bool  { return s.isolation == "" && s.sure() } // who shares a session cannot be asked
func sure(s *server) bool  { return s.sure() }
func huge(s *server) bool  { return s.huge }
func deaf(s *server) bool  { return s.role.Kind == child.NeverRead || s.role.Kind == child.Hang }
func legal(s *server) bool { return s.sure() && !s.role.Modern && s.isolation == "" }

// journeys lists them all.
func journeys() []journey {
	return append(polite(),
		journey{name: "abandon", weight: 6, run: (*actor).abandon},
		journey{name: "handshake", weight: 2, run: (*actor).handshake},
		journey{name: "cut", weight: 4, run: (*actor).cut},
		journey{name: "cancel", weight: 2, run: (*actor).cancel},
		journey{name: "stream", weight: 3, run: (*actor).stream},
		journey{name: "unread", weight: 1, run: (*actor).unread, when: sure},
		journey{name: "half", weight: 2, run: (*actor).half},
		journey{name: "asked", weight: 2, run: (*actor).asked, when: legal},
		journey{name: "press", weight: 2, run: (*actor).press, when: deaf},
		journey{name: "sse-cut", weight: 3, run: (*actor).sseCut},
		journey{name: "sse-door", weight: 1, run: (*actor).sseDoor},
		journey{name: "sse-unread", weight: 1, run: (*actor).sseUnread, when: sure},
		journey{name: "modern-cut", weight: 4, run: (*actor).modernCut},
		journey{name: "modern-half", weight: 1, run: (*actor).modernHalf},
		journey{name: "modern-park", weight: 3, run: (*actor).modernPark, when: asks},
		journey{name: "modern-listen", weight: 2, run: (*actor).modernListen, when: sure},
		journey{name: "modern-unread", weight: 1, run: (*actor).modernUnread, when: sure},
		journey{name: "huge", weight: 3, run: (*actor).huge, when: huge},
	)
}

// polite lists the journeys of clients that do as they should.
func polite() []journey {
	return []journey{
		{name: "legacy", weight: 3, run: (*actor).legacy},
		{name: "legacy-many", weight: 1, run: (*actor).legacyMany},
		{name: "sse", weight: 2, run: (*actor).sse},
		{name: "modern", weight: 4, run: (*actor).modern},
		{name: "modern-asked", weight: 1, run: (*actor).modernAsked, when: asks},
	}
}

// fits says whether a server is visited like that.
func (j *journey) fits(s *server) bool { return j.when == nil || j.when(s) }

// pick chooses a journey to the server by weight.
func pick(all []journey, s *server, rng *rand.Rand) *journey {
	total := 0
	for i := range all {
		if all[i].fits(s) {
			total += all[i].weight
		}
	}
	n := rng.IntN(total)
	for i := range all {
		if all[i].fits(s) {
			if n -= all[i].weight; n < 0 {
				return &all[i]
			}
		}
	}
	return &all[0] // cannot be reached
}

// limit is how long a visit to the server may take.
func (s *server) limit() time.Duration {
	switch {
	case s.silent():
		return silentLimit
	case s.crashes():
		return crashLimit
	}
	return sureLimit
}

// echo is a call whose answer says that it was meant for this call.
func (a *actor) echo(args child.Arguments) client.Call {
	a.n++
	args.Token = fmt.Sprintf("%s-%d", a.token, a.n)
	return client.Call{Arguments: args, Want: args.Text()}
}

// plain is a short call, now and then with more in it.
func (a *actor) plain() client.Call {
	call := a.echo(child.Arguments{Size: a.rng.IntN(2000), Progress: a.rng.IntN(3)})
	call.Progress = a.rng.IntN(2) == 0
	return call
}

func (a *actor) long() client.Call {
	call := a.echo(child.Arguments{DelayMS: longCall, Progress: 2})
	call.Progress = true
	return call
}

func (a *actor) ask() client.Call {
	call := a.echo(child.Arguments{})
	call.Tool = "ask"
	return call
}

// moment waits for as long as it takes to do harm: at most 100 ms.
func (a *actor) moment() { pause(a.ctx, time.Duration(a.rng.IntN(100))*time.Millisecond) }

// pause waits for a time, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (a *actor) open() (*client.Legacy, error) {
	s, err := client.OpenLegacy(a.ctx, a.at)
	if err == nil {
		a.t.session()
	}
	return s, err
}

// done counts a call that was answered right.
func (a *actor) done(err error) error {
	if err == nil {
		a.t.call()
	}
	return err
}

func (a *actor) calls(n int, call func(client.Call) error) error {
	for range n {
		if err := a.done(call(a.plain())); err != nil {
			return err
		}
	}
	return nil
}

// legacy comes, calls, and ends its session.
func (a *actor) legacy() error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Leave()
	if err = a.calls(1+a.rng.IntN(4), s.Call); err != nil {
		return err
	}
	return s.Delete()
}

// legacyMany makes several calls at once in one session.
func (a *actor) legacyMany() error {
	const many = 4
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Leave()
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
		if err = a.done(b.End(b.id, b.call, nil)); err != nil {
			return err
		}
	}
	return s.Delete()
}

// abandon leaves the session to itself.
func (a *actor) abandon() error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Leave()
	return a.calls(a.rng.IntN(3), s.Call)
}

// handshake leaves before the answer to initialize.
func (a *actor) handshake() error {
	s, err := client.BeginLegacy(a.ctx, a.at)
	if err != nil {
		return err
	}
	defer s.Leave()
	if a.rng.IntN(2) == 0 {
		pause(a.ctx, time.Duration(a.rng.IntN(10))*time.Millisecond)
	}
	return nil
}

// cut leaves in the middle of a call.
func (a *actor) cut() error {
	s, err := a.open()
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

// cancel cancels a call, as legacy clients do, and leaves.
func (a *actor) cancel() error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Leave()
	id, err := s.Begin(a.long())
	if err != nil {
		return err
	}
	a.moment()
	b, err := s.Beside(a.ctx)
	if err != nil {
		return err
	}
	defer b.Leave()
	return b.Cancel(id)
}

// stream opens the session's own stream, and leaves it and all else in the middle.
func (a *actor) stream() error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Leave()
	b, err := s.Beside(a.ctx)
	if err != nil {
		return err
	}
	defer b.Leave()
	if _, err = b.Stream(); err != nil {
		return err
	}
	if err = a.calls(a.rng.IntN(2), s.Call); err != nil {
		return err
	}
	a.moment()
	return nil
}

// unread opens the session's stream and calls, reads nothing, and leaves.
func (a *actor) unread() error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Leave()
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
	if _, err = s.Begin(a.echo(child.Arguments{Size: largeText})); err != nil {
		return err
	}
	pause(a.ctx, 3*time.Duration(a.rng.IntN(100))*time.Millisecond)
	return nil
}

// half sends half a call and leaves.
func (a *actor) half() error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Leave()
	if err = s.BeginHalf(a.plain()); err != nil {
		return err
	}
	a.moment()
	return nil
}

var errAsked = errors.New("soak: the question has come")

// asked makes a call in which the server asks, sees the question, and leaves.
func (a *actor) asked() error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Leave()
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

// press sends more than pipes and buffers hold to a server that does not read.
func (a *actor) press() error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Leave()
	for i := range presses {
		b, err := s.Beside(a.ctx)
		if err != nil {
			return err
		}
		defer b.Leave()
		b.From(i * presses)
		if _, err = b.Begin(a.echo(child.Arguments{Pad: padding})); err != nil {
			return err
		}
	}
	a.moment()
	return nil
}

// huge asks for an answer of megabytes.
func (a *actor) huge() error {
	m, err := client.OpenModern(a.ctx, a.at, false)
	if err != nil {
		return err
	}
	defer m.Leave()
	return a.done(m.Call(a.echo(child.Arguments{Size: hugeText})))
}
