package load

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/bench/reference"
)

// twoWay is an HTTP+SSE server: a child for each stream. With others each answer comes behind one to somebody else.
type twoWay struct {
	others bool

	mu       sync.Mutex
	children map[string]*io.PipeWriter
}

func (s *twoWay) handle(ctx *fasthttp.RequestCtx) {
	if ctx.IsPost() {
		s.mu.Lock()
		child := s.children[string(ctx.QueryArgs().Peek("s"))]
		s.mu.Unlock()
		_, _ = child.Write(append(ctx.PostBody(), '\n')) // an error shows as an answer that does not come
		ctx.SetStatusCode(fasthttp.StatusAccepted)
		return
	}
	in, child := io.Pipe()
	out, answers := io.Pipe()
	s.mu.Lock()
	id := strings.Repeat("x", len(s.children)+1)
	s.children[id] = child
	s.mu.Unlock()
	go func() { _ = answers.CloseWithError(reference.ServeEcho(in, answers, reference.Legacy)) }() // ends with child
	ctx.SetContentType("text/event-stream")
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer child.Close()
		_, _ = w.WriteString("event: endpoint\ndata: /post?s=" + id + "\n\n")
		for lines := bufio.NewReaderSize(out, 2<<20); w.Flush() == nil; {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return
			}
			if s.others {
				_, _ = w.WriteString("data: {\"id\":77,\"result\":{}}\n\ndata: {\"method\":\"notifications/x\"}\n\n")
			}
			_, _ = w.Write(eventstream.AppendMessage(nil, bytes.TrimSpace(line)))
		}
	})
}

func TestTwoWay(t *testing.T) {
	f := func(others bool, size int) {
		t.Helper()
		s := &twoWay{others: others, children: map[string]*io.PipeWriter{}}
		server := fasthttp.Server{Handler: s.handle, MaxRequestBodySize: maxBody}
		p := plan(serve(t, server.Serve), Legacy)
		p.Transport, p.Path, p.Size = TwoWay, "/sse", size
		r, err := Run(t.Context(), p)
		if err != nil || r.Errors != 0 || r.Requests == 0 || (r.Strays > 0) != others {
			t.Errorf("others %v, %d bytes: %+v, %v", others, size, r, err)
		}
		for _, child := range s.children {
			_ = child.Close()
		}
	}
	f(false, 300)
	f(true, 300)
	f(false, 1<<20)
}

func TestTwoWayFails(t *testing.T) {
	f := func(handler fasthttp.RequestHandler, want string) {
		t.Helper()
		server := fasthttp.Server{Handler: handler}
		p := plan(serve(t, server.Serve), Legacy)
		p.Transport, p.Path = TwoWay, "/sse"
		p.Timeout = 2 * time.Second
		if err := Once(t.Context(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(404) }, "HTTP status 404")
	f(func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("text/event-stream")
		ctx.SetBodyString(": nothing\n\n")
	}, "EOF")
}

// A server without sessions is right for a plan that says so, and for no other.
func TestSessionless(t *testing.T) {
	server := fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		var out bytes.Buffer
		_ = reference.ServeEcho(bytes.NewReader(append(ctx.PostBody(), '\n')), &out, reference.Legacy)
		if ctx.SetContentType("application/json"); out.Len() == 0 {
			ctx.SetStatusCode(fasthttp.StatusAccepted)
		}
		ctx.SetBody(out.Bytes())
	}}
	p := plan(serve(t, server.Serve), Legacy)
	if err := Once(t.Context(), p); err == nil || !strings.Contains(err.Error(), "without a session id") {
		t.Errorf("a session was wanted: %v", err)
	}
	p.Sessionless, p.Answer = true, 5000
	c, err := Open(t.Context(), p, 3*MaxConnections+1)
	if err != nil {
		t.Fatal(err)
	}
	if err = c.Call(); err != nil || len(c.w.template.text) != 5000-answerEnvelope {
		t.Errorf("%v, a text of %d", err, len(c.w.template.text))
	}
	c.Leave()
	if err = c.Call(); err == nil {
		t.Error("called after it had left")
	}
}

func TestRunEndsSessions(t *testing.T) {
	var mu sync.Mutex
	methods := map[string]int{}
	upstream := reference.NewUpstream(reference.Legacy)
	server := fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		mu.Lock()
		methods[string(ctx.Method())]++
		mu.Unlock()
		upstream.Handle(ctx)
	}}
	p := plan(serve(t, server.Serve), Legacy)
	if _, err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if methods["DELETE"] != p.Connections {
		t.Errorf("%v for %d sessions", methods, p.Connections)
	}
}

func TestChunks(t *testing.T) {
	f := func(in, want string, ok bool) {
		t.Helper()
		c := chunks{in: bufio.NewReader(iotest.OneByteReader(strings.NewReader(in)))}
		got, err := io.ReadAll(&c)
		if string(got) != want || ok != (err == nil) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	f("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", "abc0123456789", true)
	f("0\r\n\r\n", "", true)
	f("3\r\nab", "ab", false)
	f("x\r\n", "", false)
	f("-1\r\n", "", false)
}
