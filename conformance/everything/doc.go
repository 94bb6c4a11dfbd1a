// Package everything is an MCP server that has a little of everything: tools that answer at once, report progress, log,
// wait and fail, tools and prompts that ask the client, every kind of content, resources with templates, completion,
// pagination, and lists and resources that change. It stands behind `dragoman demo`, and tests and benchmarks talk to it.
//
// It is a proxy.Upstream that answers each client in its own era (proxy.Client.Era), modern ones in revision 2026-07-28,
// legacy ones in the revision of their session. It knows no transport: sessions, streams and the ids of a session's
// questions are those of whoever stands in front. What it refuses, it refuses as a server does, with an error response;
// an error from Do means that it could not answer at all.
//
// One tools/call, walked:
//
//  1. Do finds the tool in the table. A tool that only computes (tool.answer) runs inside Do.
//  2. A tool that takes time or sends notifications (tool.run) gets a call: a goroutine, and a bounded queue from it to
//     its Replies. A full queue makes the tool wait for its reader.
//  3. A tool that asks (tool.script) is written once, as rounds of questions and a function from the answers. A modern
//     client gets each round as a result and sends the call again with the answers (ask.go); what was answered before
//     travels in the requestState, sealed (seal.go), so nothing is kept here. A legacy client gets the questions of a
//     round among the replies of a call, and its answers come through the session (ask_legacy.go).
//  4. Next takes from the queue; the response is the last message in it.
//  5. Close, Cancel of the exchange, and Server.Close stop a call that still runs; Close waits until it has ended.
//     Questions that are open then are withdrawn.
//
// What changes is told to modern listens and legacy sessions by the board (board.go): never waiting for anybody, each
// thing kept at most once for who does not read.
package everything
