package clients

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/proxy/wire"
)

// File is the content of a file in which a client names its servers.
type File struct {
	// Path is where it is.
	Path string
	// Client is the client that has such a file; nil if it is of no client that is known.
	Client *Client
	// Servers are the servers in it, in its order.
	Servers []imported.Server
	// Lost says what of the file is not taken over, besides what each server says.
	Lost []string
}

// Read reads a file with the servers of a client: JSON with comments, or TOML if its name ends in .toml. home is the user's directory, which texts
// may refer to. Errors name the file, and say what to do.
func Read(path, home string) (*File, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, &value.ConfigError{Source: value.Source{Kind: value.FromFile, Name: path}, Problem: "cannot be read: " + value.Reason(err).Error(), Fix: "check the path"}
	}
	return Parse(path, data, home)
}

// ReadFile reads a file of at most maxFile bytes. What is no regular file, such as a pipe that nobody writes to, is an error.
func ReadFile(path string) ([]byte, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("is larger than %d bytes", maxFile)
	}
	return data, err
}

// Parse is [Read] of the content of a file.
func Parse(path string, data []byte, home string) (*File, error) {
	fail := func(problem, fix string) error {
		return &value.ConfigError{Source: value.Source{Kind: value.FromFile, Name: path}, Problem: problem, Fix: fix}
	}
	parse, fix := parseJSON, "correct the file; comments and trailing commas are accepted"
	if strings.EqualFold(filepath.Ext(path), ".toml") {
		parse, fix = parseTOML, "correct the file"
	}
	root, err := parse(data)
	if err != nil {
		return nil, fail(err.Error(), fix)
	}
	form := formOf(path, root)
	if form == nil {
		return nil, fail("has no servers of MCP: none of "+strings.Join(formKeys(), ", ")+" is in it", "name a file of "+value.OneOf(titles())+", or one with an object mcpServers")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	r := &reader{from: form, file: filepath.Base(path), path: abs, home: home, project: form.project(abs, home)}
	out := &File{Path: path, Client: form.client}
	r.inputs(root.at(append(slices.Clone(form.key[:len(form.key)-1]), "inputs")...))
	all := root.at(form.key...)
	if all.kind != '{' {
		return nil, fail(strings.Join(form.key, ".")+" is "+all.what()+", not an object of servers by name", "correct the file")
	}
	for i := range all.members {
		m := &all.members[i]
		if form.top == nil || !slices.Contains(form.top, m.name) {
			out.Servers = append(out.Servers, r.serverOf(m.name, &m.value, m.line))
		}
	}
	out.Lost = append(out.Lost, r.elsewhere(root)...)
	return out, nil
}

// elsewhere says which servers of a file of Claude Code belong to single projects.
func (r *reader) elsewhere(root *node) (lines []string) {
	projects := root.at("projects")
	if projects == nil || r.from.client == nil || r.from.client.ID != claudeCode {
		return nil
	}
	for i := range projects.members {
		m := &projects.members[i]
		if own := m.value.at("mcpServers"); own != nil && len(own.members) > 0 {
			lines = append(lines, fmt.Sprintf("line %d: the servers of the project %s stay there: only those of the user are taken over", m.line, shown(m.name)))
		}
	}
	return lines
}

// reader reads the servers of one file.
type reader struct {
	from    *form
	file    string // for messages
	path    string // absolute
	home    string
	project string
	asked   []input
	server  imported.Server // that is being read
	own     map[string]bool // variables of the server itself
}

// lose notes what is not taken over.
func (r *reader) lose(what string) {
	line := wire.Shown(what)
	if !slices.Contains(r.server.Lost, line) {
		r.server.Lost = append(r.server.Lost, line)
	}
}

// serverOf reads a server.
func (r *reader) serverOf(name string, n *node, line int) imported.Server {
	r.server, r.own = imported.Server{Name: name, From: r.file}, map[string]bool{}
	if line > 0 {
		r.server.From += ":" + strconv.Itoa(line)
	}
	if n.kind != '{' {
		r.lose("is " + n.what() + ", not an object")
		return r.server
	}
	if env := n.at("env"); env != nil {
		for i := range env.members {
			r.own[env.members[i].name] = true
		}
	}
	for i := range n.members {
		m := &n.members[i]
		read, known := fields[m.name]
		switch {
		case !known:
			r.lose(shown(m.name) + " is not known")
		case m.value.kind != 'n':
			read(r, m.name, &m.value)
		}
	}
	r.complete(n)
	return r.server
}

// complete judges a server as a whole.
func (r *reader) complete(n *node) {
	s := &r.server
	switch kind := strings.ToLower(textOf(n.at("type")) + textOf(n.at("transport"))); kind {
	case "sse":
		s.SSE = true
	case "", "stdio", "local", "remote", "http", "streamable-http", "streamablehttp", "streamable_http", "ws", "websocket": // address and complete say what of these is wrong
	default:
		r.lose("the transport " + shown(kind) + " is not known")
	}
	if r.from.urlIsSSE && n.at("url") != nil && n.at("httpUrl") == nil && textOf(n.at("type")) == "" {
		s.SSE = true
	}
	if r.project != "" && len(s.Command) > 0 { // where clients start what a project's file names
		if dir := s.Dir.String(); !filepath.IsAbs(dir) && len(s.Dir.Variables()) == 0 {
			s.Dir = imported.Literal(filepath.Join(r.project, dir))
		}
	}
	if len(s.Command) > 0 && len(s.URL) > 0 {
		r.lose("has a command and an address: the command counts")
		s.URL, s.Headers, s.SSE = nil, nil, false
	}
	if r.itself() {
		r.lose("starts dragoman with this very file, which would start itself")
		s.Command = nil
	}
	if len(s.Command) == 0 && len(s.URL) == 0 {
		r.lose("has neither a command nor an address that can be used")
	}
}

// itself reports whether the server is a Dragoman that imports the file: it would start itself for ever.
func (r *reader) itself() bool {
	for i, t := range r.server.Command {
		path, joined := strings.CutPrefix(t.String(), "--import=")
		if !joined && (i == 0 || r.server.Command[i-1].String() != "--import") {
			continue
		}
		if rest, home := strings.CutPrefix(path, "~/"); home {
			path = filepath.Join(r.home, rest)
		}
		if abs, err := filepath.Abs(path); err == nil && abs == r.path {
			return true
		}
	}
	return false
}

// fields has a function for each field of a server, of all clients.
var fields = map[string]func(r *reader, name string, n *node){
	"command":  (*reader).command,
	"args":     (*reader).args,
	"env":      (*reader).env,
	"envFile":  func(r *reader, name string, n *node) { r.single(&r.server.EnvFile, name, n) },
	"env_vars": (*reader).inherit,
	"cwd":      func(r *reader, name string, n *node) { r.single(&r.server.Dir, name, n) },

	"url":       (*reader).address,
	"serverUrl": (*reader).address,
	"httpUrl":   (*reader).address,
	"type":      ignored, // complete reads it
	"transport": ignored,

	"headers":              (*reader).headers,
	"http_headers":         (*reader).headers,
	"env_http_headers":     (*reader).headersFromEnv,
	"bearer_token_env_var": (*reader).bearer,

	"disabled": func(r *reader, _ string, n *node) { r.server.Disabled = r.server.Disabled || n.text == "true" },
	"enabled":  func(r *reader, _ string, n *node) { r.server.Disabled = r.server.Disabled || n.text == "false" },

	"enabled_tools":  (*reader).only,
	"includeTools":   (*reader).only,
	"disabled_tools": (*reader).hidden,
	"excludeTools":   (*reader).hidden,
	"disabledTools":  (*reader).hidden,

	"startup_timeout_sec": (*reader).startTime,
	"startup_timeout_ms":  (*reader).startTime,
	"tool_timeout_sec":    (*reader).toolTime,
	"timeout":             (*reader).toolTime,

	// For people.
	"description": func(r *reader, _ string, n *node) { r.server.Description = textOf(n) },
	"name":        ignored,
	"gallery":     ignored,
	"version":     ignored,
	"source":      ignored,
	"$schema":     ignored,
	"icon":        ignored,
	"id":          ignored,

	// What is not taken over, with the reason.
	"alwaysAllow":                 consent,
	"autoApprove":                 consent,
	"trust":                       consent,
	"tools":                       consent,
	"default_tools_approval_mode": consent,
	"required":                    clients("whether the client starts without it"),
	"dev":                         clients("for development in the client"),
	"sandbox":                     clients("the client's sandbox"),
	"sandboxEnabled":              clients("the client's sandbox"),
	"experimental_environment":    clients("the client's remote executor"),
	"remote":                      clients("the client's remote executor"),
	"settings":                    clients("settings of an extension of the client"),
	"oauth":                       signIn,
	"auth":                        signIn,
	"authProviderType":            signIn,
	"scopes":                      signIn,
	"oauth_resource":              signIn,
	"targetAudience":              signIn,
	"targetServiceAccount":        signIn,
	"headersHelper": func(r *reader, name string, _ *node) {
		r.lose(name + " is not taken over: Dragoman runs no program for headers; write headers")
	},
}

func ignored(*reader, string, *node) {}

func consent(r *reader, name string, _ *node) {
	r.lose(name + " is not taken over: the client asks for consent itself, so keep it there")
}

func clients(what string) func(*reader, string, *node) {
	return func(r *reader, name string, _ *node) { r.lose(name + " is not taken over: it is " + what) }
}

func signIn(r *reader, name string, _ *node) {
	r.lose(name + " is not taken over: sign-in at servers is configured in oauth of the server, with a client id and secret")
}

// wrong notes a value of the wrong kind, which is never repeated.
func (r *reader) wrong(name string, n *node, want string) {
	r.lose(fmt.Sprintf("%s is %s, not %s", name, n.what(), want))
}

func (r *reader) single(to *imported.Text, name string, n *node) {
	if n.kind != '"' {
		r.wrong(name, n, "text")
		return
	}
	*to = r.text(n.text)
}

// command reads a program, or Zed's older object with path, args and env, or a list of program and arguments.
func (r *reader) command(name string, n *node) {
	switch n.kind {
	case '"':
		if n.text != "" {
			r.server.Command = append([]imported.Text{r.text(n.text)}, r.server.Command...)
		}
	case '[':
		r.args(name, n)
	case '{':
		r.command("path", orNull(n.at("path")))
		if args := n.at("args"); args != nil {
			r.args("args", args)
		}
		if env := n.at("env"); env != nil {
			r.env("env", env)
		}
	default:
		r.wrong(name, n, "text")
	}
}

func orNull(n *node) *node {
	if n == nil {
		return &node{kind: 'n'}
	}
	return n
}

func (r *reader) env(name string, n *node) {
	r.server.Env = append(r.server.Env, r.settings(name, n)...)
}

func (r *reader) args(name string, n *node) {
	for _, arg := range r.list(name, n) {
		r.server.Command = append(r.server.Command, r.text(arg))
	}
}

// list reads a list of texts. Numbers and truths count as text.
func (r *reader) list(name string, n *node) (texts []string) {
	if n.kind != '[' {
		r.wrong(name, n, "a list")
		return nil
	}
	for i := range n.items {
		text, ok := n.items[i].scalar()
		if !ok {
			r.wrong(fmt.Sprintf("%s[%d]", name, i), &n.items[i], "text")
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// settings reads an object of names and texts.
func (r *reader) settings(name string, n *node) (all []imported.Setting) {
	if n.kind != '{' {
		r.wrong(name, n, "an object")
		return nil
	}
	for i := range n.members {
		m := &n.members[i]
		text, ok := m.value.scalar()
		switch {
		case m.value.kind == 'n':
			r.lose(shown(m.name) + " of " + name + " is null, and left out")
		case !ok:
			r.wrong(shown(m.name)+" of "+name, &m.value, "text")
		default:
			all = append(all, imported.Setting{Name: m.name, Value: r.text(text)})
		}
	}
	return all
}

func (r *reader) address(name string, n *node) {
	switch address := textOf(n); {
	case n.kind != '"':
		r.wrong(name, n, "text")
	case address == "":
	case strings.HasPrefix(address, "ws://"), strings.HasPrefix(address, "wss://"):
		r.lose(name + " is a WebSocket, which no revision of MCP knows")
	case len(r.server.URL) > 0 && name == "url": // httpUrl and serverUrl come first in their clients
	default:
		r.server.URL = r.text(address)
	}
}

func (r *reader) headers(name string, n *node) {
	r.server.Headers = append(r.server.Headers, r.settings(name, n)...)
}

// headersFromEnv reads Codex's object of headers and the variables that hold their values.
func (r *reader) headersFromEnv(name string, n *node) {
	for _, one := range r.settings(name, n) {
		variable := one.Value.String()
		if !value.IsVariable(variable) {
			r.lose(shown(one.Name) + " of " + name + " names no variable")
			continue
		}
		r.server.Headers = append(r.server.Headers, imported.Setting{Name: one.Name, Value: imported.Text{{Variable: variable}}, Secret: true})
	}
}

func (r *reader) bearer(name string, n *node) {
	if variable := textOf(n); value.IsVariable(variable) {
		r.server.Headers = append(r.server.Headers, imported.Setting{Name: "Authorization", Value: imported.Text{{Literal: "Bearer "}, {Variable: variable}}, Secret: true})
		return
	}
	r.lose(name + " names no variable")
}

// inherit reads Codex's list of variables that a command gets.
func (r *reader) inherit(name string, n *node) {
	if n.kind != '[' {
		r.wrong(name, n, "a list")
		return
	}
	for i := range n.items {
		one := &n.items[i]
		variable := textOf(one) + textOf(one.at("name"))
		if !value.IsVariable(variable) || textOf(one.at("source")) == "remote" {
			r.lose(fmt.Sprintf("%s[%d] names no variable of this machine", name, i))
			continue
		}
		r.server.Inherit = append(r.server.Inherit, variable)
	}
}

func (r *reader) only(name string, n *node) {
	r.server.Only = append(r.server.Only, r.list(name, n)...)
}

func (r *reader) hidden(name string, n *node) {
	r.server.Hidden = append(r.server.Hidden, r.list(name, n)...)
}

func (r *reader) startTime(name string, n *node) { r.time(&r.server.StartTimeout, name, n) }

func (r *reader) toolTime(name string, n *node) { r.time(&r.server.ToolTimeout, name, n) }

// time reads a time: in milliseconds for Gemini's timeout and for _ms, else in seconds.
func (r *reader) time(to *time.Duration, name string, n *node) {
	count, err := strconv.ParseFloat(n.text, 64)
	if n.kind != '0' || err != nil || count <= 0 || count > 1e9 {
		r.lose(name + " is no time")
		return
	}
	unit := time.Second
	if strings.HasSuffix(name, "_ms") || name == "timeout" && r.from.milliseconds {
		unit = time.Millisecond
	}
	*to = time.Duration(count * float64(unit)).Round(time.Millisecond)
	if most := map[bool]time.Duration{true: imported.MostStart, false: imported.MostCall}[to == &r.server.StartTimeout]; *to > most {
		r.lose(fmt.Sprintf("%s is longer than dragoman's longest, which counts: %s", name, most))
	}
}
