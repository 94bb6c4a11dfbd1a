package drive

import (
	"sync/atomic"
	"time"
)

// worker makes the calls of one connection.
type worker struct {
	d      *driver
	link   link
	index  int
	turn   int // index in the order of calls
	digits []byte
	next   uint64 // reserved call numbers
	until  uint64
	failed int // consecutive failed calls

	at     int // the second of bucket; -1: none
	bucket Second
}

// numbersAtOnce is the number of call numbers that a worker reserves at a time.
const numbersAtOnce = 256

// loop makes calls until the end, or until all requests are taken.
func (w *worker) loop(end time.Time, requests uint64, taken *atomic.Uint64, into *tally) {
	defer w.flush(into)
	now := time.Now()
	for now.Before(end) && w.d.ctx.Err() == nil && (requests == 0 || taken.Add(1) <= requests) {
		now = w.turnOf(now, now, into)
	}
}

// follow makes the calls that are due.
func (w *worker) follow(due <-chan time.Time, into *tally) {
	defer w.flush(into)
	for at := range due {
		w.turnOf(at, time.Now(), into)
	}
}

// turnOf makes the call that was due at a time, counts it, and returns the time afterwards.
func (w *worker) turnOf(due, sent time.Time, into *tally) time.Time {
	call := int(w.d.order[w.turn])
	if w.turn++; w.turn == len(w.d.order) {
		w.turn = 0
	}
	err := w.call(call, sent)
	now := time.Now()
	if err != nil && w.d.ctx.Err() != nil {
		return now // the interrupt may be the cause
	}
	w.count(due, sent, now, err, into)
	if err == nil {
		w.failed = 0
		return now
	}
	w.failed++
	if mended := w.link.mend(w.d.ctx, err); mended != nil || w.failed > failuresInARow {
		w.rest()
	}
	return time.Now()
}

// call makes one call and returns what is wrong with the answer.
func (w *worker) call(call int, now time.Time) error {
	if w.next == w.until {
		w.until = w.d.numbers.Add(numbersAtOnce)
		w.next = w.until - numbersAtOnce
	}
	w.digits = digits(w.digits, w.next)
	w.next++
	message, status, err := w.link.do(call, w.digits, now.Add(w.d.plan.Timeout))
	if err != nil {
		return err
	}
	err = w.d.judges[call].check(message, w.digits)
	if status != statusOK {
		if f, ok := err.(*fault); ok && len(f.kind) > 6 && f.kind[:6] == "error " {
			return err // the error says more than the status
		}
		return statusFault(status, message)
	}
	if err == nil {
		w.d.tally.bytes(w.index, len(message))
	}
	return err
}

const (
	failuresInARow = 10
	firstRest      = 10 * time.Millisecond
	longestRest    = time.Second
)

// rest waits after a failed call, longer after each further one.
func (w *worker) rest() {
	pause := min(firstRest<<min(max(w.failed-failuresInARow, 0), 10), longestRest)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.d.ctx.Done():
	}
}

// count counts a call. In the warm-up only errors count.
func (w *worker) count(due, sent, now time.Time, err error, into *tally) {
	if into == nil {
		if err != nil {
			w.d.tally.warmup(err)
		}
		return
	}
	latency := now.Sub(due)
	into.add(w.index, due, latency, now.Sub(sent), err)
	if second := int(now.Sub(into.begin) / time.Second); second != w.at {
		w.flush(into)
		w.at = second
	}
	if err != nil {
		w.bucket.Errors++
		return
	}
	w.bucket.Right++
	w.bucket.Sum += latency
	w.bucket.Max = max(w.bucket.Max, latency)
}

// flush adds the counts of a second to the tally.
func (w *worker) flush(into *tally) {
	if into != nil && w.at >= 0 {
		into.second(w.at, w.bucket)
	}
	w.at, w.bucket = -1, Second{}
}
