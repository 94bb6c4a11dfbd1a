// Package mcphttp holds what modern and legacy streamable HTTP share towards clients: reading one POST and telling the eras apart,
// turning Replies into an HTTP response, JSON or an event stream, whichever the first reply calls for, and streams that are picked up
// again after they broke, which legacy HTTP has. Its counterpart towards servers is adapters/httpcall.
//
// It knows the eras by name only; what each demands of a request is in adapters/modern and adapters/legacy.
package mcphttp
