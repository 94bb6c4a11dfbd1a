// Command beside compares the findings of `dragoman conformance` with those of the official suite at servers made with different SDKs,
// and writes conformance/BESIDE.md.
//
// Each server of servers.tsv is started and tested by both suites in one run, `dragoman conformance --official --json`: the official one
// goes straight to a server over streamable HTTP, and through Dragoman to one over stdio. counterparts.tsv maps the official checks to
// ours; differs.tsv must explain every difference. faults.tsv names the cause of each MUST that a server breaks. Exit code 1 means that
// something is not explained, or that an explanation is no longer needed.
//
//	make beside [ARGS=flags]      installs what the servers need, and runs it from the root of the repository
package main
