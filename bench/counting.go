package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// counting is what counts the instructions of a process.
type counting struct {
	valgrind, vgdb string
	dir            string // for what callgrind writes
}

// newCounting looks for the programs.
func newCounting(dir string) (*counting, error) {
	c := &counting{dir: dir}
	for name, at := range map[string]*string{"valgrind": &c.valgrind, "vgdb": &c.vgdb} {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("bench: --instructions needs valgrind (Debian: apt-get install valgrind): %w", err)
		}
		*at = path
	}
	return c, nil
}

// under gives the command line that runs argv where its instructions are counted.
func (c *counting) under(name string, argv []string) []string {
	return append([]string{c.valgrind, "--tool=callgrind", "--callgrind-out-file=" + c.file(name)}, argv...)
}

func (c *counting) file(name string) string { return filepath.Join(c.dir, "callgrind."+name) }

// dump writes what a process has executed since the last dump, the n-th of it from 1, and gives the count.
func (c *counting) dump(ctx context.Context, name string, pid, n int) (uint64, error) {
	if out, err := exec.CommandContext(ctx, c.vgdb, "--pid="+strconv.Itoa(pid), "dump").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("bench: vgdb: %w: %s", err, out)
	}
	file, err := os.Open(c.file(name) + "." + strconv.Itoa(n))
	if err != nil {
		return 0, fmt.Errorf("bench: callgrind has written nothing: %w", err)
	}
	defer file.Close()
	return totals(file)
}

// totals reads the sum out of what callgrind has written.
func totals(r io.Reader) (uint64, error) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if text, ok := strings.CutPrefix(line, "totals: "); ok {
			return strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		}
		if err != nil {
			return 0, errors.New("bench: callgrind's file has no totals")
		}
	}
}

const hottestFew = 8

// hottest gives the functions that have executed most by themselves, of what callgrind has written. A name is said where it comes first, and
// is a number from then on.
func hottest(r io.Reader, few int) []string {
	names, own := map[string]string{}, map[string]uint64{}
	var now string
	var sum uint64
	called := false // the next line is what a call took
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		key, value, is := strings.Cut(line, "=")
		switch {
		case is && (key == "fn" || key == "cfn"):
			number, name, _ := strings.Cut(value, " ")
			if name != "" {
				names[number] = name
			}
			if key == "fn" {
				now = number
			}
		case is && key == "calls":
			called = true
		case is || line == "" || !strings.ContainsRune("0123456789+-*", rune(line[0])):
		case called:
			called = false
		default:
			words := strings.Fields(line)
			n, err := strconv.ParseUint(words[len(words)-1], 10, 64)
			if err == nil && len(words) > 1 {
				own[now] += n
				sum += n
			}
		}
	}
	all := slices.SortedFunc(maps.Keys(own), func(a, b string) int { return cmp.Compare(own[b], own[a]) })
	out := make([]string, 0, few)
	for _, number := range all[:min(few, len(all))] {
		out = append(out, fmt.Sprintf("%s %.0f %%", names[number], 100*float64(own[number])/float64(sum)))
	}
	return out
}
