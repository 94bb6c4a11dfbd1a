package policies

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Metrics counts exchanges. The label sets are bounded: methods that the protocol does not have count as "other".
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	replies  *prometheus.CounterVec
	series   sync.Map // seriesKey → *series: looking labels up costs more than counting
}

type seriesKey struct{ server, method, era, outcome string }

type series struct {
	count prometheus.Counter
	time  prometheus.Observer
}

func (m *Metrics) seriesOf(k seriesKey) *series {
	if s, ok := m.series.Load(k); ok {
		return s.(*series)
	}
	s, _ := m.series.LoadOrStore(k, &series{m.requests.WithLabelValues(k.server, k.method, k.era, k.outcome),
		m.duration.WithLabelValues(k.server, k.method, k.era)})
	return s.(*series)
}

// Forget drops what was counted for a server that there is no more.
func (m *Metrics) Forget(server string) {
	labels := prometheus.Labels{"server": server}
	m.requests.DeletePartialMatch(labels)
	m.duration.DeletePartialMatch(labels)
	m.replies.DeletePartialMatch(labels)
	m.series.Range(func(k, _ any) bool {
		if k.(seriesKey).server == server {
			m.series.Delete(k)
		}
		return true
	})
}

// NewMetrics registers the metrics of exchanges.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_requests_total",
			Help: "Requests by server, method, the client's era and outcome (ok, tool_error, server_error, or the code of the error table)."},
			[]string{"server", "method", "era", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dragoman_request_duration_seconds",
			Help: "Time from a request to its response.", Buckets: prometheus.ExponentialBuckets(0.0005, 3, 12)},
			[]string{"server", "method", "era"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_requests_in_flight", Help: "Requests without a response yet."}),
		replies: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_notifications_total",
			Help: "Notifications delivered on the answers to requests."}, []string{"server", "era"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.inFlight, m.replies} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// known are the label values for the protocol's own requests.
var known = [...]string{"initialize", "ping", "server/discover", "tools/list", "tools/call", "resources/list",
	"resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get",
	"completion/complete", "logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/list", "tasks/cancel", "tasks/result", "tasks/update"}

func methodLabel(method []byte) string {
	for _, k := range known {
		if string(method) == k {
			return k
		}
	}
	return "other"
}

// Policy counts what passes.
func (m *Metrics) Policy(next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Msg.Kind != wire.Request {
			return next(ex)
		}
		o := &observed{m: m, ex: ex, method: methodLabel(ex.Msg.Text(ex.Msg.Method)), era: ex.Client.Era.String(), began: time.Now()}
		m.inFlight.Inc()
		replies, err := next(ex)
		if err != nil {
			o.end(outcome(err))
			return nil, err
		}
		o.Replies = replies
		return o, nil
	}
}

type observed struct {
	proxy.Replies
	m           *Metrics
	ex          *proxy.Exchange
	method, era string
	began       time.Time
	ended       bool
}

func (o *observed) Next(until time.Time) (wire.Message, error) {
	m, err := o.Replies.Next(until)
	switch {
	case errors.Is(err, proxy.ErrNotYet), errors.Is(err, io.EOF):
	case err != nil:
		o.end(outcome(err))
	case m.Kind == wire.Failure:
		o.end("server_error")
	case m.Kind == wire.Result:
		if o.method == "tools/call" && string(wire.Get(m.Raw, m.Result, "isError").Of(m.Raw)) == "true" {
			o.end("tool_error")
		} else {
			o.end("ok")
		}
	default:
		o.m.replies.WithLabelValues(o.ex.Target, o.era).Inc()
	}
	return m, err
}

func (o *observed) Close() error {
	o.end(outcome(unanswered(o.ex)))
	return o.Replies.Close()
}

func (o *observed) end(outcome string) {
	if o.ended {
		return
	}
	o.ended = true
	o.m.inFlight.Dec()
	s := o.m.seriesOf(seriesKey{o.ex.Target, o.method, o.era, outcome})
	s.count.Inc()
	s.time.Observe(time.Since(o.began).Seconds())
}

func outcome(err error) string { return proxy.AsError(err).Name }
