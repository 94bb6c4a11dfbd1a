package sessions

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"dragoman/adapters/era/translate"
	"dragoman/proxy"
)

// identity holds what a session is opened with.
type identity struct {
	key, group [32]byte // group: without the capabilities
	info, caps []byte
	caller     proxy.Identity   // zero if several share the session
	forwarded  *proxy.Forwarded // with which it is opened
}

// recent is a cached identity and what it was derived from.
type recent struct {
	caller     proxy.Identity
	info, caps []byte
	id         identity
}

// recentMost bounds the bytes cached for a client; most describe themselves in a few hundred.
const recentMost = 4 << 10

// identify returns the identity of an exchange. It caches recent ones, since clients describe themselves alike in every request.
func (p *Pool) identify(ex *proxy.Exchange) identity {
	who, info, caps := ex.Caller.Identity(), ex.Client.Info, ex.Client.Caps
	if len(info)+len(caps)+len(who.Principal) > recentMost {
		return p.identity(apart(ex))
	}
	place := &p.recent[(len(who.Principal)+len(info)+len(caps))%len(p.recent)]
	if r := place.Load(); r != nil && r.caller == who && bytes.Equal(r.info, info) && bytes.Equal(r.caps, caps) {
		id := r.id
		id.forwarded = ex.Caller.Forwarded
		return id
	}
	own := apart(ex)
	r := &recent{caller: who, info: own.Client.Info, caps: own.Client.Caps, id: p.identity(own)}
	id := r.id
	r.id.forwarded = nil // valid for this exchange only
	place.Store(r)
	return id
}

// apart copies what an identity is derived from, since a session outlives the memory of the exchange.
func apart(ex *proxy.Exchange) *proxy.Exchange {
	return &proxy.Exchange{Caller: ex.Caller, Client: proxy.Client{Info: bytes.Clone(ex.Client.Info), Caps: bytes.Clone(ex.Client.Caps)}}
}

func (p *Pool) identity(ex *proxy.Exchange) identity {
	id := identity{info: ex.Client.Info, caps: translate.LegacyCaps(ex.Client.Caps), caller: ex.Caller.Identity(), forwarded: ex.Caller.Forwarded}
	if p.opt.Isolation.Mixed() {
		id.info, id.caps = p.server.Self, []byte("{}")
	}
	if id.info == nil {
		id.info = p.server.Self
	}
	if p.opt.DeclareAll && p.asks() {
		id.caps = translate.DeclareAll(id.caps)
	}
	if p.opt.Isolation.Anonymous() {
		p.meet(id.caller)
		id.caller = proxy.Identity{} // headers that the server would get are refused with this isolation
	}
	h := sha256.New()
	for i, part := range [][]byte{id.caller.Append(nil), id.info, id.caps} {
		if i == 2 {
			id.group = [32]byte(h.Sum(nil))
		}
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	id.key = [32]byte(h.Sum(nil))
	return id
}

// meet records a caller of sessions that all callers share.
func (p *Pool) meet(caller proxy.Identity) {
	if !p.first.CompareAndSwap(nil, &caller) && *p.first.Load() != caller {
		p.several.Store(true)
	}
}

// Several reports whether several callers have shared the sessions so far: what a server says outside calls may concern any of them.
func (p *Pool) Several() bool { return p.several.Load() }
