// Package http1 reads and writes messages of HTTP/1.1 (RFC 9112): heads line by line, fields without normalising or copying them,
// bodies with or without chunks. It is strict, because two readers that differ in what they accept let an attacker hide one message
// in another. It works on buffers and knows no connections.
package http1
