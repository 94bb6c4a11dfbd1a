//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"dragoman/bench/lab/soak/child"
	"dragoman/bench/lab/soak/client"
	"dragoman/bench/measure"
)

const (
	sureLimit   = 60 * time.Second // a good answer may take that long on a busy machine
	crashLimit  = 30 * time.Second // an error must come sooner than this
	silentLimit = 800 * time.Millisecond
	moment      = 100 * time.Millisecond

	longCall  = 4000 // milliseconds: the client leaves before its end
	hugeText  = 8 << 20
	largeText = 300 << 10
	largePad  = 900 << 10
	floods    = 8
)

// padding makes a request large. It is made once for all requests.
var padding = strings.Repeat("p", largePad)

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

// echo is a call whose answer repeats a token that no other call has.
func (a *actor) echo(args child.Arguments) client.Call {
	a.n++
	args.Token = fmt.Sprintf("%s-%d", a.token, a.n)
	return client.Call{Arguments: args, Want: args.Text()}
}

// plain is a short call of random size, in half of the cases with progress.
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

// linger waits for a random time below most, unless err says that the visit has failed already.
func (a *actor) linger(err error, most time.Duration) error {
	if err == nil {
		pause(a.ctx, time.Duration(a.rng.Int64N(int64(most))))
	}
	return err
}

// pause waits for a time, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) { _ = measure.Pause(ctx, d) }

func (a *actor) openLegacy() (*client.Legacy, error) {
	s, err := client.OpenLegacy(a.ctx, a.at)
	if err == nil {
		a.t.session()
	}
	return s, err
}

// beginLegacy sends initialize, and does not wait for the answer.
func (a *actor) beginLegacy() (*client.Legacy, error) { return client.BeginLegacy(a.ctx, a.at) }

func (a *actor) openSSE() (*client.SSE, error) {
	s, err := client.OpenSSE(a.ctx, a.at)
	if err == nil {
		a.t.session()
	}
	return s, err
}

func (a *actor) openModern() (*client.Modern, error) { return client.OpenModern(a.ctx, a.at, false) }

// openModernAsked opens a client that can be asked.
func (a *actor) openModernAsked() (*client.Modern, error) {
	return client.OpenModern(a.ctx, a.at, true)
}

func (a *actor) openModernEither() (*client.Modern, error) {
	return client.OpenModern(a.ctx, a.at, a.rng.IntN(2) == 0)
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
