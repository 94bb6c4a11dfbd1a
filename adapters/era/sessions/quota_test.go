package sessions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Processes are counted until they have ended, and limits name their key.
func TestQuota(t *testing.T) {
	s := &fakeserver.Server{}
	q := NewQuota(&transport.Server{Name: "up", Wires: transport.Wires{Stdio: true}}, Options{LeaseWait: 5 * time.Second, Processes: Processes{Max: 3, PerPrincipal: 2}}, func(string, bool) bool { return false })
	take := func(who string) (transport.Link, string) {
		link, err := q.Dial(t.Context(), s.Dial, who, transport.Discard{})
		if err != nil {
			return nil, proxy.AsError(err).Message
		}
		return link, ""
	}
	one, _ := take("p")
	two, _ := take("p")
	if _, text := take("p"); !strings.Contains(text, "all of this caller's 2 processes") || !strings.Contains(text, "upstreams.up.max_processes_per_principal") {
		t.Error(text)
	}
	three, _ := take("q")
	if _, text := take("r"); !strings.Contains(text, "all 3 processes") || !strings.Contains(text, "upstreams.up.max_processes") {
		t.Error(text)
	}
	q.limits.Max, q.limits.Spares = 5, 2
	if _, text := take("r"); !strings.Contains(text, "all 5 processes of the upstream server are in use (2 of them spares)") {
		t.Error(text)
	}
	q.limits.Max, q.limits.Spares = 3, 0
	// A process that is ending is waited for.
	slow := make(chan struct{})
	link := &counted{Link: slowly{two, slow}, q: q, principal: "p"}
	closed := make(chan struct{})
	go func() { _ = link.Close(); close(closed) }()
	for q.waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	got := make(chan transport.Link, 1)
	go func() {
		l, _ := take("p")
		got <- l
	}()
	select {
	case <-got:
		t.Error("the process that was ending did not count")
	case <-time.After(10 * time.Millisecond):
	}
	close(slow)
	<-closed
	next := <-got
	if next == nil {
		t.Fatal("refused after the process had ended")
	}
	for _, l := range []transport.Link{one, three, next} {
		_ = l.Close()
		_ = l.Close() // counts once
	}
}

// waiting is how many processes are ending.
func (q *Quota) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ending
}

// slowly is a link whose end takes a while. The link that it stands for is counted too, and closed beneath that.
type slowly struct {
	transport.Link
	until chan struct{}
}

func (l slowly) Close() error {
	<-l.until
	return l.Link.(*counted).Link.Close()
}

// At a limit the process of an idle session gives way: one of the caller's own, if the limit is that of a principal.
func TestProcessesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeserver.Server{}
		links := make(map[string]transport.Link)
		var asked []string
		evict := func(principal string, own bool) bool {
			asked = append(asked, principal+map[bool]string{true: " own"}[own])
			link := links["p"]
			go func() { time.Sleep(time.Second); _ = link.Close() }()
			return link != nil
		}
		q := NewQuota(&transport.Server{Name: "up", Wires: transport.Wires{Stdio: true}}, Options{LeaseWait: 5 * time.Second, Processes: Processes{Max: 2, PerPrincipal: 1}}, evict)
		for _, c := range []struct {
			principal, asked string
		}{{"p", ""}, {"q", ""}, {"p", "p own"}, {"p", "p own"}, {"r", "r"}} {
			began := time.Now()
			link, err := q.Dial(t.Context(), s.Dial, c.principal, transport.Discard{})
			if err != nil {
				t.Fatalf("%s: %v", c.principal, err)
			}
			links[c.principal] = link
			if got := strings.Join(asked, ", "); got != c.asked || time.Since(began) != time.Duration(len(asked))*time.Second {
				t.Errorf("%s: %q gives way, after %s", c.principal, got, time.Since(began))
			}
			asked = nil
		}
		if n := q.Processes(); n != 2 || s.Open() != 2 {
			t.Errorf("%d processes counted, %d open", n, s.Open())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := q.Dial(ctx, s.Dial, "r", transport.Discard{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that leaves: %v", err)
		}
		time.Sleep(time.Second)
		began := time.Now()
		q.evict = func(string, bool) bool { return true } // but the process does not end
		if _, err := q.Dial(t.Context(), s.Dial, "t", transport.Discard{}); !proxy.IsFault(err, proxy.TooManySessions) || time.Since(began) != 5*time.Second || strings.Contains(err.Error(), "spares") {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		for _, principal := range []string{"q", "r"} {
			_ = links[principal].Close()
		}
		if n := q.Processes(); n != 0 || len(q.of) != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
}

// A limit of 0 is none. Links that are no processes are not counted, and principals that share processes have no limit of their own.
func TestQuotaWithoutLimits(t *testing.T) {
	for _, c := range []struct {
		name            string
		stdio           bool
		sharing         Sharing
		limits          Processes
		refused, counts int // of four
	}{
		{"no limits", true, BySession, Processes{}, 0, 0},
		{"none per principal", true, BySession, Processes{Max: 5}, 0, 4},
		{"none in all", true, BySession, Processes{PerPrincipal: 1}, 0, 0},
		{"HTTP", false, BySession, Processes{Max: 1, PerPrincipal: 1}, 0, 0},
		{"one process", true, Shared, Processes{Max: 5, PerPrincipal: 1}, 0, 4},
		{"by principal", true, ByPrincipal, Processes{Max: 5, PerPrincipal: 1}, 3, 1},
		{"all are spares", true, BySession, Processes{Max: 2, Spares: 2}, 3, 1},
		{"spares", true, BySession, Processes{Max: 4, Spares: 2}, 2, 2},
	} {
		s := &fakeserver.Server{}
		q := NewQuota(&transport.Server{Wires: transport.Wires{Stdio: c.stdio}}, Options{Isolation: Isolation{Sharing: c.sharing}, Processes: c.limits}, func(string, bool) bool { return false })
		refused := 0
		for range 4 {
			if _, err := q.Dial(t.Context(), s.Dial, "p", transport.Discard{}); err != nil {
				refused++
			}
		}
		if refused != c.refused || q.Processes() != c.counts {
			t.Errorf("%s: %d refused, %d counted", c.name, refused, q.Processes())
		}
	}
}

// A process of one principal is owned by it; a process that does not start counts no longer.
func TestDialForAPrincipal(t *testing.T) {
	strays := 0
	q := NewQuota(&transport.Server{Wires: transport.Wires{Stdio: true}}, Options{Processes: Processes{Max: 1}, Stray: func(transport.Stray) { strays++ }}, func(string, bool) bool { return false })
	for _, principal := range []string{"p", ""} {
		dial := func(ctx context.Context, sink transport.Sink) (transport.Link, error) {
			sink.(transport.Watcher).Stray(transport.Unknown)
			if transport.IsOwned(ctx) != (principal != "") {
				t.Errorf("%q: owned %v", principal, transport.IsOwned(ctx))
			}
			return nil, errors.New("no such file")
		}
		if _, err := q.Dial(t.Context(), dial, principal, transport.Discard{}); err == nil || err.Error() != "no such file" || q.Processes() != 0 || q.waiting() != 0 {
			t.Errorf("%q: %v, %d processes", principal, err, q.Processes())
		}
	}
	if strays != 2 {
		t.Errorf("%d strays are told of", strays)
	}
	q.stray = nil
	_, _ = q.Dial(t.Context(), func(_ context.Context, sink transport.Sink) (transport.Link, error) {
		if _, watched := sink.(transport.Watcher); watched {
			t.Error("strays are watched for nobody")
		}
		return nil, errors.New("no such file")
	}, "", transport.Discard{})
}
