//go:build race

package schema

// messages is fewer under the race detector, which makes them ten times as slow.
const messages = 2_000
