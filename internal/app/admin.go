package app

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/rs/zerolog"

	"dragoman/adapters/admin"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/service"
	"dragoman/internal/app/logging"
	"dragoman/internal/app/registry"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/policies/access"
	"dragoman/proxy"
)

// AdminServer makes the server of the admin listener, or nil if it is off. It shows the current generation.
func (g *Generation) AdminServer() (*httpserver.Server, error) {
	c := &g.Cfg.Admin
	if c.Listen == field.Off {
		return nil, nil //nolint:nilnil // it is off
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return nil, err
	}
	if !c.Loopback() {
		line := g.Log.Warn().Str("admin", c.Listen)
		if c.AllowRemote {
			line.Msg("everybody who reaches the admin listener sees the configuration without its secrets, may change the level of the log and, with " + config.PprofKey + ", look into the process: " + config.AllowRemoteKey + " is on")
		} else {
			line.Msg("everybody who reaches the admin listener sees health and metrics; /config, /loglevel and profiles are refused there without " + config.AllowRemoteKey)
		}
	}
	now := &g.App.Current
	gate := access.Origin(access.OriginOptions{Loopback: c.Loopback()})
	srv, err := httpserver.NewServer(httpserver.Options{HandlerOptions: httpserver.HandlerOptions{Gates: gateway(registry.RefuseHead, gate, registry.Gate(func() proxy.Gate { return now.Load().identity.operators })), Answered: g.recordRefusal,
		Refused: admin.Refused, NotFound: admin.NotFound, MethodNotAllowed: admin.MethodNotAllowed}})
	if err != nil {
		return nil, err
	}
	opt := admin.Options{Service: fmt.Sprintf("%s, dragoman %s", g.Cfg.Service.Name, ReadVersion().Version), Levels: levels{g.App},
		Ready: func() admin.Readiness { return now.Load().Readiness() },
		Config: func(to io.Writer, asJSON bool) error {
			if asJSON {
				return now.Load().Cfg.PrintJSON(to)
			}
			return now.Load().Cfg.PrintTOML(to)
		},
		Pprof: func() bool { return now.Load().Cfg.Admin.Pprof },
		Closed: func() *proxy.Error {
			if c := &now.Load().Cfg.Admin; c.Loopback() || c.AllowRemote {
				return nil
			}
			return proxy.Errf(proxy.ForbiddenOrigin, "the admin listener is not loopback: /config, /loglevel and profiles are refused; set %s = true if only operators reach it", config.AllowRemoteKey)
		}}
	if g.Cfg.Monitoring.MetricsEnabled {
		opt.Metrics = g.Metrics
	}
	admin.Register(srv, opt)
	g.registry.Register(srv)
	return srv, nil
}

// Readiness says whether clients should be sent to this process, with the state of each upstream. Several upstreams fail
// apart from each other, and every replica loses the same one at the same time: one that is down takes no replica out of
// service unless admin.ready is all.
func (g *Generation) Readiness() admin.Readiness {
	r := admin.Readiness{Checks: make([]admin.Check, 0, len(g.Targets.All)+1)}
	serving := 0
	for _, t := range g.Targets.All {
		d := t.State()
		if d.Connected {
			serving++
		}
		r.Checks = append(r.Checks, admin.Check{Name: "upstream " + d.Name, Ready: d.Connected, Why: cmp.Or(d.Detail, d.Error+d.Warning), State: d.State})
	}
	r.Ready = serving == len(g.Targets.All) || serving > 0 && g.Cfg.Admin.Ready == config.ReadyAny
	if state := g.service.Health().State; state == service.ShuttingDown {
		r.Ready = false
		r.Checks = append(r.Checks, admin.Check{Name: "service", Why: "it is shutting down", State: string(state)})
	}
	return r
}

// levels gives the admin listener access to the level of the log.
type levels struct{ of *App }

// Level implements admin.Levels.
func (l levels) Level() (state admin.LevelState) {
	now, fixed, until := l.of.level.Now()
	state.Level, state.Configured = levelName(now), levelName(fixed)
	if !until.IsZero() {
		until = until.UTC().Truncate(time.Second)
		state.Until = &until
	}
	return state
}

// SetLevel implements admin.Levels. Levels are spelled as in the configuration.
func (l levels) SetLevel(level string, span time.Duration) error {
	level, err := config.ParseLevel(level)
	if err != nil {
		return err
	}
	l.of.level.SetFor(logging.Levels[level], span)
	line := l.of.Log.Log().Str(zerolog.LevelFieldName, zerolog.LevelWarnValue).Str("to", level) // at any level
	if span > 0 {
		line = line.Stringer("for", span)
	}
	line.Msg("the level of the log was changed by the admin listener")
	return nil
}

// levelName returns a level as the configuration spells it.
func levelName(level zerolog.Level) string {
	for name, l := range logging.Levels {
		if l == level {
			return name
		}
	}
	return level.String()
}
