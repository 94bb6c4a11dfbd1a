//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/bench/lab/soak/child"
	"dragoman/bench/lab/soak/client"
	"dragoman/bench/lab/soak/ledger"
)

// TestMain lets the test binary play the children.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == child.Word {
		os.Exit(child.Main(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func TestArguments(t *testing.T) {
	s, err := parseArgs([]string{"--short", "--seed", "7"}, io.Discard)
	if err != nil || s.duration != 25*time.Second || s.rounds != 1 || s.seed != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = parseArgs([]string{"--short", "--duration", "1h"}, io.Discard); err != nil || s.duration != time.Hour || s.seed == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range [][]string{{"--duration", "0s"}, {"--duration", "25h"}, {"--rate", "0"}, {"--rate", "1001"}, {"--only", "("}, {"more"}, {"--no"}} {
		if _, err = parseArgs(bad, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "soak: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

var serverName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// Names are valid for Dragoman, and every journey fits some server.
func TestScenarios(t *testing.T) {
	names := map[string]bool{}
	visited := map[string]bool{}
	for _, s := range scenarios() {
		if names[s.name] || len(s.good) == 0 {
			t.Errorf("scenario %q", s.name)
		}
		names[s.name] = true
		seen := map[string]bool{}
		for _, up := range s.servers() {
			if seen[up.name] || !serverName.MatchString(up.name) {
				t.Errorf("server %q", up.name)
			}
			seen[up.name] = true
			for _, j := range journeys() {
				if j.fits(&up) {
					visited[j.name] = true
				}
			}
		}
		text := s.config("/self", "mark", "123")
		for _, want := range []string{`request_time = "1`, `command = ["/self", "child", "legacy/good"]`, `SOAK_RUN = "mark", SOAK_UNTIL = "123"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in\n%s", s.name, want, text)
			}
		}
		if strings.Contains(text, "%!") {
			t.Errorf("%s:\n%s", s.name, text)
		}
	}
	for _, j := range journeys() {
		if !visited[j.name] {
			t.Errorf("no server for the journey %q", j.name)
		}
	}
}

func TestPick(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := journeys()
	shared := server{role: role(!modern, child.Good), isolation: "shared"}
	counts := map[string]int{}
	for range 3000 {
		counts[pick(all, &shared, rng).name]++
	}
	if counts["modern-suspend"]+counts["asked"]+counts["huge"]+counts["flood"] > 0 || counts["abandon"] < 2*counts["handshake"] {
		t.Error(counts)
	}
}

func TestExpectedErrors(t *testing.T) {
	rpc := &client.RPCError{Code: -32603}
	rpc.Data.Code = "upstream_lost"
	late := fmt.Errorf("client: read: %w", os.ErrDeadlineExceeded)
	closed := fmt.Errorf("client: %w", io.ErrUnexpectedEOF)
	wrong := fmt.Errorf("%w: id", client.ErrWrong)
	f := func(kind child.Kind, err error, may bool) {
		t.Helper()
		s := server{role: role(!modern, kind)}
		if got := s.may(errorName(err)); got != may {
			t.Errorf("%s may %q: %v", kind, errorName(err), got)
		}
	}
	for _, err := range []error{rpc, late, closed, wrong, errors.New("strange")} {
		f(child.Good, err, false)
		f(child.Fork, err, false)
	}
	f(child.Good, client.ErrExpired, true)
	f(child.CrashCall, rpc, true)
	f(child.CrashCall, closed, true)
	f(child.CrashCall, late, false)
	f(child.Hang, late, true)
	f(child.Hang, wrong, false)
	f(child.CrashCall, errors.New("strange"), false)
}

func TestTally(t *testing.T) {
	var tl tally
	good, hang := server{name: "good", role: role(!modern, child.Good)}, server{name: "hang", role: role(!modern, child.Hang)}
	late := fmt.Errorf("client: read: %w", os.ErrDeadlineExceeded)
	tl.outcome(&good, "legacy", nil)
	tl.outcome(&hang, "legacy", late)
	tl.outcome(&hang, "modern", late)
	tl.outcome(&good, "modern", late)
	c, wrongs := tl.snapshot()
	if c.Clients != 4 || c.Errors[nameLate] != 2 || c.Wrong != 1 || len(wrongs) != 1 || !strings.HasPrefix(wrongs[0], "good, modern: ") {
		t.Errorf("%+v %q", c, wrongs)
	}
	if got := list(map[string]int{"b": 1, "a": 1, "c": 3}); got != "c 3, a 1, b 1" {
		t.Error(got)
	}
}

const dumped = `SIGQUIT: quit

goroutine 0 gp=0x1 m=0 mp=0x2 [idle]:
runtime.futex(0x1)
	/usr/local/go/src/runtime/sys.s:1 +0x1

goroutine 7 gp=0x3 m=nil [select, 2 minutes]:
runtime.gopark(0x1?)
	/x.go:1 +0x1
dragoman/adapters/era.(*pool).wait({0x1, 0x2}, 0x3)
	/x.go:2 +0x1
main.serve(...)
	/x.go:3 +0x1
created by dragoman/adapters/era.start in goroutine 1
	/x.go:4 +0x1

goroutine 8 gp=0x3 m=nil [select]:
dragoman/adapters/era.(*pool).wait({0x1, 0x2}, 0x3)
	/x.go:2 +0x1
main.serve(...)
	/x.go:3 +0x1

rax 0x1
`

func TestGroups(t *testing.T) {
	want := []string{"2 × [select] adapters/era.(*pool).wait < main.serve"}
	if got := groups([]byte(dumped)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestLogFile(t *testing.T) {
	l, err := newLogFile(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, part := range []string{"noise\n{\"message\":\"other\"}\n{\"mess", "age\":\"listening\",\"listen\":\"http://h:1\",\"mcp\":[\"http://h:1/servers/a/mcp\",\"http://h:1/servers/b/mcp\"],\"admin\":\"http://h:2\"}", "\nmore\n"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	select {
	case at := <-l.listening:
		if at.Listen != "http://h:1" || at.Admin != "http://h:2" {
			t.Errorf("%+v", at)
		}
	default:
		t.Error("the addresses were not found")
	}
	if !strings.HasSuffix(l.tail(), "more") {
		t.Error(l.tail())
	}
}

// The report fails with the first reason in front.
func TestReport(t *testing.T) {
	ok := &result{Name: "a", Before: &ledger.Reading{Children: 1}, After: &ledger.Reading{Children: 1}, load: &tally{}}
	leaks := &result{Name: "b", load: &tally{}}
	leaks.fail("children: 1 before, 2 after (+1)")
	r := report{Results: []*result{ok}, Kills: []*killed{{Name: "k"}}}
	if err := r.failure(); err != nil {
		t.Error(err)
	}
	r.Results = append(r.Results, leaks)
	r.Kills[0].fail("somebody")
	err := r.failure()
	if err == nil || !strings.HasPrefix(err.Error(), "soak: FAILED: b: children: 1 before, 2 after (+1) (2 failures") {
		t.Error(err)
	}
	var out strings.Builder
	r.print(&out)
	if !strings.HasPrefix(out.String(), err.Error()) || !strings.Contains(out.String(), "a: ok") || !strings.Contains(out.String(), "b: FAILED") {
		t.Error(out.String())
	}
	lied := &result{Name: "c", load: &tally{}}
	lied.load.outcome(&server{name: "good", role: role(!modern, child.Good)}, "modern", client.ErrWrong)
	lied.close()
	if err = (&report{Results: []*result{lied}}).failure(); err == nil || !strings.Contains(err.Error(), "c: 1 of 1 clients got a wrong answer, the first of good, modern: client: a wrong answer (") {
		t.Error(err)
	}
	if (&report{}).failure() == nil {
		t.Error("an empty report did not fail")
	}
	file := filepath.Join(t.TempDir(), "r.json")
	if err = r.write(file); err != nil {
		t.Error(err)
	}
	if raw, err := os.ReadFile(file); err != nil || !strings.Contains(string(raw), `"children: 1 before, 2 after (+1)"`) {
		t.Error(err)
	}
}
