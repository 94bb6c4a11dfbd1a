package rules

import (
	"slices"
	"strings"

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

// ListChanged is the notification that a list (tools, prompts or resources) has changed.
func ListChanged(list string) string { return "notifications/" + list + "/list_changed" }

// NoticeKey is the subject of a change notification; empty for any other message.
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

// NoticeURI is the resource of a notice's key; empty if the key is that of a list.
func NoticeURI(key string) string {
	uri, _ := strings.CutPrefix(key, ResourceUpdated+" ")
	if uri == key {
		return ""
	}
	return uri
}

// AllChanged makes the notices that say that everything has changed: after a gap they stand for whatever was missed, since
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

// SubscriptionFilter makes the members of the filter of a subscriptions/listen, or of what is acknowledged of one
// (2026-07-28 subscriptions).
func SubscriptionFilter(lists, uris []string) (out []wire.Change) {
	for _, list := range lists {
		out = append(out, wire.Change{Key: list + "ListChanged", Value: []byte("true")})
	}
	if len(uris) == 0 {
		return out
	}
	all := []byte{'['}
	for i, uri := range uris {
		if i > 0 {
			all = append(all, ',')
		}
		all = wire.AppendText(all, uri)
	}
	return append(out, wire.Change{Key: "resourceSubscriptions", Value: append(all, ']')})
}

// Below reports whether a resource is root or lies in it: its updates belong to subscriptions to root (2026-07-28 resources,
// Subscriptions).
func Below(uri, root string) bool {
	rest, under := strings.CutPrefix(uri, root)
	return under && (rest == "" || strings.HasSuffix(root, "/") || strings.ContainsRune("/?#", rune(rest[0])))
}
