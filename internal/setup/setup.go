// Package setup writes Dragoman into the files of MCP clients, and takes it out again.
package setup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/internal/imported/clients"
	"dragoman/proxy/redact"
	"dragoman/proxy/wire"
)

// Setup says what is written.
type Setup struct {
	Machine *clients.Machine
	// Dir is Dragoman's directory of the user: configurations, their secrets, and backups.
	Dir string
	// Name is the name of the entry in a client's file.
	Name string
	// Launch is the command that starts Dragoman, such as its path.
	Launch []string
	// Reach are the words behind "dragoman stdio" that say what it serves. It is ignored if All is set.
	Reach []string
	// All moves the servers that a client has into a configuration of Dragoman's, and serves them all.
	All bool
}

// Plan is a change of one client's file, and of what belongs to it. Nothing has happened yet.
type Plan struct {
	clients.Installed
	// Before and After are the contents of the client's file; nil: there is none.
	Before, After []byte
	// Config is the path of the configuration that All makes; "" for none. ConfigText is its content.
	Config, ConfigText string
	// Moved are the names of the servers that go into it.
	Moved []string
	// Lines says what is not taken over, a line each.
	Lines []string

	secrets imported.Secrets
	setup   *Setup
	hide    []string
	undo    bool
	remove  []string // files that an undo removes
	had     []byte   // the configuration before Apply; nil: there was none
	fresh   []string // secrets that Apply has made
}

// ErrNoServers means that a client has no servers that Dragoman could serve.
var ErrNoServers = errors.New("there are no servers that dragoman could serve")

// ErrNothing means that a client's file is as it should be.
var ErrNothing = errors.New("nothing is to be changed")

// Plan returns the change that puts Dragoman into a client's file. The error is [ErrNothing] or [ErrNoServers], or says why it cannot be, and what to do.
func (s *Setup) Plan(at clients.Installed) (*Plan, error) {
	p := &Plan{Installed: at, setup: s}
	var err error
	if p.Before, err = read(at.Path); err != nil {
		return nil, err
	}
	p.After = p.Before
	reach := s.Reach
	if s.All {
		if reach, err = p.move(); err != nil {
			return nil, err
		}
	}
	entry := clients.Entry{Name: s.Name, Command: slices.Concat(s.Launch, []string{"stdio"}, reach)}
	if p.After, err = at.Add(p.After, entry); err != nil {
		return nil, fmt.Errorf("%s: %w", at.Path, err)
	}
	if p.Before != nil && bytes.Equal(p.Before, p.After) {
		return nil, ErrNothing
	}
	return p, nil
}

// move makes the configuration with a client's servers, and takes them out of its file.
func (p *Plan) move() (reach []string, err error) {
	s := p.setup
	p.Config = filepath.Join(s.Dir, p.ID+".toml")
	if key := s.key(p.Path); p.project() {
		p.Config = filepath.Join(s.Dir, p.ID+"-"+key+".toml")
	}
	had, err := read(p.Config)
	if err != nil {
		return nil, err
	}
	w := imported.Writer{Lookup: s.lookup, Keep: p.secrets.Keep, Taken: upstreams(had)}
	p.secrets.Dir = strings.TrimSuffix(p.Config, ".toml") + ".secrets"
	var servers []imported.Server
	if p.Before != nil {
		file, err := clients.Parse(p.Path, p.Before, s.Machine.Home)
		if err != nil && len(bytes.TrimSpace(p.Before)) > 0 && !p.empty() {
			return nil, err
		}
		if err == nil {
			servers, p.Lines = file.Servers, file.Lost
		}
	}
	var moved []imported.Server
	for i := range servers {
		one := &servers[i]
		p.hide = append(p.hide, values(one)...)
		switch {
		case slices.ContainsFunc(servers[i+1:], func(later imported.Server) bool { return later.Name == one.Name }): // which counts
		case one.Name == s.Name:
		case slices.ContainsFunc(one.Command, func(t imported.Text) bool { return strings.HasSuffix(t.String(), p.Config) }):
			p.keep(one.Name, "starts dragoman with this configuration, which would start itself")
		case one.Disabled:
			p.keep(one.Name, "is switched off")
		case len(one.Command)+len(one.URL) == 0:
			p.keep(one.Name, "cannot be served: "+strings.Join(one.Lost, "; "))
		case s.lacks(one) != "":
			p.keep(one.Name, s.lacks(one))
		default:
			p.Moved = append(p.Moved, one.Name)
			moved = append(moved, *one)
		}
	}
	text, err := w.Servers(moved)
	if err != nil {
		return nil, err
	}
	p.Lines = append(p.Lines, w.Lines...)
	if len(w.Taken) == 0 {
		return nil, fmt.Errorf("%s: %w; fix: leave out --all-servers, and say what it serves with --config or --url%s", p.Path, ErrNoServers, strings.Join(append([]string{""}, p.Lines...), "\n  "))
	}
	p.ConfigText = string(had)
	if text != "" {
		head := "# The servers of " + p.Title + ", from " + p.Path + ".\n\n"
		if had != nil {
			head = string(had) + "\n"
		}
		p.ConfigText = head + text
	}
	if p.After, err = p.Remove(p.Before, p.Moved...); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Path, err)
	}
	return []string{"--config", p.Config}, nil
}

// keep says why a server stays at the client.
func (p *Plan) keep(name, why string) {
	p.Lines = append(p.Lines, wire.Shown(name)+" stays where it is: it "+why)
}

// lacks says what a server needs that is not there; "" if nothing is. One such server would keep Dragoman from serving the others.
func (s *Setup) lacks(one *imported.Server) string {
	lookup := one.Value(s.lookup)
	for _, key := range one.Keys() {
		for _, t := range key.Texts {
			if text, missing := t.Fill(lookup); len(missing) > 0 {
				return "needs " + strings.Join(missing, ", ") + ", which is not set; set it in the environment, and run setup again"
			} else if info, err := os.Stat(text); key.Path[0] == "env_file" && (err != nil || info.IsDir()) || key.Path[0] == "cwd" && (err != nil || !info.IsDir()) {
				return "needs " + wire.Shown(text) + ", which is not there"
			}
		}
	}
	return ""
}

// empty reports whether a client's file has no servers.
func (p *Plan) empty() bool {
	names, err := p.Servers(p.Before)
	return err == nil && len(names) == 0
}

// project reports whether the file belongs to a project.
func (p *Plan) project() bool {
	user, _ := p.setup.Machine.Of(p.Client)
	return user.Path != p.Path
}

var upstreamHeader = regexp.MustCompile(`(?m)^\[upstreams\.([a-z][a-z0-9_-]*)\]`)

// upstreams returns the names of the servers in a configuration that this package made.
func upstreams(text []byte) (names []string) {
	for _, m := range upstreamHeader.FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

func (s *Setup) lookup(name string) (string, bool) {
	text := s.Machine.Lookup(name)
	return text, text != ""
}

// values returns the values of a server's headers and variables, none of which is shown.
func values(s *imported.Server) (all []string) {
	for _, one := range slices.Concat(s.Headers, s.Env) {
		for _, part := range one.Value {
			if !slices.ContainsFunc([]string{"Bearer", "Basic", "Token"}, func(scheme string) bool { return strings.EqualFold(scheme, strings.TrimSpace(part.Literal)) }) {
				all = append(all, part.Literal)
			}
		}
	}
	return all
}

// Diff returns the change of the client's file as a unified diff, without the values of headers and variables, and without other values whose names or
// forms say that they are secrets. colour marks lines for a terminal.
func (p *Plan) Diff(colour bool) string {
	return redact.New(p.secretTexts()...).Whole(diff(p.Path, string(p.Masked(p.Before)), string(p.Masked(p.After)), colour))
}

func (p *Plan) secretTexts() []string {
	texts := slices.Clone(p.hide)
	for _, data := range [][]byte{p.Before, p.After} {
		if file, err := clients.Parse(p.Path, data, p.setup.Machine.Home); err == nil {
			for i := range file.Servers {
				texts = append(texts, values(&file.Servers[i])...)
			}
		}
	}
	return texts
}

// mode returns the rights of the client's file, which a changed one keeps. A new one is its owner's: such files hold secrets.
func (p *Plan) mode() os.FileMode {
	if info, err := os.Stat(p.Path); err == nil {
		return info.Mode().Perm()
	}
	return 0o600
}

// read returns a file's content; nil if there is none.
func read(path string) ([]byte, error) {
	data, err := clients.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; fix: make it readable", path, value.Reason(err))
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}
