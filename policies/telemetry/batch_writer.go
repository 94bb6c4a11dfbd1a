package telemetry

import (
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Bounds on the lines that are gathered.
const (
	linesRoom = 64 << 10 // bytes that wait; as many again may be in a write
	linesTime = 10 * time.Millisecond
)

// BatchWriter gathers the lines of a log and writes them together, because a write for each line costs more than
// everything else about it. A line that comes after 10 ms of silence is written at once. A line of level warn or above
// is written at once, with all that wait. Other lines are written within 10 ms, or as soon as 64 KiB wait. A caller
// that finds no room waits for the write in progress. Lines keep their order. A process that is killed loses the lines
// of its last 10 ms; one that ends must call Close. It implements zerolog.LevelWriter, and is safe for concurrent use.
type BatchWriter struct {
	w     io.Writer
	timer *time.Timer // its goroutine lives only for a write

	out   sync.Mutex // held during a write; taken before mu
	spare []byte     // buffer for the next lines

	mu      sync.Mutex
	waiting []byte
	busy    bool // a line came lately: the timer runs
	closed  bool
	stamp   stamp
}

// NewBatchWriter returns a writer that gathers lines for w, which must accept several lines in one write. The caller
// must call Close.
func NewBatchWriter(w io.Writer) *BatchWriter {
	l := &BatchWriter{w: w}
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
	return l
}

// Write implements io.Writer. A line without a level is written at once.
func (l *BatchWriter) Write(line []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel implements zerolog.LevelWriter. The line must end with a line feed.
func (l *BatchWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	at := l.begin(len(line))
	l.end(append(at, line...), level <= zerolog.InfoLevel)
	return len(line), nil // an error of the write cannot be reported here
}

// begin takes the lock, and returns the waiting lines for one line to be appended. A line of at most most bytes fits
// without growing.
func (l *BatchWriter) begin(most int) []byte {
	l.mu.Lock()
	for len(l.waiting) > 0 && len(l.waiting)+most > linesRoom {
		l.mu.Unlock()
		l.flush()
		l.mu.Lock()
	}
	return l.waiting
}

// end stores the waiting lines, with the new one, and releases the lock. may says that the new line may wait.
func (l *BatchWriter) end(waiting []byte, may bool) {
	l.waiting = waiting
	if may && l.busy && !l.closed {
		l.mu.Unlock()
		return
	}
	if !l.busy && !l.closed {
		l.busy = true
		l.timer.Reset(linesTime)
	}
	l.mu.Unlock()
	l.flush()
}

// tick writes the lines of one interval and waits for the next; without lines it stops.
func (l *BatchWriter) tick() {
	l.mu.Lock()
	if len(l.waiting) == 0 || l.closed {
		l.busy = false
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.timer.Reset(linesTime)
	}
}

// flush writes the waiting lines.
func (l *BatchWriter) flush() {
	l.out.Lock()
	defer l.out.Unlock()
	l.mu.Lock()
	text := l.waiting
	l.waiting = l.spare[:0]
	l.mu.Unlock()
	if len(text) > 0 {
		_, _ = l.w.Write(text) // an error of the log cannot be logged
	}
	if l.spare = text; cap(text) > 2*linesRoom {
		l.spare = nil
	}
}

// Close writes the waiting lines. Later lines are written at once.
func (l *BatchWriter) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.timer.Stop()
	l.flush()
}

// stamp formats times as the log does: RFC 3339 in UTC with milliseconds. It keeps the text of the last second, which
// most lines share.
type stamp struct {
	second int64
	text   [len("2006-01-02T15:04:05.")]byte
}

// append appends a time that is given in nanoseconds since the Unix epoch.
func (s *stamp) append(b []byte, nanos int64) []byte {
	second, ms := nanos/int64(time.Second), nanos%int64(time.Second)/int64(time.Millisecond)
	if second != s.second || second == 0 {
		s.second = second
		time.Unix(second, 0).UTC().AppendFormat(s.text[:0], "2006-01-02T15:04:05.")
	}
	b = append(b, s.text[:]...)
	return append(b, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}
