// Package probe finds out which revisions a server speaks.
//
// It asks server/discover; if that shows no modern server, initialize followed by ping; over HTTP finally the HTTP+SSE transport. No
// single error code decides (2026-07-28 versioning, stdio Backward Compatibility): an answer that is not a modern one shows nothing,
// and only a successful initialize shows a legacy server. Each step has a connection, or process, of its own. A process that is silent
// to server/discover may only be slow: it is kept until a second one has answered initialize (late.go).
//
// The Keeper remembers the profile that was found, lets many requests wait for one probe, and forgets what the server contradicts.
package probe
