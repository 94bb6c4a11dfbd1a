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

// Operators makes the listener for operators; nil if it is off. What it shows is the house that is lived in.
func (h *House) Operators() (*httpserver.Server, error) {
	c := &h.Cfg.Admin
	if c.Listen == field.Off {
		return nil, nil //nolint:nilnil // it is off
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return nil, err
	}
	if !c.Loopback() {
		line := h.Log.Warn().Str("admin", c.Listen)
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
	now := &h.Estate.Now
	opt := admin.Options{Service: fmt.Sprintf("%s, dragoman %s", h.Cfg.Service.Name, ReadVersion().Version), Levels: levels{h.Estate},
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
	if h.Cfg.Monitoring.MetricsEnabled {
		opt.Metrics = h.Metrics
	}
	admin.Register(srv, opt)
	return srv, nil
}

func (h *House) Checks() []admin.Check {
	out := make([]admin.Check, 0, len(h.Upstreams))
	for _, u := range h.Upstreams {
		d := h.state(u)
		out = append(out, admin.Check{Name: "upstream " + u.Name(), Ready: d.Connected, Why: d.Error + d.Warning, State: d.State})
	}
	if state := h.Service.Health().State; state == service.ShuttingDown {
		out = append(out, admin.Check{Name: "service", Why: "it is shutting down", State: string(state)})
	}
	return out
}

// levels is the level of the log, for the admin listener.
type levels struct{ of *Estate }

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
	line := l.of.Log.Log().Str(zerolog.LevelFieldName, zerolog.LevelWarnValue).Str("to", c.Log.Level) // whatever the level is now
	if span > 0 {
		line = line.Stringer("for", span)
	}
	line.Msg("the level of the log was changed by the admin listener")
	return nil
}

// levelName is a level as the configuration spells it.
func levelName(level zerolog.Level) string {
	for name, l := range LogLevels {
		if l == level {
			return name
		}
	}
	return level.String()
}

// levelled has the level of the log follow log.level, if that is another now.
func (h *House) levelled() {
	before := h.Estate.Now.Load()
	if before == h || before.Cfg.Log.Level == h.Cfg.Log.Level {
		return
	}
	h.settled = append(h.settled, func() { h.Estate.level.Set(LogLevels[h.Cfg.Log.Level]) })
}

// watchers are the policies that see every request and what becomes of it, the first the outermost.
func (h *House) watchers() ([]proxy.Policy, error) {
	h.levelled()
	trail, err := h.audit()
	if err != nil {
		return nil, err
	}
	count := h.meters.Policy
	if h.Cfg.Monitoring.ToolLabel && h.Cfg.Monitoring.MetricsEnabled {
		count = h.meters.ByTool
	}
	return h.traced(trail, telemetry.AccessLog(h.Log, h.Cfg.Log.Access, h.Estate.direct), count), nil
}

// trailed is what the file of an audit trail is made from.
type trailed struct {
	file  string
	queue int
	block bool
}

// audit makes the policy of the audit trail; nil if there is none.
func (h *House) audit() (proxy.Policy, error) {
	c := &h.Cfg.Audit
	if !c.Enabled {
		return nil, nil //nolint:nilnil // it is off
	}
	from := trailed{c.File, c.Queue, c.OnFull == "block"}
	var err error
	h.trail, err = keep(h, "audit", from, made[*telemetry.AuditLog]{build: func(reg prometheus.Registerer) (*telemetry.AuditLog, error) {
		return telemetry.OpenAuditLog(telemetry.AuditLogOptions{File: from.file, Bytes: from.queue, Block: from.block, Failed: func(err error, lost uint64) {
			h.Log.Error().Err(err).Uint64("lost", lost).Msg("the audit trail cannot be written; further failures are counted, and told of once a minute")
		}}, reg)
	}, stage: endsLast, end: (*telemetry.AuditLog).Close, bequeath: (*telemetry.AuditLog).HandOver})
	if err != nil {
		return nil, err
	}
	return telemetry.Audit(telemetry.AuditOptions{Log: h.trail, Methods: c.Methods, Arguments: telemetry.NewArguments(telemetry.Arguments{
		What: c.Arguments, Redact: c.Redact, Value: c.ValueBytes, Bytes: c.ArgumentBytes})}), nil
}

// turn opens files anew that another program may have put away.
func (e *Estate) turn() {
	if trail := e.Now.Load().trail; trail != nil {
		trail.Reopen()
	}
}
