package cli

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What is imported is paid for by each start, used or not, so it is counted: what a package allocates while it is initialized. One that
// does much of it (compiles, fills tables) belongs behind a call that is made when it is wanted.
const (
	initMost    = 150_000                                    // bytes, of one package
	metaschemas = "github.com/santhosh-tekuri/jsonschema/v6" // compiles those of five drafts whether they are wanted or not: 1.7 MB, 3 ms
)

// TestStart is about the way of the program itself to its first answer.
func TestStart(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "dragoman")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Run("what packages allocate", func(t *testing.T) {
		bytes, all := inits(t, exec.CommandContext(t.Context(), bin, "version")), 0
		for name, n := range bytes {
			if all += n; n > initMost && name != metaschemas {
				t.Errorf("%s allocates %d bytes when it is initialized, more than %d", name, n, initMost)
			}
		}
		if _, there := bytes["dragoman/internal/cli"]; !there {
			t.Errorf("%d packages, and ours are not among them", len(bytes))
		}
		t.Logf("%d bytes", all)
	})
}

// inits runs a command and tells what each package allocated when it was initialized.
func inits(t *testing.T, c *exec.Cmd) map[string]int {
	t.Helper()
	c.Env = append(c.Env, "GODEBUG=inittrace=1")
	var log bytes.Buffer
	c.Stderr = &log
	_ = c.Run() // how it ends is not the question
	out := map[string]int{}
	for line := range strings.Lines(log.String()) { // init NAME @1.2 ms, 0.1 ms clock, 123 bytes, 4 allocs
		fields := strings.Fields(line)
		if at := slices.Index(fields, "bytes,"); at > 1 && fields[0] == "init" {
			n, err := strconv.Atoi(fields[at-1])
			if err != nil {
				t.Fatal(line)
			}
			out[fields[1]] = n
		}
	}
	return out
}

// A command is made alone if it is the one that is wanted, and as it is among all.
func TestOnlyTheWantedCommand(t *testing.T) {
	all := newRoot(&program{})
	for _, want := range commands() {
		root := newRoot(&program{only: want.name})
		if n := len(root.Commands()); n != 1 {
			t.Errorf("%s: %d commands", want.name, n)
		}
		alone, _, err := root.Find([]string{want.name})
		if err != nil || alone.Name() != want.name {
			t.Fatal(want.name, err)
		}
		among, _, err := all.Find([]string{want.name})
		if err != nil || alone.UsageString() != among.UsageString() {
			t.Errorf("%s: %v\n%s\n%s", want.name, err, alone.UsageString(), among.UsageString())
		}
	}
}
