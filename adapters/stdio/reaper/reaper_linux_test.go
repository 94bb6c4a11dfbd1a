package reaper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dragoman/internal/testkit"
)

const stubborn = `trap "" TERM HUP INT; echo $$ >> $REAPER_TEST_PIDS; while :; do sleep 40; done`

// scripts are what children do, and how many processes write down their id.
var scripts = map[string]struct {
	count int
	text  string
}{
	"plain":    {1, `echo $$ >> $REAPER_TEST_PIDS; exec sleep 40`},
	"stubborn": {1, stubborn},
	"setsid":   {2, `export S='` + stubborn + `'; setsid sh -c "$S" & ` + stubborn},
	"daemon":   {2, `export S='` + stubborn + `'; (setsid sh -c 'sh -c "$S" & exit' </dev/null >/dev/null 2>&1 &); ` + stubborn},
	"nameless": {2, `export S='` + stubborn + `'; (env -i PATH=$PATH REAPER_TEST_PIDS=$REAPER_TEST_PIDS setsid sh -c '` + stubborn + `' </dev/null >/dev/null 2>&1 &); ` + stubborn},
	"faceless": {2, `export S='` + stubborn + `'; (env -i PATH=$PATH REAPER_TEST_PIDS=$REAPER_TEST_PIDS prlimit --locks=unlimited setsid sh -c '` + stubborn + `' </dev/null >/dev/null 2>&1 &); ` + stubborn},
	"pipeline": {1, `echo $$ >> $REAPER_TEST_PIDS; sleep 40 | cat | cat | sh -c 'trap "" TERM; cat; sleep 40'`},
	"jobs":     {2, `set -m; (` + stubborn + `) & ` + stubborn},
	"stopped":  {1, `echo $$ >> $REAPER_TEST_PIDS; kill -STOP $$`},
	"orphans":  {1, `for i in 1 2 3 4 5; do (setsid sleep 40 &); done; echo $$ >> $REAPER_TEST_PIDS; exec sleep 40`},
	"swarm":    {1, `REAPER_TEST_ROLE=swarm exec ` + self()},
}

// rig is a test's own reaper and its processes.
type rig struct {
	*Reaper
	t     *testing.T
	token string
	pids  string

	mu    sync.Mutex
	notes []error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{t: t, token: filepath.Base(filepath.Dir(dir)) + fmt.Sprint(os.Getpid(), time.Now().UnixNano()), pids: filepath.Join(dir, "pids")}
	r.Reaper = New(Options{Exe: self(), Note: func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes = append(r.notes, err)
	}})
	t.Cleanup(func() {
		r.Close()
		r.noProcess(2 * time.Second)
	})
	return r
}

func (r *rig) errors() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.notes)
}

func (r *rig) env(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), tokenKey + "=" + r.token, pidsKey + "=" + r.pids, "GORACE=atexit_sleep_ms=0"}, more...)
}

func (r *rig) script(name string) (*Child, <-chan string) {
	r.t.Helper()
	before := len(recorded(r.pids))
	c, lines := r.sh(scripts[name].text)
	r.eventually("the script's processes", func() bool { return len(recorded(r.pids)) >= before+scripts[name].count })
	return c, lines
}

func (r *rig) sh(text string) (*Child, <-chan string) {
	r.t.Helper()
	c, lines, err := run(context.Background(), r.Reaper, r.env(), "sh", "-c", text)
	if err != nil {
		r.t.Fatal(err)
	}
	return c, lines
}

func (r *rig) eventually(what string, done func() bool) {
	r.t.Helper()
	testkit.Until(r.t, what, 20*time.Second, done)
}

// left returns the processes of the test that are alive, found by the token in their environment and by recorded ids.
func (r *rig) left() []string {
	files := &procReader{}
	var out []string
	numbers := recorded(r.pids)
	for _, p := range files.all() {
		if p.pid == os.Getpid() || p.ended() {
			continue
		}
		if files.environmentMark(p.pid, tokenKey+"="+r.token) != "" || slices.Contains(numbers, p.pid) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
			out = append(out, fmt.Sprintf("%+v %.80q", p, line))
		}
	}
	return out
}

// noProcess fails the test if a process is left after limit, and returns how long it took.
func (r *rig) noProcess(limit time.Duration) time.Duration {
	r.t.Helper()
	begin := time.Now()
	for {
		left := r.left()
		took := time.Since(begin)
		if len(left) == 0 {
			return took
		}
		if took > limit {
			r.t.Errorf("%d left after %v, among them %s", len(left), took, left[0])
			for _, pid := range recorded(r.pids) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			return took
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func closed(c <-chan struct{}, limit time.Duration) bool {
	select {
	case <-c:
		return true
	default:
	}
	select {
	case <-c:
		return true
	case <-time.After(limit):
		return false
	}
}

// 2 s after the end of the process that started them no process is left, whatever the children do.
func TestNoProcessSurvivesAKilledParent(t *testing.T) {
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			parent := r.parent(name)
			_ = parent.Process.Kill()
			_ = parent.Wait()
			t.Logf("%v", r.noProcess(2*time.Second))
		})
	}
}

// parent starts a process that stands for Dragoman, with three children of a script.
func (r *rig) parent(name string) *exec.Cmd {
	r.t.Helper()
	s := scripts[name]
	parent := exec.Command(self())
	parent.Env = r.env(fmt.Sprintf("%s=parent:%d:%s", roleKey, s.count, s.text), "OUT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	parent.Stderr = os.Stderr
	if err := parent.Start(); err != nil {
		r.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		r.t.Errorf("%q, %v", line, err)
	}
	if n := len(r.left()); n < 4+3*(s.count-1) {
		r.t.Errorf("only %d processes: this tests nothing", n)
	}
	return parent
}

// Kill ends all processes of one process tree, and none of another.
func TestKillEndsTheTree(t *testing.T) {
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			other, _ := r.sh(`(setsid sleep 40 &); exec sleep 40`)
			c, _ := r.script(name)
			begin := time.Now()
			c.Kill()
			if !closed(c.Gone(), 10*time.Second) {
				t.Fatal("it has not ended")
			}
			t.Logf("%v", time.Since(begin))
			if e := c.Exit(); e.Signal != syscall.SIGKILL || e.Code != -1 || e.Lost {
				t.Errorf("%+v", e)
			}
			if closed(other.Exited(), 0) {
				t.Error("the other child has ended as well")
			}
			if n := len(r.left()); n != 2 && name != "faceless" {
				t.Errorf("%d are left", n)
			}
			other.Kill()
			<-other.Gone()
			r.noProcess(time.Second) // also processes without any mark
		})
	}
}

// A child that exits by itself takes its daemons along: they get SIGTERM, and the process tree has ended with the last of them.
func TestAChildThatExitsLeavesNoProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.sh(`(setsid sleep 40 &); (env -i setsid sleep 40 &); sleep 40 & exit 7`)
	<-c.Exited()
	if e := c.Exit(); e.Code != 7 || e.Signal != 0 {
		t.Errorf("%+v", e)
	}
	if !closed(c.Gone(), 10*time.Second) {
		t.Error("it has not ended")
	}
	r.noProcess(0)
}

// A process that ignores SIGTERM lives until it is killed.
func TestAStubbornDaemonWaitsForKill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.script("daemon")
	if err := unix.Kill(c.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Exited()
	if closed(c.Gone(), 100*time.Millisecond) {
		t.Error("ended already")
	}
	c.Terminate()
	c.Kill()
	if !closed(c.Gone(), 10*time.Second) {
		t.Error("it has not ended")
	}
	r.noProcess(0)
}

// SIGTERM reaches all processes of the tree.
func TestTerminate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.script("orphans")
	c.Terminate()
	if !closed(c.Gone(), 10*time.Second) {
		t.Error("it has not ended")
	}
	if e := c.Exit(); e.Signal != syscall.SIGTERM {
		t.Errorf("%+v", e)
	}
	r.noProcess(0)
}

// An orphan without any mark goes with the last tree that can have started it.
func TestAnOrphanWithoutAMarkEndsWithTheLastTree(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, _ := r.script("plain")
	two, _ := r.script("faceless")
	two.Kill()
	<-two.Gone()
	if n := len(r.left()); n == 0 {
		t.Error("one has ended as well")
	}
	young, _ := r.script("plain")
	one.Kill()
	<-one.Gone()
	daemon := recorded(r.pids)[1:3]
	r.eventually("the orphan's end", func() bool { return dead(daemon[0]) && dead(daemon[1]) })
	if closed(young.Exited(), 0) {
		t.Error("the youngest has ended as well")
	}
	young.Kill()
	<-young.Gone()
	r.noProcess(0)
}

func dead(pid int) bool {
	p, ok := (&procReader{}).process(pid)
	return !ok || p.ended()
}

// process returns the reaper's process id, once it is ready.
func (r *rig) process() int {
	r.t.Helper()
	r.impl.mu.Lock()
	c := r.impl.conn
	r.impl.mu.Unlock()
	r.eventually("the reaper to be ready", c.ready.Load)
	return c.self.Load().Pid
}

// keeper returns the process id of the reaper's keeper.
func (r *rig) keeper() int {
	r.impl.mu.Lock()
	defer r.impl.mu.Unlock()
	return r.impl.conn.cmd.Process.Pid
}

func TestAKilledReaper(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "stubborn", "daemon", "nameless", "faceless", "jobs"} {
		r := newRig(t)
		c, _ := r.script(name)
		first := r.process()
		if err := unix.Kill(first, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if !closed(c.Exited(), 10*time.Second) || !c.Exit().Lost {
			t.Fatalf("%s: not exited, or %+v", name, c.Exit())
		}
		again, _ := r.script("plain") // at once
		if !closed(c.Gone(), 10*time.Second) {
			t.Errorf("%s: it is not gone", name)
		}
		if n := len(r.left()); n != 1 || r.process() == first {
			t.Errorf("%s: %d are left: %v", name, n, r.left())
		}
		if notes := r.errors(); len(notes) != 1 || !errors.Is(notes[0], ErrLost) {
			t.Errorf("%s: %v", name, notes)
		}
		again.Kill()
		<-again.Gone()
		r.Close()
		r.noProcess(0)
	}
}

// A signal to the whole process group, from a terminal or a service manager, does not end the reaper before Dragoman.
func TestSignalsDoNotEndTheReaper(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.script("plain")
	pid, keeper := r.process(), r.keeper()
	for _, s := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if err := errors.Join(unix.Kill(pid, s), unix.Kill(keeper, s)); err != nil {
			t.Fatal(err)
		}
	}
	d, _ := r.script("plain")
	if r.process() != pid || r.keeper() != keeper || dead(keeper) || closed(c.Exited(), 0) || closed(d.Exited(), 0) {
		t.Error("a signal ended the reaper")
	}
	own, err := unix.Getpgid(pid)
	if err != nil || own != keeper {
		t.Errorf("its group is %d: %v", own, err)
	}
}

// Many children start and end, and the reaper keeps nothing of them.
func TestNothingStaysInTheReaper(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, _ := r.script("plain")
	pid := r.process()
	fds := func() int { return len(list(fmt.Sprintf("/proc/%d/fd", pid))) }
	before := fds()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for range 5 {
				c, _, err := run(context.Background(), r.Reaper, r.env(), "sh", "-c", `(setsid sleep 40 &); (true &); exit 3`)
				if err != nil {
					t.Error(err)
					return
				}
				if i%2 == 0 {
					c.Kill()
				}
				<-c.Gone()
				if e := c.Exit(); e.Code != 3 && e.Signal != syscall.SIGKILL {
					t.Errorf("%+v", e)
				}
			}
		})
	}
	all.Wait()
	children := func() (n int) {
		for _, p := range (&procReader{}).all() {
			if p.parent == pid {
				n++
			}
		}
		return n
	}
	r.eventually("the reaper to have but one child, and no zombie", func() bool { return children() == 1 })
	if after := fds(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if r.process() != pid || closed(first.Exited(), 0) {
		t.Error("a child was lost")
	}
}

// Close ends what still runs, and the reaper itself.
func TestCloseEndsEveryProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.script("daemon")
	pid := r.process()
	r.Close()
	if !closed(c.Gone(), 0) || !dead(pid) {
		t.Error("not ended")
	}
	r.noProcess(0)
	r.Close()
	unused := New(Options{Exe: self()})
	unused.Close()
	early := New(Options{Exe: self()})
	early.Prestart()
	early.Close()
}

// In a container Dragoman may be the first process, which adopts all orphans.
func TestAsTheFirstProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", self())
	cmd.Env = append(os.Environ(), roleKey+"=first")
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare") {
		t.Skipf("not permitted here: %s", out)
	}
	if string(out) != "first 1\nend\n" {
		t.Errorf("%s, %v", out, err)
	}
}
