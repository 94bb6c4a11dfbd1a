package hook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
)

// Answers in the metric, and how they came about.
const (
	allowed = "allowed"
	denied  = "denied"
	failed  = "failed"

	asked   = "asked"
	cached  = "cached"  // it was kept, or is that of an equal question at the same time
	unasked = "unasked" // a request that no question can describe is denied
)

// Metrics counts what was asked.
type Metrics struct {
	answers *prometheus.CounterVec
	time    prometheus.Histogram
}

// NewMetrics returns the metrics, registered with reg.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	r := policies.NewRegistry(reg)
	m := &Metrics{answers: r.Counter("dragoman_policy_hook_answers_total",
		"Answers of the policy hook: about requests or results, by answer (allowed, denied, failed) and source (asked, cached, or unasked for what could not be asked about).", "phase", "answer", "source"),
		time: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dragoman_policy_hook_seconds",
			Help: "Time that the policy hook took for its answers.", Buckets: prometheus.ExponentialBuckets(0.0005, 3, 10)})}
	r.Add(m.time)
	return m, r.Err()
}

func (m *Metrics) count(phase, answer, source string) {
	m.answers.WithLabelValues(phase, answer, source).Inc()
}

func (m *Metrics) took(d time.Duration) { m.time.Observe(d.Seconds()) }
