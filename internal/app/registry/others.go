package registry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/catalogue"
	"dragoman/policies/health"
)

// follow makes a generation for each change of the registered servers that another Dragoman has made, until ctx ends.
func (r *Registry) follow(ctx context.Context, w catalogue.Watched) {
	for {
		select {
		case <-w.Changes():
		case <-ctx.Done():
			return
		}
		if err := r.catchUp(ctx); err != nil && ctx.Err() == nil {
			r.opt.Log.Warn().Err(err).Msg("a change of the registered servers by another Dragoman is not in force here yet")
		}
		for _, t := range r.targets().All {
			t.Definitions().Learn(ctx) // another Dragoman may have approved some
		}
	}
}

// catchUp makes a generation if the stored registrations are not those that were read last.
func (r *Registry) catchUp(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	stored, err := r.stored().Registrations(ctx)
	if err != nil {
		return err
	}
	known, _ := r.registrations()
	if slices.EqualFunc(known, stored, func(a, b catalogue.Registration) bool {
		return a.ID == b.ID && a.Name == b.Name && a.Revision == b.Revision
	}) {
		return nil
	}
	return r.apply(ctx, "")
}

// refused returns the answer for an error of the store.
func refused(err error) error {
	if errors.Is(err, catalogue.ErrAway) {
		return &aggregator.Problem{Status: fasthttp.StatusServiceUnavailable, Detail: "The database of the registered servers cannot be reached. Servers are served on; nothing was changed. Try again later."}
	}
	return err
}

// statusTime bounds reading how servers are for others.
const statusTime = 2 * time.Second

// elsewhere returns how servers are for each Dragoman that shares the store, by ID; nil: none does, or that cannot be read.
func (r *Registry) elsewhere() map[string][]catalogue.InstanceStatus {
	shared, ok := r.stored().(catalogue.Instances)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	all, err := shared.Statuses(ctx)
	if err != nil {
		r.opt.Log.Debug().Err(err).Msg("how servers are for other Dragomans is not known")
	}
	return all
}

// ranks orders the states of a server from the worst to the best.
var ranks = []string{string(health.Disconnected), string(health.Errored), string(health.Connecting), string(health.Degraded), string(health.Connected)}

// addElsewhere adds how a server is for each Dragoman. Its status becomes the best of them, unless it is to be disconnected.
func addElsewhere(s *aggregator.Server, all []catalogue.InstanceStatus) {
	for i := range all {
		one := &all[i]
		s.Instances = append(s.Instances, aggregator.Instance{Name: one.Instance, Status: one.State, Since: instant(one.Since), Connected: instant(one.ConnectedAt), CheckedAt: instant(one.CheckedAt),
			Took: one.ResponseTime.Milliseconds(), Failures: one.ConsecutiveFailures, LastError: one.LastError})
	}
	if s.Source == aggregator.Registered && s.Status == string(health.Disconnected) {
		return // it is to be disconnected everywhere
	}
	best := slices.MaxFunc(append(all, catalogue.InstanceStatus{Status: catalogue.Status{State: s.Status}}), func(a, b catalogue.InstanceStatus) int {
		return cmp.Compare(slices.Index(ranks, a.State), slices.Index(ranks, b.State))
	})
	if s.Status = best.State; s.Status != string(health.Errored) {
		s.Error = ""
	}
}
