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
	principal  string // empty if several share the session
	sum        [16]byte
	forwarded  *proxy.Forwarded // with which it is opened
}

// recent is a cached identity and what it was derived from.
type recent struct {
	principal  string
	sum        [16]byte
	info, caps []byte
	id         identity
}

// recentMost bounds the bytes cached for a client; most describe themselves in a few hundred.
const recentMost = 4 << 10

// identify returns the identity of an exchange. It caches recent ones, since clients describe themselves alike in every request.
func (p *Pool) identify(ex *proxy.Exchange) identity {
	who, sum, info, caps := ex.Caller.Principal, ex.Caller.Sum(), ex.Client.Info, ex.Client.Caps
	if len(info)+len(caps)+len(who) > recentMost {
		return p.identity(apart(ex))
	}
	place := &p.recent[(len(who)+len(info)+len(caps))%len(p.recent)]
	if r := place.Load(); r != nil && r.principal == who && r.sum == sum && bytes.Equal(r.info, info) && bytes.Equal(r.caps, caps) {
		id := r.id
		id.forwarded = ex.Caller.Forwarded
		return id
	}
	own := apart(ex)
	r := &recent{principal: who, sum: sum, info: own.Client.Info, caps: own.Client.Caps, id: p.identity(own)}
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
	id := identity{info: ex.Client.Info, caps: translate.LegacyCaps(ex.Client.Caps), principal: ex.Caller.Principal, sum: ex.Caller.Sum(), forwarded: ex.Caller.Forwarded}
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
		id.principal = ""
	}
	h := sha256.New()
	if id.sum != [16]byte{} { // to the server, callers with other headers may be other users
		_, _ = fmt.Fprintf(h, "carried:%x", id.sum)
	}
	for i, part := range [][]byte{[]byte(id.principal), id.info, id.caps} {
		if i == 2 {
			id.group = [32]byte(h.Sum(nil))
		}
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	id.key = [32]byte(h.Sum(nil))
	return id
}
