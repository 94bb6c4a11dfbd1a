// Package httpclient sends requests of HTTP/1.1. A Host is one origin with its pool of connections. Host.Send writes a request and
// returns at once; the Response is then read at the caller's pace, and can be aborted from any goroutine.
//
// The pool is our own because fasthttp's client cannot be cancelled and reuses connections that the server has closed. Its buffers
// keep their largest size, so large ones are not kept here.
package httpclient
