package access

import (
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Eras returns the policy that restricts a listener to the protocol revisions in served, on every transport. It refuses
// a modern request of any other revision, and an initialize if served has no legacy revision. An initialize that asks
// for a legacy revision that is not served is rewritten to ask for the newest one that is. If the server then settles
// on a revision that is not served, the handshake fails. Revisions that are not served are removed from the result of
// server/discover.
//
// A session begins only through this policy, so the later messages of a session are not checked.
func Eras(served rules.Allowed) proxy.Policy {
	if served.All() {
		return func(next proxy.Handler) proxy.Handler { return next }
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			first := ex.Msg.Is("initialize")
			switch {
			case ex.Client.Era == proxy.Modern:
				if err := served.Refusal(ex.Client.Version); err != nil {
					return nil, err
				}
			case first && len(served.Legacy()) == 0:
				return nil, rules.NoHandshake(ex.Client.Version)
			case first:
				settle(ex, served)
			}
			replies, err := next(ex)
			if err == nil && (first || ex.Msg.Is("server/discover")) {
				replies = &settled{Replies: replies, served: served, handshake: first}
			}
			return replies, err
		}
	}
}

// settle replaces the revision that an initialize asks for by one that is served.
func settle(ex *proxy.Exchange, served rules.Allowed) {
	v := served.Settle(ex.Client.Version)
	if v == ex.Client.Version {
		return
	}
	ex.Client.Version = v
	if m := &ex.Msg; m.ParamsVersion.Present() {
		m.Replace(m.ParamsVersion, wire.AppendText(nil, v))
	}
}

// settled wraps the replies to initialize and server/discover, whose results name revisions.
type settled struct {
	proxy.Replies
	served    rules.Allowed
	handshake bool
	own       []byte
}

// Next implements proxy.Replies.
func (s *settled) Next(until time.Time) (*wire.Message, error) {
	m, err := s.Replies.Next(until)
	if err != nil || m.Kind != wire.Result {
		return m, err
	}
	if s.own, err = m.Settle(s.own); err != nil { // apply pending edits first: the check concerns the message as it will be sent
		return m, proxy.Errf(proxy.Internal, "an edited result is no message: %w", err)
	}
	if !s.handshake {
		s.trim(m)
		return m, nil
	}
	if v := wire.Get(m.Raw, m.Result, "protocolVersion"); v.Present() && !s.served.Has(string(v.Text(m.Raw))) {
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server settled on revision %s, which eras does not let this listener serve", v.Text(m.Raw))
	}
	return m, nil
}

// trim removes the revisions that are not served from a DiscoverResult. Revisions that this proxy does not know stay.
func (s *settled) trim(m *wire.Message) {
	known := rules.Allowed{}
	editItems(m, wire.Get(m.Raw, m.Result, "supportedVersions"), func(item wire.Span) []byte {
		if v := string(item.Text(m.Raw)); known.Has(v) && !s.served.Has(v) {
			return nil
		}
		return item.Of(m.Raw)
	})
}
