// Package sse implements HTTP+SSE of revision 2024-11-05, for clients and servers. One GET stream carries everything that
// the server sends. Its first event names the URL to which the client posts its messages. The stream is the session. The
// transport is deprecated but widely used.
package sse
