// Package load calls one tool of an MCP server again and again over a fixed
// number of connections, checks every answer and measures how long each took.
//
// The loop is closed: a connection sends its next call when the last is answered.
// The generator writes its requests from a template and reads with fasthttp's
// codec, so that on a machine shared with the process under test it takes as
// little as possible away from it. What it measures against is package
// reference's echo tool; it knows nothing of processes.
package load
