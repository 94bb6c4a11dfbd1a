package drive

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"dragoman/adapters/eventstream"
	"dragoman/bench/reference"
)

// asChild makes the test binary a reference server over stdio, of the era that it names, or one that misbehaves.
const asChild = "TEST_BINARY_AS_CHILD"

// TestMain finds leaked goroutines. Those of fasthttp, which these tests only use as a peer, end with their idle timeouts.
func TestMain(m *testing.M) {
	switch era := os.Getenv(asChild); era {
	case "":
	case "stray":
		straying(os.Stdin, os.Stdout)
		os.Exit(0)
	default:
		if err := reference.ServeEcho(os.Stdin, os.Stdout, reference.Era(era)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	const fasthttp = "github.com/valyala/fasthttp."
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(fasthttp+"(*workerPool).workerFunc"),
		goleak.IgnoreAnyFunction(fasthttp+"(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction(fasthttp+"(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction(fasthttp+"(*TCPDialer).tcpAddrsClean"),
		goleak.IgnoreAnyFunction(fasthttp+"updateServerDate.func1"),
	)
}

// straying answers the third call with another id, and exits.
func straying(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		_, rest, _ := strings.Cut(lines.Text(), `"id":`)
		id := rest[:10]
		if n == 3 {
			id = "7777777777"
		}
		_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`+"\n", id)
		if n == 3 {
			return
		}
	}
}

// serve runs a server on a free loopback port until the test ends.
func serve(t testing.TB, f func(net.Listener) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f(l) }()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func handle(t testing.TB, h fasthttp.RequestHandler) string {
	server := fasthttp.Server{Handler: h, MaxRequestBodySize: MaxMessage, NoDefaultServerHeader: true}
	return serve(t, server.Serve)
}

func planOf(addr string, face Face) Plan {
	p := Plan{Face: face, Revision: reference.ModernVersion, Addr: addr, Host: addr, Path: "/mcp", Connections: 3,
		Warmup: 5 * time.Millisecond, Duration: 60 * time.Millisecond, Rounds: 2, Timeout: 5 * time.Second, Calls: []Call{EchoCall(face, 300, 300, false)}}
	if face == LegacyHTTP {
		p.Revision = reference.LegacyVersion
	}
	if face == SSE || face == LegacyStdio {
		p.Revision = reference.OldestVersion
	}
	if face.Stdio() {
		self, _ := os.Executable()
		era := "modern"
		if face == LegacyStdio {
			era = "legacy"
		}
		p.Command, p.Env = []string{self}, append(os.Environ(), asChild+"="+era)
	}
	return p
}

func run(t *testing.T, ctx context.Context, p Plan) *Result {
	t.Helper()
	r, err := Open(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Run()
}

// twoWay is an HTTP+SSE server with a child for each stream. Before each answer it sends one to another id.
type twoWay struct {
	mu       sync.Mutex
	children map[string]*io.PipeWriter
}

func (s *twoWay) handle(ctx *fasthttp.RequestCtx) {
	if ctx.IsPost() {
		s.mu.Lock()
		child := s.children[string(ctx.QueryArgs().Peek("s"))]
		s.mu.Unlock()
		_, _ = child.Write(append(ctx.PostBody(), '\n')) // after an error the answer does not come
		ctx.SetStatusCode(fasthttp.StatusAccepted)
		return
	}
	in, child := io.Pipe()
	out, answers := io.Pipe()
	s.mu.Lock()
	id := strconv.Itoa(len(s.children))
	s.children[id] = child
	s.mu.Unlock()
	go func() { _ = answers.CloseWithError(reference.ServeEcho(in, answers, reference.Legacy)) }() // ends with child
	ctx.SetContentType("text/event-stream")
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer func() { _ = child.Close() }()
		_, _ = w.WriteString("event: endpoint\ndata: post?s=" + id + "\n\n")
		for lines := bufio.NewReaderSize(out, 2<<20); w.Flush() == nil; {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return
			}
			_, _ = w.WriteString("data: {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
			_, _ = w.Write(eventstream.AppendMessage(nil, bytes.TrimSpace(line)))
		}
	})
}

// service speaks the REST envelope.
func service(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("application/json")
	if ctx.IsGet() {
		ctx.SetBodyString(`{"tools":[],"service":"x"}`)
		return
	}
	_, id, _ := strings.Cut(string(ctx.PostBody()), `"request_id":"`)
	_, text, _ := strings.Cut(string(ctx.PostBody()), `"text":"`)
	text, _, _ = strings.Cut(text, `"`)
	ctx.SetBodyString(`{"success":true,"data":{"content":[{"type":"text","text":"` + text[:reference.TokenLen] + strings.Repeat("x", 190-reference.TokenLen) + `"}]},"request_id":"` + id[:36] +
		`","timestamp":"` + time.Now().UTC().Format(time.RFC3339Nano) + `"}`)
}

func TestFaces(t *testing.T) {
	f := func(p Plan) *Result {
		t.Helper()
		var marks []int
		p.Mark = func(i int) { marks = append(marks, i) }
		r := run(t, t.Context(), p)
		if r.Right == 0 || r.Errors+r.Warmup+r.Unsent+r.Anew != 0 || r.Broken != nil || r.Latency.Max() <= 0 || r.BytesIn == 0 || r.Interrupted {
			t.Errorf("%s: %+v", p.Face, r)
		}
		if len(r.Rounds) != len(marks)-1 || uint64(r.Latency.TotalCount()) != r.Right || (r.Service != nil) != (p.Rate > 0) {
			t.Errorf("%s: %d rounds, marks %v, %d latencies of %d", p.Face, len(r.Rounds), marks, r.Latency.TotalCount(), r.Right)
		}
		if (r.Strays > 0) != (p.Face == SSE) {
			t.Errorf("%s: %d strays", p.Face, r.Strays)
		}
		return r
	}
	modern := serve(t, reference.NewUpstream(reference.Modern).Serve)
	legacy := serve(t, reference.NewUpstream(reference.Legacy).Serve)
	old := &twoWay{children: map[string]*io.PipeWriter{}}
	sse := handle(t, old.handle)
	f(planOf(modern, ModernHTTP))
	f(planOf(legacy, LegacyHTTP))
	f(planOf(sse, SSE))
	for _, child := range old.children {
		_ = child.Close()
	}
	f(planOf("", ModernStdio))
	p := planOf("", LegacyStdio)
	p.Processes = 2
	f(p)
	rest := planOf(handle(t, service), REST)
	rest.Calls[0].Text = rest.Calls[0].Text[:3] + rest.Calls[0].Text[3:] // the service answers with this length
	f(rest)
	rest.Calls = []Call{{Name: "tools/list", Method: "tools/list"}}
	f(rest)
	p = planOf(modern, ModernHTTP)
	p.Calls = []Call{EchoCall(ModernHTTP, 300, 20000, true), EchoCall(ModernHTTP, 1<<20, 300, false), {Name: "list", Method: "tools/list", Weight: 2}}
	f(p)
	p = planOf(legacy, LegacyHTTP)
	p.Duration, p.Requests, p.Rounds = 0, 50, 1
	if r := f(p); r.Right != 50 {
		t.Errorf("%d of 50", r.Right)
	}
	p = planOf(modern, ModernHTTP)
	p.Rate, p.Duration, p.Warmup = 200, 200*time.Millisecond, 0
	if r := f(p); r.Right != 40 {
		t.Errorf("%d of 40 that were due", r.Right)
	}
}

// All calls that were due during a stall wait for the server: a constant rate shows the stall, calls one after the other do not.
func TestStall(t *testing.T) {
	const stall = 500 * time.Millisecond
	var first atomic.Int64
	upstream := reference.NewUpstream(reference.Modern)
	var gate sync.RWMutex
	addr := handle(t, func(ctx *fasthttp.RequestCtx) {
		if first.Add(1) == 50 {
			gate.Lock()
			time.Sleep(stall) // this stall is measured
			gate.Unlock()
		}
		gate.RLock()
		defer gate.RUnlock()
		upstream.Handle(ctx)
	})
	p := planOf(addr, ModernHTTP)
	p.Warmup, p.Duration, p.Rounds, p.Rate, p.Connections = 0, time.Second, 1, 500, 2
	r := run(t, t.Context(), p)
	if r.Errors != 0 || r.Unsent != 0 || r.Right != 500 {
		t.Fatalf("%+v", r)
	}
	// Half of the calls were due during the stall, and waited for half of it on average.
	if p75, longest := time.Duration(r.Latency.ValueAtQuantile(75)), time.Duration(r.Latency.Max()); p75 < stall/5 || longest < stall*9/10 {
		t.Errorf("p75 %s, at most %s: the stall does not show", p75, longest)
	}
	if p90 := time.Duration(r.Service.ValueAtQuantile(90)); p90 > stall/2 {
		t.Errorf("p90 %s from when calls were sent", p90)
	}
	first.Store(0)
	p.Queue = 10
	if r = run(t, t.Context(), p); r.Unsent < 100 || r.Unsent+r.Right != 500 {
		t.Errorf("%d not sent, %d right", r.Unsent, r.Right)
	}
	if longest := time.Duration(r.Latency.Max()); longest < stall*9/10 {
		t.Errorf("at most %s with a short queue", longest)
	}
}

// Every kind of wrong answer is found and reported with an example.
func TestWrongAnswers(t *testing.T) {
	f := func(face Face, want string, lie func(ctx *fasthttp.RequestCtx, id string)) {
		t.Helper()
		upstream := reference.NewUpstream(reference.Modern)
		if face == LegacyHTTP {
			upstream = reference.NewUpstream(reference.Legacy)
		}
		var calls atomic.Int64
		addr := handle(t, func(ctx *fasthttp.RequestCtx) {
			_, rest, ok := strings.Cut(string(ctx.PostBody()), `"id":`)
			if ok && strings.Contains(rest, "tools/call") && calls.Add(1)%5 == 0 {
				ctx.SetContentType("application/json")
				lie(ctx, rest[:10])
				return
			}
			upstream.Handle(ctx)
		})
		p := planOf(addr, face)
		p.Duration, p.Requests, p.Rounds, p.Warmup, p.Timeout, p.Connections = 0, 50, 1, 0, 20*time.Second, 1
		if want == kindTimeout {
			p.Requests, p.Timeout = 5, 500*time.Millisecond
		}
		r := run(t, t.Context(), p)
		if lies := p.Requests / 5; r.Right != 4*lies || r.Errors != lies || len(r.Wrong) != 1 || r.Wrong[0].Kind != want || r.Wrong[0].Count != lies || r.Wrong[0].Example == "" {
			t.Errorf("%s, want %s: %d right, %d errors, %+v", face, want, r.Right, r.Errors, r.Wrong)
		}
	}
	held := make(chan struct{})
	defer close(held)
	for _, face := range []Face{ModernHTTP, LegacyHTTP} {
		for _, one := range wrongAnswers(held) {
			f(face, one.kind, one.tell)
		}
	}
}

// wrongAnswer is a wrong answer and its expected kind.
type wrongAnswer struct {
	kind string
	tell func(ctx *fasthttp.RequestCtx, id string)
}

func wrongAnswers(held <-chan struct{}) []wrongAnswer {
	answer := func(ctx *fasthttp.RequestCtx, id, result string) {
		ctx.SetBodyString(`{"jsonrpc":"2.0","id":` + id + `,` + result + `}`)
	}
	return []wrongAnswer{
		{kindContent, func(ctx *fasthttp.RequestCtx, id string) {
			answer(ctx, id, `"result":{"content":[{"type":"text","text":"hello"}]}`)
		}},
		{kindID, func(ctx *fasthttp.RequestCtx, id string) {
			answer(ctx, id[:9]+"77", `"result":{"content":[]}`)
		}},
		{kindTool, func(ctx *fasthttp.RequestCtx, id string) { answer(ctx, id, `"result":{"isError":true,"content":[]}`) }},
		{"error -32603", func(ctx *fasthttp.RequestCtx, id string) { answer(ctx, id, `"error":{"code":-32603,"message":"no"}`) }},
		{"error -32601", func(ctx *fasthttp.RequestCtx, id string) {
			answer(ctx, id, `"error":{"code":-32601,"message":"no"}`)
			ctx.SetStatusCode(404)
		}},
		{kindMalformed, func(ctx *fasthttp.RequestCtx, id string) { answer(ctx, id, `"result":{]`) }},
		{kindMalformed, func(ctx *fasthttp.RequestCtx, _ string) {}},
		{kindType, func(ctx *fasthttp.RequestCtx, _ string) { ctx.SetContentType("text/html") }},
		{"status 503", func(ctx *fasthttp.RequestCtx, _ string) { ctx.Error("busy", 503) }},
		{"status 202", func(ctx *fasthttp.RequestCtx, id string) {
			answer(ctx, id, `"result":{}`)
			ctx.SetStatusCode(202)
		}},
		{kindStream, func(ctx *fasthttp.RequestCtx, _ string) {
			ctx.SetContentType("text/event-stream")
			ctx.SetBodyString("data: {")
		}},
		{kindConnection, func(ctx *fasthttp.RequestCtx, _ string) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"))
			})
		}},
		{kindTimeout, func(*fasthttp.RequestCtx, string) {
			select {
			case <-held:
			case <-time.After(time.Minute):
			}
		}},
	}
}
