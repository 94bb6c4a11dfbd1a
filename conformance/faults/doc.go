// Package faults puts a bad network between Dragoman and a server, and writes down what each kind of client sees of it.
//
// Dragoman is the binary, as it is shipped: `dragoman serve`, or `dragoman stdio` for clients that start a process. Between it and a
// scripted server lie Toxiproxy, which delays, slices, throttles, swallows and cuts what goes either way, and a gate on each of
// its sides, for what Toxiproxy does not do: resets of connections that are open already, closing of one direction, refusing.
// Each case has all of these to itself, so that none is judged by what another has left behind.
//
// It is a module of its own, with tests only: Toxiproxy and what it needs do not belong to the requirements of Dragoman.
package faults
