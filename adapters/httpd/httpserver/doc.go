// Package httpserver serves HTTP/1.1. A Server reads requests within limits, passes their heads to gates and the requests to
// handlers, and shuts down in order. WatchClient reports that a client has left. StreamFrom answers with events that are pulled from a
// Source. OpenStream keeps a connection open, without a goroutine, for events that are written to it.
//
// Handlers get fasthttp's RequestCtx, but requests are read here: fasthttp's server normalises each head, asks the clock four times a
// request, shows no head before its body, never reports that a client has gone, and has one write deadline for a whole response.
// Of a request ctx has method, target and Host; its fields are those of FieldsOf.
//
// The package knows HTTP and nothing of the messages in it. The functions for a RequestCtx need one of a Server of this package.
package httpserver
