package target

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/stdio/process"
	"dragoman/adapters/stdio/supervisor"
	"dragoman/adapters/transport"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/proxy"
)

// childDialer returns the dialer of a server that is a child process. The dialer also knows how the server's starts go.
func (b *Builder) childDialer(up *config.Upstream, log zerolog.Logger) *supervisor.Dialer {
	level, perr := zerolog.ParseLevel(up.Stderr)
	if perr != nil { // "off"
		level = zerolog.Disabled
	}
	return supervisor.NewDialer(supervisor.Options{Name: up.Name, Spares: up.Spares, StartTimeout: up.StartTimeout,
		CrashLimit: up.CrashLimit, CrashPause: up.CrashPause,
		Command: process.Command{Argv: up.Command, Env: append(process.BaseEnv(up.EnvInherit), up.Environ()...), Dir: up.Cwd,
			MaxLine: b.Config.Limits.Line, StopGrace: up.StopGrace, KillGrace: up.KillGrace, Reaper: b.Reaper},
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
			if t := b.Current(up.Name); t != nil {
				t.Monitor.Look()
			}
		},
	})
}

// childWires returns the transports of a server that is a child process.
func childWires(d *supervisor.Dialer) transport.Wires {
	return transport.Wires{Stdio: true, Modern: d.Dial(proxy.Modern), Legacy: d.Dial(proxy.Legacy)}
}

// processMetrics returns the metrics of an upstream's child processes.
func processMetrics(u *Upstream) []prometheus.Collector {
	d := u.Dialer
	if d == nil {
		return nil
	}
	return []prometheus.Collector{
		component.Gauge("dragoman_upstream_processes", "Children that run, spares included.", u.Name(), func() int { return d.Stats().Running }),
		component.Gauge("dragoman_upstream_spares", "Children that wait for a first session.", u.Name(), func() int { return d.Stats().Spares }),
		component.Gauge("dragoman_upstream_seats", "Children that count towards max_processes.", u.Name(), u.Processes),
		component.Gauge("dragoman_upstream_circuit_open", "1 while the server keeps crashing and is not started.", u.Name(), func() int {
			if d.Health().State == "open" {
				return 1
			}
			return 0
		}),
		component.Counter("dragoman_upstream_starts_total", "Children started, or tried to.", u.Name(), func() uint64 { return d.Stats().Starts }),
		component.Counter("dragoman_upstream_failed_starts_total", "Starts that failed.", u.Name(), func() uint64 { return d.Stats().FailedStarts }),
		component.Counter("dragoman_upstream_crashes_total", "Children that ended without having been stopped.", u.Name(), func() uint64 { return d.Stats().Crashes }),
		component.Counter("dragoman_upstream_noise_lines_total", "Lines on standard output that were no message.", u.Name(), func() uint64 { return d.Stats().Noise }),
		component.Counter("dragoman_upstream_stderr_dropped_total", "Lines on standard error that were not logged, because there were too many.", u.Name(), func() uint64 { return d.Stats().Dropped }),
	}
}
