package target

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/era"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/subscriptions"
	"dragoman/adapters/grpc/channel"
	"dragoman/adapters/grpc/provider"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/oauth"
	restupstream "dragoman/adapters/rest/upstream"
	"dragoman/adapters/stdio/supervisor"
	"dragoman/adapters/transport"
	"dragoman/internal/app/component"
	"dragoman/internal/app/logging"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/policies/health"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Upstream is an upstream with its transports. It is a component, and may serve several generations.
type Upstream struct {
	*era.Upstream
	log      zerolog.Logger
	running  *health.Running
	host     *httpclient.Host       // nil: it is not reached over HTTP
	Dialer   *supervisor.Dialer     // nil: it is no child process
	Service  *restupstream.Upstream // nil: it does not speak the REST envelope
	client   *oauth.Client          // nil: no token is sent
	channel  *channel.Channel       // nil: it is no gRPC service
	provider *provider.Upstream     // nil: it is no provider
	// Hide hides the secrets that the server knows; nil: it knows none.
	Hide  transport.Hide
	stop  context.CancelFunc
	ended context.Context

	answers atomic.Bool // what its monitor has last said of it
}

// end closes an upstream, or the parts of one that could not be made. Requests that run there end with it, see
// [health.Running].
func (u *Upstream) end() {
	u.stop()
	if u.Upstream != nil {
		if err := u.Close(); err != nil {
			u.log.Warn().Err(err).Msg("closing the upstream")
		}
	}
	if u.Dialer != nil {
		u.Dialer.Close()
	}
	if u.host != nil {
		_ = u.host.Close()
	}
	if u.provider != nil {
		u.provider.End()
	}
	if u.channel != nil {
		if err := u.channel.Close(); err != nil {
			u.log.Warn().Err(err).Msg("closing the connections to the gRPC service")
		}
	}
	if u.client != nil {
		u.client.Close()
	}
}

// Retire waits until the requests that run at the upstream have ended, or ctx has.
func (u *Upstream) Retire(ctx context.Context) error { return u.running.Retire(ctx) }

// Ended returns a context that ends when the upstream closes.
func (u *Upstream) Ended() context.Context { return u.ended }

// upstreamSettings is all that an upstream is made from. While it stays equal, the upstream stays, with its sessions
// and processes.
type upstreamSettings struct {
	up                          config.Upstream
	self, roots, descriptors    string
	body, event, line, header   int
	idle                        time.Duration
	reaper, questions, sessions uint64
}

// settings returns the settings of an upstream without those that only the policies around it use.
func (b *Builder) settings(up *config.Upstream) upstreamSettings {
	bare := *up
	bare.PolicyConfig = config.PolicyConfig{}
	l := b.Config.Limits
	roots, _ := os.ReadFile(up.CAFile)            // it was readable when it was checked; if it is gone, there is nothing new to trust
	descriptors, _ := os.ReadFile(up.Descriptors) // likewise
	return upstreamSettings{bare, string(b.Self), string(roots), string(descriptors), l.ResponseBody, l.Event, l.Line, l.Header, b.Config.Sessions.IdleTTL,
		b.Components.Number("reaper"), b.Components.Number("questions"), b.Components.Number("sessions")}
}

// upstreamComponent returns the name of an upstream's component.
func upstreamComponent(name string) string { return "upstream " + name }

// upstream returns the component of an upstream.
func (b *Builder) upstream(up *config.Upstream) (*Upstream, error) {
	return component.Get(b.Components, upstreamComponent(up.Name), b.settings(up), component.Spec[*Upstream]{Build: func(reg prometheus.Registerer) (*Upstream, error) {
		u := &Upstream{log: b.Log.With().Str("upstream", up.Name).Logger(), running: health.NewRunning()}
		u.ended, u.stop = context.WithCancel(context.Background())
		if err := b.fill(u, up, reg); err != nil {
			u.end()
			return nil, err
		}
		return u, nil
	}, Stage: component.Upstreams, Close: (*Upstream).end})
}

func (b *Builder) fill(u *Upstream, up *config.Upstream, reg prometheus.Registerer) error {
	wires, err := b.wires(u, up, reg)
	if err != nil {
		return err
	}
	u.Hide = hiding(u, up)
	wires.Modern, wires.Legacy, wires.SSE = u.Hide.Dial(wires.Modern), u.Hide.Dial(wires.Legacy), u.Hide.Dial(wires.SSE)
	allowed := up.Allowed()
	if len(allowed.Modern()) == 0 {
		wires.Modern = nil
	}
	if wires.Legacy, wires.SSE = transport.Within(allowed, wires.Legacy), transport.Within(allowed, wires.SSE); len(allowed.Legacy()) == 0 {
		wires.Legacy, wires.SSE = nil, nil
	}
	u.Upstream = era.NewUpstream(era.Options{
		Server: transport.Server{Name: up.Name, Self: b.Self, Wires: wires, Timeout: up.ProbeWait(), StartTimeout: up.StartTimeout},
		Probe: probe.Options{TTL: up.VerdictTTL, Forwards: len(up.Forward) > 0, Found: func(*probe.Profile) {
			if u.Dialer != nil {
				u.Dialer.Warm() // spare processes are useful only from now on
			}
			b.Current(up.Name).Tried(time.Now(), nil)
		}},
		Sessions: sessions.Options{Isolation: isolation(up), DeclareAll: up.Declare == "all", Max: up.MaxSessions, IdleTTL: b.Config.Sessions.IdleTTL,
			Processes: sessions.Processes{Max: maxProcesses(up), Spares: up.Spares, PerPrincipal: up.MaxProcessesPerPrincipal, IdleExit: up.IdleExit}},
		Subscriptions: subscriptions.Options{Poll: up.PollChanges, Changed: func(m *wire.Message) { b.Current(up.Name).changed(m) }},
		Notice:        func(who proxy.Caller, m *wire.Message) bool { return b.Current(up.Name).notice(who, m) },
		Store:         b.Pending, AsksOnCall: up.PushesOnCall, SealState: up.SealState || u.provider != nil, DriveTasks: up.Tasks == "drive", Note: u.notes(up)})
	return b.registerMetrics(u, reg)
}

// hiding returns what hides the secrets that a server knows; nil if it knows none.
func hiding(u *Upstream, up *config.Upstream) transport.Hide {
	secrets := up.Secrets()
	switch {
	case secrets == nil && len(up.Forward) == 0 && u.client == nil:
		return nil
	case u.host != nil:
		return u.host.Hide
	case u.channel != nil:
		return func(ctx context.Context, text string) string { return u.channel.Hide(ctx, secrets.Whole(text)) }
	}
	return func(_ context.Context, text string) string { return secrets.Whole(text) }
}

// Both is [era.Upstream.Both], whose errors have no secrets.
func (u *Upstream) Both(ctx context.Context) (*probe.Profile, error) {
	v, err := u.Upstream.Both(ctx)
	return v, u.Hide.Error(ctx, err)
}

// Profile is [era.Upstream.Profile], whose errors have no secrets.
func (u *Upstream) Profile(ctx context.Context) (*probe.Profile, error) {
	v, err := u.Upstream.Profile(ctx)
	return v, u.Hide.Error(ctx, err)
}

// notes returns the function that logs what the upstream does by itself.
func (u *Upstream) notes(up *config.Upstream) func(level, msg string, err error) {
	note := logging.Notes(u.log.With().Str("target", up.Place()).Logger())
	return func(level, msg string, err error) { note(level, msg, u.Hide.Error(u.ended, err)) }
}

// wires returns the transports of an upstream, and stores in u what they are made from.
func (b *Builder) wires(u *Upstream, up *config.Upstream, reg prometheus.Registerer) (transport.Wires, error) {
	if len(up.Command) > 0 {
		var err error
		if u.Dialer, err = b.childDialer(up, u.log); err != nil {
			return transport.Wires{}, err
		}
		return transport.Wires{Stdio: true, Modern: u.Dialer.Dial(proxy.Modern), Legacy: u.Dialer.Dial(proxy.Legacy)}, nil
	}
	if _, _, ok := up.GRPC(); ok {
		return b.grpcWires(u, up, reg)
	}
	if wires, ok := socketWires(up, b.Config.Limits.Line, u.log); ok {
		return wires, nil
	}
	return b.httpWires(u, up, reg)
}

// registerMetrics registers the metrics of an upstream that are read at each scrape.
func (b *Builder) registerMetrics(u *Upstream, reg prometheus.Registerer) error {
	return component.Register(reg, append(append(processMetrics(u), strayMetrics(u)...),
		component.Gauge("dragoman_upstream_ready", "Whether the upstream was reached and its revision is known.", u.Name(), func() int { return component.Bool(b.Current(u.Name()).State().Connected) }),
		component.Gauge("dragoman_upstream_sessions", "Sessions with a legacy upstream that modern clients share.", u.Name(), func() int { all, _ := u.Sessions(); return all }),
		component.Gauge("dragoman_upstream_leases", "Of these, sessions leased by a call in which the server may ask.", u.Name(), func() int { _, leased := u.Sessions(); return leased }),
		component.Gauge("dragoman_upstream_broadcasts", "Whether the upstream was seen to send the answers of one session to another.", u.Name(), func() int { return component.Bool(u.Broadcasts()) }),
		component.Gauge("dragoman_listens", "Listens of modern clients at a legacy upstream.", u.Name(), u.Listens),
		component.Gauge("dragoman_watches", "Listens at a modern upstream for legacy clients.", u.Name(), u.BridgeListens))...)
}

// strayMetrics returns the metrics of answers that matched no open request, a series for each kind.
func strayMetrics(u *Upstream) (all []prometheus.Collector) {
	for _, of := range [...]transport.Stray{transport.Late, transport.Foreign, transport.Unknown} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "dragoman_upstream_strays_total", Help: "Answers that were dropped because they matched no open request of their session.",
			ConstLabels: prometheus.Labels{"server": u.Name(), "of": string(of)}}, func() float64 { return float64(u.Strays(of)) }))
	}
	return all
}

// isolation returns how the clients of an upstream are kept apart.
func isolation(up *config.Upstream) sessions.Isolation {
	kind, size := up.Isolated()
	switch kind {
	case field.PerPrincipal:
		return sessions.Isolation{Sharing: sessions.ByPrincipal}
	case field.Pooled:
		return sessions.Isolation{Sharing: sessions.Pooled, Size: size}
	case field.SharedByAll:
		return sessions.Isolation{Sharing: sessions.Shared}
	}
	return sessions.Isolation{}
}

// ProfileSettings returns what decides, besides its profile, what clients lose at an upstream.
func ProfileSettings(cfg *config.Config, name string) era.Setting {
	up := cfg.Upstream(name)
	return era.Setting{Stdio: speaksLines(up), Isolation: isolation(up), DeclareAll: up.Declare == "all", DriveTasks: up.Tasks == "drive",
		AsksOnCall: up.PushesOnCall, Clients: cfg.Served()}
}
