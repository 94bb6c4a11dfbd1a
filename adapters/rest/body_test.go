package rest

import (
	"bytes"
	"testing"

	"github.com/goccy/go-json"
)

// An accepted body is one strict JSON object: nothing in it can end the object that is put around it.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{}`, ` {"a":1} `, `{"tool":"x","arguments":{"b":[1,2]}}`, `1},"id":{"x":1`, `{},"c":{}`, `{"b":{}}`, `[]`, `{"a":"\\u0000"}`, `"`, "\xef\xbb\xbf{}", `{}}}`, `{"b":1},"b":{}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parseBody(text, false)
		if err != nil {
			if err.Status != 400 || err.Message == "" {
				t.Errorf("%+v", err)
			}
			return
		}
		if got := b.of(b.all); !json.Valid(got) || got[0] != '{' || !bytes.Equal(got, bytes.Trim(bytes.TrimPrefix(text, bom), " \t\r\n")) {
			t.Errorf("%q was read of %q", got, text)
		}
		_, _ = b.pick("a", "b")
		_, _ = b.without("a")
	})
}
