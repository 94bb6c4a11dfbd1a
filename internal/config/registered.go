package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/internal/config/command"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// Registered is a server that was registered while Dragoman ran (seed 004, BR-001).
type Registered struct {
	// ID is that of the registration.
	ID string
	// Name is as in [Upstream].
	Name string
	// Transport is STDIO, SSE, HTTP or GRPC.
	Transport string
	// Connection is a JSON object: command, args and env for STDIO, url and headers for SSE, base_url and headers for HTTP, url, headers and methods for GRPC.
	// Values of env and headers may be env:NAME or file:/path, and contain ${NAME}, if [AggregatorConfig.Secrets] allows that.
	Connection []byte
	// HealthURL is as in [HealthConfig.CheckURL].
	HealthURL string
	// Wanted means that the server should be connected.
	Wanted bool
	// Disabled are tools that clients do not see.
	Disabled []string
}

// Fields of a registration that errors name.
const (
	connectionField = "connection_config"
	healthField     = "health_check_url"
	nameField       = "name"
	transportField  = "transport_type"
)

// ErrShadowed means that the configuration has a server of a registered name, which counts.
var ErrShadowed = errors.New("the configuration has a server of this name, which counts instead")

// With returns the configuration with registered servers, ordered by name, behind its own, and without others that were registered. left says why servers were left out, by name: with
// a [value.ConfigErrors] whose keys are fields of a registration, or [ErrShadowed].
func (c *Config) With(all []Registered) (_ *Config, left map[string]error) {
	if c.base != nil {
		c = c.base
	}
	next := *c
	next.base = c
	next.Upstreams, next.sources, next.Warnings = slices.Clone(c.Upstreams), maps.Clone(c.sources), slices.Clone(c.Warnings)
	left = map[string]error{}
	for _, r := range slices.SortedFunc(slices.Values(all), func(a, b Registered) int { return strings.Compare(a.Name, b.Name) }) {
		if c.Upstream(r.Name) != nil {
			left[r.Name] = ErrShadowed
			continue
		}
		before, sources := next.Upstreams, maps.Clone(next.sources)
		l := &loader{cfg: &next, environ: c.Loaded.Environ, mostName: maxRegisteredName}
		l.beginLayer()
		if l.register(&r); len(l.errs) > 0 {
			next.Upstreams, next.sources = before, sources
			left[r.Name] = l.errs
		}
	}
	return &next, left
}

// Alone returns a configuration whose only server is a registered one, for a test of its connection. It has the limits and times of c, and what
// c lets be registered. The error is as in [Config.With].
func (c *Config) Alone(r Registered) (*Config, error) {
	if c.base != nil {
		c = c.base
	}
	bare := *c
	bare.Upstreams, bare.Groups, bare.Dependencies, bare.Merge, bare.Attended = nil, nil, nil, never, true
	r.ID = "test" // addresses of servers with an id are judged
	next, left := bare.With([]Registered{r})
	if err := left[r.Name]; err != nil {
		return nil, err
	}
	next.base = nil
	next.Aggregator.Keys, next.Aggregator.ViewerScope, next.Aggregator.OperatorScope = nil, "", ""
	next.Events = EventsConfig{}
	next.Audit.Enabled, next.Security.APIKeysEnabled, next.Security.Auth = false, false, AuthConfig{}
	next.Catalogue.Definitions, next.Catalogue.ApproveFirst = Follow, false // what it lists now is what is asked for
	next.TLS, next.Tracing, next.PolicyHook, next.RateLimit = TLSConfig{ClientAuth: ClientAuthNone}, TracingConfig{}, PolicyHookConfig{}, RateLimitConfig{Mode: field.Off}
	up := next.Upstreams[0]
	up.Health.CheckInterval, up.Spares, up.Disconnected = 0, 0, false
	return next, nil
}

// register adds a registered server.
func (l *loader) register(r *Registered) {
	from := value.Source{Kind: value.FromFile, Name: "registration of " + r.Name}
	fail := func(key, what, fix string) { l.fail(key, value.Source{}, what, fix) }
	c := connection{l: l, r: r, from: from, fail: fail}
	if !UpstreamName.MatchString(r.Name) || len(r.Name) > maxRegisteredName {
		fail(nameField, fmt.Sprintf("%q is no name of a server", value.Shorten(r.Name)), fmt.Sprintf("use at most %d lower-case letters, digits, hyphens and underscores, a letter first", maxRegisteredName))
		return
	}
	defer c.rekey()
	c.read()
	if len(l.errs) > 0 {
		return
	}
	u := l.cfg.Upstream(r.Name)
	u.Registration, u.Disconnected = r.ID, !r.Wanted
	for _, tool := range r.Disabled {
		c.set(value.Literal{Kind: value.BooleanLiteral, Text: "false"}, toolsKey, tool, "enabled")
	}
	if r.HealthURL != "" {
		if r.Transport == transportStdio {
			fail(healthField, "is for servers with an address: a process is watched itself", "remove it")
			return
		}
		c.set(value.Word(r.HealthURL), "health_check_url")
	}
	standard := new(Upstream).keys()
	l.standard(standard)
	upstreamCheck{l, u, UpstreamsKey + "." + u.Name, standard}.check()
}

// rekey makes the keys of errors fields of the registration.
func (c *connection) rekey() {
	for _, e := range c.l.errs {
		e.Source = value.Source{}
		if strings.HasPrefix(e.Key, UpstreamsKey+".") {
			e.Key = c.field(e.Key)
		}
	}
}

// maxRegisteredName is the greatest length of a name in bytes (seed 004, BR-001).
const maxRegisteredName = 255

// Transports of registered servers (seed 004, BR-001).
const (
	transportStdio = "STDIO"
	transportSSE   = "SSE"
	transportHTTP  = "HTTP"
	transportGRPC  = "GRPC" // seed 002
)

// connection reads the connection of a registration.
type connection struct {
	l    *loader
	r    *Registered
	from value.Source
	fail func(key, what, fix string)
}

// field returns the field of a registration for a key of its upstream.
func (c *connection) field(key string) string {
	rest, below := strings.CutPrefix(key, UpstreamsKey+"."+c.r.Name+".")
	first, _, _ := strings.Cut(rest, ".")
	switch {
	case !below:
		return connectionField
	case first == "health_check_url":
		return healthField
	case first == UrlKey && c.r.Transport == transportHTTP:
		return connectionField + ".base_url"
	case rest == grpcMethodsKey:
		return connectionField + "." + methodsField
	case first == UrlKey, first == CommandKey, first == headersKey, first == envKey:
		return connectionField + "." + rest
	}
	return rest
}

// set writes a key of the upstream.
func (c *connection) set(v value.Literal, path ...string) {
	c.l.assign(append([]string{UpstreamsKey, c.r.Name}, path...), v, c.from)
}

// read writes the connection into the upstream.
func (c *connection) read() {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(c.r.Connection, &fields); err != nil || fields == nil {
		c.fail(connectionField, "must be an object", "")
		return
	}
	var known []string
	switch c.r.Transport {
	case transportStdio:
		known = []string{"command", "args", "env"}
		c.command(fields)
	case transportSSE, transportHTTP:
		key := map[string]string{transportSSE: "url", transportHTTP: "base_url"}[c.r.Transport]
		known = []string{key, headersKey}
		c.address(fields, key, func(text string) bool {
			return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
		},
			"is no http or https URL", "write one such as https://example.com/mcp")
		c.set(value.Word(map[string]string{transportSSE: "sse", transportHTTP: "http"}[c.r.Transport]), "transport")
		c.named(fields, headersKey)
	case transportGRPC:
		known = []string{UrlKey, headersKey, methodsField}
		c.address(fields, UrlKey, isGRPC,
			"is no address of a gRPC service", "write one such as grpcs://example.com:443")
		c.named(fields, headersKey)
		c.methods(fields)
	default:
		c.fail(transportField, fmt.Sprintf("%q is no transport", value.Shorten(c.r.Transport)), "write STDIO, SSE, HTTP or GRPC")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, key) {
			c.fail(connectionField+"."+value.KeyPart(key), "is no field of a "+c.r.Transport+" connection", "write "+value.OneOf(known))
		}
	}
}

// methodsField is the field of the methods that are tools.
const methodsField = "methods"

// address writes the address of the server, which ok accepts.
func (c *connection) address(fields map[string]json.RawMessage, key string, ok func(text string) bool, what, fix string) {
	var text string
	switch {
	case fields[key] == nil:
		c.fail(connectionField+"."+key, "is required for "+c.r.Transport, "")
	case !c.take(fields, key, &text, "text"):
	case !ok(text):
		c.fail(connectionField+"."+key, what, fix)
	default:
		c.set(value.Literal{Kind: value.QuotedLiteral, Text: text}, UrlKey)
	}
}

// isGRPC reports whether a text is an address of a gRPC service that may be registered. A DNS server in it would be asked whatever its own address is.
func isGRPC(text string) bool {
	_, _, ok := field.GRPCTarget(text)
	return ok && (!strings.HasPrefix(text, "dns:") || strings.HasPrefix(text, "dns:///"))
}

// methods writes the methods that are tools, if there are any.
func (c *connection) methods(fields map[string]json.RawMessage) {
	var all []string
	if !c.take(fields, methodsField, &all, "a list of texts") || len(all) == 0 {
		return
	}
	list := value.Literal{Kind: value.ListLiteral}
	for _, one := range all {
		list.Items = append(list.Items, value.Literal{Text: one})
	}
	c.set(list, strings.Split(grpcMethodsKey, ".")...)
}

// take decodes a field, and reports whether it is there and of the right type.
func (c *connection) take(fields map[string]json.RawMessage, key string, to any, what string) bool {
	raw, there := fields[key]
	if !there {
		return false
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) || json.Unmarshal(raw, to) != nil {
		c.fail(connectionField+"."+key, "must be "+what, "")
		return false
	}
	return true
}

// command writes the command and its environment.
func (c *connection) command(fields map[string]json.RawMessage) {
	var program string
	var args []string
	switch {
	case fields["command"] == nil:
		c.fail(connectionField+".command", "is required for "+c.r.Transport, "")
	case !c.take(fields, "command", &program, "text"):
	case !slices.Contains(c.l.cfg.Aggregator.Commands, program):
		c.fail(connectionField+".command", fmt.Sprintf("%q may not be registered", value.Shorten(program)), "name the program in "+aggregatorTable+"commands of the configuration; none is allowed by default")
	}
	c.take(fields, "args", &args, "a list of texts")
	c.judge(program, args)
	list := value.Literal{Kind: value.ListLiteral, Items: []value.Literal{{Text: program}}}
	for _, arg := range args {
		list.Items = append(list.Items, value.Literal{Text: arg})
	}
	c.set(list, CommandKey)
	c.named(fields, envKey)
}

// judge refuses a command that fetches packages without fixed versions, or that holds secrets.
func (c *connection) judge(program string, args []string) {
	if _, err := command.Packages(append([]string{program}, args...)); err != nil && !c.l.cfg.Aggregator.Unpinned {
		c.l.failWith(err, connectionField+".args", value.Source{})
	}
	for _, s := range command.Secrets(args) {
		c.fail(fmt.Sprintf("%s.args.%d", connectionField, s.At), "holds a secret, "+s.What+": everybody on the machine can see arguments", "put it into env as env:NAME, file:/path or ${NAME}, and let the program read the variable")
	}
}

// named writes the headers or variables.
func (c *connection) named(fields map[string]json.RawMessage, key string) {
	var all map[string]string
	if !c.take(fields, key, &all, "an object of texts") {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := connectionField + "." + key + "." + value.KeyPart(name)
		if key == envKey && loads(name) {
			c.fail(at, "decides which code the program loads", "remove it; an operator may set it in the configuration")
			continue
		}
		if c.l.cfg.Aggregator.SealKey.Reveal() == "" && !refers(all[name]) {
			c.fail(at, "has no reference to a secret, and would be stored as it is", "write env:NAME, file:/path or ${NAME}, or set "+aggregatorTable+"seal_key, with which registrations are encrypted")
			continue
		}
		text, err := c.resolve(all[name])
		if err != nil {
			c.l.failWith(err, at, value.Source{})
			continue
		}
		c.l.final(c.l.cfg.Upstream(c.r.Name), given{path: []string{UpstreamsKey, c.r.Name, key, name}, Literal: value.Literal{Text: text}, from: c.from})
	}
}

// refers reports whether a value refers to a secret.
func refers(text string) bool { return value.Refers(text) || value.Contains(text) }

// OnlyReference reports whether a value is a reference to a secret and nothing else, which is no secret itself.
func OnlyReference(text string) bool {
	return value.Refers(text) || value.IsReference(text)
}

// Hidden reports whether clients do not see a tool, by the name that the server gives it.
func (u *Upstream) Hidden(tool string) bool {
	return slices.ContainsFunc(u.Tools, func(t *ToolConfig) bool {
		begin, star := strings.CutSuffix(t.Name, "*")
		return !t.Enabled && (t.Name == tool || star && strings.HasPrefix(tool, begin))
	})
}

// loads reports whether a variable decides which code a program loads.
func loads(name string) bool {
	name = strings.ToUpper(name)
	return name == "PATH" || name == "NODE_OPTIONS" || name == "NODE_PATH" || name == "BASH_ENV" || name == "ENV" || name == "PERL5LIB" || name == "PERL5OPT" || name == "RUBYOPT" || name == "RUBYLIB" ||
		name == "JAVA_TOOL_OPTIONS" || name == "_JAVA_OPTIONS" || name == "JDK_JAVA_OPTIONS" || name == "CLASSPATH" ||
		strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") || strings.HasPrefix(name, "PYTHON") || strings.HasPrefix(name, "NPM_CONFIG_") || strings.HasPrefix(name, "UV_") || strings.HasPrefix(name, "PIP_")
}

// resolve replaces the references of a value. Errors name the reference, never the value.
func (c *connection) resolve(text string) (string, error) {
	if value.Refers(text) || strings.HasPrefix(text, "env:") && value.IsVariable(text[4:]) {
		if err := c.allowed(text); err != nil {
			return "", err
		}
		return value.ResolveSecret(text, c.l.lookup)
	}
	return value.Expand(text, func(ref string) (string, error) {
		if err := c.allowed(ref); err != nil {
			return "", err
		}
		return value.ResolveSecret(ref, c.l.lookup)
	})
}

// allowed returns an error unless a registration may have a reference.
func (c *connection) allowed(ref string) error {
	path, file := strings.CutPrefix(ref, "file:")
	clean := !file || path == filepath.Clean(path)
	if clean && slices.ContainsFunc(c.l.cfg.Aggregator.Secrets, func(pattern string) bool {
		begin, star := strings.CutSuffix(pattern, "*")
		return ref == pattern || star && strings.HasPrefix(ref, begin)
	}) {
		return nil
	}
	return &value.Problem{What: fmt.Sprintf("refers to %s, which registrations may not", value.Shorten(ref)), Fix: "name it in " + aggregatorTable + "secrets of the configuration; none is allowed by default"}
}
