package config

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/internal/imported/clients"
)

// importing reads the servers of a file of an MCP client.
type importing struct {
	path   string
	lookup func(name string) (string, bool)
	taken  func(name string) bool // reports whether an upstream has a name

	keys     []importedKey
	warnings []string // on what is not taken over
	errs     value.ConfigErrors
}

// importedKey is a key below upstreams. Its value has no references to variables.
type importedKey struct {
	path []string
	value.Literal
	from   value.Source
	secret bool // a header or a variable
}

func (i *importing) read() {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // a text that refers to it stays as it is
	}
	file, err := clients.Read(i.path, home)
	if err != nil {
		i.errs = append(i.errs, value.AsConfigError(err, "", value.Source{Kind: value.FromFile, Name: i.path}, ""))
		return
	}
	for _, line := range file.Lost {
		i.warnings = append(i.warnings, i.path+": "+line)
	}
	for n := range file.Servers {
		i.server(&file.Servers[n])
	}
}

// server reads one server, unless it is switched off or cannot be used.
func (i *importing) server(s *imported.Server) {
	shown := fmt.Sprintf("%s: server %s ", i.path, value.Shorten(s.Name))
	for _, line := range s.Lost {
		i.warnings = append(i.warnings, strings.TrimSpace(shown)+": "+line)
	}
	switch {
	case len(s.Command) == 0 && len(s.URL) == 0:
		return
	case s.Disabled:
		i.warnings = append(i.warnings, shown+"is switched off there, and left out")
		return
	}
	name := imported.Name(s.Name, func(name string) bool {
		return i.taken(name) || slices.ContainsFunc(i.keys, func(k importedKey) bool { return k.path[1] == name })
	})
	if name != s.Name {
		i.warnings = append(i.warnings, shown+"is called "+name+" here")
	}
	from := value.Source{Kind: value.FromFile, Name: i.path}
	if line, err := strconv.Atoi(s.From[strings.LastIndexByte(s.From, ':')+1:]); err == nil {
		from.Line = line
	}
	for _, key := range s.Keys() {
		i.key(append([]string{UpstreamsKey, name}, key.Path...), &key, s, from)
	}
}

// key reads one key, with the values that its variables have in the environment.
func (i *importing) key(path []string, key *imported.Key, s *imported.Server, from value.Source) {
	items := make([]value.Literal, len(key.Texts))
	before := len(i.errs)
	for n, t := range key.Texts {
		text, missing := t.Fill(s.Value(i.lookup))
		for _, name := range missing {
			i.errs = append(i.errs, lacking(name, s, value.ConfigError{Source: from, Key: value.KeyText(path)}))
		}
		items[n] = value.Literal{Kind: value.QuotedLiteral, Text: text}
	}
	literal := items[0]
	switch {
	case len(i.errs) > before:
		return
	case key.List:
		literal = value.Literal{Kind: value.ListLiteral, Items: items}
	case key.Bare:
		literal = value.Literal{Kind: value.BooleanLiteral, Text: items[0].Text}
	}
	i.keys = append(i.keys, importedKey{path, literal, from, key.Refers})
}

// lacking is the error of a variable of a server that has no value.
func lacking(name string, s *imported.Server, e value.ConfigError) *value.ConfigError {
	if path, file := strings.CutPrefix(name, "file:"); file {
		e.Problem, e.Fix = "needs the file "+value.Shorten(path)+", which cannot be read or is empty", "write the value into it"
		return &e
	}
	e.Problem, e.Fix = fmt.Sprintf("needs the variable %q, which is not set", name), "set it"
	if at := slices.IndexFunc(s.Variables, func(v imported.Variable) bool { return v.Name == name }); at >= 0 && s.Variables[at].Description != "" {
		e.Fix += ": " + value.Shorten(s.Variables[at].Description)
	}
	return &e
}
