package httpserver

import (
	"net"
	"strconv"
	"sync"

	"dragoman/adapters/httpd/netpoll"
)

// Write sends whole events, framed as text/event-stream already. It does not wait: what the client does not take at once is queued,
// and nil means no more than that. Nothing of event is kept. If the queue is full the stream is closed and ErrSlowReader returned;
// ErrClosed is returned when the stream has ended or is about to, else the error of a write.
func (s *Stream) Write(event []byte) error { return s.put(false, event) }

// WriteParts is Write for events in several parts, one behind the other. A large one that finds nothing queued is not copied: the call
// waits, as long as the client may take for it, and what is written meanwhile is queued behind.
func (s *Stream) WriteParts(event ...[]byte) error { return s.put(true, event...) }

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
		s.queue = s.frame(s.queue, event...) // the writer comes to it
		s.mu.Unlock()
		return nil
	}
	f := framings.Get().(*framing)
	f.lay(s, size, event)
	err := s.writeNow(&f.Parts)
	inPlace := err == nil && wait && f.Left > maxCopied
	switch {
	case err != nil || f.Left == 0:
	case inPlace:
		s.writing, s.inFlight = true, f.Left
		s.c.srv.tasks.begin() // a Shutdown waits for it
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

// flush writes what the socket takes at once of the queue, and leaves the rest to a writer. It is called with the lock held; over says
// that close must be called, without the lock.
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

// writeNow writes what the socket takes at once, and attaches the socket if something is left. It is called with the lock held.
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

// writeRest writes the rest of an event on the goroutine of its sender, waiting for the client, and then has the queue written.
func (s *Stream) writeRest(p *netpoll.Parts) error {
	var batch net.Buffers
	for p.Left > 0 {
		batch = p.First(batch[:0], writePiece)
		again := batch // WriteParts consumes it
		n, err := s.c.writeParts(&again)
		p.Skip(int(n))
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
		if _, err := s.c.Write(out); err != nil {
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
	f.Count()
}

// release gives f back to the pool.
func (f *framing) release() {
	f.Reset()
	framings.Put(f)
}
