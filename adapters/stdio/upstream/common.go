package upstream

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"dragoman/proxy/wire"
)

// Called names the server in a sentence.
func Called(name string) string {
	if name == "" {
		return "the upstream server"
	}
	return fmt.Sprintf("the upstream server %q", name)
}

// Key is the server's name in a key.
func Key(name string) string {
	if name == "" {
		return "NAME"
	}
	return name
}

// Duration prints a duration for people.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} { // 1m0s is 1m, 1h0m0s is 1h
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Complete tells whether a line is a message.
func Complete(line []byte) bool {
	_, err := wire.Scan(line)
	return err == nil
}

// After noiseFirst lines of noise, one is let through each noiseEach.
const (
	noiseFirst = 5
	noiseEach  = time.Minute
)

// Sampler lets the first few lines through, and then one from time to time.
type Sampler struct {
	mu      sync.Mutex
	told    int
	last    time.Time
	skipped int
}

// Take tells whether a line is told, and if so how many before it were not.
func (s *Sampler) Take(now time.Time) (tell bool, skipped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told >= noiseFirst && now.Sub(s.last) < noiseEach {
		s.skipped++
		return false, 0
	}
	s.told++
	s.last = now
	skipped, s.skipped = s.skipped, 0
	return true, skipped
}
