package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Level is the least level that is logged, of all loggers that were made from one, and can be another while they are used. A logger has
// it as its sampler, so that what is off costs a look at a number, and nothing is written; and as a hook, for loggers with another
// sampler of their own. It is safe for use by many goroutines.
type Level struct {
	now atomic.Int32

	mu    sync.Mutex
	fixed zerolog.Level // that it goes back to
	until time.Time     // when; zero: never
	back  *time.Timer
}

// NewLevel begins with a level.
func NewLevel(at zerolog.Level) *Level {
	l := &Level{fixed: at}
	l.now.Store(int32(at))
	return l
}

// Logger is a logger that goes by the level, whatever its own was.
func (l *Level) Logger(log zerolog.Logger) zerolog.Logger {
	return log.Level(zerolog.TraceLevel).Sample(l).Hook(l)
}

// Sample implements zerolog.Sampler.
func (l *Level) Sample(at zerolog.Level) bool { return int32(at) >= l.now.Load() }

// Run implements zerolog.Hook.
func (l *Level) Run(e *zerolog.Event, at zerolog.Level, _ string) {
	if !l.Sample(at) {
		e.Discard()
	}
}

// Now tells the level, the one that it goes back to, and when; a zero time is never.
func (l *Level) Now() (now, fixed zerolog.Level, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return zerolog.Level(l.now.Load()), l.fixed, l.until //nolint:gosec // it is one
}

// Set changes the level for good.
func (l *Level) Set(at zerolog.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fixed = at
	l.put(at, 0)
}

// SetFor changes the level for a time; 0 is until it is changed again. Then it is the one that was Set last.
func (l *Level) SetFor(at zerolog.Level, span time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(at, span)
}

func (l *Level) put(at zerolog.Level, span time.Duration) {
	if l.back != nil {
		l.back.Stop()
	}
	l.back, l.until = nil, time.Time{}
	l.now.Store(int32(at))
	if span <= 0 {
		return
	}
	l.until = time.Now().Add(span)
	var timer *time.Timer
	timer = time.AfterFunc(span, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.back == timer { // else it was changed meanwhile
			l.put(l.fixed, 0)
		}
	})
	l.back = timer
}

// Close takes back that it goes back.
func (l *Level) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back != nil {
		l.back.Stop()
	}
	l.back, l.until = nil, time.Time{}
}
