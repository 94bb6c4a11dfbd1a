package logging

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds on a log that is written more slowly than it grows.
const (
	writerRoom = 512 << 10 // bytes that wait; as many again may be in a write
	writerKept = 64 << 10  // bytes of a buffer that is kept for later lines
	// flushTime limits how long the end of a command waits for the reader of the log.
	flushTime = time.Second
)

// Writer passes the lines of a log on to a reader that may be slow, or not read at all: a pipe that is full, a terminal
// that is stopped, a disk that hangs. Its callers never wait for the reader, and never see its errors. What does not fit
// into 512 KiB, and what cannot be written, is dropped and counted. Lines keep their order. It is safe for concurrent
// use.
type Writer struct {
	to      io.Writer
	dropped atomic.Uint64 // lines, in all

	mu      sync.Mutex
	waiting []byte
	spare   []byte
	writing chan struct{}      // closed when the goroutine that writes has ended; nil: there is none
	untold  uint64             // dropped lines that the log does not mention yet
	lost    func(lines uint64) // see OnLoss
}

// NewWriter returns a Writer that writes to w. It has no goroutine while no line waits.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// OnLoss sets the function that says in the log that lines are missing. It is called once lines can be written again,
// and may write to w.
func (w *Writer) OnLoss(say func(lines uint64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = say
}

// Dropped returns the number of lines that were dropped.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

// Write implements io.Writer for whole lines. It neither waits nor fails.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting)+len(text) > writerRoom {
		w.drop(text)
		return len(text), nil
	}
	w.waiting = append(w.waiting, text...)
	if w.writing == nil {
		w.writing = make(chan struct{})
		go w.run(w.writing) // ends when nothing waits; Flush waits for it
	}
	return len(text), nil
}

// drop counts the lines of a text. The caller holds the lock.
func (w *Writer) drop(text []byte) {
	n := uint64(bytes.Count(text, []byte("\n"))) //nolint:gosec // not negative
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	w.untold += n
	w.dropped.Add(n)
}

// run writes what waits until nothing does.
func (w *Writer) run(ended chan struct{}) {
	defer close(ended)
	w.mu.Lock()
	defer w.mu.Unlock()
	flows := false // the last write succeeded
	for {
		text := w.waiting
		w.waiting, w.spare = w.spare[:0], nil
		if flows && w.untold > 0 && w.lost != nil {
			w.tell() // now there is room for it
		}
		if len(text) == 0 && len(w.waiting) == 0 {
			break
		}
		if len(text) == 0 {
			continue
		}
		w.mu.Unlock()
		n, err := w.to.Write(text)
		w.mu.Lock()
		if flows = err == nil; !flows {
			w.drop(text[min(max(n, 0), len(text)):])
		}
		if cap(text) <= writerKept {
			w.spare = text
		}
	}
	if cap(w.waiting) > writerKept {
		w.waiting = nil
	}
	w.writing = nil
}

// tell says how many lines are missing. It is called with the lock, which it releases meanwhile.
func (w *Writer) tell() {
	lines, say := w.untold, w.lost
	w.untold = 0
	w.mu.Unlock()
	defer w.mu.Lock()
	say(lines)
}

// Flush waits until everything is written, at most limit, and reports whether it is.
func (w *Writer) Flush(limit time.Duration) bool {
	w.mu.Lock()
	writing := w.writing
	w.mu.Unlock()
	if writing == nil {
		return true
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-writing:
		return true
	case <-late.C:
		return false
	}
}

// Fd returns the descriptor of the file that w writes to; the largest number if that is no file. See [Terminal].
func (w *Writer) Fd() uintptr {
	if f, ok := w.to.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}
