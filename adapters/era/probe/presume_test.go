package probe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/mux"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// shop is a server behind processes that can be given back.
type shop struct {
	answers map[string]string // by method: the rest of the response; absent: silence. A method that is preceded by "again " is that of a process that was given back
	starts  time.Duration     // after which a process reads

	mu    sync.Mutex
	spare *counter
	all   []*counter
}

// counter is one process of a shop.
type counter struct {
	*mux.Mux
	shop   *shop
	began  time.Time
	served int // conversations before this one
	said   *[]string
	closed bool
}

func (s *shop) dial(_ context.Context, sink transport.Sink) (transport.Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.spare
	if s.spare = nil; c == nil {
		c = &counter{shop: s, began: time.Now(), said: new([]string)}
		s.all = append(s.all, c)
	}
	next := &counter{shop: s, began: c.began, served: c.served, said: c.said}
	next.Mux = mux.New(proxy.Legacy, next.write, sink)
	s.all[slices.Index(s.all, c)] = next
	return next, nil
}

func (c *counter) write(_ context.Context, _ uint64, raw []byte) error {
	m, err := wire.Scan(raw)
	if err != nil {
		return err
	}
	method := string(m.Text(m.Method))
	c.shop.mu.Lock()
	if method != "notifications/cancelled" { // sent in the background
		*c.said = append(*c.said, method)
	}
	answer, known := c.shop.answers[method]
	if again, also := c.shop.answers["again "+method]; also && c.served > 0 {
		answer, known = again, again != ""
	}
	c.shop.mu.Unlock()
	if m.Kind == wire.Request && known {
		raw := `{"jsonrpc":"2.0","id":` + string(m.Of(m.ID)) + `,` + answer + `}`
		time.AfterFunc(max(0, c.shop.starts-time.Since(c.began)), func() { _ = c.Deliver([]byte(raw)) })
	}
	return nil
}

func (c *counter) Close() error {
	c.shop.mu.Lock()
	defer c.shop.mu.Unlock()
	c.closed = true
	return nil
}

func (c *counter) Return(time.Duration) bool {
	c.Fail(errors.New("given back"))
	c.shop.mu.Lock()
	defer c.shop.mu.Unlock()
	c.served++
	c.shop.spare = c
	return true
}

func (c *counter) Returned() bool { return c.served > 0 }

func (c *counter) Waits() (waits, known bool) { return time.Since(c.began) >= c.shop.starts, true }

// said returns what each process was sent, and whether it is open.
func (s *shop) story() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, c := range s.all {
		state := ""
		if c.closed {
			state = " (closed)"
		}
		all = append(all, strings.Join(*c.said, " ")+state)
	}
	return strings.Join(all, "; ")
}

const (
	refusal  = `"error":{"code":-32601,"message":"unknown"}`
	settled  = `"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
	found    = `"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}`
	answered = `"result":{}`
)

// A process that answers a probe serves the first client, whose handshake completes the probe.
func TestPresumedLegacy(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers map[string]string
		starts  time.Duration
		era     string        // configured
		probe   time.Duration // that the probe takes
		story   string        // after the probe and a handshake
		fails   bool          // the handshake is not taken
	}{
		{"refuses", map[string]string{"server/discover": refusal, "initialize": settled}, 0, "", 0, "server/discover initialize", false},
		{"starts slowly", map[string]string{"server/discover": refusal, "initialize": settled}, 20 * time.Second, "", 20 * time.Second, "server/discover initialize", false},
		{"ignores", map[string]string{"ping": answered, "initialize": settled}, 3 * time.Second, "", 3*time.Second + quietTime, "server/discover ping initialize", false},
		{"refuses a ping", map[string]string{"ping": refusal, "initialize": settled}, 0, "", quietTime + lateTime, "server/discover ping initialize; initialize notifications/initialized ping (closed)", false},
		{"mute", map[string]string{"initialize": settled}, 0, "", quietTime + 2*pingTime + lateTime, "server/discover ping initialize; initialize notifications/initialized ping (closed)", false},
		{"lists legacy revisions", map[string]string{"server/discover": `"result":{"supportedVersions":["2025-11-25"]}`, "initialize": settled}, 0, "", 0, "server/discover (closed); initialize", false},
		{"refuses the revision", map[string]string{"server/discover": `"error":{"code":-32022,"message":"m","data":{"supported":["2025-11-25"]}}`, "initialize": settled}, 0, "", 0, "server/discover (closed); initialize", false},
		{"spoiled", map[string]string{"server/discover": refusal, "initialize": settled, "again initialize": refusal}, 0, "", 0, "server/discover initialize (closed); initialize", false},
		{"spoiled and mute", map[string]string{"server/discover": refusal, "initialize": settled, "again initialize": ""}, 0, "", 0, "server/discover initialize (closed); initialize", false},
		{"no legacy server", map[string]string{"server/discover": refusal, "initialize": refusal}, 0, "", 0, "server/discover initialize (closed); initialize", true},
		{"configured", map[string]string{"ping": answered, "initialize": settled}, 0, "legacy", 0, "ping initialize", false},
		{"configured, refuses a ping", map[string]string{"ping": refusal, "initialize": settled}, 0, "legacy", 0, "ping initialize", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &shop{answers: c.answers, starts: c.starts}
			group := work.New(nil)
			wires := transport.Wires{Legacy: s.dial, Modern: s.dial, Stdio: true}
			if c.era == "legacy" {
				wires.Modern = nil
			}
			k := NewKeeper(&transport.Server{Wires: wires, Self: []byte(`{}`), Timeout: 10 * time.Second, StartTimeout: time.Minute}, Options{}, new(lone), group)
			began := time.Now()
			v, err := k.Profile(t.Context())
			if err != nil || !v.Legacy || v.Modern || !k.Ready() {
				t.Fatalf("%s: %+v, %v", c.name, v, err)
			}
			if took := time.Since(began); took < c.probe || took > c.probe+200*time.Millisecond {
				t.Errorf("%s: the probe took %s, want %s", c.name, took, c.probe)
			}
			link, err := k.Legacy(v)(t.Context(), transport.Discard{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := transport.AskLegacy(t.Context(), link, []byte(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`))
			if err != nil || m.Kind == wire.Failure != c.fails || string(m.Of(m.ID)) != `"i"` {
				t.Errorf("%s: %s, %v", c.name, m.Raw, err)
			}
			synctest.Wait()
			if got := s.story(); got != c.story {
				t.Errorf("%s: %s\nwant %s", c.name, got, c.story)
			}
			if v := k.Last(); c.fails == (v != nil) || v != nil && (v.Init == nil || v.Version != "2025-11-25" || v.presumed) {
				t.Errorf("%s: afterwards %+v", c.name, v)
			}
			if c.fails && k.First() {
				t.Errorf("%s: the next probe does not go on to a handshake", c.name)
			}
			_ = link.Close()
			if err := end(group, k.links.(*lone)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A process that is started in place of another is closed if the link is closed meanwhile.
func TestClosedWhileReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{answers: map[string]string{"server/discover": refusal, "initialize": settled, "again initialize": refusal}}
		var link transport.Link
		dials := 0
		dial := func(ctx context.Context, sink transport.Sink) (transport.Link, error) {
			if dials++; dials == 3 {
				_ = link.Close()
			}
			return s.dial(ctx, sink)
		}
		group := work.New(nil)
		k := NewKeeper(&transport.Server{Wires: transport.Wires{Legacy: dial, Modern: dial, Stdio: true}, Self: []byte(`{}`), Timeout: 10 * time.Second, StartTimeout: time.Minute},
			Options{}, new(lone), group)
		v, err := k.Profile(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if link, err = k.Legacy(v)(t.Context(), transport.Discard{}); err != nil {
			t.Fatal(err)
		}
		if _, err = transport.AskLegacy(t.Context(), link, []byte(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`)); !proxy.IsFault(err, proxy.SessionLost) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		if got, want := s.story(), "server/discover initialize (closed);  (closed)"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if err := end(group, k.links.(*lone)); err != nil {
			t.Error(err)
		}
	})
}

// A probe of both eras has a handshake of its own, in the process that has answered the first step.
func TestBothProves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{answers: map[string]string{"server/discover": refusal, "initialize": settled, "ping": answered}}
		group := work.New(nil)
		finds := 0
		k := NewKeeper(&transport.Server{Wires: transport.Wires{Legacy: s.dial, Modern: s.dial, Stdio: true}, Self: []byte(`{}`), Timeout: 10 * time.Second, StartTimeout: time.Minute},
			Options{Found: func(*Profile) { finds++ }}, new(lone), group)
		v, err := k.Both(t.Context())
		if err != nil || !v.Checked() || v.Init == nil || finds != 2 {
			t.Errorf("%+v, %v, found %d times", v, err, finds)
		}
		if got, want := s.story(), "server/discover initialize notifications/initialized ping (closed)"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if err := end(group, k.links.(*lone)); err != nil {
			t.Error(err)
		}
	})
}

// The initialize of a legacy client at an unknown process needs no probe; a process that refuses it is asked for its era.
func TestFirst(t *testing.T) {
	for _, modern := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &shop{answers: map[string]string{"initialize": settled}}
			if modern {
				s.answers = map[string]string{"initialize": refusal, "server/discover": found}
			}
			group := work.New(nil)
			k := NewKeeper(&transport.Server{Wires: transport.Wires{Legacy: s.dial, Modern: s.dial, Stdio: true}, Self: []byte(`{}`), Timeout: 10 * time.Second, StartTimeout: time.Minute},
				Options{}, new(lone), group)
			if !k.First() {
				t.Fatal("something is known")
			}
			link, err := k.Legacy(nil)(t.Context(), transport.Discard{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = transport.AskLegacy(t.Context(), link, []byte(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`))
			if errors.Is(err, ErrNotLegacy) != modern || !modern && err != nil {
				t.Errorf("%v", err)
			}
			if modern {
				_ = link.Close() // not the process, which was given back
				v, err := k.Both(t.Context())
				if err != nil || !v.Modern || v.Legacy {
					t.Errorf("%+v, %v", v, err)
				}
			} else if v := k.Last(); v == nil || v.Version != "2025-11-25" || !k.Ready() {
				t.Errorf("%+v", v)
			}
			if got, want := s.story(), map[bool]string{true: "initialize server/discover", false: "initialize"}[modern]; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			_ = link.Close()
			if err := end(group, k.links.(*lone)); err != nil {
				t.Error(err)
			}
		})
	}
}
