package translate

import "dragoman/proxy/wire"

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
