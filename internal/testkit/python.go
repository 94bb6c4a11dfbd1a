package testkit

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Python returns an interpreter that has the given packages, such as "jinja2==3.1.6", and no others. It is made once, in .tmp of the repository, by
// pip, and needs python3 with venv.
func Python(t *testing.T, packages ...string) (program string) {
	t.Helper()
	sum := sha256.Sum256([]byte(strings.Join(packages, " ")))
	top, err := root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, ".tmp", "python-"+hex.EncodeToString(sum[:6]))
	program = filepath.Join(dir, "bin", "python")
	ready := filepath.Join(dir, ".ready")
	if _, err := os.Stat(ready); err == nil {
		return program
	}
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil { //nolint:gosec // python3, or what it has made
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	if err := os.RemoveAll(dir); err != nil { // what an attempt that was interrupted has left
		t.Fatal(err)
	}
	run("python3", "-m", "venv", dir)
	if len(packages) > 0 {
		run(program, append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, packages...)...)
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return program
}
