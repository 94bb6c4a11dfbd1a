//go:build unix

package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/process"
	"dragoman/adapters/transport"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

func warm(t *testing.T, d *Dialer, spares int) {
	t.Helper()
	d.Warm()
	testkit.Eventually(t, "the prewarmed children", func() bool { return d.Stats().Spares == spares })
}

func idle(d *Dialer) (pids []int) {
	d.prewarmed.mu.Lock()
	defer d.prewarmed.mu.Unlock()
	for _, c := range d.prewarmed.idle {
		pids = append(pids, c.proc.PID())
	}
	return pids
}

func TestPrewarmedChildrenAreUsed(t *testing.T) {
	d := dialer(t, "good", func(o *Options) { o.Spares = 2 })
	if l := dial(t, d, newListener()); d.Stats().Starts != 1 {
		t.Errorf("before Warm: %+v", d.Stats())
	} else {
		_ = l.Close()
	}
	warm(t, d, 2)
	d.Warm() // changes nothing
	pids := idle(d)
	seen := map[int]bool{}
	for i := range 4 {
		l := dial(t, d, newListener())
		mustCall(t, l, "initialize")
		if i < 2 && l.PID() != pids[i] || seen[l.PID()] {
			t.Errorf("Dial %d took %d, the prewarmed ones were %v", i, l.PID(), pids)
		}
		seen[l.PID()] = true
		testkit.Eventually(t, "the replacement", func() bool { return d.Stats().Spares == 2 })
	}
	if s := d.Stats(); s.Running != 6 || s.Starts != 7 {
		t.Errorf("%+v", s)
	}
}

// A spare that dies is replaced, and the next Dial does not get it.
func TestPrewarmedChildDies(t *testing.T) {
	d := dialer(t, "good", func(o *Options) { o.Spares = 1 })
	d.goodAge = time.Millisecond // which is a failure, however long it has lived
	warm(t, d, 1)
	d.prewarmed.mu.Lock()
	c := d.prewarmed.idle[0]
	d.prewarmed.mu.Unlock()
	testkit.Eventually(t, "its age", func() bool { return settled(c) })
	first := c.proc.PID()
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the failure in the books", func() bool { return d.Stats().FailedStarts == 1 })
	testkit.Eventually(t, "the replacement", func() bool { pids := idle(d); return len(pids) == 1 && pids[0] != first })
	l := dial(t, d, newListener())
	mustCall(t, l, "initialize")
	if h := d.Health(); !strings.Contains(h.Last, "SIGKILL") || d.Stats().Crashes != 1 {
		t.Errorf("%+v %+v", h, d.Stats())
	}
	d.prewarmed.mu.Lock()
	defer d.prewarmed.mu.Unlock()
	if d.prewarmed.lost != 0 {
		t.Errorf("%d prewarmed children count as failed after one that was used", d.prewarmed.lost)
	}
}

// Spares that exit one after the other open the circuit instead of spinning.
func TestPrewarmedChildrenThatDieOpenTheCircuit(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := dialer(t, "die-while="+flag, func(o *Options) { o.Spares, o.CrashLimit, o.CrashPause = 1, 2, time.Second })
	d.goodAge = time.Hour
	d.Warm()
	testkit.Eventually(t, "the open circuit", func() bool { return d.Health().State == "open" })
	if s := d.Stats(); s.Starts != 2 || s.FailedStarts != 2 {
		t.Errorf("%+v", s)
	}
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a spare after the pause", func() bool { return d.Stats().Spares == 1 })
	if h := d.Health(); h.State != "half-open" {
		t.Errorf("%+v", h)
	}
	l := dial(t, d, newListener()) // it is the trial, and its first answer shows that the server has recovered
	mustCall(t, l, "initialize")
	testkit.Eventually(t, "the closed circuit", func() bool { return d.Health().State == "closed" })
}

func TestPrewarmingAMissingCommandDoesNotSpin(t *testing.T) {
	d := dialer(t, "good", func(o *Options) { o.Spares = 2; o.Command.Argv = []string{"/no/such/command"} })
	d.Warm()
	testkit.Eventually(t, "a second try", func() bool { return d.Stats().FailedStarts >= 2 })
	if n := d.Stats().Starts; n > 3 {
		t.Errorf("%d starts at once", n)
	}
}

// A spare that writes before it is used is not blocked, and its output is no message to its later user.
func TestPrewarmedChildWithABanner(t *testing.T) {
	d := dialer(t, "banner", func(o *Options) { o.Spares = 1 })
	warm(t, d, 1)
	testkit.Eventually(t, "the end of the banner", func() bool { return d.Stats().Noise == 48<<10 })
	l := dial(t, d, newListener())
	mustCall(t, l, "initialize")
}

func TestCloseEndsPrewarmedChildrenAndDials(t *testing.T) {
	d := dialer(t, "good", func(o *Options) { o.Spares = 3 })
	warm(t, d, 3)
	d.Close()
	if s := d.Stats(); s.Running != 0 || s.Spares != 0 || s.Crashes != 0 || s.FailedStarts != 0 {
		t.Errorf("%+v", s)
	}
	d.Warm()
	_, err := d.Dial(proxy.Legacy)(t.Context(), newListener())
	var e *proxy.Error
	if !errors.As(err, &e) || e.Name != proxy.ShuttingDown.Name || d.Stats().Starts != 3 {
		t.Errorf("%v %+v", err, d.Stats())
	}
	d.Close() // does nothing
}

// A start that began before Close and completes after it is discarded.
func TestLateChildrenAreEnded(t *testing.T) {
	d := dialer(t, "good", func(o *Options) { o.Spares = 2 })
	k, err := d.sup.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spare, err := d.launch(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	l := dial(t, d, newListener())
	d.Close()
	d.addSpare(spare)
	if given, err := d.unlessClosed(l); given != nil || err == nil {
		t.Errorf("%v %v", given, err)
	}
	if s := d.Stats(); s.Running != 0 || s.Spares != 0 {
		t.Errorf("%+v", s)
	}
}

// Concurrent Dial and Close: each Dial gets a child of its own or an error, and nothing is left.
func TestCloseRaces(t *testing.T) {
	for round := range 4 {
		d := dialer(t, "good", func(o *Options) { o.Spares = 2 })
		warm(t, d, 2)
		var all sync.WaitGroup
		var mu sync.Mutex
		links := map[int]transport.Link{}
		for range 6 {
			all.Go(func() {
				l, err := d.Dial(proxy.Legacy)(t.Context(), newListener())
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if pid := l.(*link).PID(); links[pid] != nil {
					t.Errorf("round %d: child %d was returned twice", round, pid)
				} else {
					links[pid] = l
				}
			})
		}
		all.Go(d.Close)
		all.Wait()
		for _, l := range links {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if s := d.Stats(); s.Running != 0 || s.Spares != 0 {
			t.Errorf("round %d: %+v", round, s)
		}
	}
}

// A waiting Dial ends with the dialer.
func TestCloseEndsWaiting(t *testing.T) {
	d := dialer(t, "die", nil)
	d.sup.jitter = func(time.Duration) time.Duration { return time.Hour }
	l, err := d.Dial(proxy.Legacy)(t.Context(), newListener())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the crash", func() bool { return d.Health().Failures == 1 })
	_ = l.Close()
	done := make(chan error, 1)
	go func() {
		_, err := d.Dial(proxy.Legacy)(context.Background(), newListener())
		done <- err
	}()
	d.Close()
	var e *proxy.Error
	if err := <-done; !errors.As(err, &e) || e.Name != proxy.ShuttingDown.Name {
		t.Errorf("%v", err)
	}
}

// A child that is given back is the next to be used, under ids that go on; unused, it ends after a while.
func TestChildIsGivenBack(t *testing.T) {
	d := dialer(t, "good", nil)
	l := dial(t, d, newListener())
	mustCall(t, l, "server/discover")
	testkit.Eventually(t, "that it has read the request", func() bool { waits, known := l.Waits(); return waits || !known })
	if l.Returned() || !l.Return(0) {
		t.Fatal("not given back")
	}
	if _, err := call(l, "ping"); !proxy.IsFault(err, proxy.SessionLost) {
		t.Errorf("a call on the link: %v", err)
	}
	if s := d.Stats(); s.Spares != 1 || s.Running != 1 {
		t.Errorf("%+v", s)
	}
	again := dial(t, d, newListener())
	if again.PID() != l.PID() || !again.Returned() {
		t.Errorf("another child")
	}
	if got, err := call(again, "initialize"); err != nil || !strings.Contains(got, `"pid":`+strconv.Itoa(l.PID())) {
		t.Error(got, err)
	}
	if !again.Return(time.Millisecond) {
		t.Error("not given back again")
	}
	testkit.Eventually(t, "its end", func() bool { s := d.Stats(); return s.Running == 0 && s.Spares == 0 })
	if s := d.Stats(); s.Starts != 1 || s.FailedStarts != 0 {
		t.Errorf("%+v", s)
	}
	ended := dial(t, d, newListener())
	_ = ended.Close()
	if ended.Return(0) {
		t.Error("a child that has ended was given back")
	}
}

// A child that ends after it was given back has failed nothing: some legacy servers end after what they do not know.
func TestGivenBackChildEnds(t *testing.T) {
	d := dialer(t, "good", nil)
	l := dial(t, d, newListener())
	mustCall(t, l, "server/discover")
	if !l.Return(0) {
		t.Fatal("not given back")
	}
	if err := unix.Kill(l.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "its end", func() bool { s := d.Stats(); return s.Running == 0 && s.Spares == 0 })
	if h := d.Health(); h.Failures != 0 {
		t.Errorf("%+v", h)
	}
	if next := dial(t, d, newListener()); next.PID() == l.PID() || next.Returned() {
		t.Error("the dead child is used")
	}
}

// Prepare starts the child of the first Dial.
func TestPrepare(t *testing.T) {
	d := dialer(t, "good", nil)
	if err := d.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	pids := idle(d)
	if l := dial(t, d, newListener()); len(pids) != 1 || l.PID() != pids[0] || l.Returned() {
		t.Errorf("%v", pids)
	}
	missing := NewDialer(Options{Command: process.Command{Argv: []string{"/does/not/exist"}}})
	if err := missing.Prepare(t.Context()); !errors.Is(err, transport.ErrFatal) {
		t.Errorf("%v", err)
	}
	missing.Close()
	if err := missing.Prepare(t.Context()); err == nil {
		t.Error("after Close")
	}
}
