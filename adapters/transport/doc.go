// Package transport declares what it takes to reach a server: a Link, opened by a Dial, is one conversation with it, and Wires are
// the Dials that there are. The adapters of HTTP, stdio, HTTP+SSE and REST implement Links; package era and those below it use them.
//
// The package also has what several Links need: minted ids, messages of a link's own that are on their way (Pending), the error of an
// answer that is no JSON-RPC (StatusError).
package transport
