package peer

import "strings"

// Face is a transport and an era. The command line names faces with --face.
type Face string

// The faces. A server may have several.
const (
	ModernHTTP  Face = "modern-http"  // 2026-07-28 over streamable HTTP
	LegacyHTTP  Face = "legacy-http"  // streamable HTTP of 2025-03-26 to 2025-11-25
	SSE         Face = "sse"          // HTTP+SSE of 2024-11-05
	ModernStdio Face = "modern-stdio" // 2026-07-28 over lines
	LegacyStdio Face = "legacy-stdio" // earlier revisions over lines
	REST        Face = "rest"         // the REST envelope
)

// Faces lists all faces.
func Faces() []Face { return []Face{ModernHTTP, LegacyHTTP, SSE, ModernStdio, LegacyStdio, REST} }

// Modern reports whether every request carries its revision.
func (f Face) Modern() bool { return strings.HasPrefix(string(f), "modern-") }

// Stdio reports whether the server is a child process.
func (f Face) Stdio() bool { return strings.HasSuffix(string(f), "-stdio") }

// The revisions of the protocol, oldest first.
const (
	R2411 = "2024-11-05"
	R2503 = "2025-03-26"
	R2506 = "2025-06-18"
	R2511 = "2025-11-25"
	R2607 = "2026-07-28"
)

// Revisions lists the revisions of a face, oldest first.
func (f Face) Revisions() []string {
	switch {
	case f.Modern():
		return []string{R2607}
	case f == LegacyHTTP:
		return []string{R2503, R2506, R2511}
	case f == REST:
		return nil
	}
	return []string{R2411, R2503, R2506, R2511}
}

// Names in _meta of 2026-07-28.
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClient       = "io.modelcontextprotocol/clientInfo"
	MetaServer       = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
)
