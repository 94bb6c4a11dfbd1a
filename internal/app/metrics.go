package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/stdio/lines"
	"dragoman/internal/app/component"
	"dragoman/internal/app/logging"
)

// buildGauges registers the metrics of the process that are read at each scrape.
func (a *App) buildGauges(set *component.Set, s *shared) error {
	_, err := component.Get(set, "gauges", nil, component.Spec[struct{}]{Build: func(reg prometheus.Registerer) (none struct{}, err error) {
		return none, component.Register(reg, a.gauges(s)...)
	}})
	return err
}

func (a *App) gauges(s *shared) []prometheus.Collector {
	v := ReadVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_build_info", Help: "1, with the build as labels.",
		ConstLabels: prometheus.Labels{"version": v.Version, "revision": v.Revision, "go": v.Go}})
	info.Set(1)
	server := func(read func(*httpserver.Server) int) func() int { // of the main listener, once it is open
		return func() int {
			if srv := a.clients.Load(); srv != nil {
				return read(srv)
			}
			return 0
		}
	}
	sessions := func(tell func(float64, ...string)) {
		for _, t := range [...]string{"streamable-http", "sse", "stdio"} {
			tell(float64(s.sessions.Over(t)), t)
		}
	}
	return []prometheus.Collector{info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		component.Gauge("dragoman_streams_resumable", "Event streams of legacy clients that could be picked up again.", "", func() int { return int(a.streams.Streams.Load()) }),
		component.Gauge("dragoman_stream_events_bytes", "Bytes kept for picking up event streams again.", "", func() int { return int(a.streams.Bytes.Load()) }),
		component.Gauge("dragoman_large_lines", "Large messages of servers and for them that are held in memory of their own.", "", lines.LargeLines),
		component.Gauge("dragoman_calls_parked", "Calls at legacy servers and gRPC providers that wait for a modern client's answers.", "", func() int { return s.pending.Suspended() + s.asking.Waiting() }),
		component.Gauge("dragoman_connections", "Connections of clients to the main listener.", "", server((*httpserver.Server).Conns)),
		component.Gauge("dragoman_streams", "Event streams that are open to clients.", "", server((*httpserver.Server).Streams)),
		component.Gauge("dragoman_answer_bytes", "Bytes of large answers that are being written, and of what slow readers leave.", "",
			server(func(s *httpserver.Server) int { return s.AnswerStats().Bytes })),
		&answersLost{a},
		component.NewMultiGauge("dragoman_sessions", "Sessions that legacy clients have open, by transport (streamable-http, sse, stdio).", sessions, "transport"),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "dragoman_log_lines_dropped_total",
			Help: "Lines of the log that were dropped, because they were not read in time or could not be written."}, func() float64 { return float64(a.logDropped()) }),
		component.NewMultiGauge("dragoman_log_level", "1 for the level from which on lines are logged.", a.levelNow, "level"),
		component.NewMultiGauge("dragoman_limit", "Bounds that are configured, by key; those that are off have none.", a.limitsNow, "limit"),
		component.NewMultiGauge("dragoman_upstream_limit", "Bounds that are configured for a server, by key.", a.upstreamLimitsNow, "server", "limit"),
		component.NewMultiGauge("dragoman_tls_certificate_expiry_timestamp_seconds", "When the certificate ends that the main listener shows.", a.certificateEnds)}
}

// answersLost is the counter of answers that clients did not get for a limit on slow readers.
type answersLost struct{ app *App }

var answersLostDesc = prometheus.NewDesc("dragoman_answers_lost_total",
	"Answers that clients did not get: refused for lack of room (limits.answer_bytes, or of one principal), broken off to make room, or read more slowly than limits.answer_rate.",
	[]string{"reason"}, nil)

// Describe implements prometheus.Collector.
func (*answersLost) Describe(to chan<- *prometheus.Desc) { to <- answersLostDesc }

// Collect implements prometheus.Collector.
func (l *answersLost) Collect(to chan<- prometheus.Metric) {
	var s httpserver.AnswerStats
	if srv := l.app.clients.Load(); srv != nil {
		s = srv.AnswerStats()
	}
	for reason, n := range map[string]uint64{"refused": s.Refused, "gave_way": s.GaveWay, "slow": s.Slow} {
		to <- prometheus.MustNewConstMetric(answersLostDesc, prometheus.CounterValue, float64(n), reason)
	}
}

func (a *App) levelNow(tell func(float64, ...string)) {
	now, _, _ := a.level.Now()
	for name, level := range logging.Levels {
		tell(float64(component.Bool(level == now)), name)
	}
}

// limitsNow reports the configured bounds whose use has a metric too.
func (a *App) limitsNow(tell func(float64, ...string)) {
	c := a.Current.Load().Cfg
	conns := c.Limits.Connections
	if srv := a.clients.Load(); srv != nil {
		conns = srv.MaxConns()
	}
	for _, l := range []struct {
		key string
		n   int
	}{
		{"limits.connections", conns}, {"limits.streams", c.Limits.Streams}, {"limits.listens", c.Limits.Listens},
		{"limits.in_flight", c.Limits.InFlight}, {"limits.queue", c.Limits.Queue}, {"limits.answer_bytes", c.Limits.AnswerBytes},
		{"sessions.max", c.Sessions.Max}, {"questions.max_parked", c.Questions.MaxParked}, {"resume.total", c.Resume.Total},
		{"idempotency.max", c.Idempotency.Max}, {"idempotency.bytes", c.Idempotency.Bytes}, {"cache.bytes", c.Cache.Bytes},
	} {
		if l.n > 0 {
			tell(float64(l.n), l.key)
		}
	}
	if c.Audit.Enabled {
		tell(float64(c.Audit.Queue), "audit.queue")
	}
}

func (a *App) upstreamLimitsNow(tell func(float64, ...string)) {
	g := a.Current.Load()
	for _, t := range g.Targets.All {
		up := g.Cfg.Upstream(t.Name())
		if up == nil {
			continue
		}
		tell(float64(up.MaxSessions), up.Name, "max_sessions")
		if len(up.Command) > 0 {
			tell(float64(up.MaxProcesses), up.Name, "max_processes")
		}
	}
}

// Certified records when the certificate of the main listener expires.
func (a *App) Certified(ends time.Time) { a.certificate.Store(ends.Unix()) }

func (a *App) certificateEnds(tell func(float64, ...string)) {
	if ends := a.certificate.Load(); ends != 0 {
		tell(float64(ends))
	}
}
