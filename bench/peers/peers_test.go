//go:build linux

package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/bench/measure"
	"dragoman/bench/reference"
)

// TestMain lets this binary be the child, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == echoWord {
		if reference.ServeEcho(os.Stdin, os.Stdout, reference.Legacy) != nil {
			os.Exit(exitFailed)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestParseArgs(t *testing.T) {
	var said bytes.Buffer
	s, err := parseArgs([]string{"--short", "--sizes", "300,5000", "--only", "tbxark", "--steps", "rates"}, &said)
	if err != nil || s.rounds != 2 || !slices.Equal(s.steps, []string{stepRates}) || !s.wants("tbxark") || s.wants("tbxark-sse") ||
		!slices.Equal(s.sizes, []size{{300, 300, 2}, {5000, 5000, 0}}) {
		t.Errorf("%+v, %v", s, err)
	}
	f := func(want string, args ...string) {
		t.Helper()
		if _, err := parseArgs(args, &said); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	f("there is no", "--steps", "nothing")
	f("is not a number of bytes", "--sizes", "0")
	f("--rounds is 1 to", "--rounds", "-1")
	f("unexpected argument", "more")
	if _, err := newBench(settings{only: []string{"nobody"}}, &said); err == nil || !strings.Contains(err.Error(), "leaves nobody") {
		t.Errorf("nobody: %v", err)
	}
}

// testBench is a bench whose only contender is a shell that starts the child.
func testBench(t *testing.T) *bench {
	t.Helper()
	var said bytes.Buffer
	b, err := newBench(settings{}, &said)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// A contender's own processes and the children are told apart, and what survives SIGTERM is found, counted and ended.
func TestTree(t *testing.T) {
	b := testBench(t)
	// The child reads from a pipe that a process holds which ignores SIGTERM and leaves the group.
	script := `trap "" TERM; sleep 60 | "$@" >"$0" & wait`
	c := &contender{name: "shell", argv: func(p *place) ([]string, error) {
		return append([]string{"/bin/sh", "-c", script, filepath.Join(p.dir, "out")}, p.child...), nil
	}}
	r, err := b.start(context.Background(), c, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	var got census
	for end := time.Now().Add(10 * time.Second); ; <-time.After(5 * time.Millisecond) {
		if got, err = r.tree.read(); err != nil {
			t.Fatal(err)
		}
		if got.Children.Processes == 1 && got.Own.Processes == 2 && got.Own.PSS > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the tree is %+v", got)
		}
	}
	if got.Root.Processes != 1 || got.Root.PSS <= 0 || got.Root.PSS > got.Own.PSS || got.Children.PSS <= 0 {
		t.Errorf("the tree weighs %+v", got)
	}
	if left := r.tree.survivors(0); len(left) != 3 {
		t.Errorf("%d are alive: %v", len(left), left)
	}
	b.stop(r) // after measure's grace the group is killed
	if left := r.tree.survivors(goneLimit); len(left) != 0 {
		t.Errorf("left after the end: %v", left)
	}
}

func TestCPUBetween(t *testing.T) {
	before := census{Own: group{cpu: 10, reaped: 1}, Children: group{cpu: 5}}
	after := census{Own: group{cpu: 17, reaped: 7}, Children: group{cpu: 2}} // a child with 5 has ended, and is its parent's
	if own, all := cpuBetween(before, after); own != 7 || all != 10 {
		t.Errorf("%d, %d", own, all)
	}
}

func TestStartChild(t *testing.T) {
	if took, err := testBench(t).startChild(t.Context()); err != nil || took <= 0 {
		t.Errorf("%v, %v", took, err)
	}
}

// rowOf is a row with these rates; a call costs its contender's proxy 1000 µs divided by the rate.
func rowOf(c *contender, kind faceKind, s size, rates ...float64) rateRow {
	row := rateRow{Contender: c.name, Face: kind, Size: s, contender: c}
	for _, r := range rates {
		row.Rounds = append(row.Rounds, rate{Requests: 1, PerSecond: r, Own: 1000 / r, All: 2000 / r, Generator: 1})
	}
	row.sum()
	return row
}

func TestVerdicts(t *testing.T) {
	b := testBench(t)
	all := contenders()
	ours, slow, fast := &all[0], &contender{name: "slow"}, &contender{name: "fast"}
	small := size{300, 300, 2}
	wrong := rowOf(&contender{name: "wrong"}, streamable, small, 9999)
	wrong.Errors = 1
	r := &report{Machine: map[string]string{}, Rates: []rateRow{
		rowOf(ours, streamable, small, 30, 60, 90), rowOf(slow, streamable, small, 10, 10, 10), rowOf(fast, streamable, small, 10, 20, 60),
		rowOf(fast, httpSSE, small, 500), rowOf(fast, streamable, size{1, 1, 0}, 500), wrong,
	}}
	r.finish(b)
	if len(r.Verdicts) != 1 {
		t.Fatalf("%+v", r.Verdicts)
	}
	v := r.Verdicts[0]
	if want := (measure.Spread{Median: 3, Min: 1.5, Max: 3, Rounds: 3}); v.Best != "fast" || v.Lean != "fast" || v.Rate != want || v.CPU.Median != 3 || math.Abs(v.Bound-(100+1)/(1000.0/60+1)) > 1e-9 {
		t.Errorf("%+v", v)
	}
	var text strings.Builder
	r.markdown(&text)
	for _, want := range []string{"| 300 B | streamable HTTP | dragoman | 3.0 (1.5–3.0) | 5.7 | ≥ 2: met | fast |", "## Calls"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if err := r.failure(); err != nil {
		t.Error("a peer's wrong answers are no failure:", err)
	}
	r.Rates[0].Errors = 1
	if r.failure() == nil {
		t.Error("Dragoman's are")
	}
	names, err := r.write(t.TempDir())
	if err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestConfigurations(t *testing.T) {
	s := &settings{dragoman: "D", node: "N", npm: "M", tbxark: "T"}
	f := func(name string, idle time.Duration, want ...string) {
		t.Helper()
		for _, c := range contenders() {
			if c.name != name {
				continue
			}
			dir := t.TempDir()
			argv, err := c.argv(&place{settings: s, dir: dir, port: "4711", child: []string{"/x", "echo", "id"}, idleTTL: idle, extra: "more = 1"})
			text := strings.Join(argv, " ")
			files, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, file := range files {
				raw, _ := os.ReadFile(file)
				text += "\n" + string(raw)
			}
			for _, w := range append(want, "4711", "/x") {
				if err != nil || !strings.Contains(text, w) {
					t.Errorf("%s: %v, no %q in %s", name, err, w, text)
				}
			}
			return
		}
		t.Errorf("there is no %s", name)
	}
	f("dragoman", time.Second, "D serve --config", `idle_ttl = "1s"`, `isolation = "session"`, `command = ["/x","echo","id"]`, "more = 1")
	f("supergateway", 2*time.Second, "N M/supergateway/", "--stdio /x echo id", "--stateful --sessionTimeout 2000")
	f("mcp-proxy", time.Second, "--sessionIdleTimeout 1000 -- /x echo id")
	f("tbxark-sse", 0, "T --config", `"args":["echo","id"]`, `"type":"sse"`)
}
