// Package mux makes a transport.Link of a channel on which everything shares one stream each way: a process's pipes, a socket, or
// the two halves of HTTP+SSE.
//
// Each call has an id of the channel's own and a bounded queue. A reader that does not read loses the oldest notifications, never
// the response, and never holds up the others. What names no call (questions, log messages) goes to the only call that it could
// belong to, or to the link's Sink.
package mux
