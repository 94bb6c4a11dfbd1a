// Package reference holds the programs on either side of the process under test: an MCP server over HTTP, one over stdio, and a reverse
// proxy that parses nothing, which is the lower bound of a hop's cost.
//
// The servers have one tool, echo, and do as little as possible per call: they look for the few members they need and do not validate. They
// are no model of how to serve MCP.
package reference
