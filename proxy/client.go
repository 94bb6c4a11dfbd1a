package proxy

// Era is the generation of the protocol that a party speaks.
type Era uint8

// Legacy is every revision with initialize and sessions; Modern is 2026-07-28 and later.
const (
	Legacy Era = iota
	Modern
)

// String names the era.
func (e Era) String() string { return [...]string{"legacy", "modern"}[e] }

// UpstreamEra is the era in which a request was sent to its server. The zero value means that it was not sent.
type UpstreamEra uint8

// In sets the era.
func (s *UpstreamEra) In(e Era) { *s = UpstreamEra(e) + 1 }

// String names the era; "none" if the request was not sent.
func (s UpstreamEra) String() string { return [...]string{"none", "legacy", "modern"}[s] }

// Client describes the client of a request. The byte slices are raw JSON, borrowed from the message (modern) or from the session
// (legacy).
type Client struct {
	Era      Era
	Version  string // the protocol revision of the request
	Info     []byte // Implementation object; nil if there is none
	Caps     []byte // ClientCapabilities object; nil if there is none
	LogLevel string // the lowest log level that it wants; empty: no log messages
}

// Header is a header field.
type Header struct{ Name, Value string }
