package config

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/oauth"
	"dragoman/adapters/rules"
	"dragoman/adapters/service"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/policies"
	"dragoman/policies/idempotency"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// Keys that checks name.
const (
	auditFileKey   = "audit.file"
	PprofKey       = "admin.pprof"
	AllowRemoteKey = "admin.allow_remote"
	tracingCAKey   = "tracing.ca_file"
	hookTable      = "policy_hook."
	hookCAKey      = hookTable + "ca_file"
	HookHeadersKey = hookTable + headersKey
)

// ReadyAny is the value of admin.ready by which one upstream that serves is enough.
const ReadyAny = "any"

// secretNames are parts of names whose values are likely to be secrets.
const secretNames = "password,passwd,passphrase,pwd,secret,token,authorization,credential,api_key,private_key,access_key,cookie,session_id,otp,cvv"

// restCapabilities are the entries of rest.capabilities.
var restCapabilities = []string{"elicitation", "elicitation.form", "elicitation.url", "sampling", "roots"}

// keys returns every key of the file outside upstreams, in the order in which they are printed.
//
// service.host and service.port have no variable of their own on purpose: for a Service called dragoman, Kubernetes
// puts its address into every pod as DRAGOMAN_SERVICE_HOST and DRAGOMAN_SERVICE_PORT. DRAGOMAN_LISTEN is ours.
func (c *Config) keys() []setting {
	return slices.Concat(c.serviceKeys(), c.adminKeys(), c.logKeys(), c.sessionKeys(), c.limitKeys(), c.questionKeys(), c.restKeys(), c.subregistryKeys(), c.authKeys(), c.jwtKeys(), c.tlsKeys(), c.tracingKeys(), c.eventKeys(),
		c.securityKeys(), c.hookKeys(), c.mergeKeys(), c.contextKeys(), c.searchKeys(), c.classificationKeys(), c.aggregatorKeys(), c.reloadKeys())
}

func (c *Config) serviceKeys() []setting {
	version := field.Text{At: &c.Service.Version, Pattern: service.Semver, Most: maxName, Empty: true, What: "a semantic version such as 1.2.3"}
	port := field.Int{At: &c.Service.Port, Least: field.LeastPort, Most: field.MostPort, Zero: "any free port"}
	return []setting{
		{key: "service.name", std: "dragoman", doc: "name of the service, also in requests that Dragoman makes itself",
			field: field.Text{At: &c.Service.Name, Pattern: serviceName, Most: maxName, What: "a name of lower-case letters, digits and hyphens that begins with a letter"}},
		{key: "server_name", doc: "alias of service.name, from server scaffolds", writes: []string{"service.name"}, mcp: "MCP_SERVER_NAME",
			field: field.Text{At: &c.Service.Name, Pattern: serverName, Most: maxName, What: "a name of lower-case letters, digits and hyphens"}},
		{key: "service.version", std: "", doc: "version of the service; empty: that of the only server in /health, Dragoman's own towards servers", field: version},
		{key: "server_version", doc: "alias of service.version, from server scaffolds", writes: []string{"service.version"}, mcp: "MCP_SERVER_VERSION", field: version},
		{key: listenKey, std: "127.0.0.1:8080", doc: "address of the main listener", arg: "HOST:PORT", writes: []string{hostKey, portKey}, flag: "listen", on: OnServe | OnConfig,
			field: field.Listen{Host: &c.Service.Host, Port: &c.Service.Port}},
		{key: hostKey, std: "127.0.0.1", doc: "host part of listen", noEnv: true, field: field.Host(&c.Service.Host)},
		{key: portKey, std: "8080", doc: "port part of listen", noEnv: true, field: port},
		{key: "http_host", doc: "alias of the host part of listen, from server scaffolds", writes: []string{hostKey}, mcp: "MCP_HTTP_HOST", null: true, field: field.Host(&c.Service.Host)},
		{key: "http_port", doc: "alias of the port part of listen, from server scaffolds", writes: []string{portKey}, mcp: "MCP_HTTP_PORT", null: true, field: port},
		{key: adminKey, std: "127.0.0.1:9090", doc: "address of the admin listener, or off", arg: "HOST:PORT|off", flag: "admin", on: OnServe | OnConfig, field: field.Admin(&c.Admin.Listen)},
		{key: transportKey, std: "", doc: "transport towards clients, in the words of server scaffolds; empty: the command decides", mcp: "MCP_TRANSPORT_TYPE", null: true,
			field: field.Enum{At: &c.TransportType, Values: []string{StdioType, "HTTP", ""}}},
		{key: profileKey, std: "development", doc: "development or production", mcp: "MCP_PROFILE", field: field.Enum{At: &c.Profile, Values: []string{"development", production}}},
		{key: "log.level", std: "info", doc: "lowest level that is logged: debug, info, warn, error or critical", arg: "LEVEL", flag: "log-level", on: OnServe | OnStdio | OnProbe | OnDemo | OnConfig, field: c.levelField()},
		{key: "log_level", doc: "alias of log.level, from server scaffolds", writes: []string{"log.level"}, mcp: "MCP_LOG_LEVEL", field: c.levelField()},
		{key: "log.format", std: Auto, doc: "auto is readable on a terminal and JSON elsewhere", arg: "auto|json|console", flag: "log-format", on: OnServe | OnStdio | OnProbe | OnDemo | OnConfig,
			field: field.Enum{At: &c.Log.Format, Values: []string{Auto, "json", "console"}}},
		{key: erasKey, std: "modern,legacy", doc: "which clients are served: modern, legacy, or revisions", arg: "modern|legacy|REVISION", flag: "eras", on: OnServe | OnStdio | OnConfig,
			field: erasField(&c.Eras, 1)},
		{key: "error_status", std: "strict", doc: "compat: errors of modern requests have status 200 instead of 400 and 404", arg: "strict|compat", flag: "error-status", on: OnServe | OnConfig,
			field: field.Enum{At: &c.ErrorStatus, Values: []string{"strict", "compat"}}},
		{key: "public_prefix", std: "", doc: "path under which a proxy in front serves the main listener, and which it removes; X-Forwarded-Prefix of trusted proxies replaces it", arg: "PATH",
			field: field.Text{At: &c.PublicPrefix, What: "a path such as /gateway, of letters, digits and -._~", Empty: true, Check: checkPrefix}},
		{key: "drain_timeout", std: "30s", doc: "how long running requests may take after the first interrupt", arg: "DURATION", flag: "drain-timeout", on: OnServe | OnConfig,
			field: field.Duration{At: &c.DrainTimeout, Least: time.Millisecond, Most: 10 * time.Minute, Zero: "no drain"}},
		{key: "drain_delay", std: "0s", doc: "how long new connections are still accepted after the first interrupt, so that load balancers see the failing readiness", arg: "DURATION", flag: "drain-delay", on: OnServe | OnConfig,
			field: field.Duration{At: &c.DrainDelay, Least: time.Millisecond, Most: 5 * time.Minute, Zero: "none"}},
		{key: "keepalive", std: "15s", doc: "silence on an event stream before a comment keeps it open", field: field.Duration{At: &c.Keepalive, Least: time.Second, Most: 5 * time.Minute}},
		{key: "keep_awake", std: "true", doc: "keep Go's scheduler from idling between many calls; a call takes a tenth less CPU", field: field.Bool{At: &c.KeepAwake}},
	}
}

func (c *Config) adminKeys() []setting {
	return []setting{
		{key: "admin.ready", std: ReadyAny, doc: "whether /readyz is 200 while any upstream serves, or only while all do", field: field.Enum{At: &c.Admin.Ready, Values: []string{ReadyAny, "all"}}},
		{key: PprofKey, std: "false", doc: "serve profiles of the process on the admin listener, below /debug/pprof", field: field.Bool{At: &c.Admin.Pprof}},
		{key: AllowRemoteKey, std: "false", doc: "serve /config, /loglevel and profiles although the admin listener is not loopback", field: field.Bool{At: &c.Admin.AllowRemote}},
	}
}

func (c *Config) logKeys() []setting {
	return []setting{
		{key: "log.access", std: telemetry.LogErrors, doc: "requests that get a line in the log: none, failed ones (at level debug all), or all",
			field: field.Enum{At: &c.Log.Access, Values: []string{telemetry.LogNone, telemetry.LogErrors, telemetry.LogAll}}},
		{key: "audit.enabled", std: "false", doc: "write an audit trail: a JSON line for each call, with caller and outcome", field: field.Bool{At: &c.Audit.Enabled}},
		{key: auditFileKey, std: "", doc: "file of the audit trail, which is appended to and reopened on SIGHUP; empty: standard error",
			field: field.Text{At: &c.Audit.File, What: "a file", Empty: true}},
		{key: "audit.methods", std: "tools/call", doc: "methods whose requests are audited; * is all",
			field: field.List{At: &c.Audit.Methods, Check: checkMethod, What: "a list of methods such as tools/call, or *", Least: 1, Most: maxList, Commas: true}},
		{key: "audit.arguments", std: policies.ArgumentsNone, doc: "what a line holds of arguments: nothing, the outermost names, all but secrets, or all",
			field: field.Enum{At: &c.Audit.Arguments, Values: argumentChoices}},
		{key: "audit.redact", std: secretNames, doc: "parts of names, in any case, whose values are redacted",
			field: field.List{At: &c.Audit.Redact, Check: field.CheckArgument, What: "a list of parts of names", Most: maxList, Commas: true}},
		{key: "audit.value_bytes", std: "256B", doc: "most bytes of each text in arguments; longer ones are cut", field: field.Size{At: &c.Audit.ValueBytes, Least: 16, Most: 64 * field.Kib}},
		{key: "audit.argument_bytes", std: "8KiB", doc: "most bytes of a call's arguments; the rest is left out", field: field.Size{At: &c.Audit.ArgumentBytes, Least: 256, Most: field.Mib}},
		{key: "audit.queue", std: "4MiB", doc: "most bytes of lines that wait to be written", field: field.Size{At: &c.Audit.Queue, Least: 64 * field.Kib, Most: field.Gib}},
		{key: "audit.on_full", std: "drop", doc: "what happens to a line when the queue is full: it is dropped and counted, or its request waits",
			field: field.Enum{At: &c.Audit.OnFull, Values: []string{"drop", "block"}}},
	}
}

func (c *Config) sessionKeys() []setting {
	return []setting{
		{key: "sessions.idle_ttl", std: "30m", doc: "time without a request after which a session ends", field: field.Duration{At: &c.Sessions.IdleTTL, Least: time.Second, Most: 7 * day}},
		{key: "sessions.max", std: "10000", doc: "most sessions; the least recently used ends first", field: field.Int{At: &c.Sessions.Max, Least: 1, Most: 1_000_000}},
		{key: "sessions.max_per_principal", std: "1000", doc: "most sessions of one principal", field: field.Int{At: &c.Sessions.MaxPerPrincipal, Least: 1, Most: 1_000_000}},
		{key: "idempotency.mode", std: idempotency.Replay, doc: "whether a repeated request (same id or Idempotency-Key) gets the first response, is refused, or runs again",
			field: field.Enum{At: &c.Idempotency.Mode, Values: []string{field.Off, idempotency.Replay, idempotency.Reject}}},
		{key: "idempotency.window", std: "5m", doc: "how long a request is remembered after its response", field: field.Duration{At: &c.Idempotency.Window, Least: time.Second, Most: day}},
		{key: "idempotency.max", std: "10000", doc: "most remembered requests, and most waiting repeats", field: field.Int{At: &c.Idempotency.Max, Least: 1, Most: 1_000_000}},
		{key: "idempotency.bytes", std: "16MiB", doc: "most bytes of remembered responses", field: bytesField(&c.Idempotency.Bytes)},
		{key: "cache.bytes", std: "0", doc: "most bytes of cached results; servers say how long they are valid",
			field: field.Size{At: &c.Cache.Bytes, Least: 64 * field.Kib, Most: field.Gib, Zero: "nothing is kept"}},
		{key: "cache.ttl", std: "1h", doc: "longest time that a result is cached, whatever the server says", field: field.Duration{At: &c.Cache.TTL, Least: time.Second, Most: day}},
	}
}

func (c *Config) limitKeys() []setting {
	return []setting{
		{key: "limits.request_body", std: "4MiB", doc: "largest body of a client's request", field: bytesField(&c.Limits.RequestBody)},
		{key: "limits.response_body", std: "100MiB", doc: "largest body of an upstream's response", field: bytesField(&c.Limits.ResponseBody)},
		{key: "max_response_size_mb", doc: "alias of limits.response_body in MiB, from server scaffolds", writes: []string{"limits.response_body"}, mcp: "MCP_MAX_RESPONSE_SIZE_MB",
			field: field.Size{At: &c.Limits.ResponseBody, Least: field.Mib, Most: field.Gib, Unit: field.Mib}},
		{key: "limits.line", std: "64MiB", doc: "longest line of stdin, of a child's stdout and of a socket", field: bytesField(&c.Limits.Line)},
		{key: "limits.event", std: "100MiB", doc: "largest event of an event stream", field: bytesField(&c.Limits.Event)},
		{key: "limits.header", std: "64KiB", doc: "largest header block", field: field.Size{At: &c.Limits.Header, Least: 4 * field.Kib, Most: field.Mib}},
		{key: "limits.connections", std: "0", doc: "most connections of clients; above it idle ones are closed, then new ones get 503",
			field: field.Int{At: &c.Limits.Connections, Least: 1, Most: 1_000_000, Zero: "three quarters of the file descriptors there are"}},
		{key: "limits.streams", std: "10000", doc: "most open event streams", field: field.Int{At: &c.Limits.Streams, Least: 1, Most: 1_000_000}},
		{key: "limits.listens", std: "10000", doc: "most listens of modern clients", field: field.Int{At: &c.Limits.Listens, Least: 1, Most: 1_000_000}},
		{key: "limits.listens_per_principal", std: "1000", doc: "of these, those of one principal", field: field.Int{At: &c.Limits.ListensPerPrincipal, Least: 1, Most: 1_000_000}},
		{key: "limits.request_time", std: "15m", doc: "longest time of one request, whatever progress it reports",
			field: field.Duration{At: &c.Limits.RequestTime, Least: time.Second, Most: day}},
		{key: "limits.read_time", std: "30s", doc: "how long a client's request may take to arrive, head and body",
			field: field.Duration{At: &c.Limits.ReadTime, Least: time.Second, Most: 10 * time.Minute}},
		{key: "limits.in_flight", std: "100", doc: "most requests that run at a time", field: field.Int{At: &c.Limits.InFlight, Least: 1, Most: 100_000, Zero: "any number"}},
		{key: "limits.in_flight_per_principal", std: "0", doc: "of the requests that run, most of one principal, or of one address without a principal",
			field: field.Int{At: &c.Limits.InFlightPerPrincipal, Least: 1, Most: 100_000, Zero: "three quarters of limits.in_flight"}},
		{key: "limits.queue", std: "1000", doc: "most requests that wait for that; further ones get 503", field: field.Int{At: &c.Limits.Queue, Least: 1, Most: 1_000_000, Zero: "no queue"}},
		{key: "limits.in_flight_bytes", std: "100MiB", doc: "most bytes of the requests that run", field: bytesField(&c.Limits.InFlightBytes)},
		{key: "limits.arriving_bytes", std: "1GiB", doc: "most bytes of answers that are arriving from servers over HTTP; of one server three quarters",
			field: field.Size{At: &c.Limits.ArrivingBytes, Least: field.Mib, Most: field.Gib, Zero: "any number"}},
		{key: "limits.answer_bytes", std: "256MiB", doc: "most bytes of answers that clients have not read yet", field: bytesField(&c.Limits.AnswerBytes)},
		{key: "limits.answer_bytes_per_principal", std: "64MiB", doc: "of the bytes of answers that clients have not read, most of one principal, or of one address without a principal",
			field: bytesField(&c.Limits.AnswerBytesPerPrincipal)},
		{key: "limits.answer_rate", std: "1KiB", doc: "bytes that a client must read in a second of an answer that waits for it",
			field: field.Size{At: &c.Limits.AnswerRate, Least: 1, Most: field.Gib}},
	}
}

func (c *Config) questionKeys() []setting {
	return []setting{
		{key: "questions.ttl", std: "10m", doc: "how long a suspended call waits for the client's answer",
			field: field.Duration{At: &c.Questions.TTL, Least: time.Second, Most: 30 * time.Minute}},
		{key: "questions.max_parked", std: "1000", doc: "most suspended calls", field: field.Int{At: &c.Questions.MaxParked, Least: 1, Most: 100_000}},
		{key: "questions.max_parked_per_principal", std: "100", doc: "most suspended calls of one principal",
			field: field.Int{At: &c.Questions.MaxParkedPerPrincipal, Least: 1, Most: 100_000}},
		{key: "questions.rounds", std: "10", doc: "most rounds of questions within one call", field: field.Int{At: &c.Questions.Rounds, Least: 1, Most: 100}},
		{key: "questions.settle", std: "8ms", doc: "how long questions are collected that are asked together",
			field: field.Duration{At: &c.Questions.Settle, Least: time.Millisecond, Most: 50 * time.Millisecond, Zero: "not at all"}},
		{key: "questions.lease_wait", std: "30s", doc: "how long a call in which the server may ask waits for a free session with a legacy upstream",
			field: field.Duration{At: &c.Questions.LeaseWait, Least: time.Millisecond, Most: 15 * time.Minute, Zero: "not at all"}},
		{key: "questions.state_key", std: "", doc: "key that seals requestState; empty: a random key of this process", secret: true, field: field.Key{At: &c.Questions.StateKey, Least: 32}},
		{key: "resume.events", std: "256", doc: "most events kept of a stream, for clients that resume it",
			field: field.Int{At: &c.Resume.Events, Least: 1, Most: 100_000, Zero: "no resumption"}},
		{key: "resume.bytes", std: "1MiB", doc: "most bytes of the events kept for a session", field: bytesField(&c.Resume.Bytes)},
		{key: "resume.total", std: "256MiB", doc: "most bytes of the events kept for all sessions", field: bytesField(&c.Resume.Total)},
		{key: "resume.retry", std: "1s", doc: "time after which clients should reconnect", field: field.Duration{At: &c.Resume.Retry, Least: 100 * time.Millisecond, Most: 30 * time.Second}},
		{key: "resume.hold", std: "0s", doc: "time after which the open stream of a response is closed, for the client to poll",
			field: field.Duration{At: &c.Resume.Hold, Least: 100 * time.Millisecond, Most: 15 * time.Minute, Zero: "never"}},
	}
}

func (c *Config) subregistryKeys() []setting {
	return []setting{
		{key: "subregistry.enabled", std: "true", doc: "list the servers that a caller may use as an MCP registry, at /v0.1/servers", field: field.Bool{At: &c.Subregistry.Enabled}},
		{key: "subregistry.namespace", std: "", doc: "what is before the slash of their names there, in reverse-DNS notation; empty: local. and service.name",
			field: field.Text{At: &c.Subregistry.Namespace, Pattern: namespace, Most: maxNamespace, Empty: true, What: "a name in reverse-DNS notation, such as com.example"}},
	}
}

func (c *Config) restKeys() []setting {
	return []setting{
		{key: "rest.enabled", std: "true", doc: "serve callers without MCP: /tools, /call-tool and the like", field: field.Bool{At: &c.Rest.Enabled}},
		{key: "rest.tool_error", std: "error", doc: "whether a tool's own failure becomes an error, or data with status 200",
			field: field.Enum{At: &c.Rest.ToolError, Values: []string{"error", "data"}}},
		{key: "rest.validate", std: "true", doc: "check arguments against the tool's schema before the call", field: field.Bool{At: &c.Rest.Validate}},
		{key: "rest.validate_results", std: "false", doc: "check structured results against the tool's outputSchema", field: field.Bool{At: &c.Rest.ValidateResults}},
		{key: "rest.tools_ttl", std: "30s", doc: "how long a list of tools is cached", field: field.Duration{At: &c.Rest.ToolsTTL, Least: time.Millisecond, Most: day, Zero: "not at all"}},
		{key: "rest.capabilities", std: "elicitation,sampling", doc: "capabilities that REST callers declare to servers",
			field: field.List{At: &c.Rest.Capabilities, Check: checkRestCapability, What: "a list of " + value.OneOf(restCapabilities), Most: maxList, Commas: true, Words: restCapabilities}},
	}
}

// authKeys returns the keys that say who is let in.
func (c *Config) authKeys() []setting {
	return []setting{
		{key: apiKeysKey, std: "false", doc: "require API keys", field: field.Bool{At: &c.Security.APIKeysEnabled}},
		{key: "security.api_keys", doc: "API keys, one table each: hashes (of `dragoman key new`), scopes, expires, principal",
			open: entries[APIKey]{&c.Security.Auth.Keys, func(k *APIKey) string { return k.Name }, newAPIKey}.table(apiKeyParts)},
		{key: keysFileKey, std: "", doc: "file of further API keys, each a table with the key's name",
			field: field.Text{At: &c.Security.Auth.KeysFile, What: "a TOML, YAML or JSON file", Empty: true}},
		{key: "security.anonymous", std: anonymousNever, doc: "which callers need no credential although others do",
			field: field.Enum{At: &c.Security.Auth.Anonymous, Values: []string{anonymousNever, AnonymousLoopback}}},
	}
}

func (c *Config) jwtKeys() []setting {
	j := &c.Security.Auth.JWT
	list := func(at *[]string, check func(string) error, what string) field.Field {
		return field.List{At: at, Check: check, What: what, Most: maxScope, Commas: true}
	}
	return []setting{
		{key: jwtTable + "issuer", std: "", doc: "authorization server whose bearer tokens are accepted", field: field.Link(&j.Issuer)},
		{key: jwtTable + "resource", std: "", doc: "URL of the main listener as clients know it, without /mcp", field: field.Link(&j.Resource)},
		{key: jwtTable + "audience", std: "", doc: "accepted values of a token's aud; default: resource, and the MCP paths below it",
			field: list(&j.Audience, field.CheckArgument, "a list of audiences")},
		{key: jwtTable + "jwks_url", std: "", doc: "URL of the issuer's keys; default: the one in its metadata", field: field.Link(&j.JWKSURL)},
		{key: jwtTable + "jwks_file", std: "", doc: "file of the issuer's keys (RFC 7517), instead of a URL", field: field.Text{At: &j.JWKSFile, What: "a file", Empty: true}},
		{key: jwtTable + "ca_file", std: "", doc: "PEM file of the roots to trust for the issuer instead of the system's", field: pemFile(&j.CAFile)},
		{key: jwtTable + "algorithms", std: strings.Join(oauth.Algorithms(), ","), doc: "accepted signature algorithms",
			field: field.List{At: &j.Algorithms, Check: checkAlgorithm, What: "a list of " + value.OneOf(oauth.Algorithms()), Most: maxScope, Commas: true, Words: oauth.Algorithms()}},
		{key: jwtTable + "types", std: "at+jwt,jwt", doc: "accepted values of a token's typ; jwt also accepts tokens without one",
			field: list(&j.Types, field.CheckArgument, "a list of media types without application/")},
		{key: jwtTable + scopesKey, std: "", doc: "scopes that every token must have", field: scopeList(&j.Scopes)},
		{key: jwtTable + "principal_claim", std: "sub", doc: "claim that names the caller", field: field.Text{At: &j.PrincipalClaim, Most: maxName, What: "the name of a claim"}},
		{key: jwtTable + "leeway", std: "30s", doc: "tolerated difference of clocks", field: field.Duration{At: &j.Leeway, Least: time.Second, Most: 5 * time.Minute, Zero: "not at all"}},
		{key: jwtTable + "jwks_ttl", std: "10m", doc: "time after which the issuer's keys are fetched again", field: field.Duration{At: &j.JWKSTTL, Least: 10 * time.Second, Most: day}},
		{key: jwtTable + "jwks_stale", std: "1h", doc: "how long the old keys stay valid after that while the fetch fails", field: field.Duration{At: &j.JWKSStale, Least: time.Second, Most: 7 * day, Zero: "not at all"}},
	}
}

func (c *Config) tlsKeys() []setting {
	return []setting{
		{key: tlsTable + "cert_file", std: "", doc: "PEM file of the main listener's certificate chain; turns TLS on", field: pemFile(&c.TLS.CertFile)},
		{key: tlsTable + "key_file", std: "", doc: "PEM file of its private key", field: pemFile(&c.TLS.KeyFile)},
		{key: tlsTable + "client_ca_file", std: "", doc: "PEM file of the roots of client certificates", field: pemFile(&c.TLS.ClientCAFile)},
		{key: tlsTable + "client_auth", std: ClientAuthNone, doc: "whether clients may or must present a certificate, which identifies them",
			field: field.Enum{At: &c.TLS.ClientAuth, Values: []string{ClientAuthNone, ClientAuthOptional, clientAuthRequired}}},
		{key: tlsTable + "client_scopes", std: "", doc: "scopes of a client certificate", field: scopeList(&c.TLS.ClientScopes)},
		{key: tlsTable + "min_version", std: "1.2", doc: "lowest TLS version", field: field.Enum{At: &c.TLS.MinVersion, Values: []string{"1.2", "1.3"}}},
	}
}

func (c *Config) tracingKeys() []setting {
	return []setting{
		{key: "tracing.endpoint", std: "", doc: "OTLP collector for traces over HTTP; empty: no tracing", field: field.Endpoint(&c.Tracing.Endpoint)},
		{key: TracingHeadersKey, doc: "header sent with every request to the collector; VALUE may be env:NAME or file:/path", secret: true,
			open: secrets(&c.Tracing.Headers, true, headerField)},
		{key: "tracing.sample_ratio", std: "1", doc: "share of the traces begun here that is recorded; for others the sender's decision holds", field: field.Ratio{At: &c.Tracing.SampleRatio}},
		{key: "tracing.timeout", std: "10s", doc: "timeout of one request to the collector", field: field.Duration{At: &c.Tracing.Timeout, Least: 100 * time.Millisecond, Most: time.Minute}},
		{key: "tracing.queue", std: "2048", doc: "most spans that wait to be sent; further ones are dropped", field: field.Int{At: &c.Tracing.Queue, Least: 1, Most: 100_000}},
		{key: "tracing.batch", std: "512", doc: "most spans in one request", field: field.Int{At: &c.Tracing.Batch, Least: 1, Most: 10_000}},
		{key: "tracing.wait", std: "5s", doc: "how long spans wait for a batch to fill", field: field.Duration{At: &c.Tracing.Wait, Least: 10 * time.Millisecond, Most: time.Minute}},
		{key: tracingCAKey, std: "", doc: "PEM file of the roots to trust for the collector instead of the system's", field: pemFile(&c.Tracing.CAFile)},
	}
}

func (c *Config) securityKeys() []setting {
	perKind := func(at *time.Duration) field.Field {
		return field.Duration{At: at, Least: time.Second, Most: 300 * time.Second, Seconds: true}
	}
	return []setting{
		{key: "security.allowed_hosts", std: "", doc: "Host headers accepted besides the listener's own", arg: "HOST", flag: "allow-host", on: OnServe | OnConfig,
			field: field.List{At: &c.Security.AllowedHosts, Check: field.CheckHostEntry, What: "a list of host or host:port", Most: maxList, Commas: true}},
		{key: "security.allowed_origins", std: "", doc: "browser origins accepted besides the listener's own; their pages may read responses", arg: "ORIGIN", flag: "allow-origin", on: OnServe | OnConfig,
			field: field.List{At: &c.Security.AllowedOrigins, Check: field.CheckOrigin, What: "a list of scheme://host[:port]", Most: maxList, Commas: true}},
		{key: "security.trusted_proxies", std: "", doc: "addresses and networks whose X-Forwarded-For, -Host, -Proto and -Prefix are trusted", arg: "NETWORK", flag: "trust-proxy", on: OnServe | OnConfig,
			field: field.List{At: &c.Security.TrustedProxies, Check: field.CheckNetwork, What: "a list of addresses and networks such as 10.0.0.0/8", Most: maxList, Commas: true}},
		{key: anonymousKey, std: "false", doc: "serve without authentication although the listener is not loopback", flag: "allow-anonymous", on: OnServe | OnConfig,
			field: field.Bool{At: &c.Security.AllowAnonymous}},
		{key: rateKey, std: "100", doc: "most requests of one client in a minute, if rate_limiting is on", field: field.Int{At: &c.RateLimit.PerMinute, Least: 10, Most: math.MaxInt32}},
		{key: "rate_limit_per_minute", doc: "alias of security.rate_limit, from server scaffolds", writes: []string{rateKey}, mcp: "MCP_RATE_LIMIT_PER_MINUTE",
			field: field.Int{At: &c.RateLimit.PerMinute, Least: 1, Most: math.MaxInt32}},
		{key: "rate_limit_burst", std: "20", doc: "most requests of one client at once", mcp: "MCP_RATE_LIMIT_BURST", field: field.Int{At: &c.RateLimit.Burst, Least: 1, Most: math.MaxInt32}},
		{key: rateLimitingKey, std: Auto, doc: "limit the requests of each client; auto: in production, or when a rate is set", arg: "auto|on|off",
			field: field.Enum{At: &c.RateLimit.Mode, Values: []string{Auto, "on", field.Off}}},
		{key: "security.address_rate_limit", std: "0", doc: "most HTTP requests of one address in a minute, whoever the caller is",
			field: field.Int{At: &c.RateLimit.Address, Least: 10, Most: math.MaxInt32, Zero: "any number"}},
		{key: "limits.rate", std: "0", doc: "most requests of all clients in a minute", field: field.Int{At: &c.RateLimit.Total, Least: 1, Most: math.MaxInt32, Zero: "any number"}},
		{key: toolTimeout, std: "30", doc: "how long a tool may send neither a response nor progress", mcp: "MCP_TOOL_TIMEOUT", field: perKind(&c.Timeouts.Tool)},
		{key: "resource_timeout", std: "10", doc: "the same for resources", mcp: "MCP_RESOURCE_TIMEOUT", field: perKind(&c.Timeouts.Resource)},
		{key: "prompt_timeout", std: "5", doc: "the same for prompts and completion", mcp: "MCP_PROMPT_TIMEOUT", field: perKind(&c.Timeouts.Prompt)},
		{key: "monitoring.metrics_enabled", std: "true", doc: "serve /metrics on the admin listener", field: field.Bool{At: &c.Monitoring.MetricsEnabled}},
		{key: "monitoring.tool_label", std: "true", doc: "count calls by tool: of each server the listed tools, at most 200", field: field.Bool{At: &c.Monitoring.ToolLabel}},
		{key: "monitoring.health_check_interval", std: "30", doc: "time between checks of the dependencies",
			field: field.Duration{At: &c.Monitoring.HealthCheckInterval, Least: 10 * time.Second, Most: day, Seconds: true}},
		{key: DependenciesKey, doc: "what the service depends on; checked by host and port, or by url, within timeout", open: &table{take: c.takeDependency,
			parts: func(string) ([]setting, error) { return dependencyParts(&Dependency{Timeout: dependencyTime}), nil }}},
	}
}

func (c *Config) hookKeys() []setting {
	h := &c.PolicyHook
	return []setting{
		{key: hookTable + UrlKey, std: "", doc: "decision point that is asked whether a request may go to its server, as the Open Policy Agent is asked; empty: none", field: field.Decision(&h.URL)},
		{key: hookTable + "methods", std: "tools/call,prompts/get,resources/read", doc: "methods whose requests it is asked about",
			field: field.List{At: &h.Methods, Check: checkHookMethod, What: "a list of " + value.OneOf(hookMethods), Least: 1, Most: maxList, Commas: true, Words: hookMethods}},
		{key: hookTable + "arguments", std: policies.ArgumentsNone, doc: "what it is told of arguments and results: nothing, the outermost names, all but secrets (audit.redact), or all",
			field: field.Enum{At: &h.Arguments, Values: argumentChoices}},
		{key: hookTable + "results", std: "false", doc: "ask about the result as well, before the client gets it", field: field.Bool{At: &h.Results}},
		{key: hookTable + "timeout", std: "1s", doc: "how long an answer may take", field: field.Duration{At: &h.Timeout, Least: 10 * time.Millisecond, Most: 30 * time.Second}},
		{key: hookTable + "on_error", std: "deny", doc: "what becomes of a request that it cannot be asked about", field: field.Enum{At: &h.OnError, Values: []string{"deny", HookAllows}}},
		{key: hookTable + "cache", std: "1000", doc: "most answers that are kept, each for as long as it says itself, an hour at most",
			field: field.Int{At: &h.Cache, Least: 1, Most: 1_000_000, Zero: "none"}},
		{key: HookHeadersKey, doc: "header sent with every question; VALUE may be env:NAME or file:/path", secret: true, open: secrets(&h.Headers, true, headerField)},
		{key: hookCAKey, std: "", doc: "PEM file of the roots to trust for it instead of the system's", field: pemFile(&h.CAFile)},
	}
}

func (c *Config) reloadKeys() []setting {
	return []setting{
		{key: "reload.watch", std: "2s", doc: "interval at which the configuration file and the files that it names are checked for changes",
			field: field.Duration{At: &c.Reload.Watch, Least: 500 * time.Millisecond, Most: time.Hour, Zero: "on SIGHUP only"}},
	}
}

// levelField returns the field of log.level.
func (c *Config) levelField() field.Field {
	return field.Enum{At: &c.Log.Level, Values: []string{"debug", "info", "warn", "error", "critical"},
		Same: map[string]string{"DEBUG": "debug", "INFO": "info", "WARN": "warn", "WARNING": "warn", "warning": "warn", "ERROR": "error", "CRITICAL": "critical"}}
}

// erasField returns the field of a list of eras and revisions with at least the given number of entries.
func erasField(at *[]string, least int) field.Field {
	return field.List{At: at, Check: field.CheckEra, What: "a list of modern, legacy, " + value.OneOf(rules.Versions()), Least: least, Most: maxList, Commas: true, Words: append([]string{"modern", "legacy"}, rules.Versions()...)}
}

func bytesField(at *int) field.Field { return field.Size{At: at, Least: field.Kib, Most: field.Gib} }

func pemFile(at *string) field.Field { return field.Text{At: at, What: "a PEM file", Empty: true} }

func checkMethod(entry string) error {
	if entry == "" || len(entry) > maxName || value.HasControl(entry) {
		return value.Problemf("%q is no method", value.Shorten(entry))
	}
	return nil
}

func checkRestCapability(entry string) error {
	if !slices.Contains(restCapabilities, entry) {
		return value.Problemf("%q is none of %s", entry, strings.Join(restCapabilities, ", "))
	}
	return nil
}

const dependencyTime = time.Second

// dependencyParts are the keys of a dependency that Dragoman reads.
func dependencyParts(d *Dependency) []setting {
	return []setting{
		{key: "host", doc: "host that is checked by opening a connection", field: field.Text{At: &d.Host, What: "a name or an address"}},
		{key: "port", doc: "port of the host", field: field.Int{At: &d.Port, Least: 1, Most: 65535}},
		{key: "url", doc: "URL that is checked by a GET, whose status must be below 400", field: field.CheckURL(&d.URL)},
		{key: "timeout", doc: "timeout of one check", field: field.Duration{At: &d.Timeout, Least: 100 * time.Millisecond, Most: time.Minute}},
	}
}

// takeDependency reads one key of the table dependencies. Users may add other keys, such as a user's name that the
// service needs; they are ignored.
func (c *Config) takeDependency(own []string, v value.Literal) error {
	if len(own) == 0 || v.Kind == value.NullLiteral {
		return nil
	}
	i := slices.IndexFunc(c.Dependencies, func(d *Dependency) bool { return d.Name == own[0] })
	if i < 0 {
		i = len(c.Dependencies)
		c.Dependencies = append(c.Dependencies, &Dependency{Name: own[0], Timeout: dependencyTime})
	}
	if len(own) != 2 {
		return nil
	}
	d := c.Dependencies[i]
	parts := dependencyParts(d)
	if i := slices.IndexFunc(parts, func(s setting) bool { return s.key == own[1] }); i >= 0 {
		f := parts[i].field
		if err := f.Set(v); err != nil {
			e := value.AsConfigError(err, "", value.Source{}, field.Allowed(f))
			return &value.Problem{What: e.Problem, Fix: e.Fix}
		}
	}
	return nil
}

func checkPrefix(text string) error {
	if !proxy.ValidPrefix(text) {
		return errors.New("it begins with a slash, does not end with one, and has no segments that are empty or dots")
	}
	return nil
}
