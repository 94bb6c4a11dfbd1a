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

// counting counts the instructions of processes by callgrind.
type counting struct {
	valgrind, vgdb string
	dir            string // for callgrind's files
}

// newCounting finds the programs that it needs.
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

// under returns the command line that runs argv under callgrind.
func (c *counting) under(name string, argv []string) []string {
	return append([]string{c.valgrind, "--tool=callgrind", "--callgrind-out-file=" + c.file(name)}, argv...)
}

func (c *counting) file(name string) string { return filepath.Join(c.dir, "callgrind."+name) }

// dump has callgrind write its n-th file, counted from 1, and returns how many instructions the process has executed since the last one.
func (c *counting) dump(ctx context.Context, name string, pid, n int) (uint64, error) {
	if out, err := exec.CommandContext(ctx, c.vgdb, "--pid="+strconv.Itoa(pid), "dump").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("bench: vgdb: %w: %s", err, out)
	}
	file, err := os.Open(c.file(name) + "." + strconv.Itoa(n))
	if err != nil {
		return 0, fmt.Errorf("bench: callgrind wrote no file: %w", err)
	}
	defer file.Close()
	return totals(file)
}

// totals reads the total of a file of callgrind.
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

// hottest returns the functions of a callgrind file with the most instructions of their own. The file gives the name of a function once,
// and then refers to it by number.
func hottest(r io.Reader, few int) []string {
	names, own := map[string]string{}, map[string]uint64{}
	var now string
	var sum uint64
	called := false // the next line is the cost of a call
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
