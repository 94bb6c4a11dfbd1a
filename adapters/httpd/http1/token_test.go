package http1

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestSetRefusesInjection(t *testing.T) {
	for name, value := range map[string]string{
		"X": "a\r\nY: b", "X-N": "a\nb", "X-Z": "a\x00", "X\r\nY": "a", "X Y": "a", "": "a", "X:": "a", "X-D": "\x7f",
	} {
		var r Request
		var malformed *MalformedError
		if err := r.Set(name, value); !errors.As(err, &malformed) || r.err == nil {
			t.Errorf("%q: %q: %v", name, value, err)
		}
	}
}

// A field replaces one of the same name, whatever the case. The length of the body is the last field.
func TestRequestHead(t *testing.T) {
	origin := &Origin{Authority: "a:1", Path: "/mcp"}
	for want, make := range map[string]func(r *Request){
		"GET /mcp HTTP/1.1\r\nHost: a:1\r\n\r\n": func(*Request) {},
		"GET /mcp HTTP/1.1\r\nHost: a:1\r\nmcp-name: grüße\tan alle\r\n\r\n": func(r *Request) {
			_, _ = r.Set("Mcp-Name", "x"), r.Set("MCP-NAME", "y")
			_ = r.SetBytes("mcp-name", []byte("grüße\tan alle"))
		},
		"POST /x HTTP/1.1\r\nHost: a:1\r\nB: 2\r\nA: 3\r\nContent-Length: 2\r\n\r\n": func(r *Request) {
			r.Method, r.Target, r.Body = "POST", "/x", []byte("hi")
			_, _, _ = r.Set("A", "1"), r.Set("B", "2"), r.Set("a", "0")
			r.Del("A")
			_ = r.Set("A", "3")
		},
		"POST /mcp HTTP/1.1\r\nHost: a:1\r\nContent-Length: 0\r\n\r\n": func(r *Request) { r.Method = "POST" },
	} {
		var r Request
		make(&r)
		for range 2 { // Reset leaves nothing
			if got := string(r.AppendHead(nil, origin)); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			r.Reset()
			if got := string(r.AppendHead(nil, origin)); !strings.HasPrefix(got, "GET /mcp HTTP/1.1\r\nHost: a:1\r\n\r\n") {
				t.Errorf("after Reset: %q", got)
			}
			make(&r)
		}
	}
}

func TestCleanIsValidValue(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for b := range 256 {
				value := bytes.Repeat([]byte("~"), n)
				value[at] = byte(b)
				if clean(value) != ValidValue(value) {
					t.Fatalf("%q: %v", value, clean(value))
				}
				if at > 0 { // a leading tab hides nothing
					value[at-1] = '\t'
					if clean(value) != ValidValue(value) {
						t.Fatalf("%q: %v", value, clean(value))
					}
				}
			}
		}
	}
}
