package servers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/adapters/aggregator"
	"dragoman/internal/config/command"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

// Misuse is an error of the command line.
type Misuse struct{ text string }

// Error returns the text, which says what to write.
func (m *Misuse) Error() string { return m.text }

func misuse(format string, args ...any) error { return &Misuse{fmt.Sprintf(format, args...)} }

// Given holds the settings of a server that a command line gives. A nil or empty field is not given.
type Given struct {
	URL, Description, HealthURL *string
	SSE                         *bool
	Command                     []string // the program and its arguments
	Headers, Env                []Named
	Methods                     []string // of a gRPC service that are tools
	Disable, Enable             []string // tools
}

// Named is a header or a variable.
type Named struct{ Name, Value string }

// connectionConfig is the connection of a server as the API takes it.
type connectionConfig struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	BaseURL string            `json:"base_url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Methods []string          `json:"methods,omitempty"`
}

// Registration returns the request to register a server, or to test one that has no name. The error is a *Misuse.
func (g *Given) Registration(name string, connect bool) (*aggregator.Registration, error) {
	switch {
	case g.URL != nil || len(g.Command) > 0:
	case name == "":
		return nil, misuse("a URL or a COMMAND is missing; fix: write `dragoman servers test URL` or `dragoman servers test -- COMMAND`")
	default:
		return nil, misuse("a --url or a COMMAND is missing; fix: write `dragoman servers add NAME --url URL` or `dragoman servers add NAME -- COMMAND`")
	}
	transport, connection, err := g.connect("", connectionConfig{})
	if err != nil {
		return nil, err
	}
	return &aggregator.Registration{Name: name, Description: text(g.Description), Transport: transport, Connection: connection, HealthURL: text(g.HealthURL), AutoConnect: connect}, nil
}

func text(at *string) string {
	if at == nil {
		return ""
	}
	return *at
}

// Update returns the request to change a server. tools are those that the server has. The error is a *Misuse if the command line is wrong.
func (g *Given) Update(s *aggregator.Server, tools []aggregator.Tool) (*aggregator.Update, error) {
	u := &aggregator.Update{Description: g.Description, HealthURL: g.HealthURL}
	if g.Connects() {
		var now connectionConfig
		raw, err := json.Marshal(s.Connection)
		if err == nil {
			err = json.Unmarshal(raw, &now)
		}
		if err != nil {
			return nil, fmt.Errorf("the connection of %s cannot be read: %w", wire.Shown(s.Name), err)
		}
		transport, connection, err := g.connect(s.Transport, now)
		if err != nil {
			return nil, err
		}
		u.Transport, u.Connection = &transport, connection
	}
	if len(g.Disable)+len(g.Enable) > 0 {
		disabled, err := g.disabled(s, tools)
		if err != nil {
			return nil, err
		}
		u.Disabled = &disabled
	}
	return u, nil
}

// Starts says what a COMMAND starts on the machine of the running dragoman, a line each: the command, and the packages that it fetches; nothing
// without a COMMAND.
func (g *Given) Starts() (lines []string) {
	if len(g.Command) == 0 {
		return nil
	}
	words := append([]string{g.Command[0]}, command.Shown(g.Command[1:])...)
	lines = append(lines, "starts   "+wire.ShownText(commandLine(words)))
	all, err := command.Packages(g.Command)
	if err != nil {
		return append(lines, "package  without a fixed version: it could be another program at each start")
	}
	for _, one := range all {
		if one.Version == "" {
			lines = append(lines, "package  the files of "+wire.Shown(one.Name))
			continue
		}
		lines = append(lines, "package  "+wire.Shown(one.Name)+", version "+wire.Shown(one.Version))
	}
	return lines
}

// Connects reports whether it says how the server is reached.
func (g *Given) Connects() bool {
	return g.URL != nil || g.SSE != nil || len(g.Command)+len(g.Headers)+len(g.Env)+len(g.Methods) > 0
}

// Nothing reports whether it says nothing.
func (g *Given) Nothing() bool {
	return !g.Connects() && g.Description == nil && g.HealthURL == nil && len(g.Disable)+len(g.Enable) == 0
}

// connect returns a connection with what is given, and its transport. transport is the present one.
func (g *Given) connect(transport string, c connectionConfig) (string, []byte, error) {
	switch {
	case g.URL != nil && len(g.Command) > 0:
		return "", nil, misuse("both --url and a COMMAND are given; fix: leave one out")
	case len(g.Command) > 0:
		c = connectionConfig{Command: g.Command[0], Args: g.Command[1:], Env: c.Env}
		transport = "STDIO"
	case g.URL != nil:
		if _, _, grpc := field.GRPCTarget(*g.URL); grpc {
			transport = "GRPC"
		} else if transport != "SSE" {
			transport = "HTTP"
		}
		c = connectionConfig{URL: *g.URL, Headers: c.Headers, Methods: c.Methods}
	case transport != "STDIO":
		c.URL += c.BaseURL
	}
	child := transport == "STDIO"
	switch {
	case child && (len(g.Headers) > 0 || g.SSE != nil):
		return "", nil, misuse("--header and --sse only concern a server with a --url; fix: leave them out, or write --env for a variable of the COMMAND")
	case !child && len(g.Env) > 0:
		return "", nil, misuse("--env only concerns a server with a COMMAND; fix: leave it out, or write --header")
	case transport == "GRPC" && g.SSE != nil:
		return "", nil, misuse("--sse only concerns a server with an http or https URL; fix: leave it out")
	case transport != "GRPC" && len(g.Methods) > 0:
		return "", nil, misuse("--grpc-method only concerns a server with a grpc or grpcs URL; fix: leave it out")
	case g.SSE != nil:
		transport = map[bool]string{true: "SSE", false: "HTTP"}[*g.SSE]
	}
	c.Headers, c.Env = with(c.Headers, g.Headers, strings.EqualFold), with(c.Env, g.Env, func(a, b string) bool { return a == b })
	switch {
	case transport != "GRPC":
		c.Methods = nil
	case len(g.Methods) > 0:
		c.Methods = g.Methods
	}
	if transport == "HTTP" {
		c.URL, c.BaseURL = "", c.URL
	}
	raw, err := json.MarshalWithOption(&c, json.DisableHTMLEscape())
	return transport, raw, err
}

// with returns headers or variables with others, of which an empty value removes one. same compares names.
func with(now map[string]string, given []Named, same func(a, b string) bool) map[string]string {
	next := map[string]string{}
	maps.Copy(next, now)
	for _, one := range given {
		maps.DeleteFunc(next, func(name, _ string) bool { return same(name, one.Name) })
		if one.Value != "" {
			next[one.Name] = one.Value
		}
	}
	return next
}

// disabled returns the tools that are to be disabled.
func (g *Given) disabled(s *aggregator.Server, tools []aggregator.Tool) ([]string, error) {
	next := slices.Clone(s.Disabled)
	for _, typed := range g.Disable {
		tool, err := named(s, tools, typed, nil)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(next, tool) {
			next = append(next, tool)
		}
	}
	for _, typed := range g.Enable {
		tool, err := named(s, tools, typed, s.Disabled)
		if err != nil {
			return nil, err
		}
		next = slices.DeleteFunc(next, func(one string) bool { return one == tool })
	}
	return append([]string{}, next...), nil
}

// named returns the server's own name of a tool that was typed, which may be the name that clients call it by. others are valid too.
func named(s *aggregator.Server, tools []aggregator.Tool, typed string, others []string) (string, error) {
	own, prefixed := strings.CutPrefix(typed, s.Name+".")
	known := slices.Clone(others)
	for _, tool := range tools {
		known = append(known, tool.Original)
		if typed == tool.Name {
			return tool.Original, nil
		}
	}
	switch {
	case slices.Contains(known, typed), len(tools) == 0, strings.HasSuffix(typed, "*"):
		return typed, nil
	case prefixed && slices.Contains(known, own):
		return own, nil
	}
	server := wire.Shown(s.Name)
	fix := "`dragoman servers tools " + server + "` shows them"
	if near := value.Nearest(own, known); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	return "", misuse("%s", value.WithFix(fmt.Sprintf("%s has no tool %q", server, value.Shorten(typed)), fix))
}
