// Package rest is the REST envelope, both ways (seed 000, entities 1–7): downstream it lets callers without MCP reach any MCP
// server, upstream it makes an MCP server of a service that speaks the envelope.
package rest
