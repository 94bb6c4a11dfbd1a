package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dragoman/adapters/era/input"
	"dragoman/adapters/stdio/reaper"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies/idempotency"
	"dragoman/proxy/session"
)

// shared holds the components that last as long as the process. Only their bounds can change.
type shared struct {
	draining drainSignal
	reaper   *reaper.Reaper // starts and ends all child processes
	sessions *session.Store
	streams  *session.Usage // memory kept for clients that lose a stream
	pending  *input.Store   // calls that wait for answers to their questions
	reloads  *reloadMetrics
}

// drainSignal announces that the proxy begins to drain.
type drainSignal struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func buildShared(set *component.Set, cfg *config.Config, ups []*config.Upstream, log zerolog.Logger) (s shared, err error) {
	if s.draining, err = component.Get(set, "ending", nil, component.Spec[drainSignal]{Build: func(prometheus.Registerer) (e drainSignal, err error) {
		e.ctx, e.cancel = context.WithCancel(context.Background())
		return e, nil
	}, Stage: component.Callers, Close: func(e drainSignal) { e.cancel() }}); err != nil {
		return s, err
	}
	if s.reaper, err = component.Get(set, "reaper", nil, component.Spec[*reaper.Reaper]{Build: func(prometheus.Registerer) (*reaper.Reaper, error) {
		return reaper.New(reaper.Options{Note: func(err error) { log.Warn().Err(err).Msg("the reaper of child processes") }}), nil
	}, Stage: component.Processes, Close: (*reaper.Reaper).Close}); err != nil {
		return s, err
	}
	if slices.ContainsFunc(ups, func(up *config.Upstream) bool { return len(up.Command) > 0 }) {
		s.reaper.Prestart() // in parallel with what follows, which takes less time
	}
	if s.sessions, err = buildSessions(set, cfg); err != nil {
		return s, fmt.Errorf("sessions: %w", err)
	}
	if s.streams, err = component.Get(set, "streams", nil, component.Spec[*session.Usage]{Build: func(prometheus.Registerer) (*session.Usage, error) { return new(session.Usage), nil }}); err != nil {
		return s, err
	}
	q := cfg.Questions
	if s.pending, err = component.Get(set, "questions", nil, component.Spec[*input.Store]{Build: func(prometheus.Registerer) (*input.Store, error) {
		return input.NewStore(input.Options{TTL: q.TTL, Settle: q.Settle, LeaseWait: q.LeaseWait, MaxParked: q.MaxParked,
			MaxPerPrincipal: q.MaxParkedPerPrincipal, Rounds: q.Rounds, Key: []byte(q.StateKey.Reveal())})
	}}); err != nil {
		return s, fmt.Errorf("questions: %w", err)
	}
	s.reloads, err = component.Get(set, "reloads", nil, component.Spec[*reloadMetrics]{Build: newReloadMetrics})
	return s, err
}

func buildSessions(set *component.Set, cfg *config.Config) (*session.Store, error) {
	opt := session.Options{IdleTTL: cfg.Sessions.IdleTTL, Max: cfg.Sessions.Max,
		Repeats: cfg.Idempotency.Mode != idempotency.Off, MaxPerPrincipal: cfg.Sessions.MaxPerPrincipal}
	store, err := component.Get(set, "sessions", nil, component.Spec[*session.Store]{Build: func(prometheus.Registerer) (*session.Store, error) { return session.NewStore(opt) },
		Stage: component.Sessions, Close: (*session.Store).Close})
	if err == nil {
		set.OnActivation(func() { store.Adjust(opt) })
	}
	return store, err
}
