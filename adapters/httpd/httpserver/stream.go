package httpserver

import (
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/netpoll"
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

// Stream is a lasting event stream: a connection kept open without a goroutine, for events that are written to it. Its methods may be
// called from any goroutine, also before the handler that made it has returned; what is written until then is sent afterwards.
type Stream struct {
	c    *conn
	opts StreamOptions

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
// is stopped. The error is ErrTooManyStreams or ErrShutdown; then ctx is untouched.
func OpenStream(ctx *fasthttp.RequestCtx, opts StreamOptions) (*Stream, error) {
	c := connOf(ctx)
	if opts.Queue <= 0 {
		opts.Queue = 1 << 20
	}
	s := &Stream{c: c, opts: opts, plain: c.state.current.http10}
	var err error
	if s.slot, err = c.srv.streams.add(s); err != nil {
		return nil, err
	}
	s.queue = s.head(ctx)
	s.headSize = len(s.queue)
	s.opts.First = nil
	c.stream.Store(s)
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

// Write sends whole events, framed as text/event-stream already. It does not wait: what the client does not take at once is queued,
// and nil means that it is sent or queued. Nothing of event is kept. If the queue is full the stream is closed and ErrSlowReader returned;
// ErrClosed is returned when the stream has ended or is about to, else the error of a write.
func (s *Stream) Write(event []byte) error { return s.put(false, event) }

// WriteParts is Write for events in several parts. A large one that finds nothing queued is not copied: the call waits, as long as the
// client may take for it, and what is written meanwhile is queued behind.
func (s *Stream) WriteParts(event ...[]byte) error { return s.put(true, event...) }

// Waiting returns how many bytes wait for the client.
func (s *Stream) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) + s.inFlight - s.headSize
}

func (s *Stream) put(wait bool, event ...[]byte) error {
	size := length(event)
	if size == 0 {
		return nil
	}
	s.mu.Lock()
	if s.closed || s.ending {
		s.mu.Unlock()
		return ErrClosed
	}
	waiting := len(s.queue) + s.inFlight - s.headSize
	if waiting > 0 && waiting+size > s.opts.Queue {
		s.mu.Unlock()
		s.close(ErrSlowReader)
		return ErrSlowReader
	}
	if !s.started || s.writing || len(s.queue) > 0 {
		room := s.c.srv.answers.add(&s.c.part, size)
		if room {
			s.queue = s.frame(s.queue, event...) // the writer sends it
		}
		s.mu.Unlock()
		if !room {
			s.close(ErrSlowReader)
			return ErrSlowReader
		}
		return nil
	}
	f := framings.Get().(*framing)
	f.lay(s, size, event)
	err := s.writeNow(&f.Parts)
	inPlace := err == nil && wait && f.Left > maxCopied && s.c.secure == nil
	switch {
	case err != nil || f.Left == 0:
	case inPlace:
		s.writing, s.inFlight = true, f.Left
		s.c.srv.tasks.begin() // a Shutdown waits for it
	case !s.c.srv.answers.add(&s.c.part, f.Left):
		err = ErrSlowReader
	default:
		for _, part := range f.List {
			s.queue = append(s.queue, part...)
		}
		s.writing = true
		s.c.srv.tasks.run(s.writeQueue)
	}
	s.mu.Unlock()
	if inPlace {
		err = s.writeRest(&f.Parts)
		s.c.srv.tasks.end()
	}
	f.release()
	if err != nil {
		s.close(err)
	}
	return err
}

// flush writes as much of the queue as the socket takes at once, and leaves the rest to a writer. The caller holds the lock; over
// reports that close must be called, without the lock.
func (s *Stream) flush() (over bool, err error) {
	if !s.started || s.writing || s.closed {
		return false, nil
	}
	if len(s.queue) > 0 {
		f := framings.Get().(*framing)
		f.List, f.Left = append(f.List, s.queue), len(s.queue)
		err = s.writeNow(&f.Parts)
		s.queue = s.queue[len(s.queue)-f.Left:]
		f.release()
		if err != nil {
			return true, err
		}
	}
	if len(s.queue) > 0 {
		s.writing = true
		s.c.srv.tasks.run(s.writeQueue)
		return false, nil
	}
	s.queue = nil
	return s.ending, s.reason
}

// writeNow writes as much as the socket takes at once, and attaches the socket if something is left. The caller holds the lock.
func (s *Stream) writeNow(p *netpoll.Parts) error {
	c := s.c
	if c.secure != nil {
		return nil
	}
	if err := c.socket.WriteNow(p); err != nil || p.Left == 0 {
		return err
	}
	made, err := c.socket.Attach()
	if made {
		c.writes = netpoll.WriteDeadline{}
	}
	return err
}

// writeRest writes the rest of an event on the goroutine of its sender, waiting for the client, and then has the queue written. If the
// client lets it wait for long, what is left is queued.
func (s *Stream) writeRest(p *netpoll.Parts) error {
	var batch net.Buffers
	for p.Left > 0 {
		batch = p.First(batch[:0], writePiece)
		again := batch // WriteParts consumes it
		n, err := s.c.writeParts(&again, 0)
		p.Skip(n)
		if err == errWaits { //nolint:errorlint // it is never wrapped
			return s.queueRest(p)
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.inFlight = p.Left
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 && !s.ending {
		s.writing = false
		return nil
	}
	s.c.srv.tasks.run(s.writeQueue)
	return nil
}

// queueRest queues the rest of an event in front of what has been queued since.
func (s *Stream) queueRest(p *netpoll.Parts) error {
	if !s.c.srv.answers.add(&s.c.part, p.Left) {
		return ErrSlowReader
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := make([]byte, 0, p.Left+len(s.queue))
	for _, part := range p.List {
		rest = append(rest, part...)
	}
	s.queue, s.inFlight = append(rest, s.queue...), 0
	s.c.srv.tasks.run(s.writeQueue)
	return nil
}

// writeQueue writes the queue until it is empty, waiting for the client.
func (s *Stream) writeQueue() {
	for {
		s.mu.Lock()
		out := s.queue
		s.queue, s.inFlight = nil, len(out)
		if s.closed || len(out) == 0 {
			s.writing = false
			over, reason := s.ending && !s.closed, s.reason
			s.mu.Unlock()
			if over {
				s.close(reason)
			}
			return
		}
		s.mu.Unlock()
		_, err := s.c.Write(out)
		s.c.srv.answers.sub(&s.c.part, len(out))
		if err != nil {
			s.close(err)
		}
	}
}

// framing is a chunk to be written, and the memory for its frame.
type framing struct {
	netpoll.Parts
	room []byte // the beginning of the chunk
}

var framings = sync.Pool{New: func() any {
	f := new(framing)
	f.Init()
	return f
}}

// minInPlace is the size from which an event is written without copying it. A smaller one is cheaper to copy.
const minInPlace = 4 << 10

var chunkEnd = []byte("\r\n")

// lay makes a chunk of an event of size bytes. A small one is copied, to be one piece.
func (f *framing) lay(s *Stream, size int, event [][]byte) {
	switch {
	case size < minInPlace:
		f.room = s.frame(f.room[:0], event...)
		f.List = append(f.List, f.room)
	case s.plain:
		f.List = append(f.List, event...)
	default:
		f.room = append(strconv.AppendUint(f.room[:0], uint64(size), 16), "\r\n"...)
		f.List = append(append(append(f.List, f.room), event...), chunkEnd)
	}
	f.Left = length(f.List)
}

// release gives f back to the pool.
func (f *framing) release() {
	f.Reset()
	framings.Put(f)
}

var (
	// ErrClosed is returned by a Stream after its end.
	ErrClosed = errors.New("httpd: closed")
	// ErrLeft is the reason of a Stream whose client closed its side or reset the connection.
	ErrLeft = errors.New("httpd: the peer left")
	// ErrShutdown is the reason of a Stream ended by Server.Shutdown.
	ErrShutdown = errors.New("httpd: the server shuts down")
	// ErrTooManyStreams is returned by OpenStream when Options.MaxStreams streams are open.
	ErrTooManyStreams = errors.New("httpd: too many streams")
)
