package app

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/admin"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/service"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/policies/access"
	"dragoman/policies/telemetry"
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
	gate := access.Origin(access.OriginOptions{Loopback: c.Loopback()})
	srv, err := httpserver.NewServer(httpserver.Options{HandlerOptions: httpserver.HandlerOptions{Gates: gateway(mcphttp.Refuse, gate)}})
	if err != nil {
		return nil, err
	}
	now := &g.App.Current
	opt := admin.Options{Service: fmt.Sprintf("%s, dragoman %s", g.Cfg.Service.Name, ReadVersion().Version), Levels: levels{g.App},
		Checks: func() []admin.Check { return now.Load().Checks() },
		Config: func(to io.Writer, asJSON bool) error {
			if asJSON {
				return now.Load().Cfg.PrintJSON(to)
			}
			return now.Load().Cfg.PrintTOML(to)
		},
		Pprof: func() bool { return now.Load().Cfg.Admin.Pprof },
		Closed: func() string {
			if c := &now.Load().Cfg.Admin; c.Loopback() || c.AllowRemote {
				return ""
			}
			return "the admin listener is not loopback: /config, /loglevel and profiles are refused; set " + config.AllowRemoteKey + " = true if only operators reach it"
		}}
	if g.Cfg.Monitoring.MetricsEnabled {
		opt.Metrics = g.Metrics
	}
	admin.Register(srv, opt)
	return srv, nil
}

// Checks returns the readiness of each upstream, and of the service while it shuts down.
func (g *Generation) Checks() []admin.Check {
	out := make([]admin.Check, 0, len(g.Upstreams))
	for _, u := range g.Upstreams {
		d := g.upstreamState(u)
		out = append(out, admin.Check{Name: "upstream " + u.Name(), Ready: d.Connected, Why: d.Error + d.Warning, State: d.State})
	}
	if state := g.Service.Health().State; state == service.ShuttingDown {
		out = append(out, admin.Check{Name: "service", Why: "it is shutting down", State: string(state)})
	}
	return out
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
	var c config.Config
	f := config.LevelField(&c)
	if err := f.Set(value.Literal{Kind: value.QuotedLiteral, Text: level}); err != nil {
		return fmt.Errorf("level: %w; write %s", err, f.Allowed())
	}
	l.of.level.SetFor(LogLevels[c.Log.Level], span)
	line := l.of.Log.Log().Str(zerolog.LevelFieldName, zerolog.LevelWarnValue).Str("to", c.Log.Level) // at any level
	if span > 0 {
		line = line.Stringer("for", span)
	}
	line.Msg("the level of the log was changed by the admin listener")
	return nil
}

// levelName returns a level as the configuration spells it.
func levelName(level zerolog.Level) string {
	for name, l := range LogLevels {
		if l == level {
			return name
		}
	}
	return level.String()
}

// followLogLevel sets the level of the log on activation if log.level has changed.
func (g *Generation) followLogLevel() {
	before := g.App.Current.Load()
	if before == g || before.Cfg.Log.Level == g.Cfg.Log.Level {
		return
	}
	g.onActivation = append(g.onActivation, func() { g.App.level.Set(LogLevels[g.Cfg.Log.Level]) })
}

// buildObservers returns the policies that see every request and its outcome, the outermost first.
func (g *Generation) buildObservers() ([]proxy.Policy, error) {
	g.followLogLevel()
	trail, err := g.buildAudit()
	if err != nil {
		return nil, err
	}
	count := g.meters.Policy
	if g.Cfg.Monitoring.ToolLabel && g.Cfg.Monitoring.MetricsEnabled {
		count = g.meters.ByTool
	}
	return g.withServerSpan(trail, telemetry.AccessLog(g.Log, g.Cfg.Log.Access, g.App.fastLog), count), nil
}

// auditSettings is what the audit log is made from.
type auditSettings struct {
	file  string
	queue int
	block bool
}

// buildAudit returns the policy of the audit trail, or nil if there is none.
func (g *Generation) buildAudit() (proxy.Policy, error) {
	c := &g.Cfg.Audit
	if !c.Enabled {
		return nil, nil //nolint:nilnil // it is off
	}
	from := auditSettings{c.File, c.Queue, c.OnFull == "block"}
	var err error
	g.auditLog, err = keep(g, "audit", from, spec[*telemetry.AuditLog]{build: func(reg prometheus.Registerer) (*telemetry.AuditLog, error) {
		return telemetry.OpenAuditLog(telemetry.AuditLogOptions{File: from.file, Bytes: from.queue, Block: from.block, Failed: func(err error, lost uint64) {
			g.Log.Error().Err(err).Uint64("lost", lost).Msg("the audit trail cannot be written; further failures are counted, and told of once a minute")
		}}, reg)
	}, stage: endsLast, close: (*telemetry.AuditLog).Close, handOver: (*telemetry.AuditLog).HandOver})
	if err != nil {
		return nil, err
	}
	return telemetry.Audit(telemetry.AuditOptions{Log: g.auditLog, Methods: c.Methods, Arguments: telemetry.NewArguments(telemetry.Arguments{
		What: c.Arguments, Redact: c.Redact, Value: c.ValueBytes, Bytes: c.ArgumentBytes})}), nil
}

// reopenFiles reopens files that another program may have rotated.
func (a *App) reopenFiles() {
	if trail := a.Current.Load().auditLog; trail != nil {
		trail.Reopen()
	}
}
