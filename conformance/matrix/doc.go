// Package matrix turns the results of a conformance run into a document: every kind of client at every kind of server,
// feature by feature. It reads and writes text, and knows nothing of how the results came about; what was not run is
// shown as not run.
package matrix
