package drive

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	"dragoman/bench/reference"
)

// Each caller has its own session, its answers are judged as strictly as any, and it leaves the session behind.
func TestCallers(t *testing.T) {
	upstream := reference.NewUpstream(reference.Legacy)
	var ended atomic.Int64
	var wrong atomic.Bool
	addr := handle(t, func(ctx *fasthttp.RequestCtx) {
		if ctx.IsDelete() {
			ended.Add(1)
		}
		upstream.Handle(ctx)
		if wrong.Load() {
			ctx.SetBodyString(strings.Replace(string(ctx.Response.Body()), "x", "y", 1))
		}
	})
	p := planOf(addr, LegacyHTTP)
	p.Calls = []Call{EchoCall(LegacyHTTP, 300, 300, false)}
	all, err := NewCallers(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 3 {
		c, err := all.Open()
		if err != nil {
			t.Fatal(err)
		}
		seen[c.Session()] = true
		if err := c.Call(); err != nil {
			t.Error(err)
		}
		c.Leave()
		c.Leave()
	}
	if len(seen) != 3 || seen[""] || ended.Load() != 0 {
		t.Errorf("%d sessions, %d ended", len(seen), ended.Load())
	}
	c, err := all.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Leave()
	wrong.Store(true)
	if err := c.Call(); err == nil || !strings.Contains(err.Error(), kindContent) {
		t.Errorf("another text: %v", err)
	}
	p.Face = LegacyStdio
	if _, err := NewCallers(t.Context(), p); err == nil {
		t.Error("a stdio server has one client")
	}
}

// The numbers of one run are not reused in the next: a server may remember them.
func TestNumbersAreNotReused(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	upstream := reference.NewUpstream(reference.Modern)
	addr := handle(t, func(ctx *fasthttp.RequestCtx) {
		_, rest, _ := strings.Cut(string(ctx.PostBody()), `"id":`)
		mu.Lock()
		seen[rest[:numberLen]]++
		mu.Unlock()
		upstream.Handle(ctx)
	})
	p := planOf(addr, ModernHTTP)
	p.Connections, p.Duration, p.Requests, p.Warmup = 1, 0, 9, 0
	for range 3 {
		if r := run(t, t.Context(), p); r.Right != 9 {
			t.Errorf("%+v", r)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 27 {
		t.Errorf("27 calls with %d numbers", len(seen))
	}
}

// A plain face posts the given body, and expects the text back as a JSON string.
func TestPlain(t *testing.T) {
	call := EchoCall(Plain, 300, 300, false)
	var answer atomic.Value
	answer.Store(strconv.Quote)
	addr := handle(t, func(ctx *fasthttp.RequestCtx) {
		body := string(ctx.PostBody())
		text, ok := strings.CutPrefix(body, `{"text":"`)
		if !ok || len(body) != 300 || string(ctx.Path()) != "/echo" || len(ctx.Request.Header.Peek("MCP-Protocol-Version")) > 0 {
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
			return
		}
		ctx.SetContentType("application/json")
		ctx.SetBodyString(answer.Load().(func(string) string)(text[:numberLen] + call.Text[len(Number):]))
	})
	p := planOf(addr, Plain)
	p.Path, p.Calls = "/echo", []Call{call}
	p.Duration, p.Requests, p.Warmup = 0, 20, 0
	if r := run(t, t.Context(), p); r.Right != 20 || r.Errors != 0 {
		t.Errorf("%+v", r.Wrong)
	}
	f := func(want string, lie func(string) string) {
		t.Helper()
		answer.Store(lie)
		if r := run(t, t.Context(), p); r.Right != 0 || len(r.Wrong) != 1 || r.Wrong[0].Kind != want {
			t.Errorf("%d right, %+v, want %s", r.Right, r.Wrong, want)
		}
	}
	f(kindMalformed, func(text string) string { return text + `"` })
	f(kindContent, func(text string) string { return fmt.Sprintf("%q", text+"x") })
	f(kindContent, func(text string) string { return fmt.Sprintf("%q", "1"+text[1:numberLen-1]+"z"+text[numberLen:]) })
	f(kindContent, func(text string) string { return fmt.Sprintf("[%q]", text) })
}
