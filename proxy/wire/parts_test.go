package wire

import (
	"bytes"
	"testing"
)

// Parts and Size agree with Append for all edits.
func TestParts(t *testing.T) {
	f := func(raw string, edit func(m *Message)) {
		t.Helper()
		m, err := Scan([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		edit(&m)
		want := m.Append(nil)
		if got := bytes.Join(m.Parts(nil), nil); !bytes.Equal(got, want) || m.Size() != len(want) {
			t.Errorf("%s (%d), want %s (%d)", got, m.Size(), want, len(want))
		}
	}
	const raw = ` {"jsonrpc":"2.0","id":"abc","method":"m","params":{"a":1,"b":[2],"_meta":{"progressToken":7}}} `
	f(raw, func(*Message) {})
	f(raw, func(m *Message) { m.Replace(m.ID, []byte("1")) })
	f(raw, func(m *Message) { m.Replace(m.ID, []byte("1")); m.Replace(m.Token, []byte(`"p1"`)) })
	f(raw, func(m *Message) {
		m.EditObject(m.Params, []Change{{Key: "a"}, {Key: "b"}, {Key: "_meta"}, {Key: "c", Value: []byte("3")}})
	})
	f(raw, func(m *Message) {
		m.EditObject(m.Params, []Change{{Key: "x", Value: []byte("1")}, {Key: "y", Value: []byte("{}")}})
	})
	f(`{"id":1,"jsonrpc":"2.0","result":{}}`, func(m *Message) { m.Replace(m.Whole(), []byte("null")) })
}
