//go:build unix

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/process"
	"dragoman/adapters/stdio/reaper"
	"dragoman/adapters/transport"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/redact"
	"dragoman/proxy/wire"
)

func TestCrashInACall(t *testing.T) {
	for _, c := range []struct {
		role       string
		how, data  string
		more       []string
		withoutLog bool
	}{
		{role: "fall=tools/call", how: "it exited with code 3 after ", data: `"exitCode":3,"stderr":["two","three","out of memory"]}`, more: []string{"last on stderr: two | three | out of memory"}},
		{role: "kill=tools/call", how: "it was ended by SIGKILL after ", data: `"signal":"SIGKILL"}`},
		{role: "close", how: "it closed its output after ", data: `"retryable":false}`},
	} {
		t.Run(c.role, func(t *testing.T) {
			d := dialer(t, c.role, func(o *Options) { o.Reveal = ToAll })
			sink := newListener()
			l := dial(t, d, sink)
			if c.role != "close" {
				mustCall(t, l, "ping")
			}
			e := fault(t, l, "tools/call", proxy.Lost)
			has(t, e.Message, append(c.more, `the upstream server "files" has ended: `, c.how)...)
			has(t, string(e.Data), `{"code":"upstream_lost","retryable":false`, c.data)
			if _, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"error":%s}`, e.AppendJSON(nil))); err != nil {
				t.Errorf("%v: %s", err, e.AppendJSON(nil))
			}
			select {
			case err := <-sink:
				if err != error(e) {
					t.Errorf("lost: %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the sink was not notified")
			}
			if later := fault(t, l, "ping", proxy.SessionLost); later.Message != e.Message {
				t.Errorf("later: %v", later)
			}
			testkit.Eventually(t, "the end of the child", func() bool { return d.Stats().Running == 0 })
			if s := d.Stats(); s.Crashes != 1 || s.FailedStarts != 1 || s.Starts != 1 {
				t.Errorf("%+v", s)
			}
			if h := d.Health(); h.Failures != 1 || !strings.HasPrefix(h.Last, strings.TrimPrefix(c.how, "it ")) {
				t.Errorf("%+v", h)
			}
		})
	}
}

// Nothing tells for whom a child writes to its standard error. Errors show it to the operator, and if he allows it, to a
// caller that the child serves alone. The log has it without secrets, unless it is off.
func TestWhoSeesStderr(t *testing.T) {
	for _, c := range []struct {
		reveal        Reveal
		owned, spares bool
		sees          bool
	}{
		{ToNobody, true, false, false}, {ToNobody, false, false, false}, {ToOwner, false, false, false}, {ToOwner, false, true, false},
		{ToOwner, true, false, true}, {ToOwner, true, true, true}, {ToAll, false, false, true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			var logged lockedText
			d := dialer(t, "fall=tools/call", func(o *Options) {
				o.Reveal, o.Command.Secrets = c.reveal, redact.New("memory")
				o.Stderr = func(_ int, line []byte, _ int) { logged.add(string(line)) }
				if c.spares {
					o.Spares = 1
				}
			})
			if c.spares {
				d.Warm()
				testkit.Eventually(t, "a spare", func() bool { return d.Stats().Spares == 1 })
			}
			ctx := t.Context()
			if c.owned {
				ctx = transport.Owned(ctx)
			}
			open, err := d.Dial(proxy.Legacy)(ctx, newListener())
			if err != nil {
				t.Fatal(err)
			}
			l := open.(*link)
			t.Cleanup(func() { _ = l.Close() })
			mustCall(t, l, "ping")
			e := fault(t, l, "tools/call", proxy.Lost)
			if sees := strings.Contains(e.Message, "two | three | out of (hidden)"); sees != c.sees || strings.Contains(string(e.Data), "three") != c.sees || strings.Contains(l.LastWords(), "three") != c.sees {
				t.Errorf("%s %s %q", e.Message, e.Data, l.LastWords())
			}
			if !c.sees && (strings.Contains(e.Message, "stderr") || strings.Contains(string(e.Data), "stderr")) {
				t.Errorf("%s %s", e.Message, e.Data)
			}
			if !strings.Contains(e.Cause.Error(), "out of (hidden)") {
				t.Errorf("cause: %v", e.Cause)
			}
			if last := d.Health().Last; strings.Contains(last, "three") != (c.reveal == ToAll) {
				t.Errorf("the last failure: %s", last)
			}
			testkit.Eventually(t, "the log", func() bool {
				return strings.Contains(logged.text(), "three") && strings.Contains(logged.text(), "(hidden)")
			})
			if strings.Contains(logged.text()+e.Message+string(e.Data)+e.Cause.Error(), "memory") {
				t.Errorf("a secret: %s, %v, %v", logged.text(), e, e.Cause)
			}
		})
	}
	d := dialer(t, "fall=tools/call", nil)
	e := fault(t, dial(t, d, newListener()), "tools/call", proxy.Lost)
	if strings.Contains(e.Cause.Error(), "memory") || !strings.Contains(e.Cause.Error(), "code 3") {
		t.Errorf("off: %v", e.Cause)
	}
}

// lockedText gathers lines.
type lockedText struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lockedText) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.WriteString(line + "\n")
}

func (l *lockedText) text() string { l.mu.Lock(); defer l.mu.Unlock(); return l.all.String() }

// A line for a child whose exit is known was not sent, whether its link has failed yet or not, so another child may get it.
func TestLineAfterTheExit(t *testing.T) {
	l := dial(t, dialer(t, "fall=tools/call", nil), newListener())
	mustCall(t, l, "ping")
	lost := fault(t, l, "tools/call", proxy.Lost)
	c := l.c
	if !c.proc.ExitsWithin(20 * time.Second) {
		t.Fatal("the child has not ended")
	}
	if e := proxy.AsError(c.WriteParts(t.Context(), []byte(`{}`))); e.Name != proxy.SessionLost.Name || e.Message != lost.Message {
		t.Errorf("%s: %v", e.Name, e)
	}
}

// Waiting calls fail as soon as the exit is known, without the wait for the reason of the exit.
func TestCrashIsReportedAtOnce(t *testing.T) {
	fastest := time.Hour
	for range 5 {
		l := dial(t, dialer(t, "kill=tools/call", nil), newListener())
		mustCall(t, l, "ping")
		from := time.Now()
		fault(t, l, "tools/call", proxy.Lost)
		fastest = min(fastest, time.Since(from))
	}
	if fastest >= 100*time.Millisecond {
		t.Errorf("took %v", fastest)
	}
}

func TestStoppedIsNoCrash(t *testing.T) {
	d := dialer(t, "good", nil)
	sink := newListener()
	l := dial(t, d, sink)
	mustCall(t, l, "initialize")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	fault(t, l, "ping", proxy.SessionLost)
	if s := d.Stats(); s != (Stats{Starts: 1}) || len(sink) != 0 {
		t.Errorf("%+v, %d lost", s, len(sink))
	}
	if h := d.Health(); h != (Health{State: "closed"}) {
		t.Errorf("%+v", h)
	}
}

// settled reports whether a child's start has been judged.
func settled(c *instance) bool {
	c.ticket.mu.Lock()
	defer c.ticket.mu.Unlock()
	return c.ticket.done == nil
}

// A start has succeeded once the child has lived for a while; an exit after that is a crash, not a failed start.
func TestGrownChildren(t *testing.T) {
	d := dialer(t, "fall=tools/call", nil)
	d.goodAge = time.Millisecond
	l := dial(t, d, newListener())
	testkit.Eventually(t, "its age", func() bool { return settled(l.c) })
	fault(t, l, "tools/call", proxy.Lost)
	if s, h := d.Stats(), d.Health(); s.Crashes != 1 || s.FailedStarts != 0 || h.Failures != 0 {
		t.Errorf("%+v %+v", s, h)
	}
}

// A child that has not answered its first request has not started, however old it is.
func TestGrownWithoutAnAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	d := dialer(t, "late="+file, nil)
	d.goodAge = 10 * time.Millisecond
	l := dial(t, d, newListener())
	answered := make(chan error, 1)
	go func() {
		_, err := call(l, "initialize")
		answered <- err
	}()
	testkit.Eventually(t, "its age", func() bool {
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		return l.c.lived
	})
	if settled(l.c) {
		t.Error("the start was judged before the first answer")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the verdict", func() bool { return settled(l.c) })
}

// A caller that leaves before the first answer says nothing about the server; one that has never called found it alive.
func TestLeavingEarly(t *testing.T) {
	d := dialer(t, "mute", nil)
	l := dial(t, d, newListener())
	if err := unix.Kill(l.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the failure", func() bool { return d.Health().Failures == 1 })
	l = dial(t, d, newListener())
	left := make(chan error, 1)
	go func() {
		_, err := call(l, "initialize")
		left <- err
	}()
	testkit.Eventually(t, "the request", func() bool { return l.InFlight() == 1 })
	_ = l.Close()
	var e *proxy.Error
	if err := <-left; !errors.As(err, &e) || e.Name != proxy.Lost.Name && e.Name != proxy.SessionLost.Name || !strings.Contains(e.Message, `"files" was stopped`) {
		t.Errorf("%v", err)
	}
	if h := d.Health(); h.Failures != 1 {
		t.Errorf("%+v", h)
	}
	_ = dial(t, d, newListener()).Close()
	if h := d.Health(); h.Failures != 0 {
		t.Errorf("%+v", h)
	}
}

// A child that has exited by itself has crashed, even if it is closed before the exit is noticed.
func TestCloseAfterACrash(t *testing.T) {
	d := dialer(t, "die", nil)
	k, err := d.sup.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.launch(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	sink := newListener()
	l := c.first(proxy.Legacy, sink)
	testkit.Eventually(t, "its end", func() bool { return c.proc.Exit() != nil })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = l.Close()
	}()
	testkit.Eventually(t, "Close", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.closed
	})
	go c.read()
	<-closed
	if s := d.Stats(); s.Crashes != 1 || s.FailedStarts != 1 || len(sink) != 0 {
		t.Errorf("%+v, %d lost", s, len(sink))
	}
}

// Some legacy servers answer server/discover by ending. That says nothing about their health.
func TestEndingAtTheProbeIsNoFailure(t *testing.T) {
	d := dialer(t, "fall=server/discover", func(o *Options) { o.CrashLimit = 1 })
	for range 3 {
		fault(t, dial(t, d, newListener()), "server/discover", proxy.Lost)
	}
	if s, h := d.Stats(), d.Health(); s.Crashes != 3 || s.FailedStarts != 0 || h.State != "closed" {
		t.Errorf("%+v %+v", s, h)
	}
	mustCall(t, dial(t, d, newListener()), "initialize")
}

func TestCrashLoop(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := dialer(t, "die-while="+flag, func(o *Options) { o.CrashLimit, o.CrashPause, o.Reveal = 3, 500*time.Millisecond, ToAll })
	for range 3 {
		l, err := d.Dial(proxy.Legacy)(t.Context(), newListener())
		if err != nil {
			t.Fatal(err)
		}
		_, err = call(l, "initialize")
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.Lost.Name && e.Name != proxy.SessionLost.Name { // not sent if it had exited before
			t.Errorf("%v", err)
		}
		_ = l.Close()
	}
	_, err := d.Dial(proxy.Legacy)(t.Context(), newListener())
	var e *proxy.Error
	if !errors.As(err, &e) || e.Name != proxy.Unreachable.Name || !e.Retryable || e.RetryAfter != 1 || errors.Is(err, transport.ErrFatal) {
		t.Fatalf("%v", err)
	}
	has(t, e.Message, `"files" keeps crashing: 3 starts in a row failed`, "exited with code 7", "last on stderr: no database", "upstreams.files.crash_pause")
	if h := d.Health(); h.State != "open" || h.RetryAt.Before(h.LastAt) {
		t.Errorf("%+v", h)
	}
	if s := d.Stats(); s.Starts != 3 || s.Crashes != 3 || s.FailedStarts != 3 {
		t.Errorf("%+v", s)
	}
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the trial", func() bool { return d.Health().State == "half-open" })
	d.goodAge = time.Hour
	l := dial(t, d, newListener())
	mustCall(t, l, "initialize") // which is enough
	testkit.Eventually(t, "the closed circuit", func() bool { return d.Health().State == "closed" })
	if h := d.Health(); h.Failures != 0 {
		t.Errorf("%+v", h)
	}
}

func TestStartTimeout(t *testing.T) {
	d := dialer(t, "mute", func(o *Options) { o.StartTimeout, o.Reveal = time.Hour, ToAll })
	sink := newListener()
	l := dial(t, d, sink)
	failed := make(chan error, 1)
	go func() {
		_, err := call(l, "initialize")
		failed <- err
	}()
	testkit.Eventually(t, "the request, and the child's words", func() bool {
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		return l.c.overdueTimer != nil && l.LastWords() != ""
	})
	l.c.overdueTimer.Reset(0) // an hour later
	var e *proxy.Error
	if err := <-failed; !errors.As(err, &e) || e.Name != proxy.UpstreamTimeout.Name {
		t.Fatalf("%v", err)
	}
	has(t, e.Message, `"files" has not answered its first request within 1h (upstreams.files.start_timeout) and is stopped; last on stderr: loading…`)
	has(t, string(e.Data), `{"code":"upstream_timeout","retryable":false,"stderr":["loading…"]}`)
	select {
	case err := <-sink:
		if err != error(e) {
			t.Errorf("lost: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the sink was not notified")
	}
	testkit.Eventually(t, "the end of the child", func() bool { return d.Stats().Running == 0 })
	if s := d.Stats(); s.FailedStarts != 1 || s.Crashes != 0 {
		t.Errorf("%+v", s)
	}
	if words := l.LastWords(); words != "; last on stderr: loading…" {
		t.Errorf("%q", words)
	}
}

// Children that end because the reaper is killed are no crashes: neither of those in use nor of spares, and however often. The
// next calls start others at once.
func TestKilledReaperIsNoCrash(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the reaper is found by /proc")
	}
	r := reaper.New(reaper.Options{Exe: os.Args[0]})
	defer r.Close()
	d := dialer(t, "plain", func(o *Options) { o.Command.Reaper, o.CrashLimit, o.Spares = r, 2, 1 })
	d.sup.jitter = func(time.Duration) time.Duration { return time.Hour } // a failure would be noticed
	d.Warm()
	for range 5 {
		var group sync.WaitGroup
		sinks := make([]listener, 3)
		var first *link
		for i := range sinks {
			testkit.Eventually(t, "a child that lives", func() bool { // a spare may be ending
				sinks[i] = newListener()
				first = dial(t, d, sinks[i])
				_, err := call(first, "tools/list")
				return err == nil
			})
		}
		kill(t, parentOf(t, first.PID()))
		for _, sink := range sinks {
			group.Go(func() {
				var e *proxy.Error
				if err := testkit.Receive(t, "the loss", sink); !errors.As(err, &e) || e.Name != proxy.Lost.Name || e.Blame != "dragoman" || !strings.Contains(e.Message, "process that starts servers was killed") {
					t.Errorf("%v", err)
				}
			})
		}
		group.Wait()
	}
	testkit.Eventually(t, "a child that lives", func() bool {
		_, err := call(dial(t, d, newListener()), "tools/list")
		return err == nil
	})
	if s, h := d.Stats(), d.Health(); s.Crashes != 0 || s.FailedStarts != 0 || h.State != "closed" || h.Failures != 0 {
		t.Errorf("%+v %+v", s, h)
	}
}

// parentOf returns the process id of a process's parent.
func parentOf(t *testing.T, pid int) (parent int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var name, state string
	if _, err := fmt.Sscan(string(stat), &pid, &name, &state, &parent); err != nil {
		t.Fatal(err)
	}
	return parent
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// A child that gives no sign of life after three silent calls is killed, without the time that an orderly end gets. It counts
// as a crash, and as a failed start if it was young.
func TestWedgedChild(t *testing.T) {
	type event struct {
		pid    int
		fault  error
		silent time.Duration
	}
	for _, young := range []bool{true, false} {
		replaced := make(chan event, 2)
		d := dialer(t, "mute", func(o *Options) {
			o.AliveTimeout, o.Command.StopGrace, o.Command.KillGrace = 50*time.Millisecond, time.Hour, time.Hour
			o.Replaced = func(pid int, fault error, silent time.Duration) { replaced <- event{pid, fault, silent} }
		})
		if !young {
			d.goodAge = 0
		}
		sink := newListener()
		l := dial(t, d, sink)
		var e *proxy.Error
		testkit.Eventually(t, "the end of a call", func() bool { // more than three on a busy machine, where two may count as one
			err := giveUp(t, l)
			return !errors.Is(err, proxy.ErrNotYet) && errors.As(err, &e)
		})
		if e.Name != proxy.Lost.Name && e.Name != proxy.SessionLost.Name {
			t.Fatalf("%v", e)
		}
		has(t, e.Message, `"files" is replaced: it was silent in 3 calls in a row, and gave no sign of life within 50ms (upstreams.files.health_check_timeout)`)
		if lost := testkit.Receive(t, "the loss", sink); !errors.As(lost, &e) || e.Name != proxy.Lost.Name {
			t.Errorf("lost: %v", lost)
		}
		testkit.Eventually(t, "the end of the child", func() bool { return d.Stats().Running == 0 })
		late := l.c.WriteParts(t.Context(), []byte(`{}`)) // by a call that was on its way when the link failed
		if !errors.As(late, &e) || e.Name != proxy.SessionLost.Name || !errors.As(proxy.Ended(late), &e) || e.Name != proxy.Lost.Name {
			t.Errorf("%v", late)
		}
		has(t, e.Message, `"files" is replaced`)
		if got := testkit.Receive(t, "the report", replaced); got.pid != l.PID() || !errors.As(got.fault, &e) || got.silent < 50*time.Millisecond || len(replaced) != 0 {
			t.Errorf("reported: %+v", got)
		}
		if s := d.Stats(); s.Crashes != 1 || s.FailedStarts != map[bool]uint64{true: 1, false: 0}[young] {
			t.Errorf("young %v: %+v", young, s)
		}
	}
}

// giveUp makes a call and gives it up after five milliseconds. It returns proxy.ErrNotYet if there was no answer.
func giveUp(t *testing.T, l transport.Link) error {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	replies, err := l.Call(&proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Legacy}})
	if err != nil {
		return err
	}
	defer func() { _ = replies.Close() }()
	_, err = replies.Next(time.Now().Add(5 * time.Millisecond))
	return err
}

// A long call does not mean that the server has not started, and one answer is enough to show that it has.
func TestStartTimeoutSparesLongCalls(t *testing.T) {
	d := dialer(t, "mute", func(o *Options) { o.StartTimeout = time.Millisecond })
	l := dial(t, d, newListener())
	m, _ := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`))
	replies, err := l.Call(&proxy.Exchange{Msg: m})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replies.Next(time.Now().Add(100 * time.Millisecond)); !errors.Is(err, proxy.ErrNotYet) {
		t.Errorf("%v", err)
	}
	_ = replies.Close()

	d = dialer(t, "good", func(o *Options) { o.StartTimeout = 2 * time.Second })
	l = dial(t, d, newListener())
	mustCall(t, l, "initialize")
	testkit.Eventually(t, "the answer to be noted", l.c.ready.Load)
	l.c.mu.Lock()
	armed := l.c.overdueTimer != nil && l.c.overdueTimer.Stop()
	l.c.mu.Unlock()
	if armed {
		t.Error("the first answer had come and is still awaited")
	}
}

func TestMissingCommand(t *testing.T) {
	d := dialer(t, "good", func(o *Options) { o.Command.Argv = []string{"/no/such/command"}; o.CrashLimit = 1 })
	for range 3 {
		from := time.Now()
		_, err := d.Dial(proxy.Legacy)(t.Context(), newListener())
		var e *proxy.Error
		if !errors.Is(err, transport.ErrFatal) || !errors.As(err, &e) || e.Name != proxy.Unreachable.Name || time.Since(from) > time.Second {
			t.Fatalf("%v", err)
		}
		has(t, e.Message, `"/no/such/command" not found`)
	}
	if h := d.Health(); h.State != "closed" || !strings.Contains(h.Last, "not found") || d.Stats().FailedStarts != 3 {
		t.Errorf("%+v %+v", h, d.Stats())
	}
	d = dialer(t, "good", func(o *Options) { o.Command.Dir = "/no/such/dir" })
	if _, err := d.Dial(proxy.Legacy)(t.Context(), newListener()); !errors.Is(err, transport.ErrFatal) || d.Health().Failures != 1 {
		t.Errorf("%v %+v", err, d.Health())
	}
	for _, c := range []struct {
		err  error
		want bool
	}{{unix.EAGAIN, true}, {unix.EMFILE, true}, {unix.EACCES, false}, {io.EOF, false}} {
		if got := temporary(&process.StartError{Err: c.err}); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

func TestNoiseIsSampled(t *testing.T) {
	var mu sync.Mutex
	told, left := 0, 0
	d := dialer(t, "noisy", func(o *Options) {
		o.Noise = func(_ int, line []byte, err error, skipped int) {
			mu.Lock()
			defer mu.Unlock()
			told, left = told+1, left+skipped
			if string(line) != "some noise" || err == nil {
				t.Errorf("%q %v", line, err)
			}
		}
	})
	for range 2 {
		l := dial(t, d, newListener())
		mustCall(t, l, "initialize")
		mustCall(t, l, "ping")
	}
	mu.Lock()
	defer mu.Unlock()
	if d.Stats().Noise != 80 || told != 5 || left != 0 {
		t.Errorf("%d lines, %d told, %d left out", d.Stats().Noise, told, left)
	}
}

func TestStderrIsLimited(t *testing.T) {
	var mu sync.Mutex
	told, left, last := 0, 0, "x"
	d := dialer(t, "stderr", func(o *Options) {
		o.Stderr = func(_ int, line []byte, dropped int) {
			mu.Lock()
			defer mu.Unlock()
			if left, last = left+dropped, string(line); line != nil {
				told++
			}
		}
	})
	l := dial(t, d, newListener())
	mustCall(t, l, "initialize")
	_ = l.Close()
	mu.Lock()
	defer mu.Unlock()
	if told < stderrBurst || told > 200 || told+left != 500 || last != "" || d.Stats().Dropped != uint64(500-told) {
		t.Errorf("%d told, %d left out, last %q: %+v", told, left, last, d.Stats())
	}
}
