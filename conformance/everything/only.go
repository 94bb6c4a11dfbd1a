package everything

import (
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Only returns a handler that lets the clients of an era, "modern" or "legacy", through to next, and answers others as
// a server of that era alone does. Any other era lets all through.
func Only(era string, next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		switch {
		case era == "legacy" && ex.Client.Era == proxy.Modern:
			return nil, proxy.Errf(proxy.MethodNotFound, "method not found")
		case era == "modern" && ex.Client.Era == proxy.Legacy && ex.Msg.Kind == wire.Request:
			return nil, rules.Unsupported(ex.Client.Version)
		}
		return next(ex)
	}
}
