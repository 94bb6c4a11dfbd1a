package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/rs/zerolog"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/era"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/merge/deceptive"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/transport"
	"dragoman/internal/app/logging"
	"dragoman/internal/app/target"
	"dragoman/internal/config"
	"dragoman/proxy/wire"
)

// report is the result of a probe.
type report struct {
	Target       string          `json:"target"`
	Eras         string          `json:"eras"`
	Modern       bool            `json:"modern"`
	Legacy       bool            `json:"legacy"`
	SSE          bool            `json:"sse,omitempty"`
	Version      string          `json:"version"`
	ServerInfo   json.RawMessage `json:"serverInfo,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Offers       []offer         `json:"offers,omitempty"` // by its capabilities
	// Degrades lists what clients lose, compared with a server of their own era.
	Degrades []era.Degradation `json:"degrades"`
	Steps    []string          `json:"steps,omitempty"`
}

// RunProbe probes the one server of the configuration and prints the result to std.Out.
// It gives up after limit. Meanwhile it prints to std.Err which step it takes: a line that changes on a terminal, a line for each
// step elsewhere.
func RunProbe(ctx context.Context, cfg *config.Config, std Streams, asJSON bool, limit time.Duration) error {
	log, err := logging.New(cfg.Log.Level, cfg.Log.Format, std.Err)
	if err != nil {
		return err
	}
	up, err := cfg.Only()
	if err != nil {
		return err
	}
	quiet := *cfg
	quiet.Attended = true
	follows := *up // what it lists now is what is asked for
	follows.Definitions, up = config.Follow, &follows
	quiet.Audit.Enabled = false              // there are no calls to audit, and the file may be another user's
	if log.GetLevel() == zerolog.InfoLevel { // the default; what the probe finds out is printed, or is its error
		log = log.Level(zerolog.ErrorLevel)
	}
	g, err := Assemble(&quiet, []*config.Upstream{up}, log)
	if err != nil {
		return err
	}
	defer g.Close()
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	shown := newProgress(std.Err, up.Place(), limit)
	g.Targets.All[0].WatchProbe(shown.begin)
	v, err := g.Targets.All[0].Both(within)
	defer shown.end()
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: nothing conclusive within %s%s; is the server stuck? Give it more time with --timeout", up.Place(), limit, shown.end())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", up.Place(), userError(err))
	}
	r := report{Target: up.Target(), Eras: v.Eras(), Modern: v.Modern, Legacy: v.Legacy, SSE: v.SSE, Version: v.Version, Steps: v.Steps,
		Degrades: era.Degrades(v, target.ProfileSettings(cfg, up.Name))}
	if up.Transport == config.RestName {
		r.Eras = restSpeaks
	}
	r.ServerInfo, r.Capabilities = v.Identity()
	hide := hider(g.Targets.All[0].Hide)
	r.Offers = offers(within, g.asker(), r.Capabilities, shown.begin, hide, nil)
	shown.end()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.hide(hide)
	if asJSON {
		out, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.Out, "%s\n", wire.AppendVisible(nil, out))
		return err
	}
	return r.print(std)
}

// hider returns the function that hides secrets of the configuration in what the server says.
func hider(secrets transport.Hide) func(text string) string {
	if secrets == nil {
		return func(text string) string { return text }
	}
	return func(text string) string { return secrets(context.Background(), text) }
}

// hide hides secrets in what the server says.
func (r *report) hide(hide func(text string) string) {
	r.Version, r.ServerInfo, r.Capabilities = hide(r.Version), transport.HideJSON(r.ServerInfo, hide), transport.HideJSON(r.Capabilities, hide)
	r.Steps = slices.Clone(r.Steps)
	for i, s := range r.Steps {
		r.Steps[i] = hide(s)
	}
}

func (r *report) print(std Streams) error {
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-14s %s\n", key, value)
		}
	}
	line("server", r.Target)
	line("speaks", r.Eras)
	line("revision", wire.Shown(r.Version))
	line("identity", string(wire.AppendVisible(nil, r.ServerInfo))) // a terminal may read it
	line("capabilities", string(wire.AppendVisible(nil, r.Capabilities)))
	lines := func(key string, n int, text func(i int) string) {
		for i := range n {
			fmt.Fprintf(&b, "%-14s %s\n", key, text(i))
			key = ""
		}
	}
	lines("offers", len(r.Offers), func(i int) string { return r.Offers[i].text() })
	degrades(&b, r.Degrades)
	lines("on the way", len(r.Steps), func(i int) string { return wire.ShownText(r.Steps[i]) })
	_, err := fmt.Fprint(std.Out, b.String())
	return err
}

// degrades writes the table of what clients lose, in aligned columns.
func degrades(b *strings.Builder, rows []era.Degradation) {
	if len(rows) == 0 {
		fmt.Fprintf(b, "%-14s %s\n", "degrades", "nothing: clients of both eras are spoken to in their own")
		return
	}
	var clients, feature int
	for _, d := range rows {
		clients, feature = max(clients, len(d.Clients)), max(feature, len(d.Feature))
	}
	for i, d := range rows {
		key := ""
		if i == 0 {
			key = "degrades"
		}
		fmt.Fprintf(b, "%-14s %-*s  %-*s  %s\n", key, clients, d.Clients, feature, d.Feature, d.What)
	}
}

// announce logs what clients lose at an upstream: a summary at info, and the table at debug.
func announce(log zerolog.Logger, upstream string, v *probe.Profile, rows []era.Degradation) {
	log = log.With().Str("upstream", upstream).Logger()
	lost := map[string][]string{}
	for _, d := range rows {
		who, _, _ := strings.Cut(d.Clients, " ")
		if !slices.Contains(lost[who], d.Feature) {
			lost[who] = append(lost[who], d.Feature)
		}
		log.Debug().Str("clients", d.Clients).Str("feature", d.Feature).Msg("degrades: " + d.What)
	}
	var parts []string
	for _, who := range []string{"modern", "legacy", "all"} {
		if len(lost[who]) > 0 {
			parts = append(parts, who+" clients: "+strings.Join(lost[who], ", "))
		}
	}
	if len(parts) == 0 {
		log.Info().Msg("no client loses anything by translation")
		return
	}
	text := "clients lose by translation (dragoman probe has the table): " + strings.Join(parts, "; ")
	if !v.Checked() {
		text += "; for legacy clients only if the server has no legacy side, which their first request shows"
	}
	log.Info().Msg(text)
}

// probeAgain is the first pause before an upstream that could not be reached is probed again. It is doubled each time,
// up to a minute.
const probeAgain = 2 * time.Second

// Probe starts to probe the upstreams that are new in g, and repeats that until they answer or ctx ends. An error that
// no later attempt can mend goes to fatal.
func (g *Generation) Probe(ctx context.Context, fatal chan<- error) {
	g.Targets.ReadLists()
	for _, u := range g.Targets.Fresh {
		go func() { // ends with ctx, with the upstream, or with the probe
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(u.Ended(), cancel)()
			for wait := probeAgain; ; wait = min(2*wait, time.Minute) {
				err := g.App.probe(ctx, u)
				if errors.Is(err, transport.ErrFatal) && len(g.Targets.All) == 1 { // one of several hides no others
					select {
					case fatal <- err:
					default:
					}
				}
				if err == nil || ctx.Err() != nil || errors.Is(err, transport.ErrFatal) {
					return
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
				}
			}
		}()
	}
}

// probe determines which revisions an upstream speaks.
func (a *App) probe(ctx context.Context, u *target.Upstream) error {
	began, name := time.Now(), u.Name()
	a.target(name).Trying()
	profile, err := u.Profile(ctx)
	if ctx.Err() != nil {
		return err
	}
	a.target(name).Tried(began, err)
	if g := a.Current.Load(); err == nil && g.Cfg.Upstream(name) != nil {
		g.service.Health() // the state may have changed
		announce(g.Log, name, profile, era.Degrades(profile, target.ProfileSettings(g.Cfg, name)))
	}
	return err
}

// watchState reads the state of the service at intervals, so that the log has a change that nobody asked about. It ends
// with ctx.
func (a *App) watchState(ctx context.Context) {
	for {
		g := a.Current.Load()
		select {
		case <-time.After(g.Cfg.Monitoring.HealthCheckInterval):
			g.service.Health()
		case <-ctx.Done():
			return
		}
	}
}

// asker returns a client for requests of our own to the servers.
func (g *Generation) asker() *mcpcall.Client {
	return &mcpcall.Client{Handle: g.plain, Info: clientInfo(g.Cfg), Cap: g.Cfg.Limits.RequestTime}
}

// maxWarnings bounds the findings of a test of a connection.
const maxWarnings = 50

// testServer connects the only server of a configuration, within the time of ctx and until the proxy drains, and asks for its lists. The server is
// that of a proxy of its own, which ends with the test: no process, session or metric of it stays.
func (a *App) testServer(ctx context.Context, cfg *config.Config) (got aggregator.Tested) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.draining, cancel)()
	began := time.Now()
	got.Warnings = []aggregator.TestWarning{}
	apart := newApp(a.Log.Level(zerolog.ErrorLevel), nil)
	apart.registry.ListensAs(a.registry)
	apart.mark = a.mark
	g, err := apart.open(cfg, cfg.Upstreams)
	if err == nil {
		defer g.Close()
		err = g.test(ctx, &got)
	}
	got.OK, got.Took = err == nil, time.Since(began).Milliseconds()
	switch {
	case a.draining.Err() != nil && err != nil:
		got.Error = "dragoman is ending"
	case ctx.Err() != nil && err != nil:
		got.Error = "the server did not answer within " + time.Since(began).Round(time.Second).String()
	case err != nil:
		got.Error = wire.ShownText(userError(err).Error())
	}
	return got
}

// test fills in what the only server of g says of itself.
func (g *Generation) test(ctx context.Context, got *aggregator.Tested) error {
	one := g.Targets.All[0]
	profile, err := one.Profile(ctx)
	if err == nil && !profile.Modern {
		profile, err = one.Both(ctx) // of a process that is presumed to be legacy no handshake has said yet what it is and offers
	}
	if err != nil {
		return err
	}
	hide := hider(one.Hide)
	info, caps := profile.Identity()
	got.Eras, got.Revision = profile.Eras(), wire.Shown(hide(profile.Version))
	if len(info) > 0 {
		said := func(name string) string {
			return wire.Shown(hide(string(wire.Get(info, wire.Whole(info), name).Text(info))))
		}
		got.Server = &aggregator.ServerInfo{Name: said("name"), Version: said("version")}
	}
	lists := offers(ctx, g.asker(), caps, func(string) {}, hide, func(list, name string, element []byte) {
		for _, f := range deceptive.Find(element) {
			if len(got.Warnings) < maxWarnings {
				got.Warnings = append(got.Warnings, aggregator.TestWarning{List: list, Name: wire.Shown(name), Finding: f})
			}
		}
	})
	for i := range lists {
		o := &lists[i]
		*map[string]*int{"tools": &got.Tools, "resources": &got.Resources, "prompts": &got.Prompts}[o.What] = o.Count
		if o.Finding != "" && err == nil {
			err = fmt.Errorf("%s/list: %s", o.What, o.Finding)
		}
	}
	if err == nil {
		err = one.Check(ctx) // which asks the health_check_url, if there is one
	}
	return err
}
