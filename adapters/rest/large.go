package rest

import (
	"bytes"
	"io"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy/wire"
)

// largeData is the size in bytes from which the data of an answer is written from the message itself. Copying it twice and
// scanning it again took a fifth of a call of 1 MiB.
const largeData = 64 << 10

// borrowed is a part of a message with its edits, which belongs to the replies.
type borrowed struct {
	m  *wire.Message
	at wire.Span
}

// borrowing is answerTo for a large result, without copies. It fails if the result has to be settled or shaped first.
func (r *request) borrowing(m *wire.Message, shape shaper) (a answer, ok bool) {
	if !m.Result.IsObject(m.Raw) || shapedByEdits(m) {
		return a, false
	}
	if r.bare { // the closing brace is the tail: the exchange ends before the last byte is written
		last := m.Result.To - 1
		return answer{status: fasthttp.StatusOK, data: borrowed{m, wire.Span{From: m.Result.From, To: last}}, tail: []byte{'}'}}, true
	}
	e := shape(r, m)
	if result := m.Of(m.Result); !e.Success || len(e.Data) != len(result) || &e.Data[0] != &result[0] {
		return a, false // the data is not the result
	}
	e = r.completed(e)
	return answer{status: fasthttp.StatusOK, retryIn: e.Meta.RetryIn, body: e.AppendBefore(nil), data: borrowed{m, m.Result}, tail: e.AppendAfter(nil)}, true
}

// shapedByEdits reports whether an edit of the result touches what its envelope depends on: the braces, isError and resultType,
// or adds one of them anew. An added resultType "complete" says nothing new.
func shapedByEdits(m *wire.Message) bool {
	open, end := wire.Span{From: m.Result.From, To: m.Result.From + 1}, wire.Span{From: m.Result.To - 1, To: m.Result.To}
	for i := range m.Edits {
		e := &m.Edits[i]
		for _, s := range [...]wire.Span{open, end, m.IsError, m.ResultType} {
			if s.Present() && e.From < s.To && s.From < e.To {
				return true
			}
		}
		if bytes.Contains(e.With, []byte("isError")) || bytes.Contains(e.With, []byte("input_required")) {
			return true
		}
	}
	return false
}

// largeBody writes an answer with borrowed data. It ends the exchange before the last bytes are written: a caller may use the
// id again as soon as it has read its answer.
type largeBody struct {
	httpserver.WriteOnly
	answer
	r   *request
	end func() // gives the data back; nil once it was called
}

// writeLater makes the server write an answer with borrowed data after the handler has returned. end is called once, when the data
// is no longer used.
func (a answer) writeLater(r *request, end func()) {
	r.ctx.Response.SetBodyStream(&largeBody{answer: a, r: r, end: end}, len(a.body)+a.data.m.PartSize(a.data.at)+len(a.tail))
}

// WriteTo implements io.WriterTo.
func (l *largeBody) WriteTo(w io.Writer) (int64, error) {
	c := counter{w: w}
	_, err := c.Write(l.body)
	if err == nil {
		err = l.data.m.WritePart(&c, l.data.at)
	}
	if err != nil {
		return c.n, err
	}
	l.finish()
	_, err = c.Write(l.tail)
	return c.n, err
}

// counter counts the bytes that it writes.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (l *largeBody) finish() {
	if end := l.end; end != nil {
		l.end, l.data = nil, borrowed{}
		end()
		l.r.close()
	}
}

// Close is called once, whether or not the answer was written.
func (l *largeBody) Close() error {
	l.finish()
	return nil
}
