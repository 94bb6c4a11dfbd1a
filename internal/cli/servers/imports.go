package servers

import (
	"errors"
	"fmt"
	"strings"

	"dragoman/internal/imported"
	"dragoman/proxy/wire"
)

// FromClient returns a server of a client's file as it is registered, with variables that a registration can refer to left to the running Dragoman, and
// others with their present values. Lines says what a registration does not have.
func FromClient(s *imported.Server, lookup func(name string) (string, bool)) (g *Given, lines []string, err error) {
	lines = append(lines, s.Lost...)
	switch {
	case len(s.Command)+len(s.URL) == 0:
		return nil, lines, errors.New("it cannot be served")
	case s.Disabled:
		return nil, lines, errors.New("it is switched off there")
	}
	one := *s
	fixed := func(what string, t imported.Text) imported.Text {
		text, missing := t.Fill(s.Value(lookup))
		if len(missing) > 0 {
			err = fmt.Errorf("its %s needs %s, which is not set; fix: set it", what, strings.Join(missing, ", "))
		} else if names := t.Variables(); len(names) > 0 {
			lines = append(lines, fmt.Sprintf("its %s has the value that %s has here and now", what, strings.Join(names, ", ")))
		}
		return imported.Literal(text)
	}
	one.URL = fixed("address", s.URL)
	one.Command = nil
	for _, t := range s.Command {
		if arg := fixed("command", t); arg != nil {
			one.Command = append(one.Command, arg)
		} else {
			one.Command = append(one.Command, imported.Texts("")...)
		}
	}
	one.Headers, one.Env = settings(s, s.Headers, lookup, &err), settings(s, s.Env, lookup, &err)
	for _, name := range s.Inherit {
		one.Env = append(one.Env, imported.Setting{Name: name, Value: imported.Text{{Variable: name}}})
	}
	if err != nil {
		return nil, lines, err
	}
	g, err = FromImported(&one)
	return g, append(lines, unregistered(s)...), err
}

// settings returns headers or variables as registrations have them. A literal that would be read as a reference is an error.
func settings(s *imported.Server, all []imported.Setting, lookup func(string) (string, bool), failed *error) (kept []imported.Setting) {
	for _, one := range all {
		var text imported.Text
		for _, p := range one.Value {
			if _, set := lookup(p.Variable); p.Variable != "" && p.HasDefault && !set {
				p = imported.Part{Literal: p.Default}
			}
			text = append(text, imported.Part{Literal: p.Literal, Variable: p.Variable})
		}
		if text.Reads() {
			*failed = fmt.Errorf("the value of %s holds what registrations read as a reference; fix: register it with the command line", wire.Shown(one.Name))
		}
		for _, p := range text {
			if len(text) > 1 && strings.HasPrefix(p.Variable, "file:") {
				*failed = fmt.Errorf("the value of %s holds the content of a file within a text; fix: write the whole value into the file", wire.Shown(one.Name))
			}
		}
		kept = append(kept, imported.Setting{Name: one.Name, Value: text, Secret: one.Secret})
	}
	return kept
}

// unregistered says what of a server no registration has.
func unregistered(s *imported.Server) (lines []string) {
	if len(s.Dir) > 0 {
		lines = append(lines, "its directory is not registered: the command starts in that of the running dragoman")
	}
	if len(s.EnvFile) > 0 {
		lines = append(lines, "its file of variables is not registered: name the variables with `dragoman servers edit`")
	}
	if s.StartTimeout > 0 || s.ToolTimeout > 0 {
		lines = append(lines, "its timeouts are not registered: those of the running dragoman count")
	}
	if len(s.Only) > 0 {
		lines = append(lines, "its list of allowed tools is not registered: disable others with `dragoman servers edit NAME --disable TOOL`")
	}
	if len(s.Hidden) > 0 {
		lines = append(lines, "its hidden tools are not registered: `dragoman servers edit NAME --disable "+wire.Shown(s.Hidden[0])+"` hides one")
	}
	return lines
}
