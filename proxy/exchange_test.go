package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"dragoman/proxy/wire"
)

type aborter struct {
	mu sync.Mutex
	n  int
}

func (a *aborter) Abort() { a.mu.Lock(); a.n++; a.mu.Unlock() }

// The reason of a failure is the cancellation of the exchange, unless the request was not processed.
func TestWhy(t *testing.T) {
	trace, lost := errors.New("closed"), Errf(SessionLost, "open a new one")
	crash := Errf(Lost, "it has ended")
	ex := &Exchange{}
	f := func(err, want error) {
		t.Helper()
		if got := ex.Why(err); got != want {
			t.Errorf("%v is reported as %v, want %v", err, got, want)
		}
	}
	f(trace, trace)
	ex.Cancel(crash)
	f(trace, crash)
	f(lost, lost)
	ex = &Exchange{}
	ex.Cancel(ErrCancelled) // not for clients
	f(trace, trace)
}

// An exchange is cancelled once, with the first cause; an Aborter that is attached later is aborted at once.
func TestExchangeCancel(t *testing.T) {
	ex := &Exchange{}
	kept, taken, late := &aborter{}, &aborter{}, &aborter{}
	ex.Attach(kept)
	ex.Attach(taken)
	ex.Detach(taken)
	ex.Detach(taken)
	done := ex.Done()
	select {
	case <-done:
		t.Error("done")
	default:
	}
	var group sync.WaitGroup
	cause := errors.New("first")
	ex.Cancel(cause)
	for range 10 {
		group.Go(ex.Leave)
	}
	group.Wait()
	<-done
	<-ex.Done()
	ex.Attach(late)
	if !errors.Is(ex.Err(), cause) || kept.n != 1 || taken.n != 0 || late.n != 1 {
		t.Errorf("%v, %d %d %d", ex.Err(), kept.n, taken.n, late.n)
	}
	fresh := &Exchange{}
	fresh.Leave()
	<-fresh.Done() // made after the end
	ctx, stop := context.WithCancelCause(context.Background())
	followed := &Exchange{}
	defer followed.Follow(ctx)()
	stop(cause)
	<-followed.Done()
	if !errors.Is(followed.Err(), cause) {
		t.Errorf("%v", followed.Err())
	}
}

// Only Dragoman's own failures have data; internal details are never visible.
func TestErrorJSON(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		if got := string(AsError(err).AppendJSON(nil)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	f(Errf(InvalidParams, "a %q", "\r\n"), `{"code":-32602,"message":"a \"\\r\\n\""}`)
	f(Errf(Lost, "gone: %w", io.EOF), `{"code":-32603,"message":"gone: EOF","data":{"code":"upstream_lost","retryable":false}}`)
	e := Errf(Overloaded, "busy")
	e.RetryAfter = 7
	f(fmt.Errorf("wrapped: %w", e), `{"code":-32603,"message":"busy","data":{"code":"upstream_overloaded","retryable":true,"retryAfter":7}}`)
	f(errors.New("password=x"), `{"code":-32603,"message":"internal error; the log of Dragoman has the cause","data":{"code":"internal","retryable":false}}`)
	f(fmt.Errorf("x: %w", ErrCancelled), `{"code":-32603,"message":"the request was cancelled","data":{"code":"cancelled","retryable":false}}`)
	if !errors.Is(Errf(Lost, "gone: %w", io.EOF), io.EOF) {
		t.Error("the cause is lost")
	}
	m := ErrorMessage([]byte(`"1"`), Errf(Parse, "\xff"))
	if m.Kind != wire.Failure || string(m.Of(m.ID)) != `"1"` {
		t.Errorf("%s", m.Raw)
	}
}

type upstreamFunc func(ex *Exchange) (Replies, error)

func (f upstreamFunc) Do(ex *Exchange) (Replies, error) { return f(ex) }
func (upstreamFunc) Close() error                       { return nil }

func TestRouter(t *testing.T) {
	named := func(n string) *Target {
		return &Target{Name: n, Upstream: upstreamFunc(func(*Exchange) (Replies, error) { return nil, errors.New(n) })}
	}
	r := NewRouter(NewTable(named("a"), named("a")))
	f := func(server, want string) {
		t.Helper()
		_, err := r.Do(&Exchange{Server: server})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", server, err, want)
		}
	}
	f("", "a")
	f("a", "a")
	f("b", "server_unknown")
	r.Swap(NewTable(named("all"), named("a"), named("b"), named("groups/g")))
	f("b", "b")
	f("", "all")
	f("groups/g", "groups/g")
	f("groups/a", `no group "a" is configured; there is g`)
	f("g", `no server "g" is configured; there is a, b`)
	r.Swap(NewTable(nil, named("a"), named("b")))
	f("", "/servers/NAME/mcp with NAME one of a, b")
	f("groups/a", `no group "a" is configured; there is none`)
	order := ""
	policy := func(name string) Policy {
		return func(next Handler) Handler {
			return func(ex *Exchange) (Replies, error) { order += name; return next(ex) }
		}
	}
	_, _ = Chain(r.Do, policy("1"), policy("2"))(&Exchange{Server: "a"})
	if order != "12" {
		t.Errorf("order %s", order)
	}
}
