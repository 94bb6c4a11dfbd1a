// Package heap sets how much the heap may grow before a garbage collection. It does so when it is initialized, which is before the packages
// of others are: it imports nothing that is initialized later, and Go initializes packages in the order of their paths.
package heap

import (
	"os"
	"runtime/debug"
)

// collectAt is how much the heap may grow, in percent of the live data, before a garbage collection. A proxy keeps little alive and makes
// much garbage: at the default of 100 the collector would run after every few hundred requests to save a few megabytes.
const collectAt = 400

// What packages allocate when they are initialized is close to the first collection at the default, which would be a fifth of the time of a
// start. That collection would find hardly any garbage.
func init() { //nolint:gochecknoinits // main is too late for the packages that are initialized before it
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
}
