package transport

import (
	"testing"

	"dragoman/proxy/wire"
)

// What was put into a request can be taken out of it, without other edits, and put in again.
func TestTake(t *testing.T) {
	for raw, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"tools/call","id":"a","params":{"_meta":{"progressToken":"t"},"x":1}}`: `{"jsonrpc":"2.0","method":"tools/call","id":7,"params":{"_meta":{"progressToken":"p7"},"x":2}}`,
		`{"jsonrpc":"2.0","method":"tools/call","id":1,"params":{"x":1}}`:                                 `{"jsonrpc":"2.0","method":"tools/call","id":7,"params":{"x":2}}`,
	} {
		m, err := wire.Scan([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		at := wire.Path(m.Raw, wire.Whole(m.Raw), "params", "x")
		m.Replace(at, []byte("2"))
		before := string(m.Append(nil))
		for range 2 {
			var x Minted
			x.Put(&m, 7)
			if got := string(m.Append(nil)); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			x.Take(&m)
			if got := string(m.Append(nil)); got != before {
				t.Errorf("%s, want %s", got, before)
			}
		}
	}
}
