// Package mock tests clients: it starts a server that is made for it, has the client under test connect, and judges what came.
//
// A scenario is one server, at one face and revision: what it offers, and how it answers. The client's command is run once for each,
// with the URL as its last word, or in the place of {url}, and with the scenario's name in MCP_CONFORMANCE_SCENARIO. What it is to do
// is the least that any client can do: connect, list the tools, call each of them with fitting arguments, and end. Clients that were
// written for the official suite do that already; scenarios that mean the same have the names that they have there.
//
// Over stdio a client starts its server itself. It gets the words of a command, in the place of {command}, which start a Relay: a
// process that decides nothing, hands all that happens to it to the process that judges, over a Unix socket, and says what that tells
// it. So one process sees what every server of the client was told, when its input was closed, and by which signal it ended.
//
// A check sees all that was heard in a scenario. A client that never does what a check is about is skipped there, with the reason.
package mock
