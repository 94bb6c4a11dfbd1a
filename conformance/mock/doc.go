// Package mock tests clients: it starts a server that is made for it, has the client under test connect, and judges what came.
//
// A scenario is one server, at one face and revision: what it offers, and how it answers. The client's command is run once for each,
// with the URL as its last word, or in the place of {url}, and with the scenario's name in MCP_CONFORMANCE_SCENARIO. What it is to do
// is the least that any client can do: connect, list the tools, call each of them with fitting arguments, and end. Clients that were
// written for the official suite do that already; scenarios that mean the same have the names that they have there.
//
// A check sees all that was heard in a scenario. A client that never does what a check is about is skipped there, with the reason.
package mock
