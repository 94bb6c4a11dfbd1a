package translate

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Strip removes from a modern request what a legacy server must not see: servers that support both eras detect the era
// by it. asTask makes the call a task, for which the modern era has no member. traced is the trace context for _meta, if
// any.
func Strip(m *wire.Message, asTask bool, traced []wire.Change) {
	own, all := 0, wire.Count(m.Raw, m.Meta)
	for _, s := range [...]wire.Span{m.Version, m.Info, m.Caps, m.LogLevel} { // identityKeys
		if s.Present() {
			own++
		}
	}
	fill := FillArguments(m)
	var identity wire.Span // _meta, if it has no other members
	if own == all && own > 0 {
		identity = m.Meta
	}
	if (own == 0 || own == all) && m.Params.IsObject(m.Raw) && traced == nil && fill == nil && !asTask &&
		drop(m, knownMember{"inputResponses", m.InputResponses}, knownMember{"requestState", m.ReqState}, knownMember{"task", m.Task}, knownMember{"_meta", identity}) {
		return
	}
	changes := []wire.Change{{Key: "inputResponses"}, {Key: "requestState"}, {Key: "task"}}
	if asTask {
		changes[2].Value = []byte("{}")
	}
	changes = append(changes, fill...)
	switch {
	case own == 0 && traced == nil:
	case own == all:
		all := wire.Change{Key: "_meta"}
		if traced != nil {
			all.Value = wire.Object(traced)
		}
		changes = append(changes, all)
	default:
		drops := make([]wire.Change, len(identityKeys), len(identityKeys)+len(traced))
		for i, key := range identityKeys {
			drops[i].Key = key
		}
		m.EditObject(m.Meta, append(drops, traced...))
	}
	m.EditParams(changes)
}

// TraceMembers returns the _meta members that carry the outgoing trace context under their W3C names (SEP-414,
// 2026-07-28 basic, _meta). Nil: tracing is off, and the client's members pass unchanged. The client's tracestate is
// removed, since it belongs to another traceparent.
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

// AddTrace writes the outgoing trace context into the _meta of a request, which nothing else may edit afterwards.
// Without a _meta it is appended to changes, which the caller must apply to params.
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

// ContinueTrace makes inner, an exchange created on behalf of another and sent unchanged, part of the other's trace.
func ContinueTrace(inner, of *proxy.Exchange) {
	inner.Inherit(of)
	if changes := AddTrace(inner, nil); changes != nil {
		inner.Msg.EditParams(changes)
	}
}
