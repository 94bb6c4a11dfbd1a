// Package app makes a running proxy from a configuration: upstreams, policies, listeners and telemetry. It also
// reloads the configuration. It knows no commands.
package app

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/internal/app/component"
	"dragoman/internal/app/target"
	"dragoman/policies/telemetry"
)

// App is what lasts while configurations come and go. Each configuration makes a [Generation].
type App struct {
	Log        zerolog.Logger
	Metrics    *prometheus.Registry
	Current    atomic.Pointer[Generation] // the generation that serves; nil until the first is activated
	components *component.Registry
	level      *telemetry.Level    // of the log
	fastLog    *telemetry.FastLine // its fast path for the access log; nil: it has none

	noteRequest func()                            // called for each request; nil: not called
	clients     atomic.Pointer[httpserver.Server] // server of the main listener; nil: there is none
	certificate atomic.Int64                      // expiry of the main listener's certificate, in Unix seconds; 0: there is none

	Retiring sync.WaitGroup // closing of components that a generation has left behind
}

// newApp returns an App without a generation. lines, if not nil, is where log goes, as JSON.
func newApp(log zerolog.Logger, lines *telemetry.BatchWriter) *App {
	level := telemetry.NewLevel(log.GetLevel())
	metrics := prometheus.NewRegistry()
	a := &App{Log: level.Logger(log), level: level, Metrics: metrics, components: component.NewRegistry(metrics)}
	if lines != nil {
		a.fastLog = &telemetry.FastLine{Out: lines, Level: level}
	}
	return a
}

// target returns the target of a name in the current generation, or nil.
func (a *App) target(name string) *target.Target {
	if g := a.Current.Load(); g != nil {
		return g.targets.Named(name)
	}
	return nil
}

// Close closes the current generation: sessions first, then the connections to the servers.
func (a *App) Close() {
	g := a.Current.Load()
	g.Drain()
	a.level.Close()
	a.Retiring.Wait() // components of earlier generations
	g.components.Close()
}
