package drive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// numberEach makes the first number of a run depend on the time: the number of a REST call is its idempotency key, and a server would
// answer a key of an earlier run with the stored result. It yields 100 000 numbers per second, which repeat after a day.
const numberEach = int64(10 * time.Microsecond)

func newDriver(ctx context.Context, p *Plan) *driver {
	d := &driver{ctx: ctx, plan: p, order: order(p.Calls), tally: newTally(p)}
	for _, c := range p.Calls {
		d.judges = append(d.judges, &judge{call: c, rest: p.Face == REST, plain: p.Face == Plain})
	}
	d.numbers.Store(uint64(time.Now().UnixNano() / numberEach))
	d.links, d.stop = d.newLinks()
	for i, l := range d.links {
		d.workers = append(d.workers, &worker{d: d, link: l, index: i, turn: i * len(d.order) / len(d.links), digits: make([]byte, numberLen), at: -1})
	}
	return d
}

// open opens all links.
func (d *driver) open() error {
	errs := make(chan error, 1)
	places := make(chan struct{}, openers)
	var all sync.WaitGroup
	for _, l := range d.links {
		places <- struct{}{}
		if d.ctx.Err() != nil {
			<-places
			break
		}
		all.Go(func() {
			defer func() { <-places }()
			if err := l.open(d.ctx); err != nil {
				select {
				case errs <- err:
				default: // one is enough: they are equal
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return fmt.Errorf("drive: %w", err)
	default:
		return d.ctx.Err()
	}
}

// Runner is a plan with open connections and running processes.
type Runner struct{ d *driver }

// Open opens the connections, starts the processes and begins the sessions of a plan. Close it.
func Open(ctx context.Context, p Plan) (*Runner, error) {
	if err := p.complete(); err != nil {
		return nil, err
	}
	r := &Runner{newDriver(ctx, &p)}
	if err := r.d.open(); err != nil {
		r.d.close()
		return nil, err
	}
	return r, nil
}

// Close ends the sessions and the processes.
func (r *Runner) Close() { r.d.close() }

// PIDs returns the processes of a stdio face.
func (r *Runner) PIDs() (all []int) {
	for _, c := range r.d.children {
		if pid := c.PID(); pid != 0 {
			all = append(all, pid)
		}
	}
	return all
}

// Run warms up and measures, once. If the context of Open ends early, the result covers the time until then.
func (r *Runner) Run() *Result {
	d := r.d
	over := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { d.hurry(over) })
	helpers.Go(func() { d.tell(over) })
	if d.plan.Warmup > 0 {
		d.phase(d.plan.Warmup, 0, nil)
	}
	measures := d.ctx.Err() == nil
	if measures {
		d.mark(0)
	}
	begin := time.Now()
	if measures {
		d.tally.start(begin)
		marks := make(chan struct{})
		helpers.Go(func() { d.rounds(begin, marks) })
		d.phase(d.plan.Duration, d.plan.Requests, d.tally)
		close(marks)
	}
	elapsed := time.Duration(0)
	if measures {
		elapsed = time.Since(begin)
	}
	close(over)
	helpers.Wait()
	if measures {
		d.mark(d.plan.Rounds)
	}
	result := d.tally.result(elapsed)
	result.Anew, result.Strays, result.Interrupted = d.anew.Load(), d.strays.Load(), d.ctx.Err() != nil
	if result.Right == 0 && result.Errors+result.Warmup > 0 {
		result.Broken = errors.New("no answer was correct")
	}
	return result
}

func (d *driver) mark(i int) {
	if d.plan.Mark != nil {
		d.plan.Mark(i)
	}
}

// rounds marks the ends of all rounds but the last.
func (d *driver) rounds(begin time.Time, done <-chan struct{}) {
	for i := 1; i < d.plan.Rounds; i++ {
		end := time.NewTimer(time.Until(begin.Add(d.plan.Duration * time.Duration(i) / time.Duration(d.plan.Rounds))))
		select {
		case <-end.C:
			d.mark(i)
		case <-done:
			end.Stop()
			return
		}
	}
}

// hurry ends calls in flight a grace after an interrupt.
func (d *driver) hurry(over <-chan struct{}) {
	select {
	case <-d.ctx.Done():
	case <-over:
		return
	}
	last := time.NewTimer(grace)
	defer last.Stop()
	select {
	case <-last.C:
		for _, l := range d.links {
			l.hurry(time.Now())
		}
	case <-over:
	}
}

// tellEvery is the interval of progress reports.
const tellEvery = 500 * time.Millisecond

func (d *driver) tell(over <-chan struct{}) {
	if d.plan.Tell == nil {
		return
	}
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	begun := time.Now()
	for {
		select {
		case <-tick.C:
			d.plan.Tell(d.tally.progress(d.plan, begun))
		case <-over:
			return
		}
	}
}

// phase makes calls for a duration or a number of requests. With into nil only errors are counted.
func (d *driver) phase(duration time.Duration, requests uint64, into *tally) {
	var all sync.WaitGroup
	begin := time.Now()
	end := begin.Add(duration)
	if requests > 0 {
		end = begin.Add(MaxDuration)
	}
	if d.plan.Rate > 0 {
		p := newPacer(d, begin, end, requests, into)
		all.Go(p.run)
		for _, w := range d.workers {
			all.Go(func() { w.follow(p.due, into) })
		}
		all.Wait()
		return
	}
	var taken atomic.Uint64
	for _, w := range d.workers {
		all.Go(func() { w.loop(end, requests, &taken, into) })
	}
	all.Wait()
}
