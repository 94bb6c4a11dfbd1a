// Package httpd owns every connection that speaks HTTP, on both sides of the proxy, so that no other package needs to
// know what fasthttp leaves to its user. It knows HTTP/1.1 and nothing of what is said with it.
//
// Downstream, a Server reads requests within limits, hands them to handlers, and closes in order. Watch tells a handler
// that its client has left; StreamAfter answers with events pulled from a Source, one write each; Hold keeps a connection open
// for as long as both sides like, without a goroutine.
//
// Upstream, a Host is one origin and its pool of connections. Send writes a request and returns at once; the Answer is
// then read at the caller's pace, and can be aborted from anywhere.
//
// Four facts shape the code. fasthttp never reports that a client has gone, so an accepted connection is registered with
// one shared watcher. Its client cannot be cancelled and reuses dead connections, so the pool here is our own. Its write
// deadline covers a whole response, so ours is set for each write. Its buffers keep their largest size, so large ones are
// taken away from it.
package httpd
