package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/era"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/subscriptions"
	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/legacy"
	"dragoman/adapters/modern"
	"dragoman/adapters/oauth"
	restupstream "dragoman/adapters/rest/upstream"
	"dragoman/adapters/sse"
	"dragoman/adapters/stdio/supervisor"
	"dragoman/adapters/transport"
	"dragoman/internal/config"
	"dragoman/policies/health"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// upstream is an upstream with its transports.
type upstream struct {
	*era.Upstream
	up      *config.Upstream
	log     zerolog.Logger
	reg     prometheus.Registerer // only while it is made
	running *health.Running
	host    *httpclient.Host       // nil: it is not reached over HTTP
	dialer  *supervisor.Dialer     // nil: it is no child process
	service *restupstream.Upstream // nil: it does not speak the REST envelope
	client  *oauth.Client          // nil: no token is sent
	stop    context.CancelFunc
	ended   context.Context
}

// upstreamSettings is all that an upstream is made from. While it stays equal, the upstream stays, with its sessions
// and processes.
type upstreamSettings struct {
	up                          config.Upstream
	self, roots                 string
	body, event, line, header   int
	idle                        time.Duration
	reaper, questions, sessions uint64
}

// wiring returns the settings of an upstream without those that only the policies around it use.
func (g *Generation) wiring(up *config.Upstream) upstreamSettings {
	bare := *up
	bare.Scopes, bare.Health, bare.Concurrency, bare.Tools, bare.Prompts, bare.Resources, bare.Access = nil, config.HealthConfig{}, 0, nil, nil, nil, nil
	l := g.Cfg.Limits
	roots, _ := os.ReadFile(up.CAFile) // it was readable when it was checked; if it is gone, there is nothing new to trust
	return upstreamSettings{bare, string(clientInfo(g.Cfg)), string(roots), l.ResponseBody, l.Event, l.Line, l.Header, g.Cfg.Sessions.IdleTTL,
		g.number("reaper"), g.number("questions"), g.number("sessions")}
}

// buildUpstreams makes the upstreams and the routing table.
func (g *Generation) buildUpstreams(ups []*config.Upstream) error {
	targets := make([]*proxy.Target, 0, len(ups))
	for _, up := range ups {
		name := "upstream " + up.Name
		w, err := keep(g, name, g.wiring(up), spec[*upstream]{build: func(reg prometheus.Registerer) (*upstream, error) { return g.newUpstream(up, reg) }, stage: endsUpstreams, close: (*upstream).end})
		if err != nil {
			return fmt.Errorf("upstreams.%s: %w", up.Name, err)
		}
		g.Upstreams = append(g.Upstreams, w.Upstream)
		if g.Components[name] != g.previous[name] {
			g.Added = append(g.Added, w)
		}
		if w.dialer != nil {
			g.Dialers[up.Name] = w.dialer
		}
		if w.service != nil {
			g.Services[up.Name] = w.service
		}
		policies, err := g.upstreamPolicies(up, w)
		if err != nil {
			return fmt.Errorf("upstreams.%s: %w", up.Name, err)
		}
		way := proxy.Around(w.Upstream, policies...)
		g.Monitoring.handlers[up.Name] = way.Do
		targets = append(targets, &proxy.Target{Name: up.Name, Upstream: way})
	}
	g.table = proxy.NewTable(targets...)
	fresh := g.Added
	g.onActivation = append(g.onActivation, func() {
		g.router.Swap(g.table)
		for _, w := range fresh {
			g.cache.Forget(w.Name()) // the name may have belonged to another upstream
		}
	})
	return nil
}

// newUpstream makes one upstream.
func (g *Generation) newUpstream(up *config.Upstream, reg prometheus.Registerer) (*upstream, error) {
	log := g.Log.With().Str("upstream", up.Name).Logger()
	w := &upstream{up: up, log: log, reg: reg, running: health.NewRunning()}
	w.ended, w.stop = context.WithCancel(context.Background())
	var wires transport.Wires
	var err error
	if len(up.Command) > 0 {
		wires = g.stdioWires(up, w, log)
	} else if socket, ok := g.socketWires(up, log); ok {
		wires = socket
	} else if wires, err = g.httpWires(up, w); err != nil {
		w.end()
		return nil, err
	}
	allowed := up.Allowed()
	if len(allowed.Modern()) == 0 {
		wires.Modern = nil
	}
	if wires.Legacy, wires.SSE = transport.Within(allowed, wires.Legacy), transport.Within(allowed, wires.SSE); len(allowed.Legacy()) == 0 {
		wires.Legacy, wires.SSE = nil, nil
	}
	now := &g.App.Current
	w.Upstream = era.NewUpstream(era.Options{
		Server: transport.Server{Name: up.Name, Self: clientInfo(g.Cfg), Wires: wires, Timeout: up.ProbeWait(), StartTimeout: up.StartTimeout},
		Probe: probe.Options{TTL: up.VerdictTTL, Forwards: len(up.Forward) > 0, Found: func(*probe.Profile) {
			if w.dialer != nil {
				w.dialer.Warm() // spare processes are useful only from now on
			}
			now.Load().Tried(up.Name, time.Now(), nil)
		}},
		Sessions: sessions.Options{Isolation: isolation(up), DeclareAll: up.Declare == "all", Max: up.MaxSessions, IdleTTL: g.Cfg.Sessions.IdleTTL,
			Processes: sessions.Processes{Max: maxProcesses(up), Spares: up.Spares, PerPrincipal: up.MaxProcessesPerPrincipal, IdleExit: up.IdleExit}},
		Subscriptions: subscriptions.Options{Poll: up.PollChanges, Changed: func(m *wire.Message) { now.Load().cache.Changed(up.Name, m) }},
		Store:         g.Pending, AsksOnCall: up.PushesOnCall, SealState: up.SealState, DriveTasks: up.Tasks == "drive", Note: upstreamLog(log)})
	if err = g.serverGauges(w); err != nil {
		w.end()
		return nil, err
	}
	w.reg = nil
	return w, nil
}

// end closes an upstream, or the parts of one that could not be made. Requests that run there end with it, see
// [health.Running].
func (w *upstream) end() {
	w.stop()
	if w.Upstream != nil {
		if err := w.Upstream.Close(); err != nil {
			w.log.Warn().Err(err).Msg("closing the upstream")
		}
	}
	if w.dialer != nil {
		w.dialer.Close()
	}
	if w.host != nil {
		w.host.Close()
	}
	if w.client != nil {
		w.client.Close()
	}
}

// serverGauges registers the metrics of an upstream that are read at each scrape.
func (g *Generation) serverGauges(w *upstream) (err error) {
	u, now := w.Upstream, &g.App.Current
	for _, c := range append(processGauges(w),
		gauge("dragoman_upstream_ready", "Whether the upstream was reached and its revision is known.", u.Name(), func() int {
			if now.Load().upstreamState(u).Connected {
				return 1
			}
			return 0
		}),
		gauge("dragoman_upstream_sessions", "Sessions with a legacy upstream that modern clients share.", u.Name(), func() int { all, _ := u.Sessions(); return all }),
		gauge("dragoman_upstream_leases", "Of these, sessions leased by a call in which the server may ask.", u.Name(), func() int { _, leased := u.Sessions(); return leased }),
		gauge("dragoman_listens", "Listens of modern clients at a legacy upstream.", u.Name(), u.Listens),
		gauge("dragoman_watches", "Listens at a modern upstream for legacy clients.", u.Name(), u.BridgeListens)) {
		err = errors.Join(err, w.reg.Register(c))
	}
	return err
}

// host returns the HTTP client for an upstream with an http or https URL, and that URL.
func (g *Generation) host(up *config.Upstream, token httpclient.Credentials) (*httpclient.Host, *url.URL, error) {
	base, err := url.Parse(up.URL)
	if err != nil {
		return nil, nil, err
	}
	headers := make([]httpclient.Header, 0, len(up.Headers))
	for _, x := range up.Headers {
		headers = append(headers, httpclient.Header{Name: x.Name, Value: x.Value.Reveal()})
	}
	forward := make([]httpclient.Forward, 0, len(up.Forward))
	for _, x := range up.Forward {
		forward = append(forward, httpclient.Forward{From: strings.ToLower(x.From), To: x.To})
	}
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: up.URL, CAFile: up.CAFile, Proxy: up.Proxy, Headers: headers, Forward: forward, Credentials: token,
		ConnectTimeout: up.ConnectTimeout, MaxHeader: g.Cfg.Limits.Header})
	return host, base, err
}

func (g *Generation) httpWires(up *config.Upstream, w *upstream) (wires transport.Wires, err error) {
	token, err := g.credentials(up, w)
	if err != nil {
		return wires, err
	}
	var base *url.URL
	if w.host, base, err = g.host(up, token); err != nil {
		return wires, err
	}
	limits := httpcall.Limits{Body: g.Cfg.Limits.ResponseBody, Event: g.Cfg.Limits.Event}
	path := base.RequestURI()
	if up.Transport == config.RestName {
		w.service = restupstream.New(w.host, path, limits)
		return transport.Wires{Modern: w.service.Dial, Certain: true}, nil // there is nothing to probe but whether it is there
	}
	wires.Mirrors = true
	if up.Transport != "sse" {
		wires.Modern = modern.NewUpstream(w.host, path, limits).Dial
		wires.Legacy = legacy.NewDialer(w.host, path, limits).Dial
	}
	if up.Transport != "http" {
		wires.SSE = sse.NewDialer(w.host, base, limits).Dial
	}
	return wires, nil
}

// Probe starts to probe the upstreams that are new, and repeats that until they answer or ctx ends. An error that no
// later attempt can mend goes to fatal.
func (g *Generation) Probe(ctx context.Context, fatal chan<- error) {
	for _, w := range g.Added {
		go func() { // ends with ctx, with the upstream, or with the probe
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(w.ended, cancel)()
			for wait := probeAgain; ; wait = min(2*wait, time.Minute) {
				err := g.App.probe(ctx, w)
				if errors.Is(err, transport.ErrFatal) {
					select {
					case fatal <- err:
					default:
					}
				}
				if err == nil || ctx.Err() != nil || errors.Is(err, transport.ErrFatal) {
					return
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
				}
			}
		}()
	}
	g.Added = nil
}

// probe determines which revisions an upstream speaks.
func (a *App) probe(ctx context.Context, w *upstream) error {
	began, name := time.Now(), w.Name()
	if health := a.Current.Load().Monitoring.Monitors[name]; health != nil {
		health.Trying()
	}
	v, err := w.Profile(ctx)
	if ctx.Err() != nil {
		return err
	}
	h := a.Current.Load()
	h.Tried(name, began, err)
	if err == nil && h.Cfg.Upstream(name) != nil {
		h.Service.Health() // the state may have changed
		announce(h.Log, name, v, era.Degrades(v, h.profileSettings(name)))
	}
	return err
}

// probeAgain is the first pause before an upstream that could not be reached is probed again. It is doubled each time,
// up to a minute.
const probeAgain = 2 * time.Second
