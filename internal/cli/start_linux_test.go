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

// Every start pays for the initialization of imported packages, used or not, so their allocations are limited. Expensive initialization
// (compiling, filling tables) belongs into a function that is called on demand.
const initMost = 150_000 // bytes, of one package

// initOf are the bounds of packages of others that need more in any case.
var initOf = map[string]int{
	"github.com/santhosh-tekuri/jsonschema/v6":     2_000_000, // compiles the metaschemas of five drafts: 1.7 MB, 3 ms
	"google.golang.org/protobuf/reflect/protodesc": 200_000,   // reads the defaults of protobuf's editions: 0.18 MB, 0.3 ms
}

// TestStart measures the program's own part of the time to its first answer.
func TestStart(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "dragoman")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Run("what packages allocate", func(t *testing.T) {
		bytes, all := inits(t, exec.CommandContext(t.Context(), bin, "version")), 0
		for name, n := range bytes {
			most := initMost
			if of := initOf[name]; of > 0 {
				most = of
			}
			if all += n; n > most {
				t.Errorf("%s allocates %d bytes when it is initialized, more than %d", name, n, most)
			}
		}
		if _, there := bytes["dragoman/internal/cli"]; !there {
			t.Errorf("%d packages, none of them Dragoman's", len(bytes))
		}
		t.Logf("%d bytes", all)
	})
	t.Run("no collection of garbage", func(t *testing.T) {
		c := exec.CommandContext(t.Context(), bin, "version")
		c.Env = append(c.Env, "GODEBUG=gctrace=1,inittrace=1")
		var log bytes.Buffer
		c.Stderr = &log
		if err := c.Run(); err != nil || !strings.Contains(log.String(), "init dragoman/internal/cli ") || strings.Contains("\n"+log.String(), "\ngc ") {
			t.Errorf("%v\n%s", err, log.String())
		}
	})
}

// inits runs a command and returns what each package allocated during initialization.
func inits(t *testing.T, c *exec.Cmd) map[string]int {
	t.Helper()
	c.Env = append(c.Env, "GODEBUG=inittrace=1")
	var log bytes.Buffer
	c.Stderr = &log
	_ = c.Run() // the exit code does not matter
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

// Each command is built alone if it is the requested one, and equals the one built among all.
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
