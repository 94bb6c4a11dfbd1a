package mux

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

const (
	// silentCalls is the number of calls in a row after whose silence the server is asked for a sign of life.
	silentCalls = 3
	// patience is how long a client must have waited for its leaving to count as silence of the server.
	patience = 3 * time.Second
)

// Watch says how a Mux finds out that a server is there but does nothing: that its process is stopped, or waits for
// something that never comes.
type Watch struct {
	Heard func() uint64 // returns the number of bytes that came from the server so far; called under locks
	Limit time.Duration // for the sign of life
	// Dead is called, once at most, if the server gives no sign of life. silent is how many calls in a row had been
	// silent, since is when the first of them began.
	Dead func(silent int, since time.Time)
}

// watch is the state of a Watch.
type watch struct {
	Watch
	mu     sync.Mutex
	at     uint64    // Heard at the last silent call
	silent int       // silent calls in a row; calls that were under way together count once
	first  uint64    // number of the first of them
	since  time.Time // when it began
	last   time.Time // when the last of them began
	asking bool      // the server is being asked, or is dead
}

// Watch begins watching. It must be called before the first call.
//
// A call is silent if it is given up, because its time is over or the client has left, and nothing at all has come from
// the server since it was made. After three silent calls in a row, the server is asked: a legacy one by ping, a modern
// one by server/discover. Whatever it sends within the limit shows that it lives, an error or a line that is no message
// as well. It is not asked while an older call is under way, whose work may keep it from answering, as in a server with
// one thread.
func (x *Mux) Watch(w Watch) { x.watch = &watch{Watch: w} }

// gaveUp notes that a call has been given up, which is registered no more.
func (x *Mux) gaveUp(c *call) {
	w := x.watch
	if w == nil || c.lasts {
		return
	}
	if cause := c.ex.Err(); cause != nil {
		if _, ours := errors.AsType[*proxy.Error](cause); !ours && time.Since(c.began) < patience {
			return
		}
	}
	x.mu.Lock()
	oldest := uint64(math.MaxUint64)
	for n, other := range x.calls {
		if !other.lasts {
			oldest = min(oldest, n)
		}
	}
	dead := x.dead != nil
	x.mu.Unlock()
	if n, ask := w.count(c, oldest); ask && !dead {
		go x.ask(n) // ends with the limit
	}
}

// count counts a call if it was silent, unless it was under way together with the one counted before for more than half of its time.
// oldest is the number of the oldest call under way. It returns the number of silent calls in a row, and whether the server is to be
// asked now.
func (w *watch) count(c *call, oldest uint64) (silent int, ask bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Heard()
	if w.asking || now != c.heard {
		return 0, false
	}
	if now != w.at {
		w.at, w.silent = now, 0
	}
	if w.silent == 0 {
		w.first, w.since = c.n, c.began
	}
	if w.silent == 0 || c.began.Sub(w.last) >= time.Since(c.began)/2 {
		w.silent++
		w.last = c.began
	}
	w.asking = w.silent >= silentCalls && oldest >= w.first
	return w.silent, w.asking
}

// ask asks the server for a sign of life.
func (x *Mux) ask(silent int) {
	w := x.watch
	before := w.Heard()
	ctx, cancel := context.WithTimeout(context.Background(), w.Limit)
	defer cancel()
	request := []byte(`{"jsonrpc":"2.0","id":"dragoman-ping","method":"ping"}`)
	if x.server == proxy.Modern {
		request = rules.DiscoverRequest(nil, nil)
	}
	if ex, err := transport.NewExchange(x.server, request); err == nil {
		stop := ex.Follow(ctx)
		until, _ := ctx.Deadline()
		if replies, err := x.Call(ex); err == nil {
			_, _ = proxy.Response(replies, until) // any message is a sign, also one for somebody else
		} else if w.Heard() == before && !x.isDead() {
			<-ctx.Done() // the request cannot be written, which does not prove that the server is dead
		}
		stop()
	}
	w.mu.Lock()
	if w.Heard() != before {
		w.asking, w.silent = false, 0
		w.mu.Unlock()
		return
	}
	since := w.since
	w.mu.Unlock()
	if !x.isDead() {
		w.Dead(silent, since)
	}
}

func (x *Mux) isDead() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dead != nil
}
