// Package reference holds what the benchmark puts on either side of the process
// under test: an MCP server over HTTP, one over stdio, and a reverse proxy that
// parses nothing, the measure of what a hop costs at least.
//
// The servers know one tool, echo, and do as little per call as can be done: they
// look for the few members they need and do not validate. They are no model of
// how to serve MCP.
package reference
