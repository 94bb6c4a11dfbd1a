//go:build unix

package telemetry

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The trail is nobody else's to read, to change or to lead elsewhere, whether its file is new or not.
func TestAuditFileIsOurs(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, mode := range []fs.FileMode{0o644, 0o602, 0o640, 0o600} {
		file := path("wide")
		if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		trail, _ := openedTrail(t, AuditLogOptions{File: file, Bytes: 512})
		trail.Write(t.Context(), []byte("line\n"))
		trail.Close()
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %o became %v, %v", mode, info.Mode(), err)
		}
		if got := linesOf(t, file); len(got) != 2 {
			t.Errorf("%q", got)
		}
	}
	refused := func(file, what string) {
		t.Helper()
		_, err := OpenAuditLog(AuditLogOptions{File: file, Bytes: 512}, prometheus.NewRegistry())
		if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "audit.file") || !strings.Contains(err.Error(), "fix: ") {
			t.Errorf("%v; want %q", err, what)
		}
	}
	for link, target := range map[string]string{"link": "wide", "dangling": "created"} {
		if err := os.Symlink(path(target), path(link)); err != nil {
			t.Fatal(err)
		}
		refused(path(link), "symbolic link")
	}
	if _, err := os.Lstat(path("created")); err == nil {
		t.Error("a link led to a new file")
	}
	if err := os.Link(path("wide"), path("second")); err != nil {
		t.Fatal(err)
	}
	refused(path("second"), "2 names")
	if os.Geteuid() == 0 {
		if err := os.WriteFile(path("theirs"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path("theirs"), 12345, -1); err != nil {
			t.Fatal(err)
		}
		refused(path("theirs"), "belongs to user 12345")
	}
	trail, _ := openedTrail(t, AuditLogOptions{File: "/dev/stdout", Bytes: 512}) // a link, often to a pipe
	trail.Close()
}

// A named pipe is no file to wait for: without a reader the trail is refused, and with one that stops reading, lines are
// lost with a report, and Close gives up.
func TestAuditPipe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuditLog(AuditLogOptions{File: file, Bytes: 512}, prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "nobody reads") {
		t.Errorf("%v", err)
	}
	reader, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var mu sync.Mutex
	var lost uint64
	var last string
	trail, reg := openedTrail(t, AuditLogOptions{File: file, Bytes: 1 << 20, Failed: func(err error, n uint64) {
		mu.Lock()
		defer mu.Unlock()
		lost, last = lost+n, err.Error()
	}})
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 200 { // a pipe takes 64 KiB
		trail.Write(t.Context(), line)
	}
	for range 3 { // one may be in the write that hangs, one waits, and one finds no room
		trail.Write(t.Context(), make([]byte, 1<<20))
	}
	if mu.Lock(); lost == 0 || last != errBehind.Error() {
		t.Errorf("%d lines are reported: %s", lost, last)
	}
	mu.Unlock()
	began := time.Now()
	trail.Close()
	if took := time.Since(began); took < closeTime || took > closeTime+5*time.Second {
		t.Errorf("it took %v to give up", took)
	}
	mu.Lock()
	defer mu.Unlock()
	got := became(t, reg)
	if got["written"]+got["dropped"]+got["failed"] != 203 || got["failed"] == 0 || last != errHangs.Error() || float64(lost) != got["dropped"]+got["failed"] {
		t.Errorf("%v; %d are reported: %s", got, lost, last)
	}
}

// Requests that wait for room are not held by a trail that ends.
func TestAuditLogReleases(t *testing.T) {
	trail, reg, in := stuckTrail(t, true, func(error, uint64) {})
	defer in.Close()
	given := make(chan struct{})
	go func() {
		defer close(given)
		for range 200 {
			trail.Write(t.Context(), []byte(strings.Repeat("x", 1023)+"\n"))
		}
	}()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		trail.mu.Lock()
		waits := trail.room != nil
		trail.mu.Unlock()
		if waits || time.Now().After(end) {
			break
		}
	}
	trail.Close()
	<-given
	if got := became(t, reg); got["dropped"] == 0 {
		t.Errorf("%v", got)
	}
}
