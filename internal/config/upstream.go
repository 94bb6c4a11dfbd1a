package config

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/stdio/process"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/policies/access"
	"dragoman/proxy/redact"
)

// Upstream is one MCP server: exactly one of URL and Command is set.
type Upstream struct {
	// Name matches ^[a-z][a-z0-9_-]*$, at most 64 characters.
	Name string
	// URL is http or https, with a host, without user information and fragment; or unix:/PATH or tcp://HOST:PORT, see
	// [Upstream.Socket]; or the address of a gRPC service, see [Upstream.GRPC]. Its query may hold a key: log it through [value.RedactURL] only.
	URL string
	// Command is the argv of a child process, never a shell string.
	Command []string
	// Transport is auto (default), http, sse or rest for an http URL, auto or stdio for a command or a socket.
	Transport string

	// Registration is the id of a server that was registered while Dragoman ran; "": it is one of the configuration. Such a
	// server is reached at addresses only that [AggregatorConfig] allows.
	Registration string
	// Disconnected means that the server is registered, but not to be connected.
	Disconnected bool

	ProtocolConfig
	HTTPConfig
	GRPCConfig
	ProcessConfig
	PolicyConfig
}

// GRPCConfig is how a gRPC service is reached, and what of it.
type GRPCConfig struct {
	// Methods are patterns of the methods that are tools, PACKAGE.SERVICE/METHOD, in which a * stands for any text. Empty (default): the service
	// is a provider of mcp.provider.v1.
	Methods []string
	// Descriptors is a file with the descriptors of the services, a FileDescriptorSet; "" (default): the server is asked for them (reflection).
	Descriptors string
	// CertFile and KeyFile are PEM files of the certificate by which Dragoman shows who it is; "" is none.
	CertFile, KeyFile string
	// Keepalive is how long a connection with calls may be silent before it is asked for a sign of life, and KeepaliveTimeout how long that
	// may take. 10 s to 24 h, default 5 min; 1 s to 5 min, default 20 s.
	Keepalive, KeepaliveTimeout time.Duration
	// Metadata is what a providers.yaml says of the provider, as NAME=TEXT, sorted; it is in the log. It has no key of its own.
	Metadata []string
}

// GRPC returns the address of a gRPC service in the syntax of gRPC, and whether it is reached by TLS. ok is false for every other upstream.
func (u *Upstream) GRPC() (target string, secure, ok bool) { return field.GRPCTarget(u.URL) }

// ProtocolConfig selects the protocol spoken with a server and the isolation of its clients.
type ProtocolConfig struct {
	// Era is auto (default), modern or legacy.
	Era string
	// Eras are the revisions that may be spoken to the server, as for [Config.Eras]; empty (default) for all. They must
	// agree with Era.
	Eras []string
	// Declare says which capabilities a legacy server is told its clients have: "client" (default), those that the
	// client in question has declared, or "all".
	Declare string
	// Isolation says who shares an upstream session or child of a legacy server: session (default: each legacy
	// downstream session has its own), principal, pool(N) or shared. [Upstream.Isolated] parses it.
	Isolation string
	// MaxSessions bounds the pooled legacy sessions or children. 1 to 100 000, default 100.
	MaxSessions int
	// Tasks says what clients of the other era get of long-running tasks: "hide" (default) does not offer tasks to
	// them, "drive" drives tasks for them.
	Tasks string
	// SealState wraps a modern server's requestState in one that is bound to the principal, for callers that share one
	// credential; default false.
	SealState bool
	// PushesOnCall (key asks_on_call) says that the legacy server sends its questions on the stream of the call that
	// they belong to. Calls that may be asked a question then share a session. Default false.
	PushesOnCall bool
	// PollChanges is how often a legacy server that announces changes, but has no stream for them, is polled while a
	// modern client listens. 1 s to 24 h, default 30 s; 0 is never, and then no changes are advertised.
	PollChanges time.Duration
	// ProbeTimeout bounds one probe, up to 5 min. See [Upstream.ProbeWait] for 0.
	ProbeTimeout time.Duration
	// VerdictTTL is how long the result of a probe holds. 1 s to 168 h, default 10 min.
	VerdictTTL time.Duration
}

// HTTPConfig is how a server with an http or https URL is reached.
type HTTPConfig struct {
	// Headers are sent with every request to URL; names are unique, ignoring case.
	Headers []value.NamedSecret
	// Forward are the headers of clients that are passed on to URL.
	Forward []ForwardHeader
	// OAuth is how Dragoman gets tokens for URL.
	OAuth OAuthConfig
	// CAFile is a PEM file of roots trusted for URL instead of the system's; "" is the system's.
	CAFile string
	// Proxy is the HTTP proxy for URL, "off", or "" for HTTPS_PROXY, HTTP_PROXY and NO_PROXY. It may hold a password:
	// log it through [value.RedactURL] only.
	Proxy string
	// ConnectTimeout bounds dialling and the TLS handshake. 100 ms to 5 min, default 10 s.
	ConnectTimeout time.Duration
}

// ProcessConfig is how a child process is run.
type ProcessConfig struct {
	// Env is added to the environment of Command, and takes precedence over EnvFile.
	Env []value.NamedSecret
	// EnvInherit are the variables of Dragoman's own environment that Command gets besides those of process.BaseEnv; a
	// name may end in a star. At most 1000.
	EnvInherit []string
	// EnvFile is a file of NAME=VALUE lines for the environment of Command; "" is none. It is
	// read when the configuration is loaded, see [Upstream.Environ].
	EnvFile string
	// FileEnv is what EnvFile holds, sorted by name. It has no key of its own.
	FileEnv []value.NamedSecret
	// Cwd is the working directory of Command; "" is Dragoman's own.
	Cwd string
	// User and Group are the account of Command, by name or number; "" is Dragoman's own. Linux only.
	User, Group string
	// Memory is how many bytes of data each process of Command may have (RLIMIT_DATA); 0 is no limit. Linux only.
	Memory int
	// CPUs is how many processors all processes of one start of Command may run on; 0 is no limit. Linux only.
	CPUs int
	// Spares is the number of children of Command kept started and unused. 0 (default) to 100.
	Spares int
	// MaxProcesses bounds the children of Command at a time, spares included; 1 to 100 000, default 100.
	// MaxProcessesPerPrincipal bounds those of one principal; 0 (default): as MaxProcesses.
	MaxProcesses, MaxProcessesPerPrincipal int
	// IdleExit ends a child that has been idle for that long, to be started again on demand. 1 s to 168 h; 0 (default)
	// never.
	IdleExit time.Duration
	// StartTimeout bounds the time from the start of a child to its first answer. 1 s to 15 min, default 1 min.
	StartTimeout time.Duration
	// CrashLimit is how many starts within a minute, and half of all, must fail for no child to be started for
	// CrashPause. CrashLimit is 1 to 1000, default 5; CrashPause 1 s to 1 h, default 30 s.
	CrashLimit int
	CrashPause time.Duration
	// Stderr is the level at which a child's standard error is logged: debug, info (default) or warn; or off.
	Stderr string
	// StderrToClients says whether errors show the end of a child's standard error to the caller that the child serves
	// alone; default false.
	StderrToClients bool
	// StopGrace is how long a child may take from the end of its stdin to
	// SIGTERM, KillGrace from SIGTERM to SIGKILL. 0 to 5 min, defaults 5 s and 2 s.
	StopGrace, KillGrace time.Duration
}

// PolicyConfig configures the policies around a server. The server stays as it is when it changes.
type PolicyConfig struct {
	// Scopes are the scopes that callers need for single tools, prompts, resources and methods.
	Scopes []*ScopeRule
	// Health configures checks, circuit breaker, retries and fallback.
	Health HealthConfig
	// Concurrency is how many requests run at the server at a time; 0 (default) is any number.
	Concurrency int
	// Tools are the settings of single tools.
	Tools []*ToolConfig
	// Prompts and Resources are the settings of single ones.
	Prompts, Resources []*ThingConfig
	// Access lists the rights of each principal.
	Access []*GrantConfig
	// Definitions and ApproveFirst are as in [CatalogueConfig]; "" (default) and false: as there.
	Definitions  string
	ApproveFirst bool
	// Trusted means that what the server declares of its tools is believed: call_read_only_tool takes those that declare to change nothing.
	// Default false.
	Trusted bool
}

// ProbeWait returns the bound on one probe: ProbeTimeout, or if that is 0, 5 s for an http URL and 10 s for a command
// or a socket, which may have a command behind it.
func (u *Upstream) ProbeWait() time.Duration {
	_, _, socket := u.Socket()
	switch {
	case u.ProbeTimeout > 0:
		return u.ProbeTimeout
	case socket, len(u.Command) > 0:
		return probeWaitStdio
	}
	return probeWaitHTTP
}

// Allowed returns the revisions that may be spoken to the server: those of Eras that Era permits.
func (u *Upstream) Allowed() rules.Allowed {
	allowed, _ := rules.Allow(u.Eras) // checked when it was read
	if u.Era == "" || u.Era == Auto {
		return allowed
	}
	only, _ := rules.Allow([]string{u.Era})
	return allowed.And(only)
}

// Environ returns what EnvFile and Env add to the environment of Command, as "NAME=value" strings: first those of the
// file, then those of Env, which take precedence. They belong after process.BaseEnv(EnvInherit), and are secret.
func (u *Upstream) Environ() []string {
	vars := make([]string, 0, len(u.FileEnv)+len(u.Env))
	for _, v := range slices.Concat(u.FileEnv, u.Env) {
		vars = append(vars, v.Name+"="+v.Value.Reveal())
	}
	return vars
}

// Secrets returns the values that the configuration keeps for the server: variables, header fields, the OAuth secret, the proxy's
// password, and what the queries of URLs have.
func (u *Upstream) Secrets() *redact.Secrets {
	var values []string
	for _, v := range slices.Concat(u.FileEnv, u.Env, u.Headers) {
		values = append(values, v.Value.Reveal())
	}
	for _, v := range process.Inherited(u.EnvInherit) {
		_, text, _ := strings.Cut(v, "=")
		values = append(values, text)
	}
	if secret := u.OAuth.ClientSecret.Reveal(); secret != "" {
		pair := url.QueryEscape(u.OAuth.ClientID) + ":" + url.QueryEscape(secret) // RFC 6749 §2.3.1
		values = append(values, secret, "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	if via, err := url.Parse(u.Proxy); err == nil && via.User != nil {
		password, _ := via.User.Password()
		values = append(values, password, "Basic "+base64.StdEncoding.EncodeToString([]byte(via.User.Username()+":"+password)))
	}
	for _, raw := range []string{u.URL, u.Health.CheckURL, u.OAuth.TokenURL} {
		if at, err := url.Parse(raw); err == nil {
			values = append(values, at.RawQuery)
			for _, of := range at.Query() {
				values = append(values, of...)
			}
		}
	}
	return redact.New(values...)
}

// Isolated parses Isolation: kind is "session", "principal", "pool" or "shared", and n the size of a pool, 1 to 1000,
// otherwise 0.
func (u *Upstream) Isolated() (kind string, n int) {
	kind, n, _ = field.ParseIsolation(u.Isolation) // checked when it was read
	return kind, n
}

// Socket returns the address of a server that speaks lines over a socket: network is "unix" with the path of the
// socket, or "tcp" with HOST:PORT. ok is false for every other upstream.
func (u *Upstream) Socket() (network, address string, ok bool) {
	if path, ok := strings.CutPrefix(u.URL, value.UnixScheme); ok {
		return "unix", field.SocketPath(path), true
	}
	if at, err := url.Parse(u.URL); err == nil && at.Scheme == "tcp" {
		return "tcp", at.Host, true
	}
	return "", "", false
}

// Target returns the server's name for people: the URL without what may be secret, or the command as a process list
// shows it.
func (u *Upstream) Target() string {
	if len(u.Command) > 0 {
		return strings.Join(u.Command, " ")
	}
	return value.RedactURL(u.URL)
}

// Place returns the URL without secrets, or the program, whose arguments may hold some: for the log.
func (u *Upstream) Place() string {
	if len(u.Command) > 0 {
		return u.Command[0]
	}
	return value.RedactURL(u.URL)
}

// grpcKind is the kind of an upstream whose url is that of a gRPC service, see [Upstream.GRPC].
const grpcKind = "grpc:// or grpcs:// url"

// upstreamProblem is what is wrong with a key of an upstream.
type upstreamProblem struct{ key, what, fix string }

// grpcProblems returns what is wrong with the settings of a gRPC service, and the kinds of keys that it may have besides; nothing for any other server.
func (u *Upstream) grpcProblems() (all []upstreamProblem, kinds []string) {
	fail := func(key, what, fix string) { all = append(all, upstreamProblem{key, what, fix}) }
	_, secure, ok := u.GRPC()
	if !ok {
		return nil, nil
	}
	if u.Transport != Auto {
		fail("transport", u.Transport+" needs an http or https url", "write auto, or remove it")
	}
	if len(u.Allowed().Modern()) == 0 {
		fail("era", "excludes every modern revision, but gRPC services are spoken to as modern servers", "write auto or modern, or remove it")
	}
	if u.Proxy != "" && u.Proxy != field.Off {
		fail("proxy", "cannot be set for a gRPC service", `set HTTPS_PROXY, which gRPC uses, or write "off"`)
	}
	if (u.CertFile == "") != (u.KeyFile == "") {
		fail("grpc.cert_file", "and grpc.key_file need each other", "set both")
	}
	if u.CertFile != "" && !secure || u.CAFile != "" && !secure {
		fail(UrlKey, "is not reached by TLS, which ca_file and grpc.cert_file are for", "write grpcs://HOST:PORT")
	}
	if u.Descriptors != "" && len(u.Methods) == 0 {
		fail("grpc.descriptors", "says nothing about a provider of mcp.provider.v1", `write which methods are tools: grpc.methods = ["PACKAGE.SERVICE/*"]`)
	}
	for key, path := range map[string]string{"grpc.cert_file": u.CertFile, "grpc.key_file": u.KeyFile, "grpc.descriptors": u.Descriptors} {
		if info, err := os.Stat(path); path != "" && (err != nil || info.IsDir()) {
			fail(key, fmt.Sprintf("%q cannot be read", value.Shorten(path)), "name a file that is there")
		}
	}
	return all, []string{grpcKind}
}

// Bounds on a probe if probe_timeout is 0. A child must be started first, perhaps by a package runner that downloads
// it.
const (
	probeWaitHTTP  = 5 * time.Second
	probeWaitStdio = 10 * time.Second
)

// ThingConfig holds the settings of one prompt or resource of an upstream, or of all whose names or URIs begin alike.
type ThingConfig struct {
	Name    string // as the server gives it; a trailing * matches any ending
	Rename  string // its name for clients; "" (default) is Name
	Enabled bool   // whether clients can see and use it; default true
}

// GrantConfig lists the tools, prompts and resources of an upstream that one principal may use. The principal "*" stands for all without an entry of their
// own. Lists have names as the server gives them, or beginnings of names followed by a *. If the list of what is
// allowed is empty, everything is allowed that is not denied.
type GrantConfig struct {
	Principal                             string
	Tools, Prompts, Resources             []string
	DenyTools, DenyPrompts, DenyResources []string
}

func (u *Upstream) renames() access.Renames {
	of := func(list []*ThingConfig) map[string]string {
		names := make(map[string]string)
		for _, t := range list {
			if t.Rename != "" && t.Rename != t.Name {
				names[t.Name] = t.Rename
			}
		}
		return names
	}
	return access.Renames{Prompts: of(u.Prompts), Resources: of(u.Resources),
		Tools: Ruled(u, func(t *ToolConfig) (string, bool) { return t.Rename, t.Rename != "" && t.Rename != t.Name })}
}

// AccessOptions returns the options of the filter for the upstream.
func (u *Upstream) AccessOptions() access.FilterOptions {
	opt := access.FilterOptions{Server: u.Name, Grants: make(map[string]access.Grant), Renamed: u.renames(),
		Versions: Ruled(u, func(t *ToolConfig) (string, bool) { return t.Version, t.Version != "" })}
	for _, g := range u.Access {
		opt.Grants[g.Principal] = g.Grant()
	}
	off := func(list []*ThingConfig) (names []string) {
		for _, t := range list {
			if !t.Enabled {
				names = append(names, t.Name)
			}
		}
		return names
	}
	for _, t := range u.Tools {
		if !t.Enabled {
			opt.Disabled.Tools = append(opt.Disabled.Tools, t.Name)
		}
	}
	opt.Disabled.Prompts, opt.Disabled.Resources = off(u.Prompts), off(u.Resources)
	return opt
}

// Grant returns the grant as a filter takes it.
func (g *GrantConfig) Grant() access.Grant {
	return access.Grant{Tools: access.Names{Allow: g.Tools, Deny: g.DenyTools},
		Prompts: access.Names{Allow: g.Prompts, Deny: g.DenyPrompts}, Resources: access.Names{Allow: g.Resources, Deny: g.DenyResources}}
}

// ForwardHeader is a header of clients that is passed on to an upstream: clients send it as From, the upstream gets it
// as To. Headers without an entry are not passed on (2026-07-28 authorization, Access Token Privilege Restriction).
type ForwardHeader struct{ From, To string }

// ScopeRule says which scopes a caller must have for something of an upstream.
type ScopeRule struct {
	// About is tool:NAME, prompt:NAME, resource:URI or method:NAME; a trailing * matches any ending.
	About string
	// Scopes are all required, and those of every other rule that matches.
	Scopes []string
}

// OAuthConfig is how Dragoman gets tokens for an upstream: the client credentials grant (RFC 6749 §4.4).
type OAuthConfig struct {
	// TokenURL is the authorization server's token endpoint, https, or http on the loopback; "" (default) sends no token.
	TokenURL string
	// ClientID and ClientSecret are Dragoman's credentials at that server.
	ClientID     string
	ClientSecret value.Secret
	// ClientAuth is how they are sent: "basic" (default) in a header, or "post" in the body.
	ClientAuth string
	// Scopes, Audience and Resource (RFC 8707) are requested for the token.
	Scopes             []string
	Audience, Resource string
}

// HealthConfig says how failures of an upstream are noticed, and what is done about them.
type HealthConfig struct {
	// CheckURL is requested with GET to check the upstream, http or https; "" (default) checks by the protocol.
	CheckURL string
	// CheckInterval is the time between checks, 10 s to 24 h, default 30 s; 0 is never. A child is not checked.
	CheckInterval time.Duration
	// CheckTimeout bounds one check. 100 ms to 60 s, default 5 s.
	CheckTimeout time.Duration
	// BreakerFailures is how many calls within a minute, and half of all, must fail for the upstream not to be called
	// for BreakerPause. Then BreakerTrials calls test whether it answers again. BreakerFailures is 1 to 1000, default
	// 20, or 0 for no breaker; BreakerPause 1 s to 1 h, default 30 s; BreakerTrials 1 to 100, default 1.
	BreakerFailures, BreakerTrials int
	BreakerPause                   time.Duration
	// Retries is how often a failed request without effects is repeated. 0 (none) to 10, default 2.
	Retries int
	// RetryBackoff is the longest pause before the first retry, doubled with each. 1 ms to 5 s, default 100 ms.
	RetryBackoff time.Duration
	// RetryBudget bounds the retries, in percent of the requests. 1 to 100, default 20.
	RetryBudget int
	// Fallback names the upstream that gets new requests and sessions while this one is in error; "" (default): none.
	Fallback string
}

// ToolConfig holds the settings of one tool of an upstream, or of all whose names begin alike (seed 001 MCPTool, seed
// 003 McpToolDefinition).
type ToolConfig struct {
	// Name is the tool's, as the server gives it; a trailing * matches any ending.
	Name string
	// Timeout is how long the tool may be silent, instead of tool_timeout: 1 s to 300 s, or 0 for no such limit.
	// [ToolConfig.Timed] reports whether it was set.
	Timeout time.Duration
	// Concurrency is how many calls of the tool run at a time; 0 (default) is any number.
	Concurrency int
	// Rename is its name for clients; "" (default) is Name.
	Rename string
	// Enabled says whether clients can see and use the tool; default true.
	Enabled bool
	// Version is the version of the tool's contract, MAJOR.MINOR.PATCH; "": not stated.
	Version string
	// RateLimit bounds the calls of the tool in a minute, of all clients together; 0 (default) is no limit.
	RateLimit int
}

// unsetTime marks a time that was not set.
const unsetTime time.Duration = -1

// Timed reports whether the tool has a timeout of its own.
func (t *ToolConfig) Timed() bool { return t.Timeout != unsetTime }

// Ruled returns what pick finds for the configured tools, by name.
func Ruled[T any](u *Upstream, pick func(*ToolConfig) (T, bool)) map[string]T {
	of := make(map[string]T)
	for _, t := range u.Tools {
		if v, ok := pick(t); ok {
			of[t.Name] = v
		}
	}
	return of
}
