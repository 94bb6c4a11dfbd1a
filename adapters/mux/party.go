package mux

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// partyOf returns who a call is made for.
func partyOf(ex *proxy.Exchange) (p party) {
	p.caller = ex.Caller.Identity()
	if p.caller == (proxy.Identity{}) && ex.Session != nil {
		p.session = ex.Session.ID
	}
	return p
}

// party is the client of a call, as far as it can be told from the others of the channel.
type party struct {
	caller  proxy.Identity
	session string // of an anonymous legacy client
}

// telling reports whether a request says something of its client that a server could log. Many of the others are Dragoman's own, and
// a listen lasts.
func telling(m *wire.Message) bool {
	switch string(m.Text(m.Method)) {
	case "ping", "initialize", "server/discover", "subscriptions/listen", "logging/setLevel", "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return false
	}
	return true
}

// aloneMost bounds the calls in flight that a log message is compared with.
const aloneMost = 64

// alone reports whether the client of a call has caused a message that comes now: the other calls in flight are its own. A server logs what
// belongs to a call before it responds; what it logs later cannot be told from a message of the call that runs then.
func (x *Mux) alone(c *call) bool {
	own := partyOf(c.ex)
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.calls) > aloneMost {
		return false
	}
	for _, other := range x.calls {
		if other.tells && partyOf(other.ex) != own {
			return false
		}
	}
	return true
}
