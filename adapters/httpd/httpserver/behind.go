package httpserver

import (
	"errors"
	"sync"
)

// behindPiece is how much of a backlog is written at a time, and then counted as read.
const behindPiece = 64 << 10

// errWaits is returned by a write that gives up when it has to wait.
var errWaits = errors.New("httpd: the peer takes its time")

// waiting is a connection whose client may let its writes wait.
type waiting interface {
	// write writes p; if patient is false it returns errWaits when it has to wait for long.
	write(p []byte, patient bool) (int, error)
	// takesAtOnce reports whether write returns soon if patient is false.
	takesAtOnce(n int) bool
	// cut breaks the connection off.
	cut()
}

// backlog writes the events of a streamed response. When the client lets a write wait for long, what it has not read is queued, and a
// goroutine writes that while the response is pulled on: what makes the events ends as if the client read them. Its methods belong to
// the goroutine that pulls.
type backlog struct {
	to      waiting
	answers *answers
	part    *part         // of the connection
	idle    chan struct{} // closed at the end of the last goroutine; nil: there was none

	mu      sync.Mutex
	queue   [][]byte
	writing bool  // the goroutine runs; only it writes
	err     error // of a write
}

// Write implements io.Writer. It waits for a client that is behind only for as long as it has no room, and nothing of p is kept. A
// client that reads too slowly is cut off with ErrSlowReader.
func (b *backlog) Write(p []byte) (int, error) {
	if b.idle != nil {
		b.mu.Lock()
		writing, err := b.writing, b.err
		b.mu.Unlock()
		if err != nil {
			return 0, err
		}
		if writing {
			return len(p), b.enqueue(p)
		}
	}
	if !b.to.takesAtOnce(len(p)) {
		return len(p), b.enqueue(p)
	}
	return len(p), b.writeNow(p)
}

// writeNow writes p, and queues what the client lets wait.
func (b *backlog) writeNow(p []byte) error {
	room := 0
	if len(p) >= largeAnswer {
		if b.answers.reserve(b.part, len(p)) != AnswersFit {
			return ErrSlowReader
		}
		room = len(p)
	}
	n, err := b.to.write(p, false)
	if err != nil && err != errWaits { //nolint:errorlint // it is never wrapped
		return err
	}
	rest := p[n:]
	switch {
	case room > 0:
		b.answers.sub(b.part, n)
	case len(rest) > 0 && !b.answers.add(b.part, len(rest)):
		return ErrSlowReader
	}
	if len(rest) > 0 {
		b.push(rest)
	}
	return nil
}

// enqueue queues p once there is room for it.
func (b *backlog) enqueue(p []byte) error {
	if b.answers.reserve(b.part, len(p)) != AnswersFit {
		b.to.cut() // what is queued waits no longer
		return ErrSlowReader
	}
	b.push(p)
	return nil
}

// push queues a copy of p, which has its room, and has it written.
func (b *backlog) push(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.queue) - 1; last >= 0 && len(b.queue[last])+len(p) <= behindPiece {
		b.queue[last] = append(b.queue[last], p...)
	} else {
		b.queue = append(b.queue, append([]byte(nil), p...))
	}
	if !b.writing && b.err == nil {
		b.writing, b.idle = true, make(chan struct{})
		go b.run(b.idle) // the goroutine that pulls waits for it
	}
}

// run writes the queue until it is empty, waiting for the client. If that fails it breaks the connection off.
func (b *backlog) run(idle chan<- struct{}) {
	defer close(idle)
	for {
		b.mu.Lock()
		if len(b.queue) == 0 {
			b.queue, b.writing = nil, false
			b.mu.Unlock()
			return
		}
		out := b.queue[0]
		b.queue[0], b.queue = nil, b.queue[1:]
		b.mu.Unlock()
		if err := b.send(out); err != nil {
			b.mu.Lock()
			b.queue, b.writing, b.err = nil, false, err
			b.mu.Unlock()
			b.to.cut()
			return
		}
	}
}

// send writes out, and gives its room back as the client takes it.
func (b *backlog) send(out []byte) error {
	for len(out) > 0 {
		n, err := b.to.write(out[:min(len(out), behindPiece)], true)
		b.answers.sub(b.part, n)
		if err != nil {
			return err
		}
		out = out[n:]
	}
	return nil
}

// wait waits until everything is written.
func (b *backlog) wait() error {
	if b.idle == nil {
		return nil
	}
	<-b.idle
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
