package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/stdio/process"
	"dragoman/adapters/stdio/supervisor"
	"dragoman/adapters/transport"
	"dragoman/internal/config"
	"dragoman/proxy"
)

// stdioWires returns the transports of a server that is a child process. It keeps the dialer, which knows how the
// server's starts go.
func (g *Generation) stdioWires(up *config.Upstream, w *upstream, log zerolog.Logger) transport.Wires {
	level, perr := zerolog.ParseLevel(up.Stderr)
	if perr != nil { // "off"
		level = zerolog.Disabled
	}
	now := &g.App.Current
	w.dialer = supervisor.NewDialer(supervisor.UpstreamOptions{Name: up.Name, Spares: up.Spares, StartTimeout: up.StartTimeout,
		CrashLimit: up.CrashLimit, CrashPause: up.CrashPause,
		Command: process.Command{Argv: up.Command, Env: append(process.BaseEnv(up.EnvInherit), up.Environ()...), Dir: up.Cwd,
			MaxLine: g.Cfg.Limits.Line, StopGrace: up.StopGrace, KillGrace: up.KillGrace, Reaper: g.reaper},
		Stderr: func(pid int, line []byte, dropped int) {
			if dropped > 0 {
				log.WithLevel(level).Int("pid", pid).Int("lines", dropped).Msg("the server says too much; lines of its standard error were left out")
			}
			if line != nil {
				log.WithLevel(level).Int("pid", pid).Bytes("stderr", line).Msg("the server says")
			}
		},
		Noise: func(pid int, line []byte, err error, skipped int) {
			log.Warn().Int("pid", pid).Bytes("line", line[:min(len(line), 200)]).Int("left_out", skipped).AnErr("cause", err).Msg("a line on the server's output is no message; it is skipped")
		},
		Changed: func(s supervisor.Health) {
			log.Warn().Str("circuit", s.State).Int("failures", s.Failures).Str("last", s.Last).Msg("how the server's starts go has changed")
			if health := now.Load().Monitoring.Monitors[up.Name]; health != nil {
				health.Look()
			}
		},
	})
	return transport.Wires{Stdio: true, Modern: w.dialer.Dial(proxy.Modern), Legacy: w.dialer.Dial(proxy.Legacy)}
}

// available reports whether a server's starts go well, or whether a REST service is healthy, and if not, why. Any other
// server is always available.
func (g *Generation) available(name string) (ok bool, why string) {
	if s := g.Services[name]; s != nil {
		return s.Healthy()
	}
	d := g.Dialers[name]
	if d == nil {
		return true, ""
	}
	s := d.Health()
	if s.State != "open" {
		return true, ""
	}
	return false, fmt.Sprintf("%d starts in a row failed; the last one: the server %s", s.Failures, s.Last)
}

// processGauges returns the metrics of an upstream's child processes.
func processGauges(w *upstream) []prometheus.Collector {
	d, u := w.dialer, w.Upstream
	if d == nil {
		return nil
	}
	return []prometheus.Collector{
		gauge("dragoman_upstream_processes", "Children that run, spares included.", u.Name(), func() int { return d.Stats().Running }),
		gauge("dragoman_upstream_spares", "Children that wait for a first session.", u.Name(), func() int { return d.Stats().Spares }),
		gauge("dragoman_upstream_seats", "Children that count towards max_processes.", u.Name(), u.Processes),
		gauge("dragoman_upstream_circuit_open", "1 while the server keeps crashing and is not started.", u.Name(), func() int {
			if d.Health().State == "open" {
				return 1
			}
			return 0
		}),
		counter("dragoman_upstream_starts_total", "Children started, or tried to.", u.Name(), func() uint64 { return d.Stats().Starts }),
		counter("dragoman_upstream_failed_starts_total", "Starts that failed.", u.Name(), func() uint64 { return d.Stats().FailedStarts }),
		counter("dragoman_upstream_crashes_total", "Children that ended without having been stopped.", u.Name(), func() uint64 { return d.Stats().Crashes }),
		counter("dragoman_upstream_noise_lines_total", "Lines on standard output that were no message.", u.Name(), func() uint64 { return d.Stats().Noise }),
		counter("dragoman_upstream_stderr_dropped_total", "Lines on standard error that were not logged, because there were too many.", u.Name(), func() uint64 { return d.Stats().Dropped }),
	}
}

// counter returns a counter that is read at each scrape.
func counter(name, help, server string, read func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"server": server}},
		func() float64 { return float64(read()) })
}
