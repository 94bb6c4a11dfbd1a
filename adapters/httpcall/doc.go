// Package httpcall is one POST to an MCP server over HTTP as proxy.Replies: its response is JSON or an event stream, and is read as it
// arrives. A stream that breaks is opened again where the revision allows it.
package httpcall
