package app

import (
	"fmt"
	"io"
	"sync"
	"time"

	"dragoman/internal/app/logging"
)

// progress shows the steps of a probe while they are taken. On a terminal it is a line that counts the seconds, elsewhere a line for each
// step.
type progress struct {
	w        io.Writer
	place    string
	limit    time.Duration
	terminal bool
	began    time.Time
	stop     chan struct{}
	stopped  chan struct{}

	mu   sync.Mutex
	step string // empty: none has begun
	over bool
}

// newProgress shows the steps of a probe of place, which may take limit, until end is called.
func newProgress(w io.Writer, place string, limit time.Duration) *progress {
	p := &progress{w: w, place: place, limit: limit, terminal: logging.Terminal(w), began: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
	if !p.terminal {
		close(p.stopped)
		return p
	}
	go p.count()
	return p
}

// begin shows that a step begins.
func (p *progress) begin(step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.step = step
	if p.terminal {
		p.show()
		return
	}
	_, _ = fmt.Fprintf(p.w, "asking %s: %s\n", p.place, step)
}

// count shows every second how long the probe has taken.
func (p *progress) count() {
	defer close(p.stopped)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.mu.Lock()
			p.show()
			p.mu.Unlock()
		case <-p.stop:
			_, _ = fmt.Fprint(p.w, "\r\x1b[K")
			return
		}
	}
}

// show writes the line of a terminal. The caller holds p.mu.
func (p *progress) show() {
	step := ""
	if p.step != "" {
		step = ": " + p.step
	}
	_, _ = fmt.Fprintf(p.w, "\r\x1b[Kasking %s%s, %s of %s at most", p.place, step, time.Since(p.began).Round(time.Second), p.limit)
}

// end ends the display, once. It returns which step was the last, as the rest of a sentence; empty if none has begun.
func (p *progress) end() string {
	p.mu.Lock()
	over, step := p.over, p.step
	p.over = true
	p.mu.Unlock()
	if !over {
		close(p.stop)
	}
	<-p.stopped
	if step == "" {
		return ""
	}
	return ", the last step was " + step
}
