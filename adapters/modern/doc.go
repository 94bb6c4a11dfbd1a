// Package modern implements revision 2026-07-28 over HTTP, for clients and servers. Every POST is a self-contained
// request: it names its sender and revision in the body and repeats parts of the body in headers. Its answer is JSON or
// an event stream that ends with the response. Closing the connection cancels the request. There are no sessions and no
// GET.
package modern
