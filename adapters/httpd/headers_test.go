package httpd

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestStripHopByHop(t *testing.T) {
	var h fasthttp.RequestHeader
	err := h.Read(bufio.NewReader(strings.NewReader("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" +
		"Content-Length: 0\r\nKeep-Alive: v\r\nTE: v\r\nUpgrade: v\r\nProxy-Authorization: v\r\nExpect: v\r\nX-One: v\r\nx-two: v\r\n" +
		"mcp-method: v\r\nConnection: keep-alive, x-one , Host,content-type\r\nconnection: X-Two, not a token\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	StripHopByHop(&h)
	h.Del("Content-Length")
	want := "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nMcp-Method: v\r\n\r\n"
	if got := h.String(); got != want {
		t.Fatalf("%q", got)
	}
	var r fasthttp.ResponseHeader
	r.Set("Connection", "x-one")
	r.Set("X-One", "v")
	r.Set("Trailer", "X-End")
	StripHopByHop(&r)
	if r.Peek("X-One") != nil || len(r.Peek("Trailer")) > 0 {
		t.Fatalf("%q", r.String())
	}
}

func TestSetFieldRefusesInjection(t *testing.T) {
	var h fasthttp.RequestHeader
	for name, value := range map[string]string{
		"X": "a\r\nY: b", "X-N": "a\nb", "X-Z": "a\x00", "X\r\nY": "a", "X Y": "a", "": "a", "X:": "a", "X-D": "\x7f",
	} {
		var malformed *MalformedError
		if err := SetField(&h, name, []byte(value)); !errors.As(err, &malformed) {
			t.Errorf("%q: %q: %v", name, value, err)
		}
	}
	if err := SetField(&h, "mcp-name", []byte("grüße\tan alle")); err != nil || string(h.Peek("MCP-NAME")) != "grüße\tan alle" {
		t.Fatal(err, h.String())
	}
}
