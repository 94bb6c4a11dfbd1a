package probe

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/era/work"
	"dragoman/adapters/mux"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sluggish is a server behind a pipe that takes a while to start, and perhaps to end.
type sluggish struct {
	start, stop time.Duration
	modern      bool // it knows server/discover; otherwise it is silent to it
	noLegacy    bool // it refuses initialize
	t           *testing.T

	mu    sync.Mutex
	ended int
}

func (s *sluggish) dial(_ context.Context, sink transport.Sink) (transport.Link, error) {
	began := time.Now()
	var x *mux.Mux
	x = mux.New(proxy.Modern, func(_ context.Context, _ uint64, raw []byte) error {
		m, err := wire.Scan(raw)
		if err != nil || m.Kind != wire.Request {
			return err
		}
		answer := `{"jsonrpc":"2.0","id":` + string(m.Of(m.ID)) + `,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
		switch {
		case m.Is("server/discover") && !s.modern:
			return nil
		case m.Is("server/discover"):
			answer = `{"jsonrpc":"2.0","id":` + string(m.Of(m.ID)) + `,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`
		case m.Is("initialize") && s.noLegacy:
			answer = `{"jsonrpc":"2.0","id":` + string(m.Of(m.ID)) + `,"error":{"code":-32601,"message":"no"}}`
		}
		time.AfterFunc(max(0, s.start-time.Since(began)), func() { _ = x.Deliver([]byte(answer)) })
		return nil
	}, sink)
	return &sluggishLink{x, s}, nil
}

type sluggishLink struct {
	*mux.Mux
	s *sluggish
}

func (l *sluggishLink) Close() error {
	time.Sleep(l.s.stop) // virtual time: the link is slow to close
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.ended++
	return nil
}

func (s *sluggish) profile() (*Profile, time.Duration) {
	group := work.New(nil)
	k := NewKeeper(&transport.Server{Wires: transport.Wires{Legacy: s.dial, Modern: s.dial, Stdio: true}, Self: []byte(`{}`),
		Timeout: 10 * time.Second, StartTimeout: time.Minute}, Options{}, new(lone), group)
	began := time.Now()
	v, err := k.Profile(s.t.Context())
	took := time.Since(began)
	if err != nil {
		s.t.Error(err)
	}
	if err := end(group, k.links.(*lone)); err != nil {
		s.t.Error(err)
	}
	return v, took
}

// A modern server that takes longer to start than a probe waits is not taken for a legacy one: its first process answers
// while the second one starts.
func TestSlowModernServer(t *testing.T) {
	for _, noLegacy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &sluggish{t: t, start: 15 * time.Second, modern: true, noLegacy: noLegacy}
			if v, took := s.profile(); v == nil || !v.Modern || v.Legacy == noLegacy || took > 26*time.Second {
				t.Errorf("%+v after %v", v, took)
			}
		})
	}
}

// A legacy server that is silent to what it does not know costs the one step's time, however slowly it starts.
func TestSilentLegacyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sluggish{t: t, start: 15 * time.Second}
		if v, took := s.profile(); v == nil || v.Modern || !v.Legacy || took > 26*time.Second {
			t.Errorf("%+v after %v", v, took)
		}
	})
}

// The profile does not wait for the end of processes that take long to end; the end of the upstream does.
func TestProbeDoesNotWaitForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sluggish{t: t, stop: 7 * time.Second, modern: false}
		if v, took := s.profile(); v == nil || !v.Legacy || took > 12*time.Second { // 10 s of silence, and twice half a second
			t.Errorf("%+v after %v", v, took)
		}
		if s.ended != 2 {
			t.Errorf("%d processes have ended, want 2", s.ended)
		}
	})
}

// lone holds at most one link.
type lone struct {
	transport.Discard
	link transport.Link
}

func (l *lone) Adopting() (transport.Sink, func(transport.Link)) {
	return l, func(link transport.Link) { l.link = link }
}

func (l *lone) Any() bool { return l.link != nil }

// end closes a group as an upstream does.
func end(group *work.Group, l *lone) error {
	group.Close()
	group.Cancel()
	var err error
	if l.link != nil {
		err = l.link.Close()
	}
	group.Wait()
	return err
}
