package registry

import (
	"context"

	"dragoman/adapters/aggregator"
	"dragoman/internal/config"
)

// test implements aggregator.Options.
func (r *Registry) test(ctx context.Context, what *aggregator.Registration) (aggregator.Tested, error) {
	cfg, err := r.config().Alone(config.Registered{Name: what.Name, Transport: what.Transport, Connection: what.Connection, HealthURL: what.HealthURL, Wanted: true})
	if err != nil {
		return aggregator.Tested{}, wrong(what.Name, err)
	}
	return r.opt.Test(ctx, cfg), nil
}
