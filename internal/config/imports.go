package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/internal/imported/clients"
)

// imports adds the servers of files of MCP clients. What of them is not taken over is a warning.
func (l *loader) imports(files []string) {
	for _, path := range files {
		l.beginLayer()
		home, err := os.UserHomeDir()
		if err != nil {
			home = ""
		}
		file, err := clients.Read(path, home)
		if err != nil {
			l.failWith(err, "", value.Source{Kind: value.FromFile, Name: path})
			continue
		}
		for _, line := range file.Lost {
			l.warn("%s: %s", path, line)
		}
		for i := range file.Servers {
			l.importServer(path, &file.Servers[i])
		}
	}
}

// importServer adds one server, unless it is switched off or cannot be used.
func (l *loader) importServer(path string, s *imported.Server) {
	shown := fmt.Sprintf("%s: server %s ", path, value.Shorten(s.Name))
	for _, line := range s.Lost {
		l.warn("%s: %s", strings.TrimSpace(shown), line)
	}
	switch {
	case len(s.Command) == 0 && len(s.URL) == 0:
		return
	case s.Disabled:
		l.warn("%sis switched off there, and left out", shown)
		return
	}
	name := imported.Name(s.Name, func(name string) bool { return l.cfg.Upstream(name) != nil })
	if name != s.Name {
		l.warn("%sis called %s here", shown, name)
	}
	line, _ := lineOf(s.From)
	from := value.Source{Kind: value.FromFile, Name: path, Line: line}
	for _, key := range s.Keys() {
		l.importKey(append([]string{UpstreamsKey, name}, key.Path...), &key, s, from)
	}
}

// lineOf returns the line in "FILE:LINE".
func lineOf(from string) (line int, err error) {
	_, err = fmt.Sscanf(from[strings.LastIndexByte(from, ':')+1:], "%d", &line)
	return line, err
}

// importKey writes one key, with the values that its variables have in the environment.
func (l *loader) importKey(path []string, key *imported.Key, s *imported.Server, from value.Source) {
	items := make([]value.Literal, len(key.Texts))
	for i, t := range key.Texts {
		text, missing := t.Fill(s.Value(l.lookup))
		for _, name := range missing {
			what, fix := fmt.Sprintf("needs the variable %q, which is not set", name), "set it"
			if at := slices.IndexFunc(s.Variables, func(v imported.Variable) bool { return v.Name == name }); at >= 0 && s.Variables[at].Description != "" {
				fix += ": " + value.Shorten(s.Variables[at].Description)
			}
			if strings.HasPrefix(name, "file:") {
				what, fix = "needs the file "+value.Shorten(name[len("file:"):])+", which cannot be read or is empty", "write the value into it"
			}
			l.fail(value.KeyText(path), from, what, fix)
		}
		if len(missing) > 0 {
			return
		}
		items[i] = value.Literal{Kind: value.QuotedLiteral, Text: text}
	}
	literal := items[0]
	switch {
	case key.List:
		literal = value.Literal{Kind: value.ListLiteral, Items: items}
	case key.Bare:
		literal = value.Literal{Kind: value.BooleanLiteral, Text: items[0].Text}
	}
	if !key.Refers {
		l.assign(path, literal, from)
		return
	}
	u := l.upstream(given{path: path, Literal: literal, from: from})
	if u == nil {
		return
	}
	l.final(u, key.Path[0], key.Path[1], given{path: path, Literal: literal, from: from})
}

// final writes a header or a variable of a server whose references are replaced already.
func (l *loader) final(u *Upstream, key, name string, g given) {
	rows := l.keysOf(u)
	row := &rows[slices.IndexFunc(rows, func(s setting) bool { return s.key == key })]
	place, err := row.open.entry(name)
	if err != nil {
		l.failWith(err, g.key(), g.from)
		return
	}
	l.store(place, g, []string{row.open.cell(UpstreamsKey+"."+u.Name+"."+key, name)}, nil)
}
