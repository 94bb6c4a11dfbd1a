package supervisor

import (
	"sync"
	"time"
)

const (
	// stderrBurst and stderrRate limit the reported lines of a child's stderr, in lines, and lines a second. Once the
	// limit is reached, reporting pauses for the time of stderrPause lines, so that the dropped lines are reported once a
	// second and not with every line.
	stderrBurst = 50
	stderrRate  = 10
	stderrPause = 10
)

// limiter is a token bucket, one token a line.
type limiter struct {
	mu      sync.Mutex
	tokens  float64
	at      time.Time
	dry     bool
	dropped int // since the last line that passed
}

func newLimiter(now time.Time) *limiter { return &limiter{tokens: stderrBurst, at: now} }

// take reports whether a line may pass, and if so how many lines before it were dropped.
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

// rest returns how many lines were dropped since the last that passed, and resets the count.
func (l *limiter) rest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.dropped
	l.dropped = 0
	return n
}
