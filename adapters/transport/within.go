package transport

import (
	"context"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Within restricts the handshakes of a legacy Dial to the revisions of a set: initialize asks for one of them and fails with BadAnswer if
// the server settles on another. Optional interfaces of the link stay available through As. A nil Dial stays nil.
func Within(a rules.Allowed, dial Dial) Dial {
	if dial == nil || a.AllLegacy() {
		return dial
	}
	return func(ctx context.Context, sink Sink) (Link, error) {
		link, err := dial(ctx, sink)
		if err != nil {
			return nil, err
		}
		return pinned{link, a}, nil
	}
}

// pinned is a link whose handshake is restricted.
type pinned struct {
	Link
	allowed rules.Allowed
}

// Under returns the wrapped link.
func (p pinned) Under() Link { return p.Link }

// Call implements Link.
func (p pinned) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if !m.Is("initialize") {
		return p.Link.Call(ex)
	}
	if _, err := m.Settle(nil); err != nil { // the revision may have been edited already, and can be edited once only
		return nil, proxy.Errf(proxy.Internal, "an edited initialize is no message: %w", err)
	}
	requested := string(m.Text(m.ParamsVersion))
	if v := p.allowed.Settle(requested); v != requested && m.ParamsVersion.Present() {
		m.Replace(m.ParamsVersion, wire.AppendText(nil, v))
	}
	replies, err := p.Link.Call(ex)
	if err != nil {
		return nil, err
	}
	return handshake{replies, p.allowed}, nil
}

// handshake is the replies to initialize.
type handshake struct {
	proxy.Replies
	allowed rules.Allowed
}

// Next implements proxy.Replies.
func (h handshake) Next(until time.Time) (*wire.Message, error) {
	m, err := h.Replies.Next(until)
	if err != nil || m.Kind != wire.Result {
		return m, err
	}
	if v := wire.Get(m.Raw, m.Result, "protocolVersion"); v.IsString(m.Raw) && !h.allowed.Has(string(v.Text(m.Raw))) {
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server settled on revision %s, which upstreams.NAME.eras excludes", v.Text(m.Raw))
	}
	return m, nil
}
