package field

import (
	"testing"

	"dragoman/internal/config/value"
)

// TestLinkLoopback checks that a link without TLS may lead to exactly the hosts that are loopback everywhere else.
func TestLinkLoopback(t *testing.T) {
	for text, want := range map[string]bool{
		"https://id.example/keys":           true,
		"http://127.0.0.2/keys":             true,
		"http://[::1]:8080/keys":            true,
		"http://LOCALHOST/keys":             true,
		"http://id.localhost:8080/keys":     true, // RFC 6761 §6.3
		"http://localhost./keys":            false,
		"http://id.localhost.example/keys":  false,
		"http://notlocalhost/keys":          false,
		"http://id.example/keys":            false,
		"ftp://localhost/keys":              false,
		"https://user:word@id.example/keys": false,
		"https://id.example/keys#first":     false,
	} {
		var at string
		err := Link(&at).Set(value.Literal{Kind: value.QuotedLiteral, Text: text})
		if (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
		if want && at != text {
			t.Errorf("%s is stored as %q", text, at)
		}
	}
}
