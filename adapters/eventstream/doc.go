// Package eventstream reads and writes text/event-stream, the framing of every
// streamed MCP answer: modern and legacy streamable HTTP and HTTP+SSE alike.
//
// A Splitter turns the bytes of a reader into Events; the Append functions turn
// events into bytes. Both follow the WHATWG HTML standard, §9.2 "Server-sent
// events", and where the standard lets a writer choose, the form that the
// strictest known reader accepts.
//
// The package knows nothing of JSON-RPC, of HTTP or of fasthttp: what an event
// means, when a reader must be given up and when a keep-alive is due is for the
// adapters to say. It starts no goroutine and holds no lock.
package eventstream
