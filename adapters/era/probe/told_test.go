package probe

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// What a server answers to a probe with one caller's headers is told to that caller only, although others wait for the same probe.
func TestProbeOfAnotherCallerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		dial := func(ctx context.Context, _ transport.Sink) (transport.Link, error) {
			<-free
			return nil, proxy.Errf(proxy.BadAnswer, "no tenant %q", proxy.ForwardedFrom(ctx).Headers[0].Value)
		}
		group := work.New(nil)
		k := NewKeeper(&transport.Server{Wires: transport.Wires{Modern: dial}, Self: []byte(`{}`), Timeout: time.Minute, StartTimeout: time.Minute},
			Options{Forwards: true}, new(lone), group)
		ask := func(who string, sum byte) chan error {
			failed := make(chan error, 1)
			ctx := proxy.WithForwarded(t.Context(), &proxy.Forwarded{Headers: []proxy.Header{{Name: "x-tenant", Value: who}}, Sum: [16]byte{sum}})
			go func() {
				_, err := k.Profile(ctx)
				failed <- err
			}()
			synctest.Wait() // it waits for the probe
			return failed
		}
		alice, bob, again := ask("alice", 1), ask("bob", 2), ask("another of alice", 1)
		close(free)
		for what, got := range map[string]struct {
			err  error
			says bool
		}{"alice": {<-alice, true}, "bob": {<-bob, false}, "alice again": {<-again, true}} {
			if !proxy.IsFault(got.err, proxy.EraUnknown, proxy.BadAnswer) || strings.Contains(got.err.Error(), `"alice"`) != got.says {
				t.Errorf("%s is told %v", what, got.err)
			}
		}
		if err := end(group, k.links.(*lone)); err != nil {
			t.Error(err)
		}
	})
}
