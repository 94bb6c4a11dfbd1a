package httpd

import (
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

// keepAliveComment is a line that clients of an event stream must ignore.
const keepAliveComment = ": keep-alive\n\n"

// StreamOptions are what a stream is held with.
type StreamOptions struct {
	First []byte // sent with the head; copied. Empty: a comment, so that those on the way pass the head on
	Queue int    // bytes that may wait for the peer; 1 MiB. A lone event may be larger
	// OnClose is called once, on a goroutine of its own, when the stream is over: with nil after End, else with ErrLeft,
	// ErrSlowReader, ErrShutdown or the error of a write. Shutdown waits for it.
	OnClose func(err error)
	// OnDrain is called by Shutdown: it may Write last events and End. Nil: the stream is just ended. One callback runs at
	// a time.
	OnDrain func(h *Held)
}

// Held is a long-lived event stream: a connection kept open without a goroutine. Its methods may be called from any
// goroutine, also before the handler that made it has returned; what is written then leaves when it has.
type Held struct {
	c    *conn
	opts StreamOptions
	slot int // of the keeper

	mu       sync.Mutex
	queue    []byte // framed bytes not written yet; nil when the peer keeps up
	inFlight int    // bytes with the writer
	headSize int    // bytes of the queue that do not count, before the start
	started  bool   // the connection is ours
	writing  bool   // a writer goroutine is at work
	ending   bool   // nothing comes after the queue
	closed   bool
	plain    bool  // HTTP/1.0: no chunks
	reason   error // what OnClose is told
}

// Hold answers ctx with an event stream that lasts until End, until the peer leaves, or until Shutdown. Status and
// fields set on ctx.Response before are sent. The handler must return soon, and must not touch ctx.Response, or call Watch,
// any more; a Watch from before is disarmed.
// The error is ErrTooManyStreams, ErrShutdown or ErrNotOurs; then ctx is untouched.
func Hold(ctx *fasthttp.RequestCtx, opts StreamOptions) (*Held, error) {
	c := connOf(ctx)
	if c == nil {
		return nil, ErrNotOurs
	}
	if opts.Queue <= 0 {
		opts.Queue = 1 << 20
	}
	h := &Held{c: c, opts: opts, plain: c.talk.current.oldest}
	if err := c.srv.keeper.add(h); err != nil {
		return nil, err
	}
	h.queue = h.head(ctx)
	h.headSize = len(h.queue)
	h.opts.First = nil
	c.held.Store(h)
	if c.closed.Load() {
		h.close(ErrLeft)
	}
	c.arm(h)
	c.taken = h
	return h, nil
}

// head renders the status line, the fields and the first bytes of the stream.
func (h *Held) head(ctx *fasthttp.RequestCtx) []byte {
	fields := &ctx.Response.Header
	eventStream(fields)
	fields.SetContentLength(-1)
	fields.SetConnectionClose()
	first := h.opts.First
	if len(first) == 0 {
		first = []byte(": open\n\n")
	}
	head := fields.Header()
	out := append(make([]byte, 0, len(head)+len(first)+2*chunkRoom), head...)
	if h.plain {
		out = unchunk(out)
	}
	return h.frame(out, first)
}

// frame appends an event to dst as a chunk.
func (h *Held) frame(dst []byte, event ...[]byte) []byte {
	if !h.plain {
		dst = append(strconv.AppendUint(dst, uint64(length(event)), 16), "\r\n"...)
	}
	for _, part := range event {
		dst = append(dst, part...)
	}
	if !h.plain {
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
func (h *Held) start() {
	h.mu.Lock()
	h.started, h.headSize = true, 0
	over, err := h.kick()
	h.mu.Unlock()
	if over {
		h.close(err)
	}
}

// rest gives up what an idle stream does not need.
func (h *Held) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed && !h.ending && !h.writing && len(h.queue) == 0 {
		h.c.chill()
	}
}

// Write sends whole events, framed as text/event-stream already. It does not wait: what the peer does not take at once
// is queued, and nil means no more than that. Nothing is kept of event. If the queue is full the stream is closed and
// ErrSlowReader returned; ErrClosed is returned when the stream is over or about to be, or else why a write failed.
func (h *Held) Write(event []byte) error { return h.put(false, event) }

// Tell is Write for events that stand in several places, one behind the other. Of a large one that finds nothing queued no copy is made:
// it waits, as long as the peer may take for it, and what is written meanwhile is queued behind.
func (h *Held) Tell(event ...[]byte) error { return h.put(true, event...) }

func (h *Held) put(wait bool, event ...[]byte) error {
	size := length(event)
	if size == 0 {
		return nil
	}
	h.mu.Lock()
	if h.closed || h.ending {
		h.mu.Unlock()
		return ErrClosed
	}
	waiting := len(h.queue) + h.inFlight - h.headSize
	if waiting > 0 && waiting+size > h.opts.Queue {
		h.mu.Unlock()
		h.close(ErrSlowReader)
		return ErrSlowReader
	}
	if !h.started || h.writing || len(h.queue) > 0 {
		h.queue = h.frame(h.queue, event...) // whoever writes that comes to it
		h.mu.Unlock()
		return nil
	}
	f := framings.Get().(*framing)
	err := h.direct(f.lay(h, size, event))
	pour := err == nil && wait && f.left > oneReply
	switch {
	case err != nil || f.left == 0:
	case pour:
		h.writing, h.inFlight = true, f.left
		h.c.srv.tasks.begin() // a Shutdown waits for it
	default:
		for _, part := range f.list {
			h.queue = append(h.queue, part...)
		}
		h.writing = true
		h.c.srv.tasks.run(h.write)
	}
	h.mu.Unlock()
	if pour {
		err = h.pour(f)
		h.c.srv.tasks.end()
	}
	f.done()
	if err != nil {
		h.close(err)
	}
	return err
}

// keepAlive writes a comment if nothing is on its way.
func (h *Held) keepAlive() {
	h.mu.Lock()
	quiet := h.started && !h.closed && !h.ending && !h.writing && len(h.queue) == 0
	h.mu.Unlock()
	if quiet {
		_ = h.Write([]byte(keepAliveComment))
	}
}

// End ends the stream properly once everything written before has left. Only the first call counts.
func (h *Held) End() { h.end(nil) }

func (h *Held) end(reason error) {
	h.mu.Lock()
	if h.closed || h.ending {
		h.mu.Unlock()
		return
	}
	h.ending, h.reason = true, reason
	if !h.plain {
		h.queue = append(h.queue, lastChunk...)
	}
	over, err := h.kick()
	h.mu.Unlock()
	if over {
		h.close(err)
	}
}

// Leave is the watcher's word that the peer has gone.
func (h *Held) Leave() { h.close(ErrLeft) }

// kick writes what the socket takes at once of what was queued before the start, or behind the last event, and leaves the rest to a
// writer. It is called with the lock held; over says that close is to be called, without the lock.
func (h *Held) kick() (over bool, err error) {
	if !h.started || h.writing || h.closed {
		return false, nil
	}
	if len(h.queue) > 0 {
		f := framings.Get().(*framing)
		f.list, f.left = append(f.list, h.queue), len(h.queue)
		err = h.direct(f)
		h.queue = h.queue[len(h.queue)-f.left:]
		f.done()
		if err != nil {
			return true, err
		}
	}
	if len(h.queue) > 0 {
		h.writing = true
		h.c.srv.tasks.run(h.write)
		return false, nil
	}
	h.queue = nil
	return h.ending, h.reason
}

// write empties the queue, waiting for the peer, and ends.
func (h *Held) write() {
	for {
		h.mu.Lock()
		out := h.queue
		h.queue, h.inFlight = nil, len(out)
		if h.closed || len(out) == 0 {
			h.writing = false
			over, reason := h.ending && !h.closed, h.reason
			h.mu.Unlock()
			if over {
				h.close(reason)
			}
			return
		}
		h.mu.Unlock()
		if _, err := h.c.send(out); err != nil {
			h.close(err)
		}
	}
}

// close is the one end of a stream. A proper end closes the connection the polite way, any other at once.
func (h *Held) close(reason error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	polite := h.ending && (reason == nil || reason == ErrShutdown)
	h.closed, h.queue = true, nil
	h.mu.Unlock()
	if h.opts.OnClose != nil {
		h.c.srv.tasks.run(func() { h.opts.OnClose(reason) })
	}
	h.c.shut(!polite)
	h.c.srv.keeper.remove(h)
}
