// Package rules holds what the specification says that does not depend on a server or a client at hand: its revisions and what
// came and went with each, the methods of either era, the envelope of a modern request, the capabilities that let a server ask,
// and the notifications of changes. A new revision is a row in rules.go; no other package compares revisions.
//
// The package has no state.
package rules

import (
	"slices"

	"dragoman/proxy/wire"
)

// The newest revision of either era, and what stands for a legacy client that names none.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = Version20251125
	// UnnamedVersion is what a streamable HTTP client without MCP-Protocol-Version speaks (2025-06-18 transports).
	UnnamedVersion = Version20250326
)

// Legacy revisions that introduced something a translation depends on.
const (
	Version20250326 = "2025-03-26"
	Version20250618 = "2025-06-18"
	Version20251125 = "2025-11-25"
)

// All revisions, newest first. Dragoman speaks each of them.
var (
	modernVersions = []string{ModernVersion}
	legacyVersions = []string{Version20251125, Version20250618, Version20250326, "2024-11-05"}
)

// Versions returns all revisions, newest first.
func Versions() []string { return slices.Concat(modernVersions, legacyVersions) }

// IsModern reports whether a revision is ModernVersion or later: revisions are dates, and compare as text.
func IsModern(version string) bool { return version >= modernVersions[len(modernVersions)-1] }

// Supported reports whether Dragoman speaks a revision and it is modern.
func Supported[T string | []byte](version T) bool { return among(modernVersions, version) }

// KnownLegacy reports whether Dragoman speaks a revision and it is legacy.
func KnownLegacy[T string | []byte](version T) bool { return among(legacyVersions, version) }

// among reports whether a short list has text, without allocating.
func among[T string | []byte](list []string, text T) bool {
	for _, s := range list {
		if s == string(text) {
			return true
		}
	}
	return false
}

// Settle returns the revision that an initialize request gets: the requested one, if that is a legacy revision that Dragoman
// speaks, else the newest legacy one. It is never modern: the modern era has no initialize.
func Settle(requested string) string { return Allowed{}.Settle(requested) }

// transportSince says with which revision a transport came, those that every revision has excepted.
var transportSince = map[string]string{"streamable-http": Version20250326}

// Told returns the revision that a legacy client is told when the server has settled on another than it asked for. Dragoman bridges
// the two where the client could not use the server's: over a transport that the server's revision does not have, and if it is newer
// than what the client asked for. What came with a revision adds to the one before, so an older server needs no translation; for a
// client older than its server, older reports that the results must be translated. transport is that of the client's session.
func Told(requested, settled, transport string) (version string, older bool) {
	if !KnownLegacy(settled) {
		return settled, false
	}
	if KnownLegacy(requested) && requested < settled && requested >= transportSince[transport] {
		return requested, true
	}
	if asked := Settle(requested); settled < transportSince[transport] && asked >= transportSince[transport] {
		return asked, false
	}
	return settled, false
}

// Feature says which legacy revisions have a feature: from since on, and before until. Empty: no such limit.
type Feature struct{ since, until string }

// In reports whether a legacy revision has the feature.
func (s Feature) In(version string) bool {
	return version >= s.since && (s.until == "" || version < s.until)
}

// What came and went within the legacy era, as far as a translation depends on it (the revisions' changelogs).
var (
	hasBatches        = Feature{Version20250326, Version20250618}
	StructuredContent = Feature{since: Version20250618} // structuredContent, outputSchema
	ResourceLinks     = Feature{since: Version20250618} // content block resource_link
	AudioContent      = Feature{since: Version20250326} // content block audio
	Tasks             = Feature{since: Version20251125} // tasks of that revision, which 2026-07-28 removed
	// Questions of a server.
	Elicitation   = Feature{since: Version20250618}
	URLMode       = Feature{since: Version20251125} // elicitation mode, elicitationId, notifications/elicitation/complete
	TitledChoices = Feature{since: Version20251125} // oneOf with titles, defaults of all kinds, multi-select arrays
	SamplingTools = Feature{since: Version20251125} // sampling tools and toolChoice, content arrays, context
	// The end of an answer's stream before the answer, for a client that comes back for it by GET.
	hasPolling = Feature{since: Version20251125}
)

// MaxBatch is how many messages an array of messages may hold.
const MaxBatch = 100

// HasBatches reports whether a revision has arrays of messages.
func HasBatches(version string) bool { return hasBatches.In(version) }

// CanPoll reports whether a client of a revision takes a stream that ends before its answer for an invitation to come back: the
// stream begins with an event that has an id and no data, names a retry time, and is picked up by GET (2025-11-25 transports,
// Sending Messages to the Server). Clients of earlier revisions take the empty data for a message.
func CanPoll(version string) bool { return hasPolling.In(version) }

// Methods that 2026-07-28 removed, and those it added (its changelog). A method in neither list passes in both eras.
var (
	legacyOnly = []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"tasks/result", "tasks/list"}
	modernOnly    = []string{"server/discover", "subscriptions/listen"}
	sharedMethods = []string{"tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
		"prompts/list", "prompts/get", "completion/complete", "tasks/get", "tasks/cancel"}
	cacheable = []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
	readsOnly = []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
		"resources/read", "prompts/get", "completion/complete", "ping", "skills/list", "skills/get", "resources/directory/read"} // the last three of SEP-2640
	askable = []string{"tools/call", "prompts/get", "resources/read"}
)

// LogLevels are the protocol's eight log levels, the least severe first.
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Known reports whether any revision, or an extension that Dragoman knows, has a method.
func Known[T string | []byte](method T) bool {
	return among(sharedMethods, method) || among(legacyOnly, method) || among(modernOnly, method)
}

// Removed reports whether 2026-07-28 has removed a method.
func Removed[T string | []byte](method T) bool { return among(legacyOnly, method) }

// ModernOnly reports whether a method came with 2026-07-28.
func ModernOnly[T string | []byte](method T) bool { return among(modernOnly, method) }

// Cacheable reports whether the results of a method carry ttlMs and cacheScope (2026-07-28 caching).
func Cacheable[T string | []byte](method T) bool { return among(cacheable, method) }

// Askable reports whether the result of a method may be input_required (2026-07-28 multi-round-trip requests).
func Askable[T string | []byte](method T) bool { return among(askable, method) }

// ReadsOnly reports whether a message is a request without effects: it may be sent again when its answer was lost.
func ReadsOnly(m *wire.Message) bool {
	return m.Kind == wire.Request && among(readsOnly, m.Text(m.Method))
}

// ValidLevel reports whether a log level is one of LogLevels.
func ValidLevel[T string | []byte](level T) bool { return among(LogLevels, level) }

// Severe reports whether a log message of a level is for a client that asked for the least level.
func Severe(level, least string) bool {
	return slices.Index(LogLevels, level) >= slices.Index(LogLevels, least)
}
