// Command beside puts what `dragoman conformance` finds beside what the official suite finds, at servers made with different SDKs, and
// writes conformance/BESIDE.md.
//
// Each server of servers.tsv is started and met by both suites in one run, `dragoman conformance --official --json`: the official one
// goes straight to a server over streamable HTTP, and through Dragoman to one over stdio. counterparts.tsv says which of our checks look
// at what a check of the official suite looks at; where the two do not find the same, differs.tsv must say why. faults.tsv says whose
// the MUSTs are that a server breaks. An exit code of 1 means that something is not explained, or that an explanation is not needed
// any more.
//
//	make beside [ARGS=flags]      installs what the servers need, and runs it from the root of the repository
package main
