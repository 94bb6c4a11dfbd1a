// Package telemetry makes requests observable: metrics, the log, traces, and the audit trail.
package telemetry

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Metrics counts exchanges. Its label sets are bounded: servers are those that are configured; methods that the
// protocol does not have, and tools that are not known, count as "other".
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	listens  prometheus.Gauge
	replies  *prometheus.CounterVec
	tools    *tools

	mu     sync.Mutex
	series atomic.Pointer[map[seriesKey]*series] // saves the look-up by labels, which costs more than counting; replaced as a whole
	recent [8]atomic.Pointer[series]             // the series counted last
}

type seriesKey struct {
	server, method, outcome string
	era                     proxy.Era
	spoken                  proxy.UpstreamEra
}

type series struct {
	key   seriesKey
	count prometheus.Counter
	time  prometheus.Observer
}

func (m *Metrics) seriesOf(k seriesKey) *series {
	place := &m.recent[(len(k.server)+len(k.method))%len(m.recent)]
	if s := place.Load(); s != nil && s.key == k {
		return s
	}
	if s := (*m.series.Load())[k]; s != nil {
		place.Store(s)
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := *m.series.Load()
	if s := now[k]; s != nil {
		return s
	}
	s := &series{k, m.requests.WithLabelValues(k.server, k.method, k.era.String(), k.spoken.String(), k.outcome),
		m.duration.WithLabelValues(k.server, k.method, k.era.String(), k.spoken.String())}
	next := maps.Clone(now)
	next[k] = s
	m.series.Store(&next)
	return s
}

// Forget drops the series of a server that has been removed.
func (m *Metrics) Forget(server string) {
	m.mu.Lock()
	next := maps.Clone(*m.series.Load())
	maps.DeleteFunc(next, func(k seriesKey, _ *series) bool { return k.server == server })
	m.series.Store(&next)
	for i := range m.recent {
		m.recent[i].Store(nil)
	}
	m.mu.Unlock()
	labels := prometheus.Labels{"server": server}
	m.requests.DeletePartialMatch(labels)
	m.duration.DeletePartialMatch(labels)
	m.replies.DeletePartialMatch(labels)
	m.tools.forget(server)
}

// NewMetrics returns the metrics of exchanges, registered with reg.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	r := policies.NewRegistry(reg)
	m := &Metrics{
		requests: r.Counter("dragoman_requests_total",
			"Requests by server, method, the client's era, the era spoken to the server (none: it was not called) and outcome (ok, tool_error, server_error, or the code of the error table).",
			"server", "method", "era", "upstream_era", "outcome"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dragoman_request_duration_seconds",
			Help: "Time from a request to its response.", Buckets: prometheus.ExponentialBuckets(0.0005, 3, 12)},
			[]string{"server", "method", "era", "upstream_era"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_requests_in_flight", Help: "Requests whose response is not complete."}),
		listens:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_listens_open", Help: "Open listens of modern clients, at all servers."}),
		replies:  r.Counter("dragoman_notifications_total", "Notifications delivered on the answers to requests.", "server", "era"),
		tools:    newTools(r),
	}
	m.series.Store(&map[seriesKey]*series{})
	r.Add(m.duration, m.inFlight, m.listens)
	return m, r.Err()
}

const toolsCall = "tools/call"

func methodLabel(method []byte) string {
	if name, ok := proxy.KnownMethod(method); ok {
		return name
	}
	return otherLabel
}

// otherLabel stands for everything without a label of its own.
const otherLabel = "other"

// Policy counts requests and their notifications.
func (m *Metrics) Policy(next proxy.Handler) proxy.Handler { return m.policy(next, false) }

// ByTool is [Metrics.Policy] that also counts calls by tool.
func (m *Metrics) ByTool(next proxy.Handler) proxy.Handler { return m.policy(next, true) }

func (m *Metrics) policy(next proxy.Handler, byTool bool) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Msg.Kind != wire.Request {
			return next(ex)
		}
		o := proxy.Lend[observed](ex, observedSlot)
		*o = observed{m: m, ex: ex, method: methodLabel(ex.Msg.Text(ex.Msg.Method)), began: ex.Clock.Now(), byTool: byTool}
		if byTool && o.method == toolsCall {
			o.tool = ex.Msg.Text(ex.Msg.Name) // now, because a later policy may rename the tool in the message
		}
		m.inFlight.Inc()
		if o.method == "subscriptions/listen" {
			m.listens.Inc()
		}
		replies, err := next(ex)
		if err != nil {
			o.end(outcome(err))
			return nil, err
		}
		o.Replies = replies
		return o, nil
	}
}

var observedSlot = proxy.NewSlot()

type observed struct {
	proxy.Replies
	m      *Metrics
	ex     *proxy.Exchange
	method string
	tool   []byte // borrowed from the message
	began  time.Time
	byTool bool
	ended  bool
}

// Clear implements proxy.Clearer.
func (o *observed) Clear() { *o = observed{} }

func (o *observed) Next(until time.Time) (m *wire.Message, err error) {
	m, err = o.Replies.Next(until)
	switch {
	case policies.Pending(err):
	case err != nil:
		o.end(outcome(err))
	case m.Kind == wire.Failure:
		o.end("server_error")
	case m.Kind == wire.Result:
		if o.method == toolsCall && m.ToolFailed() {
			o.end("tool_error")
			break
		}
		o.end("ok")
		if o.byTool && o.method == "tools/list" && o.ex.Target != "" && !strings.Contains(o.ex.Target, "/") { // not of several servers

			o.m.tools.learn(o.ex.Target, m, !o.ex.Msg.Cursor.Present())
		}
	default:
		o.m.replies.WithLabelValues(o.ex.Target, o.ex.Client.Era.String()).Inc()
	}
	return m, err
}

func (o *observed) Close() error {
	if !o.ended {
		o.end(outcome(policies.Unanswered(o.ex)))
	}
	return o.Replies.Close()
}

func (o *observed) end(outcome string) {
	if o.ended {
		return
	}
	o.ended = true
	o.m.inFlight.Dec()
	if o.method == "subscriptions/listen" {
		o.m.listens.Dec()
	}
	seconds := o.ex.Clock.Since(o.began).Seconds()
	s := o.m.seriesOf(seriesKey{o.ex.Target, o.method, outcome, o.ex.Client.Era, o.ex.UpstreamEra})
	s.count.Inc()
	s.time.Observe(seconds)
	if o.byTool && o.method == toolsCall {
		name := o.tool
		if o.ex.Tool != "" {
			name = []byte(o.ex.Tool)
		}
		o.m.tools.count(o.ex.Target, name, outcome, seconds)
	}
}

func outcome(err error) string { return proxy.AsError(err).Name }
