package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Era is the revision family that the generator speaks.
type Era string

// The eras of clients.
const (
	Modern Era = "modern"
	Legacy Era = "legacy"
)

// Transport is how a legacy client reaches a server.
type Transport string

// The transports. The zero value is the first.
const (
	Streamable Transport = ""    // one endpoint, answers in the response of the POST
	TwoWay     Transport = "sse" // HTTP+SSE of 2024-11-05: answers on a stream that stays open
)

const (
	// DefaultTimeout is the longest that a single call may take.
	DefaultTimeout = 20 * time.Second
	// MaxConnections is set by the ids: each connection has its own range of them.
	MaxConnections = 512

	shortest  = int64(time.Microsecond)
	longest   = int64(time.Minute)
	precision = 3 // significant digits of latencies
)

// Plan says what to send where.
type Plan struct {
	Addr        string // host:port
	Path        string // of the MCP endpoint; of the event stream where the transport is TwoWay
	Era         Era
	Transport   Transport
	Sessionless bool          // a server that gives a legacy client no session id is right, too
	Connections int           // each with a session of its own where the era is legacy
	Size        int           // bytes of a request's body, and about as many of its answer's
	Answer      int           // bytes of an answer, if it shall be of another length
	SSE         bool          // ask for answers as event streams
	Warmup      time.Duration // calls that are checked but not counted
	Duration    time.Duration
	Timeout     time.Duration // of one call; DefaultTimeout if zero
	// Begin and End are called once each, between which every counted call is
	// sent and answered: the place to read CPU times. Both may be nil.
	Begin, End func()
}

// Result is what Run has seen.
type Result struct {
	Requests uint64 // answered rightly
	Errors   uint64 // answered wrongly or not at all, in the warm-up too
	// Strays are messages that came on a session's stream and answer no call of that session.
	Strays  uint64
	Elapsed time.Duration
	// First is the first error, for the report; nil if there was none.
	First error
	// P50, P90, P99 and Max are latencies of the right answers, to three digits.
	P50, P90, P99, Max time.Duration
}

// PerSecond is the rate of right answers.
func (r *Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Elapsed.Seconds()
}

// Run opens the connections and the sessions, warms up, and calls for the
// plan's duration; it ends early with ctx. A wrong answer is counted and its
// connection opened anew. The error is for plans that cannot run at all: nobody
// there, no session, or a connection whose every call fails.
func Run(ctx context.Context, p Plan) (Result, error) {
	if p.Connections < 1 || p.Connections > MaxConnections || p.Duration <= 0 {
		return Result{}, fmt.Errorf("load: a plan needs 1 to %d connections and a duration", MaxConnections)
	}
	if p.Timeout <= 0 {
		p.Timeout = DefaultTimeout
	}
	workers := make([]*worker, p.Connections)
	defer func() { _ = each(workers, (*worker).end) }() // what has been measured holds without it
	for i := range workers {
		workers[i] = newWorker(&p, i)
		workers[i].latency = newHistogram()
	}
	if err := each(workers, func(w *worker) error { return w.open(ctx) }); err != nil {
		return Result{}, err
	}
	err := each(workers, func(w *worker) error { return w.run(ctx, p.Warmup) })
	if err != nil {
		return Result{}, fmt.Errorf("load: warm-up: %w", err)
	}
	for _, w := range workers {
		w.latency.Reset()
	}
	if p.Begin != nil {
		p.Begin()
	}
	begin := time.Now()
	err = each(workers, func(w *worker) error { return w.run(ctx, p.Duration) })
	elapsed := time.Since(begin)
	if p.End != nil {
		p.End()
	}
	return sum(workers, elapsed), err
}

// each runs f for every worker at once and waits for all.
func each(workers []*worker, f func(*worker) error) error {
	errs := make([]error, len(workers))
	var all sync.WaitGroup
	for i, w := range workers {
		all.Go(func() { errs[i] = f(w) })
	}
	all.Wait()
	for _, err := range errs { // one is enough: they are alike
		if err != nil {
			return err
		}
	}
	return nil
}

// sum merges what the workers have seen.
func sum(workers []*worker, elapsed time.Duration) Result {
	all := newHistogram()
	r := Result{Elapsed: elapsed}
	for _, w := range workers {
		all.Merge(w.latency)
		r.Errors += w.errors
		r.Strays += w.strays
		if r.First == nil {
			r.First = w.first
		}
	}
	r.Requests = uint64(all.TotalCount())
	at := func(percent float64) time.Duration { return time.Duration(all.ValueAtQuantile(percent)) }
	r.P50, r.P90, r.P99, r.Max = at(50), at(90), at(99), time.Duration(all.Max())
	return r
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(shortest, longest, precision)
}
