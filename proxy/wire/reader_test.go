package wire

import (
	"reflect"
	"strings"
	"testing"
)

const (
	said  = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a"},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info","io.dragoman/server":"b"}`
	asked = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":` + said + `}}`
)

// A Reader that has read one message returns the same as Scan for the next.
func FuzzReader(f *testing.F) {
	later := `{"jsonrpc":"2.0","id":"long before","method":"tools/list","params":{"_meta":` + said + `,"cursor":"2"}}`
	for _, second := range []string{
		asked, later,
		strings.Replace(later, `"info"`, `"debug"`, 1),
		strings.Replace(later, `"2"}}`, `"2","_meta":{}}}`, 1),
		strings.Replace(later, `"params"`, `"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}},"params"`, 1),
		strings.Replace(later, said, said[:len(said)-1]+`,"progressToken":1}`, 1),
		strings.Replace(later, said, said[:len(said)-1], 1),
		strings.Replace(later, `,"cursor"`, "\n,\"cursor\"", 1),
		`{"jsonrpc":"2.0","id":1,"result":{"_meta":` + said + `}}`, later[:len(later)-6], ``,
	} {
		f.Add([]byte(asked), []byte(second))
		f.Add([]byte(second), []byte(asked))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var r Reader
		_, _ = r.Scan(first)
		got, err := r.Scan(second)
		want, scanErr := Scan(second)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(err, scanErr) {
			t.Fatalf("after %q\n%q is\n%+v %v, want\n%+v %v", first, second, got, err, want, scanErr)
		}
	})
}

// A Reader remembers what it should at every position, and keeps nothing else.
func TestReaderForgetsNothing(t *testing.T) {
	t.Parallel()
	var r Reader
	if _, err := r.Scan([]byte(asked)); err != nil || string(r.meta) != said {
		t.Fatalf("kept %q, %v", r.meta, err)
	}
	m := Message{}
	if end := r.again([]byte("    "+said+" "), 4, &m); end != 4+len(said) || string(m.Version.Of([]byte("    "+said))) != `"2026-07-28"` {
		t.Errorf("it ends at %d with %+v", end, m)
	}
	for _, other := range []string{
		strings.Replace(asked, said, `{"progressToken":7}`, 1), strings.Replace(asked, said, `{"a":"\n"}`, 1), strings.Replace(asked, said, "{\n}", 1),
		strings.Replace(asked, said, `{"a":"`+strings.Repeat("a", maxKept)+`"}`, 1), strings.Replace(asked, said, `[]`, 1),
	} {
		if _, err := r.Scan([]byte(other)); err != nil || string(r.meta) != said {
			t.Errorf("of %.100s it kept %.100q, %v", other, r.meta, err)
		}
	}
}
