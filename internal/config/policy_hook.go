package config

import (
	"slices"
	"time"

	"dragoman/internal/config/value"
)

// PolicyHookConfig is a decision point of the operator's that is asked about requests to servers.
type PolicyHookConfig struct {
	// URL is https, http on the loopback, or unix:/path/to/socket[:/path/of/the/resource]; "" (default): nobody is asked.
	URL string
	// Methods are those of the requests that are asked about, of hookMethods.
	Methods []string
	// Arguments is none (default), keys, redacted or full, for arguments and results alike.
	Arguments string
	// Results says that results are asked about, too; default false.
	Results bool
	// Timeout bounds a question. 10 ms to 30 s, default 1 s.
	Timeout time.Duration
	// OnError is "deny" (default) or "allow": what becomes of a request that cannot be asked about.
	OnError string
	// Cache is how many answers are kept, for as long as each says itself. Up to 1 000 000, default 1 000; 0 is none.
	Cache int
	// Headers are sent with every question.
	Headers []value.NamedSecret
	// CAFile is a PEM file of roots to trust instead of the system's; "": the system's.
	CAFile string
}

// HookAllows is the value of policy_hook.on_error by which what cannot be asked about is permitted.
const HookAllows = "allow"

// hookMethods are the methods whose requests use something of a server.
var hookMethods = []string{"tools/call", "prompts/get", "resources/read", "resources/subscribe", "completion/complete", "tasks/get", "tasks/result", "tasks/update", "tasks/cancel"}

func checkHookMethod(entry string) error {
	if !slices.Contains(hookMethods, entry) {
		return value.Problemf("%q is none of %s", value.Shorten(entry), value.OneOf(hookMethods))
	}
	return nil
}
