// Package mock tests clients: it starts a mock server, runs the client under test against it, and judges the received messages.
//
// A scenario is a server at one face and revision: its tools and its answers. The client's command runs once for each scenario, with the
// URL as its last word or in place of {url}, and with the name of the scenario in MCP_CONFORMANCE_SCENARIO. The client has to connect, list
// the tools, call each of them with valid arguments, and exit, as clients for the official suite do. Scenarios that exist there have the
// same names here.
//
// Over stdio a client starts its server itself, with the command in place of {command}. The command is a Relay: a process that forwards its
// input, the end of it and its signals over a Unix socket to the process that judges, and writes what that process sends. So one process
// sees the input of every server of the client, the end of the input, and the signals.
//
// A check judges all messages of a scenario. If the client never does what a check is about, the check is skipped with the reason.
package mock
