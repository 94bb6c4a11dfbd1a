package access

import (
	"bytes"
	"slices"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// The files of skills are resources (SEP-2640), and what rules say of their URIs counts for the methods of that extension.

// directory checks a resources/directory/read, whose URI is at s. A rule about all that is below a directory, such as skill://a/*, is about
// the directory as well, whose URI has no slash at its end.
func (a *Filter) directory(ex *proxy.Exchange, s wire.Span) error {
	if !s.Present() || !a.ruled(ex.Caller, resourceThing) {
		return nil
	}
	if !s.IsString(ex.Msg.Raw) {
		return errNoString(resourceThing)
	}
	m := &ex.Msg
	uri := m.Text(s)
	below := append(slices.Clone(uri), '/')
	own, ok := a.renamed[resourceThing].server(below)
	if !ok || !a.permits(ex.Caller, resourceThing, own) {
		return unknown(ex, resourceThing, uri)
	}
	if !bytes.Equal(own, below) {
		m.Replace(s, wire.AppendText(nil, bytes.TrimSuffix(own, []byte{'/'})))
		if _, err := m.Settle(nil); err != nil {
			return proxy.Errf(proxy.Internal, "a renamed request is no message: %w", err)
		}
	}
	return nil
}

// skills removes the skills that the client may not see from the result of skills/list, and translates the URIs of the others. The list of a
// skill's files must be complete, so that a skill is hidden as a whole if one of its files is. That of skills/get is answered as if there
// were no such skill.
func (r *filtered) skills(m *wire.Message) {
	if one := wire.Get(m.Raw, m.Result, "skill"); one.Present() {
		if r.skill(m, one) {
			return
		}
		r.a.hidden.Inc()
		*m = proxy.ErrorMessage(m.Of(m.ID), proxy.AsError(unknown(r.ex, resourceThing, r.ex.Msg.Text(r.ex.Msg.URI))))
		return
	}
	editItems(m, wire.Get(m.Raw, m.Result, "skills"), func(item wire.Span) []byte {
		own := wire.Message{Raw: item.Of(m.Raw)}
		if !r.skill(&own, own.Whole()) {
			r.a.hidden.Inc()
			return nil
		}
		return own.Append(nil)
	})
}

// skill translates the URIs of the skill at a place; false if the client may not see it.
func (r *filtered) skill(m *wire.Message, at wire.Span) bool {
	uris := []wire.Span{wire.Get(m.Raw, at, "uri")}
	for _, file := range wire.Items(m.Raw, wire.Get(m.Raw, at, "resources")) {
		uris = append(uris, wire.Get(m.Raw, file, "uri"))
	}
	for _, uri := range uris {
		if uri.Present() && !r.a.permits(r.ex.Caller, resourceThing, uri.Text(m.Raw)) {
			return false
		}
	}
	for _, uri := range uris {
		r.uri(m, uri)
	}
	return true
}
