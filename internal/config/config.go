package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dragoman/adapters/rules"
)

// Config is everything a user may set, checked and complete: [LoadConfig] makes
// it from flags, environment, file and defaults, in that order of precedence.
// The table of keys (config_keys.go) says for each field its key, default,
// bounds, flag and environment variable; config.toml shows them all to a user.
//
// A Config is not changed once it is loaded. Headers and variables of upstreams
// hide themselves ([Secret]); an upstream's URL and Proxy are shown by [RedactURL].
type Config struct {
	// Service names the thing that is served, and where (keys service.* and listen).
	Service ServiceConfig
	// Admin is the listener for health, readiness and metrics.
	Admin AdminConfig
	// Profile is "development" (default) or "production".
	Profile string
	// TransportType is the server scaffold's transport_type: "HTTP", "STDIO" or
	// "" (default: the command decides). [Config.CheckServe] refuses "STDIO".
	TransportType string
	// Log is what goes to stderr, and how.
	Log LogConfig
	// Audit is the audit trail.
	Audit AuditConfig
	// Eras says which clients the listener serves: "modern", "legacy" or single
	// revisions, at least one; default ["modern", "legacy"]. rules.Allow reads it.
	Eras []string
	// ErrorStatus is "strict" (default: the HTTP statuses of 2026-07-28) or
	// "compat": what that revision sends as 400 or 404 with a JSON-RPC error
	// goes out as 200, for clients that end altogether at a 4xx.
	ErrorStatus string
	// Sessions bounds the sessions that legacy clients open.
	Sessions SessionsConfig
	// Questions bounds the calls that wait for an answer of a person or a model.
	Questions QuestionsConfig
	// Resume says what is kept for legacy clients that lose a stream.
	Resume ResumeConfig
	// Idempotency says what becomes of a request that comes again.
	Idempotency IdempotencyConfig
	// Rest says how callers without MCP are served.
	Rest RestConfig
	// Limits bounds single bodies, lines, events and requests, and their number.
	Limits LimitsConfig
	// DrainTimeout is how long exchanges may still run after the first
	// interrupt. 0 to 10 min, default 30 s; 0 ends them at once.
	DrainTimeout time.Duration
	// DrainDelay is how long, after the first interrupt, requests are still taken as
	// before, while readiness says no and answers ask for their connection to be closed.
	// 0 to 5 min, default 0.
	DrainDelay time.Duration
	// Keepalive is the silence on an event stream after which a comment is
	// written, so that middleboxes keep it open. 1 s to 5 min, default 15 s.
	Keepalive time.Duration
	// KeepAwake keeps a processor of Go's scheduler busy with sleep while hundreds of requests come in a second, on Linux: each
	// takes a tenth less of the system's processors then. Default true.
	KeepAwake bool
	// Security says who may reach the listener.
	Security SecurityConfig
	// TLS is what the main listener speaks, and whose certificates it believes.
	TLS TLSConfig
	// Tracing says where spans of requests go.
	Tracing TracingConfig
	// Monitoring concerns metrics and dependency checks.
	Monitoring MonitoringConfig
	// Dependencies are what the service depends on besides its upstreams, as they were named.
	Dependencies []*Dependency
	// Timeouts are the time-outs by kind of request.
	Timeouts TimeoutsConfig
	// RateLimit bounds requests per minute.
	RateLimit RateLimitConfig
	// Cache is what is kept of servers' results.
	Cache CacheConfig
	// Reload says when all this is read again.
	Reload ReloadConfig
	// Upstreams are the MCP servers, in the order in which they were named;
	// names are unique. A URL or command on the command line is "default".
	Upstreams []*Upstream
	// Warnings are remarks on what was accepted but ignored, for the log. They hold no secret.
	Warnings []string

	sources     map[string]Source // by cell, see provenance
	Loaded      LoadOptions       // what it was made from
	secretFiles []string          // that secrets were read from
	Seen        string            // how its files looked when it was read
}

// ServiceConfig is the identity of the service and the address of its main
// listener.
type ServiceConfig struct {
	// Name matches ^[a-z][a-z0-9-]*$ (at most 64 characters); default "dragoman".
	Name string
	// Version is MAJOR.MINOR.PATCH with an optional pre-release, or "" (default): Dragoman's own.
	Version string
	// Host is an IP address or a host name, default "127.0.0.1". [Config.Listen] joins it with Port.
	Host string
	// Port is 1024 to 65535, or 0 for any free port; default 8080.
	Port int
}

// SessionsConfig bounds downstream sessions.
type SessionsConfig struct {
	// IdleTTL ends a session after so long without a request. 1 s to 168 h, default 30 min.
	IdleTTL time.Duration
	// Max is the number of sessions at a time; the least recently used one
	// goes first. 1 to 1 000 000, default 10 000.
	Max int
	// MaxPerPrincipal is Max for one principal; default 1 000.
	MaxPerPrincipal int
}

// QuestionsConfig concerns what servers ask (elicitation, sampling, roots), where
// a call has to wait for the answer between two requests of its client.
type QuestionsConfig struct {
	// TTL is how long a parked call waits for its client to come back. 1 s to 30 min, default 10 min.
	TTL time.Duration
	// MaxParked is the number of calls parked at a time, MaxParkedPerPrincipal
	// that of one principal. 1 to 100 000, defaults 1 000 and 100.
	MaxParked, MaxParkedPerPrincipal int
	// Rounds is how often one call may ask. 1 to 100, default 10.
	Rounds int
	// Settle is how long to gather questions that are asked together, after the
	// last one. 0 to 50 ms, default 8 ms.
	Settle time.Duration
	// LeaseWait is how long a call that may be asked waits for a free session
	// with a legacy upstream. Up to 15 min, default 30 s; 0 does not wait.
	LeaseWait time.Duration
	// StateKey seals requestState: at least 32 bytes, or empty (default) for a
	// random key of this process, with which no other process can read it.
	StateKey Secret
}

// ResumeConfig bounds what each session of a legacy client keeps for
// Last-Event-ID, and says how its streams are closed early.
type ResumeConfig struct {
	// Events is the number of events kept of a stream. Up to 100 000, default 256; 0 is no resumption.
	Events int
	// Bytes bounds the size of what is kept for a session, Total for all of them. 1 KiB to 1 GiB, defaults 1 MiB and 256 MiB.
	Bytes, Total int
	// Retry is what clients are told to wait before they come back. 100 ms to 30 s, default 1 s.
	Retry time.Duration
	// Hold is after how long an open answer stream is closed for the client to
	// poll. 100 ms to 15 min; 0 (default) never.
	Hold time.Duration
}

// IdempotencyConfig concerns requests that come again with the same id in a
// session, or with the same Idempotency-Key.
type IdempotencyConfig struct {
	// Mode is replay (default: they are answered from the first call), reject or off.
	Mode string
	// Window is how long a request is remembered after its answer. 1 s to 24 h, default 5 min.
	Window time.Duration
	// Max is the number of requests remembered at a time, and of repeats that
	// may wait for an answer. 1 to 1 000 000, default 10 000.
	Max int
	// Bytes bounds what is remembered. 1 KiB to 1 GiB, default 16 MiB.
	Bytes int
}

// LimitsConfig bounds what is read and held. Sizes are in bytes, 1 KiB to
// 1 GiB unless said.
type LimitsConfig struct {
	// RequestBody is the largest body a client may send; default 4 MiB.
	RequestBody int
	// ResponseBody is the largest body an upstream may send; default 100 MiB.
	ResponseBody int
	// Line is the longest line on a child's stdout, a socket or our own stdin; default 64 MiB.
	Line int
	// Event is the largest event of an event stream; default 100 MiB.
	Event int
	// Header is the largest header block; 4 KiB to 1 MiB, default 64 KiB.
	Header int
	// Connections is the number of clients' connections, those of streams too; 1 to 1 000 000, default 0: three quarters of the
	// file descriptors there are, at most 262 144. Those on which nothing is asked give way to new ones.
	Connections int
	// Streams is the number of open event streams; 1 to 1 000 000, default 10 000.
	Streams int
	// Listens and ListensPerPrincipal bound the listens of modern clients, 1 to 1 000 000, defaults 10 000 and 1 000.
	Listens, ListensPerPrincipal int
	// RequestTime ends one request however much progress it reports. 1 s to 24 h, default 15 min.
	RequestTime time.Duration
	// ReadTime is how long a request may take to arrive, head and body. 1 s to 10 min, default 30 s.
	ReadTime time.Duration
	// InFlight, Queue and InFlightBytes bound what runs and waits at a time
	// (defaults 100, 1 000 and 100 MiB); 0 is no bound of InFlight, and no queue.
	InFlight, Queue, InFlightBytes int
}

// SecurityConfig guards the main listener.
type SecurityConfig struct {
	// AllowedHosts are Host header values accepted besides the listener's own: host or host:port, lower case.
	AllowedHosts []string
	// AllowedOrigins are browser origins accepted besides the listener's own: scheme://host[:port].
	AllowedOrigins []string
	// TrustedProxies are addresses and networks (CIDR) of proxies that are believed what they say of who has asked them.
	TrustedProxies []string
	// AllowAnonymous lets a listener that is not loopback serve without authentication; default false.
	AllowAnonymous bool
	// APIKeysEnabled asks clients for one of Auth.Keys; default false.
	APIKeysEnabled bool
	// Auth says who is let in.
	Auth AuthConfig
}

// MonitoringConfig concerns what operators watch.
type MonitoringConfig struct {
	// MetricsEnabled serves /metrics on the admin listener; default true.
	MetricsEnabled bool
	// ToolLabel counts calls by tool, of each server the tools of its list, 200 at most; default true.
	ToolLabel bool
	// HealthCheckInterval is the time between dependency checks, 10 s to 24 h, default 30 s.
	HealthCheckInterval time.Duration
}

// TimeoutsConfig is how long a server may be silent in a call, by kind, 1 to 300 s each: tool_timeout 30 s,
// resource_timeout 10 s, prompt_timeout 5 s.
type TimeoutsConfig struct{ Tool, Resource, Prompt time.Duration }

// CacheConfig bounds what is kept of results that servers say are good for a time: Bytes of all, default 0, nothing, and TTL of
// each, default 1 h, whatever the server says.
type CacheConfig struct {
	Bytes int
	TTL   time.Duration
}

// RateLimitConfig bounds the requests of one client, PerMinute (default 100), of which Burst (default 20) may come at once;
// and those of all, Total a minute (default 0, any number). Mode is auto (default), on or off; [Config.RateLimited] knows
// what that means.
type RateLimitConfig struct {
	PerMinute, Burst, Total int
	Address                 int // requests of one address, a minute; default 0, any number
	Mode                    string
}

// Upstream is one MCP server: exactly one of URL and Command is set.
type Upstream struct {
	// Name matches ^[a-z][a-z0-9_-]*$, at most 64 characters.
	Name string
	// URL is http or https, with a host, without user information and
	// fragment; or unix:/PATH or tcp://HOST:PORT, see [Upstream.Socket]. Its
	// query may hold a key: log it through [RedactURL] only.
	URL string
	// Command is the argv of a child process, never a shell string.
	Command []string
	// Transport is auto (default), http, sse or rest for an http URL, auto or stdio for a command or a socket.
	Transport string
	// Era is auto (default), modern or legacy.
	Era string
	// Eras are the revisions that may be spoken to the server, as for
	// [Config.Eras]; empty (default) for all. It agrees with Era.
	Eras []string
	// Tasks is "hide" (default) or "drive": whether long-running tasks are driven
	// for clients of the other era, or not offered to them.
	Tasks string
	// SealState wraps a modern server's requestState in one that is bound to the
	// principal, for where one credential serves several people; default false.
	SealState bool
	// PushesOnCall (key asks_on_call) says that the legacy server puts its
	// questions on the stream of the call they belong to; calls that may be asked
	// then share a session. Default false.
	PushesOnCall bool
	// Isolation says who shares an upstream session or child of a legacy server:
	// session (default: each legacy downstream session has its own), principal,
	// pool(N) or shared. [Upstream.Isolated] takes it apart.
	Isolation string
	// Headers are sent with every request to URL; names are unique without regard to case.
	Headers []Header
	// Forward are the headers of clients that go on to URL.
	Forward []ForwardHeader
	// Scopes are what callers need for single tools, prompts, resources and methods.
	Scopes []*ScopeRule
	// OAuth is how Dragoman gets tokens for URL.
	OAuth OAuthConfig
	// Env is added to the environment of Command, over what EnvFile says.
	Env []EnvVar
	// EnvInherit are the variables of Dragoman's own environment that Command gets besides
	// those of stdio.BaseEnv; a name may end in a star. At most 1000.
	EnvInherit []string
	// EnvFile is a file of NAME=VALUE lines for the environment of Command; "" is none. It is
	// read when the configuration is loaded, see [Upstream.Environ].
	EnvFile string
	// FileEnv is what EnvFile holds, sorted by name. It has no key of its own.
	FileEnv []EnvVar
	// Cwd is the working directory of Command; "" is Dragoman's own.
	Cwd string
	// CAFile is a PEM file of roots trusted for URL instead of the system's; "" is the system's.
	CAFile string
	// Proxy is the HTTP proxy for URL, "off", or "" for HTTPS_PROXY, HTTP_PROXY
	// and NO_PROXY. It may hold a password: log it through [RedactURL] only.
	Proxy string
	// ConnectTimeout bounds dialling and the TLS handshake. 100 ms to 5 min, default 10 s.
	ConnectTimeout time.Duration
	// ProbeTimeout is one probe's patience, up to 5 min; [Upstream.ProbeWait] knows what 0 means.
	ProbeTimeout time.Duration
	// VerdictTTL is how long a probe's verdict holds. 1 s to 168 h, default 10 min.
	VerdictTTL time.Duration
	// Declare is what a legacy server is told of the clients behind it: "client" (default), what the client in question has
	// declared, or "all".
	Declare string
	// PollChanges is how often a legacy server that announces changes, and has no stream to do it on, is read for them
	// while a modern client listens. 1 s to 24 h, default 30 s; 0 is never, and no changes are advertised then.
	PollChanges time.Duration
	// MaxSessions bounds the pooled legacy sessions or children. 1 to 100 000, default 100.
	MaxSessions int
	// Spares is the number of children of Command kept started and unused. 0 (default) to 100.
	Spares int
	// MaxProcesses bounds the children of Command at a time, spares included; 1 to 100 000,
	// default 100. MaxProcessesPerPrincipal is that for one principal; 0 (default): as MaxProcesses.
	MaxProcesses, MaxProcessesPerPrincipal int
	// IdleExit ends what serves nobody for so long, to be started again on demand. 1 s to 168 h; 0 (default) never.
	IdleExit time.Duration
	// StartTimeout bounds the time from the start of a child to its first answer. 1 s to 15 min, default 1 min.
	StartTimeout time.Duration
	// CrashLimit is how many starts within a minute have to fail, 1 to 1000, default 5, and half of all, for no
	// child to be started for CrashPause, 1 s to 1 h, default 30 s.
	CrashLimit int
	CrashPause time.Duration
	// Health is what becomes of it when it fails.
	Health HealthConfig
	// Concurrency is how many requests run at the server at a time; 0 (default) is any number.
	Concurrency int
	// Tools is what is said of single tools.
	Tools []*ToolConfig
	// Prompts and Resources is what is said of single ones.
	Prompts, Resources []*ThingConfig
	// Access is what each principal may use.
	Access []*GrantConfig
	// Stderr is the level at which a child's standard error is logged: debug, info (default) or warn; or off.
	Stderr string
	// StopGrace is how long a child may take from the end of its stdin to
	// SIGTERM, KillGrace from SIGTERM to SIGKILL. 0 to 5 min, defaults 5 s and 2 s.
	StopGrace, KillGrace time.Duration
}

// Header is one static upstream header.
type Header struct {
	Name  string
	Value Secret
}

// EnvVar is one variable of a child's environment.
type EnvVar struct {
	Name  string
	Value Secret
}

// Probe patience when probe_timeout is 0: a child has to be started first,
// perhaps by a package runner that downloads it.
const (
	probeWaitHTTP  = 5 * time.Second
	probeWaitStdio = 10 * time.Second
)

// ProbeWait is the patience of one probe: ProbeTimeout, or where that is 0, 5 s
// for an http URL, and 10 s for a command or a socket, behind which there may be one.
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

// Allowed is the set of revisions that may be spoken to the server: Eras, as far as Era lets them.
func (u *Upstream) Allowed() rules.Allowed {
	allowed, _ := rules.Allow(u.Eras) // checked when it was read
	if u.Era == "" || u.Era == Auto {
		return allowed
	}
	only, _ := rules.Allow([]string{u.Era})
	return allowed.And(only)
}

// Served is the set of revisions that the listener serves.
func (c *Config) Served() rules.Allowed {
	served, _ := rules.Allow(c.Eras) // checked when it was read
	return served
}

// Environ is what EnvFile and Env add to the environment of Command, as
// "NAME=value" strings: first the file's, then Env's, which hold where a name is
// in both. They are to follow stdio.BaseEnv(EnvInherit), and are secret.
func (u *Upstream) Environ() []string {
	vars := make([]string, 0, len(u.FileEnv)+len(u.Env))
	for _, v := range slices.Concat(u.FileEnv, u.Env) {
		vars = append(vars, v.Name+"="+v.Value.Reveal())
	}
	return vars
}

// Kinds of isolation, see [Upstream.Isolated].
const (
	perSession   = "session"
	PerPrincipal = "principal"
	Pooled       = "pool"
	SharedByAll  = "shared"
)

// Isolated takes Isolation apart: kind is "session", "principal", "pool" or
// "shared", and n the size of a pool, 1 to 1000, otherwise 0.
func (u *Upstream) Isolated() (kind string, n int) {
	kind, n, _ = parseIsolation(u.Isolation) // checked when it was read
	return kind, n
}

// Socket answers where a server listens that speaks lines over a socket: network
// is "unix" with the path of the socket, or "tcp" with HOST:PORT. ok is false for
// every other upstream.
func (u *Upstream) Socket() (network, address string, ok bool) {
	if path, ok := strings.CutPrefix(u.URL, UnixScheme); ok {
		return "unix", socketPath(path), true
	}
	if at, err := url.Parse(u.URL); err == nil && at.Scheme == "tcp" {
		return "tcp", at.Host, true
	}
	return "", "", false
}

// Target names the server for people: the URL without what may be secret, or
// the command as a process list shows it.
func (u *Upstream) Target() string {
	if len(u.Command) > 0 {
		return strings.Join(u.Command, " ")
	}
	return RedactURL(u.URL)
}

// Listen is the main listener's address as HOST:PORT, IPv6 in brackets.
func (c *Config) Listen() string {
	return net.JoinHostPort(c.Service.Host, strconv.Itoa(c.Service.Port))
}

// Upstream finds an upstream by name; nil if there is none.
func (c *Config) Upstream(name string) *Upstream {
	for _, u := range c.Upstreams {
		if u.Name == name {
			return u
		}
	}
	return nil
}
