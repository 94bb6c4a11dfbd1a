package rest

import (
	"errors"
	"io"
	"sync"

	"dragoman/proxy"
)

// largeData is from how many bytes on the data of an answer is written from where it stands.
const largeData = 64 << 10

// largeAnswer writes an answer whose data is borrowed. It ends the exchange before the last bytes leave: a caller may use the id
// again as soon as it has read its answer.
type largeAnswer struct {
	answer
	r   *request
	end func() // gives data back; nil once it was called
}

// after has the answer written when the handler has returned, and end called then.
func (a answer) after(r *request, end func()) {
	r.ctx.Response.SetBodyStream(&largeAnswer{a, r, end}, len(a.body)+len(a.data)+len(a.tail))
}

var errPullOnly = errors.New("rest: an answer cannot be read, only written")

// Read is there to be a body stream; it is never called, since WriteTo is preferred.
func (l *largeAnswer) Read([]byte) (int, error) { return 0, errPullOnly }

// WriteTo implements io.WriterTo.
func (l *largeAnswer) WriteTo(w io.Writer) (written int64, err error) {
	for _, part := range [...][]byte{l.body, l.data} {
		n, err := w.Write(part)
		if written += int64(n); err != nil {
			return written, err
		}
	}
	l.over()
	n, err := w.Write(l.tail)
	return written + int64(n), err
}

func (l *largeAnswer) over() {
	if end := l.end; end != nil {
		l.end, l.data = nil, nil
		end()
		l.r.close()
	}
}

// Close is called once, whatever happened.
func (l *largeAnswer) Close() error {
	l.over()
	return nil
}

// rooms are large ones for requests, *[]byte; the largest are left to the collector.
var rooms sync.Pool

const mostRoom = 4 << 20

// roomFor gives room for a request of so many bytes.
func roomFor(size int) []byte {
	if size >= largeData {
		if b, ok := rooms.Get().(*[]byte); ok && cap(*b) >= size {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, size)
}

// giveBack takes the room of a request that is over.
func giveBack(raw []byte) {
	if cap(raw) < largeData || cap(raw) > mostRoom {
		return
	}
	if proxy.Poison {
		clear(raw)
	}
	rooms.Put(&raw)
}
