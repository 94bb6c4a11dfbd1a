package era

import "dragoman/proxy"

// What a Link needs that is no server of the protocol, and answers in its place.

// MayAsk judges a question of a server's: method, and params as raw JSON, to a client with the given capabilities, raw JSON.
// The error says that no such question exists (BadAnswer), or what the client would have to declare (MissingCapability,
// 2026-07-28 basic, Capabilities).
func MayAsk(caps []byte, method string, params []byte) *proxy.Error {
	switch need := undeclared(caps, method, params, all(params)); need {
	case "":
		return nil
	case "{}":
		return proxy.Errf(proxy.BadAnswer, "the server asks the client for %q, which does not exist", method)
	default:
		return missingCapability(method, need)
	}
}
