package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"dragoman/internal/imported"
	"dragoman/internal/imported/bundle"
	"dragoman/internal/imported/registry"
	"dragoman/proxy/wire"
)

// Arrival is a server that is described by a registry or a bundle, before values are known for its variables.
type Arrival struct {
	// Name is the name in the description.
	Name string
	// Variables are the values that it wants.
	Variables []imported.Variable
	// Lines say what it is, a line each, for the person who adds it.
	Lines []string

	server func(imported.Values) (*imported.Server, error)
	place  func() error
	close  func()
}

// Close forgets a bundle that was downloaded.
func (a *Arrival) Close() {
	if a.close != nil {
		a.close()
	}
}

// Server returns the server with values. Nothing was unpacked or started by then.
func (a *Arrival) Server(given imported.Values) (*imported.Server, error) { return a.server(given) }

// Place puts what the server consists of where it is started: it unpacks a bundle. It does nothing for others.
func (a *Arrival) Place() error {
	if a.place == nil {
		return nil
	}
	return a.place()
}

// line adds a line to what is told of a server.
func (a *Arrival) line(what, format string, args ...any) {
	a.Lines = append(a.Lines, fmt.Sprintf("%-9s", what)+wire.ShownText(fmt.Sprintf(format, args...)))
}

// Wanted says which server of a registry is wanted.
type Wanted struct {
	Name, Version string // Version is empty for the newest
	// Kind is one of registry.Kinds, or empty.
	Kind string
	// Bundles is where bundles are unpacked.
	Bundles string
	Values  imported.Values
}

// FromRegistry returns a server of a registry. list, which may be nil, is the list of it that is kept.
func FromRegistry(ctx context.Context, c *registry.Client, list *registry.List, w *Wanted) (*Arrival, error) {
	version := w.Version
	if version == "" {
		version = "latest"
	}
	entry, err := c.Version(ctx, w.Name, version)
	if errors.Is(err, registry.ErrUnknown) {
		return nil, unknown(ctx, c, list, w)
	}
	if err != nil {
		return nil, err
	}
	s := &entry.Server
	a := &Arrival{Name: s.Name}
	a.line("server", "%s %s: %s", s.Name, s.Version, wire.Shown(s.Description))
	if repository := s.Repository.URL; repository != "" {
		a.line("source", "%s", wire.Shown(repository))
	}
	why := wire.Shown(entry.StatusMessage)
	switch entry.Status {
	case registry.Deleted:
		return nil, fmt.Errorf("%s %s was deleted from the registry%s; fix: choose another server or version", s.Name, s.Version, after(": ", why))
	case registry.Deprecated:
		a.line("warning", "it is deprecated%s", after(": ", why))
	}
	if c.Plain() {
		a.line("warning", "the registry is asked over http: what it says could have been changed on its way")
	}
	return a, a.choose(ctx, c, s, fmt.Sprintf("%s: %s@%s", c.Base(), s.Name, s.Version), w)
}

func after(joint, text string) string {
	if text == "" {
		return ""
	}
	return joint + text
}

// unknown returns the error for a server that a registry does not have, with names that are similar to its own.
func unknown(ctx context.Context, c *registry.Client, list *registry.List, w *Wanted) error {
	if !registry.ValidName(w.Name) {
		return fmt.Errorf("%q is no name of a server in a registry; fix: write NAMESPACE/NAME, in letters, digits, dots and hyphens, as `dragoman servers search` prints it", wire.Shown(w.Name))
	}
	if w.Version != "" {
		if entry, err := c.Version(ctx, w.Name, "latest"); err == nil {
			return fmt.Errorf("the registry %s has no version %s of %s; fix: its newest one is %s", c.Base(), wire.Shown(w.Version), w.Name, entry.Server.Version)
		}
	}
	var near []string
	if list != nil {
		near = list.Near(w.Name)
	} else if _, last, _ := strings.Cut(w.Name, "/"); len(last) >= 3 { // shorter texts are not searched for
		if page, err := c.Page(ctx, registry.Query{Search: last, Version: "latest", Limit: registry.PageSize}); err == nil {
			var names []string
			for _, e := range page.Entries {
				names = append(names, e.Server.Name)
			}
			near = registry.Nearest(w.Name, names)
		}
	}
	fix := "`dragoman servers search TEXT` shows names"
	if len(near) > 0 {
		fix = "write the name exactly, if it is one of these, which are only similar: " + strings.Join(near, ", ")
	}
	return fmt.Errorf("the registry %s has no server %s; fix: %s", c.Base(), w.Name, fix)
}

// choose takes the offer that is used.
func (a *Arrival) choose(ctx context.Context, c *registry.Client, s *registry.Server, from string, w *Wanted) error {
	offers := s.Offers(from)
	chosen, err := registry.Choose(offers, w.Kind, w.Values)
	if err != nil {
		return fmt.Errorf("%s %s: %w", s.Name, s.Version, err)
	}
	a.line("chosen", "%s", chosen.Title)
	for i := range offers {
		if o := &offers[i]; o != chosen {
			text := o.Title + " (--package " + o.Kind + ")"
			if o.Problem != nil {
				text = o.Title + ", which cannot be used: " + o.Problem.Error()
			}
			a.line("or", "%s", text)
		}
	}
	if chosen.Bundle == nil {
		a.Variables, a.server = chosen.Variables, chosen.Server
		return nil
	}
	file, err := download(ctx, c, chosen.Bundle)
	if err != nil {
		return err
	}
	remove := func() { _ = os.Remove(file) }
	if err := a.bundle(file, chosen.Bundle.SHA256, from, w.Bundles); err != nil {
		remove()
		return err
	}
	opened := a.close
	a.close = func() { opened(); remove() }
	return nil
}

// download fetches a bundle into a temporary file.
func download(ctx context.Context, c *registry.Client, d *registry.Download) (name string, err error) {
	f, err := os.CreateTemp("", "dragoman-*.mcpb")
	if err != nil {
		return "", err
	}
	err = c.Fetch(ctx, d.URL, f)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// FromBundle returns the server of a bundle in a file. sha256 is what its SHA-256 must be; empty: anything. below is where it is unpacked.
func FromBundle(name, sha256, below string) (*Arrival, error) {
	at, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	a := &Arrival{}
	return a, a.bundle(name, sha256, at, below)
}

func (a *Arrival) bundle(name, sha256, from, below string) error {
	if below == "" {
		var err error
		if below, err = bundle.Directory(); err != nil {
			return err
		}
	}
	below, err := filepath.Abs(below)
	if err != nil {
		return err
	}
	b, err := bundle.Open(name, sha256)
	if err != nil {
		return err
	}
	home, _ := os.UserHomeDir() // a bundle that needs it says so
	plan, err := b.Plan(b.Place(below), from, bundle.Here(runtime.GOOS, home))
	if err != nil {
		b.Close()
		return err
	}
	if m := b.Manifest; a.Name == "" {
		a.Name = m.Name
		a.line("server", "%s %s: %s", wire.Shown(m.Name), wire.Shown(m.Version), wire.Shown(m.Description))
	}
	a.line("bundle", "SHA-256 %s", b.SHA256)
	a.line("unpacks", "to %s", b.Place(below))
	a.Variables, a.server, a.close = plan.Variables, plan.Server, b.Close
	a.place = func() error {
		_, err := b.Unpack(below)
		return err
	}
	return nil
}

// Lacking returns the error that lists the values that a server needs and that were not given.
func (a *Arrival) Lacking(given imported.Values) error {
	missing := imported.Missing(a.Variables, given)
	if len(missing) == 0 {
		return nil
	}
	lines := make([]string, 0, len(missing))
	for i := range missing {
		lines = append(lines, Wants(&missing[i])+"; fix: write --var "+wire.Shown(missing[i].Name)+map[bool]string{true: "=env:NAME", false: "=VALUE"}[missing[i].Secret])
	}
	return misuse("%s needs values for these variables:\n  %s", wire.Shown(a.Name), strings.Join(lines, "\n  "))
}

// Wants describes a variable in a line.
func Wants(v *imported.Variable) string {
	parts := []string{v.Kind.String()}
	if v.Secret {
		parts = []string{"a secret"}
	}
	if len(v.Choices) > 0 {
		parts = []string{"one of " + wire.Shown(strings.Join(v.Choices, ", "))}
	}
	if v.Repeated {
		parts = append(parts, "may be repeated")
	}
	if v.Default != "" {
		parts = append(parts, "default "+wire.Shown(v.Default))
	}
	text := wire.Shown(v.Name) + " (" + strings.Join(parts, ", ") + ")"
	if v.Description != "" {
		text += ": " + wire.Shown(v.Description)
	}
	return text
}

// Optional returns lines about the variables that have no value and need none.
func (a *Arrival) Optional(given imported.Values) (lines []string) {
	for i := range a.Variables {
		if v := &a.Variables[i]; !v.Required && len(given[v.Name]) == 0 {
			lines = append(lines, "optional "+Wants(v))
		}
	}
	return lines
}

// FromImported returns a described server as it is registered. References become those of registrations: env:NAME, file:/path, and ${NAME}
// within a text.
func FromImported(s *imported.Server) (*Given, error) {
	g := &Given{}
	if s.Description != "" {
		description := shortened(s.Description)
		g.Description = &description
	}
	for _, text := range s.Command {
		if len(text.Variables()) > 0 {
			return nil, errors.New("an argument of its command refers to a variable; fix: register it with the command itself")
		}
		g.Command = append(g.Command, text.String())
	}
	if len(s.Command) == 0 {
		address := s.URL.String()
		g.URL = &address
		if s.SSE {
			g.SSE = &s.SSE
		}
	}
	for _, one := range s.Headers {
		g.Headers = append(g.Headers, Named{one.Name, reference(one.Value)})
	}
	for _, one := range s.Env {
		g.Env = append(g.Env, Named{one.Name, reference(one.Value)})
	}
	return g, nil
}

// shortened returns a description as the API takes it: a line that is not too long.
func shortened(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// reference returns a text with its references as registrations have them.
func reference(t imported.Text) string {
	if len(t) == 1 && t[0].Variable != "" {
		if strings.HasPrefix(t[0].Variable, "file:") {
			return t[0].Variable
		}
		return "env:" + t[0].Variable
	}
	return t.String()
}

// Reaches says what is opened or started, a line each, with the names of headers and variables, and of secrets where they come from.
func (g *Given) Reaches() []string {
	lines := g.Starts()
	if g.URL != nil {
		lines = append(lines, "opens    "+wire.ShownText(*g.URL))
	}
	for _, all := range [][]Named{g.Headers, g.Env} {
		for _, one := range all {
			what := map[bool]string{true: "variable ", false: "header   "}[len(g.Command) > 0]
			text := " with a value of the description or yours"
			if imported.Reads(one.Value) {
				text = " from " + one.Value
			}
			lines = append(lines, what+wire.Shown(one.Name)+wire.ShownText(text))
		}
	}
	return lines
}

// Search prints what a search has found.
func Search(w io.Writer, found registry.Found, colourful bool) error {
	if len(found.Servers) == 0 {
		_, err := fmt.Fprintln(w, "nothing was found")
		return err
	}
	return aligned(w, func(t io.Writer) {
		fmt.Fprintf(t, "NAME\t%s\tHOW\tABOUT\n", paint("VERSION", usual, colourful))
		for i := range found.Servers {
			one := &found.Servers[i]
			colour, about := usual, one.Description
			if one.Status == registry.Deprecated {
				colour, about = yellow, "deprecated"+after(": ", one.StatusMessage)+"; "+about
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", wire.Shown(one.Name), paint(wire.Shown(one.Version), colour, colourful), strings.Join(one.Kinds, ","), wire.Shown(about))
		}
	})
}
