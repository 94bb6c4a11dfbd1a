package access

import (
	"bytes"
	"cmp"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// The notifications that name resources.
const (
	resourceUpdated     = "notifications/resources/updated"
	listensAcknowledged = "notifications/subscriptions/acknowledged"
)

// Notice judges a notification that is no reply to a call: one of a session's own stream, or of a listen. It reports whether
// the caller may receive it, and writes the client's URIs into it. A notice about a resource that the caller may not use does not
// exist for it. The filter may be nil, which has no rules.
func (a *Filter) Notice(who proxy.Caller, m *wire.Message) bool {
	switch {
	case a == nil || m.Kind != wire.Notification:
	case m.Is(resourceUpdated):
		if !a.permits(who, resourceThing, m.Text(m.URI)) {
			return false
		}
		if m.URI.Present() {
			a.renamed[resourceThing].replace(m, m.URI)
		}
	case m.Is(listensAcknowledged) && !a.renamed[resourceThing].empty():
		editItems(m, wire.Get(m.Raw, m.Notifications, "resourceSubscriptions"), func(item wire.Span) []byte {
			uri := item.Text(m.Raw)
			if theirs := a.renamed[resourceThing].client(uri); !bytes.Equal(theirs, uri) {
				return wire.AppendText(nil, theirs)
			}
			return item.Of(m.Raw)
		})
	}
	return true
}

// Notice is [Filter.Notice] for scopes: it reports whether the caller has those that the resource of a notice needs. server is the
// upstream that sent it.
func (s *ScopePolicy) Notice(server string, who proxy.Caller, m *wire.Message) bool {
	if s == nil || who.Rights == nil || m.Kind != wire.Notification || !m.Is(resourceUpdated) {
		return true
	}
	n := need{table: s.of[cmp.Or(server, s.opt.Only)], caller: who, m: m}
	if n.table == nil {
		return true
	}
	n.name(scopeResource, m.URI)
	return n.err == nil && !n.lacks
}

// scoped wraps the replies of a call. It drops notices about resources for which the caller lacks a scope.
type scoped struct {
	proxy.Replies
	s      *ScopePolicy
	ex     *proxy.Exchange
	server string
}

// Next implements proxy.Replies.
func (r *scoped) Next(until time.Time) (*wire.Message, error) {
	m, err := r.Replies.Next(until)
	for err == nil && !r.s.Notice(r.server, r.ex.Caller, m) {
		m, err = r.Replies.Next(until)
	}
	return m, err
}
