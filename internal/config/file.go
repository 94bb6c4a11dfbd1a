package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
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
func readConfigFile(path string) ([]entry, ConfigErrors) {
	fail := func(line int, what, fix string) ([]entry, ConfigErrors) {
		return nil, ConfigErrors{{Source: Source{Kind: FromFile, Name: path, Line: line}, Problem: what, Fix: fix}}
	}
	parse := map[string]func([]byte) ([]entry, error){
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
	entries, err := parse(data)
	if err != nil {
		var fe *fileError
		if errors.As(err, &fe) {
			return fail(fe.line, fe.what, fe.fix)
		}
		return fail(0, err.Error(), "")
	}
	return entries, nil
}

// Reason is the cause of a file error without the path, which the message has already.
func Reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
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

// badByte is the place of the first NUL byte or invalid UTF-8; -1 if there is none.
func badByte(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 || r == 0 {
			return at
		}
		at += size
	}
	return -1
}

// lineAt is the line of a byte's place, from 1.
func lineAt(data []byte, at int) int {
	return 1 + bytes.Count(data[:min(at, len(data))], []byte("\n"))
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

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// KeyText is a path as one writes it in TOML: parts that need quotes have them.
func KeyText(path []string) string {
	parts := make([]string, 0, len(path))
	for _, p := range path {
		if !bareKey.MatchString(p) {
			p = Quote(Shorten(p))
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, ".")
}

// normalize splits dotted parts of a path, so that `sessions.idle_ttl: 30m`
// is the same key in YAML and JSON as it is in TOML. The names in tables that
// are the user's (headers, env, scopes, tools, API keys, dependencies) stay whole.
func normalize(path []string) []string {
	out := make([]string, 0, len(path))
	for _, part := range path {
		if userTable(out) {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Split(part, ".")...)
	}
	return out
}

func userTable(path []string) bool {
	if len(path) == 0 {
		return false
	}
	if path[0] == upstreamsKey {
		return len(path) >= 3 && (path[2] == headersKey || path[2] == forwardKey || path[2] == envKey || path[2] == scopesKey) || len(path) == 3 && slices.Contains([]string{toolsKey, promptsKey, resourcesKey, accessKey}, path[2])
	}
	return path[0] == "dependencies" || len(path) == 2 && path[0] == "security" && path[1] == "api_keys"
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
