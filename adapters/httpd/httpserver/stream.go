package httpserver

import (
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

// keepAliveComment is a line that clients of an event stream must ignore.
const keepAliveComment = ": keep-alive\n\n"

// StreamOptions configure a Stream.
type StreamOptions struct {
	First []byte // sent with the head; copied. Empty: a comment, so that intermediaries pass the head on
	Queue int    // bytes that may wait for the client; 1 MiB. A single event may be larger
	// OnClose is called once, on a goroutine of its own, when the stream has ended: with nil after End, else with ErrLeft,
	// ErrSlowReader, ErrShutdown or the error of a write. Shutdown waits for it.
	OnClose func(err error)
	// OnDrain is called by Shutdown, one at a time: it may Write last events and End. Nil: the stream is ended.
	OnDrain func(s *Stream)
}

// Stream is an event stream that lasts: a connection kept open without a goroutine, for events that are written to it. Its methods may
// be called from any goroutine, also before the handler that made it has returned; what is written until then leaves afterwards.
type Stream struct {
	c    *conn
	opts StreamOptions
	self connStream // the stream itself: what conn.stream points to

	mu       sync.Mutex
	queue    []byte // framed bytes not written yet; nil while the client keeps up
	inFlight int    // bytes with the writer
	headSize int    // bytes of the queue that do not count, before the start
	started  bool   // the handler has returned
	writing  bool   // a writer is at work
	ending   bool   // nothing follows the queue
	closed   bool
	plain    bool  // HTTP/1.0: no chunks
	slot     uint8 // of the Server's keepAlives
	reason   error // for OnClose
}

// OpenStream answers ctx with an event stream that lasts until End, until the client leaves, or until Shutdown. Status and fields of
// ctx.Response are sent. The handler must return soon, and must not touch ctx.Response or call WatchClient any more; an earlier Watch
// is stopped. The error is ErrTooManyStreams, ErrShutdown or ErrForeignRequest; then ctx is untouched.
func OpenStream(ctx *fasthttp.RequestCtx, opts StreamOptions) (*Stream, error) {
	c := connOf(ctx)
	if c == nil {
		return nil, ErrForeignRequest
	}
	if opts.Queue <= 0 {
		opts.Queue = 1 << 20
	}
	s := &Stream{c: c, opts: opts, plain: c.state.current.http10}
	s.self = s
	var err error
	if s.slot, err = c.srv.streams.add(s); err != nil {
		return nil, err
	}
	s.queue = s.head(ctx)
	s.headSize = len(s.queue)
	s.opts.First = nil
	c.stream.Store(&s.self)
	if c.closed.Load() {
		s.close(ErrLeft)
	}
	c.watch(s)
	c.taken = true
	return s, nil
}

// head renders the status line, the fields and the first bytes of the stream.
func (s *Stream) head(ctx *fasthttp.RequestCtx) []byte {
	fields := &ctx.Response.Header
	setEventStream(fields)
	fields.SetContentLength(-1)
	fields.SetConnectionClose()
	first := s.opts.First
	if len(first) == 0 {
		first = []byte(": open\n\n")
	}
	head := fields.Header()
	out := append(make([]byte, 0, len(head)+len(first)+2*chunkRoom), head...)
	if s.plain {
		out = withoutChunks(out)
	}
	return s.frame(out, first)
}

// frame appends an event to dst as a chunk.
func (s *Stream) frame(dst []byte, event ...[]byte) []byte {
	if !s.plain {
		dst = append(strconv.AppendInt(dst, int64(length(event)), 16), "\r\n"...)
	}
	for _, part := range event {
		dst = append(dst, part...)
	}
	if !s.plain {
		dst = append(dst, "\r\n"...)
	}
	return dst
}

func length(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// start is called when the handler has returned.
func (s *Stream) start() {
	s.mu.Lock()
	s.started, s.headSize = true, 0
	over, err := s.flush()
	s.mu.Unlock()
	if over {
		s.close(err)
	}
}

// rest releases what an idle stream does not need.
func (s *Stream) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && !s.ending && !s.writing && len(s.queue) == 0 && s.c.secure == nil {
		s.c.socket.Detach(&s.c.closed)
	}
}

// keepAlive writes a comment if nothing is under way.
func (s *Stream) keepAlive() {
	s.mu.Lock()
	quiet := s.started && !s.closed && !s.ending && !s.writing && len(s.queue) == 0
	s.mu.Unlock()
	if quiet {
		_ = s.Write([]byte(keepAliveComment))
	}
}

// drain calls OnDrain and ends the stream.
func (s *Stream) drain() {
	if s.opts.OnDrain != nil {
		s.opts.OnDrain(s)
	}
	s.end(ErrShutdown)
}

// End ends the stream properly once everything written before has left. Only the first call counts.
func (s *Stream) End() { s.end(nil) }

func (s *Stream) end(reason error) {
	s.mu.Lock()
	if s.closed || s.ending {
		s.mu.Unlock()
		return
	}
	s.ending, s.reason = true, reason
	if !s.plain {
		s.queue = append(s.queue, lastChunk...)
	}
	over, err := s.flush()
	s.mu.Unlock()
	if over {
		s.close(err)
	}
}

// Leave implements Leaver.
func (s *Stream) Leave() { s.close(ErrLeft) }

// close ends the stream. After a proper end it closes the connection in order, else at once.
func (s *Stream) close(reason error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	proper := s.ending && (reason == nil || reason == ErrShutdown)
	s.closed, s.queue = true, nil
	s.mu.Unlock()
	if s.opts.OnClose != nil {
		s.c.srv.tasks.run(func() { s.opts.OnClose(reason) })
	}
	s.c.shut(!proper)
	s.c.srv.streams.remove(s, s.slot)
}
