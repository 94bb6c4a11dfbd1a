//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"dragoman/internal/testkit"
)

// unread is the output of a process that nobody reads until the test does.
type unread struct {
	*bufio.Reader
	file  *os.File
	ended chan error // the process has ended
}

// listening reads up to the line that says where the process listens.
func (u *unread) listening(t *testing.T) (base, admin string) {
	t.Helper()
	for {
		text, err := u.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var line struct{ MCP, Admin, Message string }
		if json.Unmarshal([]byte(text), &line) == nil && line.Message == "listening" {
			return strings.TrimSuffix(line.MCP, "/mcp"), line.Admin
		}
	}
}

// startUnread starts Dragoman with a standard error that is not read, as an arrested collector of logs leaves it.
func startUnread(t *testing.T, stdin io.Reader, stdout io.Writer, args ...string) (*os.Process, *unread) {
	t.Helper()
	cmd := testkit.Self(t, "main", args...)
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	u := &unread{bufio.NewReader(ours), ours, make(chan error, 1)}
	go func() { u.ended <- cmd.Wait() }() // ends with the process
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = ours.Close() })
	return cmd.Process, u
}

// logAll makes every request write a line.
const logAll = "listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\nlog.format = \"json\"\nlog.access = \"all\"\n"

// floodLog makes calls with long lines in the log, and fails the test if one is not answered.
func floodLog(t *testing.T, base string, calls int) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	r := &rig{t: t, base: base, http: &http.Client{Transport: transport, Timeout: testkit.Patient}}
	name := strings.Repeat("n", 200)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range calls / 8 {
				res, err := r.do(t.Context(), "POST", "/mcp", modernCall("1", name, ""), modernHeaders("tools/call", name)...)
				if err != nil || res.status != 200 {
					t.Errorf("%+v %v", res, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// A log that nobody reads delays neither a request nor a probe nor the end. When it is read again, it says what it lacks.
func TestNothingDependsOnTheLog(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	process, stderr := startUnread(t, nil, nil, "serve", "--config", testkit.WriteFile(t, "p.toml", logAll+u.toml("")))
	base, admin := stderr.listening(t)
	floodLog(t, base, 4000)
	r := &rig{t: t, base: admin, http: http.DefaultClient}
	for _, probe := range []string{"/healthz", "/readyz"} {
		if res := r.must("GET", probe, ""); res.status != 200 {
			t.Errorf("%s: %d", probe, res.status)
		}
	}
	counted := func() uint64 {
		metric := regexp.MustCompile(`(?m)^dragoman_log_lines_dropped_total (\d+)`).FindStringSubmatch(r.must("GET", "/metrics", "").body)
		if metric == nil {
			t.Fatal("dropped lines are not counted")
		}
		n, err := strconv.ParseUint(metric[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := counted()
	if before == 0 {
		t.Error("no lines are counted as dropped")
	}
	var told atomic.Uint64 // lines that are said to be dropped
	var rest strings.Builder
	whole := make(chan struct{})
	go func() { // ends with the process
		defer close(whole)
		for {
			text, err := stderr.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = rest.WriteString(text)
			var line struct{ Lines uint64 }
			if json.Unmarshal([]byte(text), &line) != nil {
				t.Errorf("half a line: %q", text)
			} else if strings.Contains(text, "lines of the log were dropped") {
				told.Add(line.Lines)
			}
		}
	}()
	testkit.Eventually(t, "the lines that say how many were dropped", func() bool { return told.Load() >= before })
	testkit.Eventually(t, "as many lines said to be dropped as counted", func() bool { return told.Load() == counted() }) // some requests end later
	if err := process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the end", stderr.ended); err != nil {
		t.Error(err)
	}
	testkit.Receive(t, "the end of the log", whole)
	mentions(t, rest.String(), `"to":"STOPPED"`)
}

// A signal ends Dragoman although nobody reads its log, and although the reader has gone.
func TestTheEndDoesNotDependOnTheLog(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	for _, gone := range []bool{false, true} {
		process, stderr := startUnread(t, nil, nil, "serve", "--config", testkit.WriteFile(t, "p.toml", logAll+u.toml("")))
		base, _ := stderr.listening(t)
		if gone {
			_ = stderr.file.Close()
		}
		floodLog(t, base, 800)
		if err := process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := testkit.Receive(t, "the end", stderr.ended); err != nil {
			t.Error(err)
		}
	}
}

// A client on stdio is served although nobody reads the log.
func TestStdioDoesNotDependOnTheLog(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	in, send, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	receive, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, stderr := startUnread(t, in, out, "stdio", "--config", testkit.WriteFile(t, "p.toml", "log.access = \"all\"\nlog.format = \"json\"\n"+u.toml("")))
	_, _ = in.Close(), out.Close()
	defer receive.Close()
	answers := make(chan string)
	go func() { // ends with the process
		defer close(answers)
		for s := bufio.NewScanner(receive); s.Scan(); {
			answers <- s.Text()
		}
	}()
	for i := range 1000 {
		if _, err := fmt.Fprintln(send, modernCall(fmt.Sprint(i), strings.Repeat("n", 200), "")); err != nil {
			t.Fatal(err)
		}
		mentions(t, testkit.Receive(t, "an answer", answers), fmt.Sprintf(`"id":%d,`, i))
	}
	_ = send.Close()
	if err := testkit.Receive(t, "the end", stderr.ended); err != nil {
		t.Error(err)
	}
}
