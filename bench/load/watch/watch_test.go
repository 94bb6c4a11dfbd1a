package watch

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWatch(t *testing.T) {
	if runtime.GOOS != "linux" {
		if _, err := Read([]int{os.Getpid()}); !errors.Is(err, ErrNotHere) {
			t.Error(err)
		}
		t.Skip("the figures of processes are read on Linux only")
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = child.Start(); err != nil {
		t.Skip("no cat")
	}
	defer func() { _ = child.Wait() }()
	w, err := Start([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	use, err := w.Now()
	if err != nil || use.RSS < 1<<20 || use.ChildrenRSS < 1<<12 || use.Below < 1 || use.Files < 3 || use.Threads < 1 {
		t.Errorf("%+v, %v", use, err)
	}
	if samples, err := w.Stop(); err != nil || len(samples) < 2 || samples[1].At <= 0 || samples[1].RSS != use.RSS {
		t.Errorf("%+v, %v", samples, err)
	}
	// A process that ends meanwhile.
	if w, err = Start([]int{child.Process.Pid}); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	_ = child.Wait()
	if _, err = w.Now(); err == nil || !strings.Contains(err.Error(), "no such process") {
		t.Errorf("of a process that has ended: %v", err)
	}
	if _, err = w.Stop(); err == nil {
		t.Error("no error says that the process has ended")
	}
	if _, err = Start(nil); err == nil {
		t.Error("started without a process")
	}
	if _, err = Start([]int{child.Process.Pid}); err == nil {
		t.Error("watches an ended process")
	}
}

func TestPIDOfPort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the figures of processes are read on Linux only")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // there is no IPv6
		}
		port := l.Addr().(*net.TCPAddr).Port
		if pid, err := PIDOfPort(port); err != nil || pid != os.Getpid() {
			t.Errorf("%s: %d, %v, and we are %d", address, pid, err, os.Getpid())
		}
		_ = l.Close()
		if _, err := PIDOfPort(port); err == nil || !strings.Contains(err.Error(), "no process") {
			t.Errorf("%s, closed: %v", address, err)
		}
	}
}

func TestReadAllocs(t *testing.T) {
	f := func(body string, want Allocs, wantErr string) {
		t.Helper()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if body == "" {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = w.Write([]byte(body))
		}))
		defer s.Close()
		got, err := ReadAllocs(t.Context(), s.URL)
		if got != want || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%q: %+v, %v", body, got, err)
		}
	}
	f("# TYPE go_memstats_mallocs_total counter\ngo_memstats_mallocs_total 1.5e+06\ngo_memstats_alloc_bytes_total 4096\n", Allocs{1.5e6, 4096}, "")
	f(`{"cmdline":["x"],"memstats":{"Mallocs":7,"TotalAlloc":9}}`, Allocs{7, 9}, "")
	f("heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 1\n# TotalAlloc = 20\n# Mallocs = 10\n", Allocs{10, 20}, "")
	f("up 1\n", Allocs{}, "go_memstats_mallocs_total")
	f(`{"cmdline":[]}`, Allocs{}, "go_memstats_mallocs_total")
	f("", Allocs{}, "403")
	if _, err := ReadAllocs(t.Context(), "http://127.0.0.1:1/"); err == nil {
		t.Error("a URL without a server was read")
	}
}
