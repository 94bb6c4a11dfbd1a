package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxConfigFile bounds a file, in bytes: the YAML parser's time grows with
	// the square of it, and no honest configuration comes near.
	maxConfigFile = 256 << 10
	// maxNesting bounds tables and lists within each other.
	maxNesting = 32
)

// entry is one key of a file: its path, value and line (from 1). Tables have
// an entry of their own before those of their keys.
type entry struct {
	path  []string
	value Literal
	line  int
}

// fileError is what makes a file unreadable as a whole. It never repeats the
// file's text, where secrets may be.
type fileError struct {
	line int // 0: unknown
	what string
	fix  string
}

func (e *fileError) Error() string { return e.what }

// readConfigFile reads, parses and flattens a file by its extension.
func readConfigFile(path string, chosen func(table []string) bool) ([]entry, ConfigErrors) {
	fail := func(line int, what, fix string) ([]entry, ConfigErrors) {
		return nil, ConfigErrors{{Source: Source{Kind: FromFile, Name: path, Line: line}, Problem: what, Fix: fix}}
	}
	parse := map[string]func([]byte, func([]string) bool) ([]entry, error){
		".toml": parseTOML, ".json": parseJSON, ".yaml": parseYAML, ".yml": parseYAML,
	}[strings.ToLower(filepath.Ext(path))]
	if parse == nil {
		return fail(0, fmt.Sprintf("the extension %q tells no format", filepath.Ext(path)), "name the file .toml, .json, .yaml or .yml")
	}
	data, err := readBounded(path)
	if err != nil {
		var fe *fileError
		if errors.As(err, &fe) {
			return fail(0, fe.what, fe.fix)
		}
		return fail(0, fmt.Sprintf("cannot be read: %v", Reason(err)), "check the path and the permissions")
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at := badByte(data); at >= 0 {
		return fail(lineAt(data, at), "is not UTF-8 text", "save the file as UTF-8")
	}
	entries, err := parse(data, chosen)
	if err != nil {
		var fe *fileError
		if errors.As(err, &fe) {
			return fail(fe.line, fe.what, fe.fix)
		}
		return fail(0, err.Error(), "")
	}
	return entries, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxConfigFile {
		return nil, &fileError{what: fmt.Sprintf("is larger than %d KiB", maxConfigFile>>10), fix: "split the upstreams over several processes"}
	}
	return data, nil
}

// lines finds lines of ascending places without counting from the start each time.
type lines struct {
	data     []byte
	at, line int
}

func (l *lines) of(place int) int {
	if place < l.at || l.line == 0 {
		l.at, l.line = 0, 1
	}
	place = min(place, len(l.data))
	l.line += bytes.Count(l.data[l.at:place], []byte("\n"))
	l.at = place
	return l.line
}

// normalize splits dotted parts of a path, so that `sessions.idle_ttl: 30m`
// is the same key in YAML and JSON as it is in TOML. The names in tables that
// are the user's (headers, env, scopes, tools, API keys, dependencies) stay whole.
func normalize(path []string, chosen func(table []string) bool) []string {
	out := make([]string, 0, len(path))
	for _, part := range path {
		if chosen(out) {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Split(part, ".")...)
	}
	return out
}

// duplicates reports each key that is written twice, with both lines, and
// returns the entries without the later ones.
func duplicates(entries []entry, file string) ([]entry, ConfigErrors) {
	first := make(map[string]int, len(entries))
	var errs ConfigErrors
	kept := slices.DeleteFunc(entries, func(e entry) bool {
		id := strings.Join(e.path, "\x00")
		line, again := first[id]
		if !again {
			first[id] = e.line
			return false
		}
		errs = append(errs, &ConfigError{
			Source:  Source{Kind: FromFile, Name: file, Line: e.line},
			Key:     KeyText(e.path),
			Problem: "is set twice, first on line " + strconv.Itoa(line),
			Fix:     "remove one of the two",
		})
		return true
	})
	return kept, errs
}
