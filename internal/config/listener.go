package config

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"dragoman/internal/config/value"
	"dragoman/proxy"
)

// AuthConfig configures the authentication at the main listener. If any kind of credential is configured, callers need
// one, except those that Anonymous names.
type AuthConfig struct {
	// Anonymous is "never" (default) or "loopback": then requests from this machine, through no proxy, need no
	// credential.
	Anonymous string
	// Keys are the API keys, in the order in which they were named.
	Keys []*APIKey
	// KeysFile is a file of further keys, in the form that they have below security.api_keys; "" is none. It is read
	// when the configuration is loaded.
	KeysFile string
	// JWT configures the bearer tokens of an authorization server.
	JWT JWTConfig
}

// APIKey is one client and the keys that it may use.
type APIKey struct {
	// Name matches ^[A-Za-z0-9][A-Za-z0-9_.-]*$, at most 64 characters.
	Name string
	// Principal is the caller's identity, for sessions and all other state of a client; "" is Name. Several keys may
	// have the same principal.
	Principal string
	// Hashes are SHA-256 sums of the keys, "sha256:" and 64 hexadecimal digits. There may be several, so that a new key
	// can come before the old one goes.
	Hashes []string
	// Scopes are the scopes that the keys have, see [Upstream.Scopes].
	Scopes []string
	// Expires is when the keys become invalid; zero: never.
	Expires time.Time
	// Rate is how many requests its principal may send in a minute, in the place of security.rate_limit; 0 (default): that
	// holds.
	Rate int
}

// Caller returns the principal of the callers that show a key.
func (k *APIKey) Caller() string { return cmp.Or(k.Principal, k.Name) }

// KeyRates returns the rates of the principals whose keys have one; nil if there are none.
func (c *Config) KeyRates() (rates map[string]int) {
	for _, k := range c.Security.Auth.Keys {
		if k.Rate > 0 && c.Security.APIKeysEnabled {
			if rates == nil {
				rates = map[string]int{}
			}
			rates[k.Caller()] = k.Rate
		}
	}
	return rates
}

// JWTConfig makes Dragoman a resource server of OAuth 2.1 (2026-07-28 authorization).
type JWTConfig struct {
	// Issuer is the authorization server, as its tokens name it in iss; "" (default): tokens are not accepted.
	Issuer string
	// Resource is the URL under which clients reach the main listener, without /mcp: the common beginning of the URLs
	// in tokens' aud.
	Resource string
	// Audience are the values of aud that are accepted, instead of Resource and the paths below it.
	Audience []string
	// JWKSURL and JWKSFile say where the issuer's keys are; if both are empty, its metadata does (RFC 8414).
	JWKSURL, JWKSFile string
	// CAFile is a PEM file of roots trusted for the issuer instead of the system's.
	CAFile string
	// Algorithms are the signature algorithms that are accepted, of oauth.Algorithms.
	Algorithms []string
	// Types are the accepted values of the header's typ, without "application/"; "jwt" also accepts a token without
	// typ. Default at+jwt and jwt.
	Types []string
	// Scopes are required of every token.
	Scopes []string
	// PrincipalClaim is the claim that identifies the caller, default sub.
	PrincipalClaim string
	// Leeway is how far clocks may differ. Up to 5 min, default 30 s.
	Leeway time.Duration
	// JWKSTTL is how long keys are used until they are fetched again, 10 s to 24 h, default 10 min. JWKSStale is how
	// much longer they are used if they cannot be fetched, up to 168 h, default 1 h.
	JWKSTTL, JWKSStale time.Duration
}

// AdminConfig configures the admin listener.
type AdminConfig struct {
	// Listen is HOST:PORT (bounds as for the main listener) or "off"; default
	// "127.0.0.1:9090". Whether a user asked for it: Source("admin.listen").Set().
	Listen string
	// Ready says when /readyz answers 200: while any upstream serves (default), or while all do.
	Ready string
	// Pprof serves profiles of the process below /debug/pprof; default false.
	Pprof bool
	// AllowRemote serves profiles and the configuration, and allows changes of the log level, on a listener that is not
	// loopback; default false.
	AllowRemote bool
}

// Loopback reports whether only this machine reaches the listener.
func (c *AdminConfig) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && proxy.IsLoopbackHost(host)
}

// Dependency is something that the service depends on besides its upstreams (seed 000, ServiceConfiguration). It is
// checked by a request if URL is set, by a connection if Host and Port are set, and otherwise not at all.
type Dependency struct {
	Name    string
	URL     string // http or https
	Host    string
	Port    int
	Timeout time.Duration // of one check; 100 ms to 60 s, default 1 s
}

// Address returns HOST:PORT; empty if one of them is missing.
func (d *Dependency) Address() string {
	if d.Host == "" || d.Port == 0 {
		return ""
	}
	return net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
}

// LogConfig configures the log.
type LogConfig struct {
	// Level is debug, info (default), warn, error or critical. The spellings DEBUG, INFO, WARNING, ERROR and CRITICAL
	// are accepted too.
	Level string
	// Format is auto (default: readable on a terminal, JSON elsewhere), json or console.
	Format string
	// Access says which requests have lines: off, errors (default; at level debug all) or all.
	Access string
}

// AuditConfig configures the audit trail: a line for each tool call, in a file of its own.
type AuditConfig struct {
	// Enabled writes it; default false.
	Enabled bool
	// File is appended to, and reopened on SIGHUP; "" (default) is standard error.
	File string
	// Methods are the methods whose requests have lines; default tools/call; "*" is all.
	Methods []string
	// Arguments says how much of the arguments is recorded: none (default), keys, redacted or full.
	Arguments string
	// Redact are parts of names whose values are left out of redacted arguments.
	Redact []string
	// ValueBytes bounds each text in arguments, 16 B to 64 KiB, default 256 B. ArgumentBytes bounds all arguments of a
	// call, 256 B to 1 MiB, default 8 KiB.
	ValueBytes, ArgumentBytes int
	// Queue bounds the lines that wait to be written, 64 KiB to 1 GiB, default 4 MiB.
	Queue int
	// OnFull is what happens if the queue has no room for a line: "drop" (default) drops it, "block" makes its request
	// wait.
	OnFull string
}

// ReloadConfig configures when the configuration is read again.
type ReloadConfig struct {
	// Watch is how often the files of the configuration are checked for changes. 500 ms to 1 h, default 2 s; 0: they
	// are read again on SIGHUP only.
	Watch time.Duration
}

// RestConfig configures the REST envelope for callers without MCP.
type RestConfig struct {
	// Enabled serves /tools, /call-tool and the paths beside them; default true.
	Enabled bool
	// ToolError is "error" (default: a tool's own failure is an error of the call, EXECUTION_ERROR) or "data" (its
	// result is the data of a successful response).
	ToolError string
	// Validate checks arguments against the tool's schema before the call; default true.
	Validate bool
	// ValidateResults checks structured results against outputSchema; default false.
	ValidateResults bool
	// ToolsTTL is how long a list of tools is reused. 0 to 24 h, default 30 s.
	ToolsTTL time.Duration
	// Capabilities are declared on behalf of the callers, of restCapabilities; default elicitation and sampling. Roots
	// are left out because many servers ask for them as soon as a session begins, which would end a caller's first
	// call.
	Capabilities []string
}

// SubregistryConfig configures the servers of Dragoman as an MCP registry.
type SubregistryConfig struct {
	// Enabled serves /v0.1/servers; default true.
	Enabled bool
	// Namespace is before the slash of the names of servers there, in reverse-DNS notation; "" (default): "local." and the name of the service.
	Namespace string
}

// NamespaceOf returns the namespace of a service's servers.
func (c *SubregistryConfig) NamespaceOf(service string) string {
	return cmp.Or(c.Namespace, "local."+service)
}

// Declared returns Capabilities as the ClientCapabilities object of 2026-07-28.
func (c *RestConfig) Declared() []byte {
	var out []string
	has := func(entry string) bool { return slices.Contains(c.Capabilities, entry) }
	var modes []string
	if has("elicitation") || has("elicitation.form") {
		modes = append(modes, `"form":{}`)
	}
	if has("elicitation") || has("elicitation.url") {
		modes = append(modes, `"url":{}`)
	}
	if len(modes) > 0 {
		out = append(out, `"elicitation":{`+strings.Join(modes, ",")+`}`)
	}
	if has("sampling") {
		out = append(out, `"sampling":{"tools":{}}`)
	}
	if has("roots") {
		out = append(out, `"roots":{}`)
	}
	return []byte("{" + strings.Join(out, ",") + "}")
}

// RestName is the transport of a service that speaks the REST envelope.
const RestName = "rest"

// TLSConfig configures TLS and client certificates at the main listener.
type TLSConfig struct {
	// CertFile and KeyFile are PEM files of the listener's own certificate chain and key; both or neither (default: no TLS).
	CertFile, KeyFile string
	// ClientCAFile is a PEM file of the roots that clients' certificates must chain to.
	ClientCAFile string
	// ClientAuth is "none" (default), "optional", where clients may present a certificate, or "required".
	ClientAuth string
	// ClientScopes are the scopes that a certificate has, see [Upstream.Scopes].
	ClientScopes []string
	// MinVersion is "1.2" (default) or "1.3".
	MinVersion string
}

// TracingConfig says where spans of requests go, and which are recorded. OTEL_ variables are ignored, except
// OTEL_RESOURCE_ATTRIBUTES: hosts that trace themselves pass theirs on to the servers that they start, which would then
// send spans unasked.
type TracingConfig struct {
	// Endpoint is an OTLP collector that takes protobuf over HTTP, http or https; "" (default): tracing is off.
	// /v1/traces is appended unless Endpoint ends in it.
	Endpoint string
	// Headers are sent with every post to it.
	Headers []value.NamedSecret
	// SampleRatio is the part of the traces that begin here which is recorded, 0 to 1, default 1. A request that comes
	// with a trace is recorded if its trace is.
	SampleRatio float64
	// Timeout bounds one post. 100 ms to 1 min, default 10 s.
	Timeout time.Duration
	// Queue is how many spans wait to be sent, Batch how many go in one post, Wait how long they wait for one to fill.
	// 1 to 100000, default 2048; 1 to 10000, default 512; 10 ms to 1 min, default 5 s.
	Queue, Batch int
	Wait         time.Duration
	// CAFile is a PEM file of roots to trust instead of the system's; "": the system's.
	CAFile string
}

// tracesPath is the path at which a collector takes spans (OTLP/HTTP).
const tracesPath = "/v1/traces"

// Traces returns the URL that spans are posted to.
func (c *TracingConfig) Traces() string {
	if strings.HasSuffix(c.Endpoint, tracesPath) {
		return c.Endpoint
	}
	return strings.TrimSuffix(c.Endpoint, "/") + tracesPath
}

// Values of tls.client_auth.
const (
	ClientAuthNone     = "none"
	ClientAuthOptional = "optional"
	clientAuthRequired = "required"
)
