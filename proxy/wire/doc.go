// Package wire reads and writes JSON-RPC 2.0 messages of the Model Context Protocol as bytes and places in those bytes.
//
// Scan walks a message once, checks that it is strict JSON (RFC 8259: no control characters in strings, valid UTF-8,
// bounded nesting) and remembers where the members lie that a proxy has to know. Nothing is decoded: large integers, key order,
// unknown members and the writer's own escaping survive, because what is not edited leaves as it came. A change is an
// Edit, a place and the bytes that go there, and is applied once, by Append, when the message leaves.
//
// The package knows no revision, no transport and no method; it imports the standard library only.
package wire
