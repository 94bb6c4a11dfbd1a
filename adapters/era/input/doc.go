// Package input brings the questions of legacy servers to modern clients.
//
// A legacy server asks in the middle of a call. Such a call is a Call of its own, which outlives the client's request: a Waiter is the
// request that is attached to it. When the server asks, the request ends with input_required and a sealed handle, and the call is
// suspended in the Store, of which there is one for the process. The client's retry finds it there.
package input
