package transport

import (
	"testing"

	"dragoman/proxy/redact"
)

func TestHideJSON(t *testing.T) {
	s := redact.New("s3cr3t-x", "12345678", `q"uote`)
	for _, c := range []struct{ raw, want string }{
		{`{"a":"s3cr3t-x"}`, `{"a":"(hidden)"}`},
		{`{"s3cr3t-x":[1, "is \u0073\u0033cr3t-x!"]}`, `{"(hidden)":[1, "is (hidden)!"]}`},
		{`{"n": 12345678, "m":12, "t":true}`, `{"n": "(hidden)", "m":12, "t":true}`},
		{`["q\"uote","\\","a\\\"b"]`, `["(hidden)","\\","a\\\"b"]`},
		{`12345678`, `"(hidden)"`},
		{`"s3cr3t`, `"s3cr3t`},
		{`"s3cr3t-x\`, `"(hidden)\\"`},
		{``, ``},
		{`"`, `"`},
		{`[1,"`, `[1,"`},
	} {
		got := string(HideJSON([]byte(c.raw), s.Whole))
		if c.raw == `"s3cr3t-x\` { // no JSON: whatever comes of it has no secret
			if got == c.raw {
				t.Errorf("%s stays", c.raw)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.raw, got, c.want)
		}
	}
	raw := []byte(`{"a":["b\n",1.5e3,null]}`)
	if got := HideJSON(raw, s.Whole); &got[0] != &raw[0] {
		t.Error("what has no secret is copied")
	}
	if got := s.Whole("at the end s3cr3t-"); got != "at the end s3cr3t-" {
		t.Error(got)
	}
	if got := (*redact.Secrets)(nil).Whole("a"); got != "a" {
		t.Error(got)
	}
}
