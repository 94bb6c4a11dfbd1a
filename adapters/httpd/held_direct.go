package httpd

import (
	"net"
	"strconv"
	"sync"
)

// framing is what leaves a stream at once, where it stands, and what is needed for it. It is lent for a write.
type framing struct {
	list [][]byte // what is left, one behind the other
	left int      // bytes of it
	room []byte   // what begins the list
	err  error
	now  func(fd uintptr) // try, as RawConn wants it
}

var framings = sync.Pool{New: func() any {
	f := new(framing)
	f.now = f.try
	return f
}}

// inParts is from how many bytes on an event is written from where it stands. A smaller one is cheaper to copy.
const inParts = 4 << 10

// lay makes a chunk of an event of size bytes. A small one is copied, to be one piece.
func (f *framing) lay(h *Held, size int, event [][]byte) *framing {
	switch {
	case size < inParts:
		f.room = h.frame(f.room[:0], event...)
		f.list = append(f.list, f.room)
	case h.plain:
		f.list = append(f.list, event...)
	default:
		f.room = append(strconv.AppendUint(f.room[:0], uint64(size), 16), "\r\n"...) //nolint:gosec // a length
		f.list = append(append(append(f.list, f.room), event...), chunkEnds)
	}
	f.left = length(f.list)
	return f
}

var chunkEnds = []byte("\r\n")

// done gives f back.
func (f *framing) done() {
	clear(f.list[:cap(f.list)])
	f.list, f.left, f.err = f.list[:0], 0, nil
	framings.Put(f)
}

// pass goes over the first n bytes.
func (f *framing) pass(n int) {
	f.left -= n
	at := 0
	for at < len(f.list) && n >= len(f.list[at]) {
		n -= len(f.list[at])
		at++
	}
	f.list = f.list[:copy(f.list, f.list[at:])]
	if n > 0 {
		f.list[0] = f.list[0][n:]
	}
}

// try writes what the socket takes at once.
func (f *framing) try(fd uintptr) {
	n, err := writeList(int(fd), f.list)
	f.pass(n)
	f.err = err
}

// direct writes what the socket takes at once, and makes ready for what has to wait for the peer, if anything is left. It is called
// with the lock held.
func (h *Held) direct(f *framing) error {
	c := h.c
	cold, err := c.writeCold(f)
	if !cold && c.raw != nil && c.inner == c.Conn {
		if err = c.raw.Control(f.now); err == nil {
			err = f.err
		}
	}
	if err == nil && f.left > 0 {
		err = c.thaw()
	}
	return err
}

// pour writes the rest of an event for its sender, waiting for the peer, as the one who writes, and has what was queued meanwhile
// written.
func (h *Held) pour(f *framing) error {
	var batch net.Buffers
	for f.left > 0 {
		batch = f.batch(batch[:0])
		n, err := h.c.sendAll(batch)
		f.pass(n)
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.inFlight = f.left
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 && !h.ending {
		h.writing = false
		return nil
	}
	h.c.srv.tasks.run(h.write)
	return nil
}

// batch appends the beginning of what is left, as much as has a write's time for itself.
func (f *framing) batch(dst net.Buffers) net.Buffers {
	room := writePiece
	for _, part := range f.list {
		if room < len(part) {
			return append(dst, part[:room])
		}
		dst = append(dst, part)
		if room -= len(part); room == 0 {
			break
		}
	}
	return dst
}

// sendAll is send for what stands in several places, writePiece bytes of it at most.
func (c *conn) sendAll(parts net.Buffers) (n int, err error) {
	if err = c.extend(); err != nil {
		return 0, err
	}
	m, err := parts.WriteTo(c.Conn)
	return int(m), err
}
