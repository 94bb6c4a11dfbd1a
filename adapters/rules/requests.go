package rules

import "dragoman/proxy/wire"

// Initialized is the notification that ends a handshake.
const Initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// DiscoverRequest makes a server/discover in the name of a client: its clientInfo and capabilities as raw JSON, nil for none.
func DiscoverRequest(info, caps []byte) []byte {
	if caps == nil {
		caps = []byte("{}")
	}
	m := wire.Object([]wire.Change{{Key: wire.MetaPrefix + "protocolVersion", Value: []byte(`"` + ModernVersion + `"`)},
		{Key: wire.MetaPrefix + "clientInfo", Value: info}, {Key: wire.MetaPrefix + "clientCapabilities", Value: caps}})
	return append(append([]byte(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":`), m...), "}}"...)
}

// InitializeRequest makes an initialize of the newest legacy revision. info and caps are raw JSON.
func InitializeRequest(info, caps []byte) []byte {
	p := wire.Object([]wire.Change{{Key: "protocolVersion", Value: []byte(`"` + LegacyVersion + `"`)},
		{Key: "capabilities", Value: caps}, {Key: "clientInfo", Value: info}})
	return append(append([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`), p...), '}')
}

// Withdrawal makes the notification that takes a question back. id is raw JSON.
func Withdrawal(id []byte) []byte {
	msg := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...)
	return append(msg, `,"reason":"the request in which this was asked has ended"}}`...)
}

// PickModern is the newest modern revision of a list, an array in raw, that Dragoman speaks too; empty if there is none.
func PickModern(raw []byte, list wire.Span) string {
	best := ""
	for _, s := range wire.Items(raw, list) {
		if t := string(s.Text(raw)); Supported(t) && t > best {
			best = t
		}
	}
	return best
}
