package telemetry

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
)

// AuditLogOptions configures [OpenAuditLog].
type AuditLogOptions struct {
	File  string // lines are appended to it; see openTrail; empty: standard error
	Bytes int    // limit on the lines that wait to be written
	Block bool   // requests wait for room; else their lines are dropped and counted
	// Failed is called when lines are dropped or cannot be written: the first time at once, then once a minute at most.
	// lost is how many lines were lost since the last call. It must not block.
	Failed func(err error, lost uint64)
}

// Outcomes of lines of the audit trail.
const (
	lineWritten = "written"
	lineDropped = "dropped" // there was no room
	lineFailed  = "failed"  // the write failed
)

// errBehind is the reason for a dropped line.
var errBehind = errors.New("audit.queue is full, because the file is written too slowly, or not read")

// errHangs reports that Close gave up.
var errHangs = errors.New("the file takes no more")

// closeTime limits how long Close waits for a file that hangs.
const closeTime = 3 * time.Second

// AuditLog is the file of an audit trail. One goroutine writes all waiting lines with one write; only a full disk can
// leave half a line. Lines go to the operating system at once, and are synced to the disk when the file is reopened or
// closed: they survive the end of the process, but may not survive a loss of power.
type AuditLog struct {
	opt    AuditLogOptions
	counts *prometheus.CounterVec
	wake   chan struct{} // there is something to do
	ended  chan struct{}

	mu      sync.Mutex
	waiting []byte
	lines   int           // waiting lines
	writing int           // lines that are being written
	room    chan struct{} // closed when there is room again; nil: nobody waits
	reopen  bool
	closed  bool

	file *os.File // belongs to the writing goroutine

	reports  sync.Mutex // guards the next two
	reported time.Time
	lost     uint64

	successor atomic.Pointer[AuditLog] // gets the lines that come after Close; nil: they are dropped
}

// OpenAuditLog opens the file, registers the metrics with reg and starts writing. The caller must call Close.
func OpenAuditLog(opt AuditLogOptions, reg prometheus.Registerer) (*AuditLog, error) {
	file, err := openTrail(opt.File)
	if err != nil {
		return nil, err
	}
	r := policies.NewRegistry(reg)
	t := &AuditLog{opt: opt, file: file, wake: make(chan struct{}, 1), ended: make(chan struct{}), counts: r.Counter("dragoman_audit_lines_total",
		"Lines of the audit trail: written, dropped because audit.queue was full, failed because they could not be written.", "outcome")}
	r.Gauge("dragoman_audit_queue_bytes", "Bytes of audit lines that wait to be written.", t.queued)
	if err := r.Err(); err != nil {
		_ = closeTrail(opt.File, file) // nothing was written
		return nil, err
	}
	for _, outcome := range []string{lineWritten, lineDropped, lineFailed} {
		t.counts.WithLabelValues(outcome)
	}
	go t.run()
	return t, nil
}

// queued returns how many bytes wait to be written.
func (t *AuditLog) queued() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// closeTrail syncs a file, unless it is a pipe or a device, and closes it.
func closeTrail(path string, file *os.File) error {
	if path == "" {
		return nil
	}
	var err error
	if info, serr := file.Stat(); serr == nil && info.Mode().IsRegular() {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Reopen reopens the file by its name once all waiting lines are written, after another program has rotated it. If that
// fails, the old file stays in use.
func (t *AuditLog) Reopen() {
	t.mu.Lock()
	t.reopen = true
	t.mu.Unlock()
	t.notify()
}

func (t *AuditLog) notify() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// HandOver names the trail that gets the lines that come after Close: those of requests that began under an earlier
// configuration.
func (t *AuditLog) HandOver(to *AuditLog) { t.successor.Store(to) }

// Write queues one line, which ends with a line feed and which the caller may reuse. If opt.Block is set, Write waits
// for room until ctx is done.
func (t *AuditLog) Write(ctx context.Context, line []byte) {
	for {
		t.mu.Lock()
		fits := len(t.waiting)+len(line) <= t.opt.Bytes || len(t.waiting) == 0
		if !t.closed && fits {
			t.waiting = append(t.waiting, line...)
			t.lines++
			first := t.lines == 1
			t.mu.Unlock()
			if first {
				t.notify()
			}
			return
		}
		closed := t.closed
		if closed || !t.opt.Block {
			t.mu.Unlock()
			if successor := t.successor.Load(); closed && successor != nil {
				successor.Write(ctx, line)
				return
			}
			t.drop()
			return
		}
		if t.room == nil {
			t.room = make(chan struct{})
		}
		room := t.room
		t.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			t.drop()
			return
		}
	}
}

// drop counts a line for which there was no room.
func (t *AuditLog) drop() {
	t.counts.WithLabelValues(lineDropped).Inc()
	t.failed(errBehind, 1)
}

// keptTrail is the largest buffer that is kept for later lines, in bytes.
const keptTrail = 256 << 10

func (t *AuditLog) run() {
	defer close(t.ended)
	var spare []byte
	for {
		t.mu.Lock()
		text, lines, reopen, closed := t.waiting, t.lines, t.reopen, t.closed
		t.waiting, t.lines, t.reopen, t.writing = spare[:0], 0, false, lines
		if t.room != nil {
			close(t.room)
			t.room = nil
		}
		t.mu.Unlock()
		if lines > 0 {
			t.put(text, lines)
		}
		if spare = text; cap(spare) > keptTrail {
			spare = nil
		}
		if reopen && !closed {
			t.replaceFile()
		}
		switch {
		case lines > 0:
		case closed:
			if err := closeTrail(t.opt.File, t.file); err != nil {
				t.failed(err, 0)
			}
			return
		default:
			<-t.wake
		}
	}
}

// put writes the given lines to the file.
func (t *AuditLog) put(text []byte, lines int) {
	if _, err := t.file.Write(text); err != nil {
		t.counts.WithLabelValues(lineFailed).Add(float64(lines))
		t.failed(err, lines)
		return
	}
	t.counts.WithLabelValues(lineWritten).Add(float64(lines))
}

// replaceFile switches to a new file of the same name.
func (t *AuditLog) replaceFile() {
	if t.opt.File == "" {
		return
	}
	file, err := openTrail(t.opt.File)
	if err != nil {
		t.failed(err, 0)
		return
	}
	if err := closeTrail(t.opt.File, t.file); err != nil {
		t.failed(err, 0)
	}
	t.file = file
}

// failed reports a failure, once a minute at most.
func (t *AuditLog) failed(err error, lines int) {
	t.reports.Lock()
	t.lost += uint64(lines) //nolint:gosec // a number of lines
	if time.Since(t.reported) < time.Minute {
		t.reports.Unlock()
		return
	}
	lost := t.lost
	t.reported, t.lost = time.Now(), 0
	t.reports.Unlock()
	t.opt.Failed(err, lost)
}

// Close writes the waiting lines and ends the trail. Later lines go to the trail named by HandOver, or are dropped. A
// file that hangs delays it by 3 s; the lines that wait then are lost, counted and reported.
func (t *AuditLog) Close() {
	t.mu.Lock()
	t.closed = true
	if t.room != nil {
		close(t.room) // who waits for room goes on
		t.room = nil
	}
	t.mu.Unlock()
	t.notify()
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-t.ended:
		return
	case <-late.C:
	}
	t.mu.Lock()
	lost := t.lines + t.writing
	t.waiting, t.lines = nil, 0
	t.mu.Unlock()
	if lost > 0 {
		t.counts.WithLabelValues(lineFailed).Add(float64(lost))
	}
	t.reports.Lock()
	t.reported = time.Time{} // there is no later report
	t.reports.Unlock()
	t.failed(errHangs, lost)
}
