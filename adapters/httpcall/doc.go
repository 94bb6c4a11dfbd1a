// Package httpcall implements one POST to an MCP server over HTTP as proxy.Replies. The response is JSON or an event
// stream, and is read as it arrives. A broken stream is reopened where the revision allows it.
package httpcall
