package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/goleak"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
)

// TestMain lets the test binary play the roles.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleWord {
		os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// A whole run with everything real but short: processes, load, table and file.
func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	args := []string{
		"--rounds", "2", "--duration", "100ms", "--warmup", "10ms", "--connections", "2", "--sizes", "300,2000",
		"--cells", "direct,fasthttp,modern", "--dragoman", filepath.Join(dir, "absent"), "--nginx", filepath.Join(dir, "absent"),
		"--results", filepath.Join(dir, "results"),
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	if code := execute(ctx, args, nil, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if !strings.Contains(out.String(), "bare fasthttp proxy") || !strings.Contains(out.String(), "dragoman is not on this machine") {
		t.Errorf("table:\n%s", out.String())
	}
	files, err := filepath.Glob(filepath.Join(dir, "results", "*"))
	if err != nil || len(files) != 3 {
		t.Fatalf("results %v, %v", files, err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return !strings.HasSuffix(f, ".json") })
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err = json.Unmarshal(text, &got); err != nil || len(got.Rows) != 6 {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, row := range got.Rows {
		measured := row.Name != "modern"
		if (len(row.Rounds) == 2) != measured || row.errors() != 0 || row.Failed || (row.PerSecond.Median > 0) != measured {
			t.Errorf("%+v", row)
		}
		if row.Name == baseline && (row.RateRatio != measure.Spread{Median: 1, Min: 1, Max: 1, Rounds: 2}) {
			t.Errorf("the baseline against itself: %+v", row.RateRatio)
		}
	}
}

// A process that cannot be started or does not answer is a failed cell and an exit code, and the others are measured.
func TestBrokenDragoman(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho it is broken >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--rounds", "1", "--duration", "20ms", "--connections", "1", "--cells", "fasthttp,stdio", "--dragoman", broken,
		"--results", dir,
	}
	var out, errs bytes.Buffer
	if code := execute(t.Context(), args, nil, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "it is broken") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	if !strings.Contains(out.String(), "bare fasthttp proxy  ") {
		t.Errorf("table:\n%s", out.String())
	}
}

// The limits file must exist, and no report is written.
func TestLimitsWithoutDragoman(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "limits")
	if err := os.WriteFile(file, []byte("direct 100\nmodern 1.5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--rounds", "1", "--duration", "50ms", "--connections", "2", "--cells", "direct,modern", "--dragoman", filepath.Join(dir, "absent"),
		"--limits", file, "--results", filepath.Join(dir, "results")}
	var out, errs bytes.Buffer
	code := execute(t.Context(), args, nil, &out, &errs)
	if code != exitFailed || !strings.Contains(errs.String(), "modern was not measured: dragoman is not on this machine") || !strings.Contains(out.String(), "1 passed, 1 failed") {
		t.Errorf("%d, %s\n%s", code, errs.String(), out.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "results")); err == nil {
		t.Error("results were written")
	}
	// A cell that has become dearer is measured again.
	out.Reset()
	errs.Reset()
	if err := os.WriteFile(file, []byte("direct 0.0001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code = execute(t.Context(), args, nil, &out, &errs); code != exitFailed || !strings.Contains(out.String(), "measured again with 3 times the rounds: direct") || !strings.Contains(errs.String(), "dearer") {
		t.Errorf("%d, %s\n%s", code, errs.String(), out.String())
	}
}

func TestParseArgs(t *testing.T) {
	parse := func(args ...string) (settings, error) {
		var errs bytes.Buffer
		return parseArgs(args, &errs)
	}
	s, err := parse()
	if err != nil || s.rounds != 7 || s.duration != 1500*time.Millisecond || len(s.sizes) != 3 || len(s.cells) != len(allCells()) ||
		len(s.sections) != len(allSections()) || s.hold != 10*time.Minute {
		t.Errorf("defaults: %+v, %v", s, err)
	}
	s, err = parse("--short")
	if err != nil || s.rounds != 3 || s.duration != 400*time.Millisecond || s.hold != time.Minute {
		t.Errorf("short: %+v, %v", s, err)
	}
	s, err = parse("--short", "--rounds", "7", "--sizes", "300, 10240,300", "--cells", "stdio")
	if err != nil || s.rounds != 7 || s.duration != 400*time.Millisecond || len(s.sizes) != 2 || len(s.cells) != 2 ||
		len(s.sections) != 1 || s.sections[0].name != secCalls {
		t.Errorf("both: %+v, %v", s, err)
	}
	s, err = parse("--short", "--minutes", "0.5", "--sections", "memory,sse", "--cells", "modern")
	if err != nil || s.hold != 30*time.Second || len(s.sections) != 2 || s.sections[0].name != secSSE {
		t.Errorf("sections: %+v, %v", s, err)
	}
	for _, args := range [][]string{{"--instructions", "10"}, {"--limits", "file"}} {
		if s, err = parse(args...); err != nil || len(s.sizes) != 1 {
			t.Errorf("%v: %+v, %v", args, s, err)
		}
	}
	f := func(want string, args ...string) {
		t.Helper()
		if _, err := parse(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	f("--rounds must be", "--rounds", "0")
	f("--duration must be", "--duration", "0s")
	f("--warmup must be", "--warmup", "-1s")
	f("--connections must be", "--connections", "513")
	f("number of bytes", "--sizes", "300,")
	f("number of bytes", "--sizes", "300,x")
	f("number of bytes", "--sizes", "99999999999")
	f(`no "what"`, "--cells", "what")
	f(`no "what"`, "--sections", "calls,what")
	f("--minutes must be", "--minutes", "-1")
	f("--limits is for", "--limits", "file", "--sections", "sse")
	f("--keep is for", "--keep", "dir")
	f("unexpected argument", "extra")
	f("not defined", "--nonsense")
	var out, errs bytes.Buffer
	if code := execute(t.Context(), []string{"--rounds", "0"}, nil, &out, &errs); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	if code := execute(t.Context(), []string{"--help"}, nil, &out, &errs); code != 0 || !strings.Contains(errs.String(), "-sizes") {
		t.Errorf("help: exit code %d, %s", code, errs.String())
	}
}

func TestRoles(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if err := playRole(args, strings.NewReader(""), &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	f("a role is missing")
	f("no role", "king")
	f("the era must be", "echo", "--era", "old")
	f("not defined", "echo", "--nonsense")
	var out bytes.Buffer
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"server/discover"}` + "\n")
	if err := playRole([]string{"echo"}, in, &out); err != nil || !strings.Contains(out.String(), "supportedVersions") {
		t.Errorf("echo: %s, %v", out.String(), err)
	}
}

func TestReportArithmetic(t *testing.T) {
	f := func(name string, figures ...[2]float64) *row {
		r := &row{Name: name, Size: 300}
		for _, x := range figures {
			r.Rounds = append(r.Rounds, round{PerSecond: x[0], CPU: x[1]})
		}
		return r
	}
	fast := f(baseline, [2]float64{100, 10}, [2]float64{50, 20}, [2]float64{200, 5})
	half := f("modern", [2]float64{50, 11}, [2]float64{25, 22}) // given up in the third round
	other := f("modern", [2]float64{50, 10})
	other.Size = 10240
	half.fail(context.DeadlineExceeded)
	half.Rounds[0].Errors, half.Rounds[1].Errors = 2, 3
	far := f("modern", [2]float64{50, 10})
	far.Section = "elsewhere"
	r := report{Rows: []*row{fast, half, other, far}}
	r.sum()
	if want := (measure.Spread{Median: 0.5, Min: 0.5, Max: 0.5, Rounds: 2}); half.RateRatio != want {
		t.Errorf("rate %+v", half.RateRatio)
	}
	if want := (measure.Spread{Median: 1.1, Min: 1.1, Max: 1.1, Rounds: 2}); half.CPURatio != want {
		t.Errorf("CPU %+v", half.CPURatio)
	}
	if half.LeastRatio != 11.0/5 {
		t.Errorf("ratio of the minimums: %v", half.LeastRatio)
	}
	if other.RateRatio.Rounds != 0 || far.RateRatio.Rounds != 0 {
		t.Errorf("a ratio to another size, or in another section: %+v, %+v", other.RateRatio, far.RateRatio)
	}
	if fast.PerSecond.Median != 100 || half.errors() != 5 {
		t.Errorf("%+v, %d errors", fast.PerSecond, half.errors())
	}
	err := r.failure()
	if err == nil || !strings.Contains(err.Error(), "5 wrong answers") || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("failure: %v", err)
	}
}

func TestNewRound(t *testing.T) {
	latency := hdrhistogram.New(1, int64(time.Minute), 3)
	for range 2000 {
		_ = latency.RecordValue(int64(1500 * time.Nanosecond))
	}
	m := &meter{to: measure.CPU{Own: 30 * time.Millisecond, Children: 10 * time.Millisecond}, behind: [2]time.Duration{time.Millisecond, 3 * time.Millisecond},
		load: [2]time.Duration{0, 20 * time.Millisecond}}
	got := newRound(&drive.Result{Right: 2000, Errors: 1, Warmup: 1, Elapsed: 2 * time.Second, Latency: latency}, m, 4096)
	want := round{Requests: 2000, Errors: 2, PerSecond: 1000, P50: 1.5, P90: 1.5, P99: 1.5, Max: 1.5, CPU: 15, Children: 5, Behind: 1, Load: 10, RSS: 4096}
	if got != want || got.way() != 21 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got = newRound(&drive.Result{Latency: latency}, &meter{}, 0); got != (round{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
