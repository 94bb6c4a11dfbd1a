package logging

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Notes returns a function that logs what an adapter reports of itself. A warning that comes again and again, as that of a
// server which stays unreachable, is logged at growing intervals only, each time with how often it came since.
func Notes(log zerolog.Logger) func(level, msg string, err error) {
	var again repeats
	return func(level, msg string, err error) {
		l, perr := zerolog.ParseLevel(level)
		if perr != nil {
			l = zerolog.InfoLevel
		}
		line := log.WithLevel(l).AnErr("cause", err)
		if l == zerolog.WarnLevel {
			said, before := again.say(msg, time.Now())
			if !said {
				return
			}
			if before > 0 {
				line = line.Int("repeated", before)
			}
		}
		line.Msg(msg)
	}
}

const (
	// firstAgain and lastAgain bound the intervals at which one warning is repeated, which are doubled each time.
	firstAgain = time.Minute
	lastAgain  = time.Hour
	// mostWarnings is how many texts are told apart. Adapters choose them; the bound is for mistakes.
	mostWarnings = 64
)

// repeats tells which warnings have been logged a moment ago. The zero value is ready to use.
type repeats struct {
	mu  sync.Mutex
	all map[string]*repeated
}

type repeated struct {
	next  time.Time // when the warning is logged again
	pause time.Duration
	left  int // how often it was left out since
}

// say reports whether to log a warning at a time, and how often it was left out before. One that has not come for an interval
// is logged at once, and its intervals begin anew.
func (r *repeats) say(text string, now time.Time) (said bool, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.all[text]
	switch {
	case w == nil:
		if r.all == nil || len(r.all) >= mostWarnings {
			r.all = make(map[string]*repeated)
		}
		r.all[text] = &repeated{next: now.Add(firstAgain), pause: firstAgain}
		return true, 0
	case now.Before(w.next):
		w.left++
		return false, 0
	}
	if w.left == 0 { // it has been away
		w.pause = firstAgain / 2
	}
	w.pause = min(2*w.pause, lastAgain)
	left, w.left, w.next = w.left, 0, now.Add(w.pause)
	return true, left
}
