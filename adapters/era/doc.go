// Package era lets parties on either side of 2026-07-28 reach one another.
//
// Upgrade takes a legacy client to a modern server, Downgrade a modern client to a legacy one; where both live in the
// same era neither runs, and the bytes pass as they came. Which era a server lives in is found by a ladder of probes
// (ladder.go), cached, and found anew when the server contradicts it.
//
// What a server asks crosses in two ways. A modern server's questions end a call, are put to the legacy client, and the call
// is made again (ask.go). A legacy server's come in the middle of a call, which is parked until the modern client comes back
// with the answers (dialogue.go, attach.go, park.go). Change notices cross as a watch for legacy clients (watch.go) and as a
// hearing for modern ones (listen.go).
//
// rules.go is the specification's history as tables. Nothing else in the house compares revisions.
//
// The package speaks no transport: it reaches servers through Links, which the adapters make.
package era
