package registry

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// auditTime bounds how long the answer to a request for a change waits for room in the audit trail (audit.on_full).
const auditTime = 10 * time.Second

// did writes the lines of the log and of the audit trail for a request for a change.
func (r *Registry) did(ctx *fasthttp.RequestCtx, did aggregator.Action) {
	who, server := mcphttp.CallerOf(ctx), value.Shorten(did.Server)
	what := "a change of the registered servers"
	switch did.Name {
	case "test":
		what = "a test of a connection"
	case "put_category", "remove_category", "reset_category", "classify", "reclassify":
		what = "a change of categories"
	}
	line := r.opt.Log.Info().Str("action", did.Name).Str("upstream", server)
	if did.Category != "" {
		line = line.Str("category", value.Shorten(did.Category))
	}
	line.Int("status", did.Status).Str("by", who.Rights.Name).Stringer("address", httpserver.AddrOf(ctx)).Msg(what + " was asked for")
	within, cancel := context.WithTimeout(context.Background(), auditTime)
	defer cancel()
	r.opt.Audit().Changed(within, &telemetry.Change{Began: did.Began, Address: httpserver.AddrOf(ctx), Caller: who,
		Role: roleOf(who), Action: did.Name, Server: server, Category: value.Shorten(did.Category), Status: did.Status, Why: did.Why})
}

// Asked returns the change that a refused request to the API of registered servers asked for; empty: none.
func Asked(ctx *fasthttp.RequestCtx) (action, server, role string) {
	did := aggregator.ActionOf(ctx)
	if did.Name == "" {
		return "", "", ""
	}
	return did.Name, value.Shorten(did.Server), roleOf(mcphttp.CallerOf(ctx))
}

// roleOf returns the role of a caller; empty: it has none.
func roleOf(who proxy.Caller) string {
	switch {
	case who.Rights == nil:
		return ""
	case who.Has(aggregator.Operate):
		return config.Operator
	case who.Has(aggregator.View):
		return config.Viewer
	}
	return ""
}
