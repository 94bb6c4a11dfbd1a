// Package modern speaks revision 2026-07-28 over HTTP: every POST is one request that says for itself who sends it and
// in which revision, mirrored into headers; its answer is JSON or an event stream that ends with the response; closing
// the connection is the cancellation. There is no session and no GET.
package modern
