// Package sessions decides which clients of a server have sessions and processes in common.
//
// A Pool holds the sessions in which modern clients use a legacy server. A session is shared by clients of equal principal, client info,
// capabilities and forwarded headers. A call in which the server may ask leases its session. A session delivers what the server sends
// outside calls to the one call that it can belong to (inbox.go), or to the listens of its client (subscriptions.go).
//
// Links holds the links to a modern server: one over HTTP; as many processes as the Isolation permits behind a pipe. Quota counts the
// processes of a server, those of other packages included, and enforces their limits.
package sessions
