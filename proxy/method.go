package proxy

// methods are the methods of clients, of all revisions and of the tasks extension; the most frequent first.
var methods = [...]string{"tools/call", "tools/list", "initialize", "server/discover", "ping", "resources/list",
	"resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get",
	"completion/complete", "logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/list", "tasks/cancel", "tasks/result", "tasks/update"}

// KnownMethod returns the name of a request method of the protocol, without allocating; false if it is unknown.
func KnownMethod(name []byte) (string, bool) {
	for _, known := range &methods {
		if string(name) == known {
			return known, true
		}
	}
	return "", false
}

// Method returns the name of a method, without allocating if it is known.
func Method(name []byte) string {
	if known, ok := KnownMethod(name); ok {
		return known
	}
	return string(name)
}
