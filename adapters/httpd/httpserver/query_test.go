package httpserver

import (
	"fmt"
	"testing"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// A path with a plain query is found without the router, any other by it; both get the same request.
func TestPlainQuery(t *testing.T) {
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("POST", "/m", func(ctx *fasthttp.RequestCtx) {
			fmt.Fprintf(ctx, "%s|%s|%s|%v", PathOf(ctx), QueryOf(ctx, "id"), ctx.QueryArgs().Peek("id"), connOf(ctx).state.current.route != nil)
		})
	})
	c := dialTo(t, addr)
	for _, x := range []struct{ target, want string }{
		{"/m", "/m|||true"},
		{"/m?id=a_B-9", "/m|a_B-9|a_B-9|true"},
		{"/m?id=a_B-9", "/m|a_B-9|a_B-9|true"}, // as it came before
		{"/m?id=other", "/m|other|other|true"},
		{"/m?", "/m|||true"},
		{"/m?id=", "/m|||true"},
		{"/m?id=a&id=b", "/m||a|true"},
		{"/m?x=1&id=a", "/m||a|true"},
		{"/m?idd=a", "/m|||true"},
		{"/m?id=%61", "/m||a|false"},
		{"/m?id=a+b", "/m||a b|false"},
		{"/m?id=a#b", "/m||a|false"},
		{"/m?id=a?b", "/m||a?b|false"},
	} {
		for _, body := range []string{"", "x"} {
			c.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", x.target, len(body), body))
			if resp, got := c.answer(); resp.StatusCode != 200 || got != x.want {
				t.Errorf("%s: %d %s, want %s", x.target, resp.StatusCode, got, x.want)
			}
		}
	}
	for target, want := range map[string]int{"/m/?id=a": 404, "/?/m": 404, "/mm?id=a": 404} {
		c.send("POST " + target + " HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		if resp, _ := c.answer(); resp.StatusCode != want {
			t.Errorf("%s: %d", target, resp.StatusCode)
		}
	}
}

// A large body that is read after its head has moved belongs to the same path.
func TestPlainQueryLargeBody(t *testing.T) {
	took := make(chan []byte, 2)
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("POST", "/m", func(ctx *fasthttp.RequestCtx) {
			own := TakeBody(ctx)
			took <- own
			fmt.Fprintf(ctx, "%s|%s|%d", PathOf(ctx), QueryOf(ctx, "id"), len(ctx.PostBody())+len(own))
		})
	})
	c := dialTo(t, addr)
	for _, size := range []int{100, 10 << 10, maxKept, 1 << 20} {
		c.send(fmt.Sprintf("POST /m?id=a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, make([]byte, size)))
		if resp, got := c.answer(); resp.StatusCode != 200 || got != fmt.Sprintf("/m|a|%d", size) {
			t.Errorf("%d bytes: %d %s", size, resp.StatusCode, got)
		}
		if own := testkit.Receive(t, "the body", took); (len(own) == size) != (size >= maxKept) {
			t.Errorf("%d bytes, %d received", size, len(own))
		}
	}
}
