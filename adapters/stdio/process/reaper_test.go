//go:build unix

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/reaper"
)

// All process tests again, with a reaper.
func TestWithReaper(t *testing.T) {
	if testReaper != nil {
		t.Skip("this test is the repetition itself")
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^Test(Process|Start)", "-test.timeout=5m", fmt.Sprintf("-test.short=%v", testing.Short()))
	cmd.Env = append(os.Environ(), reaperKey+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// If a reaper cannot be started, children are started without it.
func TestProcessWithoutAReaper(t *testing.T) {
	t.Parallel()
	told := make(chan error, 10)
	g := reaper.New(reaper.Options{Exe: "/no/such/file", Note: func(err error) { told <- err }})
	defer g.Close()
	for range 2 {
		c := child("echo")
		c.Reaper = g
		p := start(t, c)
		must(t, p.Write([]byte("x")))
		expect(t, p, "x")
		if _, ok := p.tree.(*direct); !ok {
			t.Errorf("got a %T", p.tree)
		}
	}
	if err := <-told; !errors.Is(err, reaper.ErrUnavailable) || len(told) > 0 {
		t.Errorf("reported %v, and %d more", err, len(told))
	}
}

// A killed reaper takes its children along; the next child gets a new reaper.
func TestProcessLosesItsReaper(t *testing.T) {
	t.Parallel()
	told := make(chan error, 10)
	g := reaper.New(reaper.Options{Exe: os.Args[0], Note: func(err error) { told <- err }})
	defer g.Close()
	c := child("echo")
	c.Reaper = g
	p, err := Start(background(), c)
	must(t, err)
	defer p.Stop() // nothing more is certain: the system's first process reaps orphans at its own time
	must(t, p.Write([]byte("x")))
	expect(t, p, "x")
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		t.Skip("no /proc to find the reaper by")
	}
	var id, parent int
	var name, state string
	if _, err := fmt.Sscan(string(stat), &id, &name, &state, &parent); err != nil {
		t.Fatal(err)
	}
	must(t, unix.Kill(parent, unix.SIGKILL))
	if e := await(t, p); !e.Lost || e.Code != -1 || !strings.Contains(e.Error(), "reaper") {
		t.Errorf("got %+v", e)
	}
	if _, err := p.ReadLine(); err != io.EOF {
		t.Errorf("got %v", err)
	}
	if err := <-told; !errors.Is(err, reaper.ErrLost) {
		t.Errorf("told %v", err)
	}
	q := start(t, c)
	must(t, q.Write([]byte("y")))
	expect(t, q, "y")
}
