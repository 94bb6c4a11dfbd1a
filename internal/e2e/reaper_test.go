//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dragoman/internal/cli"
	"dragoman/internal/testkit"
)

// stubborn is a server that never answers, ignores the end of its input and SIGTERM, and starts processes like itself: in its process
// group, in their own session, and as a daemon without its environment. Each writes down its id.
const stubborn = `
cling='trap "" TERM HUP INT; echo $$ >> %[1]s; while :; do sleep 30; done'
sh -c "$cling" &
setsid sh -c "$cling" &
(env -i PATH="$PATH" setsid sh -c "sh -c '$cling' & exit" </dev/null >/dev/null 2>&1 &)
eval "$cling"`

// stubbornCount is the number of these processes.
const stubbornCount = 4

// The program itself, with its reaper, is ended in several ways. Two seconds later none of its descendants is left.
func TestNoProcessOutlivesDragoman(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "dragoman")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGABRT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			endDragoman(t, bin, ending{signal: signal})
		})
	}
	for _, helper := range []string{"reaper", "keeper"} {
		t.Run("together with its "+helper, func(t *testing.T) {
			t.Parallel()
			endDragoman(t, bin, ending{signal: syscall.SIGKILL, helper: helper})
		})
	}
	t.Run("with servers of another user", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Skip("the tests do not run as root")
		}
		endDragoman(t, bin, ending{signal: syscall.SIGKILL, helper: "reaper", keys: "user = \"nobody\"\nmemory = \"256MiB\"\n"})
	})
	t.Run("server on the command line", func(t *testing.T) {
		t.Parallel()
		endDragoman(t, bin, ending{signal: syscall.SIGKILL, behind: true})
	})
	t.Run("address in use", func(t *testing.T) {
		t.Parallel()
		startFails(t, bin)
	})
}

// startFails starts a Dragoman on an address in use. It must not start its server.
func startFails(t *testing.T, bin string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	pids := filepath.Join(t.TempDir(), "pids")
	within, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := exec.CommandContext(within, bin, "serve", "--listen", ln.Addr().String(), "--admin", "off", "--",
		"/bin/sh", "-c", "echo $$ >> "+pids+"; exec sleep 30")
	out, err := c.CombinedOutput()
	if err == nil || c.ProcessState.ExitCode() != cli.ExitFailed || !strings.Contains(string(out), "choose another address") {
		t.Errorf("%v: %s", err, out)
	}
	if started := written(pids); len(started) > 0 {
		t.Errorf("the server was started: %v", started)
	}
}

// ending is a case of TestNoProcessOutlivesDragoman.
type ending struct {
	signal syscall.Signal
	helper string // the name of the process that is killed at the same time
	behind bool   // the server is behind the command, not in a configuration
	keys   string // further ones of the server
}

// endDragoman starts a Dragoman with a stubborn server and ends it.
func endDragoman(t *testing.T, bin string, e ending) {
	dir := t.TempDir()
	pids, config := filepath.Join(dir, "pids"), filepath.Join(dir, "config.toml")
	if e.keys != "" { // another user writes into it
		for _, path := range []string{dir, filepath.Dir(dir)} {
			if err := os.Chmod(path, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	command, err := json.Marshal([]string{"/bin/sh", "-c", fmt.Sprintf(stubborn, pids)})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("[upstreams.default]\ncommand = %s\nstop_grace = \"100ms\"\nkill_grace = \"100ms\"\n%s", command, e.keys)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "off", "--config", config}
	if e.behind {
		args = append(args[:len(args)-2], "--", "/bin/sh", "-c", fmt.Sprintf(stubborn, pids))
	}
	dragoman := exec.CommandContext(t.Context(), bin, args...)
	log, err := dragoman.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dragoman.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range written(pids) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	said := make(chan string, 1)
	go func() { // ends with the pipe, which the reaper does not hold
		var lines []string
		for s := bufio.NewScanner(log); s.Scan(); {
			lines = append(lines, s.Text())
		}
		said <- strings.Join(lines, "\n")
	}()
	testkit.Until(t, "the server's processes", 20*time.Second, func() bool { return len(written(pids)) >= stubbornCount })
	helpers := helpersOf(t, dragoman.Process.Pid)
	if kb := ownMemory(t, helpers["keeper"]); kb > keeperMemory {
		t.Errorf("the keeper has %d kB of its own: does it run before the other packages are initialized?", kb)
	}
	e.send(t, dragoman.Process, helpers)
	lines := <-said
	_ = dragoman.Wait()
	if strings.Contains(lines, "the reaper of child processes") { // like a warning
		t.Error(lines)
	}
	begin := time.Now()
	all := append(written(pids), helpers["keeper"], helpers["reaper"])
	left := func() (n int) {
		for _, pid := range all {
			if runs(pid) {
				n++
			}
		}
		return n
	}
	if e.signal == syscall.SIGTERM && left() > 0 {
		t.Errorf("%d processes are left after an ordinary end", left())
	}
	testkit.Until(t, "the end of everybody", 2*time.Second, func() bool { return left() == 0 })
	t.Logf("after %v", time.Since(begin))
}

// send sends the signal, and SIGKILL to the helper: both stop first, so that neither sees the other's end.
func (e ending) send(t *testing.T, dragoman *os.Process, helpers map[string]int) {
	t.Helper()
	signals := map[int][]syscall.Signal{dragoman.Pid: {e.signal}}
	if e.helper != "" {
		signals = map[int][]syscall.Signal{dragoman.Pid: {syscall.SIGSTOP, e.signal}, helpers[e.helper]: {syscall.SIGSTOP, syscall.SIGKILL}}
	}
	for i := range signals[dragoman.Pid] {
		for pid, all := range signals {
			if err := syscall.Kill(pid, all[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// helpersOf returns the ids of Dragoman's own processes by their names: its only child is the keeper, whose only child is the reaper.
func helpersOf(t *testing.T, dragoman int) map[string]int {
	t.Helper()
	out := map[string]int{}
	for parent := dragoman; len(out) < 2; {
		children := childrenOf(parent)
		if len(children) != 1 {
			t.Fatalf("the process %d has the children %v, not just a helper", parent, children)
		}
		parent = children[0]
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSpace(string(name))] = parent
	}
	return out
}

func written(file string) []int {
	b, _ := os.ReadFile(file) // no processes yet
	var out []int
	for field := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// statOf returns the state and parent of a process; false if there is none.
func statOf(pid int) (state byte, parent int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	return fields[0][0], parent, true
}

// keeperMemory bounds the anonymous memory of a keeper, in kB. All packages together have more than 4,000.
const keeperMemory = 2000

// ownMemory returns the anonymous memory of a process, in kB.
func ownMemory(t *testing.T, pid int) (kb int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "\nRssAnon:")
	if _, err := fmt.Sscan(after, &kb); err != nil {
		t.Fatal(err)
	}
	return kb
}

// runs reports whether a process is alive and not a zombie that waits for the system's first process.
func runs(pid int) bool {
	state, _, ok := statOf(pid)
	return ok && state != 'Z' && state != 'X'
}

func childrenOf(parent int) (out []int) {
	procs, _ := os.ReadDir("/proc")
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		if _, of, ok := statOf(pid); ok && of == parent {
			out = append(out, pid)
		}
	}
	return out
}
