package rules

import (
	"slices"
	"strings"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// NoticeLists are the lists whose changes a server may announce.
var NoticeLists = []string{"tools", "prompts", "resources"}

// ResourceUpdated is the notification that a resource has changed.
const ResourceUpdated = "notifications/resources/updated"

// Notice is a change notification and its subject. Of several with one key, the newest counts.
type Notice struct {
	Key string
	Msg []byte
}

// ListChanged returns the method of the notification that a list (tools, prompts or resources) has changed.
func ListChanged(list string) string { return "notifications/" + list + "/list_changed" }

// NoticeKey returns the subject of a change notification; empty for any other message.
func NoticeKey(m *wire.Message) string {
	method := string(m.Text(m.Method))
	switch {
	case method == ResourceUpdated:
		return method + " " + string(m.Text(m.URI))
	case slices.ContainsFunc(NoticeLists, func(list string) bool { return ListChanged(list) == method }):
		return method
	}
	return ""
}

// NoticeURI returns the resource of a notice's key, which is not that of a list.
func NoticeURI(key string) string { return strings.TrimPrefix(key, ResourceUpdated+" ") }

// AllChanged returns the notices that everything has changed: after a gap they stand for whatever was missed, since
// servers replay nothing.
func AllChanged(lists, uris []string) (out []Notice) {
	for _, list := range lists {
		out = append(out, Notice{ListChanged(list), []byte(`{"jsonrpc":"2.0","method":"` + ListChanged(list) + `"}`)})
	}
	for _, uri := range uris {
		msg := wire.AppendText([]byte(`{"jsonrpc":"2.0","method":"`+ResourceUpdated+`","params":{"uri":`), uri)
		out = append(out, Notice{ResourceUpdated + " " + uri, append(msg, "}}"...)})
	}
	return out
}

// SubscriptionFilter returns the members of the filter of a subscriptions/listen, or of what is acknowledged of one
// (2026-07-28 subscriptions).
func SubscriptionFilter(lists, uris []string) (out []wire.Change) {
	for _, list := range lists {
		out = append(out, wire.Change{Key: list + "ListChanged", Value: []byte("true")})
	}
	if len(uris) == 0 {
		return out
	}
	all := []byte{'['}
	for _, uri := range uris {
		all = wire.AppendItem(all, wire.AppendText(nil, uri))
	}
	return append(out, wire.Change{Key: "resourceSubscriptions", Value: append(all, ']')})
}

// Below reports whether a resource is root or lies in it: its updates belong to subscriptions to root (2026-07-28 resources,
// Subscriptions).
func Below(uri, root string) bool {
	rest, under := strings.CutPrefix(uri, root)
	return under && (rest == "" || strings.HasSuffix(root, "/") || strings.ContainsRune("/?#", rune(rest[0])))
}

// Initialized is the notification that ends a handshake.
const Initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// ModernMeta returns the members of _meta that every modern request has (2026-07-28 basic, _meta), in the name of a client: its clientInfo
// and capabilities as raw JSON. A nil info is left out.
func ModernMeta(info, caps []byte) []wire.Change {
	return []wire.Change{{Key: wire.MetaPrefix + "protocolVersion", Value: []byte(`"` + ModernVersion + `"`)},
		{Key: wire.MetaPrefix + "clientInfo", Value: info}, {Key: wire.MetaPrefix + "clientCapabilities", Value: caps}}
}

// DiscoverRequest returns a server/discover in the name of a client: its clientInfo and capabilities as raw JSON, nil for none.
func DiscoverRequest(info, caps []byte) []byte {
	if caps == nil {
		caps = []byte("{}")
	}
	m := wire.Object(ModernMeta(info, caps))
	return append(append([]byte(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":`), m...), "}}"...)
}

// InitializeRequest returns an initialize of the newest legacy revision. info and caps are raw JSON.
func InitializeRequest(info, caps []byte) []byte {
	p := wire.Object([]wire.Change{{Key: "protocolVersion", Value: []byte(`"` + LegacyVersion + `"`)},
		{Key: "capabilities", Value: caps}, {Key: "clientInfo", Value: info}})
	return append(append([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`), p...), '}')
}

// Withdrawal returns the notification that takes a question back. id is raw JSON.
func Withdrawal(id []byte) []byte {
	msg := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...)
	return append(msg, `,"reason":"the request in which this was asked has ended"}}`...)
}

// PickModern returns the newest modern revision of a list, an array in raw, that Dragoman speaks too; empty if there is none.
func PickModern(raw []byte, list wire.Span) string {
	best := ""
	for _, s := range wire.Items(raw, list) {
		if t := string(s.Text(raw)); Supported(t) && t > best {
			best = t
		}
	}
	return best
}

// Early answers a legacy client's request that comes before its initialize. ping is allowed there (2025-11-25 lifecycle, Initialization).
// Methods that no legacy revision has are unknown: clients of both eras, which ask server/discover first, know a legacy server by that.
// The error of all others asks for initialize.
func Early(m *wire.Message) (answer wire.Message, err *proxy.Error) {
	method := m.Text(m.Method)
	switch {
	case m.Is("ping"):
		return proxy.ResultMessage(m.Of(m.ID), []byte("{}")), nil
	case ModernOnly(method), !Known(method):
		return answer, proxy.Errf(proxy.MethodNotFound, "no legacy revision has the method %s; send initialize", method)
	}
	return answer, proxy.Errf(proxy.SessionMissing, "%s comes before initialize; send initialize first", method)
}
