package rules

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Classify tells in which era a message came in over HTTP: header is MCP-Protocol-Version (empty: absent), inSession
// whether it named a session. A message that fits neither goes where its error is said best.
//
// An initialize request is legacy whatever it asks for, unless it carries a modern request's _meta. A version in _meta
// makes a request modern, also a legacy version, which cannot be served per request; so does a header at or behind the
// split, and one that is no revision at all.
func Classify(m *wire.Message, header string, inSession bool) proxy.Era {
	switch {
	case m.Kind == wire.Batch:
		return proxy.Legacy
	case m.Version.Present():
		return proxy.Modern
	case m.Is("initialize"):
		return proxy.Legacy
	case header != "" && IsModern(header):
		return proxy.Modern
	case header != "" && !KnownLegacy(header) && !inSession:
		return proxy.Modern
	case m.Method.Present() && ModernOnly(m.Text(m.Method)):
		return proxy.Modern
	}
	return proxy.Legacy
}
