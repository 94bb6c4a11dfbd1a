package config

import (
	"math"
	"slices"
	"time"

	"dragoman/adapters/rules"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/policies/idempotency"
)

// Keys returns every key of the file outside upstreams, in the order in which they are printed.
//
// service.host and service.port have no variable of their own on purpose: for a Service called dragoman, Kubernetes
// puts its address into every pod as DRAGOMAN_SERVICE_HOST and DRAGOMAN_SERVICE_PORT. DRAGOMAN_LISTEN is ours.
func Keys() []setting[Config] {
	return slices.Concat(serviceKeys(), adminKeys(), logKeys(), sessionKeys(), limitKeys(), questionKeys(), restKeys(), authKeys(), tlsKeys(), tracingKeys(), securityKeys(), reloadKeys())
}

func serviceKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "service.name", std: "dragoman", doc: "name of the service, also in requests that Dragoman makes itself",
			field: func(c *Config) field.Field {
				return field.Text{At: &c.Service.Name, Pattern: serviceName, Most: maxName, What: "a name of lower-case letters, digits and hyphens that begins with a letter"}
			}},
		{Key: "server_name", doc: "alias of service.name, from server scaffolds", writes: []string{"service.name"}, mcp: "MCP_SERVER_NAME",
			field: func(c *Config) field.Field {
				return field.Text{At: &c.Service.Name, Pattern: serverName, Most: maxName, What: "a name of lower-case letters, digits and hyphens"}
			}},
		{Key: "service.version", std: "", doc: "version of the service; empty: that of the only server in /health, Dragoman's own towards servers", field: versionField},
		{Key: "server_version", doc: "alias of service.version, from server scaffolds", writes: []string{"service.version"}, mcp: "MCP_SERVER_VERSION", field: versionField},
		{Key: listenKey, std: "127.0.0.1:8080", doc: "address of the main listener", arg: "HOST:PORT", writes: []string{hostKey, portKey}, flag: "listen", on: OnServe | OnConfig,
			field: func(c *Config) field.Field { return field.Listen{Host: &c.Service.Host, Port: &c.Service.Port} }},
		{Key: hostKey, std: "127.0.0.1", doc: "host part of listen", noEnv: true, field: bindHost},
		{Key: portKey, std: "8080", doc: "port part of listen", noEnv: true, field: bindPort},
		{Key: "http_host", doc: "alias of the host part of listen, from server scaffolds", writes: []string{hostKey}, mcp: "MCP_HTTP_HOST", null: true, field: bindHost},
		{Key: "http_port", doc: "alias of the port part of listen, from server scaffolds", writes: []string{portKey}, mcp: "MCP_HTTP_PORT", null: true, field: bindPort},
		{Key: adminKey, std: "127.0.0.1:9090", doc: "address of the admin listener, or off", arg: "HOST:PORT|off", flag: "admin", on: OnServe | OnConfig,
			field: func(c *Config) field.Field { return field.Admin{At: &c.Admin.Listen} }},
		{Key: transportKey, std: "", doc: "transport towards clients, in the words of server scaffolds; empty: the command decides", mcp: "MCP_TRANSPORT_TYPE", null: true,
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.TransportType, Values: []string{stdioType, "HTTP", ""}}
			}},
		{Key: profileKey, std: "development", doc: "development or production", mcp: "MCP_PROFILE",
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.Profile, Values: []string{"development", production}}
			}},
		{Key: "log.level", std: "info", doc: "lowest level that is logged: debug, info, warn, error or critical", arg: "LEVEL", flag: "log-level", on: OnServe | OnStdio | OnProbe | OnDemo | OnConfig, field: LevelField},
		{Key: "log_level", doc: "alias of log.level, from server scaffolds", writes: []string{"log.level"}, mcp: "MCP_LOG_LEVEL", field: LevelField},
		{Key: "log.format", std: Auto, doc: "auto is readable on a terminal and JSON elsewhere", arg: "auto|json|console", flag: "log-format", on: OnServe | OnStdio | OnProbe | OnDemo | OnConfig,
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.Log.Format, Values: []string{Auto, "json", "console"}}
			}},
		{Key: erasKey, std: "modern,legacy", doc: "which clients are served: modern, legacy, or revisions", arg: "modern|legacy|REVISION", flag: "eras", on: OnServe | OnStdio | OnConfig,
			field: func(c *Config) field.Field { return erasField(&c.Eras, 1) }},
		{Key: "error_status", std: "strict", doc: "compat: errors of modern requests have status 200 instead of 400 and 404", arg: "strict|compat", flag: "error-status", on: OnServe | OnConfig,
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.ErrorStatus, Values: []string{"strict", "compat"}}
			}},
		{Key: "drain_timeout", std: "30s", doc: "how long running requests may take after the first interrupt", arg: "DURATION", flag: "drain-timeout", on: OnServe | OnConfig,
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.DrainTimeout, Least: time.Millisecond, Most: 10 * time.Minute, Zero: "no drain"}
			}},
		{Key: "drain_delay", std: "0s", doc: "how long new connections are still accepted after the first interrupt, so that load balancers see the failing readiness", arg: "DURATION", flag: "drain-delay", on: OnServe | OnConfig,
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.DrainDelay, Least: time.Millisecond, Most: 5 * time.Minute, Zero: "none"}
			}},
		{Key: "keepalive", std: "15s", doc: "silence on an event stream before a comment keeps it open",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Keepalive, Least: time.Second, Most: 5 * time.Minute}
			}},
		{Key: "keep_awake", std: "true", doc: "keep Go's scheduler from idling between many calls; a call takes a tenth less CPU",
			field: func(c *Config) field.Field { return field.Bool{At: &c.KeepAwake} }},
	}
}

func sessionKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "sessions.idle_ttl", std: "30m", doc: "time without a request after which a session ends",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Sessions.IdleTTL, Least: time.Second, Most: 7 * day}
			}},
		{Key: "sessions.max", std: "10000", doc: "most sessions; the least recently used ends first",
			field: func(c *Config) field.Field { return field.Int{At: &c.Sessions.Max, Least: 1, Most: 1_000_000} }},
		{Key: "sessions.max_per_principal", std: "1000", doc: "most sessions of one principal",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.Sessions.MaxPerPrincipal, Least: 1, Most: 1_000_000}
			}},
		{Key: "idempotency.mode", std: idempotency.Replay, doc: "whether a repeated request (same id or Idempotency-Key) gets the first response, is refused, or runs again",
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.Idempotency.Mode, Values: []string{field.Off, idempotency.Replay, idempotency.Reject}}
			}},
		{Key: "idempotency.window", std: "5m", doc: "how long a request is remembered after its response",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Idempotency.Window, Least: time.Second, Most: day}
			}},
		{Key: "idempotency.max", std: "10000", doc: "most remembered requests, and most waiting repeats",
			field: func(c *Config) field.Field { return field.Int{At: &c.Idempotency.Max, Least: 1, Most: 1_000_000} }},
		{Key: "idempotency.bytes", std: "16MiB", doc: "most bytes of remembered responses", field: bytesField(func(c *Config) *int { return &c.Idempotency.Bytes })},
		{Key: "cache.bytes", std: "0", doc: "most bytes of cached results; servers say how long they are valid",
			field: func(c *Config) field.Field {
				return field.Size{At: &c.Cache.Bytes, Least: 64 * field.Kib, Most: field.Gib, Zero: "nothing is kept"}
			}},
		{Key: "cache.ttl", std: "1h", doc: "longest time that a result is cached, whatever the server says",
			field: func(c *Config) field.Field { return field.Duration{At: &c.Cache.TTL, Least: time.Second, Most: day} }},
	}
}

func limitKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "limits.request_body", std: "4MiB", doc: "largest body of a client's request", field: bytesField(func(c *Config) *int { return &c.Limits.RequestBody })},
		{Key: "limits.response_body", std: "100MiB", doc: "largest body of an upstream's response", field: bytesField(func(c *Config) *int { return &c.Limits.ResponseBody })},
		{Key: "max_response_size_mb", doc: "alias of limits.response_body in MiB, from server scaffolds", writes: []string{"limits.response_body"}, mcp: "MCP_MAX_RESPONSE_SIZE_MB",
			field: func(c *Config) field.Field {
				return field.Size{At: &c.Limits.ResponseBody, Least: field.Mib, Most: field.Gib, Unit: field.Mib}
			}},
		{Key: "limits.line", std: "64MiB", doc: "longest line of stdin, of a child's stdout and of a socket", field: bytesField(func(c *Config) *int { return &c.Limits.Line })},
		{Key: "limits.event", std: "100MiB", doc: "largest event of an event stream", field: bytesField(func(c *Config) *int { return &c.Limits.Event })},
		{Key: "limits.header", std: "64KiB", doc: "largest header block",
			field: func(c *Config) field.Field {
				return field.Size{At: &c.Limits.Header, Least: 4 * field.Kib, Most: field.Mib}
			}},
		{Key: "limits.connections", std: "0", doc: "most connections of clients; above it idle ones are closed, then new ones get 503",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.Limits.Connections, Least: 1, Most: 1_000_000, Zero: "three quarters of the file descriptors there are"}
			}},
		{Key: "limits.streams", std: "10000", doc: "most open event streams",
			field: func(c *Config) field.Field { return field.Int{At: &c.Limits.Streams, Least: 1, Most: 1_000_000} }},
		{Key: "limits.listens", std: "10000", doc: "most listens of modern clients",
			field: func(c *Config) field.Field { return field.Int{At: &c.Limits.Listens, Least: 1, Most: 1_000_000} }},
		{Key: "limits.listens_per_principal", std: "1000", doc: "of these, those of one principal",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.Limits.ListensPerPrincipal, Least: 1, Most: 1_000_000}
			}},
		{Key: "limits.request_time", std: "15m", doc: "longest time of one request, whatever progress it reports",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Limits.RequestTime, Least: time.Second, Most: day}
			}},
		{Key: "limits.read_time", std: "30s", doc: "how long a client's request may take to arrive, head and body",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Limits.ReadTime, Least: time.Second, Most: 10 * time.Minute}
			}},
		{Key: "limits.in_flight", std: "100", doc: "most requests that run at a time",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.Limits.InFlight, Least: 1, Most: 100_000, Zero: "any number"}
			}},
		{Key: "limits.queue", std: "1000", doc: "most requests that wait for that; further ones get 503",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.Limits.Queue, Least: 1, Most: 1_000_000, Zero: "no queue"}
			}},
		{Key: "limits.in_flight_bytes", std: "100MiB", doc: "most bytes of the requests that run", field: bytesField(func(c *Config) *int { return &c.Limits.InFlightBytes })},
	}
}

func questionKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "questions.ttl", std: "10m", doc: "how long a suspended call waits for the client's answer",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Questions.TTL, Least: time.Second, Most: 30 * time.Minute}
			}},
		{Key: "questions.max_parked", std: "1000", doc: "most suspended calls",
			field: func(c *Config) field.Field { return field.Int{At: &c.Questions.MaxParked, Least: 1, Most: 100_000} }},
		{Key: "questions.max_parked_per_principal", std: "100", doc: "most suspended calls of one principal",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.Questions.MaxParkedPerPrincipal, Least: 1, Most: 100_000}
			}},
		{Key: "questions.rounds", std: "10", doc: "most rounds of questions within one call",
			field: func(c *Config) field.Field { return field.Int{At: &c.Questions.Rounds, Least: 1, Most: 100} }},
		{Key: "questions.settle", std: "8ms", doc: "how long questions are collected that are asked together",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Questions.Settle, Least: time.Millisecond, Most: 50 * time.Millisecond, Zero: "not at all"}
			}},
		{Key: "questions.lease_wait", std: "30s", doc: "how long a call in which the server may ask waits for a free session with a legacy upstream",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Questions.LeaseWait, Least: time.Millisecond, Most: 15 * time.Minute, Zero: "not at all"}
			}},
		{Key: "questions.state_key", std: "", doc: "key that seals requestState; empty: a random key of this process", secret: true,
			field: func(c *Config) field.Field { return field.Key{At: &c.Questions.StateKey, Least: 32} }},
		{Key: "resume.events", std: "256", doc: "most events kept of a stream, for clients that resume it",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.Resume.Events, Least: 1, Most: 100_000, Zero: "no resumption"}
			}},
		{Key: "resume.bytes", std: "1MiB", doc: "most bytes of the events kept for a session", field: bytesField(func(c *Config) *int { return &c.Resume.Bytes })},
		{Key: "resume.total", std: "256MiB", doc: "most bytes of the events kept for all sessions", field: bytesField(func(c *Config) *int { return &c.Resume.Total })},
		{Key: "resume.retry", std: "1s", doc: "time after which clients should reconnect",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Resume.Retry, Least: 100 * time.Millisecond, Most: 30 * time.Second}
			}},
		{Key: "resume.hold", std: "0s", doc: "time after which the open stream of a response is closed, for the client to poll",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Resume.Hold, Least: 100 * time.Millisecond, Most: 15 * time.Minute, Zero: "never"}
			}},
	}
}

func securityKeys() []setting[Config] {
	perKind := func(place func(c *Config) *time.Duration) func(c *Config) field.Field {
		return func(c *Config) field.Field {
			return field.Duration{At: place(c), Least: time.Second, Most: 300 * time.Second, Seconds: true}
		}
	}
	return []setting[Config]{
		{Key: "security.allowed_hosts", std: "", doc: "Host headers accepted besides the listener's own", arg: "HOST", flag: "allow-host", on: OnServe | OnConfig,
			field: func(c *Config) field.Field {
				return field.List{At: &c.Security.AllowedHosts, Check: field.CheckHostEntry, What: "a list of host or host:port", Most: maxList, Commas: true}
			}},
		{Key: "security.allowed_origins", std: "", doc: "browser origins accepted besides the listener's own; their pages may read responses", arg: "ORIGIN", flag: "allow-origin", on: OnServe | OnConfig,
			field: func(c *Config) field.Field {
				return field.List{At: &c.Security.AllowedOrigins, Check: field.CheckOrigin, What: "a list of scheme://host[:port]", Most: maxList, Commas: true}
			}},
		{Key: "security.trusted_proxies", std: "", doc: "addresses and networks whose X-Forwarded-For, -Host and -Proto are trusted", arg: "NETWORK", flag: "trust-proxy", on: OnServe | OnConfig,
			field: func(c *Config) field.Field {
				return field.List{At: &c.Security.TrustedProxies, Check: field.CheckNetwork, What: "a list of addresses and networks such as 10.0.0.0/8", Most: maxList, Commas: true}
			}},
		{Key: anonymousKey, std: "false", doc: "serve without authentication although the listener is not loopback", flag: "allow-anonymous", on: OnServe | OnConfig,
			field: func(c *Config) field.Field { return field.Bool{At: &c.Security.AllowAnonymous} }},
		{Key: rateKey, std: "100", doc: "most requests of one client in a minute, if rate_limiting is on",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.RateLimit.PerMinute, Least: 10, Most: math.MaxInt32}
			}},
		{Key: "rate_limit_per_minute", doc: "alias of security.rate_limit, from server scaffolds", writes: []string{rateKey}, mcp: "MCP_RATE_LIMIT_PER_MINUTE",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.RateLimit.PerMinute, Least: 1, Most: math.MaxInt32}
			}},
		{Key: "rate_limit_burst", std: "20", doc: "most requests of one client at once", mcp: "MCP_RATE_LIMIT_BURST",
			field: func(c *Config) field.Field { return field.Int{At: &c.RateLimit.Burst, Least: 1, Most: math.MaxInt32} }},
		{Key: rateLimitingKey, std: Auto, doc: "limit the requests of each client; auto: in production, or when a rate is set", arg: "auto|on|off",
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.RateLimit.Mode, Values: []string{Auto, "on", field.Off}}
			}},
		{Key: "security.address_rate_limit", std: "0", doc: "most HTTP requests of one address in a minute, whoever the caller is",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.RateLimit.Address, Least: 10, Most: math.MaxInt32, Zero: "any number"}
			}},
		{Key: "limits.rate", std: "0", doc: "most requests of all clients in a minute",
			field: func(c *Config) field.Field {
				return field.Int{At: &c.RateLimit.Total, Least: 1, Most: math.MaxInt32, Zero: "any number"}
			}},
		{Key: toolTimeout, std: "30", doc: "how long a tool may send neither a response nor progress", mcp: "MCP_TOOL_TIMEOUT", field: perKind(func(c *Config) *time.Duration { return &c.Timeouts.Tool })},
		{Key: "resource_timeout", std: "10", doc: "the same for resources", mcp: "MCP_RESOURCE_TIMEOUT", field: perKind(func(c *Config) *time.Duration { return &c.Timeouts.Resource })},
		{Key: "prompt_timeout", std: "5", doc: "the same for prompts and completion", mcp: "MCP_PROMPT_TIMEOUT", field: perKind(func(c *Config) *time.Duration { return &c.Timeouts.Prompt })},
		{Key: "monitoring.metrics_enabled", std: "true", doc: "serve /metrics on the admin listener",
			field: func(c *Config) field.Field { return field.Bool{At: &c.Monitoring.MetricsEnabled} }},
		{Key: "monitoring.tool_label", std: "true", doc: "count calls by tool: of each server the listed tools, at most 200",
			field: func(c *Config) field.Field { return field.Bool{At: &c.Monitoring.ToolLabel} }},
		{Key: "monitoring.health_check_interval", std: "30", doc: "time between checks of the dependencies",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Monitoring.HealthCheckInterval, Least: 10 * time.Second, Most: day, Seconds: true}
			}},
		{Key: "dependencies", doc: "what the service depends on; checked by host and port, or by url, within timeout", open: true, take: takeDependency},
	}
}

// upstreamKeys returns every key below upstreams.NAME.
func upstreamKeys() []setting[Upstream] {
	return slices.Concat(serverKeys(), childKeys(), healthKeys(), toolKeys(), accessKeys(), grantKeys())
}

func serverKeys() []setting[Upstream] {
	return []setting[Upstream]{
		{Key: UrlKey, doc: "address of a server: http, https, or unix:/PATH and tcp://HOST:PORT for one that speaks stdio lines over a socket", field: func(u *Upstream) field.Field { return field.URL{At: &u.URL} }},
		{Key: CommandKey, doc: "program and arguments of a server that speaks stdio; never a shell string",
			field: func(u *Upstream) field.Field {
				return field.List{At: &u.Command, Check: field.CheckArgument, What: `a list such as ["npx", "-y", "PACKAGE"]`, Most: maxList}
			}},
		{Key: "transport", std: Auto, doc: "transport of the upstream; auto finds it out", arg: "auto|http|sse|rest", flag: "transport", on: OnServe | OnStdio | OnProbe,
			field: func(u *Upstream) field.Field {
				return field.Enum{At: &u.Transport, Values: []string{Auto, "http", "sse", RestName, stdioName}}
			}},
		{Key: "era", std: Auto, doc: "era of the upstream; auto finds it out", arg: "auto|modern|legacy", flag: "era", on: OnServe | OnStdio | OnProbe,
			field: func(u *Upstream) field.Field {
				return field.Enum{At: &u.Era, Values: []string{Auto, "modern", "legacy"}}
			}},
		{Key: erasKey, std: "", doc: "revisions that Dragoman may speak to the upstream", field: func(u *Upstream) field.Field { return erasField(&u.Eras, 0) }},
		{Key: "tasks", std: "hide", doc: "drive long-running tasks for clients of the other era, or do not offer them", arg: "hide|drive", flag: "tasks", on: OnServe | OnStdio | OnProbe,
			field: func(u *Upstream) field.Field { return field.Enum{At: &u.Tasks, Values: []string{"hide", "drive"}} }},
		{Key: "seal_state", std: "false", doc: "bind a modern server's requestState to the principal", field: func(u *Upstream) field.Field { return field.Bool{At: &u.SealState} }},
		{Key: "asks_on_call", std: "false", doc: "whether the legacy server sends its requests on the stream of the call that they belong to", field: func(u *Upstream) field.Field { return field.Bool{At: &u.PushesOnCall} }},
		{Key: "isolation", std: field.PerSession, doc: "who shares an upstream session or child of a legacy server", arg: "session|principal|pool(N)|shared", flag: "isolation", on: OnServe,
			field: func(u *Upstream) field.Field { return field.Isolation{At: &u.Isolation} }},
		{Key: HeadersKey, doc: "header sent with every request; VALUE may be env:NAME or file:/path", arg: "'NAME: VALUE'", flag: "header", on: OnServe | OnStdio | OnProbe, needs: UrlKey, open: true, entry: headerEntry},
		{Key: ForwardKey, doc: "headers of clients that are passed on to the upstream: the client's name of each, and the upstream's", needs: UrlKey, open: true, entry: forwardEntry},
		{Key: EnvKey, doc: "variable for the command; VALUE may be env:NAME or file:/path", arg: "NAME=VALUE", flag: "env", on: OnServe | OnStdio | OnProbe, needs: CommandKey, open: true, entry: envEntry},
		{Key: "cwd", std: "", doc: "working directory of the command", arg: "DIR", flag: "cwd", on: OnServe | OnStdio | OnProbe, needs: CommandKey,
			field: func(u *Upstream) field.Field { return field.Text{At: &u.Cwd, What: "a directory", Empty: true} }},
		{Key: "env_inherit", std: "", doc: "variable of Dragoman's own environment that the command inherits; a trailing * stands for any ending", arg: "NAME", flag: "env-inherit", on: OnServe | OnStdio | OnProbe, needs: CommandKey,
			field: func(u *Upstream) field.Field {
				return field.List{At: &u.EnvInherit, Check: field.CheckInherited, What: `a list of names such as ["SSH_AUTH_SOCK", "AWS_*"]`, Most: maxList, Commas: true}
			}},
		{Key: "env_file", std: "", doc: "file of NAME=VALUE lines for the command's environment", arg: "FILE", flag: "env-file", on: OnServe | OnStdio | OnProbe, needs: CommandKey,
			field: func(u *Upstream) field.Field {
				return field.Text{At: &u.EnvFile, What: "a file of NAME=VALUE lines", Empty: true}
			}},
		{Key: "ca_file", std: "", doc: "PEM file of the roots to trust instead of the system's", arg: "FILE", flag: "ca-file", on: OnServe | OnStdio | OnProbe, needs: UrlKey,
			field: func(u *Upstream) field.Field { return field.Text{At: &u.CAFile, What: "a PEM file", Empty: true} }},
		{Key: "proxy", std: "", doc: "HTTP proxy to the upstream, or off; default: HTTPS_PROXY, HTTP_PROXY, NO_PROXY", arg: "URL|off", flag: "proxy", on: OnServe | OnStdio | OnProbe, needs: UrlKey,
			field: func(u *Upstream) field.Field { return field.Proxy{At: &u.Proxy} }},
		{Key: "connect_timeout", std: "10s", doc: "timeout of connecting, TLS included", field: span(func(u *Upstream) *time.Duration { return &u.ConnectTimeout }, 100*time.Millisecond, 5*time.Minute, "")},
		{Key: "probe_timeout", std: "0s", doc: "timeout of one probe", field: span(func(u *Upstream) *time.Duration { return &u.ProbeTimeout }, 100*time.Millisecond, 5*time.Minute, "5s over HTTP and 10s else")},
		{Key: "verdict_ttl", std: "10m", doc: "how long the server profile is valid", field: span(func(u *Upstream) *time.Duration { return &u.VerdictTTL }, time.Second, 7*day, "")},
		{Key: "declare", std: "client", doc: "capabilities of modern clients that a legacy server is told of: client, those that each has declared; all, all of them, and a request that its client lacks the capability for ends the call with error -32021",
			field: func(u *Upstream) field.Field { return field.Enum{At: &u.Declare, Values: []string{"client", "all"}} }},
		{Key: "poll_changes", std: "30s", doc: "how often to poll a legacy server without a stream for notifications", field: span(func(u *Upstream) *time.Duration { return &u.PollChanges }, time.Second, day, "never")},
		{Key: "max_sessions", std: "100", doc: "most pooled legacy sessions or children",
			field: func(u *Upstream) field.Field { return field.Int{At: &u.MaxSessions, Least: 1, Most: 100_000} }},
	}
}

// childKeys returns the keys for child processes, without those that say what is started.
func childKeys() []setting[Upstream] {
	return []setting[Upstream]{
		{Key: "spares", std: "0", doc: "children kept started for the next sessions", needs: CommandKey, arg: "N", flag: "spares", on: OnServe,
			field: func(u *Upstream) field.Field { return field.Int{At: &u.Spares, Least: 0, Most: 100} }},
		{Key: "max_processes", std: "100", doc: "most children at a time, spares included", needs: CommandKey,
			field: func(u *Upstream) field.Field { return field.Int{At: &u.MaxProcesses, Least: 1, Most: 100_000} }},
		{Key: "max_processes_per_principal", std: "0", doc: "of these, those of one principal", needs: CommandKey,
			field: func(u *Upstream) field.Field {
				return field.Int{At: &u.MaxProcessesPerPrincipal, Least: 1, Most: 100_000, Zero: "as many as max_processes"}
			}},
		{Key: "idle_exit", std: "0s", doc: "idle time after which a session or child ends; it starts again on demand", field: span(func(u *Upstream) *time.Duration { return &u.IdleExit }, time.Second, 7*day, "never")},
		{Key: "start_timeout", std: "60s", doc: "longest time from the start of a child to its first response", needs: CommandKey, field: span(func(u *Upstream) *time.Duration { return &u.StartTimeout }, time.Second, 15*time.Minute, "")},
		{Key: "crash_limit", std: "5", doc: "failed starts within a minute after which no child starts for crash_pause", needs: CommandKey,
			field: func(u *Upstream) field.Field { return field.Int{At: &u.CrashLimit, Least: 1, Most: 1000} }},
		{Key: "crash_pause", std: "30s", doc: "how long no child starts after crash_limit", needs: CommandKey, field: span(func(u *Upstream) *time.Duration { return &u.CrashPause }, time.Second, time.Hour, "")},
		{Key: "stderr", std: "info", doc: "level at which a child's standard error is logged", needs: CommandKey,
			field: func(u *Upstream) field.Field {
				return field.Enum{At: &u.Stderr, Values: []string{field.Off, "debug", "info", "warn"}}
			}},
		{Key: "stop_grace", std: "5s", doc: "time from the end of a child's stdin to SIGTERM", field: span(func(u *Upstream) *time.Duration { return &u.StopGrace }, time.Millisecond, 5*time.Minute, "at once")},
		{Key: "kill_grace", std: "2s", doc: "time from SIGTERM to SIGKILL", field: span(func(u *Upstream) *time.Duration { return &u.KillGrace }, time.Millisecond, 5*time.Minute, "at once")},
	}
}

func versionField(c *Config) field.Field {
	return field.Text{At: &c.Service.Version, Pattern: semver, Most: maxName, Empty: true, What: "a semantic version such as 1.2.3"}
}

func bindHost(c *Config) field.Field { return field.Host{At: &c.Service.Host} }

func bindPort(c *Config) field.Field {
	return field.Int{At: &c.Service.Port, Least: field.LeastPort, Most: field.MostPort, Zero: "any free port"}
}

// LevelField returns the field of log.level in c.
func LevelField(c *Config) field.Field {
	return field.Enum{At: &c.Log.Level, Values: []string{"debug", "info", "warn", "error", "critical"},
		Same: map[string]string{"DEBUG": "debug", "INFO": "info", "WARN": "warn", "WARNING": "warn", "warning": "warn", "ERROR": "error", "CRITICAL": "critical"}}
}

// erasField returns the field of a list of eras and revisions with at least the given number of entries.
func erasField(at *[]string, least int) field.Field {
	return field.List{At: at, Check: field.CheckEra, What: "a list of modern, legacy, " + value.OneOf(rules.Versions()), Least: least, Most: maxList, Commas: true, Words: append([]string{"modern", "legacy"}, rules.Versions()...)}
}
