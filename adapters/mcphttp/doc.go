// Package mcphttp holds what modern and legacy streamable HTTP share. Towards clients: reading one POST and telling the eras
// apart, and turning Replies into an HTTP answer, JSON or an event stream, whichever the first reply calls for. Towards
// servers: one POST as Replies. And of both, streams that are picked up again after they broke, which legacy HTTP has.
//
// It knows the eras by name only; what each demands of a request is in adapters/modern and adapters/legacy.
package mcphttp
