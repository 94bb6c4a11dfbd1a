// Package input carries the questions of legacy servers to modern clients.
//
// A legacy server asks in the middle of a call. A Call is the call at the server, which outlives the client's request; a Waiter attaches
// a request to it. When the server asks, the request ends with input_required and a sealed handle, and the call is suspended in the
// Store, which all upstreams of a process share. The client's retry resumes it.
package input
