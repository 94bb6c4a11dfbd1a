package mcphttp

import (
	"io"
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/internal/testkit"
)

// A key is accepted with the quotes of a structured field and without. An invalid one is recognised as invalid, not ignored.
func TestKeyOf(t *testing.T) {
	srv, err := httpserver.NewServer(httpserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv.Handle("GET", "/", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(KeyOf(ctx)) })
	url := "http://" + testkit.Serve(t, srv)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"abc"}, "abc"},
		{[]string{`"abc"`}, "abc"},
		{[]string{`"`}, `"`},
		{[]string{`a"b"`}, `a"b"`},
		{[]string{`""`}, " "},
		{[]string{""}, " "},
		{[]string{"a", "a"}, "a, a"},
		{[]string{`"a"`, `"b"`}, `a", "b`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header[HeaderKey] = c.lines
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if _ = res.Body.Close(); err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.lines, got, err, c.want)
		}
	}
}
