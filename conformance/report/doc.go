// Package report writes the findings of a run of the conformance suite: on the terminal, as JSON that can be read again, as JUnit XML,
// SARIF, Markdown and a badge. It judges a run (which findings fail it, which were expected to fail, which entries of that list are
// stale), compares two runs, and documents the checks themselves.
//
// All formats are written from a Report, which New makes from findings. New also removes the secrets of the run, so that no writer has to.
// The package does not depend on how a run is made.
package report
