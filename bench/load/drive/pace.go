package drive

import (
	"runtime"
	"time"
)

// pacer makes calls due at a constant rate, whatever becomes of those before: a server that stalls is waited for by all the calls that
// were due meanwhile.
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

// run hands out what is due until all was. It has a thread for itself, whose sleep ends on time, which that of Go's timers does not:
// theirs is a millisecond.
func (p *pacer) run() {
	runtime.LockOSThread() // for good: the thread ends with us, for its sleep is not like others'
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

// await waits for a time, and tells whether the run goes on.
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

// hand puts a call into the queue. Where it is full the oldest has waited in vain.
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

// leave lets what still waits be sent, for as long as an answer may take.
func (p *pacer) leave() {
	last := time.Now().Add(p.d.plan.Timeout)
	for p.into != nil && len(p.due) > 0 && time.Now().Before(last) && p.d.ctx.Err() == nil {
		sleep(time.Millisecond)
	}
	p.abandon()
}

// abandon counts what was not sent.
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
