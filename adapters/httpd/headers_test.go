package httpd

import (
	"errors"
	"testing"

	"github.com/valyala/fasthttp"
)

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
