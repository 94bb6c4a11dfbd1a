package imported

import (
	"fmt"
	"slices"
	"strings"

	"dragoman/internal/config/command"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

// Writer writes servers as tables of a configuration in TOML.
type Writer struct {
	// Lookup returns a variable of the environment.
	Lookup func(name string) (string, bool)
	// Keep stores a secret value of a server, under a name that is unique in it, and returns the reference to it: file:/path or env:NAME.
	Keep func(server, name, secret string) (reference string, err error)

	// Taken are names that servers cannot have. Those that are written are added.
	Taken []string
	// Lines says what was not taken over, or needs the user, a line each.
	Lines []string
}

func (w *Writer) say(server, line string) {
	w.Lines = append(w.Lines, wire.Shown(server)+": "+line)
}

// Servers returns tables [upstreams.NAME] of servers. What is switched off or cannot be used is left out, and said in Lines. The error is that of Keep.
func (w *Writer) Servers(all []Server) (text string, err error) {
	var b strings.Builder
	for i := range all {
		s := &all[i]
		for _, line := range s.Lost {
			w.say(s.Name, line)
		}
		switch {
		case len(s.Command) == 0 && len(s.URL) == 0:
			continue
		case s.Disabled:
			w.say(s.Name, "is switched off there, and left out")
			continue
		}
		name := Name(s.Name, func(n string) bool { return slices.Contains(w.Taken, n) })
		if name != s.Name {
			why := "names have lower-case letters, digits, hyphens and underscores"
			if Name(s.Name, func(string) bool { return false }) == s.Name {
				why = "another server has the name"
			}
			w.say(s.Name, "is called "+name+" here: "+why)
		}
		w.Taken = append(w.Taken, name)
		if err := w.server(&b, name, s); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func (w *Writer) server(b *strings.Builder, name string, s *Server) error {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "[upstreams.%s] # %s\n", name, wire.Shown(s.From))
	for _, key := range s.Keys() {
		var written string
		switch at := value.KeyText(key.Path); {
		case key.Refers:
			text, err := w.reference(name, s, &key)
			if err != nil {
				return err
			}
			written = value.Quote(text)
		case key.Bare:
			written = key.Texts[0].String()
		case key.List:
			quoted := make([]string, len(key.Texts))
			for i, t := range key.Texts {
				quoted[i] = value.Quote(w.fill(s, at, t))
			}
			written = "[" + strings.Join(quoted, ", ") + "]"
		default:
			written = value.Quote(w.fill(s, at, key.Texts[0]))
		}
		fmt.Fprintf(b, "%s = %s\n", value.KeyText(key.Path), written)
	}
	if len(s.Command) > 0 && len(command.Secrets(plain(s.Command[1:]))) > 0 {
		w.say(s.Name, "an argument holds a secret, which everybody on the machine can see; let the program read a variable of env instead, if it can")
	}
	return nil
}

func plain(all []Text) []string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = t.String()
	}
	return texts
}

// fill replaces variables in a place that cannot refer to them, and says so.
func (w *Writer) fill(s *Server, at string, t Text) string {
	text, missing := t.Fill(s.Value(w.Lookup))
	for _, name := range t.Variables() {
		_, set := w.Lookup(name)
		switch {
		case slices.Contains(missing, name):
			w.say(s.Name, fmt.Sprintf("%s needs the variable %s, which is not set: ${%s} stays in it; set the variable and import again, or write the value", at, name, name))
		case set:
			w.say(s.Name, fmt.Sprintf("%s has the value that the variable %s has now", at, name))
		default:
			w.say(s.Name, fmt.Sprintf("%s has the default of the variable %s, which is not set", at, name))
		}
	}
	return text
}

// reference returns the value of a header or a variable: with references to variables, and a secret kept elsewhere.
func (w *Writer) reference(name string, s *Server, key *Key) (string, error) {
	t, at := key.Texts[0], strings.Join(key.Path, ".")
	w.unset(s, at, t)
	if len(t) == 1 && t[0].Variable != "" && !t[0].HasDefault {
		return Reference(t[0].Variable), nil
	}
	var b strings.Builder
	keep, lookup := false, s.Value(w.Lookup)
	for _, p := range t {
		switch _, set := w.Lookup(p.Variable); {
		case p.Variable == "":
			keep = keep || strings.Contains(p.Literal, "${")
			b.WriteString(p.Literal)
		case p.HasDefault && !set:
			w.say(s.Name, fmt.Sprintf("%s has the default of the variable %s, which is not set", at, p.Variable))
			b.WriteString(p.Default)
		default:
			keep = keep || strings.HasPrefix(p.Variable, filePrefix)
			b.WriteString("${" + p.Variable + "}")
		}
	}
	text := b.String()
	if !keep && (len(t.Variables()) > 0 || !s.secret(key, text)) && !strings.HasPrefix(text, envPrefix) && !strings.HasPrefix(text, filePrefix) {
		return text, nil
	}
	text, missing := t.Fill(lookup)
	if len(missing) > 0 {
		w.say(s.Name, fmt.Sprintf("%s lacks the value of %s", at, strings.Join(missing, ", ")))
	}
	return w.Keep(name, at, text)
}

// unset says which variables of a value must be set before Dragoman is started.
func (w *Writer) unset(s *Server, at string, t Text) {
	for _, p := range t {
		if _, set := w.Lookup(p.Variable); set || p.Variable == "" || p.HasDefault || strings.HasPrefix(p.Variable, filePrefix) {
			continue
		}
		line := fmt.Sprintf("%s needs the variable %s, which is not set: set it before dragoman is started", at, p.Variable)
		if i := slices.IndexFunc(s.Variables, func(v Variable) bool { return v.Name == p.Variable && v.Description != "" }); i >= 0 {
			line += " (" + wire.Shown(s.Variables[i].Description) + ")"
		}
		w.say(s.Name, line)
	}
}

// Prefixes of references.
const (
	envPrefix  = "env:"
	filePrefix = "file:"
)

// Reference returns the reference to a variable of a [Text].
func Reference(variable string) string {
	if strings.HasPrefix(variable, filePrefix) {
		return variable
	}
	return envPrefix + variable
}

// secret reports whether the value of a header or a variable is a secret, by what its description says, or by its name and form.
func (s *Server) secret(key *Key, text string) bool {
	all, form := s.Env, "="
	if key.Path[0] == "headers" {
		all, form = s.Headers, ": "
	}
	return slices.ContainsFunc(all, func(one Setting) bool { return one.Secret && one.Name == key.Path[1] }) ||
		len(command.Secrets([]string{key.Path[1] + form + text})) > 0
}
