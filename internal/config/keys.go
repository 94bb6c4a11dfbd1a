package config

import (
	"math"
	"slices"
	"time"

	"dragoman/adapters/rules"
	"dragoman/policies/idempotency"
)

// ConfigKeys is every key of the file outside upstreams, in the order in which
// they are printed.
//
// service.host and service.port have no variable of their own on purpose: for
// a Service called dragoman, Kubernetes puts its address into every pod as
// DRAGOMAN_SERVICE_HOST and DRAGOMAN_SERVICE_PORT. DRAGOMAN_LISTEN is ours.
func ConfigKeys() []setting[Config] {
	return slices.Concat(serviceKeys(), adminKeys(), logKeys(), limitKeys(), questionKeys(), restKeys(), authKeys(), tlsKeys(), tracingKeys(), securityKeys(), reloadKeys())
}

func serviceKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "service.name", std: "dragoman", doc: "name of the service, also towards upstreams when Dragoman asks for itself",
			field: func(c *Config) field {
				return textField{at: &c.Service.Name, pattern: serviceName, most: maxName, what: "a name of lower-case letters, digits and hyphens that begins with a letter"}
			}},
		{Key: "server_name", doc: "service.name, as server scaffolds call it", writes: []string{"service.name"}, mcp: "MCP_SERVER_NAME",
			field: func(c *Config) field {
				return textField{at: &c.Service.Name, pattern: serverName, most: maxName, what: "a name of lower-case letters, digits and hyphens"}
			}},
		{Key: "service.version", std: "", doc: "version of the service; empty: Dragoman's own", field: versionField},
		{Key: "server_version", doc: "service.version, as server scaffolds call it", writes: []string{"service.version"}, mcp: "MCP_SERVER_VERSION", field: versionField},
		{Key: listenKey, std: "127.0.0.1:8080", doc: "address of the main listener", arg: "HOST:PORT", writes: []string{hostKey, portKey}, flag: "listen", on: OnServe | OnConfig,
			field: func(c *Config) field { return listenField{host: &c.Service.Host, port: &c.Service.Port} }},
		{Key: hostKey, std: "127.0.0.1", doc: "host part of listen", noEnv: true, field: bindHost},
		{Key: portKey, std: "8080", doc: "port part of listen", noEnv: true, field: bindPort},
		{Key: "http_host", doc: "host part of listen, as server scaffolds call it", writes: []string{hostKey}, mcp: "MCP_HTTP_HOST", null: true, field: bindHost},
		{Key: "http_port", doc: "port part of listen, as server scaffolds call it", writes: []string{portKey}, mcp: "MCP_HTTP_PORT", null: true, field: bindPort},
		{Key: adminKey, std: "127.0.0.1:9090", doc: "address of the admin listener, or off", arg: "HOST:PORT|off", flag: "admin", on: OnServe | OnConfig,
			field: func(c *Config) field { return adminField{at: &c.Admin.Listen} }},
		{Key: transportKey, std: "", doc: "what the service speaks to its clients, as server scaffolds say it; empty: the command decides", mcp: "MCP_TRANSPORT_TYPE", null: true,
			field: func(c *Config) field { return enumField{at: &c.TransportType, values: []string{stdioType, "HTTP", ""}} }},
		{Key: profileKey, std: "development", doc: "development or production", mcp: "MCP_PROFILE",
			field: func(c *Config) field { return enumField{at: &c.Profile, values: []string{"development", production}} }},
		{Key: "log.level", std: "info", doc: "least level that is logged: debug, info, warn, error or critical", arg: "LEVEL", flag: "log-level", on: OnServe | OnStdio | OnProbe | OnDemo | OnConfig, field: LevelField},
		{Key: "log_level", doc: "log.level, as server scaffolds call it", writes: []string{"log.level"}, mcp: "MCP_LOG_LEVEL", field: LevelField},
		{Key: "log.format", std: Auto, doc: "auto is readable on a terminal and JSON elsewhere", arg: "auto|json|console", flag: "log-format", on: OnServe | OnStdio | OnProbe | OnDemo | OnConfig,
			field: func(c *Config) field { return enumField{at: &c.Log.Format, values: []string{Auto, "json", "console"}} }},
		{Key: erasKey, std: "modern,legacy", doc: "which clients are served: modern, legacy, or revisions", arg: "modern|legacy|REVISION", flag: "eras", on: OnServe | OnStdio | OnConfig,
			field: func(c *Config) field { return erasField(&c.Eras, 1) }},
		{Key: "error_status", std: "strict", doc: "compat: errors of modern requests go out with status 200 instead of 400 and 404", arg: "strict|compat", flag: "error-status", on: OnServe | OnConfig,
			field: func(c *Config) field { return enumField{at: &c.ErrorStatus, values: []string{"strict", "compat"}} }},
		{Key: "drain_timeout", std: "30s", doc: "how long running requests may take after the first interrupt", arg: "DURATION", flag: "drain-timeout", on: OnServe | OnConfig,
			field: func(c *Config) field {
				return durationField{at: &c.DrainTimeout, least: time.Millisecond, most: 10 * time.Minute, zero: "no drain"}
			}},
		{Key: "drain_delay", std: "0s", doc: "how long new connections are still taken after the first interrupt, for load balancers to see that it is not ready", arg: "DURATION", flag: "drain-delay", on: OnServe | OnConfig,
			field: func(c *Config) field {
				return durationField{at: &c.DrainDelay, least: time.Millisecond, most: 5 * time.Minute, zero: "none"}
			}},
		{Key: "keepalive", std: "15s", doc: "silence on an event stream before a comment keeps it open",
			field: func(c *Config) field {
				return durationField{at: &c.Keepalive, least: time.Second, most: 5 * time.Minute}
			}},
		{Key: "keep_awake", std: "true", doc: "let no moment between two of many calls count as idleness for Go's scheduler; a call costs a tenth less",
			field: func(c *Config) field { return boolField{at: &c.KeepAwake} }},
	}
}

func limitKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "sessions.idle_ttl", std: "30m", doc: "a session without a request for so long ends",
			field: func(c *Config) field {
				return durationField{at: &c.Sessions.IdleTTL, least: time.Second, most: 7 * day}
			}},
		{Key: "sessions.max", std: "10000", doc: "sessions at a time; the least recently used goes first",
			field: func(c *Config) field { return intField{at: &c.Sessions.Max, least: 1, most: 1_000_000} }},
		{Key: "sessions.max_per_principal", std: "1000", doc: "sessions of one principal at a time",
			field: func(c *Config) field { return intField{at: &c.Sessions.MaxPerPrincipal, least: 1, most: 1_000_000} }},
		{Key: "idempotency.mode", std: idempotency.Replay, doc: "a request that comes again with its id or Idempotency-Key is answered from the first call, refused, or run again",
			field: func(c *Config) field {
				return enumField{at: &c.Idempotency.Mode, values: []string{Off, idempotency.Replay, idempotency.Reject}}
			}},
		{Key: "idempotency.window", std: "5m", doc: "how long a request is remembered after its answer",
			field: func(c *Config) field {
				return durationField{at: &c.Idempotency.Window, least: time.Second, most: day}
			}},
		{Key: "idempotency.max", std: "10000", doc: "requests remembered at a time, and repeats that may wait",
			field: func(c *Config) field { return intField{at: &c.Idempotency.Max, least: 1, most: 1_000_000} }},
		{Key: "idempotency.bytes", std: "16MiB", doc: "bytes of the answers that are remembered", field: bytesField(func(c *Config) *int { return &c.Idempotency.Bytes })},
		{Key: "cache.bytes", std: "0", doc: "bytes of the results that are kept for as long as servers say they are good",
			field: func(c *Config) field {
				return sizeField{at: &c.Cache.Bytes, least: 64 * Kib, most: gib, zero: "nothing is kept"}
			}},
		{Key: "cache.ttl", std: "1h", doc: "the longest that a result is kept, whatever the server says",
			field: func(c *Config) field { return durationField{at: &c.Cache.TTL, least: time.Second, most: day} }},
		{Key: "limits.request_body", std: "4MiB", doc: "largest body of a client's request", field: bytesField(func(c *Config) *int { return &c.Limits.RequestBody })},
		{Key: "limits.response_body", std: "100MiB", doc: "largest body of an upstream's answer", field: bytesField(func(c *Config) *int { return &c.Limits.ResponseBody })},
		{Key: "max_response_size_mb", doc: "limits.response_body in MiB, as server scaffolds call it", writes: []string{"limits.response_body"}, mcp: "MCP_MAX_RESPONSE_SIZE_MB",
			field: func(c *Config) field {
				return sizeField{at: &c.Limits.ResponseBody, least: Mib, most: gib, unit: Mib}
			}},
		{Key: "limits.line", std: "64MiB", doc: "longest line of stdin, of a child's stdout and of a socket", field: bytesField(func(c *Config) *int { return &c.Limits.Line })},
		{Key: "limits.event", std: "100MiB", doc: "largest event of an event stream", field: bytesField(func(c *Config) *int { return &c.Limits.Event })},
		{Key: "limits.header", std: "64KiB", doc: "largest header block",
			field: func(c *Config) field { return sizeField{at: &c.Limits.Header, least: 4 * Kib, most: Mib} }},
		{Key: "limits.connections", std: "0", doc: "connections of clients at a time; those on which nothing is asked give way, then 503",
			field: func(c *Config) field {
				return intField{at: &c.Limits.Connections, least: 1, most: 1_000_000, zero: "three quarters of the file descriptors there are"}
			}},
		{Key: "limits.streams", std: "10000", doc: "open event streams at a time",
			field: func(c *Config) field { return intField{at: &c.Limits.Streams, least: 1, most: 1_000_000} }},
		{Key: "limits.listens", std: "10000", doc: "listens of modern clients at a time",
			field: func(c *Config) field { return intField{at: &c.Limits.Listens, least: 1, most: 1_000_000} }},
		{Key: "limits.listens_per_principal", std: "1000", doc: "of these, for one principal",
			field: func(c *Config) field { return intField{at: &c.Limits.ListensPerPrincipal, least: 1, most: 1_000_000} }},
		{Key: "limits.request_time", std: "15m", doc: "end of one request, however much progress it reports",
			field: func(c *Config) field {
				return durationField{at: &c.Limits.RequestTime, least: time.Second, most: day}
			}},
		{Key: "limits.read_time", std: "30s", doc: "how long a client's request may take to arrive, head and body",
			field: func(c *Config) field {
				return durationField{at: &c.Limits.ReadTime, least: time.Second, most: 10 * time.Minute}
			}},
		{Key: "limits.in_flight", std: "100", doc: "requests that run at a time",
			field: func(c *Config) field {
				return intField{at: &c.Limits.InFlight, least: 1, most: 100_000, zero: "any number"}
			}},
		{Key: "limits.queue", std: "1000", doc: "requests that wait at a time; more get 503",
			field: func(c *Config) field {
				return intField{at: &c.Limits.Queue, least: 1, most: 1_000_000, zero: "no queue"}
			}},
		{Key: "limits.in_flight_bytes", std: "100MiB", doc: "bytes of the requests that run at a time", field: bytesField(func(c *Config) *int { return &c.Limits.InFlightBytes })},
	}
}

func questionKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "questions.ttl", std: "10m", doc: "how long a parked call waits for its client to come back",
			field: func(c *Config) field {
				return durationField{at: &c.Questions.TTL, least: time.Second, most: 30 * time.Minute}
			}},
		{Key: "questions.max_parked", std: "1000", doc: "calls parked at a time",
			field: func(c *Config) field { return intField{at: &c.Questions.MaxParked, least: 1, most: 100_000} }},
		{Key: "questions.max_parked_per_principal", std: "100", doc: "calls of one principal parked at a time",
			field: func(c *Config) field {
				return intField{at: &c.Questions.MaxParkedPerPrincipal, least: 1, most: 100_000}
			}},
		{Key: "questions.rounds", std: "10", doc: "rounds of questions within one call",
			field: func(c *Config) field { return intField{at: &c.Questions.Rounds, least: 1, most: 100} }},
		{Key: "questions.settle", std: "8ms", doc: "how long to gather questions that are asked together",
			field: func(c *Config) field {
				return durationField{at: &c.Questions.Settle, least: time.Millisecond, most: 50 * time.Millisecond, zero: "not at all"}
			}},
		{Key: "questions.lease_wait", std: "30s", doc: "how long a call that may be asked waits for a free session with a legacy upstream",
			field: func(c *Config) field {
				return durationField{at: &c.Questions.LeaseWait, least: time.Millisecond, most: 15 * time.Minute, zero: "not at all"}
			}},
		{Key: "questions.state_key", std: "", doc: "seals requestState; empty: a random key of this process", secret: true,
			field: func(c *Config) field { return keyField{at: &c.Questions.StateKey, least: 32} }},
		{Key: "resume.events", std: "256", doc: "events kept of a stream, for clients that lose it",
			field: func(c *Config) field {
				return intField{at: &c.Resume.Events, least: 1, most: 100_000, zero: "no resumption"}
			}},
		{Key: "resume.bytes", std: "1MiB", doc: "bytes of the events kept for a session", field: bytesField(func(c *Config) *int { return &c.Resume.Bytes })},
		{Key: "resume.total", std: "256MiB", doc: "bytes of the events kept for all sessions", field: bytesField(func(c *Config) *int { return &c.Resume.Total })},
		{Key: "resume.retry", std: "1s", doc: "what a client is told to wait before it comes back",
			field: func(c *Config) field {
				return durationField{at: &c.Resume.Retry, least: 100 * time.Millisecond, most: 30 * time.Second}
			}},
		{Key: "resume.hold", std: "0s", doc: "an open answer stream is closed after so long, for the client to poll",
			field: func(c *Config) field {
				return durationField{at: &c.Resume.Hold, least: 100 * time.Millisecond, most: 15 * time.Minute, zero: "never"}
			}},
	}
}

func securityKeys() []setting[Config] {
	perKind := func(place func(c *Config) *time.Duration) func(c *Config) field {
		return func(c *Config) field {
			return durationField{at: place(c), least: time.Second, most: 300 * time.Second, seconds: true}
		}
	}
	return []setting[Config]{
		{Key: "security.allowed_hosts", std: "", doc: "Host headers accepted besides the listener's own", arg: "HOST", flag: "allow-host", on: OnServe | OnConfig,
			field: func(c *Config) field {
				return listField{at: &c.Security.AllowedHosts, check: checkHostEntry, what: "a list of host or host:port", most: maxList, commas: true}
			}},
		{Key: "security.allowed_origins", std: "", doc: "browser origins accepted besides the listener's own, and whose pages may read the answers", arg: "ORIGIN", flag: "allow-origin", on: OnServe | OnConfig,
			field: func(c *Config) field {
				return listField{at: &c.Security.AllowedOrigins, check: checkOrigin, what: "a list of scheme://host[:port]", most: maxList, commas: true}
			}},
		{Key: "security.trusted_proxies", std: "", doc: "addresses and networks whose X-Forwarded-For, -Host and -Proto are believed", arg: "NETWORK", flag: "trust-proxy", on: OnServe | OnConfig,
			field: func(c *Config) field {
				return listField{at: &c.Security.TrustedProxies, check: checkNetwork, what: "a list of addresses and networks such as 10.0.0.0/8", most: maxList, commas: true}
			}},
		{Key: anonymousKey, std: "false", doc: "serve without authentication although the listener is not loopback", flag: "allow-anonymous", on: OnServe | OnConfig,
			field: func(c *Config) field { return boolField{at: &c.Security.AllowAnonymous} }},
		{Key: rateKey, std: "100", doc: "requests of one client in a minute, if rate_limiting is on",
			field: func(c *Config) field { return intField{at: &c.RateLimit.PerMinute, least: 10, most: math.MaxInt32} }},
		{Key: "rate_limit_per_minute", doc: "security.rate_limit, as server scaffolds call it", writes: []string{rateKey}, mcp: "MCP_RATE_LIMIT_PER_MINUTE",
			field: func(c *Config) field { return intField{at: &c.RateLimit.PerMinute, least: 1, most: math.MaxInt32} }},
		{Key: "rate_limit_burst", std: "20", doc: "requests of one client that are let through at once", mcp: "MCP_RATE_LIMIT_BURST",
			field: func(c *Config) field { return intField{at: &c.RateLimit.Burst, least: 1, most: math.MaxInt32} }},
		{Key: rateLimitingKey, std: Auto, doc: "limit the requests of each client; auto: in production, or when a rate is set", arg: "auto|on|off",
			field: func(c *Config) field { return enumField{at: &c.RateLimit.Mode, values: []string{Auto, "on", Off}} }},
		{Key: "security.address_rate_limit", std: "0", doc: "HTTP requests of one address in a minute, whoever asks",
			field: func(c *Config) field {
				return intField{at: &c.RateLimit.Address, least: 10, most: math.MaxInt32, zero: "any number"}
			}},
		{Key: "limits.rate", std: "0", doc: "requests of all clients in a minute",
			field: func(c *Config) field {
				return intField{at: &c.RateLimit.Total, least: 1, most: math.MaxInt32, zero: "any number"}
			}},
		{Key: toolTimeout, std: "30", doc: "how long a tool may be silent, without answer or progress", mcp: "MCP_TOOL_TIMEOUT", field: perKind(func(c *Config) *time.Duration { return &c.Timeouts.Tool })},
		{Key: "resource_timeout", std: "10", doc: "the same for resources", mcp: "MCP_RESOURCE_TIMEOUT", field: perKind(func(c *Config) *time.Duration { return &c.Timeouts.Resource })},
		{Key: "prompt_timeout", std: "5", doc: "the same for prompts and completion", mcp: "MCP_PROMPT_TIMEOUT", field: perKind(func(c *Config) *time.Duration { return &c.Timeouts.Prompt })},
		{Key: "monitoring.metrics_enabled", std: "true", doc: "serve /metrics on the admin listener",
			field: func(c *Config) field { return boolField{at: &c.Monitoring.MetricsEnabled} }},
		{Key: "monitoring.tool_label", std: "true", doc: "count calls by tool: of each server the tools of its list, 200 at most",
			field: func(c *Config) field { return boolField{at: &c.Monitoring.ToolLabel} }},
		{Key: "monitoring.health_check_interval", std: "30", doc: "time between checks of the dependencies",
			field: func(c *Config) field {
				return durationField{at: &c.Monitoring.HealthCheckInterval, least: 10 * time.Second, most: day, seconds: true}
			}},
		{Key: "dependencies", doc: "what the service depends on: host and port, or url, and timeout are looked after", open: true, take: takeDependency},
	}
}

// upstreamKeys is every key below upstreams.NAME.
func upstreamKeys() []setting[Upstream] {
	return slices.Concat(serverKeys(), childKeys(), healthKeys(), toolKeys(), accessKeys(), grantKeys())
}

func serverKeys() []setting[Upstream] {
	return []setting[Upstream]{
		{Key: UrlKey, doc: "address of a server: http, https, or unix:/PATH and tcp://HOST:PORT for one that speaks lines over a socket", field: func(u *Upstream) field { return urlField{at: &u.URL} }},
		{Key: CommandKey, doc: "program and arguments of a server that speaks stdio; never a shell string",
			field: func(u *Upstream) field {
				return listField{at: &u.Command, check: checkArgument, what: `a list such as ["npx", "-y", "PACKAGE"]`, most: maxList}
			}},
		{Key: "transport", std: Auto, doc: "pin the upstream's transport", arg: "auto|http|sse|rest", flag: "transport", on: OnServe | OnStdio | OnProbe,
			field: func(u *Upstream) field {
				return enumField{at: &u.Transport, values: []string{Auto, "http", "sse", RestName, stdioName}}
			}},
		{Key: "era", std: Auto, doc: "pin the upstream's era", arg: "auto|modern|legacy", flag: "era", on: OnServe | OnStdio | OnProbe,
			field: func(u *Upstream) field { return enumField{at: &u.Era, values: []string{Auto, "modern", "legacy"}} }},
		{Key: erasKey, std: "", doc: "revisions that may be spoken to the upstream", field: func(u *Upstream) field { return erasField(&u.Eras, 0) }},
		{Key: "tasks", std: "hide", doc: "drive long-running tasks for clients of the other era, or do not offer them", arg: "hide|drive", flag: "tasks", on: OnServe | OnStdio | OnProbe,
			field: func(u *Upstream) field { return enumField{at: &u.Tasks, values: []string{"hide", "drive"}} }},
		{Key: "seal_state", std: "false", doc: "bind a modern server's requestState to the principal", field: func(u *Upstream) field { return boolField{at: &u.SealState} }},
		{Key: "asks_on_call", std: "false", doc: "the legacy server puts its questions on the stream of the call they belong to", field: func(u *Upstream) field { return boolField{at: &u.PushesOnCall} }},
		{Key: "isolation", std: perSession, doc: "who shares an upstream session or child of a legacy server", arg: "session|principal|pool(N)|shared", flag: "isolation", on: OnServe,
			field: func(u *Upstream) field { return isolationField{at: &u.Isolation} }},
		{Key: headersKey, doc: "header sent with every request; VALUE may be env:NAME or file:/path", arg: "'NAME: VALUE'", flag: "header", on: OnServe | OnStdio | OnProbe, needs: UrlKey, open: true, entry: headerEntry},
		{Key: forwardKey, doc: "headers of clients that go on to the upstream: the client's name of each, and the upstream's", needs: UrlKey, open: true, entry: forwardEntry},
		{Key: envKey, doc: "variable for the command; VALUE may be env:NAME or file:/path", arg: "NAME=VALUE", flag: "env", on: OnServe | OnStdio | OnProbe, needs: CommandKey, open: true, entry: envEntry},
		{Key: "cwd", std: "", doc: "working directory of the command", arg: "DIR", flag: "cwd", on: OnServe | OnStdio | OnProbe, needs: CommandKey,
			field: func(u *Upstream) field { return textField{at: &u.Cwd, what: "a directory", empty: true} }},
		{Key: "env_inherit", std: "", doc: "variable of Dragoman's own that the command gets; a trailing * stands for any ending", arg: "NAME", flag: "env-inherit", on: OnServe | OnStdio | OnProbe, needs: CommandKey,
			field: func(u *Upstream) field {
				return listField{at: &u.EnvInherit, check: checkInherited, what: `a list of names such as ["SSH_AUTH_SOCK", "AWS_*"]`, most: maxList, commas: true}
			}},
		{Key: "env_file", std: "", doc: "file of NAME=VALUE lines for the command's environment", arg: "FILE", flag: "env-file", on: OnServe | OnStdio | OnProbe, needs: CommandKey,
			field: func(u *Upstream) field {
				return textField{at: &u.EnvFile, what: "a file of NAME=VALUE lines", empty: true}
			}},
		{Key: "ca_file", std: "", doc: "PEM file of the roots to trust instead of the system's", arg: "FILE", flag: "ca-file", on: OnServe | OnStdio | OnProbe, needs: UrlKey,
			field: func(u *Upstream) field { return textField{at: &u.CAFile, what: "a PEM file", empty: true} }},
		{Key: "proxy", std: "", doc: "HTTP proxy to the upstream, or off; default: HTTPS_PROXY, HTTP_PROXY, NO_PROXY", arg: "URL|off", flag: "proxy", on: OnServe | OnStdio | OnProbe, needs: UrlKey,
			field: func(u *Upstream) field { return proxyField{at: &u.Proxy} }},
		{Key: "connect_timeout", std: "10s", doc: "time to connect, TLS included", field: span(func(u *Upstream) *time.Duration { return &u.ConnectTimeout }, 100*time.Millisecond, 5*time.Minute, "")},
		{Key: "probe_timeout", std: "0s", doc: "time for one probe of the era", field: span(func(u *Upstream) *time.Duration { return &u.ProbeTimeout }, 100*time.Millisecond, 5*time.Minute, "5s over HTTP and 10s else")},
		{Key: "verdict_ttl", std: "10m", doc: "how long a probe's verdict holds", field: span(func(u *Upstream) *time.Duration { return &u.VerdictTTL }, time.Second, 7*day, "")},
		{Key: "declare", std: "client", doc: "what a legacy server is told that it may ask modern clients: client, what each has declared; all, anything, and a call in which it asks for what its client lacks ends with error -32021",
			field: func(u *Upstream) field { return enumField{at: &u.Declare, values: []string{"client", "all"}} }},
		{Key: "poll_changes", std: "30s", doc: "how often to look for changes at a legacy server without a stream for notices", field: span(func(u *Upstream) *time.Duration { return &u.PollChanges }, time.Second, day, "never")},
		{Key: "max_sessions", std: "100", doc: "pooled legacy sessions or children at a time",
			field: func(u *Upstream) field { return intField{at: &u.MaxSessions, least: 1, most: 100_000} }},
	}
}

// childKeys are those of the children that are started, but for what they are started with.
func childKeys() []setting[Upstream] {
	return []setting[Upstream]{
		{Key: "spares", std: "0", doc: "children kept started and unused, for the next session", needs: CommandKey, arg: "N", flag: "spares", on: OnServe,
			field: func(u *Upstream) field { return intField{at: &u.Spares, least: 0, most: 100} }},
		{Key: "max_processes", std: "100", doc: "children at a time, spares included", needs: CommandKey,
			field: func(u *Upstream) field { return intField{at: &u.MaxProcesses, least: 1, most: 100_000} }},
		{Key: "max_processes_per_principal", std: "0", doc: "of these, for one principal", needs: CommandKey,
			field: func(u *Upstream) field {
				return intField{at: &u.MaxProcessesPerPrincipal, least: 1, most: 100_000, zero: "as many as max_processes"}
			}},
		{Key: "idle_exit", std: "0s", doc: "a session or child that serves nobody for so long is ended, and started again on demand", field: span(func(u *Upstream) *time.Duration { return &u.IdleExit }, time.Second, 7*day, "never")},
		{Key: "start_timeout", std: "60s", doc: "from the start of a child to its first answer", needs: CommandKey, field: span(func(u *Upstream) *time.Duration { return &u.StartTimeout }, time.Second, 15*time.Minute, "")},
		{Key: "crash_limit", std: "5", doc: "failed starts within a minute after which no child is started for crash_pause", needs: CommandKey,
			field: func(u *Upstream) field { return intField{at: &u.CrashLimit, least: 1, most: 1000} }},
		{Key: "crash_pause", std: "30s", doc: "how long no child is started after crash_limit", needs: CommandKey, field: span(func(u *Upstream) *time.Duration { return &u.CrashPause }, time.Second, time.Hour, "")},
		{Key: "stderr", std: "info", doc: "level at which a child's standard error is logged", needs: CommandKey,
			field: func(u *Upstream) field {
				return enumField{at: &u.Stderr, values: []string{Off, "debug", "info", "warn"}}
			}},
		{Key: "stop_grace", std: "5s", doc: "from the end of a child's stdin to SIGTERM", field: span(func(u *Upstream) *time.Duration { return &u.StopGrace }, time.Millisecond, 5*time.Minute, "at once")},
		{Key: "kill_grace", std: "2s", doc: "from SIGTERM to SIGKILL", field: span(func(u *Upstream) *time.Duration { return &u.KillGrace }, time.Millisecond, 5*time.Minute, "at once")},
	}
}

func versionField(c *Config) field {
	return textField{at: &c.Service.Version, pattern: semver, most: maxName, empty: true, what: "a semantic version such as 1.2.3"}
}

func bindHost(c *Config) field { return hostField{at: &c.Service.Host} }

func bindPort(c *Config) field {
	return intField{at: &c.Service.Port, least: leastPort, most: mostPort, zero: "any free port"}
}

func LevelField(c *Config) field {
	return enumField{at: &c.Log.Level, values: []string{"debug", "info", "warn", "error", "critical"},
		same: map[string]string{"DEBUG": "debug", "INFO": "info", "WARN": "warn", "WARNING": "warn", "warning": "warn", "ERROR": "error", "CRITICAL": "critical"}}
}

// erasField is a list of eras and revisions, of at least so many entries.
func erasField(at *[]string, least int) field {
	return listField{at: at, check: checkEra, what: "a list of modern, legacy, " + OneOf(rules.Versions()), least: least, most: maxList, commas: true, words: append([]string{"modern", "legacy"}, rules.Versions()...)}
}
