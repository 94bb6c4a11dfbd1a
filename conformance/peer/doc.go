// Package peer is the other side of a server or client under test: it says what a program of a revision says, and also what none should.
//
// HTTP and Child are raw: a request is sent as it is written, a line likewise, and what comes back is given as it came. A Conn stands
// on one of them and holds a conversation of one face and revision: the handshake, ids, who is answered where. Everything that goes
// out and comes in is shown to a watcher, which is where evidence comes from.
//
// It shares nothing with the adapters that translate, so that it cannot be wrong in the way in which they are: it knows what stands in
// the specification. From them it has only what frames bytes: lines, events of a stream, and the start of a child.
package peer
