// Package matrix turns the results of a conformance run into a document: every kind of client at every kind of server,
// feature by feature. It only reads and writes text. Combinations that were not run are shown as not run.
package matrix
