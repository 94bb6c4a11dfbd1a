package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/internal/config/field"
	"dragoman/internal/testkit"
)

// Sizes of messages in bytes.
const (
	answerPiece = 256 << 10
)

// largeAnswersMain is a modern child whose answers have the size that the call names in params.arguments.n.
func largeAnswersMain() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, answerPiece)
	id, size := regexp.MustCompile(`"id":("[^"]*"|\d+)`), regexp.MustCompile(`"n":(\d+)`)
	piece := bytes.Repeat([]byte("x"), answerPiece)
	for {
		line, err := in.ReadSlice('\n')
		head := bytes.Clone(line[:min(len(line), 4096)])
		for err == bufio.ErrBufferFull {
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			os.Exit(0)
		}
		name := id.FindSubmatch(head)
		switch {
		case name == nil:
			continue
		case bytes.Contains(head, []byte(`"server/discover"`)):
			_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", name[1], discovered)
		default:
			n := 0
			if m := size.FindSubmatch(head); m != nil {
				n, _ = strconv.Atoi(string(m[1]))
			}
			_, _ = io.WriteString(out, `{"result":{"resultType":"complete","content":[{"type":"text","text":"`)
			for ; n > 0; n -= len(piece) {
				_, _ = out.Write(piece[:min(n, len(piece))])
			}
			_, _ = fmt.Fprintf(out, `"}]},"jsonrpc":"2.0","id":%s}`+"\n", name[1]) // the id last, as the official TypeScript SDK writes it
		}
		_ = out.Flush()
	}
}

// measuredProxy is Dragoman as a process in front of such a child.
type measuredProxy struct {
	t    *testing.T
	url  string
	pid  int
	http *http.Client
}

func startMeasured(t *testing.T) *measuredProxy {
	t.Helper()
	info, _ := debug.ReadBuildInfo()
	if runtime.GOOS != "linux" || slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("memory is read from /proc, and not of a binary with the race detector")
	}
	self := testkit.Executable(t)
	file := testkit.WriteFile(t, "swell.toml", fmt.Sprintf("listen = \"127.0.0.1:0\"\nadmin.listen = \"off\"\nlog.format = \"json\"\nlimits.line = \"64MiB\"\nlimits.request_body = \"64MiB\"\nlimits.answer_bytes_per_principal = \"128MiB\"\n"+
		"[upstreams.default]\ncommand = [%q]\n[upstreams.default.env]\n%s = \"swell\"\n", self, testkit.AsDragoman))
	cmd := testkit.Self(t, "main", "serve", "--config", file)
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(logs); s.Scan(); {
			if m := regexp.MustCompile(`127\.0\.0\.1:[1-9]\d*`).FindString(s.Text()); m != "" {
				select {
				case found <- m:
				default:
				}
			}
		}
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		_ = cmd.Wait()
	})
	return &measuredProxy{t: t, pid: cmd.Process.Pid, url: "http://" + testkit.Receive(t, "the address", found) + "/mcp", http: &http.Client{Transport: transport}}
}

// call requests an answer of n bytes, with pad bytes in the request, and reads it. begun is called when the answer has begun.
func (s *measuredProxy) call(n, pad int, begun func()) error {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{"name":"swell","arguments":{"n":%d},%s,"pad":"%s"}}`, n, modernMeta, strings.Repeat("p", pad))
	req, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	h := modernHeaders("tools/call", "swell")
	for i := 0; i+1 < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	begun()
	tail := make([]byte, 0, 32)
	got, buf := 0, make([]byte, 64<<10)
	for {
		m, err := res.Body.Read(buf)
		got += m
		if tail = append(tail, buf[:m]...); len(tail) > 32 {
			tail = append(tail[:0], tail[len(tail)-32:]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if got < n || got > n+4096 || res.StatusCode != 200 || !bytes.HasSuffix(tail, []byte(`"id":"own"}`)) {
		return fmt.Errorf("status %d, %d bytes ending in %q", res.StatusCode, got, tail)
	}
	return nil
}

// calls makes count calls, a few at a time.
func (s *measuredProxy) calls(count, atOnce, n, pad int) {
	s.t.Helper()
	s.slowCalls(count, atOnce, n, pad, func() {})
}

// slowCalls makes calls of clients that call begun before they read on.
func (s *measuredProxy) slowCalls(count, atOnce, n, pad int, begun func()) {
	s.t.Helper()
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for range count {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			once := sync.OnceFunc(begun)
			if err := s.call(n, pad, once); err != nil {
				s.t.Error(err)
			}
			once() // others wait for a call that has failed, too
		})
	}
	group.Wait()
}

// memory reads a line of the process's status, in bytes.
func (s *measuredProxy) memory(key string) int {
	s.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if value, is := strings.CutPrefix(line, key+":"); is {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				s.t.Fatal(err)
			}
			return n << 10
		}
	}
	s.t.Fatalf("no %s", key)
	return 0
}

// peak is the largest growth of memory while f runs.
func (s *measuredProxy) peak(f func()) int {
	s.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.pid), []byte("5"), 0); err != nil {
		s.t.Skip("the system does not let the peak be reset: ", err)
	}
	before := s.memory("VmRSS")
	f()
	return s.memory("VmHWM") - before
}

// A large answer of a child is in memory once on its way, with little besides; a request is in the buffer that it is read into.
func TestLargeAnswerIsHeldOnce(t *testing.T) {
	f := func(name string, slow bool, count, size, pad, most int) {
		t.Helper()
		s := startMeasured(t)
		s.calls(4, 1, 100, 0)
		var all sync.WaitGroup
		all.Add(count)
		begun := func() {
			if slow { // until every answer is there
				all.Done()
				all.Wait()
			}
		}
		grown := s.peak(func() { s.slowCalls(count, count, size, pad, begun) })
		t.Logf("%s: %.1f MiB at the peak, %.2f times what passed", name, float64(grown)/field.Mib, float64(grown)/float64(count*max(size, pad)))
		if grown > most {
			t.Errorf("%s: %.1f MiB at the peak, more than %.1f", name, float64(grown)/field.Mib, float64(most)/field.Mib)
		}
	}
	f("63 MiB", false, 1, 63*field.Mib, 0, 70*field.Mib)
	f("10 times 8 MiB", false, 10, 8*field.Mib, 0, 90*field.Mib)
	f("10 times 8 MiB, to clients that wait", true, 10, 8*field.Mib, 0, 90*field.Mib)
	f("a request of 32 MiB", false, 1, 100, 32*field.Mib, 75*field.Mib) // its body is read into a buffer of twice the size
	f("10 requests of 4 MiB", false, 10, 100, 4*field.Mib, 100*field.Mib)
}

// The memory of large messages is returned soon although the collector has no reason to run.
func TestLargeAnswersLeaveNothing(t *testing.T) {
	s := startMeasured(t)
	s.calls(8, 8, 100, 0)
	s.calls(4, 4, 2*field.Mib, 0)
	s.calls(200, 8, 100, 0)
	before := s.memory("VmRSS")
	s.calls(50, 8, 8*field.Mib, 0)
	s.calls(50, 8, 100, 4*field.Mib)
	at, began := s.memory("VmRSS"), time.Now()
	t.Logf("%.1f MiB before, %.1f MiB after the burst", float64(before)/field.Mib, float64(at)/field.Mib)
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		now := s.memory("VmRSS")
		if float64(now) <= 1.1*float64(before) {
			t.Logf("%.1f MiB after %v", float64(now)/field.Mib, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%.1f MiB 10 s after it", float64(now)/field.Mib)
		}
	}
}
