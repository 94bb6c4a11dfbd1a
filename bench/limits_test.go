package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dragoman/bench/measure"
)

// A cell that executes more than its recorded ratio allows fails by its name. One that executes less is reported, and cells that were not
// measured are ignored.
func TestHold(t *testing.T) {
	r := &report{Rows: []*row{{Name: "fasthttp", Instructions: 100}, {Name: "modern", Instructions: 250}, {Name: "legacy", Instructions: 310}}}
	for _, row := range r.Rows {
		row.InstructionsRatio = float64(row.Instructions) / 100
	}
	for limits, want := range map[string]struct{ failed, told string }{
		"# all is as it was\nmodern 2.5\nlegacy\t2.9 # nearly\n\n": {"", "2 passed, 0 failed"},
		"modern 2.2\nlegacy 3.1\n":                                 {"modern executes 2.50", "1 passed, 1 failed"},
		"modern 3\n":                                               {"", "modern executes 2.50 times what the bare proxy does, and did 3.00: record it in"},
		"stdio 1\nmodern 2.5\n":                                    {"", "1 passed, 0 failed"},
		"modem 2.5\n":                                              {`"modem 2.5" is not a cell and a ratio`, ""},
		"modern two\n":                                             {"is not a cell and a ratio", ""},
		"modern\n":                                                 {"is not a cell and a ratio", ""},
	} {
		file := filepath.Join(t.TempDir(), "limits")
		if err := os.WriteFile(file, []byte(limits), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		_, err := r.hold(file, byInstructions(), &out)
		if (err != nil) != (want.failed != "") || err != nil && !strings.Contains(err.Error(), want.failed) || !strings.Contains(out.String(), want.told) {
			t.Errorf("%q: %v, %q", limits, err, out.String())
		}
	}
}

// Times have more slack, and the lower of median and minimum counts.
func TestHoldTimes(t *testing.T) {
	r := &report{Rows: []*row{{Name: "modern", CPURatio: measure.Spread{Median: 2, Min: 1, Max: 9}, LeastRatio: 3},
		{Name: "legacy", CPURatio: measure.Spread{Median: 3}, LeastRatio: 2}, {Name: "stdio", CPURatio: measure.Spread{Median: 2}, LeastRatio: 2}}}
	file := filepath.Join(t.TempDir(), "ratios")
	if err := os.WriteFile(file, []byte("modern 1.61\nlegacy 1.61\nstdio 1.59\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	failed, err := r.hold(file, byCPU(), &out)
	if err == nil || !slices.Equal(failed, []string{"stdio"}) || !strings.Contains(err.Error(), "stdio takes 2.00 times") || !strings.Contains(out.String(), "2 passed, 1 failed") {
		t.Errorf("%v, %v: %s", failed, err, out.String())
	}
	if _, err = r.hold(filepath.Join(t.TempDir(), "absent"), byCPU(), &out); err == nil {
		t.Error("a missing file was accepted")
	}
}

// A start that takes longer than its recorded ratio allows fails by its name; the lower of median and minimum counts.
func TestHoldStarts(t *testing.T) {
	r := &report{Start: []*startRow{{Name: startServer, Sum: measure.Sum([]float64{2, 3, 4})}, {Name: startHTTP, Sum: measure.Sum([]float64{4, 9, 30})}, {Name: startStdio, Sum: measure.Sum([]float64{12, 15, 16})}}}
	for limits, want := range map[string]struct{ failed, told string }{
		"http 2\nstdio 5 # all is as it was\n": {"", "2 passed, 0 failed"},
		"http 1.49\n":                          {"", "start http takes 2.00 times"},
		"http 1.48\nstdio 4\n":                 {"start http takes 2.00 times what a bare server does, and did 1.48", "1 passed, 1 failed"},
		"stdio 3.6\n":                          {"a start has become slower", "0 passed, 1 failed"},
		"modern 2\n":                           {"is not a cell and a ratio", ""},
	} {
		file := filepath.Join(t.TempDir(), "limits")
		if err := os.WriteFile(file, []byte(limits), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err := r.holdStarts(file, &out)
		if (err != nil) != (want.failed != "") || err != nil && !strings.Contains(err.Error(), want.failed) || !strings.Contains(out.String(), want.told) {
			t.Errorf("%q: %v, %q", limits, err, out.String())
		}
	}
	if err := (&report{}).holdStarts("starts.tsv", &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "was not measured") {
		t.Error(err)
	}
}

// The committed files can be read.
func TestCommittedLimits(t *testing.T) {
	for file, known := range map[string]func(string) bool{"instructions.tsv": isCell, "ratios.tsv": isCell, "starts.tsv": isStart} {
		if limits, err := readLimits(file, known); err != nil || len(limits) < 2 {
			t.Errorf("%s: %v, %v", file, limits, err)
		}
	}
}
