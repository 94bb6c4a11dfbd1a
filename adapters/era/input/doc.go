// Package input carries servers' questions to clients of the other era.
//
// A legacy server asks in the middle of a call. A Call is the call at the server, which outlives the modern client's request; a Waiter
// attaches a request to it. When the server asks, the request ends with input_required and a sealed handle, and the call is suspended in
// the Store, which all upstreams of a process share. The client's retry resumes it. A call that ended with error -32042 waits for
// nothing: its retry is a new call.
//
// A question of a modern server ends its call. An Inquiry puts it to the legacy client, and the call is sent again with the answer.
package input
