package app

import (
	"context"
	"errors"
	"time"

	"dragoman/adapters/era"
	"dragoman/adapters/transport"
	"dragoman/internal/app/target"
)

// probeAgain is the first pause before an upstream that could not be reached is probed again. It is doubled each time,
// up to a minute.
const probeAgain = 2 * time.Second

// Probe starts to probe the upstreams that are new in g, and repeats that until they answer or ctx ends. An error that
// no later attempt can mend goes to fatal.
func (g *Generation) Probe(ctx context.Context, fatal chan<- error) {
	for _, u := range g.targets.Fresh {
		go func() { // ends with ctx, with the upstream, or with the probe
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(u.Ended(), cancel)()
			for wait := probeAgain; ; wait = min(2*wait, time.Minute) {
				err := g.App.probe(ctx, u)
				if errors.Is(err, transport.ErrFatal) {
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
