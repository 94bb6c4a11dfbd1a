// Package mcphttp holds what modern and legacy streamable HTTP share on the client's side: reading a POST and telling the
// eras apart, turning Replies into an HTTP response (JSON or an event stream, depending on the first reply), and resuming
// the streams of legacy clients. Its counterpart on the server's side is adapters/httpcall.
//
// The package knows the eras by name only. The rules of each era are in adapters/modern and adapters/legacy.
package mcphttp
