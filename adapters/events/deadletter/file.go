// Package deadletter keeps events that could not be delivered, as lines of JSON in a file of bounded size.
package deadletter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/events"
	"dragoman/proxy/wire"
)

// Options configures [Open].
type Options struct {
	// Path is a file that lines are appended to; "": letters are only counted. Beside it is Path.1, the file before it.
	Path string
	// Bytes bounds the two files together. When Path has half of it, it becomes Path.1, and what was Path.1 is evicted.
	Bytes int
	// Queue bounds the bytes that wait to be written.
	Queue int
	// Failed is called when letters are lost: the first time at once, then once a minute at most. lost is how many were since the last
	// call. It must not block.
	Failed func(err error, lost uint64)
}

// Stats counts letters.
type Stats struct {
	Written uint64 // all that the file has got since it was opened
	Evicted uint64 // that were in a file that was removed to make room
	Failed  uint64 // that could not be written
	Dropped uint64 // that came while there was no file
	Waiting int    // bytes that are not written yet
}

// File is a file of dead letters. One goroutine writes it. Lines go to the operating system at once, and to the disk when the file is full and when it
// is closed: they survive the end of the process, but may not survive a loss of power. Its methods may be called from any goroutine.
type File struct {
	opt                               Options
	written, evicted, failed, dropped atomic.Uint64

	wake  chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	waiting []byte
	lines   int
	room    chan struct{} // closed when there is room again; nil: nobody waits
	closed  bool

	reports  sync.Mutex // guards the next two
	reported time.Time
	lost     uint64

	file *os.File // belongs to the writing goroutine, as does size
	size int64
}

var (
	errNoFile = errors.New("events.dead_letter names no file, and an event could not be delivered")
	errClosed = errors.New("the file of dead letters is closed")
	errHangs  = errors.New("the file of dead letters takes no more")
)

// Open opens the file, creates it with mode 0600 if there is none, and starts writing. Close must be called. Without a path it starts nothing.
func Open(opt Options) (*File, error) {
	f := &File{opt: opt, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	if opt.Path == "" {
		return f, nil
	}
	if err := f.open(); err != nil {
		return nil, err
	}
	go f.run()
	return f, nil
}

// Stats returns the counts.
func (f *File) Stats() Stats {
	f.mu.Lock()
	waiting := len(f.waiting)
	f.mu.Unlock()
	return Stats{f.written.Load(), f.evicted.Load(), f.failed.Load(), f.dropped.Load(), waiting}
}

// Put implements events.DeadLetters. Without a file it reports that there is none and returns true.
func (f *File) Put(ctx context.Context, l *events.Letter) bool {
	if f.opt.Path == "" {
		f.dropped.Add(1)
		f.report(errNoFile, 1)
		return true
	}
	line := appendLetter(nil, l)
	for {
		f.mu.Lock()
		switch {
		case f.closed:
			f.mu.Unlock()
			f.failed.Add(1)
			f.report(errClosed, 1)
			return false
		case len(f.waiting) == 0 || len(f.waiting)+len(line) <= f.opt.Queue:
			f.waiting = append(f.waiting, line...)
			f.lines++
			f.mu.Unlock()
			f.notify()
			return true
		}
		if f.room == nil {
			f.room = make(chan struct{})
		}
		room := f.room
		f.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
	}
}

// appendLetter appends the line of a letter.
func appendLetter(dst []byte, l *events.Letter) []byte {
	b := wire.NewBuilder(dst)
	b.Text("time", l.Time.UTC().Format("2006-01-02T15:04:05.000Z"))
	b.Text("sink", l.Sink)
	b.Text("reason", wire.ShownText(l.Reason))
	b.Key("event")
	at := len(b.Raw)
	b.Raw = l.Event.AppendJSON(b.Raw)
	for i, c := range b.Raw[at:] {
		if c == '\n' || c == '\r' { // white space of JSON: those of a text are escaped
			b.Raw[at+i] = ' '
		}
	}
	return append(b.Done(), '\n')
}

func (f *File) notify() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// keptBuffer is the largest buffer that is kept for later lines, in bytes.
const keptBuffer = 256 << 10

func (f *File) run() {
	defer close(f.ended)
	var spare []byte
	for {
		f.mu.Lock()
		text, lines, closed := f.waiting, f.lines, f.closed
		f.waiting, f.lines = spare[:0], 0
		if f.room != nil {
			close(f.room)
			f.room = nil
		}
		f.mu.Unlock()
		if lines > 0 {
			f.put(text)
		}
		if spare = text; cap(spare) > keptBuffer {
			spare = nil
		}
		switch {
		case lines > 0:
		case closed:
			if err := f.sync(); err != nil {
				f.report(err, 0)
			}
			return
		default:
			<-f.wake
		}
	}
}

// put writes lines, in parts that fit into the file.
func (f *File) put(text []byte) {
	half := int64(f.opt.Bytes / 2)
	for len(text) > 0 {
		part, room := text, half-f.size
		if int64(len(part)) > room {
			part = part[:bytes.LastIndexByte(part[:max(room, 0)], '\n')+1]
		}
		if len(part) == 0 && f.size > 0 {
			if err := f.rotate(); err != nil {
				f.lose(err, text)
				return
			}
			continue
		}
		if len(part) == 0 { // a line that is larger than half of the bound; the configuration does not allow it
			part = text[:bytes.IndexByte(text, '\n')+1]
		}
		text = text[len(part):]
		if _, err := f.file.Write(part); err != nil {
			err = errors.Join(err, f.file.Truncate(f.size)) // half a line would spoil the next
			f.lose(err, part)
			continue
		}
		f.size += int64(len(part))
		f.written.Add(lines(part))
	}
}

func lines(text []byte) uint64 { return uint64(bytes.Count(text, []byte{'\n'})) } //nolint:gosec // a count

// lose counts lines that could not be written.
func (f *File) lose(err error, text []byte) {
	n := lines(text)
	f.failed.Add(n)
	f.report(err, n)
}

// rotate makes the file the one before, and begins another.
func (f *File) rotate() error {
	if err := f.sync(); err != nil {
		return err
	}
	old := f.opt.Path + ".1"
	f.evicted.Add(countLines(old))
	if err := os.Rename(f.opt.Path, old); err != nil {
		return errors.Join(err, f.open())
	}
	return f.open()
}

// countLines counts the lines of a file; 0 if there is none.
func countLines(path string) (n uint64) {
	file, err := os.Open(path) //nolint:gosec // G304: beside the file that the operator names
	if err != nil {
		return 0
	}
	defer file.Close()
	buf := make([]byte, 64<<10)
	for {
		read, err := file.Read(buf)
		n += lines(buf[:read])
		if err != nil {
			return n
		}
	}
}

// sync writes the file to the disk and closes it.
func (f *File) sync() error { return errors.Join(f.file.Sync(), f.file.Close()) }

// report reports a failure, once a minute at most.
func (f *File) report(err error, n uint64) {
	f.reports.Lock()
	f.lost += n
	if time.Since(f.reported) < time.Minute {
		f.reports.Unlock()
		return
	}
	lost := f.lost
	f.reported, f.lost = time.Now(), 0
	f.reports.Unlock()
	f.opt.Failed(err, lost)
}

// closeTime limits how long Close waits for a file that hangs.
const closeTime = 3 * time.Second

// Close writes what waits and closes the file. Letters that come later are lost, which is counted and reported, as are those that wait when the file
// has hung for 3 s.
func (f *File) Close() {
	f.mu.Lock()
	if f.closed || f.opt.Path == "" {
		f.closed = true
		f.mu.Unlock()
		return
	}
	f.closed = true
	f.mu.Unlock()
	f.notify()
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-f.ended:
		return
	case <-late.C:
	}
	f.mu.Lock()
	waiting := f.waiting
	f.waiting, f.lines = nil, 0
	f.mu.Unlock()
	f.lose(errHangs, waiting)
}

// endsInLine reports whether a file is empty or ends in a line feed, as one does that was not cut.
func endsInLine(file *os.File, size int64) (bool, error) {
	if size == 0 {
		return true, nil
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], size-1); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return last[0] == '\n', nil
}
