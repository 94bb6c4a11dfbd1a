package admin

import (
	"math"
	"strconv"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/pprofhandler"

	"dragoman/proxy"
)

// maxProfile bounds the duration of a profile, in seconds.
const maxProfile = 300

// profile serves net/http/pprof's pages.
func (opt *Options) profile(ctx *fasthttp.RequestCtx) {
	if !opt.Pprof() {
		refuse(ctx, proxy.Errf(proxy.PathUnknown, "profiles are off; set admin.pprof = true"))
		return
	}
	if n, err := strconv.ParseFloat(string(ctx.QueryArgs().Peek("seconds")), 64); err == nil && (n > maxProfile || math.IsNaN(n)) {
		refuse(ctx, proxy.Errf(proxy.InvalidRequest, "seconds of a profile: %d at most", maxProfile))
		return
	}
	if string(ctx.Path()) == "/debug/pprof/" { // pprofhandler knows its index under this name only
		ctx.Request.SetRequestURI("/debug/pprof")
	}
	pprofhandler.PprofHandler(ctx)
}
