package supervisor

import (
	"sync"
	"time"
)

const (
	// stderrBurst and stderrRate limit what is told of a child's stderr, in lines, and lines a second. Once the limit is
	// reached it is silent for as long as stderrPause lines take: what is left out is then reported once a second, and not
	// with every line.
	stderrBurst = 50
	stderrRate  = 10
	stderrPause = 10
)

// limiter is a bucket of tokens, one a line.
type limiter struct {
	mu      sync.Mutex
	tokens  float64
	at      time.Time
	dry     bool
	dropped int // since a line was last let through
}

func newLimiter(now time.Time) *limiter { return &limiter{tokens: stderrBurst, at: now} }

// take tells whether a line may pass, and if so how many before it could not.
func (l *limiter) take(now time.Time) (pass bool, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = min(l.tokens+now.Sub(l.at).Seconds()*stderrRate, stderrBurst)
	l.at = now
	need := 1.0
	if l.dry {
		need = stderrPause
	}
	if l.tokens < need {
		l.dry = true
		l.dropped++
		return false, 0
	}
	l.tokens--
	l.dry = false
	dropped, l.dropped = l.dropped, 0
	return true, dropped
}

// rest tells how many lines were left out since the last that passed, once.
func (l *limiter) rest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.dropped
	l.dropped = 0
	return n
}
