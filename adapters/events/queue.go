package events

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Sink is a receiver of events.
type Sink interface {
	// Deliver sends events in their order and returns nil once the receiver has taken all. An error that wraps a *Refusal says whether
	// and when to try again; any other may be tried again.
	Deliver(ctx context.Context, all []*Event) error
	// Close ends its connections.
	Close() error
}

// Refusal is the error of a receiver that has said what is to become of events.
type Refusal struct {
	Err   error
	Final bool          // it never takes them
	After time.Duration // not to try again before; 0: it says nothing
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// DeadLetters gets events that are given up.
type DeadLetters interface {
	// Put takes a letter, and waits for room until ctx is done. It reports whether the letter was taken.
	Put(ctx context.Context, l *Letter) bool
}

// Letter is an event that could not be delivered.
type Letter struct {
	Time   time.Time // when it was given up
	Sink   string
	Reason string
	Event  *Event
}

// QueueOptions configures a [Queue].
type QueueOptions struct {
	Name     string // of the sink
	Sink     Sink
	Dead     DeadLetters
	Bytes    int           // bounds the events in the queue, see [Event.Size]
	Attempts int           // to deliver an event
	Timeout  time.Duration // of an attempt
	Backoff  time.Duration // before the second attempt, doubled before each further one up to 30 s; up to a half of it is left off at random
	GiveUp   time.Duration // after an event was queued
	AtATime  int           // attempts
	Batch    int           // events in an attempt
	// Failing is called with the error when an attempt fails, once a minute at most, and then with nil when one succeeds again. It must not
	// block.
	Failing func(err error)
}

// Bounds of a Queue.
const (
	laneCount  = 256
	maxBackoff = 30 * time.Second
	maxAfter   = 5 * time.Minute // that a receiver may ask to wait
	closeTime  = 3 * time.Second // in which Close delivers what is queued
)

// Queue delivers events to one sink. The events of a source are delivered one attempt after the other, in the order in which they were put;
// other sources do not wait for them. A goroutine runs for each lane that has events, and there are 256 lanes, onto which the sources are spread.
//
// A receiver may get an event twice: when its answer is lost, and when an attempt is cut off by Close or HandOver.
type Queue struct {
	opt   QueueOptions
	slots chan struct{} // has an element for each attempt that runs
	work  sync.WaitGroup
	ctx   context.Context // ends attempts and pauses
	stop  context.CancelFunc
	ready chan struct{} // closed when what an earlier queue has left is here; nil: there was none
	moved chan struct{} // closed when a successor has what was left here; nil: there is none

	mu        sync.Mutex
	lanes     [laneCount]lane
	bytes     int
	count     int
	closed    bool
	successor *Queue
	paused    time.Time // no attempt is made before
	failing   bool      // the last call of Failing was about a failure
	told      time.Time // when it was

	accepted, delivered, retried, dead, lost atomic.Uint64
}

// lane holds the events of some sources, the oldest first.
type lane struct {
	items   []queued
	running bool
}

type queued struct {
	e    *Event
	size int
	at   time.Time
}

// laneSeed spreads sources alike in all queues, so that a lane can be handed over.
var laneSeed = maphash.MakeSeed()

// NewQueue returns a Queue. Close must be called.
func NewQueue(opt QueueOptions) *Queue {
	q := &Queue{opt: opt, slots: make(chan struct{}, opt.AtATime)}
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q
}

// QueueStats counts the events of a sink.
type QueueStats struct {
	Accepted  uint64 // put into the queue, or taken over from an earlier one
	Delivered uint64
	Retried   uint64 // attempts that failed and were followed by another
	Dead      uint64 // given to the dead letters
	Lost      uint64 // that the dead letters had no room for either
	Queued    int
	Bytes     int // of those
}

// Stats returns the counts.
func (q *Queue) Stats() QueueStats {
	q.mu.Lock()
	count, bytes := q.count, q.bytes
	q.mu.Unlock()
	return QueueStats{q.accepted.Load(), q.delivered.Load(), q.retried.Load(), q.dead.Load(), q.lost.Load(), count, bytes}
}

// reasonFull is why an event without room becomes a dead letter.
const reasonFull = "events.queue was full"

// Put queues an event without waiting. One without room becomes a dead letter. It returns false if there was no room for that either.
func (q *Queue) Put(e *Event) bool {
	size := e.Size()
	q.mu.Lock()
	if q.closed {
		successor := q.successor
		q.mu.Unlock()
		if successor != nil {
			return successor.Put(e)
		}
		return q.overflow(e, "the sink was closed")
	}
	if q.count > 0 && q.bytes+size > q.opt.Bytes {
		q.mu.Unlock()
		return q.overflow(e, reasonFull)
	}
	q.accepted.Add(1)
	q.push(e, size)
	q.mu.Unlock()
	return true
}

// push appends an event to its lane. The caller holds mu.
func (q *Queue) push(e *Event, size int) {
	n := int(maphash.String(laneSeed, e.Source) % laneCount)
	l := &q.lanes[n]
	l.items = append(l.items, queued{e, size, time.Now()})
	q.bytes, q.count = q.bytes+size, q.count+1
	q.start(n)
}

// start runs a lane unless it runs. The caller holds mu.
func (q *Queue) start(n int) {
	if l := &q.lanes[n]; !l.running && len(l.items) > 0 {
		l.running = true
		q.work.Go(func() { q.run(n) })
	}
}

// bury gives an event to the dead letters, which wait for room until ctx is done, and reports whether they took it.
func (q *Queue) bury(ctx context.Context, e *Event, reason string) bool {
	if !q.opt.Dead.Put(ctx, &Letter{Time: time.Now(), Sink: q.opt.Name, Reason: reason, Event: e}) {
		return false
	}
	q.dead.Add(1)
	return true
}

// overflow makes an event a dead letter without waiting. It returns false if there is no room.
func (q *Queue) overflow(e *Event, reason string) bool {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	taken := q.bury(now, e, reason)
	if !taken {
		q.lost.Add(1)
	}
	return taken
}

// errStopped ends a lane whose queue was stopped.
var errStopped = errors.New("events: stopped")

// run delivers the events of a lane until there are none, or the queue is stopped.
func (q *Queue) run(n int) {
	if q.ready != nil {
		select {
		case <-q.ready:
		case <-q.ctx.Done():
		}
	}
	for {
		q.mu.Lock()
		l := &q.lanes[n]
		if len(l.items) == 0 || q.ctx.Err() != nil {
			if len(l.items) == 0 {
				l.items = nil
			}
			l.running = false
			q.mu.Unlock()
			return
		}
		batch := head(l.items, q.opt.Batch)
		q.mu.Unlock()
		settled, _ := q.settle(batch)
		q.mu.Lock()
		for _, x := range batch[:settled] {
			q.bytes, q.count = q.bytes-x.size, q.count-1
		}
		clear(l.items[:settled])
		l.items = l.items[settled:]
		q.mu.Unlock()
	}
}

// maxBatch bounds the bytes of the events in one attempt.
const maxBatch = 1 << 20

// head returns a copy of the first events, at most most of them.
func head(items []queued, most int) []queued {
	n, size := 1, items[0].size
	for n < min(most, len(items)) && size+items[n].size <= maxBatch {
		size += items[n].size
		n++
	}
	return append([]queued(nil), items[:n]...)
}

// settle delivers events, or gives them up. It returns how many of the first are settled: fewer than all only with errStopped.
func (q *Queue) settle(batch []queued) (int, error) {
	all := make([]*Event, len(batch))
	for i := range batch {
		all[i] = batch[i].e
	}
	for attempt := 1; ; attempt++ {
		err := q.attempt(all)
		if err == nil {
			q.delivered.Add(uint64(len(all)))
			return len(batch), nil
		}
		if q.ctx.Err() != nil {
			return 0, errStopped
		}
		refusal := &Refusal{}
		errors.As(err, &refusal)
		if refusal.Final && len(batch) > 1 { // one of them may be why
			return q.each(batch)
		}
		if refusal.Final || attempt >= q.opt.Attempts || time.Since(batch[0].at) >= q.opt.GiveUp {
			return q.giveUp(batch, fmt.Sprintf("%v (attempt %d)", err, attempt))
		}
		q.retried.Add(1)
		if refusal.After > 0 {
			q.pause(refusal.After)
		}
		if !q.sleep(backoff(q.opt.Backoff, attempt)) {
			return 0, errStopped
		}
	}
}

// each settles events one by one.
func (q *Queue) each(batch []queued) (int, error) {
	for i := range batch {
		if _, err := q.settle(batch[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(batch), nil
}

// giveUp makes events dead letters. It waits for room, so that none is lost while the file is slow.
func (q *Queue) giveUp(batch []queued, why string) (int, error) {
	for i := range batch {
		if q.bury(q.ctx, batch[i].e, why) {
			continue
		}
		if q.ctx.Err() != nil { // it stays in the queue, and is dealt with at the queue's end
			return i, errStopped
		}
		q.lost.Add(1)
	}
	return len(batch), nil
}

// attempt tries once to deliver events, when it is its turn.
func (q *Queue) attempt(all []*Event) error {
	for {
		q.mu.Lock()
		wait := time.Until(q.paused)
		q.mu.Unlock()
		if wait > 0 && !q.sleep(wait) {
			return errStopped
		}
		select {
		case q.slots <- struct{}{}:
		case <-q.ctx.Done():
			return errStopped
		}
		q.mu.Lock()
		again := time.Until(q.paused) > 0
		q.mu.Unlock()
		if !again {
			break
		}
		<-q.slots
	}
	defer func() { <-q.slots }()
	ctx, cancel := context.WithTimeout(q.ctx, q.opt.Timeout)
	defer cancel()
	err := q.opt.Sink.Deliver(ctx, all)
	if q.ctx.Err() == nil {
		q.tell(err)
	}
	return err
}

// tellEvery is how often failures are reported.
const tellEvery = time.Minute

// tell reports a failure, and the first success after it.
func (q *Queue) tell(err error) {
	if q.opt.Failing == nil {
		return
	}
	q.mu.Lock()
	tell := q.failing
	if err != nil {
		tell = time.Since(q.told) >= tellEvery
	}
	if tell {
		q.failing = err != nil
		if err != nil {
			q.told = time.Now()
		}
	}
	q.mu.Unlock()
	if tell {
		q.opt.Failing(err)
	}
}

// pause makes all attempts wait, as the receiver has asked.
func (q *Queue) pause(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until := time.Now().Add(min(d, maxAfter)); until.After(q.paused) {
		q.paused = until
	}
}

// backoff returns how long to wait after a number of failed attempts.
func backoff(first time.Duration, failed int) time.Duration {
	d := min(first<<min(failed-1, 20), maxBackoff)
	return d - rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}

// sleep waits, and returns false when the queue is stopped.
func (q *Queue) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-q.ctx.Done():
		return false
	}
}

// HandOver gives what is queued, and what comes later, to another queue for the same sink, in order. Attempts that run are cut off. It does not
// wait. The heir must not have got any event yet.
func (q *Queue) HandOver(heir *Queue) {
	heir.ready, q.moved = make(chan struct{}), make(chan struct{})
	q.mu.Lock()
	q.closed, q.successor = true, heir
	q.mu.Unlock()
	q.stop()
	heir.work.Go(func() {
		defer close(q.moved)
		defer close(heir.ready)
		q.work.Wait()
		heir.adopt(q)
	})
}

// adopt puts what another queue has left before what is queued.
func (q *Queue) adopt(from *Queue) {
	from.mu.Lock()
	left := from.lanes
	count, bytes := from.count, from.bytes
	from.lanes, from.count, from.bytes = [laneCount]lane{}, 0, 0
	from.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count, q.bytes = q.count+count, q.bytes+bytes
	q.accepted.Add(uint64(count)) //nolint:gosec // a count
	for n := range left {
		q.lanes[n].items = append(left[n].items, q.lanes[n].items...)
		q.start(n)
	}
}

// Close delivers what is queued for at most 3 s; the rest becomes dead letters. Events that are put later do, too.
func (q *Queue) Close() {
	q.mu.Lock()
	handed := q.successor != nil
	q.closed = true
	q.mu.Unlock()
	if handed {
		<-q.moved
	} else {
		q.drain()
	}
	_ = q.opt.Sink.Close() // what it reports changes nothing any more
}

// drain ends a queue that has no successor.
func (q *Queue) drain() {
	late := time.AfterFunc(closeTime, q.stop)
	q.work.Wait()
	late.Stop()
	q.stop()
	q.mu.Lock()
	var left []queued
	for n := range q.lanes {
		left = append(left, q.lanes[n].items...)
		q.lanes[n].items = nil
	}
	q.bytes, q.count = 0, 0
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for i := range left {
		if !q.bury(ctx, left[i].e, "the sink was closed before the event was delivered") {
			q.lost.Add(1)
		}
	}
}
