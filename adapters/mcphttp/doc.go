// Package mcphttp holds what modern and legacy streamable HTTP share on the client's side: reading one POST and telling
// the eras apart, and turning Replies into an HTTP answer, JSON or an event stream, whichever the first reply calls for.
// It knows the eras by name only; what each demands of a request is in adapters/modern and adapters/legacy.
package mcphttp
