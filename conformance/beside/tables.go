package main

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxLine bounds a line of a table, in bytes.
const maxLine = 64 << 10

// server is a line of servers.tsv.
type server struct {
	name    string
	made    string // its SDK
	path    string // of its URL; "-": stdio
	short   bool   // part of a short run
	command string // {port} stands for its port
	note    string
}

func (s *server) stdio() bool { return s.path == "-" }

// counterpart is a line of counterparts.tsv: which of our checks correspond to a check of the official suite.
type counterpart struct {
	official string // scenario:check, with * as a wildcard
	ours     []string
	note     string // why there is none
	line     int
	used     bool
}

// differ is a line of differs.tsv: why the two suites find different things.
type differ struct {
	official, revisions, servers string // patterns, in the last two separated by commas
	right                        string // ours, suite or both
	page, reason                 string
	sometimes                    bool // it need not occur in each run
	line                         int
	used                         []*row
}

// fault is a line of faults.tsv: the cause of a broken MUST.
type fault struct {
	servers, checks string // patterns, separated by commas
	whose           string // SDK, server, fixture
	sometimes       bool
	note            string
	line            int
	used            bool
}

// tables has all tables.
type tables struct {
	servers      []*server
	counterparts []*counterpart
	differs      []*differ
	faults       []*fault
}

// readTables reads the tables of a directory.
func readTables(dir string) (*tables, error) {
	t := &tables{}
	for _, table := range []struct {
		name    string
		columns int
		take    func(line int, f []string) error
	}{{"servers.tsv", 6, t.server}, {"counterparts.tsv", 3, t.counterpart}, {"differs.tsv", 6, t.differ}, {"faults.tsv", 4, t.fault}} {
		if err := readTable(filepath.Join(dir, table.name), table.columns, table.take); err != nil {
			return nil, fmt.Errorf("beside: %w", err)
		}
	}
	return t, nil
}

// readTable reads a table with tab-separated columns. Lines that begin with # are comments.
func readTable(name string, columns int, take func(line int, f []string) error) error {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		text := lines.Text()
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
			continue
		}
		f := strings.Split(text, "\t")
		if len(f) != columns {
			return fmt.Errorf("%s:%d: %d columns, want %d, separated by tabs", name, n, len(f), columns)
		}
		if err := take(n, f); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return lines.Err()
}

func (t *tables) server(_ int, f []string) error {
	t.servers = append(t.servers, &server{name: f[0], made: f[1], path: f[2], short: f[3] == "short", command: f[4], note: f[5]})
	return nil
}

func (t *tables) counterpart(line int, f []string) error {
	c := &counterpart{official: f[0], note: f[2], line: line}
	if f[1] != "-" {
		c.ours = strings.Split(f[1], ",")
	} else if c.note == "" {
		return fmt.Errorf("%s has no counterpart and no reason", f[0])
	}
	t.counterparts = append(t.counterparts, c)
	return nil
}

func (t *tables) differ(line int, f []string) error {
	d := &differ{official: f[0], revisions: f[1], servers: f[2], page: f[4], reason: f[5], line: line}
	d.right, d.sometimes = often(f[3])
	if !slices.Contains([]string{"ours", "suite", "both"}, d.right) || d.reason == "" {
		return fmt.Errorf("column right must be ours, suite or both, not %q, with a reason", d.right)
	}
	t.differs = append(t.differs, d)
	return nil
}

func (t *tables) fault(line int, f []string) error {
	x := &fault{servers: f[0], checks: f[1], note: f[3], line: line}
	x.whose, x.sometimes = often(f[2])
	if !slices.Contains([]string{"SDK", "server", "fixture"}, x.whose) {
		return fmt.Errorf("the cause must be SDK, server or fixture, not %q", x.whose)
	}
	t.faults = append(t.faults, x)
	return nil
}

// often splits a word from the mark that it does not occur in each run: "word, sometimes".
func often(text string) (word string, sometimes bool) {
	return strings.CutSuffix(text, ", sometimes")
}

// matches reports whether a text matches one of several patterns, separated by commas, with * as a wildcard.
func matches(patterns, text string) bool {
	return slices.ContainsFunc(strings.Split(patterns, ","), func(p string) bool {
		// There is no slash in these texts, so that * matches anything.
		ok, err := path.Match(strings.TrimSpace(p), text)
		return err == nil && ok
	})
}
