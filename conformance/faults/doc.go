// Package faults puts a bad network between Dragoman and a server and records the outcome for each kind of client.
//
// Dragoman is the released binary: `dragoman serve`, or `dragoman stdio` for clients that start a process. Between it and a scripted
// server are Toxiproxy, which delays, slices, throttles, drops and cuts data in both directions, and a gate on each side of it for what
// Toxiproxy cannot do: reset open connections, close one direction, refuse connections. Each case has its own of all of these.
//
// It is a module of its own, with tests only, so that Dragoman does not depend on Toxiproxy.
package faults
