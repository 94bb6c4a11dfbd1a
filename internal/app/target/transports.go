package target

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/legacy"
	"dragoman/adapters/modern"
	"dragoman/adapters/oauth"
	restupstream "dragoman/adapters/rest/upstream"
	"dragoman/adapters/sse"
	"dragoman/adapters/stdio/launch"
	"dragoman/adapters/stdio/process"
	"dragoman/adapters/stdio/socket"
	"dragoman/adapters/stdio/supervisor"
	"dragoman/adapters/transport"
	"dragoman/internal/app/component"
	"dragoman/internal/app/logging"
	"dragoman/internal/config"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// newHost returns the HTTP client for an upstream with an http or https URL, and that URL.
func (b *Builder) newHost(up *config.Upstream, token httpclient.Credentials) (*httpclient.Host, *url.URL, error) {
	base, err := url.Parse(up.URL)
	if err != nil {
		return nil, nil, err
	}
	headers, forward := metadataOf(up)
	var refuse func(netip.AddrPort) error
	if up.Registration != "" {
		refuse = b.Refuse
	}
	host, err := httpclient.NewHost(httpclient.HostOptions{Via: b.Via, Refuse: refuse, URL: up.URL, CAFile: up.CAFile, Proxy: up.Proxy, Headers: headers, Forward: forward, Credentials: token, Secrets: up.Secrets(),
		ConnectTimeout: up.ConnectTimeout, MaxHeader: b.Config.Limits.Header, Arrivals: b.Arrivals, Overrun: func(err error) {
			b.Log.Warn().Str("upstream", up.Name).AnErr("cause", err).Msg("the server sends more at a time than limits.arriving_bytes allows; an answer or stream of it was given up")
		}})
	return host, base, err
}

// httpWires returns the transports of an upstream that is reached over HTTP.
func (b *Builder) httpWires(u *Upstream, up *config.Upstream, reg prometheus.Registerer) (wires transport.Wires, err error) {
	if err := b.tokens(u, up, reg); err != nil {
		return wires, err
	}
	var base *url.URL
	if u.host, base, err = b.newHost(up, u.credentials()); err != nil {
		return wires, err
	}
	limits := httpcall.Limits{Body: b.Config.Limits.ResponseBody, Event: b.Config.Limits.Event}
	path := base.RequestURI()
	if up.Transport == config.RestName {
		u.Service = restupstream.New(u.host, path, limits)
		return transport.Wires{Modern: u.Service.Dial, Certain: true}, nil // there is nothing to probe but whether it is there
	}
	wires.Mirrors = true
	if up.Transport != "sse" {
		wires.Modern = modern.NewUpstream(u.host, path, limits).Dial
		wires.Legacy = legacy.NewDialer(u.host, path, limits).Dial
	}
	if up.Transport != "http" {
		wires.SSE = sse.NewDialer(u.host, base, sse.Options{Name: up.Name, Limits: limits, AliveTimeout: up.Health.CheckTimeout,
			Replaced: func(fault error, silent time.Duration) {
				replaced(u.log.Warn(), fault, silent).Msg("the server gives no sign of life: its event stream is given up, and the next call opens another")
			}}).Dial
	}
	return wires, nil
}

// grpcWires returns the transports of an upstream that is a gRPC service.
func (b *Builder) grpcWires(u *Upstream, up *config.Upstream, reg prometheus.Registerer) (transport.Wires, error) {
	if err := b.tokens(u, up, reg); err != nil {
		return transport.Wires{}, err
	}
	by := &grpcSettings{limits: b.Config.Limits, questions: b.Pending.Options(), credentials: u.credentials(), note: u.notes(up),
		changed: func(m *wire.Message) { b.Current(up.Name).changed(m) }, events: b.Events}
	if up.Registration != "" {
		by.refuse = b.Refuse
	}
	var err error
	if u.channel, err = openChannel(up, by); err != nil {
		return transport.Wires{}, err
	}
	if len(up.Methods) > 0 {
		of, err := openServices(up, u.channel, by)
		if err != nil {
			return transport.Wires{}, err
		}
		return transport.Wires{Modern: of.Dial, Certain: true}, nil
	}
	u.provider = openProvider(up, u.channel, by)
	if len(up.Metadata) > 0 {
		u.log.Info().Strs("metadata", up.Metadata).Msg("a provider of providers.yaml")
	}
	return transport.Wires{Modern: u.provider.Dial, Certain: true}, nil // there is nothing to probe but whether it is there
}

// tokens makes what gets the tokens of an upstream, if it needs some.
func (b *Builder) tokens(u *Upstream, up *config.Upstream, reg prometheus.Registerer) error {
	o := &up.OAuth
	if o.TokenURL == "" {
		return nil
	}
	u.client = oauth.NewClient(oauth.ClientOptions{Upstream: up.Name, TokenURL: o.TokenURL, ID: o.ClientID, Secret: o.ClientSecret.Reveal(), Post: o.ClientAuth == "post",
		Scopes: o.Scopes, Audience: o.Audience, Resource: o.Resource, CAFile: up.CAFile})
	return reg.Register(component.Gauge("dragoman_upstream_tokens", "Tokens that were got for an upstream.", up.Name, func() int { return int(u.client.Fetched()) }))
}

// credentials returns what authenticates Dragoman at an upstream besides static headers; nil: nothing does.
func (u *Upstream) credentials() httpclient.Credentials {
	if u.client == nil {
		return nil
	}
	return u.client
}

// childDialer returns the dialer of a server that is a child process. The dialer also knows how the server's starts go.
// The error says that its children cannot have the account that they should.
func (b *Builder) childDialer(up *config.Upstream, log zerolog.Logger) (*supervisor.Dialer, error) {
	account, home, err := process.Account(up.User, up.Group)
	if err != nil {
		return nil, err
	}
	level, perr := zerolog.ParseLevel(up.Stderr)
	if perr != nil { // "off"
		level = zerolog.Disabled
	}
	var starts logging.StartLines
	opt := supervisor.Options{Name: up.Name, Spares: up.Spares, StartTimeout: up.StartTimeout,
		CrashLimit: up.CrashLimit, CrashPause: up.CrashPause, AliveTimeout: up.Health.CheckTimeout, Reveal: b.reveal(up),
		Command: process.Command{Argv: up.Command, Env: environment(up, home), Dir: up.Cwd, Limits: launch.Limits{Account: account, Memory: up.Memory, CPUs: up.CPUs},
			Secrets: up.Secrets(), MaxLine: b.Config.Limits.Line, StopGrace: up.StopGrace, KillGrace: up.KillGrace, Reaper: b.Reaper},
		Stderr: func(pid int, line []byte, dropped int) {
			if dropped > 0 {
				log.WithLevel(level).Int("pid", pid).Int("lines", dropped).Msg("the server writes too much to standard error; lines were dropped")
			}
			if line == nil {
				return
			}
			if said, left := starts.Say(pid, line, time.Now()); said {
				repeated(log.WithLevel(level).Int("pid", pid), left).Bytes("stderr", line).Msg("the server says")
			}
		},
		Noise: func(pid int, line []byte, err error, skipped int) {
			log.Warn().Int("pid", pid).Bytes("line", line[:min(len(line), 200)]).Int("left_out", skipped).AnErr("cause", err).Msg("a line on the server's output is no message; it is skipped")
		},
		Replaced: func(pid int, fault error, silent time.Duration) {
			replaced(log.Warn().Int("pid", pid), fault, silent).Msg("the server gives no sign of life: its process is killed, and the next call starts another")
		},
		Changed: func(s supervisor.Health) {
			repeated(log.Warn(), starts.Left()).Str("circuit", s.State).Int("failures", s.Failures).Str("last", s.Last).Msg("the circuit of the server's starts has changed")
			if t := b.Current(up.Name); t != nil {
				t.Monitor.Look()
			}
		},
	}
	if level == zerolog.Disabled {
		opt.Stderr = nil
	}
	return supervisor.NewDialer(opt), nil
}

// replaced adds to a log line why a conversation is replaced.
func replaced(line *zerolog.Event, fault error, silent time.Duration) *zerolog.Event {
	return line.AnErr("cause", fault).Str("silent_for", silent.Round(time.Millisecond).String())
}

// environment returns the variables of a child: those of Dragoman's own that it may have, but not its user's directories if home
// names those of the child's user, and the configured ones.
func environment(up *config.Upstream, home []string) []string {
	env := process.BaseEnv(up.EnvInherit)
	if len(home) > 0 {
		env = slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, "XDG_") })
	}
	return slices.Concat(env, home, up.Environ())
}

// reveal says whose errors show what a child has written to its standard error.
func (b *Builder) reveal(up *config.Upstream) supervisor.Reveal {
	switch {
	case b.Config.Attended:
		return supervisor.ToAll
	case up.StderrToClients:
		return supervisor.ToOwner
	}
	return supervisor.ToNobody
}

// processMetrics returns the metrics of an upstream's child processes.
func processMetrics(u *Upstream) []prometheus.Collector {
	d := u.Dialer
	if d == nil {
		return nil
	}
	return []prometheus.Collector{
		component.Gauge("dragoman_upstream_processes", "Children that run, spares included.", u.Name(), func() int { return d.Stats().Running }),
		component.Gauge("dragoman_upstream_spares", "Children that wait for a first session.", u.Name(), func() int { return d.Stats().Spares }),
		component.Gauge("dragoman_upstream_seats", "Children that count towards max_processes.", u.Name(), u.Processes),
		component.Gauge("dragoman_upstream_circuit_open", "1 while the server keeps crashing and is not started.", u.Name(), func() int { return component.Bool(d.Health().State == "open") }),
		component.Counter("dragoman_upstream_starts_total", "Children started, or tried to.", u.Name(), func() uint64 { return d.Stats().Starts }),
		component.Counter("dragoman_upstream_failed_starts_total", "Starts that failed.", u.Name(), func() uint64 { return d.Stats().FailedStarts }),
		component.Counter("dragoman_upstream_crashes_total", "Children that ended without having been stopped.", u.Name(), func() uint64 { return d.Stats().Crashes }),
		component.Counter("dragoman_upstream_noise_lines_total", "Lines on standard output that were no message.", u.Name(), func() uint64 { return d.Stats().Noise }),
		component.Counter("dragoman_upstream_stderr_dropped_total", "Lines on standard error that were not logged, because there were too many.", u.Name(), func() uint64 { return d.Stats().Dropped }),
	}
}

// socketWires returns the transports of a server that speaks lines of at most maxLine bytes over a socket. ok is false for
// every other upstream.
func socketWires(up *config.Upstream, maxLine int, log zerolog.Logger) (wires transport.Wires, ok bool) {
	network, address, ok := up.Socket()
	if !ok {
		return transport.Wires{}, false
	}
	socket := socket.NewDialer(socket.Options{Name: up.Name, AliveTimeout: up.Health.CheckTimeout, Network: network, Address: address,
		ConnectTimeout: up.ConnectTimeout, MaxLine: maxLine,
		Noise: func(line []byte, err error, skipped int) {
			log.Warn().Bytes("line", line[:min(len(line), 200)]).Int("left_out", skipped).AnErr("cause", err).Msg("a line of the server is no message; it is skipped")
		},
		Replaced: func(fault error, silent time.Duration) {
			replaced(log.Warn(), fault, silent).Msg("the server gives no sign of life: its connection is given up, and the next call makes another")
		}})
	return transport.Wires{Stdio: true, Remote: true, Modern: socket.Dial(proxy.Modern), Legacy: socket.Dial(proxy.Legacy)}, true
}

// speaksLines reports whether a server speaks lines: a child process, or one behind a socket.
func speaksLines(up *config.Upstream) bool {
	_, _, socket := up.Socket()
	return socket || len(up.Command) > 0
}

// maxProcesses returns the bound on an upstream's child processes, 0 if it has none. Processes behind a socket are not
// ours to count; connections are bounded as sessions are.
func maxProcesses(up *config.Upstream) int {
	if len(up.Command) == 0 {
		return 0
	}
	return up.MaxProcesses
}

// repeated adds to a line of the log how many lines of standard error were left out before it, because earlier starts wrote them, too.
func repeated(line *zerolog.Event, left int) *zerolog.Event {
	if left > 0 {
		line = line.Int("repeated", left)
	}
	return line
}
