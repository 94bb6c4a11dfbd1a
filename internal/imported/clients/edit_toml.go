package clients

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"dragoman/internal/config/value"
)

// below reports whether a table is at a path or below it.
func (t *tomlTable) below(path []string) bool {
	return len(t.path) >= len(path) && slices.Equal(t.path[:len(path)], path)
}

// tomlRaw returns the tables at and below a path, without the comments before the first.
func tomlRaw(data []byte, path []string) ([]byte, bool) {
	tables, err := tomlTables(data)
	if err != nil {
		return nil, false
	}
	var raw []byte
	for _, t := range tables {
		if t.header && t.below(path) {
			raw = append(raw, data[t.begin:t.end]...)
		}
	}
	if raw != nil {
		return raw, true
	}
	root, err := parseTOML(data)
	return nil, err == nil && root.at(path...) != nil // inline: there, but with no text of its own
}

// tomlPut writes the table at a path: in the place of the present one, else at the end. raw is its keys, or tables with their headers.
func tomlPut(data []byte, path []string, raw []byte) ([]byte, error) {
	if _, err := parseTOML(data); err != nil {
		return nil, err
	}
	tables, err := tomlTables(data)
	if err != nil {
		return nil, err
	}
	line := newline(data)
	text := strings.ReplaceAll(string(raw), "\r\n", "\n")
	if !slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "[") }) {
		text = "[" + value.KeyText(path) + "]\n" + text
	}
	text = strings.ReplaceAll(text, "\n", line)
	at := slices.IndexFunc(tables, func(t tomlTable) bool { return t.header && t.below(path) })
	if at < 0 {
		if _, inline := tomlRaw(data, path); inline {
			return nil, errors.New("the server " + shown(path[len(path)-1]) + " is written inline; fix: write it as a table [" + value.KeyText(path) + "], or remove it")
		}
		before := string(data)
		if before != "" && !strings.HasSuffix(before, "\n") {
			before += line
		}
		if before != "" && !strings.HasSuffix(before, line+line) {
			before += line
		}
		return []byte(before + text), nil
	}
	t := tables[at]
	head := data[t.begin:]
	comments := 0 // before the header: they stay
	for l := range bytes.Lines(head) {
		if !bytes.HasPrefix(bytes.TrimSpace(l), []byte("#")) {
			break
		}
		comments += len(l)
	}
	rest := text
	if t.end < len(data) && !strings.HasSuffix(rest, line+line) {
		rest += line
	}
	after := slices.Concat(data[:t.begin+comments], []byte(rest), data[t.end:])
	for i := at + 1; i < len(tables); i++ { // its other tables
		if tables[i].header && tables[i].below(path) {
			shift := len(after) - len(data)
			after = slices.Concat(after[:tables[i].begin+shift], data[tables[i].end:])
		}
	}
	return after, nil
}

// tomlRemove removes the tables at and below a path.
func tomlRemove(data []byte, path []string) ([]byte, error) {
	tables, err := tomlTables(data)
	if err != nil {
		return nil, err
	}
	var kept []byte
	at := 0
	for _, t := range tables {
		if t.header && t.below(path) {
			kept = append(kept, data[at:t.begin]...)
			at = t.end
		}
	}
	return append(kept, data[at:]...), nil
}
