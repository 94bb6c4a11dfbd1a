// Package everything is an MCP server for demonstrations and tests: tools that answer at once, report progress, log, wait
// and fail; tools and prompts that ask the client; every kind of content; resources with templates; completion;
// pagination; and lists and resources that change. It runs in `dragoman demo`, in tests and in benchmarks.
//
// It is a proxy.Upstream that answers each client in its own era (proxy.Client.Era): modern clients in revision
// 2026-07-28, legacy clients in the revision of their session. It knows no transport: the caller owns the sessions, the
// streams and the ids of a session's questions. Like any server it refuses a request with an error response; an error
// from Do means that it could not answer at all.
//
// A tools/call takes these steps:
//
//  1. Do finds the tool in the table. A tool that only computes (tool.answer) runs inside Do.
//  2. A tool that takes time or sends notifications (tool.run) gets a calls.Call: a goroutine, and a bounded queue from it to
//     its Replies. A full queue makes the tool wait for its reader.
//  3. A tool with questions (tool.script) is written once, as rounds of questions and a function of the answers. A modern
//     client gets each round as a result and repeats the call with the answers (calls/ask.go). Earlier answers travel in the
//     sealed requestState (calls/seal.go), so the server keeps no state. A legacy client gets the questions among the replies of
//     a call, and its answers come through the session (calls/ask_legacy.go).
//  4. Next takes messages from the queue; the response is the last one.
//  5. Close, Cancel of the exchange, and Server.Close stop a running call and withdraw its open questions. Close waits
//     until the call has ended.
//
// Changes are published to modern listens and legacy sessions (package changes). Publishing never waits for a client, and
// each change is kept at most once for a client that does not read.
package everything
