//go:build unix

package stdio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dragoman/adapters/era"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

var (
	idPattern     = regexp.MustCompile(`"id":([0-9]+)`)
	methodPattern = regexp.MustCompile(`"method":"([^"]+)"`)
)

// playServer is a server that answers every request with its process id, but for what its role says:
//
//	die            says why and exits with 7
//	die-while=FILE the same, as long as there is a FILE
//	fall=METHOD    says three lines on stderr and exits with 3 when METHOD comes
//	kill=METHOD    is killed when METHOD comes
//	mute           says a line on stderr and never answers
//	banner         writes a MiB on stdout before it reads
//	noisy          writes 20 lines that are no message before each answer
//	mutter         writes 500 lines on stderr before each answer
//	close          closes its output at the first request, and lives on
func playServer(role string) int {
	role, arg, _ := strings.Cut(role, "=")
	switch role {
	case "die-while":
		if _, err := os.Stat(arg); err != nil {
			break
		}
		fallthrough
	case "die":
		fmt.Fprintln(os.Stderr, "no database")
		return 7
	case "mute":
		fmt.Fprintln(os.Stderr, "loading\x1b[0m…")
	case "banner":
		if _, err := os.Stdout.WriteString(strings.Repeat("welcome to the server\n", 48<<10)); err != nil {
			return 1
		}
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0
		}
		id, method := idPattern.FindStringSubmatch(line), methodPattern.FindStringSubmatch(line)
		if id == nil || method == nil || role == "mute" {
			continue
		}
		if method[1] == arg || role == "close" {
			if code := fall(role); code >= 0 {
				return code
			}
		}
		for range map[string]int{"noisy": 20}[role] {
			fmt.Println("some noise")
		}
		for range map[string]int{"mutter": 500}[role] {
			fmt.Fprintln(os.Stderr, "some muttering")
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"pid":%d}}`+"\n", id[1], os.Getpid())
	}
}

// fall is how a server fails in the middle of a call.
func fall(role string) int {
	switch role {
	case "fall":
		fmt.Fprint(os.Stderr, "one\ntwo\nthree\n\x1b[31mout of\x07 memory\x1b[0m\n")
		return 3
	case "kill":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case "close":
		_ = os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	return -1
}

// listener is a Sink that remembers how its link was lost.
type listener chan error

func (l listener) Message(*wire.Message) bool { return false }
func (l listener) Lost(err error)             { l <- err }

func newListener() listener { return make(listener, 2) }

// dialer makes a dialer for a server of playServer, and closes it at the end; nothing is left then.
func dialer(t *testing.T, role string, change func(*UpstreamOptions)) *Dialer {
	t.Helper()
	opt := UpstreamOptions{Name: "files", Command: child("server:" + role)}
	if change != nil {
		change(&opt)
	}
	d := NewDialer(opt)
	d.sup.jitter = func(d time.Duration) time.Duration { return d / 100 }
	t.Cleanup(func() {
		d.Close()
		if s := d.Stats(); s.Running != 0 || s.Spares != 0 {
			t.Errorf("left at the end: %+v", s)
		}
	})
	return d
}

func dial(t *testing.T, d *Dialer, sink era.Sink) *link {
	t.Helper()
	l, err := d.Dial(proxy.Legacy)(t.Context(), sink)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*link)
}

// call calls a method and answers the result.
func call(l era.Link, method string) (string, error) {
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"x","method":"` + method + `","params":{}}`))
	if err != nil {
		return "", err
	}
	replies, err := l.Call(&proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Legacy}})
	if err != nil {
		return "", err
	}
	res, err := proxy.Response(replies, time.Now().Add(20*time.Second))
	if err != nil {
		return "", err
	}
	return string(res.Of(res.Result)), nil
}

func mustCall(t *testing.T, l *link, method string) {
	t.Helper()
	res, err := call(l, method)
	if want := fmt.Sprintf(`{"pid":%d}`, l.PID()); err != nil || res != want {
		t.Fatalf("%s: %s %v, not %s", method, res, err, want)
	}
}

// fault calls a method, which must fail with an error of a row.
func fault(t *testing.T, l era.Link, method string, row proxy.Fault) *proxy.Error {
	t.Helper()
	_, err := call(l, method)
	var e *proxy.Error
	if !errors.As(err, &e) || e.Name != row.Name {
		t.Fatalf("%s: %v, not %s", method, err, row.Name)
	}
	return e
}

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in: %s", part, text)
		}
	}
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(time.Millisecond) // polled
	}
}

func TestCrashInACall(t *testing.T) {
	for _, c := range []struct {
		role       string
		how, data  string
		more       []string
		withoutLog bool
	}{
		{role: "fall=tools/call", how: "it exited with code 3 after ", data: `"exitCode":3,"stderr":["two","three","out of memory"]}`, more: []string{"last on stderr: two | three | out of memory"}},
		{role: "kill=tools/call", how: "it was ended by SIGKILL after ", data: `"signal":"SIGKILL","stderr":[]}`},
		{role: "close", how: "it closed its output after ", data: `"retryable":false,"stderr":[]}`},
	} {
		t.Run(c.role, func(t *testing.T) {
			d := dialer(t, c.role, nil)
			sink := newListener()
			l := dial(t, d, sink)
			if c.role != "close" {
				mustCall(t, l, "ping")
			}
			e := fault(t, l, "tools/call", proxy.Lost)
			has(t, e.Message, append(c.more, `the upstream server "files" has ended: `, c.how)...)
			has(t, string(e.Data), `{"code":"upstream_lost","retryable":false,`, c.data)
			if _, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"error":%s}`, e.AppendJSON(nil))); err != nil {
				t.Errorf("%v: %s", err, e.AppendJSON(nil))
			}
			select {
			case err := <-sink:
				if err != error(e) {
					t.Errorf("lost: %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the sink was not told")
			}
			if later := fault(t, l, "ping", proxy.SessionLost); later.Message != e.Message {
				t.Errorf("later: %v", later)
			}
			until(t, "the end of the child", func() bool { return d.Stats().Running == 0 })
			if s := d.Stats(); s.Crashes != 1 || s.FailedStarts != 1 || s.Starts != 1 {
				t.Errorf("%+v", s)
			}
			if h := d.Health(); h.Failures != 1 || !strings.HasPrefix(h.Last, strings.TrimPrefix(c.how, "it ")) {
				t.Errorf("%+v", h)
			}
		})
	}
}

// Whoever waits is told as soon as the exit is known: the time for finding out a reason is not spent.
func TestCrashIsToldAtOnce(t *testing.T) {
	fastest := time.Hour
	for range 5 {
		l := dial(t, dialer(t, "kill=tools/call", nil), newListener())
		mustCall(t, l, "ping")
		from := time.Now()
		fault(t, l, "tools/call", proxy.Lost)
		fastest = min(fastest, time.Since(from))
	}
	if fastest >= exitTime {
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

// Some legacy servers answer server/discover by ending. That says nothing about their health.
func TestEndingAtTheProbeIsNoFailure(t *testing.T) {
	d := dialer(t, "fall=server/discover", func(o *UpstreamOptions) { o.CrashLimit = 1 })
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
	d := dialer(t, "die-while="+flag, func(o *UpstreamOptions) { o.CrashLimit, o.CrashPause = 3, 500*time.Millisecond })
	for range 3 {
		l, err := d.Dial(proxy.Legacy)(t.Context(), newListener())
		if err != nil {
			t.Fatal(err)
		}
		_, err = call(l, "initialize")
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.Lost.Name && e.Name != proxy.SessionLost.Name { // not sent, if it was dead before
			t.Errorf("%v", err)
		}
		_ = l.Close()
	}
	_, err := d.Dial(proxy.Legacy)(t.Context(), newListener())
	var e *proxy.Error
	if !errors.As(err, &e) || e.Name != proxy.Unreachable.Name || !e.Retryable || e.RetryAfter != 1 || errors.Is(err, era.ErrFatal) {
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
	until(t, "the trial", func() bool { return d.Health().State == "half-open" })
	l := dial(t, d, newListener())
	mustCall(t, l, "initialize")
	until(t, "the closed circuit", func() bool { return d.Health().State == "closed" })
	if h := d.Health(); h.Failures != 0 {
		t.Errorf("%+v", h)
	}
}

func TestStartTimeout(t *testing.T) {
	d := dialer(t, "mute", func(o *UpstreamOptions) { o.StartTimeout = time.Hour })
	sink := newListener()
	l := dial(t, d, sink)
	failed := make(chan error, 1)
	go func() {
		_, err := call(l, "initialize")
		failed <- err
	}()
	until(t, "the request, and the child's words", func() bool {
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		return l.c.patient != nil && l.LastWords() != ""
	})
	l.c.patient.Reset(0) // an hour later
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
		t.Error("the sink was not told")
	}
	until(t, "the end of the child", func() bool { return d.Stats().Running == 0 })
	if s := d.Stats(); s.FailedStarts != 1 || s.Crashes != 0 {
		t.Errorf("%+v", s)
	}
	if words := l.LastWords(); words != "; last on stderr: loading…" {
		t.Errorf("%q", words)
	}
}

// A call that may take long is no sign that the server does not start, and one answer is sign enough that it has.
func TestStartTimeoutSparesLongCalls(t *testing.T) {
	d := dialer(t, "mute", func(o *UpstreamOptions) { o.StartTimeout = time.Millisecond })
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

	d = dialer(t, "good", func(o *UpstreamOptions) { o.StartTimeout = 2 * time.Second })
	l = dial(t, d, newListener())
	mustCall(t, l, "initialize")
	until(t, "the answer to be noted", l.c.heard.Load)
	l.c.mu.Lock()
	armed := l.c.patient != nil && l.c.patient.Stop()
	l.c.mu.Unlock()
	if armed {
		t.Error("the first answer was there, and is waited for")
	}
}

func TestMissingCommand(t *testing.T) {
	d := dialer(t, "good", func(o *UpstreamOptions) { o.Command.Argv = []string{"/no/such/command"}; o.CrashLimit = 1 })
	for range 3 {
		from := time.Now()
		_, err := d.Dial(proxy.Legacy)(t.Context(), newListener())
		var e *proxy.Error
		if !errors.Is(err, era.ErrFatal) || !errors.As(err, &e) || e.Name != proxy.Unreachable.Name || time.Since(from) > time.Second {
			t.Fatalf("%v", err)
		}
		has(t, e.Message, `"/no/such/command" not found`)
	}
	if h := d.Health(); h.State != "closed" || !strings.Contains(h.Last, "not found") || d.Stats().FailedStarts != 3 {
		t.Errorf("%+v %+v", h, d.Stats())
	}
	d = dialer(t, "good", func(o *UpstreamOptions) { o.Command.Dir = "/no/such/dir" })
	if _, err := d.Dial(proxy.Legacy)(t.Context(), newListener()); !errors.Is(err, era.ErrFatal) || d.Health().Failures != 1 {
		t.Errorf("%v %+v", err, d.Health())
	}
	for _, c := range []struct {
		err  error
		want bool
	}{{unix.EAGAIN, true}, {unix.EMFILE, true}, {unix.EACCES, false}, {io.EOF, false}} {
		if got := passing(&StartError{Err: c.err}); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

func TestNoiseIsSampled(t *testing.T) {
	var mu sync.Mutex
	told, left := 0, 0
	d := dialer(t, "noisy", func(o *UpstreamOptions) {
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
	if d.Stats().Noise != 80 || told != noiseFirst || left != 0 {
		t.Errorf("%d lines, %d told, %d left out", d.Stats().Noise, told, left)
	}
}

func TestStderrIsLimited(t *testing.T) {
	var mu sync.Mutex
	told, left, last := 0, 0, "x"
	d := dialer(t, "mutter", func(o *UpstreamOptions) {
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
