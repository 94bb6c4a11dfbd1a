package mcphttp

import (
	"testing"

	"github.com/valyala/fasthttp"
)

// A key is accepted with the quotes of a structured field and without. An invalid one is recognised as invalid, not ignored.
func TestKeyOf(t *testing.T) {
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
		var ctx fasthttp.RequestCtx
		for _, line := range c.lines {
			ctx.Request.Header.Add("idempotency-key", line)
		}
		if got := KeyOf(&ctx); got != c.want {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
}
