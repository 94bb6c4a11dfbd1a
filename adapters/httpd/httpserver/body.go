package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
)

var continueResponse = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// readBody reads the body of the request whose head, of size bytes, begins the buffer. The gates see the head first if the body is
// large and has not arrived with it, or if the client expects 100 Continue. If it returns false the connection has ended.
func (s *Server) readBody(c *conn, st *serveState, size int) bool {
	n := st.current.length
	if n > s.opts.MaxBody && n <= smallBody {
		s.refuse(c, st, http1.ErrBodyTooLarge)
		return false
	}
	here := n <= s.opts.MaxBody && size+n <= st.br.Buffered()
	if n != chunked && (here || n <= smallBody && size+n <= st.br.Size()) && !st.head.Request.Expects {
		all, err := st.br.Peek(size + n) // in place; the read may move it
		if err != nil {
			s.refuse(c, st, http1.UnexpectedEOF(err))
			return false
		}
		_, _ = st.br.Discard(size + n) // it is buffered
		st.rebase(all[:size])
		if n > 0 {
			st.ctx.Request.SetBodyRaw(all[size:])
		}
		return true
	}
	head, _ := st.br.Peek(size) // it is buffered
	st.headCopy = append(st.headCopy[:0], head...)
	_, _ = st.br.Discard(size) // it is buffered
	st.rebase(st.headCopy)
	large := n > smallBody || n == chunked || st.head.Request.Expects
	if large && !s.admit(c, st) {
		return false
	}
	err := st.fetchBody(s.opts.MaxBody)
	if large {
		s.budget.leave(c)
	}
	if err != nil {
		s.refuse(c, st, err)
		return false
	}
	return true
}

// admit decides before the body is read whether the client may send it, and sends 100 Continue if the client waits for that (RFC 9110
// §10.1.1).
func (s *Server) admit(c *conn, st *serveState) bool {
	if st.current.length > s.opts.MaxBody {
		s.refuse(c, st, http1.ErrBodyTooLarge)
		return false
	}
	if !s.gate(c, st) {
		s.decline(c, st)
		return false
	}
	c.gated = true
	room := st.current.length
	if room == chunked {
		room = s.opts.MaxBody
	}
	if !s.budget.wait(c, room) {
		s.refuseWith(c, st, fasthttp.StatusServiceUnavailable)
		return false
	}
	if st.head.Request.Expects && !st.current.http10 {
		if _, err := c.Write(continueResponse); err != nil {
			s.budget.leave(c)
			return false
		}
	}
	return true
}

// gate runs the gates before a body is read.
func (s *Server) gate(c *conn, st *serveState) (pass bool) {
	defer s.recovered(c, st) // it returns false then
	return st.current.handler.pass(&st.ctx)
}

// decline sends a response to a request whose body was not read, and may still be coming.
func (s *Server) decline(c *conn, st *serveState) {
	c.linger = true
	c.gated = false
	st.current.last = true
	st.current.handler.answered(&st.ctx)
	s.reply(c, st)
}

// refuse answers a request that could not be read.
func (s *Server) refuse(c *conn, st *serveState, err error) {
	status := fasthttp.StatusBadRequest
	_, large := errors.AsType[*http1.TooLargeError](err)
	switch {
	case errors.Is(err, http1.ErrBodyTooLarge):
		status = fasthttp.StatusRequestEntityTooLarge
	case large:
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	case http1.IsTimeout(err), c.timedOut:
		status = fasthttp.StatusRequestTimeout
	}
	s.refuseWith(c, st, status)
}

func (s *Server) refuseWith(c *conn, st *serveState, status int) {
	st.ctx.Response.Reset()
	st.ctx.SetStatusCode(status)
	st.current.handler.refused(&st.ctx, status)
	s.decline(c, st)
}

// fetchBody reads the body. A small one is in a buffer of the connection, a large one in memory of its own.
func (st *serveState) fetchBody(limit int) error {
	n := st.current.length
	st.body.SetReader(st.br)
	if n == chunked {
		st.body.StartChunked()
		st.body.LimitRequest(limit)
		return st.fetchChunks()
	}
	if n == 0 {
		return nil
	}
	st.body.StartSized(int64(n))
	if n >= maxKept {
		buf := bodyOf(n)
		st.ctx.Request.SwapBody(buf)
		st.apart = true
		return st.fill(buf)
	}
	if cap(st.small) < n {
		st.small = make([]byte, n, max(n, 2*smallBody))
	}
	st.small = st.small[:n]
	st.ctx.Request.SetBodyRaw(st.small)
	return st.fill(st.small)
}

// fill reads the rest of the body, which has the length of buf.
func (st *serveState) fill(buf []byte) error {
	_, err := io.ReadFull(&st.body, buf)
	return http1.UnexpectedEOF(err)
}

// fetchChunks reads a body of unknown length.
func (st *serveState) fetchChunks() error {
	buf := st.small[:0]
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), max(2*smallBody, 2*len(buf)))
			copy(grown, buf)
			buf = grown
		}
		n, err := st.body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF && cap(buf) <= maxKept:
			st.small = buf
			st.ctx.Request.SetBodyRaw(buf)
			return nil
		case err == io.EOF:
			st.ctx.Request.SwapBody(buf)
			st.apart = true
			return nil
		case err != nil:
			return err
		}
	}
}

// bodies pools large bodies, *[]byte; the largest are left to the collector.
var bodies sync.Pool

const maxPooledBody = 4 << 20

func bodyOf(size int) []byte {
	if b, ok := bodies.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:size]
	}
	return make([]byte, size)
}

// replaceBuffers gives the connection new buffers for those that the body of the request may be in.
func (st *serveState) replaceBuffers() {
	st.kept, st.small = false, nil
	st.ctx.Request.SwapBody(nil)
	var from io.Reader = connOf(&st.ctx)
	ahead, _ := st.br.Peek(st.br.Buffered()) // it is buffered
	if len(ahead) > 0 {
		from = io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), from)
	}
	st.br = bufio.NewReaderSize(from, st.br.Size())
	_, _ = st.br.Peek(len(ahead)) // the next request is looked for in the buffer
}

const (
	// readingTime is how long a body may be read before it can be evicted for another, and how long that one waits.
	readingTime = time.Second
	// maxWaiting is how many bodies may wait for room.
	maxWaiting = 1024
)

// budget bounds the bodies that are being read. The buffer of a body is made when its length is known, so clients that announce much
// and send little could take all memory. Where there is no room for another body, those that have been read for the longest are
// evicted: clients that send without pause are done by then.
type budget struct {
	max int // bytes; one body is read whatever its size

	mu      sync.Mutex
	epoch   time.Time // times are relative to it
	used    int
	queue   []*conn       // in the order in which they began
	waiting int           // for room
	freed   chan struct{} // closed when there is more room; nil if nobody waits
}

// claim is a body's part of the budget, which guards it by its lock.
type claim struct {
	room  int           // bytes; 0: none
	began time.Duration // since the epoch
}

// wait makes room for a body of n bytes, and waits readingTime for it at most. It reports whether there is room.
func (b *budget) wait(c *conn, n int) bool {
	now := time.Now()
	freed, wait := b.enter(c, n, now)
	if wait == 0 {
		return true
	}
	if !b.enqueue() {
		return false
	}
	defer b.dequeue()
	limit := now.Add(readingTime)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for wait > 0 && !now.After(limit) {
		timer.Reset(wait)
		select {
		case <-freed:
		case <-timer.C:
		}
		now = time.Now()
		freed, wait = b.enter(c, n, now)
	}
	return wait == 0
}

// enqueue counts a body that waits, and reports whether it may.
func (b *budget) enqueue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting >= maxWaiting {
		return false
	}
	b.waiting++
	return true
}

func (b *budget) dequeue() {
	b.mu.Lock()
	b.waiting--
	b.mu.Unlock()
}

// enter makes room for a body of n bytes. If there is none, there may be when freed is closed, and is after the time wait.
func (b *budget) enter(c *conn, n int, now time.Time) (freed <-chan struct{}, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.epoch.IsZero() {
		b.epoch = now
	}
	for b.used > 0 && b.used+n > b.max {
		oldest := b.queue[0]
		if wait := readingTime - (now.Sub(b.epoch) - oldest.claimed.began); wait > 0 {
			if b.freed == nil {
				b.freed = make(chan struct{})
			}
			return b.freed, wait
		}
		b.remove(oldest)
		oldest.evict(now)
	}
	c.claimed = claim{room: n, began: now.Sub(b.epoch)}
	b.used += n
	b.queue = append(b.queue, c)
	return nil, 0
}

// leave gives back the room of a body, if it has any.
func (b *budget) leave(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.claimed.room > 0 {
		b.remove(c)
	}
}

func (b *budget) remove(c *conn) {
	b.used -= c.claimed.room
	c.claimed.room = 0
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
	if i := slices.Index(b.queue, c); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
}
