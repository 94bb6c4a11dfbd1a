//go:build unix

package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/process"
	"dragoman/adapters/stdio/reaper"
	"dragoman/adapters/transport"
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
//	late=FILE      answers when there is a FILE
//	banner         writes a MiB on stdout before it reads
//	noisy          writes 20 lines that are no message before each answer
//	stderr         writes 500 lines on stderr before each answer
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
		for role == "late" {
			if _, err := os.Stat(arg); err == nil {
				break
			}
			time.Sleep(time.Millisecond) // polled; the child ends after a minute at most
		}
		if method[1] == arg || role == "close" {
			if code := fall(role); code >= 0 {
				return code
			}
		}
		for range map[string]int{"noisy": 20}[role] {
			fmt.Println("some noise")
		}
		for range map[string]int{"stderr": 500}[role] {
			fmt.Fprintln(os.Stderr, "a line")
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"pid":%d}}`+"\n", id[1], os.Getpid())
	}
}

// fall makes the server fail in a call.
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

// childKey switches the test binary into a server of playServer.
const childKey = "STDIO_TEST_CHILD"

func TestMain(m *testing.M) {
	if reaper.Called(os.Args) {
		os.Exit(reaper.Main())
	}
	if role := os.Getenv(childKey); role != "" {
		time.AfterFunc(time.Minute, func() { os.Exit(99) }) // in case a test fails
		os.Exit(playServer(role))
	}
	goleak.VerifyTestMain(m)
}

// child is a Command that runs this test binary as a server of playServer.
func child(role string) process.Command {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return process.Command{
		Argv: []string{self}, Env: []string{childKey + "=" + role, "GORACE=atexit_sleep_ms=0"},
		StopGrace: 10 * time.Second, KillGrace: 10 * time.Second,
	}
}

// listener is a Sink that records how its link was lost.
type listener chan error

func (l listener) Message(*wire.Message) bool { return false }
func (l listener) Lost(err error)             { l <- err }

func newListener() listener { return make(listener, 2) }

// dialer makes a dialer for a server of playServer and closes it at the end, when nothing must be left.
func dialer(t *testing.T, role string, change func(*Options)) *Dialer {
	t.Helper()
	opt := Options{Name: "files", Command: child(role)}
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
		d.prewarmed.mu.Lock()
		defer d.prewarmed.mu.Unlock()
		if d.prewarmed.filling {
			t.Error("children are being prewarmed after the end")
		}
	})
	return d
}

func dial(t *testing.T, d *Dialer, sink transport.Sink) *link {
	t.Helper()
	l, err := d.Dial(proxy.Legacy)(t.Context(), sink)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*link)
}

// call calls a method and returns the result.
func call(l transport.Link, method string) (string, error) {
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

// fault calls a method, which must fail with an error of the table.
func fault(t *testing.T, l transport.Link, method string, row proxy.Fault) *proxy.Error {
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
