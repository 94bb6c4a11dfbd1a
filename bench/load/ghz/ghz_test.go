package ghz

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const report = `{"count":12,"rps":2000.5,"average":1,"slowest":9000000,"errorDistribution":{"rpc error: b":1,"a":1},"statusCodeDistribution":{"OK":10,"Internal":2},
	"latencyDistribution":[{"percentage":50,"latency":1500},{"percentage":90,"latency":3000000},{"percentage":95,"latency":4},{"percentage":99,"latency":5000000}]}`

// A program in the place of ghz gets the flags, and its report is read.
func TestDo(t *testing.T) {
	dir := t.TempDir()
	program := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := filepath.Join(dir, "args")
	run := Run{Program: program("good", "echo \"$@\" >"+args+"\ncat <<'E'\n"+report+"\nE\n"), Addr: "127.0.0.1:1", Method: "/a.B/C", Data: "f.json", Connections: 3, Duration: time.Second}
	got, err := run.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Right() != 10 || got.Wrong() != 2 || got.Rate != 2000.5 || got.Slowest != 9e6 || got.First() != "a; rpc error: b" ||
		got.At(50) != 1500 || got.At(90) != 3*time.Millisecond || got.At(99) != 5*time.Millisecond || got.At(75) != 0 {
		t.Errorf("%+v", got)
	}
	given, err := os.ReadFile(args)
	if want := "--insecure --call a.B/C --data-file f.json --format json --concurrency 3 --connections 3 --duration 1s --duration-stop wait 127.0.0.1:1\n"; err != nil || string(given) != want {
		t.Errorf("%q %v", given, err)
	}
	for text, want := range map[string]string{"echo it is broken >&2\nexit 3\n": "it is broken", "echo no JSON\n": "invalid character"} {
		run.Program = program("bad", text)
		if _, err := run.Do(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
