package registry

import (
	"context"
	"errors"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/definitions"
	"dragoman/internal/config/value"
)

// held implements aggregator.Definitions.
func (r *Registry) held(ctx context.Context, server string) ([]definitions.Held, error) {
	t := r.targets().Named(server)
	if t == nil {
		return nil, nil // the server is left out: nothing of it is shown
	}
	return t.Definitions().Held(ctx)
}

// approve implements aggregator.Definitions.
func (r *Registry) approve(ctx context.Context, server, by string, what []definitions.Approval) ([]definitions.Approval, error) {
	conflict := func(text string) error { return &aggregator.Problem{Status: fasthttp.StatusConflict, Detail: text} }
	t := r.targets().Named(server)
	if t == nil {
		return nil, conflict("The server " + server + " is not served; `dragoman servers show " + server + "` says why")
	}
	done, err := t.Definitions().Approve(ctx, by, what)
	var not *definitions.NotApproved
	switch {
	case errors.Is(err, definitions.ErrOff):
		return nil, conflict("Definitions of the server " + server + " need no approval; set upstreams.NAME.definitions or catalogue.definitions to approve")
	case errors.As(err, &not):
		return nil, conflict("The definition of " + not.Kind + " " + value.Shorten(not.Key) + " " + not.Why.Error() + "; look at what is held and try again")
	case err != nil:
		return nil, err
	}
	for i, one := range done {
		if i == maxLogged {
			r.opt.Log.Info().Str("upstream", server).Int("more", len(done)-i).Str("by", by).Msg("more definitions were approved")
			break
		}
		r.opt.Log.Info().Str("upstream", server).Str("kind", one.Kind).Str("key", value.Shorten(one.Key)).Str("hash", one.Hash).Str("by", by).Msg("a definition was approved")
	}
	return done, nil
}

// maxLogged bounds the definitions of one approval that have a line in the log.
const maxLogged = 100
