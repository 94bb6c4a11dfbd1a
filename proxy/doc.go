// Package proxy is the waist of Dragoman: what every client's request and every server's answer look like once their
// transport has been taken off.
//
// One request, walked:
//
//  1. A downstream adapter reads bytes, scans them into a wire.Message and makes an Exchange: the message, who the client
//     is and in which era it lives, and, for a legacy client, its Session.
//  2. The Exchange goes through a Handler: a Chain of policies around the Router.
//  3. The Router looks its Target up in the current Table and hands the Exchange to the target's Upstream.
//  4. The Upstream writes the request to its server and returns Replies at once.
//  5. The downstream adapter pulls: Next gives notifications as they come, then exactly one response, then io.EOF.
//  6. Close ends the exchange; before the response it cancels the call upstream. A client that leaves a modern exchange
//     is a Cancel, from whatever goroutine noticed it.
//
// The package speaks no transport and compares no revision; it imports proxy/wire and nothing else of the house.
package proxy
