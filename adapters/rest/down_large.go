package rest

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/valyala/fasthttp"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// largeData is from how many bytes on the data of an answer is written from where it stands.
const largeData = 64 << 10

// lent is large data: a part of a message with its edits, borrowed from the replies. Its zero value is none.
type lent struct {
	m  *wire.Message
	at wire.Span
}

// renderApart is render for a large result, whose bytes leave from where they stand: copied, scanned again and copied once more they
// were a fifth of a call of 1 MiB. False: render has to do it.
func (r *request) renderApart(m *wire.Message, judge judge) (a answer, ok bool) {
	if !m.Result.IsObject(m.Raw) || !judgedAsItStands(m) {
		return a, false
	}
	if r.bare { // the exchange ends before the last byte leaves, so that is apart
		last := m.Result.To - 1
		return answer{status: fasthttp.StatusOK, data: lent{m, wire.Span{From: m.Result.From, To: last}}, tail: []byte{'}'}}, true
	}
	e := judge(r, m)
	if result := m.Of(m.Result); !e.Success || len(e.Data) != len(result) || &e.Data[0] != &result[0] {
		return a, false // data of another shape
	}
	e = r.envelope(e)
	return answer{status: fasthttp.StatusOK, retryIn: e.Meta.RetryIn, body: e.AppendBefore(nil), data: lent{m, m.Result}, tail: e.AppendAfter(nil)}, true
}

// judgedAsItStands tells whether no edit of the result touches its braces or what is judged of it, isError and resultType, or adds that
// anew, unless it says that the result is complete, which one that says nothing is as well.
func judgedAsItStands(m *wire.Message) bool {
	open, end := wire.Span{From: m.Result.From, To: m.Result.From + 1}, wire.Span{From: m.Result.To - 1, To: m.Result.To}
	for i := range m.Edits {
		e := &m.Edits[i]
		for _, s := range [...]wire.Span{open, end, m.IsError, m.ResultType} {
			if s.Present() && e.From < s.To && s.From < e.To {
				return false
			}
		}
		if bytes.Contains(e.With, []byte("isError")) || bytes.Contains(e.With, []byte("input_required")) {
			return false
		}
	}
	return true
}

// largeAnswer writes an answer whose data is borrowed. It ends the exchange before the last bytes leave: a caller may use the id
// again as soon as it has read its answer.
type largeAnswer struct {
	answer
	r   *request
	end func() // gives data back; nil once it was called
}

// after has the answer, whose data is lent, written when the handler has returned, and end called then.
func (a answer) after(r *request, end func()) {
	r.ctx.Response.SetBodyStream(&largeAnswer{a, r, end}, len(a.body)+a.data.m.PartSize(a.data.at)+len(a.tail))
}

var errPullOnly = errors.New("rest: an answer cannot be read, only written")

// Read is there to be a body stream; it is never called, since WriteTo is preferred.
func (l *largeAnswer) Read([]byte) (int, error) { return 0, errPullOnly }

// WriteTo implements io.WriterTo.
func (l *largeAnswer) WriteTo(w io.Writer) (int64, error) {
	c := counted{w: w}
	_, err := c.Write(l.body)
	if err == nil {
		err = l.data.m.WritePart(&c, l.data.at)
	}
	if err != nil {
		return c.n, err
	}
	l.over()
	_, err = c.Write(l.tail)
	return c.n, err
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (l *largeAnswer) over() {
	if end := l.end; end != nil {
		l.end, l.data = nil, lent{}
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
