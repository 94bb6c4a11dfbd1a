package httpserver

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// largeAnswer is the size from which an answer needs room before it is written.
	largeAnswer = 64 << 10
	// answerWait is how long an answer waits for room.
	answerWait = 5 * time.Second
	// hangTime is how long a client may take nothing before the bytes of its answers that wait for room are limited too.
	hangTime = 250 * time.Millisecond
	// stallTime is how long a client may take nothing before its answer gives way to others.
	stallTime = time.Second
)

// ErrSlowReader is the reason of an answer or Stream that was broken off because its client read too slowly, or left more unread than it
// may.
var ErrSlowReader = errors.New("httpd: the peer does not read")

// owner identifies the client that requests belong to.
type owner struct {
	principal string
	addr      netip.Addr // without a principal
}

// AnswerLimit is the limit for which an answer has no room.
type AnswerLimit uint8

// Limits of answers. AnswersFit is none.
const (
	AnswersFit      AnswerLimit = iota
	AnswersOfAll                // Options.MaxAnswers
	AnswersOfClient             // Options.MaxAnswersEach
)

// answers bounds the bytes of answers that are being written, of all clients and of each. One answer is written whatever its size.
// Where there is no room for another, clients that take nothing lose theirs.
type answers struct {
	max, each int       // bytes; 0: no bound
	epoch     time.Time // times of progress are relative to it

	mu    sync.Mutex
	used  int
	of    map[owner]int
	open  []*part       // with bytes
	wait  map[owner]int // bytes of answers that wait
	freed chan struct{} // closed when there is more room; nil if nobody waits
	stats AnswerStats
}

// AnswerStats counts what became of answers for which there was no room, and of slow readers.
type AnswerStats struct {
	Bytes   int    // being written, of large answers and of slow readers
	Refused uint64 // answers that had no room
	GaveWay uint64 // answers broken off to make room
	Slow    uint64 // answers broken off for Options.MinRate
}

// part is the share of the budget that a connection holds. The lock of the budget guards of, bytes and ended.
type part struct {
	owner    owner // of the request
	of       owner // of bytes
	bytes    int
	ended    bool                   // the connection is closed: it holds nothing any more
	progress atomic.Int64           // when the client has last taken bytes, in nanoseconds since answers.epoch
	conn     interface{ giveWay() } // that holds it; giveWay ends it soon, and takes no lock
}

// reserve waits answerWait for room at most. A connection whose client has bytes to read and takes none does not wait so long.
func (a *answers) reserve(p *part, n int) AnswerLimit {
	limit, freed, wait := a.try(p, n, time.Now())
	if limit == AnswersFit {
		return limit
	}
	if !a.enqueue(p, n, wait) {
		return limit
	}
	defer a.dequeue(p, n)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	end := time.Now().Add(answerWait)
	for {
		now := time.Now()
		if !now.Before(end) || a.hangs(p, now) {
			a.mu.Lock()
			a.stats.Refused++
			a.mu.Unlock()
			return limit
		}
		timer.Reset(min(wait, end.Sub(now)))
		select {
		case <-freed:
		case <-timer.C:
		}
		if limit, freed, wait = a.try(p, n, time.Now()); limit == AnswersFit {
			return limit
		}
	}
}

// hangs reports whether the client takes nothing of what p has for it.
func (a *answers) hangs(p *part, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return p.bytes > 0 && a.since(p, now) >= stallTime
}

// since returns for how long the client of p has taken nothing.
func (a *answers) since(p *part, now time.Time) time.Duration {
	return now.Sub(a.epoch) - time.Duration(p.progress.Load())
}

// enqueue counts an answer that waits, and reports whether it may: a client that takes nothing has no more waiting than it may have
// written, since each is in memory. wait is the time until its slowest one gives way.
func (a *answers) enqueue(p *part, n int, wait time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.each > 0 && wait < stallTime-hangTime && a.wait[p.owner]+n > a.each {
		a.stats.Refused++
		return false
	}
	if a.wait == nil {
		a.wait = make(map[owner]int)
	}
	a.wait[p.owner] += n
	return true
}

func (a *answers) dequeue(p *part, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wait[p.owner] -= n; a.wait[p.owner] == 0 {
		delete(a.wait, p.owner)
	}
}

// add makes room for n more bytes at once, or reports that there is none.
func (a *answers) add(p *part, n int) bool {
	limit, _, _ := a.try(p, n, time.Now())
	if limit != AnswersFit {
		a.mu.Lock()
		a.stats.Refused++
		a.mu.Unlock()
	}
	return limit == AnswersFit
}

// try makes room for n more bytes of p. If there is none, there may be when freed is closed, and after the time wait.
func (a *answers) try(p *part, n int, now time.Time) (limit AnswerLimit, freed <-chan struct{}, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.ended { // its next write fails
		return AnswersFit, nil, 0
	}
	for limit = a.full(p, n); limit != AnswersFit; limit = a.full(p, n) {
		victim, since := a.stalled(p, limit, now)
		if victim == nil || since < stallTime {
			if a.freed == nil {
				a.freed = make(chan struct{})
			}
			return limit, a.freed, max(stallTime-since, time.Millisecond)
		}
		a.remove(victim, victim.bytes)
		a.stats.GaveWay++
		victim.conn.giveWay()
	}
	if a.of == nil {
		a.of = make(map[owner]int)
	}
	if p.bytes == 0 {
		p.of = p.owner
		a.open = append(a.open, p)
	}
	p.bytes += n
	a.used += n
	a.of[p.of] += n
	return AnswersFit, nil, 0
}

// full returns the limit that n more bytes of p exceed.
func (a *answers) full(p *part, n int) AnswerLimit {
	mine := a.of[p.owner]
	switch {
	case a.each > 0 && mine > 0 && mine+n > a.each:
		return AnswersOfClient
	case a.max > 0 && a.used > 0 && a.used+n > a.max:
		return AnswersOfAll
	}
	return AnswersFit
}

// stalled returns the connection that has taken nothing for the longest, of those whose end would help, and for how long.
func (a *answers) stalled(p *part, limit AnswerLimit, now time.Time) (victim *part, since time.Duration) {
	for _, other := range a.open {
		if other == p || limit == AnswersOfClient && other.of != p.owner {
			continue
		}
		if d := a.since(other, now); victim == nil || d > since {
			victim, since = other, d
		}
	}
	return victim, since
}

// sub gives back n bytes of p, or what it has.
func (a *answers) sub(p *part, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(p, n)
}

// end gives back what p has, for good.
func (a *answers) end(p *part) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.ended = true
	a.remove(p, p.bytes)
}

func (a *answers) remove(p *part, n int) {
	n = min(n, p.bytes)
	if n == 0 {
		return
	}
	of := p.of
	p.bytes -= n
	a.used -= n
	if a.of[of] -= n; a.of[of] == 0 {
		delete(a.of, of)
	}
	if p.bytes == 0 {
		if i := slices.Index(a.open, p); i >= 0 {
			a.open = slices.Delete(a.open, i, i+1)
		}
	}
	if a.freed != nil {
		close(a.freed)
		a.freed = nil
	}
}

// moved notes that the client has taken bytes, or may do so from now on.
func (a *answers) moved(p *part, now time.Time) { p.progress.Store(int64(now.Sub(a.epoch))) }

// tooSlow counts an answer that was broken off for Options.MinRate.
func (a *answers) tooSlow() {
	a.mu.Lock()
	a.stats.Slow++
	a.mu.Unlock()
}

// now returns the counts.
func (a *answers) now() AnswerStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	stats := a.stats
	stats.Bytes = a.used
	return stats
}
