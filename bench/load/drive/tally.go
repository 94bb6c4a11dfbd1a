package drive

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally counts a run. Workers write to stripes of it, so that they seldom contend.
type tally struct {
	begin   time.Time
	length  time.Duration // of a round; 0: there is only one
	stripes []*stripe

	mu       sync.Mutex
	seconds  []Second
	early    uint64 // errors in the warm-up
	earlyOf  map[string]*Wrong
	example  string // of a stray
	measures atomic.Bool
}

type stripe struct {
	mu     sync.Mutex
	rounds []*round
	bytes  uint64
	wrong  map[string]*Wrong
	_      [64]byte // no false sharing with the next
}

type round struct {
	latency, service      *hdrhistogram.Histogram
	right, errors, unsent uint64
}

const (
	maxStripes = 8
	maxKinds   = 64 // of wrong answers
	otherKinds = "other"
)

func newTally(p *Plan) *tally {
	t := &tally{earlyOf: map[string]*Wrong{}}
	if p.Rounds > 1 {
		t.length = p.Duration / time.Duration(p.Rounds)
	}
	for range min(p.Connections, maxStripes, 2*runtime.GOMAXPROCS(0)) {
		s := &stripe{wrong: map[string]*Wrong{}}
		for range p.Rounds {
			r := &round{latency: newHistogram()}
			if p.Rate > 0 {
				r.service = newHistogram()
			}
			s.rounds = append(s.rounds, r)
		}
		t.stripes = append(t.stripes, s)
	}
	return t
}

func (t *tally) start(begin time.Time) {
	t.begin = begin
	for _, s := range t.stripes {
		s.mu.Lock()
		s.bytes = 0
		s.mu.Unlock()
	}
	t.measures.Store(true)
}

// round returns the round of a time.
func (t *tally) round(at time.Time) int {
	if t.length <= 0 {
		return 0
	}
	return min(max(int(at.Sub(t.begin)/t.length), 0), len(t.stripes[0].rounds)-1)
}

func (t *tally) stripe(hint int) *stripe { return t.stripes[hint%len(t.stripes)] }

func (t *tally) bytes(hint, n int) {
	s := t.stripe(hint)
	s.mu.Lock()
	s.bytes += uint64(n) //nolint:gosec // a length
	s.mu.Unlock()
}

// add counts a call.
func (t *tally) add(hint int, due time.Time, latency, service time.Duration, err error) {
	s := t.stripe(hint)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rounds[t.round(due)]
	if err != nil {
		r.errors++
		note(s.wrong, err)
		return
	}
	r.right++
	_ = r.latency.RecordValue(bounded(latency)) // within its bounds
	if r.service != nil {
		_ = r.service.RecordValue(bounded(service))
	}
}

// drop counts a call that was due and found no place in the queue. The latencies include the time that it has waited: without it they would
// look best when the server is worst.
func (t *tally) drop(due time.Time, waited time.Duration) {
	s := t.stripes[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rounds[t.round(due)]
	r.unsent++
	_ = r.latency.RecordValue(bounded(waited)) // within its bounds
}

func bounded(d time.Duration) int64 { return min(max(int64(d), 0), longest) }

// note counts an error by its kind, and keeps the first as an example.
func note(all map[string]*Wrong, err error) {
	f, ok := err.(*fault)
	if !ok {
		f = &fault{kindConnection, err.Error()}
	}
	kind := f.kind
	if all[kind] == nil {
		if len(all) >= maxKinds {
			kind = otherKinds
		}
		if all[kind] == nil {
			all[kind] = &Wrong{Kind: kind, Example: f.text}
		}
	}
	all[kind].Count++
}

func (t *tally) warmup(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.early++
	note(t.earlyOf, err)
}

func (t *tally) strayed(message []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.example = quote(message)
}

// second adds what one worker counted in a second.
func (t *tally) second(at int, b Second) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at >= len(t.seconds) && at <= int(2*MaxDuration/time.Second) {
		t.seconds = append(t.seconds, Second{})
	}
	if at < 0 || at >= len(t.seconds) {
		return
	}
	s := &t.seconds[at]
	s.Right += b.Right
	s.Errors += b.Errors
	s.Sum += b.Sum
	s.Max = max(s.Max, b.Max)
}

func (t *tally) progress(p *Plan, begun time.Time) Progress {
	out := Progress{Phase: "warm-up", Elapsed: time.Since(begun), Of: p.Warmup}
	if !t.measures.Load() {
		return out
	}
	out.Phase, out.Of = "measuring", p.Duration
	out.Elapsed = time.Since(t.begin)
	for _, s := range t.stripes {
		s.mu.Lock()
		for _, r := range s.rounds {
			out.Right += r.right
			out.Wrong += r.errors
		}
		s.mu.Unlock()
	}
	out.Rate = float64(out.Right) / max(out.Elapsed.Seconds(), 1e-9)
	return out
}

// result sums up.
func (t *tally) result(elapsed time.Duration) *Result {
	out := &Result{Elapsed: elapsed, Latency: newHistogram(), Warmup: t.early, Seconds: t.seconds}
	wrong := t.earlyOf
	for i := range t.stripes[0].rounds {
		sum := Round{Latency: newHistogram(), Elapsed: t.length}
		if t.length == 0 {
			sum.Elapsed = elapsed
		}
		if left := elapsed - time.Duration(i)*t.length; t.length > 0 && left < t.length { // the run was interrupted
			sum.Elapsed = max(left, 0)
		}
		for _, s := range t.stripes {
			r := s.rounds[i]
			sum.Right, sum.Errors, sum.Unsent = sum.Right+r.right, sum.Errors+r.errors, sum.Unsent+r.unsent
			sum.Latency.Merge(r.latency)
			if r.service != nil {
				if out.Service == nil {
					out.Service = newHistogram()
				}
				out.Service.Merge(r.service)
			}
		}
		out.Right, out.Errors, out.Unsent = out.Right+sum.Right, out.Errors+sum.Errors, out.Unsent+sum.Unsent
		out.Latency.Merge(sum.Latency)
		out.Rounds = append(out.Rounds, sum)
	}
	for _, s := range t.stripes {
		out.BytesIn += s.bytes
		for kind, w := range s.wrong {
			if wrong[kind] == nil {
				wrong[kind] = &Wrong{Kind: kind, Example: w.Example}
			}
			wrong[kind].Count += w.Count
		}
	}
	for _, w := range wrong {
		out.Wrong = append(out.Wrong, *w)
	}
	slices.SortFunc(out.Wrong, func(a, b Wrong) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind)) })
	return out
}
