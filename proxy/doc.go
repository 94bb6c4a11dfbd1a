// Package proxy is the core of Dragoman: requests and answers independent of their transport.
//
// The steps of one request:
//
//  1. A downstream adapter reads bytes, scans them into a wire.Message and makes an Exchange: the message, the client and its
//     era, and, for a legacy client, its Session.
//  2. The Exchange goes through a Handler: a Chain of policies around the Router.
//  3. The Router looks up its Target in the current Table and passes the Exchange to the target's Upstream.
//  4. The Upstream writes the request to its server and returns Replies at once.
//  5. The downstream adapter pulls: Next returns notifications as they come, then exactly one response, then io.EOF.
//  6. Close ends the exchange; before the response it cancels the call upstream. When the client of a modern exchange leaves,
//     the goroutine that detects it calls Cancel.
//
// The package knows no transport and compares no revision. It imports proxy/wire and no other package of the module.
package proxy
