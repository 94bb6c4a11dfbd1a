package era

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/transport"
)

// An unknown server is probed by its check; a known one is pinged, or asked to describe itself if it is modern.
func TestCheckAsksAtTheLowestCost(t *testing.T) {
	for _, c := range []struct {
		modern bool
		asks   string
	}{{false, "ping"}, {true, "server/discover"}} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{Modern: c.modern}
			wires := transport.Wires{Legacy: s.Dial}
			if c.modern {
				wires = transport.Wires{Modern: s.Dial}
			}
			u := NewUpstream(Options{Server: transport.Server{Name: "up", Self: []byte(`{"name":"dragoman","version":"1"}`), Wires: wires, Timeout: time.Second},
				Probe: probe.Options{TTL: time.Hour}, Sessions: sessions.Options{Max: 2}})
			if err := u.Check(t.Context()); err != nil || !u.Ready() {
				t.Errorf("modern %v: an unknown server: %v, ready %v", c.modern, err, u.Ready())
			}
			for range 2 {
				if err := u.Check(t.Context()); err != nil {
					t.Errorf("modern %v: %v", c.modern, err)
				}
			}
			asked := 0
			for _, l := range s.Links {
				for _, m := range slices.Clone(l.Said) {
					if strings.Contains(m, `"method":"`+c.asks+`"`) {
						asked++
					}
				}
			}
			if asked < 2 {
				t.Errorf("modern %v: it was asked %d times", c.modern, asked)
			}
			if err := u.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// An answer for another session shows that the server broadcasts, which is said once; other strays show nothing.
func TestStraysShowABroadcast(t *testing.T) {
	warned := 0
	u := NewUpstream(Options{Server: transport.Server{Name: "up"}, Note: func(level, msg string, _ error) {
		if level == "warn" && strings.Contains(msg, "broadcasts") {
			warned++
		}
	}})
	for i, c := range []struct {
		of         transport.Stray
		broadcasts bool
	}{{transport.Late, false}, {transport.Unknown, false}, {transport.Foreign, true}, {transport.Foreign, true}, {transport.Late, true}} {
		u.stray(c.of)
		if u.Broadcasts() != c.broadcasts || u.pool.Single() != c.broadcasts || warned > 1 || (warned == 1) != c.broadcasts {
			t.Errorf("stray %d, %s: broadcasts %v, one session %v, %d warnings", i, c.of, u.Broadcasts(), u.pool.Single(), warned)
		}
	}
	for of, want := range map[transport.Stray]uint64{transport.Late: 2, transport.Unknown: 1, transport.Foreign: 2} {
		if got := u.Strays(of); got != want {
			t.Errorf("%s: %d", of, got)
		}
	}
	if err := u.Close(); err != nil {
		t.Error(err)
	}
}
