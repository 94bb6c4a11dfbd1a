// Package suite says what a check is, runs checks at a server and keeps what was seen.
//
// A check is data and a function: which statement of which revision it looks at, how strong the statement is, and how a server is
// mended that fails. Checks themselves stand in conformance/checks; reports are made by conformance/report.
//
// Run first finds out which faces and revisions a server has, and what it offers there. Then each check is tried at each face and
// revision that it is for, in a trial of its own: with conversations that belong to nobody else, and with all that went over the wire
// as evidence. Every message that a server sends in any of them is held against the shape that its revision prescribes.
package suite
