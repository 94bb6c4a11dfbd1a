package era

import (
	"slices"

	"dragoman/proxy/wire"
)

const tasksExtension = "io.modelcontextprotocol/tasks"

// modernCaps maps a legacy client's capabilities to what a modern server may count on. version is the client's revision:
// a question it cannot express is not offered. Tasks of 2025-11-25 are another protocol than the extension.
func modernCaps(legacy []byte, version string) []byte {
	caps := without(legacy, "tasks")
	if caps == nil {
		return []byte("{}")
	}
	m := wire.Message{Raw: withoutTasksExtension(caps)}
	var changes []wire.Change
	if wire.Get(m.Raw, m.Whole(), "roots").Present() { // no listChanged: roots are asked for when they are needed
		changes = append(changes, wire.Change{Key: "roots", Value: []byte("{}")})
	}
	if at := wire.Get(m.Raw, m.Whole(), "sampling"); at.IsObject(m.Raw) && !hasSamplingTools.has(version) {
		m.EditObject(at, []wire.Change{{Key: "tools"}, {Key: "context"}})
	}
	if at := wire.Get(m.Raw, m.Whole(), "elicitation"); at.IsObject(m.Raw) {
		switch {
		case !hasElicitation.has(version), !hasURLMode.has(version) && !formMode(m.Raw, at):
			changes = append(changes, wire.Change{Key: "elicitation"})
		case !hasURLMode.has(version):
			changes = append(changes, wire.Change{Key: "elicitation", Value: []byte("{}")})
		}
	}
	m.EditObject(m.Whole(), changes)
	return m.Append(nil)
}

// legacyCaps maps a modern request's capabilities to those of an initialize request of 2025-11-25. Official clients
// declare roots.listChanged in either era; a pooled session has nobody who would keep that promise.
func legacyCaps(modern []byte) []byte { return modernCaps(modern, LegacyVersion) }

// declareAll makes capabilities that let a server ask anything, whatever its client has declared.
func declareAll(caps []byte) []byte {
	m := wire.Message{Raw: caps}
	m.EditObject(m.Whole(), []wire.Change{{Key: "roots", Value: []byte("{}")}, {Key: "sampling", Value: []byte(`{"tools":{}}`)},
		{Key: "elicitation", Value: []byte(`{"form":{},"url":{}}`)}})
	return m.Append(nil)
}

func withoutTasksExtension(caps []byte) []byte {
	all := wire.Span{From: 0, To: uint32(len(caps))} //nolint:gosec // part of a message
	ext := wire.Get(caps, all, "extensions")
	if !wire.Get(caps, ext, tasksExtension).Present() {
		return caps
	}
	m := wire.Message{Raw: caps}
	m.EditObject(ext, []wire.Change{{Key: tasksExtension}})
	return m.Append(nil)
}

// hasQuestions tells whether client capabilities declare something that lets a server ask.
func hasQuestions(caps []byte) bool {
	m := wire.Message{Raw: caps}
	for k := range wire.Members(caps, m.Whole()) {
		if slices.ContainsFunc(questions, func(q string) bool { return k.Is(caps, q) }) {
			return true
		}
	}
	return false
}

// formMode tells whether an elicitation capability allows forms: it does unless only other modes are named (2025-11-25
// and 2026-07-28 elicitation, Capabilities).
func formMode(raw []byte, elicitation wire.Span) bool {
	return wire.Get(raw, elicitation, "form").Present() || !wire.Get(raw, elicitation, "url").Present()
}

// undeclared answers what a client would have had to declare to be asked by a method with the params at the given place of
// raw, as the object that error -32021 carries in requiredCapabilities; "" if its capabilities allow it, "{}" if no such
// question exists.
func undeclared(caps []byte, method string, raw []byte, params wire.Span) (required string) {
	all := wire.Span{From: 0, To: uint32(len(caps))} //nolint:gosec // part of a message
	has := func(path ...string) bool { return len(caps) > 0 && wire.Path(caps, all, path...).Present() }
	switch method {
	case "roots/list":
		if !has("roots") {
			return `{"roots":{}}`
		}
	case "sampling/createMessage":
		tools := wire.Get(raw, params, "tools").Present() || wire.Get(raw, params, "toolChoice").Present()
		if tools && !has("sampling", "tools") {
			return `{"sampling":{"tools":{}}}`
		}
		if !has("sampling") {
			return `{"sampling":{}}`
		}
	case "elicitation/create":
		url := wire.Get(raw, params, "mode").Is(raw, "url")
		switch {
		case url && !has("elicitation", "url"):
			return `{"elicitation":{"url":{}}}`
		case !url && (!has("elicitation") || !formMode(caps, wire.Get(caps, all, "elicitation"))):
			return `{"elicitation":{"form":{}}}`
		}
	default:
		return "{}" // no such question exists
	}
	return ""
}
