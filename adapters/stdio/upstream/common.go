// Package upstream has what the stdio upstreams share: the supervised process and the socket.
package upstream

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"dragoman/proxy/wire"
)

// Called returns how an error message names the server: "the upstream server", with its quoted name if it has one.
func Called(name string) string {
	if name == "" {
		return "the upstream server"
	}
	return fmt.Sprintf("the upstream server %q", name)
}

// Key returns the server's name for a configuration key in an error message; NAME if it has none.
func Key(name string) string {
	if name == "" {
		return "NAME"
	}
	return name
}

// Duration formats a duration for error messages, rounded and without zero units.
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

// Complete reports whether a line is a JSON-RPC message.
func Complete(line []byte) bool {
	_, err := wire.Scan(line)
	return err == nil
}

// After the first noiseFirst lines of noise, one line is reported each noiseEach.
const (
	noiseFirst = 5
	noiseEach  = time.Minute
)

// Sampler limits the reports of noise: it passes the first few lines, and then one each minute. It is safe for concurrent
// use.
type Sampler struct {
	mu      sync.Mutex
	told    int
	last    time.Time
	skipped int
}

// Take reports whether a line read at time now is to be reported, and if so how many lines before it were not.
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
