// Package wire reads and writes JSON-RPC 2.0 messages of the Model Context Protocol as bytes and positions in them.
//
// Scan walks a message once, checks that it is strict JSON (RFC 8259: no control characters in strings, valid UTF-8,
// bounded nesting) and records the positions of the members that a proxy needs. Nothing is decoded: large integers, key order,
// unknown members and the writer's own escaping survive, because what is not edited is sent unchanged. A change is an Edit, a
// position and the bytes that replace it. Append applies the edits when the message is written.
//
// The package knows no revision, no transport and no method; it imports the standard library only.
package wire
