//go:build linux

package procs

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const behind = " 0 0 0 -1 0 0 0 0 1 2 0 0 20 0 1 0 777 0 0\n"

func TestParseStat(t *testing.T) {
	f := func(raw string, want Process) {
		t.Helper()
		if got, err := parseStat([]byte(raw)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", raw, got, err)
		}
	}
	f("12 (cat) S 3 4"+behind, Process{PID: 12, Parent: 3, Group: 4, State: 'S', Start: 777, Name: "cat"})
	f("12 (a) Z 1 (b) Z 3 4"+behind, Process{PID: 12, Parent: 3, Group: 4, State: 'Z', Start: 777, Name: "a) Z 1 (b"})
	for _, raw := range []string{"", "12 cat S 3 4" + behind, ")(", "12 (cat) S 3 4", "x (cat) S 3 4" + behind, "12 (cat) S x 4" + behind} {
		if p, err := parseStat([]byte(raw)); err == nil {
			t.Errorf("%q: %+v", raw, p)
		}
	}
}

func TestBelow(t *testing.T) {
	table := Table{1: {PID: 1}, 2: {PID: 2, Parent: 1}, 3: {PID: 3, Parent: 2}, 4: {PID: 4, Parent: 3}, 5: {PID: 5, Parent: 1}, 6: {PID: 6, Parent: 7}, 7: {PID: 7, Parent: 6}}
	var pids []int
	for _, p := range table.Below(2) {
		pids = append(pids, p.PID)
	}
	if !slices.Equal(pids, []int{3, 4}) {
		t.Error(pids)
	}
	if top := table.topBelow(table[4], 1); top != 2 {
		t.Error(top)
	}
}

func TestHolds(t *testing.T) {
	const environ = "A=1\x00SOAK=abc\x00B=2\x00"
	for entry, want := range map[string]bool{"SOAK=abc": true, "SOAK=ab": false, "OAK=abc": false, "B=2": true, "C=3": false} {
		if holds([]byte(environ), entry) != want {
			t.Errorf("%q: %v", entry, !want)
		}
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-tick.C {
		if cond() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

// An orphan that has left its group and session and has no environment is adopted by the keeper, found, killed and reaped. A command of
// Start is left to its caller.
func TestKeeper(t *testing.T) {
	k, err := Keep()
	if err != nil {
		t.Skip(err)
	}
	defer k.Close()
	own := exec.Command("sleep", "60")
	if err = k.Start(own); err != nil {
		t.Fatal(err)
	}
	maker := exec.Command("sh", "-c", "setsid env -i sleep 61 >/dev/null 2>&1 &")
	if err = k.Start(maker); err != nil {
		t.Fatal(err)
	}
	if err = k.Wait(maker); err != nil {
		t.Fatal(err)
	}
	var stray Process
	eventually(t, "the orphan is adopted", func() bool {
		strays, err := k.Strays()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(strays, func(p Process) bool { return strings.Contains(CommandLine(p.PID), "sleep 61") })
		if i < 0 || strays[i].Parent != os.Getpid() {
			return false
		}
		stray = strays[i]
		return len(strays) == 1 // not own
	})
	if err = Kill(ID{PID: stray.PID, Start: stray.Start + 1}); err != nil {
		t.Fatal(err)
	}
	if table, err := Read(); err != nil || table[stray.PID].ID() != stray.ID() || table[stray.PID].Zombie() {
		t.Fatalf("a process with another start time was killed: %v, %v", table[stray.PID], err)
	}
	if err = Kill(stray.ID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the orphan is reaped", func() bool { return k.Orphans() == 1 })
	if err = Kill(stray.ID()); err != nil {
		t.Error("an ended process:", err)
	}
	if err = own.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err = k.Wait(own); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the keeper has reaped it: %v", err)
	}
}

func TestMarkedAndUsage(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.Env = []string{"SOAK_TEST=" + strconv.Itoa(os.Getpid())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	eventually(t, "the marked process is found", func() bool {
		table, err := Read()
		if err != nil {
			t.Fatal(err)
		}
		marked := table.Marked(cmd.Env[0])
		return len(marked) == 1 && marked[0].PID == cmd.Process.Pid && strings.HasSuffix(Program(cmd.Process.Pid), "/sleep")
	})
	u, err := ReadUsage(cmd.Process.Pid)
	if err != nil || u.FDs < 3 || u.RSS <= 0 || u.Code <= 0 || u.Code >= u.RSS || u.Threads != 1 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err = ReadUsage(1 << 30); err == nil {
		t.Error("there is no such process")
	}
}
