// Package transport declares how to reach a server. A Link is one conversation with a server, opened by a Dial; Server and its Wires say
// which Dials there are. The adapters of HTTP, stdio, HTTP+SSE and REST implement Links; package era and the packages below it use them.
//
// The package also has what several Links need: ids that are unique on a link (Minted), messages sent in the background (Pending), and
// the error for an HTTP answer that is no JSON-RPC (StatusError).
package transport
