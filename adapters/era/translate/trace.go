package translate

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// TraceMembers are the members of _meta that say in which trace a request goes on, under the names that W3C gave them (SEP-414, 2026-07-28
// basic, _meta); nil: nobody traces, and what the client has said passes. A tracestate of another traceparent must not stay.
func TraceMembers(ex *proxy.Exchange) []wire.Change {
	t := ex.OutgoingTrace()
	if t == nil {
		return nil
	}
	changes := append(make([]wire.Change, 0, 3), wire.Change{Key: "traceparent", Value: wire.AppendText(nil, t.Parent)}, wire.Change{Key: "tracestate"})
	if t.State != "" {
		changes[1].Value = wire.AppendText(nil, t.State)
	}
	if t.Baggage != "" {
		changes = append(changes, wire.Change{Key: "baggage", Value: wire.AppendText(nil, t.Baggage)})
	}
	return changes
}

// AddTrace writes the trace that a request goes on in into its _meta, which nothing else may edit then. Where there is none, it is one
// more of the changes to params, which the caller has to make; changes are those that there are already.
func AddTrace(ex *proxy.Exchange, changes []wire.Change) []wire.Change {
	of, m := TraceMembers(ex), &ex.Msg
	switch {
	case of == nil || m.Kind != wire.Request || m.Params.Present() && !m.Params.IsObject(m.Raw):
	case m.Meta.IsObject(m.Raw):
		m.EditObject(m.Meta, of)
	default:
		changes = append(changes, wire.Change{Key: "_meta", Value: wire.Object(of)})
	}
	return changes
}

// ContinueTrace makes an exchange that was made to serve another, and goes to the server as it is, part of that in its trace, too.
func ContinueTrace(inner, of *proxy.Exchange) {
	inner.Inherit(of)
	if changes := AddTrace(inner, nil); changes != nil {
		inner.Msg.EditParams(changes)
	}
}
