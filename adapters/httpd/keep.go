package httpd

import (
	"bufio"
	"bytes"
	"io"

	"github.com/valyala/fasthttp"
)

// Keep leaves the memory of a request's body, and its Desk, to whoever has them still when the answer ends: the connection goes on
// with others. It is called before the answer's end, by the handler or by what writes the answer, and does nothing for a request that no
// Server of this package has read.
func Keep(ctx *fasthttp.RequestCtx) {
	if c := connOf(ctx); c != nil && c.talk != nil {
		c.talk.kept = true
	}
}

// part lets go of all that the body of the request may stand in.
func (t *talk) part() {
	t.kept, t.small = false, nil
	t.ctx.Request.SwapBody(nil)
	var from io.Reader = connOf(&t.ctx)
	ahead, _ := t.br.Peek(t.br.Buffered()) // it is there
	if len(ahead) > 0 {
		from = io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), from)
	}
	t.br = bufio.NewReaderSize(from, t.br.Size())
	_, _ = t.br.Peek(len(ahead)) // what has come is looked for there
}
