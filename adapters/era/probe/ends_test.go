package probe

import (
	"context"
	"testing"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/mux"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// A process that ends at once is reported as that, whether its end is noticed before a request is written or after it.
func TestProcessThatEndsAtOnce(t *testing.T) {
	for _, early := range [][]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
		exits := proxy.Errf(proxy.Lost, "it has exited")
		dials := 0
		dial := func(_ context.Context, sink transport.Sink) (transport.Link, error) {
			var x *mux.Mux
			x = mux.New(proxy.Modern, func(context.Context, uint64, []byte) error {
				x.Fail(exits)
				return nil
			}, sink)
			if early[dials%len(early)] {
				x.Fail(exits)
			}
			dials++
			return refusingLink{x}, nil
		}
		group := work.New(nil)
		k := NewKeeper(&transport.Server{Wires: transport.Wires{Legacy: dial, Modern: dial, Stdio: true}, Self: []byte(`{}`),
			Timeout: 10 * time.Second, StartTimeout: time.Minute}, Options{}, new(lone), group)
		if _, err := k.Both(t.Context()); !proxy.IsFault(err, proxy.Lost) || dials != 2 {
			t.Errorf("%v: %v after %d starts", early, err, dials)
		}
		link, err := k.Legacy(nil)(t.Context(), transport.Discard{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = transport.AskLegacy(t.Context(), link, []byte(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`))
		if !proxy.IsFault(err, proxy.Lost) {
			t.Errorf("%v: the handshake of a client: %v", early, err)
		}
		_ = link.Close()
		if err := end(group, k.links.(*lone)); err != nil {
			t.Error(err)
		}
	}
}
