// Package probe determines which revisions a server supports.
//
// The steps are server/discover; if the answer is not that of a modern server, initialize followed by ping; and over HTTP finally the
// HTTP+SSE transport. No single error code decides (2026-07-28 versioning, stdio Backward Compatibility): only a DiscoverResult or a
// version error shows a modern server, and only a successful initialize a legacy one. Each step has a connection, or process, of its
// own. A process that does not answer server/discover may be slow: it is kept until a second one has answered initialize.
//
// The Keeper stores the profile, lets many requests wait for one probe, and forgets a profile that the server contradicts.
package probe
