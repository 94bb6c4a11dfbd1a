package config

import (
	"regexp"
	"slices"
	"time"

	"dragoman/adapters/service"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// fallbackKey is the key that names the fallback of an upstream.
const fallbackKey = "fallback"

// onTarget are the commands that take the URL or COMMAND of one upstream.
const onTarget = OnServe | OnStdio | OnProbe

// keys returns every key below upstreams.NAME, in the order in which they are printed.
func (u *Upstream) keys() []setting {
	return slices.Concat(u.serverKeys(), u.grpcKeys(), u.childKeys(), u.healthKeys(), u.toolKeys(), u.accessKeys(), u.grantKeys())
}

func (u *Upstream) serverKeys() []setting {
	return []setting{
		{key: UrlKey, doc: "address of a server: http, https; unix:/PATH and tcp://HOST:PORT for one that speaks stdio lines over a socket; grpc://HOST:PORT, grpcs://HOST:PORT and dns:///NAME:PORT for a gRPC service", field: field.URL(&u.URL)},
		{key: CommandKey, doc: "program and arguments of a server that speaks stdio; never a shell string",
			field: field.List{At: &u.Command, Check: field.CheckArgument, What: `a list such as ["npx", "-y", "PACKAGE"]`, Most: maxList}},
		{key: "transport", std: Auto, doc: "transport of the upstream; auto finds it out", arg: "auto|http|sse|rest", flag: "transport", on: onTarget,
			field: field.Enum{At: &u.Transport, Values: []string{Auto, "http", "sse", RestName, stdioName}}},
		{key: "era", std: Auto, doc: "era of the upstream; auto finds it out", arg: "auto|modern|legacy", flag: "era", on: onTarget,
			field: field.Enum{At: &u.Era, Values: []string{Auto, "modern", "legacy"}}},
		{key: erasKey, std: "", doc: "revisions that Dragoman may speak to the upstream", field: erasField(&u.Eras, 0)},
		{key: "tasks", std: "hide", doc: "drive long-running tasks for clients of the other era, or do not offer them", arg: "hide|drive", flag: "tasks", on: onTarget,
			field: field.Enum{At: &u.Tasks, Values: []string{"hide", "drive"}}},
		{key: "seal_state", std: "false", doc: "bind a modern server's requestState to the principal", field: field.Bool{At: &u.SealState}},
		{key: "asks_on_call", std: "false", doc: "whether the legacy server sends its requests on the stream of the call that they belong to", field: field.Bool{At: &u.PushesOnCall}},
		{key: "isolation", std: field.PerSession, doc: "who shares an upstream session or child of a legacy server", arg: "session|principal|pool(N)|shared", flag: "isolation", on: OnServe,
			field: field.Isolation(&u.Isolation)},
		{key: headersKey, doc: "header sent with every request; VALUE may be env:NAME, file:/path or @FILE, or contain ${NAME}; --header @FILE reads such lines", arg: "'NAME: VALUE'", flag: "header", on: onTarget, needs: UrlKey, secret: true,
			open: secrets(&u.Headers, true, upstreamHeader)},
		{key: forwardKey, doc: "headers of clients that are passed on to the upstream: the client's name of each, and the upstream's", needs: UrlKey,
			open: &table{fold: true, names: u.forwarded, entry: u.forwardEntry}},
		{key: envKey, doc: "variable for the command; VALUE may be env:NAME or file:/path, or contain ${NAME}", arg: "NAME=VALUE", flag: "env", on: onTarget, needs: CommandKey, secret: true,
			open: secrets(&u.Env, false, variableField)},
		{key: "cwd", std: "", doc: "working directory of the command", arg: "DIR", flag: "cwd", on: onTarget, needs: CommandKey,
			field: field.Text{At: &u.Cwd, What: "a directory", Empty: true}},
		{key: "user", std: "", doc: "user that the command runs as, by name or number (Linux); Dragoman needs CAP_SETUID, CAP_SETGID and CAP_KILL for it", needs: CommandKey,
			field: accountField(&u.User, "the name or number of a user")},
		{key: "group", std: "", doc: "group that the command runs as, by name or number (Linux); default: the group of user", needs: CommandKey,
			field: accountField(&u.Group, "the name or number of a group")},
		{key: "memory", std: "0", doc: "most data of each process of the command (Linux, RLIMIT_DATA)", needs: CommandKey,
			field: field.Size{At: &u.Memory, Least: 16 * field.Mib, Most: 1024 * field.Gib, Zero: "no limit"}},
		{key: "cpus", std: "0", doc: "processors that the processes of one start of the command may run on (Linux, their affinity)", needs: CommandKey,
			field: field.Int{At: &u.CPUs, Least: 1, Most: 8192, Zero: "no limit"}},
		{key: "env_inherit", std: "", doc: "variable of Dragoman's own environment that the command inherits; a trailing * stands for any ending", arg: "NAME", flag: "env-inherit", on: onTarget, needs: CommandKey,
			field: field.List{At: &u.EnvInherit, Check: field.CheckInherited, What: `a list of names such as ["SSH_AUTH_SOCK", "AWS_*"]`, Most: maxList, Commas: true}},
		{key: "env_file", std: "", doc: "file of NAME=VALUE lines for the command's environment", arg: "FILE", flag: "env-file", on: onTarget, needs: CommandKey,
			field: field.Text{At: &u.EnvFile, What: "a file of NAME=VALUE lines", Empty: true}},
		{key: "ca_file", std: "", doc: "PEM file of the roots to trust instead of the system's", arg: "FILE", flag: "ca-file", on: onTarget, needs: UrlKey, field: pemFile(&u.CAFile)},
		{key: "proxy", std: "", doc: "HTTP proxy to the upstream, or off; default: HTTPS_PROXY, HTTP_PROXY, NO_PROXY", arg: "URL|off", flag: "proxy", on: onTarget, needs: UrlKey,
			field: field.Proxy(&u.Proxy)},
		{key: "connect_timeout", std: "10s", doc: "timeout of connecting, TLS included", field: field.Duration{At: &u.ConnectTimeout, Least: 100 * time.Millisecond, Most: 5 * time.Minute}},
		{key: "probe_timeout", std: "0s", doc: "timeout of one probe", field: field.Duration{At: &u.ProbeTimeout, Least: 100 * time.Millisecond, Most: 5 * time.Minute, Zero: "5s over HTTP and 10s else"}},
		{key: "verdict_ttl", std: "10m", doc: "how long the server profile is valid", field: field.Duration{At: &u.VerdictTTL, Least: time.Second, Most: 7 * day}},
		{key: "declare", std: "client", doc: "capabilities of modern clients that a legacy server is told of: client, those that each has declared; all, all of them, and a request that its client lacks the capability for ends the call with error -32021",
			field: field.Enum{At: &u.Declare, Values: []string{"client", "all"}}},
		{key: "poll_changes", std: "30s", doc: "how often to poll a legacy server without a stream for notifications", field: field.Duration{At: &u.PollChanges, Least: time.Second, Most: day, Zero: "never"}},
		{key: "max_sessions", std: "100", doc: "most pooled legacy sessions or children", field: field.Int{At: &u.MaxSessions, Least: 1, Most: 100_000}},
	}
}

// grpcKeys returns the keys for gRPC services.
func (u *Upstream) grpcKeys() []setting {
	file := func(at *string, what string) field.Field { return field.Text{At: at, What: what, Empty: true} }
	return []setting{
		{key: grpcMethodsKey, std: "", doc: "methods of a gRPC service that are tools, as PACKAGE.SERVICE/METHOD; a * stands for any text; empty: the service is a provider of mcp.provider.v1", arg: "PATTERN", flag: "grpc-method", on: onTarget, needs: grpcKind,
			field: field.List{At: &u.Methods, Check: checkGRPCMethod, What: `a list such as ["routeguide.RouteGuide/*"]`, Most: maxList, Commas: true}},
		{key: "grpc.descriptors", std: "", doc: "file with the descriptors of the services (FileDescriptorSet, as protoc --include_imports --descriptor_set_out writes); empty: server reflection", arg: "FILE", flag: "grpc-descriptors", on: onTarget, needs: grpcKind,
			field: file(&u.Descriptors, "a file with a FileDescriptorSet")},
		{key: "grpc.cert_file", std: "", doc: "PEM file of Dragoman's certificate for the service (mTLS)", needs: grpcKind, field: file(&u.CertFile, "a PEM file")},
		{key: "grpc.key_file", std: "", doc: "PEM file of its private key", needs: grpcKind, field: file(&u.KeyFile, "a PEM file")},
		{key: "grpc.keepalive", std: "5m", doc: "how long a connection with calls may be silent before it is asked for a sign of life; servers of grpc-go refuse less than 5m unless they are told otherwise", needs: grpcKind,
			field: field.Duration{At: &u.Keepalive, Least: 10 * time.Second, Most: day}},
		{key: "grpc.keepalive_timeout", std: "20s", doc: "how long that sign of life may take", needs: grpcKind, field: field.Duration{At: &u.KeepaliveTimeout, Least: time.Second, Most: 5 * time.Minute}},
	}
}

// grpcMethodsKey is the key of the methods that are tools.
const grpcMethodsKey = "grpc.methods"

// grpcMethod is a pattern of full names of methods.
var grpcMethod = regexp.MustCompile(`^[A-Za-z0-9_.*]+(/[A-Za-z0-9_*]+)?$`)

func checkGRPCMethod(item string) error {
	if !grpcMethod.MatchString(item) {
		return &value.Problem{What: value.Quote(value.Shorten(item)) + " is no pattern of methods", Fix: `write PACKAGE.SERVICE/METHOD, with * for any text, such as "routeguide.RouteGuide/*"`}
	}
	return nil
}

// accountName is a name that Linux systems allow for a user or a group, or a number.
var accountName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?$`)

// accountField is a field for a user or a group.
func accountField(at *string, what string) field.Field {
	return field.Text{At: at, Pattern: accountName, Most: 256, Empty: true, What: what}
}

// childKeys returns the keys for child processes, without those that say what is started.
func (u *Upstream) childKeys() []setting {
	return []setting{
		{key: "spares", std: "0", doc: "children kept started for the next sessions", needs: CommandKey, arg: "N", flag: "spares", on: OnServe,
			field: field.Int{At: &u.Spares, Least: 0, Most: 100}},
		{key: "max_processes", std: "100", doc: "most children at a time, spares included", needs: CommandKey, field: field.Int{At: &u.MaxProcesses, Least: 1, Most: 100_000}},
		{key: "max_processes_per_principal", std: "0", doc: "of these, those of one principal", needs: CommandKey,
			field: field.Int{At: &u.MaxProcessesPerPrincipal, Least: 1, Most: 100_000, Zero: "as many as max_processes"}},
		{key: "idle_exit", std: "0s", doc: "idle time after which a session or child ends; it starts again on demand", field: field.Duration{At: &u.IdleExit, Least: time.Second, Most: 7 * day, Zero: "never"}},
		{key: "start_timeout", std: "60s", doc: "longest time from the start of a child to its first response", needs: CommandKey, field: field.Duration{At: &u.StartTimeout, Least: time.Second, Most: 15 * time.Minute}},
		{key: "crash_limit", std: "5", doc: "failed starts within a minute after which no child starts for crash_pause", needs: CommandKey,
			field: field.Int{At: &u.CrashLimit, Least: 1, Most: 1000}},
		{key: "crash_pause", std: "30s", doc: "how long no child starts after crash_limit", needs: CommandKey, field: field.Duration{At: &u.CrashPause, Least: time.Second, Most: time.Hour}},
		{key: "stderr", std: "info", doc: "level at which a child's standard error is logged", needs: CommandKey,
			field: field.Enum{At: &u.Stderr, Values: []string{field.Off, "debug", "info", "warn"}}},
		{key: "stderr_to_clients", std: "false", doc: "errors show the last lines of a child's standard error to the caller that it serves alone", needs: CommandKey,
			field: field.Bool{At: &u.StderrToClients}},
		{key: "stop_grace", std: "5s", doc: "time from the end of a child's stdin to SIGTERM", field: field.Duration{At: &u.StopGrace, Least: time.Millisecond, Most: 5 * time.Minute, Zero: "at once"}},
		{key: "kill_grace", std: "2s", doc: "time from SIGTERM to SIGKILL", field: field.Duration{At: &u.KillGrace, Least: time.Millisecond, Most: 5 * time.Minute, Zero: "at once"}},
	}
}

// healthKeys are the keys of an upstream for checks, circuit breaker, retries and fallback.
func (u *Upstream) healthKeys() []setting {
	return []setting{
		{key: "health_check_url", std: "", doc: "URL that is requested with GET to check the upstream; empty: the check uses the protocol", needs: UrlKey,
			field: field.CheckURL(&u.Health.CheckURL)},
		{key: "health_check_interval", std: "30s", doc: "time between checks of the upstream; a child is not checked",
			field: field.Duration{At: &u.Health.CheckInterval, Least: time.Second, Most: day, Zero: "never"}},
		{key: "health_check_timeout", std: "5s", doc: "timeout of one check, and of the sign of life that a silent process or connection is asked for", field: field.Duration{At: &u.Health.CheckTimeout, Least: 100 * time.Millisecond, Most: time.Minute}},
		{key: "breaker_failures", std: "20", doc: "failed calls within a minute that, if they are half of all, open the circuit breaker for breaker_pause",
			field: field.Int{At: &u.Health.BreakerFailures, Least: 1, Most: 1000, Zero: "no breaker"}},
		{key: "breaker_pause", std: "30s", doc: "how long the circuit breaker stays open", field: field.Duration{At: &u.Health.BreakerPause, Least: time.Second, Most: time.Hour}},
		{key: "breaker_trials", std: "1", doc: "trial calls after breaker_pause, which must succeed for the circuit breaker to close",
			field: field.Int{At: &u.Health.BreakerTrials, Least: 1, Most: 100}},
		{key: "retries", std: "2", doc: "how often a failed request without an effect is retried", field: field.Int{At: &u.Health.Retries, Least: 1, Most: 10, Zero: "never"}},
		{key: "retry_backoff", std: "100ms", doc: "longest pause before the first retry, doubled with each",
			field: field.Duration{At: &u.Health.RetryBackoff, Least: time.Millisecond, Most: 5 * time.Second}},
		{key: "retry_budget", std: "20", doc: "most retries, in percent of the requests", field: field.Int{At: &u.Health.RetryBudget, Least: 1, Most: 100}},
		{key: fallbackKey, std: "", doc: "upstream that gets new requests and sessions while this one is in error",
			field: field.Text{At: &u.Health.Fallback, Pattern: UpstreamName, Most: maxName, Empty: true, What: "the NAME of another upstream"}},
	}
}

// toolKeys returns concurrency, and the table upstreams.NAME.tools.
func (u *Upstream) toolKeys() []setting {
	return []setting{
		{key: "concurrency", std: "0", doc: "most requests that run at the server at a time; 1 for one that is not thread-safe",
			field: field.Int{At: &u.Concurrency, Least: 1, Most: 100_000, Zero: "any number"}},
		{key: toolsKey, doc: "settings of single tools; a name that ends in * stands for all that begin so: timeout, concurrency, enabled, version, rate_limit",
			open: entries[ToolConfig]{&u.Tools, func(t *ToolConfig) string { return t.Name }, newTool}.table(toolParts)},
	}
}

func toolParts(t *ToolConfig) []setting {
	return []setting{
		{key: "timeout", doc: "how long the tool may be silent, instead of tool_timeout",
			field: field.Duration{At: &t.Timeout, Least: time.Second, Most: 300 * time.Second, Seconds: true, Zero: "no limit but limits.request_time"}},
		{key: "concurrency", doc: "most calls of the tool at a time", field: field.Int{At: &t.Concurrency, Least: 1, Most: 100_000, Zero: "any number"}},
		{key: "enabled", doc: "whether clients see the tool", field: field.Bool{At: &t.Enabled}},
		{key: "rename", doc: "what clients call it", field: renameField(&t.Rename, t.Name)},
		{key: "version", doc: "version of the tool's contract", field: field.Text{At: &t.Version, Pattern: service.Semver, Most: maxName, Empty: true, What: "a semantic version such as 1.2.3"}},
		{key: "rate_limit", doc: "most calls of the tool in a minute, by all clients", field: field.Int{At: &t.RateLimit, Least: 1, Most: 1_000_000, Zero: "any number"}},
	}
}

// accessKeys returns the keys of an upstream for scopes and for Dragoman's own credentials.
func (u *Upstream) accessKeys() []setting {
	text := func(at *string) field.Field { return field.Text{At: at, What: "text", Empty: true} }
	rules := entries[ScopeRule]{&u.Scopes, func(r *ScopeRule) string { return r.About }, newScopeRule}
	return []setting{
		{key: scopesKey, doc: "scopes that a caller needs, by tool:NAME, prompt:NAME, resource:URI or method:NAME; a trailing * stands for any ending",
			open: &table{names: rules.names, entry: func(about string) (field.Field, error) {
				rule, err := rules.find(about)
				if err != nil {
					return nil, err
				}
				return field.List{At: &rule.Scopes, Check: checkScope, What: `a list of scopes such as ["files:write"]`, Least: 1, Most: maxScope, Commas: true}, nil
			}}},
		{key: "oauth.token_url", std: "", doc: "token endpoint at which Dragoman gets tokens for the upstream, by client credentials", needs: UrlKey, field: field.Link(&u.OAuth.TokenURL)},
		{key: "oauth.client_id", std: "", doc: "Dragoman's client id there", needs: UrlKey, field: text(&u.OAuth.ClientID)},
		{key: "oauth.client_secret", std: "", doc: "Dragoman's client secret there", needs: UrlKey, secret: true, field: field.Key{At: &u.OAuth.ClientSecret}},
		{key: "oauth.client_auth", std: "basic", doc: "where id and secret are sent: in a header, or in the body", needs: UrlKey,
			field: field.Enum{At: &u.OAuth.ClientAuth, Values: []string{"basic", "post"}}},
		{key: "oauth.scopes", std: "", doc: "requested scopes", needs: UrlKey, field: scopeList(&u.OAuth.Scopes)},
		{key: "oauth.audience", std: "", doc: "requested audience", needs: UrlKey, field: text(&u.OAuth.Audience)},
		{key: "oauth.resource", std: "", doc: "requested resource (RFC 8707)", needs: UrlKey, field: text(&u.OAuth.Resource)},
	}
}

// grantKeys returns the keys for what may be used of an upstream.
func (u *Upstream) grantKeys() []setting {
	named := func(key, what string, all *[]*ThingConfig) setting {
		fresh := func(name string) (*ThingConfig, error) {
			return &ThingConfig{Name: name, Enabled: true}, checkPattern(name, what)
		}
		return setting{key: key, doc: "settings of single " + key + "; " + what + " that ends in * stands for all that begin so: enabled, rename",
			open: entries[ThingConfig]{all, func(t *ThingConfig) string { return t.Name }, fresh}.table(func(t *ThingConfig) []setting {
				return []setting{
					{key: "enabled", doc: "whether clients see it", field: field.Bool{At: &t.Enabled}},
					{key: "rename", doc: "what clients call it", field: renameField(&t.Rename, t.Name)},
				}
			})}
	}
	return []setting{
		named(promptsKey, "a name", &u.Prompts),
		named(resourcesKey, "a URI", &u.Resources),
		{key: accessKey, doc: "what a principal may use, by principal, or * for all principals without an entry: tools, prompts, resources, deny_tools, deny_prompts, deny_resources",
			open: entries[GrantConfig]{&u.Access, func(g *GrantConfig) string { return g.Principal }, newGrant}.table(grantParts)},
		{key: "trusted", std: "false", doc: "whether the server's tools that declare to change nothing do so: call_read_only_tool takes them", field: field.Bool{At: &u.Trusted}},
		{key: "definitions", std: "", doc: "catalogue.definitions of the server; empty: as there", field: field.Enum{At: &u.Definitions, Values: []string{"", Follow, Warn, Approve}}},
		{key: "approve_first", std: "false", doc: "catalogue.approve_first of the server; false: as there", field: field.Bool{At: &u.ApproveFirst}},
	}
}

func grantParts(g *GrantConfig) []setting {
	list := func(key, doc, what string, at *[]string) setting {
		return setting{key: key, doc: doc, field: field.List{At: at, Check: func(item string) error { return checkPattern(item, what) },
			What: `a list of names and of beginnings such as ["read_*"]`, Most: maxList}}
	}
	return []setting{
		list("tools", "tools that may be used; empty: all that are not denied", "a name", &g.Tools),
		list("prompts", "prompts that may be used", "a name", &g.Prompts),
		list("resources", "URIs of resources that may be used", "a URI", &g.Resources),
		list("deny_tools", "tools that may not be used", "a name", &g.DenyTools),
		list("deny_prompts", "prompts that may not be used", "a name", &g.DenyPrompts),
		list("deny_resources", "URIs of resources that may not be used", "a URI", &g.DenyResources),
	}
}
