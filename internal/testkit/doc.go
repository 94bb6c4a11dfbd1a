// Package testkit holds what the tests of several packages share: waiting with a deadline, files and addresses of a test, the test binary as
// Dragoman itself. It imports nothing of Dragoman, so that every package's tests may use it.
package testkit
