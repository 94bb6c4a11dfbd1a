package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"dragoman/adapters/admin"
	"dragoman/adapters/era"
	"dragoman/adapters/guardian"
	"dragoman/adapters/httpd"
	"dragoman/adapters/legacy"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/modern"
	"dragoman/adapters/rest"
	"dragoman/adapters/service"
	"dragoman/adapters/sse"
	"dragoman/adapters/stdio"
	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// house is everything there is in a running proxy. It is put together here and nowhere else.
type house struct {
	cfg       *Config
	log       zerolog.Logger
	metrics   *prometheus.Registry
	store     *session.Store
	upstreams []*era.Upstream
	hosts     []*httpd.Host
	dialers   map[string]*stdio.Dialer  // of the upstreams that are children
	services  map[string]*rest.Upstream // of the upstreams that speak the REST envelope
	guardian  *guardian.Guardian        // starts and ends all children
	service   *service.Service          // the state that we are in
	depends   *service.Checks           // of what the service depends on besides; nil: nothing
	handle    proxy.Handler
	watching  []proxy.Policy // see every request and what becomes of it, also those that a face refuses
	plain     proxy.Handler  // for callers that speak no revision; what watches stands around it elsewhere
	lot       *era.Lot       // where calls wait for answers to their questions
	kept      session.Usage  // what is kept for clients that lose a stream
	repeats   *policies.Idempotency
	rate      *policies.Rate         // how much may come
	slots     *policies.Slots        // how much runs at a time
	cache     *policies.Cache        // what servers let be kept; nil: nothing is
	granted   *prometheus.CounterVec // what clients may not use
	upkeep    *upkeep                // how the upstreams are
	who       identity
	draining  context.Context // ends when the proxy is about to end
	drain     context.CancelFunc
}

// assemble makes the proxy for the given upstreams; nothing is said to them yet.
func assemble(cfg *Config, ups []*Upstream, log zerolog.Logger) (*house, error) {
	h := &house{cfg: cfg, log: log, metrics: prometheus.NewRegistry()}
	h.draining, h.drain = context.WithCancel(context.Background())
	h.guardian = guardian.New(guardian.Options{Note: func(err error) { log.Warn().Err(err).Msg("the guardian of the children") }})
	if slices.ContainsFunc(ups, func(up *Upstream) bool { return len(up.Command) > 0 }) {
		h.guardian.Prestart()
	}
	var err error
	if h.store, err = session.NewStore(session.Options{IdleTTL: cfg.Sessions.IdleTTL, Max: cfg.Sessions.Max,
		Repeats: cfg.Idempotency.Mode != policies.IgnoreRepeats, MaxPerPrincipal: cfg.Sessions.MaxPerPrincipal}); err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	q := cfg.Questions
	if h.lot, err = era.NewLot(era.Questions{TTL: q.TTL, Settle: q.Settle, LeaseWait: q.LeaseWait, MaxParked: q.MaxParked,
		MaxPerPrincipal: q.MaxParkedPerPrincipal, Rounds: q.Rounds, Key: []byte(q.StateKey.Reveal())}); err != nil {
		h.close()
		return nil, fmt.Errorf("questions: %w", err)
	}
	if err := h.limits(); err != nil {
		h.close()
		return nil, fmt.Errorf("limits: %w", err)
	}
	if h.upkeep, err = newUpkeep(h.metrics); err != nil {
		h.close()
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if err := h.identify(); err != nil {
		h.close()
		return nil, fmt.Errorf("authentication: %w", err)
	}
	targets := make([]*proxy.Target, 0, len(ups))
	for _, up := range ups {
		u, err := h.upstream(up)
		if err != nil {
			h.close()
			return nil, fmt.Errorf("upstreams.%s: %w", up.Name, err)
		}
		h.upstreams = append(h.upstreams, u)
		way := proxy.Around(u, h.around(up, u)...)
		h.upkeep.ways[up.Name] = way.Do
		targets = append(targets, &proxy.Target{Name: up.Name, Upstream: way})
	}
	meters, err := policies.NewMetrics(h.metrics)
	if err != nil {
		h.close()
		return nil, fmt.Errorf("metrics: %w", err)
	}
	h.gauges()
	if err := h.serviceState(); err != nil {
		h.close()
		return nil, err
	}
	if err := h.idempotency(); err != nil {
		h.close()
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	route, around := proxy.NewRouter(proxy.NewTable(targets...)).Do, append([]proxy.Policy{h.who.scopes, h.repeats.Policy}, h.before()...)
	h.tend()
	h.watching = []proxy.Policy{policies.Audit(log), meters.Policy}
	h.plain = proxy.Chain(route, around...)
	h.handle = proxy.Chain(proxy.Chain(route, append(around, policies.Eras(cfg.Served()))...), h.watching...)
	return h, nil
}

// gauges registers what is read off the parts when somebody asks.
func (h *house) gauges() {
	v := readVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_build_info", Help: "1, with the build as labels.",
		ConstLabels: prometheus.Labels{"version": v.Version, "go": v.Go}})
	info.Set(1)
	h.metrics.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_sessions", Help: "Sessions that legacy clients have open."},
			func() float64 { return float64(h.store.Len()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_streams_resumable", Help: "Event streams of legacy clients that could be picked up again."},
			func() float64 { return float64(h.kept.Streams.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_stream_events_bytes", Help: "Bytes kept for picking up event streams again."},
			func() float64 { return float64(h.kept.Bytes.Load()) }))
	h.metrics.MustRegister(gauge("dragoman_large_lines", "Large messages of servers and for them that are held in memory of their own.", "", stdio.LargeLines),
		gauge("dragoman_calls_parked", "Calls at legacy servers that wait for a modern client's answers.", "", h.lot.Parked))
	for _, u := range h.upstreams {
		h.metrics.MustRegister(
			gauge("dragoman_upstream_ready", "Whether the upstream was reached and its revision is known.", u.Name(), func() int {
				if h.state(u).Connected {
					return 1
				}
				return 0
			}),
			gauge("dragoman_upstream_sessions", "Sessions with a legacy upstream that modern clients share.", u.Name(), func() int { all, _ := u.Sessions(); return all }),
			gauge("dragoman_upstream_leases", "Of these, sessions leased by a call in which the server may ask.", u.Name(), func() int { _, leased := u.Sessions(); return leased }),
			gauge("dragoman_listens", "Listens of modern clients at a legacy upstream.", u.Name(), u.Listens),
			gauge("dragoman_watches", "Listens at a modern upstream for legacy clients.", u.Name(), u.Watches))
		h.processGauges(u)
	}
}

// gauge is a gauge that is read when somebody asks; server labels it unless it is empty.
func gauge(name, help, server string, read func() int) prometheus.Collector {
	labels := prometheus.Labels{"server": server}
	if server == "" {
		labels = nil
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(read()) })
}

// upstream makes one upstream with all ways to reach it.
func (h *house) upstream(up *Upstream) (*era.Upstream, error) {
	log := h.log.With().Str("upstream", up.Name).Logger()
	var wires era.Wires
	var err error
	if len(up.Command) > 0 {
		wires = h.stdioWires(up, log)
	} else if socket, ok := h.socketWires(up, log); ok {
		wires = socket
	} else if up.Transport == restName {
		if wires, err = h.restWires(up); err != nil {
			return nil, err
		}
	} else if wires, err = h.httpWires(up); err != nil {
		return nil, err
	}
	allowed := up.Allowed()
	if len(allowed.Modern()) == 0 {
		wires.Modern = nil
	}
	if wires.Legacy, wires.SSE = allowed.Within(wires.Legacy), allowed.Within(wires.SSE); len(allowed.Legacy()) == 0 {
		wires.Legacy, wires.SSE = nil, nil
	}
	return era.NewUpstream(era.Options{Name: up.Name, Wires: wires, Self: self(h.cfg), ProbeTimeout: up.ProbeWait(),
		VerdictTTL: up.VerdictTTL, Isolation: isolation(up), MaxSessions: up.MaxSessions, MaxProcesses: maxProcesses(up), Spares: up.Spares, MaxPrincipal: up.MaxProcessesPerPrincipal,
		IdleTTL: h.cfg.Sessions.IdleTTL, IdleExit: up.IdleExit, StartTimeout: up.StartTimeout, Known: h.known(up.Name),
		Carries: len(up.Forward) > 0, AsksOnCall: up.PushesOnCall, DeclareAll: up.Declare == "all", PollChanges: up.PollChanges, DriveTasks: up.Tasks == "drive", SealState: up.SealState, Lot: h.lot, Note: note(log),
		Changed: func(m *wire.Message) { h.cache.Changed(up.Name, m) }}), nil
}

// isolation is how the clients of an upstream are kept apart.
func isolation(up *Upstream) era.Isolation {
	kind, size := up.Isolated()
	switch kind {
	case perPrincipal:
		return era.Isolation{Sharing: era.ByPrincipal}
	case pooled:
		return era.Isolation{Sharing: era.Pooled, Size: size}
	case sharedByAll:
		return era.Isolation{Sharing: era.Shared}
	}
	return era.Isolation{}
}

// note writes what an upstream reports of itself.
func note(log zerolog.Logger) func(level, msg string, err error) {
	return func(level, msg string, err error) {
		l, perr := zerolog.ParseLevel(level)
		if perr != nil {
			l = zerolog.InfoLevel
		}
		log.WithLevel(l).AnErr("cause", err).Msg(msg)
	}
}

// self is the clientInfo with which Dragoman asks on its own behalf.
func self(cfg *Config) []byte {
	version := cfg.Service.Version
	if version == "" {
		version = readVersion().Version
	}
	v := wire.AppendText([]byte(`{"name":`), cfg.Service.Name)
	return append(wire.AppendText(append(v, `,"version":`...), version), '}')
}

// host opens the way to an upstream with an http or https url.
func (h *house) host(up *Upstream) (*httpd.Host, *url.URL, error) {
	base, err := url.Parse(up.URL)
	if err != nil {
		return nil, nil, err
	}
	headers := make([]httpd.Header, 0, len(up.Headers))
	for _, x := range up.Headers {
		headers = append(headers, httpd.Header{Name: x.Name, Value: x.Value.Reveal()})
	}
	forward := make([]httpd.Forward, 0, len(up.Forward))
	for _, x := range up.Forward {
		forward = append(forward, httpd.Forward{From: strings.ToLower(x.From), To: x.To})
	}
	host, err := httpd.NewHost(httpd.HostOptions{URL: up.URL, CAFile: up.CAFile, Proxy: up.Proxy, Headers: headers, Forward: forward, Credentials: h.credentials(up),
		ConnectTimeout: up.ConnectTimeout, MaxHeader: h.cfg.Limits.Header})
	if err != nil {
		return nil, nil, err
	}
	h.hosts = append(h.hosts, host)
	return host, base, nil
}

func (h *house) httpWires(up *Upstream) (era.Wires, error) {
	host, base, err := h.host(up)
	if err != nil {
		return era.Wires{}, err
	}
	limits := mcphttp.Limits{Body: h.cfg.Limits.ResponseBody, Event: h.cfg.Limits.Event}
	path := base.RequestURI()
	wires := era.Wires{Mirrors: true}
	if up.Transport != "sse" {
		wires.Modern = modern.NewUpstream(host, path, limits).Dial
		wires.Legacy = legacy.NewDialer(host, path, limits).Dial
	}
	if up.Transport != "http" {
		wires.SSE = sse.NewDialer(host, base, limits).Dial
	}
	return wires, nil
}

// faces makes the listener for clients.
func (h *house) faces() (*httpd.Server, error) {
	c := h.cfg
	opts := httpd.Options{MaxBody: c.Limits.RequestBody, MaxHeader: c.Limits.Header, MaxStreams: c.Limits.Streams,
		MaxReading: c.Limits.InFlightBytes, ReadTimeout: c.Limits.ReadTime, KeepAlive: c.Keepalive,
		FaceOptions: httpd.FaceOptions{Refused: mcphttp.Refused(c.Limits.RequestBody, c.Limits.Header), NotFound: mcphttp.NotFound, MethodNotAllowed: mcphttp.MethodNotAllowed},
		Logf: func(format string, args ...any) { h.log.Warn().Msgf(format, args...) }}
	down, err := h.restFace(&opts)
	if err != nil {
		return nil, err
	}
	srv, err := httpd.NewServer(opts)
	if err != nil {
		return nil, err
	}
	manner := mcphttp.Manner{Patience: patience, KeepAlive: c.Keepalive, Cap: c.Limits.RequestTime, Draining: h.draining,
		Resume: mcphttp.Resume{Events: c.Resume.Events, Bytes: c.Resume.Bytes, Total: c.Resume.Total, Retry: c.Resume.Retry, Hold: c.Resume.Hold, Usage: &h.kept}}
	mcphttp.Register(srv, h.routes(manner))
	if down != nil {
		down.Register(srv)
	}
	return srv, h.metadata(srv)
}

// routes are the faces for the eras that are served. What only the other era knows is answered as a server answers that
// has never heard of it: then clients that speak both find the way by themselves.
func (h *house) routes(manner mcphttp.Manner) *mcphttp.Routes {
	newer, older := modern.NewDownstream(h.handle, manner), legacy.NewDownstream(h.handle, h.store, manner)
	newer.Compat = h.cfg.ErrorStatus == "compat"
	served := h.cfg.Served()
	if len(served.Legacy()) == 0 {
		only := modern.Only{Modern: newer}
		return &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: only}, Streams: only, SSE: modern.NoSSE{}}
	}
	r := &mcphttp.Routes{Endpoint: &mcphttp.Endpoint{Modern: newer, Legacy: older}, Streams: older,
		SSE: &sse.Downstream{Handle: h.handle, Store: h.store, Cap: h.cfg.Limits.RequestTime}}
	if len(served.Modern()) == 0 {
		r.Endpoint.Modern = older
	}
	return r
}

// patience is how long an answer may be silent before it becomes an event stream that can be kept alive.
const patience = 5 * time.Second

// operators makes the listener for operators; nil if it is off.
func (h *house) operators() (*httpd.Server, error) {
	if h.cfg.Admin.Listen == "off" {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(h.cfg.Admin.Listen)
	if err != nil {
		return nil, err
	}
	gate := policies.Origin(policies.OriginOptions{Loopback: loopback(host)})
	srv, err := httpd.NewServer(httpd.Options{FaceOptions: httpd.FaceOptions{Gates: gateway(mcphttp.Refuse, gate)}})
	if err != nil {
		return nil, err
	}
	opt := admin.Options{Checks: h.checks}
	if h.cfg.Monitoring.MetricsEnabled {
		opt.Metrics = h.metrics
	}
	admin.Register(srv, opt)
	return srv, nil
}

func (h *house) checks() []admin.Check {
	out := make([]admin.Check, 0, len(h.upstreams))
	for _, u := range h.upstreams {
		d := h.state(u)
		out = append(out, admin.Check{Name: "upstream " + u.Name(), Ready: d.Connected, Why: d.Error + d.Warning, State: d.State})
	}
	return out
}

// probe asks every upstream what it speaks. An error that no later attempt can mend goes to fatal.
func (h *house) probe(ctx context.Context, fatal chan<- error) {
	go h.follow(ctx)
	for _, u := range h.upstreams {
		go func() { // ends with ctx, or with the ladder
			for wait := probeAgain; ; wait = min(2*wait, time.Minute) {
				began := time.Now()
				h.upkeep.of[u.Name()].Trying()
				v, err := u.Verdict(ctx)
				if ctx.Err() == nil {
					h.tried(u.Name(), began, err)
				}
				if err == nil {
					h.service.Health() // it may have become another
					announce(h.log, u.Name(), v, v.Degrades(h.setting(u.Name())))
				}
				if errors.Is(err, era.ErrFatal) {
					select {
					case fatal <- err:
					default:
					}
				}
				if err == nil || ctx.Err() != nil || errors.Is(err, era.ErrFatal) {
					return
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
				}
			}
		}()
	}
}

// setting is what decides, besides its verdict, what clients lose at an upstream.
func (h *house) setting(name string) era.Setting {
	up := h.cfg.Upstream(name)
	return era.Setting{Stdio: inLines(up), Isolation: isolation(up), DeclareAll: up.Declare == "all", DriveTasks: up.Tasks == "drive",
		AsksOnCall: up.PushesOnCall, Clients: h.cfg.Served()}
}

// probeAgain is how long to wait before an upstream that could not be reached is probed again; doubled each time.
const probeAgain = 2 * time.Second

// close ends sessions first, then the conversations with the servers.
func (h *house) close() {
	h.drain()
	if h.depends != nil {
		h.depends.Close()
	}
	h.upkeep.close()
	if h.store != nil {
		h.store.Close()
	}
	if h.repeats != nil {
		h.repeats.Close()
	}
	var ends sync.WaitGroup // at the same time: a server that does not end takes its graces
	for _, u := range h.upstreams {
		ends.Go(func() {
			if err := u.Close(); err != nil {
				h.log.Warn().Err(err).Str("upstream", u.Name()).Msg("closing the upstream")
			}
			if d := h.dialers[u.Name()]; d != nil {
				d.Close()
			}
		})
	}
	ends.Wait()
	h.guardian.Close()
	for _, host := range h.hosts {
		host.Close()
	}
	h.who.close()
}

// exitCause is what a person is told of an error of an upstream.
func exitCause(err error) error {
	var e *proxy.Error
	if errors.As(err, &e) {
		return errors.New(e.Message)
	}
	return err
}
