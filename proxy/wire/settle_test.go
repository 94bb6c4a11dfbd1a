package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// A message that was renamed agrees with the scan of the same bytes, for every string that is a value in the params or the result.
func TestRenameAgreesWithScan(t *testing.T) {
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"a","uri":"b","taskId":"c","arguments":{"x":"y","z":[1,"w"]},"cursor":"d","level":"e","requestId":"f","progressToken":"g",` +
			`"inputResponses":{"q":{"r":"s"}},"requestState":"h","task":{"ttl":1},"protocolVersion":"i","capabilities":{"k":{}},"clientInfo":{"name":"l"},"notifications":{"m":["n"]},` +
			`"_meta":{"progressToken":"o","io.modelcontextprotocol/protocolVersion":"p","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t"},` +
			`"io.modelcontextprotocol/logLevel":"u","io.modelcontextprotocol/subscriptionId":"v","io.dragoman/server":"w"}}}`,
		`{ "result" : {"resultType":"complete" ,"inputRequests":{"a":{"method":"b"}},"isError":false,"structuredContent":{"c":"d"},"requestState":"e","_meta":{"f":"\u0067"}} , "id":"h","jsonrpc":"2.0" }`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m","data":{"a":"b"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`,
	} {
		for _, one := range stringsOf(raw) {
			for _, with := range []string{"", "x", "longer than before", "a \"quote\"", "\n"} {
				agree(t, raw, one, with)
			}
		}
	}
}

// stringsOf returns the positions of all strings of a message, names of members included.
func stringsOf(raw string) (all []Span) {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end := i + 1
		for raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		all = append(all, Span{uint32(i), uint32(end + 1)})
		i = end
	}
	return all
}

func agree(t *testing.T, raw string, at Span, with string) {
	t.Helper()
	m, err := Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if !m.Params.holds(at) && !m.Result.holds(at) || raw[SkipSpace(m.Raw, at.To)] == ':' {
		return
	}
	edited := m
	edited.Replace(at, AppendText(nil, with))
	want, err := Scan(edited.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	buf := m.Rename(at, with, []byte("before"))
	if !bytes.Equal(buf, want.Raw) || m.plain && !want.plain {
		t.Fatalf("%s with %q is %s, want %s", raw, with, buf, want.Raw)
	}
	m.plain, want.plain = false, false
	if !reflect.DeepEqual(m, want) {
		t.Fatalf("%s with %q:\n%+v, want\n%+v", raw, with, m, want)
	}
}

// Each position of a message is moved.
func TestPositions(t *testing.T) {
	var m Message
	v := reflect.ValueOf(&m).Elem()
	all := func(do func(name string, s *Span)) {
		for i := range v.NumField() {
			if v.Field(i).Type() == reflect.TypeFor[Span]() {
				do(v.Type().Field(i).Name, v.Field(i).Addr().Interface().(*Span))
			}
		}
	}
	n := uint32(100)
	all(func(_ string, s *Span) { n++; *s = Span{n, n + 1} })
	m.shift(shift{101, 1000})
	n = 1100
	all(func(name string, s *Span) {
		if n++; *s != (Span{n, n + 1}) {
			t.Errorf("%s is at %d, want %d", name, s.From, n)
		}
	})
	if n == 1100 {
		t.Error("a message without positions")
	}
}

// What is no value in the place of a value is scanned.
func TestSettleScans(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"b"}}`)
	for _, with := range []string{``, `"`, `7`, `{}`, `}`} {
		m, err := Scan(raw)
		if err != nil {
			t.Fatal(err)
		}
		m.Replace(m.Name, []byte(with))
		edited := m.Append(nil)
		want, wanted := Scan(edited)
		buf, err := m.Settle(nil)
		if (err == nil) != (wanted == nil) || err == nil && (!bytes.Equal(buf, edited) || m.Name != want.Name || m.Params != want.Params) {
			t.Errorf("%s: %s, %v; want %s, %v", with, buf, err, edited, wanted)
		}
	}
}
