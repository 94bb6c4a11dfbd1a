// Package config loads the configuration from its sources, checks it, and knows where each value came from. It knows
// nothing of the proxy that is made from it.
package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"dragoman/adapters/rules"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// Config is everything a user may set, checked and complete. [LoadConfig] makes it from flags, environment, file and
// defaults, in that order of precedence. The lists of keys (keys.go, upstream_keys.go) have for each field its key,
// default, bounds, flag and environment variable; config.toml shows them all to a user.
//
// A Config is not changed once it is loaded. Headers and variables of upstreams hide themselves ([value.Secret]); show
// an upstream's URL and Proxy through [value.RedactURL] only.
type Config struct {
	// Service is the name and the address of the service (keys service.* and listen).
	Service ServiceConfig
	// Admin is the listener for health, readiness and metrics.
	Admin AdminConfig
	// Profile is "development" (default) or "production".
	Profile string
	// TransportType is the server scaffold's transport_type: "HTTP", "STDIO" or
	// "" (default: the command decides). [OnServe] refuses "STDIO".
	TransportType string
	// Attended says that the one client is the operator: errors may say all. Commands set it; it has no key.
	Attended bool
	// Log configures the log on stderr.
	Log LogConfig
	// Audit is the audit trail.
	Audit AuditConfig
	// Events says what others are told of what happens.
	Events EventsConfig
	// Eras says which clients the listener serves: "modern", "legacy" or single
	// revisions, at least one; default ["modern", "legacy"]. rules.Allow reads it.
	Eras []string
	// ErrorStatus is "strict" (default: the HTTP statuses of 2026-07-28) or "compat": what that revision sends as 400
	// or 404 with a JSON-RPC error is sent as 200, for clients that give up at a 4xx.
	ErrorStatus string
	// PublicPrefix is the path under which a proxy in front serves the main listener and which it removes, as /gateway; empty: none.
	// Paths that clients are told begin with it.
	PublicPrefix string
	// Sessions bounds the sessions that legacy clients open.
	Sessions SessionsConfig
	// Questions bounds the calls that wait for the answer of a person or a model.
	Questions QuestionsConfig
	// Resume says what is kept for legacy clients that lose a stream.
	Resume ResumeConfig
	// Idempotency says how repeated requests are handled.
	Idempotency IdempotencyConfig
	// Rest says how callers without MCP are served.
	Rest RestConfig
	// Subregistry says how the servers are listed for others as an MCP registry.
	Subregistry SubregistryConfig
	// Limits bounds single bodies, lines, events and requests, and their number.
	Limits LimitsConfig
	// DrainTimeout is how long exchanges may run after the first interrupt. 0 to 10 min, default 30 s; 0 ends them at
	// once.
	DrainTimeout time.Duration
	// DrainDelay is how long, after the first interrupt, requests are still accepted while readiness fails and
	// responses ask for their connection to be closed. 0 to 5 min, default 0.
	DrainDelay time.Duration
	// Keepalive is how long an event stream may be silent before a comment is written, so that middleboxes keep it
	// open. 1 s to 5 min, default 15 s.
	Keepalive time.Duration
	// KeepAwake switches on scheduler pinning while hundreds of requests come in a second, on Linux: each then takes a
	// tenth less processor time. Default true.
	KeepAwake bool
	// Security says who may reach the listener.
	Security SecurityConfig
	// TLS configures TLS at the main listener, and the client certificates that it accepts.
	TLS TLSConfig
	// Tracing says where spans of requests go.
	Tracing TracingConfig
	// Monitoring concerns metrics and dependency checks.
	Monitoring MonitoringConfig
	// Dependencies are the services needed besides the upstreams, in the order in which they were named.
	Dependencies []*Dependency
	// Timeouts bounds the silence of servers by kind of request.
	Timeouts TimeoutsConfig
	// RateLimit bounds requests per minute.
	RateLimit RateLimitConfig
	// Cache bounds the cached results of servers.
	Cache CacheConfig
	// PolicyHook is a decision point that is asked about requests.
	PolicyHook PolicyHookConfig
	// Reload says when the configuration is read again.
	Reload ReloadConfig
	// Merge says when several servers are one at /mcp and the paths beside it: "auto" (default) with more than one
	// server or a registered one, "always" also with one, "never" with none: several servers are then at /servers/NAME only. See [Config.Merged].
	Merge string
	// Names says how tools and prompts of several servers are called.
	Names NamesConfig
	// Lists says how lists of several servers deal with a server that is away.
	Listing ListingConfig
	// Catalogue says where what servers offer is kept over a restart.
	Catalogue CatalogueConfig
	// Aggregator concerns servers that are registered while Dragoman runs.
	Aggregator AggregatorConfig
	// Search says how tools are found.
	Search SearchConfig
	// ToolContext says how the tools of several servers are listed.
	ToolContext ContextConfig
	// Contexts say how they are listed to some clients, see [Config.Context].
	Contexts []*ClientContext
	// Classification says what sorts tools into categories.
	Classification ClassificationConfig
	// OwnCategories are those of the user's, see [Config.Categories].
	OwnCategories []*Category
	// Groups are named subsets of the servers, in the order in which they were named.
	Groups []*Group
	// Upstreams are the MCP servers, in the order in which they were named;
	// names are unique. A URL or command on the command line is "default".
	Upstreams []*Upstream
	// roots are the contents of the files of roots: another content is another configuration.
	roots []string

	Origin
}

// Origin is where the values of a [Config] came from.
type Origin struct {
	// Loaded holds the options that the Config was loaded with.
	Loaded LoadOptions
	// Seen is the [Fingerprint] of its files when they were read.
	Seen string
	// Warnings are remarks on what was accepted but ignored, for the log. They hold no secret.
	Warnings []string

	base        *Config                 // without registered servers; nil: it has none
	sources     map[string]value.Source // by cell
	secretFiles []string                // files that secrets were read from
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
	// Port is 1 to 65535, as far as the system allows, or 0 for any free port; default 8080.
	Port int
}

// SessionsConfig bounds downstream sessions.
type SessionsConfig struct {
	// IdleTTL ends a session that has been without a request for that long. 1 s to 168 h, default 30 min.
	IdleTTL time.Duration
	// Max is the number of sessions at a time; the least recently used one is evicted first. 1 to 1 000 000, default 10
	// 000.
	Max int
	// MaxPerPrincipal is Max for one principal; default 1 000.
	MaxPerPrincipal int
}

// QuestionsConfig concerns the questions of servers (elicitation, sampling, roots) where a call waits for the answer
// between two requests of its client.
type QuestionsConfig struct {
	// TTL is how long a suspended call waits for its client to come back. 1 s to 30 min, default 10 min.
	TTL time.Duration
	// MaxParked is the number of calls suspended at a time, MaxParkedPerPrincipal that of one principal. 1 to 100 000,
	// defaults 1 000 and 100.
	MaxParked, MaxParkedPerPrincipal int
	// Rounds is how often one call may ask. 1 to 100, default 10.
	Rounds int
	// Settle is how long to wait, after a question, for further ones that are asked together. 0 to 50 ms, default 8 ms.
	Settle time.Duration
	// LeaseWait is how long a call that may be asked a question waits for a free session with a legacy upstream. Up to
	// 15 min, default 30 s; 0 does not wait.
	LeaseWait time.Duration
	// StateKey seals requestState: at least 32 bytes, or empty (default) for a random key of this process. Other
	// processes can then not read it.
	StateKey value.Secret
}

// ResumeConfig bounds what each session of a legacy client keeps for
// Last-Event-ID, and says how its streams are closed early.
type ResumeConfig struct {
	// Events is the number of events kept of a stream. Up to 100 000, default 256; 0 is no resumption.
	Events int
	// Bytes bounds the size of what is kept for a session, Total for all of them. 1 KiB to 1 GiB, defaults 1 MiB and 256 MiB.
	Bytes, Total int
	// Retry is how long clients are told to wait before they reconnect. 100 ms to 30 s, default 1 s.
	Retry time.Duration
	// Hold is how long a response stream stays open before it is closed for the client to poll. 100 ms to 15 min; 0
	// (default): without limit.
	Hold time.Duration
}

// IdempotencyConfig concerns requests that are repeated with the same id in a session, or with the same
// Idempotency-Key.
type IdempotencyConfig struct {
	// Mode is replay (default: repeats are answered from the first call), reject or off.
	Mode string
	// Window is how long a request is remembered after its response. 1 s to 24 h, default 5 min.
	Window time.Duration
	// Max is the number of requests remembered at a time, and of repeats that may wait for a response. 1 to 1 000 000,
	// default 10 000.
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
	// Connections is the number of clients' connections, those of streams included; 1 to 1 000 000, default 0: three
	// quarters of the available file descriptors, at most 262 144. Idle connections give way to new ones.
	Connections int
	// Streams is the number of open event streams; 1 to 1 000 000, default 10 000.
	Streams int
	// Listens and ListensPerPrincipal bound the listens of modern clients, 1 to 1 000 000, defaults 10 000 and 1 000.
	Listens, ListensPerPrincipal int
	// RequestTime ends one request however much progress it reports. 1 s to 24 h, default 15 min.
	RequestTime time.Duration
	// ReadTime is how long a request may take to arrive, head and body. 1 s to 10 min, default 30 s.
	ReadTime time.Duration
	// InFlight, Queue and InFlightBytes bound the requests that run, those that wait, and the bytes of those that run
	// (defaults 100, 1 000 and 100 MiB). 0 is no bound of InFlight, and no queue.
	InFlight, Queue, InFlightBytes int
	// InFlightPerPrincipal bounds what runs of one principal, or of one address without one. 0, the default: three
	// quarters of InFlight.
	InFlightPerPrincipal int
	// AnswerBytes and AnswerBytesPerPrincipal bound the large answers that are being written, and what slow readers leave,
	// in bytes (defaults 256 and 64 MiB). AnswerRate is how many bytes in a second a client must read, default 1 KiB.
	AnswerBytes, AnswerBytesPerPrincipal, AnswerRate int
	// ArrivingBytes bounds the unfinished bodies and events of servers over HTTP, of one server three quarters of it, in bytes.
	// Default 1 GiB; 0 is no bound.
	ArrivingBytes int
}

// SecurityConfig guards the main listener.
type SecurityConfig struct {
	// AllowedHosts are Host header values accepted besides the listener's own: host or host:port, lower case.
	AllowedHosts []string
	// AllowedOrigins are browser origins accepted besides the listener's own: scheme://host[:port].
	AllowedOrigins []string
	// TrustedProxies are addresses and networks (CIDR) of proxies whose forwarding headers are trusted.
	TrustedProxies []string
	// AllowAnonymous lets a listener that is not loopback serve without authentication; default false.
	AllowAnonymous bool
	// APIKeysEnabled requires clients to send one of Auth.Keys; default false.
	APIKeysEnabled bool
	// Auth says who is let in.
	Auth AuthConfig
}

// MonitoringConfig concerns what operators watch.
type MonitoringConfig struct {
	// MetricsEnabled serves /metrics on the admin listener; default true.
	MetricsEnabled bool
	// ToolLabel counts calls by tool, for the tools in each server's list, 200 at most; default true.
	ToolLabel bool
	// HealthCheckInterval is the time between dependency checks, 10 s to 24 h, default 30 s.
	HealthCheckInterval time.Duration
}

// TimeoutsConfig is how long a server may be silent in a call, by kind, 1 to 300 s each: tool_timeout 30 s,
// resource_timeout 10 s, prompt_timeout 5 s.
type TimeoutsConfig struct{ Tool, Resource, Prompt time.Duration }

// CacheConfig bounds the cache of results. Bytes is its size, default 0 for no cache. TTL is the longest time that a
// result is kept, default 1 h, whatever the server says.
type CacheConfig struct {
	Bytes int
	TTL   time.Duration
}

// RateLimitConfig bounds the requests of one client, PerMinute (default 100), of which Burst (default 20) may come at
// once, and those of all clients, Total a minute (default 0, no limit). Mode is auto (default), on or off, see
// [Config.RateLimited].
type RateLimitConfig struct {
	PerMinute, Burst, Total int
	Address                 int // requests of one address, a minute; default 0, no limit
	Mode                    string
}

// Served returns the revisions that the listener serves.
func (c *Config) Served() rules.Allowed {
	served, _ := rules.Allow(c.Eras) // checked when it was read
	return served
}

// Listen returns the main listener's address as HOST:PORT, IPv6 in brackets.
func (c *Config) Listen() string {
	return net.JoinHostPort(c.Service.Host, strconv.Itoa(c.Service.Port))
}

// Upstream returns the upstream of a name; nil if there is none.
func (c *Config) Upstream(name string) *Upstream {
	if i := slices.IndexFunc(c.Upstreams, func(u *Upstream) bool { return u.Name == name }); i >= 0 {
		return c.Upstreams[i]
	}
	return nil
}

func (c *Config) names() []string {
	names := make([]string, 0, len(c.Upstreams))
	for _, u := range c.Upstreams {
		names = append(names, u.Name)
	}
	return names
}

// Authenticates reports whether callers are asked for credentials.
func (c *Config) Authenticates() bool {
	return c.Security.APIKeysEnabled || c.Security.Auth.JWT.Issuer != "" || c.TLS.ClientAuth != ClientAuthNone
}

// Source returns where the value of a key came from. The key is one that `config print` shows, such as
// "upstreams.NAME.KEY". For listen it is the source of the host or of the port, whichever has precedence.
func (c *Config) Source(key string) value.Source {
	if key == listenKey {
		host, port := c.sources[hostKey], c.sources[portKey]
		if port.Kind > host.Kind {
			return port
		}
		return host
	}
	return c.sources[key]
}

// RateLimited reports whether the requests of each client are limited.
func (c *Config) RateLimited() bool {
	switch c.RateLimit.Mode {
	case "on":
		return true
	case field.Off:
		return false
	}
	return c.Profile == production || c.sources[rateKey].Set()
}

// Only returns the upstream for commands that take exactly one. The error says how to choose.
func (c *Config) Only() (*Upstream, error) {
	switch len(c.Upstreams) {
	case 1:
		return c.Upstreams[0], nil
	case 0:
		return nil, value.ConfigErrors{{Key: UpstreamsKey, Problem: "no upstream is configured", Fix: "give a URL, or a COMMAND after --, or write upstreams.NAME.url into the file"}}
	}
	return nil, value.ConfigErrors{{
		Source: value.Source{Kind: value.FromFlag, Name: "--upstream"}, Problem: fmt.Sprintf("%d upstreams are configured, and this takes one", len(c.Upstreams)),
		Fix: "add --upstream with " + value.OneOf(c.names()),
	}}
}

// LoadOptions are the inputs of [LoadConfig].
type LoadOptions struct {
	// File is the path of the configuration file; "" for none.
	File string
	// Import are files of MCP clients, whose servers are added to those of File.
	Import []string
	// Providers are files of gRPC providers (providers.yaml, seed 002), which are added likewise.
	Providers []string
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Flags are the settings given as flags, in order.
	Flags []Assignment
	// UpstreamFlags are keys below upstreams.NAME given on the command line. They make the upstream "default" if they
	// name a url or a command; otherwise they concern Pick, or the only upstream there is.
	UpstreamFlags []Assignment
	// Pick keeps only the upstream of this name; "" keeps all.
	Pick string
	// For is the command. For OnServe, what keeps `dragoman serve` from starting is an error, too. For OnConfig it is one,
	// but that no upstream is configured is a warning, since a command line may name one; and a configuration for
	// `dragoman stdio` has no listeners.
	For Command
}

// Assignment is one value from the command line.
type Assignment struct {
	Path  []string // the key; for UpstreamFlags below upstreams.NAME
	Value []string // one text, or the items of a list
	List  bool
	Name  string // as typed: "--listen", "URL", "COMMAND"
}

func (a Assignment) literal() value.Literal {
	if !a.List {
		return value.Word(strings.Join(a.Value, ","))
	}
	list := value.Literal{Kind: value.ListLiteral}
	for _, item := range a.Value {
		list.Items = append(list.Items, value.Word(item))
	}
	return list
}
