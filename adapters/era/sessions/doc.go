// Package sessions decides which clients of a server have sessions and processes in common.
//
// Modern clients use a legacy server in the sessions of a Pool: by principal, client info, capabilities and carried headers, with
// which a session was opened. A call in which the server may ask has a lease of its session. A session receives what the server sends
// outside calls and hands it to the one call that it can belong to (inbox.go), or to the listens of its client (subscriptions.go).
//
// Links are the open links to a modern server: one over HTTP, as many processes as the Isolation says behind a pipe. Quota counts
// processes, those of other packages too, and keeps them within the limits.
package sessions
