// Package source reads configuration files in TOML, YAML and JSON, and files of environment variables.
package source

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dragoman/internal/config/value"
)

const (
	// MaxConfigFile bounds a file, in bytes: the YAML parser's time grows with the square of the size, and no real
	// configuration comes near.
	MaxConfigFile = 256 << 10
	// maxNesting bounds the depth of nested tables and lists.
	maxNesting = 32
)

// Entry is one key of a file: its path, value and line (from 1). Tables have
// an entry of their own before those of their keys.
type Entry struct {
	Path  []string
	Value value.Literal
	Line  int
}

// failed returns the error of a file that cannot be read as a whole; a line of 0 is unknown. It must not repeat the
// file's text, which may hold secrets.
func failed(line int, what, fix string) error {
	return &value.ConfigError{Source: value.Source{Line: line}, Problem: what, Fix: fix}
}

// Read reads a file, parses it by its extension, and returns its keys in order. chosen reports whether users choose the
// names in a table, so that dots belong to them.
func Read(path string, chosen func(table []string) bool) ([]Entry, value.ConfigErrors) {
	entries, err := read(path, chosen)
	if err == nil {
		return entries, nil
	}
	return nil, readErrors(path, err)
}

func read(path string, chosen func(table []string) bool) ([]Entry, error) {
	parse := map[string]func([]byte, func([]string) bool) ([]Entry, error){
		".toml": ParseTOML, ".json": ParseJSON, ".yaml": ParseYAML, ".yml": ParseYAML,
	}[strings.ToLower(filepath.Ext(path))]
	if parse == nil {
		return nil, failed(0, fmt.Sprintf("the extension %q tells no format", filepath.Ext(path)), "name the file .toml, .json, .yaml or .yml")
	}
	data, err := contents(path)
	if err != nil {
		return nil, err
	}
	return parse(data, chosen)
}

// contents returns the bytes of a file: UTF-8 text of bounded size, without a byte order mark.
func contents(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxConfigFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxConfigFile {
		return nil, failed(0, fmt.Sprintf("is larger than %d KiB", MaxConfigFile>>10), "split the upstreams over several processes")
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at := value.BadByte(data); at >= 0 {
		return nil, failed(value.LineAt(data, at), "is not UTF-8 text", "save the file as UTF-8")
	}
	return data, nil
}

// lines finds the lines of ascending offsets without counting from the start each time.
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

// normalise splits the parts of a path at their dots, so that `sessions.idle_ttl: 30m` is the same key in YAML and JSON
// as it is in TOML. Names that users choose (headers, env, scopes, tools, API keys, dependencies) stay whole.
func normalise(path []string, chosen func(table []string) bool) []string {
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

// Duplicates reports each key that is written twice, with both lines, and
// returns the entries without the later ones.
func Duplicates(entries []Entry, file string) ([]Entry, value.ConfigErrors) {
	first := make(map[string]int, len(entries))
	var errs value.ConfigErrors
	kept := slices.DeleteFunc(entries, func(e Entry) bool {
		id := strings.Join(e.Path, "\x00")
		line, again := first[id]
		if !again {
			first[id] = e.Line
			return false
		}
		errs = append(errs, &value.ConfigError{
			Source:  value.Source{Kind: value.FromFile, Name: file, Line: e.Line},
			Key:     value.KeyText(e.Path),
			Problem: "is set twice, first on line " + strconv.Itoa(line),
			Fix:     "remove one of the two",
		})
		return true
	})
	return kept, errs
}
