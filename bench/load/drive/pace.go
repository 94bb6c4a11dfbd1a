package drive

import (
	"runtime"
	"time"
)

// pacer makes calls due at a constant rate, independent of earlier answers: all calls that become due during a stall wait for the server.
type pacer struct {
	d        *driver
	begin    time.Time
	end      time.Time
	requests uint64
	into     *tally
	due      chan time.Time
}

func newPacer(d *driver, begin, end time.Time, requests uint64, into *tally) *pacer {
	return &pacer{d: d, begin: begin, end: end, requests: requests, into: into, due: make(chan time.Time, d.plan.Queue)}
}

// run queues calls as they become due. It has a thread of its own: a thread's sleep ends on time, while Go's timers have a resolution of a
// millisecond.
func (p *pacer) run() {
	runtime.LockOSThread() // never unlocked: the thread's timer slack is changed, so that it must end with this goroutine
	defer close(p.due)
	punctual()
	for n := uint64(0); p.requests == 0 || n < p.requests; n++ {
		at := p.begin.Add(time.Duration(float64(n) / p.d.plan.Rate * float64(time.Second)))
		if !at.Before(p.end) {
			break
		}
		if !p.await(at) {
			p.abandon()
			return
		}
		p.hand(at)
	}
	p.leave()
}

// longestSleep is the longest delay before an interruption is noticed.
const longestSleep = 50 * time.Millisecond

// await waits until a time and reports whether the run goes on.
func (p *pacer) await(at time.Time) bool {
	for p.d.ctx.Err() == nil {
		left := time.Until(at)
		if left <= 0 {
			return true
		}
		sleep(min(left, longestSleep))
	}
	return false
}

// hand queues a call. If the queue is full, the oldest call is dropped.
func (p *pacer) hand(at time.Time) {
	for {
		select {
		case p.due <- at:
			return
		default:
		}
		select {
		case old := <-p.due:
			p.drop(old)
		default:
		}
	}
}

func (p *pacer) drop(due time.Time) {
	if p.into != nil {
		p.into.drop(due, time.Since(due))
	}
}

// leave gives waiting calls the time of one answer to be sent.
func (p *pacer) leave() {
	last := time.Now().Add(p.d.plan.Timeout)
	for p.into != nil && len(p.due) > 0 && time.Now().Before(last) && p.d.ctx.Err() == nil {
		sleep(time.Millisecond)
	}
	p.abandon()
}

// abandon counts the calls that were not sent.
func (p *pacer) abandon() {
	for {
		select {
		case old := <-p.due:
			p.drop(old)
		default:
			return
		}
	}
}
