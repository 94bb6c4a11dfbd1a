// Package report tells what a run of the conformance suite has found: on the terminal, as JSON that can be read again, as JUnit XML,
// SARIF, Markdown and a badge. It judges a run (which findings fail it, which were expected to fail, which entries of that list are
// stale), compares two runs, and tells of the checks themselves.
//
// Everything is made of a Report, which New makes of findings. What the tester was given to keep to itself is taken out there, once,
// so that no writer has to think of it. The package knows nothing of how a run is made.
package report
