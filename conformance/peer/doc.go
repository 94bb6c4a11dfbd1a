// Package peer is the client of a server under test. It sends the messages of every revision, and malformed ones.
//
// HTTP and Child are raw: they send requests and lines as written and return what they receive. A Conn uses one of them for a face and a
// revision: it does the handshake, counts ids and matches responses with requests. A Watcher sees all sent and received data; it collects
// the evidence.
//
// The package does not use the adapters that translate, so that it does not share their mistakes: it follows the specification. From the
// adapters it has only the framing of bytes: lines, events of a stream, and the start of a child.
package peer
