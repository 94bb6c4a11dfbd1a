package load

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"dragoman/bench/reference"
)

// TestMain finds goroutines of ours that are left; fasthttp's servers and clients,
// which these tests only talk to, end theirs when their idle times have passed.
func TestMain(m *testing.M) {
	const fasthttp = "github.com/valyala/fasthttp."
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(fasthttp+"(*workerPool).workerFunc"),
		goleak.IgnoreAnyFunction(fasthttp+"(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction(fasthttp+"(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction(fasthttp+"(*TCPDialer).tcpAddrsClean"),
		goleak.IgnoreAnyFunction(fasthttp+"updateServerDate.func1"),
	)
}

// serve runs a server on a free loopback port until the test ends.
func serve(t *testing.T, f func(net.Listener) error) string {
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

func plan(addr string, era Era) Plan {
	return Plan{
		Addr: addr, Path: "/mcp", Era: era, Connections: 3, Size: 300,
		Warmup: 5 * time.Millisecond, Duration: 50 * time.Millisecond, Timeout: 5 * time.Second,
	}
}

func TestTemplate(t *testing.T) {
	f := func(era Era, size, wantSize int) {
		t.Helper()
		p := plan("127.0.0.1:1", era)
		p.Size = size
		tmpl := newTemplate(&p, session{"s", reference.LegacyVersion})
		tmpl.number(7)
		head, body, ok := strings.Cut(string(tmpl.raw), "\r\n\r\n")
		if !ok || len(body) != wantSize || !json.Valid([]byte(body)) {
			t.Errorf("%s, %d bytes: body of %d: %s", era, size, len(body), body)
		}
		if !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":1000000007,`) || !strings.Contains(body, `"text":"1000000007`) {
			t.Errorf("%s: number 7 is %s", era, body)
		}
		if strings.Contains(head, "Mcp-Method") != (era == Modern) || strings.Contains(head, "Mcp-Session-Id: s") != (era == Legacy) {
			t.Errorf("%s: head %s", era, head)
		}
		if want := max(size-answerEnvelope, reference.TokenLen); len(tmpl.text) != want || string(tmpl.text[:10]) != "1000000007" {
			t.Errorf("%s, %d bytes: asks for %d (%.20s)", era, size, len(tmpl.text), tmpl.text)
		}
	}
	f(Modern, 300, 300)
	f(Legacy, 300, 300)
	f(Modern, 10240, 10240)
	f(Legacy, 1<<20, 1<<20)
	f(Legacy, 1, 123) // as short as it can be
}

func TestChecker(t *testing.T) {
	p := plan("127.0.0.1:1", Modern)
	p.Size = 150
	tmpl := newTemplate(&p, session{})
	text := string(tmpl.text)
	answer := func(id, text string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`
	}
	right := answer("1000000000", text)
	f := func(status int, contentType, body, want string) {
		t.Helper()
		var c checker
		message, err := c.message(status, []byte(contentType), []byte(body))
		if err == nil {
			err = c.check(&tmpl, message)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d %s %s: %v, want %q", status, contentType, body, err, want)
		}
	}
	f(200, "application/json", right, "")
	f(200, "application/json; charset=utf-8", right, "")
	f(200, "text/event-stream", "event: message\ndata: "+right+"\n\n", "")
	f(200, "text/event-stream", "id: 1\ndata:\n\n: c\n\ndata: {\"method\":\"notifications/progress\"}\n\ndata: "+right+"\n\n", "")
	f(200, "text/event-stream", "data: "+right+"\n", "incomplete")
	f(200, "text/event-stream", "data: "+right+"\n\ndata: {", "incomplete")
	f(200, "text/event-stream", ": nothing\n\n", "incomplete")
	f(202, "application/json", right, "status 202")
	f(200, "text/plain", right, "content type")
	f(200, "", "", "content type")
	f(200, "application/json", "", "the id")
	f(200, "application/json", answer("1000000001", text), "the id")
	f(200, "application/json", answer("10000000001", text), "the id")
	f(200, "application/json", answer(`"1000000000"`, text), "the id")
	f(200, "application/json", answer("1000000000", "1000000001"+text[10:]), "the text")
	f(200, "application/json", answer("1000000000", text+"x"), "the text")
	f(200, "application/json", answer("1000000000", text[:len(text)-1]), "the text")
	f(200, "application/json", `{"jsonrpc":"2.0","id":1000000000,"error":{"code":-32603}}`, "the text")
	f(200, "application/json", right+"}", "malformed")
	f(200, "application/json", strings.Replace(right, "2.0", "1.0", 1), "not the answer")
	f(200, "application/json", strings.Replace(right, `"result":{`, `"result":{"isError":true,`, 1), "not the answer")
}

func TestRun(t *testing.T) {
	f := func(era Era, server reference.Era, sse bool, size int) {
		t.Helper()
		addr := serve(t, reference.NewUpstream(server).Serve)
		proxy := serve(t, func(l net.Listener) error { return reference.ServeProxy(l, addr) })
		p := plan(proxy, era)
		p.SSE, p.Size = sse, size
		var order []string
		p.Begin = func() { order = append(order, "begin") }
		p.End = func() { order = append(order, "end") }
		r, err := Run(t.Context(), p)
		if err != nil || r.First != nil || r.Errors != 0 || r.Requests == 0 {
			t.Fatalf("%s client, %s server: %+v, %v", era, server, r, err)
		}
		if strings.Join(order, " ") != "begin end" {
			t.Errorf("hooks: %v", order)
		}
		if r.P50 <= 0 || r.P50 > r.P90 || r.P90 > r.P99 || r.P99 > r.Max {
			t.Errorf("latencies %v, %v, %v, %v", r.P50, r.P90, r.P99, r.Max)
		}
		if rate := r.PerSecond(); rate <= 0 || r.Elapsed < p.Duration {
			t.Errorf("%v/s in %v", rate, r.Elapsed)
		}
		if err = Once(t.Context(), p); err != nil {
			t.Errorf("Once: %v", err)
		}
	}
	f(Modern, reference.Modern, false, 300)
	f(Legacy, reference.Legacy, false, 300)
	f(Modern, reference.Dual, true, 10240)
	f(Legacy, reference.Dual, true, 1<<20)
}

// A server that goes wrong now and then must not pass for a fast one.
func TestRunCountsErrors(t *testing.T) {
	upstream := serve(t, reference.NewUpstream(reference.Modern).Serve)
	var calls atomic.Uint64
	addr := serve(t, func(l net.Listener) error {
		client := fasthttp.HostClient{Addr: upstream}
		server := fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
			if calls.Add(1)%5 == 0 {
				ctx.SetBodyString("{}")
				return
			}
			if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
				ctx.SetStatusCode(502)
			}
		}}
		defer client.CloseIdleConnections()
		return server.Serve(l)
	})
	r, err := Run(t.Context(), plan(addr, Modern))
	if err != nil || r.Errors == 0 || r.Requests == 0 || r.First == nil {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestRunFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	modern := serve(t, reference.NewUpstream(reference.Modern).Serve)
	silent := serve(t, func(l net.Listener) error {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(io.Discard, c)
			_ = c.Close()
		}
		return err
	})
	f := func(change func(*Plan), want string) {
		t.Helper()
		p := plan(modern, Modern)
		p.Connections = 1
		change(&p)
		if _, err := Run(ctx, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(func(p *Plan) { p.Connections = 0 }, "1 to 512 connections")
	f(func(p *Plan) { p.Connections = 513 }, "1 to 512 connections")
	f(func(p *Plan) { p.Duration = 0 }, "a duration")
	f(func(p *Plan) { p.Addr = "127.0.0.1:1" }, "connect")
	f(func(p *Plan) { p.Era = Legacy }, "initialize: HTTP status 400")
	f(func(p *Plan) { p.Addr, p.Timeout, p.Era = silent, 50*time.Millisecond, Legacy }, "timeout")
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := Run(ended, plan(modern, Modern)); err == nil {
		t.Error("ran without time")
	}
}
