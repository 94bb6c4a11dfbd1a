package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTotals(t *testing.T) {
	for text, want := range map[string]uint64{
		"version: 1\nfn=(1) a\n16 400\n\ntotals: 1234567\n": 1234567,
		"summary: 12\ntotals: 12":                           12,
	} {
		if got, err := totals(strings.NewReader(text)); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "summary: 12\n", "totals: many\n"} {
		if got, err := totals(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// A cell that executes more than was written down fails, by its name; less is told, and what was not asked for is nobody's fault.
func TestHold(t *testing.T) {
	r := &report{Rows: []*row{{Name: "fasthttp", Instructions: 100}, {Name: "modern", Instructions: 250}, {Name: "legacy", Instructions: 310}}}
	for _, row := range r.Rows {
		row.InstructionsRatio = float64(row.Instructions) / 100
	}
	for limits, want := range map[string]struct{ failed, told string }{
		"# all is as it was\nmodern 2.5\nlegacy\t2.9 # nearly\n\n": {"", "2 passed, 0 failed"},
		"modern 2.2\nlegacy 3.1\n":                                 {"modern executes 2.50", "1 passed, 1 failed"},
		"modern 3\n":                                               {"", "modern executes 2.50 times what the bare proxy does, and did 3.00: write it into"},
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
		err := r.hold(file, &out)
		if (err != nil) != (want.failed != "") || err != nil && !strings.Contains(err.Error(), want.failed) || !strings.Contains(out.String(), want.told) {
			t.Errorf("%q: %v, %q", limits, err, out.String())
		}
	}
}
