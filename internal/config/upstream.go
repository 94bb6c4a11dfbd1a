package config

import (
	"dragoman/adapters/rules"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"net/url"
	"slices"
	"strings"
	"time"
)

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
	Env []value.EnvVar
	// EnvInherit are the variables of Dragoman's own environment that Command gets besides
	// those of stdio.BaseEnv; a name may end in a star. At most 1000.
	EnvInherit []string
	// EnvFile is a file of NAME=VALUE lines for the environment of Command; "" is none. It is
	// read when the configuration is loaded, see [Upstream.Environ].
	EnvFile string
	// FileEnv is what EnvFile holds, sorted by name. It has no key of its own.
	FileEnv []value.EnvVar
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
	Value value.Secret
}

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

// Isolated takes Isolation apart: kind is "session", "principal", "pool" or
// "shared", and n the size of a pool, 1 to 1000, otherwise 0.
func (u *Upstream) Isolated() (kind string, n int) {
	kind, n, _ = field.ParseIsolation(u.Isolation) // checked when it was read
	return kind, n
}

// Socket answers where a server listens that speaks lines over a socket: network
// is "unix" with the path of the socket, or "tcp" with HOST:PORT. ok is false for
// every other upstream.
func (u *Upstream) Socket() (network, address string, ok bool) {
	if path, ok := strings.CutPrefix(u.URL, value.UnixScheme); ok {
		return "unix", field.SocketPath(path), true
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
	return value.RedactURL(u.URL)
}

// Probe patience when probe_timeout is 0: a child has to be started first,
// perhaps by a package runner that downloads it.
const (
	probeWaitHTTP  = 5 * time.Second
	probeWaitStdio = 10 * time.Second
)
