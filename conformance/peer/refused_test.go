package peer

import "testing"

// An answer whose error is none of JSON-RPC is shown as it is, not as an error with the code 0.
func TestRefusedByHTTP(t *testing.T) {
	for raw, want := range map[string]string{
		`{"error":"invalid_token"}`: `initialize was answered with HTTP 401 and {"error":"invalid_token"}, which is no error of JSON-RPC`,
		`{"error":{"message":"x"}}`: `initialize was answered with HTTP 401 and {"error":{"message":"x"}}, which is no error of JSON-RPC`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"sign in"}}`: "initialize was answered with the error -32001: sign in",
	} {
		m, err := ReadMessage(raw)
		if err != nil {
			t.Fatal(err)
		}
		m.Status = 401
		if got := (&ErrRefused{"initialize", m}).Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
