// Package eventstream reads and writes text/event-stream, the framing of every streamed MCP answer in modern and legacy
// streamable HTTP and in HTTP+SSE.
//
// A Splitter turns the bytes of a reader into Events; the Append functions turn events into bytes. Both follow the WHATWG
// HTML standard, §9.2 "Server-sent events". Where the standard leaves a choice to the writer, the package writes the form
// that the strictest known reader accepts.
//
// The package knows nothing about JSON-RPC, HTTP or fasthttp: the adapters decide what an event means, when to stop
// reading and when to send a keep-alive. It starts no goroutine and holds no lock.
package eventstream
