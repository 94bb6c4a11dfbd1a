package app

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"dragoman/adapters/stdio/lines"
)

// buildGauges registers the metrics that are read at each scrape.
func (g *Generation) buildGauges(reg prometheus.Registerer) (none struct{}, err error) {
	v := ReadVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_build_info", Help: "1, with the build as labels.",
		ConstLabels: prometheus.Labels{"version": v.Version, "revision": v.Revision, "go": v.Go}})
	info.Set(1)
	e := g.App
	for _, c := range []prometheus.Collector{info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("dragoman_streams_resumable", "Event streams of legacy clients that could be picked up again.", "", func() int { return int(g.streamUsage.Streams.Load()) }),
		gauge("dragoman_stream_events_bytes", "Bytes kept for picking up event streams again.", "", func() int { return int(g.streamUsage.Bytes.Load()) }),
		gauge("dragoman_large_lines", "Large messages of servers and for them that are held in memory of their own.", "", lines.LargeLines),
		gauge("dragoman_calls_parked", "Calls at legacy servers that wait for a modern client's answers.", "", g.Pending.Suspended),
		gauge("dragoman_connections", "Connections of clients to the main listener.", "", func() int {
			if srv := e.clients.Load(); srv != nil {
				return srv.Conns()
			}
			return 0
		}),
		gauge("dragoman_streams", "Event streams that are open to clients.", "", func() int {
			if srv := e.clients.Load(); srv != nil {
				return srv.Streams()
			}
			return 0
		}),
		newMultiGauge("dragoman_sessions", "Sessions that legacy clients have open, by transport (streamable-http, sse, stdio).", g.sessionsBy, "transport"),
		newMultiGauge("dragoman_log_level", "1 for the level from which on lines are logged.", e.levelNow, "level"),
		newMultiGauge("dragoman_limit", "Bounds that are configured, by key; those that are off have none.", e.limitsNow, "limit"),
		newMultiGauge("dragoman_upstream_limit", "Bounds that are configured for a server, by key.", e.upstreamLimitsNow, "server", "limit"),
		newMultiGauge("dragoman_tls_certificate_expiry_timestamp_seconds", "When the certificate ends that the main listener shows.", e.certificateEnds)} {
		err = errors.Join(err, reg.Register(c))
	}
	return none, err
}

// gauge returns a gauge that is read at each scrape. It has the label server unless that is empty.
func gauge(name, help, server string, read func() int) prometheus.Collector {
	labels := prometheus.Labels{"server": server}
	if server == "" {
		labels = nil
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(read()) })
}

// multiGauge is a gauge of several series that are read together at each scrape.
type multiGauge struct {
	desc *prometheus.Desc
	read func(tell func(value float64, labels ...string))
}

func newMultiGauge(name, help string, read func(tell func(value float64, labels ...string)), labels ...string) multiGauge {
	return multiGauge{prometheus.NewDesc(name, help, labels, nil), read}
}

// Describe implements prometheus.Collector.
func (r multiGauge) Describe(to chan<- *prometheus.Desc) { to <- r.desc }

// Collect implements prometheus.Collector.
func (r multiGauge) Collect(to chan<- prometheus.Metric) {
	r.read(func(value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(r.desc, prometheus.GaugeValue, value, labels...)
	})
}

// transports lists the transports of sessions.
var transports = [...]string{"streamable-http", "sse", "stdio"}

func (g *Generation) sessionsBy(tell func(float64, ...string)) {
	for _, t := range transports {
		tell(float64(g.Store.Over(t)), t)
	}
}

func (a *App) levelNow(tell func(float64, ...string)) {
	now, _, _ := a.level.Now()
	for name, level := range LogLevels {
		value := 0.0
		if level == now {
			value = 1
		}
		tell(value, name)
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
		{"limits.in_flight", c.Limits.InFlight}, {"limits.queue", c.Limits.Queue},
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
	h := a.Current.Load()
	for _, u := range h.Upstreams {
		up := h.Cfg.Upstream(u.Name())
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
