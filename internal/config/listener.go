package config

import (
	"dragoman/proxy"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AuthConfig says who is let in at the main listener. As soon as one kind of credential is asked for, nobody is anonymous but
// whom Anonymous names.
type AuthConfig struct {
	// Anonymous is "never" (default) or "loopback": then who comes from this machine, and through no proxy, needs no credential.
	Anonymous string
	// Keys are the API keys, in the order in which they were named.
	Keys []*APIKey
	// KeysFile is a file of further keys, as they would stand below security.api_keys; "" is none. It is read when the
	// configuration is loaded.
	KeysFile string
	// JWT are the bearer tokens that an authorization server gives out.
	JWT JWTConfig
}

// APIKey is one client and the keys that it may show.
type APIKey struct {
	// Name matches ^[A-Za-z0-9][A-Za-z0-9_.-]*$, at most 64 characters.
	Name string
	// Principal is who it is, for sessions and whatever else is a client's own; "" is Name. Several keys may be one principal's.
	Principal string
	// Hashes are SHA-256 sums of the keys, "sha256:" and 64 hexadecimal digits. Several, so that one can come before the other goes.
	Hashes []string
	// Scopes are what the keys are good for, see [Upstream.Scopes].
	Scopes []string
	// Expires is from when on the keys count no more; zero: never.
	Expires time.Time
}

// JWTConfig makes Dragoman a resource server of OAuth 2.1 (2026-07-28 authorization).
type JWTConfig struct {
	// Issuer is the authorization server, as its tokens name it in iss; "" (default) takes no tokens.
	Issuer string
	// Resource is the URL under which clients reach the main listener, without /mcp: what stands before the paths in tokens' aud.
	Resource string
	// Audience are what aud may say in the place of Resource and the paths below it.
	Audience []string
	// JWKSURL and JWKSFile are where the issuer's keys are; neither: where its metadata says (RFC 8414).
	JWKSURL, JWKSFile string
	// CAFile is a PEM file of roots trusted for the issuer instead of the system's.
	CAFile string
	// Algorithms are the signatures that count, of oauth.Algorithms.
	Algorithms []string
	// Types are what the header's typ may be, without "application/"; "jwt" stands for none at all, too. Default at+jwt and jwt.
	Types []string
	// Scopes are those that every token must have.
	Scopes []string
	// PrincipalClaim is the claim that tells who it is, default sub.
	PrincipalClaim string
	// Leeway is how far clocks may differ. Up to 5 min, default 30 s.
	Leeway time.Duration
	// JWKSTTL is after how long keys are fetched again, 10 s to 24 h, default 10 min; JWKSStale how long after that they count
	// while they cannot be, up to 168 h, default 1 h.
	JWKSTTL, JWKSStale time.Duration
}

// AdminConfig is the admin listener.
type AdminConfig struct {
	// Listen is HOST:PORT (bounds as for the main listener) or "off"; default
	// "127.0.0.1:9090". Whether a user asked for it: Source("admin.listen").Set().
	Listen string
	// Pprof serves profiles of the process below /debug/pprof; default false.
	Pprof bool
	// AllowRemote lets whoever reaches a listener that is not loopback see profiles and configuration and change the level of the
	// log; default false.
	AllowRemote bool
}

// Loopback tells whether only this machine reaches the listener.
func (c *AdminConfig) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && proxy.IsLoopbackHost(host)
}

// Dependency is something that the service depends on, besides its upstreams (seed 000, ServiceConfiguration). How it is
// looked after follows from what is set: URL by a request, Host and Port by a connection; without either it is not.
type Dependency struct {
	Name    string
	URL     string // http or https
	Host    string
	Port    int
	Timeout time.Duration // of one look; 100 ms to 60 s, default 1 s
}

// Address is HOST:PORT; empty if there are not both.
func (d *Dependency) Address() string {
	if d.Host == "" || d.Port == 0 {
		return ""
	}
	return net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
}

// LogConfig says what is logged.
type LogConfig struct {
	// Level is debug, info (default), warn, error or critical; the spellings
	// DEBUG, INFO, WARNING, ERROR and CRITICAL are taken for these.
	Level string
	// Format is auto (default: readable on a terminal, JSON elsewhere), json or console.
	Format string
	// Access is of which requests there are lines: off, errors (default; at level debug all) or all.
	Access string
}

// AuditConfig is the audit trail: a line for each tool call, in a file of its own.
type AuditConfig struct {
	// Enabled writes it; default false.
	Enabled bool
	// File is appended to, and opened anew on SIGHUP; "" (default) is standard error.
	File string
	// Methods are the requests that have lines; default tools/call; "*" is all.
	Methods []string
	// Arguments is what of the arguments goes in: none (default), keys, redacted or full.
	Arguments string
	// Redact are parts of names whose values are left out of redacted arguments.
	Redact []string
	// ValueBytes cuts each text in arguments, 16 B to 64 KiB, default 256 B; ArgumentBytes all of a call's, 256 B to 1 MiB, default 8 KiB.
	ValueBytes, ArgumentBytes int
	// Queue bounds the lines that wait to be written, 64 KiB to 1 GiB, default 4 MiB.
	Queue int
	// OnFull is what a request does whose line finds no room there: drop the line (default), or block.
	OnFull string
}

// ReloadConfig says when the configuration is read again.
type ReloadConfig struct {
	// Watch is how often the files of the configuration are looked at. 500 ms to 1 h, default 2 s; 0: they are read again on
	// SIGHUP only.
	Watch time.Duration
}

// RestConfig is how callers without MCP are served: the REST envelope.
type RestConfig struct {
	// Enabled serves /tools, /call-tool and what stands beside them; default true.
	Enabled bool
	// ToolError is "error" (default: a tool's own failure is an error of the call,
	// EXECUTION_ERROR) or "data" (its result is the data of a good answer).
	ToolError string
	// Validate checks arguments against the tool's schema before the call; default true.
	Validate bool
	// ValidateResults checks structured results against outputSchema; default false.
	ValidateResults bool
	// ToolsTTL is how long a list of tools is used again. 0 to 24 h, default 30 s.
	ToolsTTL time.Duration
	// Capabilities are what callers can be asked, of restCapabilities; default
	// elicitation and sampling. Of roots many servers ask as soon as a session
	// begins: whoever declared them would have his first call end with that.
	Capabilities []string
}

// Declared is Capabilities as the ClientCapabilities object of 2026-07-28.
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

// TLSConfig makes the main listener speak TLS, and says who it believes that shows a certificate.
type TLSConfig struct {
	// CertFile and KeyFile are PEM files of the listener's own certificate chain and key; both or neither (default: no TLS).
	CertFile, KeyFile string
	// ClientCAFile is a PEM file of the roots that clients' certificates must lead to.
	ClientCAFile string
	// ClientAuth is "none" (default), "optional", where clients may show a certificate, or "required".
	ClientAuth string
	// ClientScopes are what a certificate is good for, see [Upstream.Scopes].
	ClientScopes []string
	// MinVersion is "1.2" (default) or "1.3".
	MinVersion string
}

// TracingConfig says where spans of requests go, and of which. OTEL_ variables of the environment are not followed, but for
// OTEL_RESOURCE_ATTRIBUTES: hosts that trace themselves hand theirs down to the servers that they start, which would then send
// what those never asked for.
type TracingConfig struct {
	// Endpoint is an OTLP collector that takes protobuf over HTTP, http or https; "" (default): nobody traces. What
	// does not end in /v1/traces gets that behind it.
	Endpoint string
	// Headers go with every post to it.
	Headers []Header
	// SampleRatio is how many of the traces that begin here are recorded, 0 to 1, default 1. Requests that come in a trace are
	// recorded if that is.
	SampleRatio float64
	// Timeout bounds one post. 100 ms to 1 min, default 10 s.
	Timeout time.Duration
	// Queue is how many spans wait to be sent, Batch how many go in one post, Wait how long they wait for one to fill.
	// 1 to 100000, default 2048; 1 to 10000, default 512; 10 ms to 1 min, default 5 s.
	Queue, Batch int
	Wait         time.Duration
	// CAFile has the roots to trust instead of the system's, PEM; "": those.
	CAFile string
}

// tracesPath is where a collector takes spans (OTLP/HTTP).
const tracesPath = "/v1/traces"

// Traces is where spans are posted to.
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
