package app

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of a reload.
const (
	ReloadApplied   = "applied"
	ReloadUnchanged = "unchanged"
	ReloadRefused   = "refused" // invalid or unreadable; the previous configuration stays
)

// reloadMetrics holds the metrics of reloads.
type reloadMetrics struct {
	total *prometheus.CounterVec
	last  prometheus.Gauge // when the current configuration was read
	good  prometheus.Gauge
	held  prometheus.Gauge
}

func newReloadMetrics(reg prometheus.Registerer) (*reloadMetrics, error) {
	r := &reloadMetrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dragoman_config_reloads_total",
			Help: "Times that the configuration was read again, by outcome (applied, unchanged, refused)."}, []string{"outcome"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_config_last_load_timestamp_seconds", Help: "When the configuration that holds was read."}),
		good: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_config_last_reload_successful", Help: "0 if the configuration, when it was read last, was refused."}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dragoman_config_restart_needed", Help: "Keys of the configuration that have changed and will count after a restart."}),
	}
	for _, outcome := range []string{ReloadApplied, ReloadUnchanged, ReloadRefused} {
		r.total.WithLabelValues(outcome)
	}
	r.last.SetToCurrentTime()
	r.good.Set(1)
	return r, errors.Join(reg.Register(r.total), reg.Register(r.last), reg.Register(r.good), reg.Register(r.held))
}
