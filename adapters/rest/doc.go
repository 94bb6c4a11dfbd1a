// Package rest serves the REST envelope (seed 000, entities 1–7): callers that do not speak MCP reach any MCP server through it.
// Its subpackage upstream makes an MCP server of a service that speaks the envelope.
package rest
