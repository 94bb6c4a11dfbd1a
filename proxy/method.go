package proxy

// methods are those that clients send, of all revisions and of the tasks extension; the most frequent first.
var methods = [...]string{"tools/call", "tools/list", "initialize", "server/discover", "ping", "resources/list",
	"resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get",
	"completion/complete", "logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/list", "tasks/cancel", "tasks/result", "tasks/update"}

// KnownMethod gives the name of a method of the protocol's own requests, without a copy; false if it is none.
func KnownMethod(name []byte) (string, bool) {
	for _, known := range &methods {
		if string(name) == known {
			return known, true
		}
	}
	return "", false
}

// Method gives a method's name, without a copy if it is known.
func Method(name []byte) string {
	if known, ok := KnownMethod(name); ok {
		return known
	}
	return string(name)
}
