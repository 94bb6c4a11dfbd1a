package measure

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseStat(t *testing.T) {
	const rest = " S 41 9 9 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 5 0 123 456 789 1 2 3"
	f := func(raw string, parent int, cpu time.Duration, ok bool) {
		t.Helper()
		got, err := parseStat([]byte(raw))
		want := stat{parent: parent, cpu: cpu}
		if ok {
			want.reaped = 150 * time.Millisecond
		}
		if ok != (err == nil) || got != want {
			t.Errorf("%q: %+v, %v", raw, got, err)
		}
	}
	f("9 (bench)"+rest, 41, 3*time.Second, true)
	f("9 (a) b (c) d)"+rest, 41, 3*time.Second, true)
	f("", 0, 0, false)
	f("9 (bench) S 41", 0, 0, false)
	f("9 (bench)"+strings.Replace(rest, "250", "x", 1), 0, 0, false)
}

func TestReadOwnFigures(t *testing.T) {
	before, err := ReadCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		after, err := ReadCPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after.Sub(before).Own >= 2*tick {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no CPU time seen: %v, then %v", before, after)
		}
	}
	// By the process's own clock: a reading takes some time itself, and much less than a tick.
	one, err := ReadOwn(os.Getpid())
	two, err2 := ReadOwn(os.Getpid())
	if err != nil || err2 != nil || two < one || one%tick == 0 && two%tick == 0 {
		t.Errorf("%v, then %v; %v, %v", one, two, err, err2)
	}
	if rss, err := ReadRSS(os.Getpid()); err != nil || rss < 1<<20 {
		t.Errorf("memory %d, %v", rss, err)
	}
	if _, err := ReadCPU(1 << 30); err == nil {
		t.Error("CPU time of no process")
	}
}

func TestReadMemory(t *testing.T) {
	const rollup = `00400000-7fff00000000 ---p 00000000 00:00 0                      [rollup]
Rss:                5000 kB
Pss:                3000 kB
Pss_Anon:           1000 kB
Shared_Clean:       2000 kB
Private_Clean:       400 kB
Private_Dirty:       600 kB
`
	got, err := parseRollup([]byte(rollup))
	if want := (Memory{RSS: 5000 << 10, PSS: 3000 << 10, USS: 1000 << 10}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err = parseRollup([]byte("nothing")); err == nil {
		t.Error("memory of nothing")
	}
	own, err := ReadMemory(os.Getpid())
	if err != nil || own.USS <= 0 || own.USS > own.PSS || own.PSS > own.RSS {
		t.Errorf("own memory %+v, %v", own, err)
	}
}

func TestProcess(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	log := filepath.Join(t.TempDir(), "log")
	run := func(script string, announces bool) (*Process, error) {
		return Start(ctx, Command{Name: "it", Argv: []string{sh, "-c", script}, Log: log, Announces: announces})
	}
	p, err := run("echo 127.0.0.1:1; exec cat >/dev/null", true)
	if err != nil {
		t.Fatal(err)
	}
	if p.First != "127.0.0.1:1" || p.Failed() != nil {
		t.Errorf("announced %q, %v", p.First, p.Failed())
	}
	if p.Stop(); p.Failed() == nil {
		t.Error("runs after Stop")
	}
	if _, err = run("echo oh no >&2; exit 3", true); err == nil || !strings.Contains(err.Error(), "oh no") {
		t.Errorf("silent process: %v", err)
	}
	if p, err = run("exit 3", false); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if err = p.Failed(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("ended process: %v", err)
	}
	p.Stop()
}
