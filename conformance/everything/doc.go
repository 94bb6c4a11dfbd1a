// Package everything is an MCP server of revision 2026-07-28 that has a little of everything: tools that answer at once,
// report progress, log, wait and fail, every kind of content, resources with templates, prompts, completion and
// pagination. It stands behind `dragoman demo`, and tests and benchmarks talk to it.
//
// It is a proxy.Upstream: it takes modern exchanges and gives modern Replies. It knows no transport and no legacy
// revision; those are put in front of it by the same code that serves the clients of the proxy. What it refuses, it
// refuses as a server does, with an error response; an error from Do means that it could not answer at all.
//
// One tools/call, walked:
//
//  1. Do finds the tool in the table. A tool that only computes (tool.answer) runs inside Do.
//  2. A tool that takes time or sends notifications (tool.run) gets a call: a goroutine, and a bounded queue from it to
//     its Replies. A full queue makes the tool wait for its reader.
//  3. Next takes from the queue; the response is the last message in it.
//  4. Close, Cancel of the exchange, and Server.Close stop a call that still runs; Close waits until it has ended.
//
// Its lists never change, so no listChanged and no subscribe is declared, and subscriptions/listen is -32601.
package everything
