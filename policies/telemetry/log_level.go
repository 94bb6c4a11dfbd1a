package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Level is the minimum level of all loggers that are made from it, and may change while they are in use. A logger has
// it as its sampler, so that a disabled event costs one atomic read and writes nothing, and as a hook, for loggers that
// have another sampler. It is safe for concurrent use.
type Level struct {
	now atomic.Int32

	mu    sync.Mutex
	fixed zerolog.Level // in force after a temporary change
	until time.Time     // end of a temporary change; zero: never
	back  *time.Timer
}

// NewLevel returns a Level that is set to at.
func NewLevel(at zerolog.Level) *Level {
	l := &Level{fixed: at}
	l.now.Store(int32(at))
	return l
}

// Logger returns log with l as its minimum level, whatever its own was.
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

// Now returns the current level, the level after a temporary change, and when that ends; a zero time is never.
func (l *Level) Now() (now, fixed zerolog.Level, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return zerolog.Level(l.now.Load()), l.fixed, l.until //nolint:gosec // it is one
}

// Set changes the level permanently.
func (l *Level) Set(at zerolog.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fixed = at
	l.put(at, 0)
}

// SetFor changes the level for span. After that, the level that was Set last is in force again. A span of 0 lasts until
// the next change.
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

// Close cancels the end of a temporary change.
func (l *Level) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(zerolog.Level(l.now.Load()), 0) //nolint:gosec // it is one
}
