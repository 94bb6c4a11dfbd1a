package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/merge"
	"dragoman/internal/app/component"
	"dragoman/internal/app/registry"
	"dragoman/internal/app/target"
	"dragoman/internal/config"
	"dragoman/proxy"
)

// Reload reads the configuration again and activates it, or leaves everything as it was. It returns one of the outcomes
// above. why is the reason that the log gives. Probes of new upstreams end with ctx. Reload must not be called
// concurrently.
func (a *App) Reload(ctx context.Context, srv *httpserver.Server, why string) (outcome string) {
	began, before := time.Now(), a.Current.Load()
	metrics := before.shared.reloads
	log := a.Log.With().Str("reason", why).Logger()
	if trail := before.telemetry.audit; trail != nil {
		trail.Reopen() // another program may have rotated the file
	}
	held, err := a.replace(ctx, srv, before, nil)
	switch {
	case errors.Is(err, errUnchanged) && len(held) > 0: // which is said below
		outcome = ReloadUnchanged
	case errors.Is(err, errUnchanged):
		outcome = ReloadUnchanged
		log.Info().Msg("the configuration was read again; nothing has changed")
	case err != nil:
		outcome = ReloadRefused
		log.Error().Err(err).Msg("the new configuration is refused; the previous one stays in force")
	default:
		outcome = ReloadApplied
		log.Info().Dur("took", time.Since(began)).Msg("the new configuration is in force")
		metrics.last.SetToCurrentTime()
	}
	if len(held) > 0 {
		log.Warn().Strs("keys", held).Msg("these keys have changed and take effect after a restart; their old values stay in force")
	}
	metrics.total.WithLabelValues(outcome).Inc()
	metrics.held.Set(float64(len(held)))
	metrics.good.Set(1)
	if outcome == ReloadRefused {
		metrics.good.Set(0)
	}
	return outcome
}

// register makes the generation of a change of the registered servers.
func (a *App) register(ctx context.Context, srv *httpserver.Server, c registry.Change) {
	_, err := a.replace(ctx, srv, a.Current.Load(), &c)
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	if err != nil {
		a.Log.Error().Err(err).Msg("a change of the registered servers is refused; the servers stay as they were")
	}
	c.Done <- err
}

var errUnchanged = errors.New("nothing has changed")

// replace builds and activates the generation of the configuration as it is now, with the registered servers. held names the changed keys that
// need a restart. change is the change of a registered server that this is for; nil: it is a reload.
func (a *App) replace(ctx context.Context, srv *httpserver.Server, before *Generation, change *registry.Change) (held []string, err error) {
	cfg, err := before.Cfg.Again()
	if err != nil {
		return nil, err
	}
	held = cfg.Hold(before.Cfg)
	a.registry.Open(cfg)
	if cfg, err = a.registry.With(ctx, cfg); err != nil {
		if change != nil {
			return held, err
		}
		a.Log.Warn().Err(err).Msg("the registered servers stay as they were read last")
	}
	if cfg.Same(before.Cfg) {
		return held, errUnchanged
	}
	g, err := a.build(cfg, cfg.Upstreams)
	if err != nil {
		return nil, err
	}
	handler, err := g.clientHandler()
	if err != nil {
		g.components.Discard()
		return nil, err
	}
	left, err := g.activate()
	if err != nil { // a bug, which is no reason to stop serving
		a.Log.Error().Err(err).Msg("metrics of the new configuration are missing")
	}
	srv.SetHandler(handler)
	warn(cfg, a.Log)
	g.Probe(ctx, make(chan error, len(g.Targets.Fresh)))
	moved, cut := g.moved(before), ""
	if change != nil {
		cut = change.Cut
	}
	a.Retiring.Go(func() { a.retire(before, left, moved, cut) })
	return held, nil
}

// moved returns the sessions of clients at endpoints that something else serves than before: one server instead of several, or the reverse.
func (g *Generation) moved(before *Generation) (all []*proxy.Session) {
	for name, by := range before.Targets.Serves {
		if g.Targets.Serves[name] != by {
			all = append(all, g.shared.sessions.Of(name)...)
		}
	}
	return all
}

// endCheck is how often a session that is to end is asked whether it is idle.
const endCheck = 50 * time.Millisecond

// errMoved is the reason why a session ends whose endpoint something else serves.
var errMoved = proxy.Errf(proxy.SessionLost, "the servers behind this endpoint have changed; send initialize to open a new session")

// retireSessions ends sessions as soon as no request runs in them, and at the latest when ctx ends.
func retireSessions(ctx context.Context, all []*proxy.Session) {
	tick := time.NewTicker(endCheck)
	defer tick.Stop()
	for {
		all = slices.DeleteFunc(all, func(s *proxy.Session) bool {
			_, busy := s.Idle()
			if busy && ctx.Err() == nil {
				return false
			}
			s.EndFor(proxy.Expired, errMoved)
			return true
		})
		if len(all) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// errCut is the error of a request that ran when its server was to end. Servers may take their time over the end of a session.
var errCut = proxy.Errf(proxy.Lost, "the server was disconnected, or its configuration has changed, before it answered")

// retire closes the components that a new generation does not use. It waits for the requests that run at replaced
// upstreams, and in sessions whose endpoint something else serves, until limit has passed, or until the proxy drains. It does not wait for
// those of the upstream that is cut.
func (a *App) retire(before *Generation, left component.Left, moved []*proxy.Session, cut string) {
	ctx, cancel := context.WithTimeout(a.draining, a.Current.Load().Cfg.DrainTimeout)
	defer cancel()
	replaced := component.Values[*target.Upstream](left)
	var waits sync.WaitGroup
	over, end := context.WithCancel(ctx)
	end()
	for _, u := range replaced {
		waits.Go(func() {
			ctx, is := ctx, u.Name() == cut
			if is {
				ctx = over
			}
			if err := u.Retire(ctx); err != nil {
				if !is {
					a.Log.Warn().Str("upstream", u.Name()).Msg("not everything that ran there ended in time")
				}
				before.Targets.Named(u.Name()).Monitor.Cut(errCut)
			}
		})
	}
	waits.Go(func() { retireSessions(ctx, moved) })
	waits.Wait()
	for _, merged := range component.Values[*merge.Upstream](left) {
		merged.Dismiss(errMoved)
	}
	for _, u := range replaced {
		u.Dismiss(proxy.Errf(proxy.SessionLost, "the configuration of this server has changed; send initialize to open a new session"))
	}
	left.Close()
	now := a.Current.Load()
	for _, u := range replaced {
		now.limiters.cache.Forget(u.Name()) // stored by its last responses
		if now.Cfg.Upstream(u.Name()) == nil {
			a.components.Forget(u.Name())
			now.telemetry.requests.Forget(u.Name())
		}
	}
}

// watchFiles sends to changed when one of the files that a configuration comes from has changed and stayed the same for
// one interval. It polls them, since notifications are not reliable: mounted secrets and ConfigMaps are replaced by
// changing a link two directories above, editors replace files by renaming, and network file systems notify nobody.
// holds returns the current configuration. watchFiles ends with ctx.
func watchFiles(ctx context.Context, holds func() *config.Config, changed chan<- struct{}) {
	last, told := "", ""
	for {
		pause := holds().Reload.Watch
		off := pause == 0
		if off { // until a reload switches it on
			pause = time.Minute
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if off {
			continue
		}
		cfg := holds()
		now := config.Fingerprint(cfg.Files())
		if now == last && now != cfg.Seen && now != told {
			told = now // even if it will be refused
			select {
			case changed <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		last = now
	}
}
