package rules

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// MayAsk checks a server's question (its method, and params as raw JSON) to a client with the given capabilities, raw JSON.
// The error says that no such question exists (BadAnswer), or what the client would have to declare (MissingCapability,
// 2026-07-28 basic, Capabilities).
func MayAsk(caps []byte, method string, params []byte) *proxy.Error {
	switch need := Undeclared(caps, method, params, wire.Whole(params)); need {
	case "":
		return nil
	case "{}":
		return proxy.Errf(proxy.BadAnswer, "the server asks the client for %q, which does not exist", method)
	default:
		return MissingCapability(method, need)
	}
}

// MissingCapability returns the error that names what a modern client would have to declare.
func MissingCapability(method, need string) *proxy.Error {
	e := proxy.Errf(proxy.MissingCapability, "the server needs to ask the client (%s), which has not declared that it can be asked", method)
	e.Data = append(append([]byte(`{"requiredCapabilities":`), need...), '}')
	return e
}

// AnyQuestion reports whether client capabilities declare something that lets a server ask.
func AnyQuestion(caps []byte) bool {
	for k := range wire.Members(caps, wire.Whole(caps)) {
		if k.Is(caps, "roots") || k.Is(caps, "sampling") || k.Is(caps, "elicitation") {
			return true
		}
	}
	return false
}

// Undeclared returns what a client would have had to declare to be asked by a method with the params at the given place of
// raw, as the object that error -32021 carries in requiredCapabilities; "" if its capabilities allow it, "{}" if no such
// question exists.
func Undeclared(caps []byte, method string, raw []byte, params wire.Span) (required string) {
	all := wire.Whole(caps)
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
		case !url && (!has("elicitation") || !FormMode(caps, wire.Get(caps, all, "elicitation"))):
			return `{"elicitation":{"form":{}}}`
		}
	default:
		return "{}" // no such question exists
	}
	return ""
}

// FormMode reports whether an elicitation capability allows forms: it does unless only other modes are named (2025-11-25
// and 2026-07-28 elicitation, Capabilities).
func FormMode(raw []byte, elicitation wire.Span) bool {
	return wire.Get(raw, elicitation, "form").Present() || !wire.Get(raw, elicitation, "url").Present()
}

// namedBy holds the methods that use something of a name or URI, and the server capability that offers them.
var namedBy = map[string]string{"tools/call": "tools", "prompts/get": "prompts", "resources/read": "resources", "completion/complete": "completions"}

// Offers reports whether server capabilities, raw JSON, declare a method that uses something of a name or URI. If such a method is answered
// with "method not found", the server means the name (2026-07-28 tools, prompts, resources, Error Handling: -32602).
func Offers(caps []byte, method string) bool {
	capability := namedBy[method]
	return capability != "" && len(caps) > 0 && wire.Get(caps, wire.Whole(caps), capability).Present()
}
