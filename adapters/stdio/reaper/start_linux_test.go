package reaper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestUnavailable(t *testing.T) {
	t.Parallel()
	f := func(exe string) {
		t.Helper()
		var mu sync.Mutex
		var notes []error
		g := New(Options{Exe: exe, Note: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			notes = append(notes, err)
		}})
		g.Prestart()
		for range 2 {
			if _, _, err := run(context.Background(), g, nil, "true"); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%q: %v", exe, err)
			}
		}
		g.Close()
		mu.Lock()
		defer mu.Unlock()
		if len(notes) != 1 || !errors.Is(notes[0], ErrUnavailable) {
			t.Errorf("%q: %v", exe, notes)
		}
		if _, _, err := run(context.Background(), g, nil, "true"); err != ErrClosed {
			t.Errorf("%q: %v", exe, err)
		}
	}
	f("/no/such/file")
	f("/bin/true")
	f("") // test binaries are not executed without an explicit variable
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(want error, s Spec) {
		t.Helper()
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		s.Stdin, s.Stdout, s.Stderr = null, null, null
		_, err = r.Start(context.Background(), s)
		var path *fs.PathError
		if !errors.Is(err, want) || !errors.As(err, &path) {
			t.Errorf("%v", err)
		}
	}
	f(fs.ErrNotExist, Spec{Path: "/no/such/file", Argv: []string{"x"}})
	f(fs.ErrPermission, Spec{Path: plain, Argv: []string{"x"}})
	f(fs.ErrNotExist, Spec{Path: "/bin/sh", Argv: []string{"x"}, Dir: filepath.Join(dir, "none")})
	f(syscall.EINVAL, Spec{Path: "/bin/sh", Argv: []string{"x\x00"}})
	f(syscall.E2BIG, Spec{Path: "/bin/sh", Argv: []string{"x", strings.Repeat("x", 4<<20)}})
	f(syscall.E2BIG, Spec{Path: "/bin/sh", Argv: []string{"x", strings.Repeat("x", maxBody)}})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := run(ended, r.Reaper, nil, "true"); err != context.Canceled {
		t.Errorf("%v", err)
	}
}

// A child gets three blocking descriptors, default signals, its configured environment and directory, and a session of its own.
func TestEnvironmentOfAChild(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := "LONG=" + strings.Repeat("x", 100_000)
	_, lines, err := run(context.Background(), r.Reaper, r.env(long, "A=b c"), "sh", "-c",
		`ls /proc/self/fd | wc -w; grep -h -E 'SigIgn|SigBlk' /proc/self/status; echo "$A" ${#LONG}; echo $$ $(cut -d' ' -f5,6 /proc/$$/stat); grep -h flags /proc/self/fdinfo/0 /proc/self/fdinfo/1; echo $`+MarkKey)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range lines {
		got = append(got, line)
	}
	var pid, pgrp, session int
	if len(got) != 8 {
		t.Fatalf("%q", got)
	}
	if _, err := fmt.Sscan(got[4], &pid, &pgrp, &session); err != nil || pid != pgrp || pid != session {
		t.Errorf("%q, %v", got[4], err)
	}
	r.impl.mu.Lock()
	mark := r.impl.conn.mark + "-1"
	r.impl.mu.Unlock()
	want := []string{"4", "SigBlk:\t0000000000000000", ignored(t), "b c 100000", got[4], "flags:\t00", "flags:\t01", mark}
	if !slices.Equal(got, want) { // the fourth belongs to ls
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// ignored returns the signals that this process ignores since its start.
func ignored(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "SigIgn:") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatal("no SigIgn in /proc/self/status")
	return ""
}

// Children ignore the signals that Dragoman was started to ignore, as by nohup, but not those that the reaper ignores.
func TestIgnoredSignalsAreInherited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	file := r.pids + ".ignored"
	parent := exec.Command("sh", "-c", `trap "" HUP; exec "$0"`, self())
	parent.Env = r.env(fmt.Sprintf(`%s=parent:1:grep SigIgn /proc/$$/status > %s; echo $$ >> $REAPER_TEST_PIDS; exec sleep 40`, roleKey, file))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Errorf("%q, %v", line, err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bits := func(line string) (n uint64) {
		if _, err := fmt.Sscanf(line, "SigIgn: %x", &n); err != nil {
			t.Fatal(line, err)
		}
		return n
	}
	if got, want := bits(string(got)), bits(ignored(t))|1<<(syscall.SIGHUP-1); got != want {
		t.Errorf("a child ignores %x, want %x", got, want)
	}
}

// A child that ends at once, while its reaper is still starting, is noticed. The order of the two is not defined.
func TestTheFirstChildMayExitAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		r := newRig(t)
		c, _, err := run(context.Background(), r.Reaper, r.env(), "true")
		if err != nil {
			t.Fatal(err)
		}
		if !closed(c.Exited(), 10*time.Second) || !closed(c.Gone(), 10*time.Second) || c.Exit().Code != 0 {
			t.Fatal("it is not gone")
		}
		r.Close()
	}
}

// Hundreds of children at once cost the reaper no descriptor and little memory, and end within a moment.
func TestManyChildren(t *testing.T) {
	many := 300
	if n, err := strconv.Atoi(os.Getenv("REAPER_TEST_MANY")); err == nil {
		many = n
	}
	r := newRig(t)
	r.Prestart()
	r.impl.starting.Wait()
	pid := r.process()
	fds := func() (n int) { // without the runtime's poller, which the first timer starts
		for _, name := range list(fmt.Sprintf("/proc/%d/fd", pid)) {
			what, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, name))
			if !strings.HasPrefix(what, "anon_inode:[event") {
				n++
			}
		}
		return n
	}
	private := func() string {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, after, _ := strings.Cut(string(b), "RssAnon:")
		line, _, _ := strings.Cut(after, "\n")
		return strings.TrimSpace(line)
	}
	_, _ = r.sh("exit")
	before := fds()
	begin := time.Now()
	var mu sync.Mutex
	var children []*Child
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for {
				mu.Lock()
				full := len(children) >= many
				children = append(children, nil)
				i := len(children) - 1
				mu.Unlock()
				if full {
					return
				}
				c, _, err := run(context.Background(), r.Reaper, r.env(), "sleep", "40")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				children[i] = c
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d started in %v; the reaper has %s of its own", many, time.Since(begin), private())
	if after := fds(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	begin = time.Now()
	for _, c := range children {
		if c != nil {
			c.Terminate()
		}
	}
	for _, c := range children {
		if c != nil && !closed(c.Gone(), 20*time.Second) {
			t.Fatal("one has not ended")
		}
	}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	times := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[11:13]
	t.Logf("gone after %v; the reaper has %s of its own, and used %s user and %s system ticks", time.Since(begin), private(), times[0], times[1])
}
