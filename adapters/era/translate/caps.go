package translate

import (
	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// TasksExtension is the name of the tasks extension (SEP-2663).
const TasksExtension = "io.modelcontextprotocol/tasks"

// ModernCaps translates a legacy client's capabilities for a modern server. version is the client's revision: questions
// that it cannot express are not declared. The tasks capability of 2025-11-25 is dropped, since it is another protocol
// than the extension.
func ModernCaps(legacy []byte, version string) []byte {
	caps := wire.Without(legacy, "tasks")
	if caps == nil {
		return []byte("{}")
	}
	m := wire.Message{Raw: withoutTasksExtension(caps)}
	var changes []wire.Change
	if wire.Get(m.Raw, m.Whole(), "roots").Present() { // without listChanged: servers ask for roots when they need them
		changes = append(changes, wire.Change{Key: "roots", Value: []byte("{}")})
	}
	if at := wire.Get(m.Raw, m.Whole(), "sampling"); at.IsObject(m.Raw) && !rules.SamplingTools.In(version) {
		m.EditObject(at, []wire.Change{{Key: "tools"}, {Key: "context"}})
	}
	if at := wire.Get(m.Raw, m.Whole(), "elicitation"); at.IsObject(m.Raw) {
		switch {
		case !rules.Elicitation.In(version), !rules.URLMode.In(version) && !rules.FormMode(m.Raw, at):
			changes = append(changes, wire.Change{Key: "elicitation"})
		case !rules.URLMode.In(version):
			changes = append(changes, wire.Change{Key: "elicitation", Value: []byte("{}")})
		}
	}
	m.EditObject(m.Whole(), changes)
	return m.Append(nil)
}

// LegacyCaps translates a modern request's capabilities for an initialize request of 2025-11-25. roots.listChanged is
// dropped: official clients declare it in either era, but a pooled session has nobody to send the notification.
func LegacyCaps(modern []byte) []byte { return ModernCaps(modern, rules.LegacyVersion) }

// DeclareAll adds all capabilities that let a server ask, whatever the client has declared.
func DeclareAll(caps []byte) []byte {
	return wire.With(caps, wire.Change{Key: "roots", Value: []byte("{}")}, wire.Change{Key: "sampling", Value: []byte(`{"tools":{}}`)},
		wire.Change{Key: "elicitation", Value: []byte(`{"form":{},"url":{}}`)})
}

func withoutTasksExtension(caps []byte) []byte {
	ext := wire.Get(caps, wire.Whole(caps), "extensions")
	if !wire.Get(caps, ext, TasksExtension).Present() {
		return caps
	}
	m := wire.Message{Raw: caps}
	m.EditObject(ext, []wire.Change{{Key: TasksExtension}})
	return m.Append(nil)
}

// WithTasksExtension declares the tasks extension (SEP-2663), so that a server may turn the call into a task.
func WithTasksExtension(caps []byte) []byte {
	extensions := []byte("{}")
	if at := wire.Get(caps, wire.Whole(caps), "extensions"); at.IsObject(caps) {
		extensions = at.Of(caps)
	}
	return wire.With(caps, wire.Change{Key: "extensions", Value: wire.With(extensions, wire.Change{Key: TasksExtension, Value: []byte("{}")})})
}
