package cli

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/bench/reference"
	benchreport "dragoman/bench/report"
	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// benchLine runs the real command for a short time, and returns the report too.
func benchLine(t *testing.T, ctx context.Context, args ...string) (code int, r *benchreport.Report, out string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	var stdout, stderr bytes.Buffer
	args = append([]string{"bench", "--json=" + file, "--connections", "3", "--timeout", "10s"}, args...)
	code = Execute(ctx, args, []string{"THE_TOKEN=Bearer s3cret-of-the-variable"}, app.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, Assembled())
	if in, err := os.Open(file); err == nil {
		defer func() { _ = in.Close() }()
		if r, err = benchreport.Read(in); err != nil {
			t.Error(err)
		}
	}
	return code, r, stdout.String() + stderr.String()
}

// referenceServer serves until the test ends.
func referenceServer(t *testing.T, h fasthttp.RequestHandler) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := fasthttp.Server{Handler: h, MaxIdleWorkerDuration: 10 * time.Millisecond} // its idle connections
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	return "http://" + l.Addr().String() + "/mcp"
}

// Every face of the built-in server and of the reference server is found, called and measured.
func TestBench(t *testing.T) {
	url := demoServer(t)
	base := strings.TrimSuffix(url, "/mcp")
	f := func(face, call string, args ...string) *benchreport.Report {
		t.Helper()
		code, r, out := benchLine(t, t.Context(), append([]string{"--warmup", "10ms"}, args...)...)
		if code != ExitOK || r == nil || r.Face != face || len(r.Runs) == 0 || !strings.HasPrefix(r.Load.Calls[0], call) {
			t.Fatalf("%q: %d\n%s", args, code, out)
		}
		for _, run := range r.Runs {
			if run.Right == 0 || run.Errors != 0 || run.Latency.Percentiles["p50"] <= 0 || len(run.Seconds) == 0 {
				t.Errorf("%q: %+v", args, run)
			}
		}
		return r
	}
	const short = "--requests=30"
	echo := []string{short, "--tool", "echo", "--arguments", `{"message":"{n} and {n}"}`}
	if r := f("modern-http", "test_simple_text", short, url); r.Load.Why != "a tool that only reads and needs no arguments" || r.Runs[0].Right != 30 {
		t.Errorf("%+v", r.Load)
	}
	f("modern-http", "echo", append(echo, url)...)
	f("legacy-http", "echo", append(echo, "--face", "legacy-http", url)...)
	f("legacy-http", "ping", short, "--method", "ping", "--revision", "2025-06-18", url)
	f("sse", "echo", append(echo, base+"/sse")...)
	f("rest", "echo", append(echo, base)...)
	f("rest", "tools/list", short, "--face", "rest", base)
	mix := testkit.WriteFile(t, "mix.json", `[{"tool":"echo","arguments":{"message":"x"},"weight":3},{"method":"tools/list"},{"name":"read","method":"resources/read","params":{"uri":"demo://counter"},"varies":true}]`)
	f("modern-http", "echo (60 %)", short, "--mix", mix, url)
	if r := f("modern-http", "test_simple_text", "--rate", "100", "--duration", "300ms", "--fail", "errors<1%", url); r.Runs[0].Right != 30 || r.Runs[0].Service == nil || !r.Verdicts[0].OK {
		t.Errorf("%+v", r.Runs)
	}

	echoes := referenceServer(t, reference.NewUpstream(reference.Dual).Handle)
	page := filepath.Join(t.TempDir(), "page.html")
	r := f("modern-http", "echo (75 %)", short, "--size", "300,10240", "--stream-share", "0.25", "--html", page, echoes)
	if len(r.Runs) != 2 || r.Runs[1].Name != "echo 10 KiB" || r.Runs[1].BytesIn < 30*10_000 {
		t.Errorf("%+v", r.Runs)
	}
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte("Latency by percentile")) {
		t.Errorf("the page: %v", err)
	}
	if runtime.GOOS == "linux" {
		r = f("legacy-http", "echo", "--duration", "200ms", "--rounds", "2", "--face", "legacy-http", "--sessions", "1,20", "--pid-of-port", echoes)
		if p := r.Runs[0].Process; p == nil || p.PIDs[0] != os.Getpid() || p.RSSPeak == 0 || len(r.Sessions) != 3 || r.Sessions[2].Open != 20 || r.Sessions[2].RSS == 0 || len(r.Runs[0].Rounds) != 2 {
			t.Errorf("%+v, %+v", p, r.Sessions)
		}
	}
}

// A command is started, and its resources are read.
func TestBenchCommand(t *testing.T) {
	command := testkit.Self(t, "main", "demo", "--log-level", "error")
	t.Setenv(testkit.AsDragoman, "main")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	for _, face := range []string{"modern-stdio", "legacy-stdio"} {
		code, r, out := benchLine(t, t.Context(), append([]string{"--duration", "200ms", "--warmup", "10ms", "--face", face, "--processes", "2", "--"}, command.Args...)...)
		if code != ExitOK || r == nil || r.Face != face || r.Runs[0].Right == 0 {
			t.Fatalf("%d\n%s", code, out)
		}
		if p := r.Runs[0].Process; runtime.GOOS == "linux" && (p == nil || len(p.PIDs) != 2 || p.RSSBefore == 0) {
			t.Errorf("%+v", p)
		}
	}
}

// Errors are reported, without secrets.
func TestBenchFails(t *testing.T) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(http.MaxBytesReader(w, r.Body, 1<<20))
		_, id, _ := strings.Cut(body.String(), `"id":`)
		id, _, _ = strings.Cut(id, ",")
		w.Header().Set("Content-Type", "application/json")
		result := `"supportedVersions":["2026-07-28"],"capabilities":{},"resultType":"complete"`
		if strings.Contains(body.String(), "moody") {
			if calls++; calls > 4 && calls%2 == 0 {
				w.WriteHeader(http.StatusUnauthorized)
				result = `"said":"` + r.Header.Get("Authorization") + " " + r.URL.RawQuery + `"`
			}
		}
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{` + result + `}}`))
	}))
	defer s.Close()
	url := s.URL + "/mcp?key=queried-secret"
	line := func(args ...string) (int, *benchreport.Report, string) {
		return benchLine(t, t.Context(), append([]string{"--connections", "1", "--requests", "20", "--warmup", "0s", "--header", "Authorization: env:THE_TOKEN"}, args...)...)
	}
	code, r, out := line("--method", "moody", url)
	if code != ExitFailed || r == nil || r.OK || r.Runs[0].Errors != 9 || r.Runs[0].Wrong[0].Kind != "status 401" || !strings.Contains(r.Runs[0].Wrong[0].Example, "(hidden)") {
		t.Errorf("%d\n%s", code, out)
	}
	var told bytes.Buffer
	if err := r.JSON(&told); err != nil {
		t.Error(err)
	}
	if all := out + told.String(); strings.Contains(all, "s3cret") || strings.Contains(all, "queried-secret") {
		t.Errorf("a secret is shown:\n%s", all)
	}
	calls = 0
	if code, _, out = line("--method", "moody", "--fail", "errors<60%", url); code != ExitOK || !strings.Contains(out, "kept    errors<60%") {
		t.Errorf("errors that are allowed: %d\n%s", code, out)
	}
	calls = 0
	if code, _, out = line("--method", "moody", "--fail", "errors<60%", "--fail", "rps>1000000", url); code != ExitFailed || !strings.Contains(out, "FAILED  rps>1000000") {
		t.Errorf("a threshold: %d\n%s", code, out)
	}
	if code, _, out = line("--size", "300", url); code != ExitFailed || !strings.Contains(out, "fix: name a call") {
		t.Errorf("a size: %d\n%s", code, out)
	}
	if code, _, out = line("http://127.0.0.1:1/mcp?key=queried-secret"); code != exitNobody || !strings.Contains(out, "nothing of MCP answers") || strings.Contains(out, "queried-secret") {
		t.Errorf("nobody: %d\n%s", code, out)
	}
	if code, _, out = line("--sessions", "5", url); code != ExitFailed || !strings.Contains(out, "no sessions over modern-http") {
		t.Errorf("sessions: %d\n%s", code, out)
	}
}

// An interrupted run reports what was measured.
func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls atomic.Int64
	upstream := reference.NewUpstream(reference.Modern)
	url := referenceServer(t, func(c *fasthttp.RequestCtx) {
		if calls.Add(1) == 300 {
			cancel()
		}
		upstream.Handle(c)
	})
	code, r, out := benchLine(t, ctx, "--duration", "1h", "--warmup", "0s", url)
	if code != ExitOK || r == nil || r.Ended != "interrupted" || r.Runs[0].Right == 0 {
		t.Errorf("%d\n%s", code, out)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if code, _, out = benchLine(t, ended, url); code != ExitFailed || !strings.Contains(out, "interrupted before") {
		t.Errorf("%d\n%s", code, out)
	}
}
