package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/netpoll"
)

// giver counts how often its connection had to give way.
type giver struct{ n int }

func (g *giver) giveWay() { g.n++ }

// room is a budget of answers with clients that take nothing unless told to.
type room struct {
	answers
	now time.Time
}

func newRoom(all, each int) *room {
	epoch := time.Now()
	return &room{answers: answers{max: all, each: each, epoch: epoch}, now: epoch}
}

func (r *room) part(principal string) *part {
	return &part{owner: owner{principal: principal}, conn: &giver{}}
}

func (r *room) take(p *part, n int) (AnswerLimit, time.Duration) {
	limit, _, wait := r.try(p, n, r.now)
	return limit, wait
}

// A limit is reached by its last byte and exceeded by the next one; 0 is none. The first answer has room whatever its size.
func TestRoomOfAnswers(t *testing.T) {
	for _, c := range []struct {
		all, each   int
		first, next int
		same        bool
		want        AnswerLimit
	}{
		{100, 0, 60, 40, false, AnswersFit}, {100, 0, 60, 41, false, AnswersOfAll}, {100, 0, 1000, 1, false, AnswersOfAll},
		{0, 100, 60, 40, true, AnswersFit}, {0, 100, 60, 41, true, AnswersOfClient}, {0, 100, 60, 1000, false, AnswersFit},
		{100, 50, 30, 20, true, AnswersFit}, {100, 50, 30, 80, true, AnswersOfClient}, {100, 50, 60, 60, false, AnswersOfAll},
		{0, 0, 1000, 1000, true, AnswersFit},
	} {
		r := newRoom(c.all, c.each)
		if limit, _ := r.take(r.part("a"), c.first); limit != AnswersFit {
			t.Errorf("%+v: the first has no room: %d", c, limit)
		}
		next := r.part("b")
		if c.same {
			next = r.part("a")
		}
		limit, wait := r.take(next, c.next)
		if limit != c.want || (wait > 0) != (limit != AnswersFit) {
			t.Errorf("%+v: %d, to wait for %s", c, limit, wait)
		}
		if want := map[bool]int{true: c.first + c.next, false: c.first}[limit == AnswersFit]; r.answers.now().Bytes != want {
			t.Errorf("%+v: %d bytes", c, r.answers.now().Bytes)
		}
	}
}

// The client that has taken nothing for the longest gives way, once that is stallTime: of all, or of the same client.
func TestWhoseAnswerGivesWay(t *testing.T) {
	r := newRoom(100, 60)
	old, young, other := r.part("a"), r.part("a"), r.part("b")
	r.take(old, 30)
	r.take(young, 30)
	r.take(other, 40)
	r.moved(old, r.now.Add(10*time.Millisecond))
	r.moved(young, r.now.Add(20*time.Millisecond))
	r.now = r.now.Add(stallTime + 9*time.Millisecond)
	own := r.part("a")
	if limit, wait := r.take(own, 10); limit != AnswersOfClient || wait != time.Millisecond {
		t.Errorf("%d for %s: another client's gives way", limit, wait)
	}
	r.now = r.now.Add(time.Millisecond)
	if limit, _ := r.take(own, 10); limit != AnswersFit || old.conn.(*giver).n != 1 || old.bytes != 0 || own.bytes != 10 {
		t.Errorf("%d: %+v", limit, old)
	}
	if limit, _ := r.take(r.part("c"), 30); limit != AnswersFit || other.conn.(*giver).n != 1 || young.conn.(*giver).n != 0 {
		t.Errorf("%d: the one that has taken nothing for the longest stays", limit)
	}
	if limit, wait := r.take(own, 60); limit != AnswersOfClient || wait != 10*time.Millisecond || own.conn.(*giver).n != 0 {
		t.Errorf("%d for %s: an answer gives way to itself", limit, wait)
	}
	if got := r.answers.now(); got.GaveWay != 2 || got.Bytes != 70 || len(r.open) != 3 || len(r.of) != 2 {
		t.Errorf("%+v, %d open of %d", got, len(r.open), len(r.of))
	}
	r.sub(young, 10)
	r.sub(young, 1000) // what it has
	r.end(own)
	if got := r.answers.now(); got.Bytes != 30 || len(r.open) != 1 || len(r.of) != 1 {
		t.Errorf("%+v, %d open of %d", got, len(r.open), len(r.of))
	}
}

// An answer without room waits answerWait, gets room as soon as there is some, and is refused at the end.
func TestAnswerWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(100, 0)
		busy := r.part("a")
		r.reserve(busy, 100)
		moving := time.NewTicker(stallTime / 2)
		defer moving.Stop()
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-moving.C:
					r.moved(busy, time.Now())
				case <-stop:
					return
				}
			}
		}()
		began := time.Now()
		if limit := r.reserve(r.part("b"), 10); limit != AnswersOfAll || time.Since(began) != answerWait {
			t.Errorf("%d after %s", limit, time.Since(began))
		}
		if got := r.answers.now(); got.Refused != 1 || got.Bytes != 100 || len(r.wait) != 0 {
			t.Errorf("%+v, %v wait", got, r.wait)
		}
		if r.add(r.part("b"), 10) || r.answers.now().Refused != 2 {
			t.Errorf("%+v: room without waiting", r.answers.now())
		}
		time.AfterFunc(700*time.Millisecond, func() { r.sub(busy, 10) })
		began = time.Now()
		if limit := r.reserve(r.part("b"), 10); limit != AnswersFit || time.Since(began) != 700*time.Millisecond {
			t.Errorf("%d after %s", limit, time.Since(began))
		}
		close(stop)
		began = time.Now()
		r.moved(busy, began)
		if limit := r.reserve(r.part("c"), 50); limit != AnswersFit || time.Since(began) != stallTime || busy.conn.(*giver).n != 1 {
			t.Errorf("%d after %s: the one that takes nothing stays", limit, time.Since(began))
		}
	})
}

// An answer whose client takes nothing of what its connection has for it already does not wait long for room; one that reads does.
func TestAnswerOfAClientThatHangs(t *testing.T) {
	for reads, want := range map[bool]time.Duration{false: stallTime, true: answerWait} {
		synctest.Test(t, func(t *testing.T) {
			r := newRoom(110, 0)
			own, busy := r.part("a"), r.part("b")
			r.reserve(own, 10)
			r.reserve(busy, 100)
			began := time.Now()
			go func() {
				for time.Since(began) < answerWait {
					r.moved(busy, time.Now())
					if reads {
						r.moved(own, time.Now())
					}
					time.Sleep(stallTime / 2)
				}
			}()
			if limit := r.reserve(own, 50); limit != AnswersOfAll || time.Since(began) != want {
				t.Errorf("reads %v: %d after %s", reads, limit, time.Since(began))
			}
			if got := r.answers.now(); got.Refused != 1 || got.GaveWay != 0 {
				t.Errorf("reads %v: %+v", reads, got)
			}
			time.Sleep(answerWait) // until the clients read no more
		})
	}
}

// What waits of one client is bounded by what it may have written, once it takes nothing; a client that reads may have more waiting.
func TestAnswersThatWaitAreBounded(t *testing.T) {
	const hangs, reads = stallTime - hangTime - 1, stallTime - hangTime
	for _, c := range []struct {
		each, waiting, n int
		wait             time.Duration
		may              bool
	}{{100, 60, 40, hangs, true}, {100, 60, 41, hangs, false}, {100, 60, 41, reads, true}, {0, 60, 1000, hangs, true}, {100, 0, 100, hangs, true}} {
		r := newRoom(0, c.each)
		r.enqueue(r.part("a"), c.waiting, reads)
		if r.enqueue(r.part("a"), c.n, c.wait) != c.may || r.answers.now().Refused != uint64(map[bool]int{true: 0, false: 1}[c.may]) {
			t.Errorf("%+v: %+v", c, r.answers.now())
		}
		if !r.enqueue(r.part("b"), 100, hangs) {
			t.Errorf("%+v: another client may not wait", c)
		}
	}
}

// A write of largeAnswer needs room, a smaller one does not, nor one that has it already; the room is given back.
func TestWritesThatNeedRoom(t *testing.T) {
	for _, c := range []struct {
		size     int
		reserved bool
		waits    time.Duration
	}{{largeAnswer - 1, false, 0}, {largeAnswer, false, stallTime}, {largeAnswer, true, 0}} {
		synctest.Test(t, func(t *testing.T) {
			srv := &Server{opts: Options{WriteTimeout: time.Minute}}
			srv.answers.max, srv.answers.epoch = 10, time.Now()
			busy := &part{owner: owner{principal: "b"}, conn: &giver{}}
			srv.answers.reserve(busy, 10)
			one, other := net.Pipe()
			defer one.Close()
			go func() { _, _ = io.Copy(io.Discard, other) }()
			conn := &conn{srv: srv, socket: netpoll.Socket{Conn: one}, reserved: c.reserved}
			conn.part.conn = conn
			began := time.Now()
			if n, err := conn.Write(make([]byte, c.size)); n != c.size || err != nil || time.Since(began) != c.waits || conn.reserved != c.reserved {
				t.Errorf("%+v: %d bytes after %s, %v, reserved %v", c, n, time.Since(began), err, conn.reserved)
			}
			if got, want := srv.answers.now().Bytes, map[bool]int{true: 0, false: 10}[c.waits > 0]; got != want {
				t.Errorf("%+v: %d bytes have room, want %d", c, got, want)
			}
		})
	}
}

// A client makes progress with each byte that a write has left with it, over TLS too, and with nothing else.
func TestProgressOfAReader(t *testing.T) {
	srv := &Server{opts: Options{WriteTimeout: time.Minute, MinRate: 1}}
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	for name, went := range map[string]func(c *conn, n int) error{
		"plain": func(c *conn, n int) error { return c.went(n, 10, os.ErrDeadlineExceeded, true) },
		"TLS":   func(c *conn, n int) error { return c.wentBeneath(n, os.ErrDeadlineExceeded) },
	} {
		for n, moves := range map[int]bool{0: false, 1: true} {
			c := &conn{srv: srv, socket: netpoll.Socket{Conn: one}}
			srv.answers.epoch = time.Now().Add(-time.Hour)
			if err := went(c, n); err != nil {
				t.Errorf("%s, %d bytes: %v", name, n, err)
			}
			if since := srv.answers.since(&c.part, time.Now()); (since < time.Minute) != moves {
				t.Errorf("%s, %d bytes: the last progress was %s ago", name, n, since)
			}
		}
	}
}

// A body waits for room as long as the oldest may be read, and no longer; it gets room as soon as one has been read.
func TestBodyWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := func() *conn {
			a, b := net.Pipe()
			t.Cleanup(func() { _, _ = a.Close(), b.Close() })
			return &conn{socket: netpoll.Socket{Conn: a}}
		}
		b := &budget{max: 10}
		first, second, third, fourth := body(), body(), body(), body()
		if !b.wait(first, 6) || !b.wait(second, 4) {
			t.Fatal("no room")
		}
		time.AfterFunc(300*time.Millisecond, func() { b.leave(second) })
		began := time.Now()
		if !b.wait(third, 4) || time.Since(began) != 300*time.Millisecond {
			t.Errorf("after %s", time.Since(began))
		}
		if !b.wait(fourth, 5) || time.Since(began) != readingTime || !first.evicted.Load() || third.evicted.Load() {
			t.Errorf("after %s: evicted %v, %v", time.Since(began), first.evicted.Load(), third.evicted.Load())
		}
		if _, err := first.socket.Conn.Read(make([]byte, 1)); !http1.IsTimeout(err) {
			t.Errorf("the body that was evicted is read on: %v", err)
		}
		b.waiting = maxWaiting
		if b.wait(body(), 5) || b.waiting != maxWaiting {
			t.Errorf("%d bodies wait", b.waiting)
		}
		b.waiting = maxWaiting - 1
		if !b.wait(body(), 5) || b.waiting != maxWaiting-1 || b.used != 10 {
			t.Errorf("%d bodies wait, %d bytes", b.waiting, b.used)
		}
		for len(b.queue) > 0 {
			b.leave(b.queue[0])
		}
		if b.leave(first); b.used != 0 || b.freed != nil {
			t.Errorf("%d bytes are left", b.used)
		}
	})
}

// A group waits until all have ended, or for the end of its context, whose cause it tells.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		if err := g.wait(t.Context()); err != nil {
			t.Errorf("an empty group: %v", err)
		}
		for _, lasts := range []time.Duration{time.Second, 3 * time.Second} {
			g.run(func() { time.Sleep(lasts) })
		}
		why := errors.New("too long")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, why)
		defer cancel()
		if err := g.wait(ctx); !errors.Is(err, why) || g.count() != 1 {
			t.Errorf("%v, %d run", err, g.count())
		}
		began := time.Now()
		waits := make(chan error, 2)
		for range 2 {
			go func() { waits <- g.wait(t.Context()) }()
		}
		for range 2 {
			if err := <-waits; err != nil || time.Since(began) != time.Second {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		}
	})
}

// A slow reader is one that reads less than the rate over a window; the window is longer where unread bytes are not counted.
func TestPace(t *testing.T) {
	srv := &Server{opts: Options{WriteTimeout: time.Second, MinRate: 100}}
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	c := &conn{srv: srv, socket: netpoll.Socket{Conn: one}}
	now := time.Now()
	at := func(seconds float64) time.Time { return now.Add(time.Duration(seconds * float64(time.Second))) }
	p := pace{sent: 1000}
	if !p.begin(c, now) || p.begin(c, at(1)) || p.since != now || p.read != 1000 {
		t.Fatalf("%+v", p)
	}
	p.sent = 1299
	if p.slow(c, at(2.99)) || p.since != now {
		t.Errorf("before the window's end: %+v", p)
	}
	if !p.slow(c, at(3)) {
		t.Errorf("299 bytes in 3 s are enough: %+v", p)
	}
	p.sent = 1300
	if p.slow(c, at(3)) || p.since != at(3) || p.read != 1300 {
		t.Errorf("300 bytes in 3 s are too few, or the next window has not begun: %+v", p)
	}
	p.sent = 1699
	if !p.slow(c, at(7)) {
		t.Errorf("399 bytes in 4 s are enough: %+v", p)
	}
}
