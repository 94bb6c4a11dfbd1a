package drive

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/bench/reference"
)

// A child that answers a call nobody made and exits is reported and started again.
func TestChildGoesWrong(t *testing.T) {
	p := planOf("", ModernStdio)
	p.Env = append(os.Environ(), asChild+"=stray")
	p.Calls = []Call{{Name: "tools/list", Method: "tools/list"}}
	p.Connections, p.Duration, p.Requests, p.Warmup = 1, 0, 9, 0
	r := run(t, t.Context(), p)
	if r.Right != 6 || r.Errors != 3 || r.Strays != 3 || len(r.Wrong) != 1 || r.Wrong[0].Kind != kindConnection {
		t.Errorf("%+v", r)
	}
	p.Command = []string{"/no/such/program"}
	if _, err := Open(t.Context(), p); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing command: %v", err)
	}
}

// A second answer is only wrong if it differs from the first.
func TestTry(t *testing.T) {
	var n atomic.Int64
	addr := handle(t, func(ctx *fasthttp.RequestCtx) {
		_, id, _ := strings.Cut(string(ctx.PostBody()), `"id":`)
		ctx.SetContentType("application/json")
		value := n.Add(1)
		if strings.Contains(id, "same") {
			value = 0
		}
		if strings.Contains(id, "wrong") {
			ctx.SetStatusCode(500)
		}
		fmt.Fprintf(ctx, `{"result":{"value":%d,"_meta":{"n":%d}},"jsonrpc":"2.0","id":%s}`, value, n.Load(), id[:10])
	})
	p := planOf(addr, ModernHTTP)
	p.Calls = []Call{{Name: "same", Method: "same"}, {Name: "other", Method: "other"}, {Name: "wrong", Method: "wrong"}, {Name: "varies", Method: "varies", Varies: true}}
	wrong, varies, err := Try(t.Context(), p)
	if err != nil || fmt.Sprint(varies) != "[false true false false]" || wrong[0] != nil || wrong[1] != nil || wrong[3] != nil || wrong[2] == nil {
		t.Errorf("%v %v %v", wrong, varies, err)
	}
	p.Calls = p.Calls[1:2]
	p.Duration, p.Requests, p.Warmup = 0, 10, 0
	if r := run(t, t.Context(), p); r.Right != 1 || len(r.Wrong) != 1 || r.Wrong[0].Kind != kindContent {
		t.Errorf("answers that differ: %+v", r)
	}
	p.Addr = "127.0.0.1:1"
	if _, _, err = Try(t.Context(), p); err == nil {
		t.Error("called no server")
	}
}

// A client connects again when the server has closed the connection between two calls: that is no error.
func TestReconnects(t *testing.T) {
	upstream := reference.NewUpstream(reference.Modern)
	f := func(server *fasthttp.Server) {
		t.Helper()
		server.Handler = upstream.Handle
		p := planOf(serve(t, server.Serve), ModernHTTP)
		p.Duration, p.Requests, p.Warmup = 0, 30, 0
		p.Connections = 1
		r := run(t, t.Context(), p)
		if r.Right != 30 || r.Errors != 0 || r.Anew != 0 {
			t.Errorf("%+v", r)
		}
	}
	f(&fasthttp.Server{MaxRequestsPerConn: 3}) // says Connection: close
	f(&fasthttp.Server{})
	// A server that does not announce it.
	addr := serve(t, func(l net.Listener) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return nil
			}
			in := bufio.NewReader(c)
			for range 3 {
				var req fasthttp.Request
				if req.Read(in) != nil {
					break
				}
				_, id, _ := strings.Cut(string(req.Body()), `"id":`)
				answer := `{"jsonrpc":"2.0","id":` + id[:10] + `,"result":{}}`
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
			}
			_ = c.Close()
		}
	})
	p := planOf(addr, ModernHTTP)
	p.Calls = []Call{{Name: "x", Method: "x"}}
	p.Duration, p.Requests, p.Warmup, p.Connections = 0, 30, 0, 1
	if r := run(t, t.Context(), p); r.Right != 30 || r.Errors != 0 || r.Anew < 9 {
		t.Errorf("%+v", r)
	}
}

// An interrupted run soon returns what was measured until then.
func TestInterrupted(t *testing.T) {
	addr := serve(t, reference.NewUpstream(reference.Modern).Serve)
	f := func(rate float64, face Face) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := planOf(addr, face)
		p.Warmup, p.Duration, p.Rate = 0, time.Hour, rate
		p.Tell = func(x Progress) {
			if x.Phase == "measuring" && x.Right > 0 {
				cancel()
			}
		}
		begun := time.Now()
		r := run(t, ctx, p)
		if !r.Interrupted || r.Right == 0 || r.Errors != 0 || time.Since(begun) > 10*time.Second {
			t.Errorf("rate %v: %+v after %s", rate, r, time.Since(begun))
		}
	}
	f(0, ModernHTTP)
	f(300, ModernHTTP)
	f(0, ModernStdio)
	silent := serve(t, func(l net.Listener) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return nil
			}
			go func() { // ends with its client
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p := planOf(silent, ModernHTTP)
	p.Warmup, p.Duration, p.Timeout = 0, time.Hour, time.Hour
	if r := run(t, ctx, p); !r.Interrupted || r.Right+r.Errors != 0 || r.Elapsed > 5*time.Second {
		t.Errorf("a server that is silent: %+v", r)
	}
}

func TestIdle(t *testing.T) {
	legacy := reference.NewUpstream(reference.Legacy)
	var deleted, opened atomic.Int64
	addr := handle(t, func(ctx *fasthttp.RequestCtx) {
		switch {
		case ctx.IsDelete():
			deleted.Add(1)
		case strings.Contains(string(ctx.PostBody()), "initialize\""):
			opened.Add(1)
		}
		legacy.Handle(ctx)
	})
	i, err := NewIdle(t.Context(), planOf(addr, LegacyHTTP))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 100} {
		if err := i.Grow(n); err != nil || opened.Load() != int64(n) {
			t.Errorf("%d sessions of %d: %v", opened.Load(), n, err)
		}
	}
	if i.Close(); deleted.Load() != 100 {
		t.Errorf("%d of 100 were ended", deleted.Load())
	}
	if _, err = NewIdle(t.Context(), planOf(addr, ModernHTTP)); err == nil {
		t.Error("sessions of modern clients")
	}
	if err = i.Grow(MaxSessions + 1); err == nil {
		t.Error("more sessions than allowed")
	}
}

// Listening sessions hold a stream each. A server without streams is an error of its own.
func TestListening(t *testing.T) {
	reference := reference.NewUpstream(reference.Legacy)
	var streams atomic.Int64
	addr := serve(t, func(l net.Listener) error {
		return fasthttp.Serve(l, func(ctx *fasthttp.RequestCtx) {
			if !ctx.IsGet() || len(ctx.Request.Header.Peek("Mcp-Session-Id")) == 0 {
				reference.Handle(ctx)
				return
			}
			streams.Add(1)
			ctx.SetContentType("text/event-stream")
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				_, _ = w.WriteString(": open\n\n")
				_ = w.Flush()
			})
		})
	})
	i, err := NewListening(t.Context(), planOf(addr, LegacyHTTP))
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Grow(10); err != nil || streams.Load() != 10 {
		t.Errorf("%d streams: %v", streams.Load(), err)
	}
	i.Close()
	if _, err := NewListening(t.Context(), planOf(addr, SSE)); err == nil {
		t.Error("HTTP+SSE has streams of its own")
	}
	if i, err = NewListening(t.Context(), planOf(legacyAddr(t), LegacyHTTP)); err != nil {
		t.Fatal(err)
	}
	if err := i.Grow(1); err == nil || !strings.Contains(err.Error(), "status 405") {
		t.Errorf("a server without streams: %v", err)
	}
}

func legacyAddr(t *testing.T) string { return serve(t, reference.NewUpstream(reference.Legacy).Serve) }

// Connections use several paths in turn, and First calls until it is answered.
func TestPathsAndFirst(t *testing.T) {
	upstream := reference.NewUpstream(reference.Modern)
	var asked [2]atomic.Int64
	addr := serve(t, func(l net.Listener) error {
		return fasthttp.Serve(l, func(ctx *fasthttp.RequestCtx) {
			at := 0
			if string(ctx.Path()) == "/b" {
				at = 1
			}
			if asked[at].Add(1) == 1 {
				ctx.SetStatusCode(503)
				return
			}
			upstream.Handle(ctx)
		})
	})
	p := planOf(addr, ModernHTTP)
	p.Path, p.Paths = "", []string{"/a", "/b"}
	var first []string
	if err := First(t.Context(), p, func(err error) bool { first = append(first, err.Error()); return true }); err != nil || len(first) != 1 || !strings.Contains(first[0], "503") {
		t.Errorf("%v, after %v", err, first)
	}
	asked[1].Add(1) // no request is refused any more
	p.Warmup = 0
	if r := run(t, t.Context(), p); r.Errors != 0 || asked[0].Load() < 3 || asked[1].Load() < 3 {
		t.Errorf("%d wrong, %d and %d asked", r.Errors, asked[0].Load(), asked[1].Load())
	}
	asked[0].Store(0)
	if err := First(t.Context(), p, func(error) bool { return false }); err == nil {
		t.Error("a wrong answer was accepted")
	}
}

func TestPlanBounds(t *testing.T) {
	f := func(change func(*Plan), want string) {
		t.Helper()
		p := planOf("127.0.0.1:1", ModernHTTP)
		change(&p)
		if _, err := Open(t.Context(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f(func(p *Plan) { p.Connections = 0 }, "out of bounds")
	f(func(p *Plan) { p.Connections = MaxConnections + 1 }, "out of bounds")
	f(func(p *Plan) { p.Duration = 0 }, "either a duration or a number")
	f(func(p *Plan) { p.Requests = 1 }, "either a duration or a number")
	f(func(p *Plan) { p.Calls = nil }, "kinds of calls")
	f(func(p *Plan) { p.Rate = -1 }, "out of bounds")
	f(func(p *Plan) { p.Duration = MaxDuration + 1 }, "longer than")
	f(func(p *Plan) { p.Face = REST; p.Calls = []Call{{Name: "ping", Method: "ping"}} }, "not ping")
	f(func(p *Plan) { p.Connections = 4000; p.Calls = []Call{EchoCall(ModernHTTP, 1<<20, 300, false)} }, "fewer connections")
	f(func(*Plan) {}, "refused")
}

func TestRequests(t *testing.T) {
	f := func(face Face, c Call, want ...string) {
		t.Helper()
		p := planOf("h:1", face)
		p.Calls, p.Header, p.Path = []Call{c}, "Authorization: x\r\n", "/mcp?key=1"
		r := p.requests(session{"s", reference.LegacyVersion}, p.Path)[0]
		r.number([]byte("1234567890"))
		head, text, _ := strings.Cut(string(r.raw), "\r\n\r\n")
		if !face.Stdio() && (!strings.Contains(head, "Authorization: x") || text != "" && !strings.HasSuffix(head, fmt.Sprintf("Content-Length: %d", len(text)))) {
			t.Errorf("%s: %s", face, head)
		}
		for _, w := range want {
			if !strings.Contains(string(r.raw), w) {
				t.Errorf("%s lacks %q:\n%s", face, w, r.raw)
			}
		}
	}
	echo := Call{Method: "tools/call", Header: "echo", Params: `{"name":"echo","arguments":{"a":"{n}"}}`}
	f(ModernHTTP, echo, "POST /mcp?key=1 ", "Mcp-Name: echo\r\n", `"id":1234567890`, `{"a":"1234567890"},"_meta":{`, reference.ModernVersion)
	f(LegacyHTTP, echo, "Mcp-Session-Id: s\r\n", `"params":{"name":"echo","arguments":{"a":"1234567890"}}}`)
	f(ModernStdio, Call{Method: "tools/list"}, `{"jsonrpc":"2.0","id":1234567890,"method":"tools/list","params":{"_meta":{`)
	f(ModernStdio, Call{Method: "tools/list", Params: "{ }"}, `"params":{"_meta":{`)
	f(LegacyStdio, Call{Method: "ping"}, `{"jsonrpc":"2.0","id":1234567890,"method":"ping"}`)
	f(REST, echo, "POST /mcp/call-tool?key=1 ", `{"request_id":"00000000-0000-4000-8000-001234567890","tool":"echo","arguments":{"a":"1234567890"}}`)
	f(REST, Call{Method: "tools/list"}, "GET /mcp/tools?key=1 ")
	for _, size := range []int{300, 10240, 1 << 20} {
		for _, face := range []Face{ModernHTTP, LegacyHTTP, LegacyStdio} {
			c := EchoCall(face, size, size, false)
			if got := length(body(face, reference.ModernVersion, &c)); got != size {
				t.Errorf("%s: a body of %d for %d", face, got, size)
			}
		}
	}
}

// No call has the id of another, or that of initialize.
func TestDigits(t *testing.T) {
	f := func(n uint64, want string) {
		t.Helper()
		if got := string(digits(nil, n)); got != want || got == initializeID {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	f(0, "1000000000")
	f(8_999_999_998, "9999999998")
	f(8_999_999_999, "1000000000")
}

func TestOrder(t *testing.T) {
	got := [3]int{}
	for _, i := range order([]Call{{Weight: 700}, {Weight: 300}, {Weight: 1000}}) {
		got[i]++
	}
	if got != [3]int{7, 3, 10} {
		t.Errorf("%v", got)
	}
	if n := len(order([]Call{{Weight: 999_983}, {Weight: 1}})); n > maxWeights+1 {
		t.Errorf("an order of %d", n)
	}
}

// A correct answer that was seen before costs no allocation.
func TestJudgeAllocatesNothing(t *testing.T) {
	j := &judge{call: Call{Text: Number + "x"}}
	answer := func(n string) []byte {
		return []byte(`{"result":{"content":[{"type":"text","text":"` + n + `x"}]},"jsonrpc":"2.0","id":` + n + `}`)
	}
	if err := j.check(answer("1000000001"), []byte("1000000001")); err != nil {
		t.Fatal(err)
	}
	message, number := answer("1000000002"), []byte("1000000002")
	if n := testing.AllocsPerRun(100, func() {
		if err := j.check(message, number); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := j.check(answer("1000000003"), number); err == nil {
		t.Error("the answer to another call")
	}
	if err := j.check([]byte(strings.Replace(string(message), `x"`, `y"`, 1)), number); err == nil {
		t.Error("another text")
	}
}

// BenchmarkCall measures what a call costs the generator, with a minimal server.
func BenchmarkCall(b *testing.B) {
	p := planOf(serve(b, canned), ModernHTTP)
	p.Connections, p.Duration, p.Warmup, p.Requests, p.Rounds = 1, 0, 0, uint64(b.N), 1
	r, err := Open(b.Context(), p)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	b.ReportAllocs()
	b.ResetTimer()
	if got := r.Run(); got.Right != uint64(b.N) {
		b.Fatalf("%+v", got)
	}
}

// canned answers echo calls of 300 bytes with as little work as possible.
func canned(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return nil
		}
		go func() { // ends with its client
			in, out := make([]byte, 4096), []byte(nil)
			for {
				n, err := c.Read(in)
				if err != nil {
					_ = c.Close()
					return
				}
				at := strings.Index(string(in[:n]), `"id":`) + 5
				id := string(in[at : at+10])
				text := id + "00000190j" + strings.Repeat("x", 190-19)
				body := `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`
				out = append(out[:0], fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)...)
				_, _ = c.Write(out)
			}
		}()
	}
}
