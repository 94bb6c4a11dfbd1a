//go:build linux

package main

import (
	"fmt"
	"regexp"
	"time"
)

const (
	maxDuration = 24 * time.Hour
	maxRate     = 1000
)

// settings is the checked command line.
type settings struct {
	dragoman string         // program
	npx      string         // directory to run npx in; its packages are those of conformance
	json     string         // file; empty: none
	keep     string         // directory for logs; empty: a temporary one
	only     *regexp.Regexp // scenarios
	duration time.Duration  // of the load
	warmup   time.Duration
	patience time.Duration // time for everything to settle
	rate     int           // clients per second in each scenario
	rounds   int           // number of kills
	seed     uint64
}

// check refuses settings that cannot be run.
func (s *settings) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("soak: unexpected argument %q", rest[0])
	case s.duration <= 0 || s.duration > maxDuration:
		return fmt.Errorf("soak: --duration must be above 0 and at most %v", maxDuration)
	case s.rate < 1 || s.rate > maxRate:
		return fmt.Errorf("soak: --rate must be 1 to %d", maxRate)
	}
	return nil
}
