package registry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/mcphttp"
	"dragoman/internal/config"
	"dragoman/policies/access"
	"dragoman/proxy"
)

// Gate returns the gate that identifies the callers of the API. Other paths it lets pass. operators returns what [Operators] has made.
func Gate(operators func() proxy.Gate) proxy.Gate {
	return func(h *proxy.Head) *proxy.Error {
		if gate := operators(); gate != nil && strings.HasPrefix(string(h.Path), aggregator.Path+"/") {
			return gate(h)
		}
		return nil
	}
}

// RefuseHead answers a request that the admin listener refuses by its head.
func RefuseHead(ctx *fasthttp.RequestCtx, err *proxy.Error) {
	if strings.HasPrefix(string(ctx.Path()), aggregator.Path+"/") {
		aggregator.Refuse(ctx, err)
		return
	}
	mcphttp.Refuse(ctx, err)
}

// Operators makes the gate of the API of registered servers; nil: nobody may call it.
func Operators(c *config.Config, tokens access.Tokens, metrics prometheus.Registerer, log zerolog.Logger) (proxy.Gate, error) {
	agg := &c.Aggregator
	if !agg.On() {
		return nil, nil //nolint:nilnil // nobody may
	}
	roles := map[string][]string{config.Viewer: {aggregator.View}, config.Operator: {aggregator.View, aggregator.Operate}}
	opt := access.AuthOptions{Log: log, Metrics: metrics}
	all := make([]access.KeyOptions, len(agg.Keys))
	for i, k := range agg.Keys {
		all[i] = access.KeyOptions{Name: k.Name, Hashes: k.Hashes, Expires: k.Expires, Scopes: roles[k.Role]}
	}
	var err error
	if opt.Keys, err = access.NewKeys(all); err != nil {
		return nil, err
	}
	if tokens != nil && (agg.ViewerScope != "" || agg.OperatorScope != "") {
		opt.Tokens = tokens
	}
	gate, err := access.NewAuthenticator(opt)
	if err != nil {
		return nil, err
	}
	return func(h *proxy.Head) *proxy.Error {
		if err := gate.Gate()(h); err != nil {
			return err
		}
		if r := h.Caller.Rights; r != nil && r.Kind == "jwt" { // the scopes of the issuer become ours
			own := *r
			own.Scopes = nil
			switch {
			case agg.OperatorScope != "" && slices.Contains(r.Scopes, agg.OperatorScope):
				own.Scopes = roles[config.Operator]
			case agg.ViewerScope != "" && slices.Contains(r.Scopes, agg.ViewerScope):
				own.Scopes = roles[config.Viewer]
			}
			h.Caller.Rights = &own
		}
		return nil
	}, nil
}
