package hook

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// An answer permits only if Go's decoder finds the permission, too. Whatever an answer is, reading it ends.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{`{"result":true}`, `{"result":{"allow":true,"reason":"x","ttl":5}}`, `{}`, `{"result":true},"x":{}`, `{"result":{"allow":true,"allow":false}}`, `{"result":{"ttl":1e999}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		got, err := parse(text)
		if !bytes.Equal(text, before) {
			t.Error("the answer was changed")
		}
		if got.ttl < 0 || got.ttl > maxTTL {
			t.Errorf("%q is kept for %v", text, got.ttl)
		}
		var all, decision map[string]json.RawMessage
		valid := json.Unmarshal(text, &all) == nil && all != nil
		if err == nil && utf8.Valid(text) && !valid {
			t.Errorf("%q is read, but is no object of JSON", text)
		}
		allow := string(all["result"])
		if json.Unmarshal(all["result"], &decision) == nil && decision != nil {
			allow = string(decision["allow"])
		}
		if got.allow && (!valid || allow != "true") || err == nil && !got.allow && allow == "true" {
			t.Errorf("%q: permitted is %v", text, got.allow)
		}
	})
}
