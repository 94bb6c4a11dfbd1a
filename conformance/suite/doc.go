// Package suite defines checks, runs them at a server and returns findings.
//
// A check is data and a function: the statement of a revision that it tests, the level of the statement, and the fix for a server that
// fails. The checks are in conformance/checks, the reports in conformance/report.
//
// Discover returns the faces and revisions of a server and what it offers there. Run then runs each check at each of its faces and
// revisions in its own trial, with its own connections, whose messages are the evidence. It also validates every message of the server
// against the schema of its revision.
package suite
