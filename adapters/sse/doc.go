// Package sse speaks HTTP+SSE of revision 2024-11-05: one GET stream carries everything the server sends, its first
// event names the URL to which the client posts everything it sends. The stream is the session. The transport is
// deprecated, and in wide use.
package sse
