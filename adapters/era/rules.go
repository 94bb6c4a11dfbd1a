package era

import "slices"

// Latest revisions of either era, and what stands for a legacy client that names none.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = "2025-11-25"
	// UnnamedVersion is what a streamable HTTP client without MCP-Protocol-Version speaks (2025-06-18 transports).
	UnnamedVersion = "2025-03-26"
)

// Versions, newest first. Dragoman speaks all of them.
var (
	modernVersions = []string{"2026-07-28"}
	legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
)

// IsModern tells whether a revision is at or behind the split; revisions are dates and compare as text.
func IsModern(version string) bool { return version >= modernVersions[len(modernVersions)-1] }

// Supported tells whether a modern revision is served.
func Supported[T string | []byte](version T) bool { return among(modernVersions, version) }

// among looks text up in a short list, without making a string of bytes.
func among[T string | []byte](list []string, text T) bool {
	for _, s := range list {
		if s == string(text) {
			return true
		}
	}
	return false
}

// KnownLegacy tells whether a legacy revision is served.
func KnownLegacy[T string | []byte](version T) bool { return among(legacyVersions, version) }

// Settle answers the revision that an initialize request gets: the one it asked for, if there is such a legacy one, else
// the newest. It is never a modern one, for which no initialize exists.
func Settle(requested string) string {
	if KnownLegacy(requested) {
		return requested
	}
	return LegacyVersion
}

// since says with which legacy revision something came; until with which it went (exclusive). Empty: always, never.
type span struct{ since, until string }

// has tells whether a legacy client of the given revision knows it.
func (s span) has(version string) bool {
	return version >= s.since && (s.until == "" || version < s.until)
}

// What came and went within the legacy era, as far as a translation depends on it (the revisions' changelogs).
var (
	hasBatches    = span{"2025-03-26", "2025-06-18"}
	hasStructured = span{since: "2025-06-18"} // structuredContent, outputSchema
	hasLinks      = span{since: "2025-06-18"} // content block resource_link
	hasAudio      = span{since: "2025-03-26"} // content block audio
	// What a server may ask.
	hasElicitation   = span{since: "2025-06-18"}
	hasURLMode       = span{since: "2025-11-25"} // elicitation mode, elicitationId, notifications/elicitation/complete
	hasTitledChoices = span{since: "2025-11-25"} // oneOf with titles, defaults of all kinds, multi-select arrays
	hasSamplingTools = span{since: "2025-11-25"} // sampling tools and toolChoice, content arrays, context
)

// HasBatches tells whether a revision has arrays of messages.
func HasBatches(version string) bool { return hasBatches.has(version) }

// Methods that 2026-07-28 removed, and those it added (its changelog). A method in neither list passes in both eras.
var (
	legacyOnly = []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"tasks/result", "tasks/list"}
	modernOnly = []string{"server/discover", "subscriptions/listen"}
	// cacheable results carry ttlMs and cacheScope (2026-07-28 caching).
	cacheable = []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
	// repeatable requests may be sent again when their answer was lost: they have no effects.
	repeatable = []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
		"resources/read", "prompts/get", "completion/complete", "ping"}
	logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	// askable methods are those whose result may be input_required (2026-07-28 multi-round-trip requests).
	askable = []string{"tools/call", "prompts/get", "resources/read"}
	// questions are the client capabilities that let a server ask.
	questions = []string{"roots", "sampling", "elicitation"}
)

// shared methods exist in both eras.
var sharedMethods = []string{"tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
	"prompts/list", "prompts/get", "completion/complete", "tasks/get", "tasks/cancel"}

// Known tells whether any revision, or an extension known here, has a method.
func Known[T string | []byte](method T) bool {
	return among(sharedMethods, method) || among(legacyOnly, method) || among(modernOnly, method)
}

// Removed tells whether a method does not exist in 2026-07-28 although it did before.
func Removed[T string | []byte](method T) bool { return among(legacyOnly, method) }

// ModernOnly tells whether a method exists only in 2026-07-28.
func ModernOnly[T string | []byte](method T) bool { return among(modernOnly, method) }

// ValidLevel tells whether a log level is one of the protocol's eight.
func ValidLevel[T string | []byte](level T) bool { return among(logLevels, level) }

// Severe tells whether a log message of the given level is to be delivered to who asked for the least level.
func Severe(level, least string) bool {
	return slices.Index(logLevels, level) >= slices.Index(logLevels, least)
}
