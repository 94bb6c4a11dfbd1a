package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings is the checked command line.
type settings struct {
	dragoman, nginx string // programs
	grpc, ghz       string // programs of the section grpc
	results         string // directory
	rounds          int
	duration        time.Duration
	warmup          time.Duration
	connections     int
	sizes           []int
	sections        []section
	cells           []cell
	sse             bool
	hold            time.Duration // how long sessions are held
	instructions    int           // calls; 0: times are measured
	keep            string        // directory; empty: callgrind's files are removed
	limits          string        // file; empty: there are none
	summarise       string        // file; empty: a run is made
}

const (
	minSize    = 1
	maxSize    = 32 << 20
	maxRounds  = 1000
	maxCounted = 1_000_000
	// maxConnections bounds the memory of requests of the largest size.
	maxConnections = 512
	longest        = time.Hour

	wholeRounds = 7 // with fewer the report is marked as rough
)

const (
	usualSizes   = "300,10240,1048576"
	countedSizes = "300"
)

// check refuses settings that cannot be run, or not within a day.
func (s *settings) check() error {
	switch {
	case s.rounds < 1 || s.rounds > maxRounds:
		return fmt.Errorf("bench: --rounds must be 1 to %d", maxRounds)
	case s.duration <= 0 || s.duration > longest:
		return fmt.Errorf("bench: --duration must be above 0 and at most %v", longest)
	case s.warmup < 0 || s.warmup > longest:
		return fmt.Errorf("bench: --warmup must be 0 to %v", longest)
	case s.instructions < 0 || s.instructions > maxCounted:
		return fmt.Errorf("bench: --instructions must be 0 to %d", maxCounted)
	case s.instructions == 0 && s.keep != "":
		return errors.New("bench: --keep is for --instructions")
	case s.limits != "" && len(s.sections) > 0 && (len(s.sections) > 1 || s.sections[0].name != secCalls && s.sections[0].name != secStart):
		return errors.New("bench: --limits is for one of the sections calls and start")
	case s.hold < 0 || s.hold > 24*longest:
		return errors.New("bench: --minutes must be 0 to 1440")
	case s.connections < 1 || s.connections > maxConnections:
		return fmt.Errorf("bench: --connections must be 1 to %d", maxConnections)
	}
	return nil
}

// longest bounds a run that hangs.
func (s *settings) longest() time.Duration {
	rows := time.Duration(len(s.cells)*(len(s.sizes)+len(sseSizes())) + 40)
	return rows*time.Duration(s.rounds+1)*(s.duration+s.warmup+perMeasurement) + s.hold + time.Hour
}

// perMeasurement is what a measurement may take beside its own duration. It is used only to bound the run.
const perMeasurement = 30 * time.Second

func parseSizes(list string) ([]int, error) {
	var sizes []int
	for word := range strings.SplitSeq(list, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || size < minSize || size > maxSize {
			return nil, fmt.Errorf("bench: --sizes: %q is not a number of bytes from %d to %d", word, minSize, maxSize)
		}
		if !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	return sizes, nil
}

// sseSizes are the sizes of answers that are event streams.
func sseSizes() []int { return []int{300, 10 << 10} }

const smallSize = 300
