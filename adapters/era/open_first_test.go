package era

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// dualProcesses is a server whose processes speak both eras. Its legacy side may fail to start.
type dualProcesses struct {
	modern, legacy fakeServer
	fails          error // of the next start of its legacy side
}

func (d *dualProcesses) dial(ctx context.Context, sink transport.Sink) (transport.Link, error) {
	if err := d.fails; err != nil {
		d.fails = nil
		return nil, err
	}
	return d.legacy.Dial(ctx, sink)
}

// upstream returns an upstream that has found the modern side.
func (d *dualProcesses) upstream(t *testing.T, processes int) *Upstream {
	t.Helper()
	d.modern.Modern = true
	u := NewUpstream(Options{
		Server: transport.Server{Name: "up", Self: []byte(`{"name":"dragoman","version":"1"}`), Timeout: 5 * time.Second,
			Wires: transport.Wires{Modern: d.modern.Dial, Legacy: d.dial, Stdio: true}},
		Probe:    probe.Options{TTL: time.Hour},
		Sessions: sessions.Options{Max: 10, Processes: sessions.Processes{Max: processes}},
	})
	if v, err := u.Profile(t.Context()); err != nil || !v.Modern || v.Legacy {
		t.Fatalf("%+v, %v", v, err)
	}
	return u
}

// initialize begins the session of a legacy client, and returns the era in which the server serves it.
func (d *dualProcesses) initialize(t *testing.T, u *Upstream, id string) (string, error) {
	t.Helper()
	c := &legacyClient{t, u, proxy.NewSession(id, "test", "", proxy.Caller{Principal: id}, time.Now())}
	ex := c.exchange(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	replies, err := u.Do(ex)
	if err == nil {
		_, err = replies.Next(time.Now().Add(time.Second))
		_ = replies.Close()
	}
	return ex.UpstreamEra.String(), err
}

// The first initialize at a dual server shows that it is modern only if the server refuses it, is silent or goes. A failure for another
// reason says nothing about its legacy side, which serves the next client.
func TestOnlyTheServerShowsThatItIsModern(t *testing.T) {
	for _, c := range []struct {
		name   string
		fails  error
		modern bool
	}{
		{"refuses", nil, true},
		{"is silent", proxy.Errf(proxy.UpstreamTimeout, "no answer in time"), true},
		{"goes", proxy.Errf(proxy.Lost, "it has exited"), true},
		{"cannot be started", proxy.Errf(proxy.Unreachable, "no such command"), false},
		{"has too many sessions", proxy.Errf(proxy.TooManySessions, "raise the limit"), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &dualProcesses{fails: c.fails}
			u := d.upstream(t, 0)
			d.legacy.Refuse = c.fails == nil
			era, err := d.initialize(t, u, "first")
			if c.modern && (err != nil || era != "modern") || !c.modern && !errors.Is(err, c.fails) {
				t.Errorf("%s: the first client: %s, %v", c.name, era, err)
			}
			d.legacy.Refuse = false
			want := map[bool]string{true: "modern", false: "legacy"}[c.modern]
			if era, err := d.initialize(t, u, "second"); err != nil || era != want {
				t.Errorf("%s: the second client: %s, %v", c.name, era, err)
			}
			if err := u.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A legacy client that finds all processes in use is refused, and the legacy side serves the next one, once a process is free.
func TestLimitDoesNotMakeADualServerModern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dualProcesses{}
		u := d.upstream(t, 1)
		if _, err := d.initialize(t, u, "first"); !proxy.IsFault(err, proxy.TooManySessions) {
			t.Errorf("beyond the limit: %v", err)
		}
		for _, l := range slices.Clone(d.modern.Links) { // the process that was probed ends
			l.Sink.Lost(proxy.Errf(proxy.Lost, "it has exited"))
		}
		synctest.Wait()
		if era, err := d.initialize(t, u, "second"); err != nil || era != "legacy" {
			t.Errorf("once a process is free: %s, %v", era, err)
		}
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
}
