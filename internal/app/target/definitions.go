package target

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/definitions"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/policies/health"
	"dragoman/proxy"
)

// pins is the store of approved definitions, with what was read of it.
type pins struct {
	*definitions.Keeper
	store catalogue.Pins
}

// openPins opens the store of approved definitions, beside the catalogue. If its file cannot be used, nothing is approved, which the log says.
func (b *Builder) openPins() (_ *pins, err error) {
	if b.pins != nil {
		return b.pins, nil
	}
	b.pins, err = component.Get(b.Components, "definitions", placeOf(b.Config), component.Spec[*pins]{Build: func(prometheus.Registerer) (*pins, error) {
		var store catalogue.Pins = &catalogue.MemoryPins{}
		if !b.Rehearsal {
			ctx, cancel := context.WithTimeout(context.Background(), openTime)
			defer cancel()
			switch stored, err := OpenStore(ctx, b.Config, nil); {
			case err != nil:
				store = unusable{err}
			case stored != nil:
				store = stored
			}
		}
		return &pins{definitions.NewKeeper(store, time.Now), store}, nil
	}, Stage: component.Last, Close: func(p *pins) {
		if c, ok := p.store.(io.Closer); ok {
			if err := c.Close(); err != nil {
				b.Log.Warn().Err(err).Msg("closing the store of approved definitions")
			}
		}
	}})
	return b.pins, err
}

// unusable is a store that could not be opened.
type unusable struct{ err error }

func (u unusable) Pins(context.Context, string) ([]catalogue.Pin, error)  { return nil, u.err }
func (u unusable) PutPins(context.Context, string, []catalogue.Pin) error { return u.err }
func (u unusable) RemovePins(context.Context, string) error               { return u.err }

// guard returns what keeps clients from definitions of a target that are not approved; nil: its definitions need no approval. The target is filled
// later.
func (b *Builder) guard(up *config.Upstream, t *Target) (*definitions.Guard, error) {
	mode, holdFirst := b.Config.DefinitionsOf(up)
	if mode != config.Approve {
		return nil, nil //nolint:nilnil // a nil Guard guards nothing
	}
	pins, err := b.openPins()
	if err != nil {
		return nil, err
	}
	note := noteServer(b.Log)
	return definitions.New(definitions.Options{Keeper: pins.Keeper, Server: up.Name, HoldFirst: holdFirst, Known: t.known, Await: t.awaitRead,
		Renew: func() { t.lists.Catalogue().Renew() }, Note: func(msg string, err error) { note("warn", up.Name, msg, err) }}), nil
}

// known returns what the server has listed to Dragoman; nil: nothing is known of it.
func (t *Target) known() *catalogue.Server {
	if t.lists == nil {
		return nil
	}
	return t.lists.Catalogue().Snapshot().Server(t.Name())
}

// awaitRead waits until what the server lists is known as it is now. Of a server that is down, which no request reaches, the last counts.
func (t *Target) awaitRead(ctx context.Context) error {
	if t.Monitor.Now().State == health.Errored || t.lists != nil && t.lists.AwaitRead(ctx, t.Name()) {
		return nil
	}
	return proxy.Errf(proxy.Unreachable, "it is not known what the server %q lists now, and only what is approved of it is served; try again, or see why in `dragoman status`", t.Name())
}

// Definitions is what keeps clients from definitions that are not approved; nil: they need no approval.
func (t *Target) Definitions() *definitions.Guard { return t.guard }

// Pinned reports whether definitions of a target need approval.
func (t *Set) Pinned() bool {
	return slices.ContainsFunc(t.All, func(one *Target) bool { return one.guard != nil })
}

// ForgetDefinitions forgets what was approved of a server that was removed, by its id.
func (t *Set) ForgetDefinitions(ctx context.Context, id string) error {
	if t.pins == nil {
		return nil
	}
	return t.pins.Forget(ctx, id)
}
