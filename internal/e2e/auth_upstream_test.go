package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
)

// tokenServer issues tokens t1, t2, … to clients with the credentials.
type tokenServer struct {
	mu    sync.Mutex
	given int
	valid string // the valid one at the upstream
	forms []url.Values
	down  bool
}

// ServeHTTP implements http.Handler.
func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	s.forms = append(s.forms, r.PostForm)
	id, secret, _ := r.BasicAuth()
	switch {
	case s.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case id != "dragoman" || secret != "very%2Fsecret" && secret != "very/secret":
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"invalid_client","error_description":"very/secret"}`))
	default:
		s.given++
		s.valid = fmt.Sprintf("t%d", s.given)
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": s.valid, "token_type": "Bearer", "expires_in": 3600})
	}
}

// guard admits only requests with the valid token to a server.
func (s *tokenServer) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		ok := s.valid != "" && r.Header.Get("Authorization") == "Bearer "+s.valid
		s.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *tokenServer) revoke()    { s.mu.Lock(); s.valid = "nothing"; s.mu.Unlock() }
func (s *tokenServer) count() int { s.mu.Lock(); defer s.mu.Unlock(); return s.given }

// A server that requires tokens gets one, the same until it expires, and another when the server refuses it. The client's own Authorization
// never reaches it.
func TestClientCredentials(t *testing.T) {
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			s := &tokenServer{}
			tokens := newTestServer(t, s)
			u.url = newTestServer(t, s.guard(u)) + "/mcp"
			u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
			toml, keys := keysToml("alice")
			r := startRig(t, "[security]\napi_keys_enabled = true\n"+toml+u.toml(fmt.Sprintf(
				"oauth.token_url = %q\noauth.client_id = \"dragoman\"\noauth.client_secret = \"file:%s\"\noauth.scopes = [\"a\", \"b\"]\noauth.resource = \"urn:r\"\n",
				tokens, testkit.WriteFile(t, "secret", "very/secret"))), true).as(keys["alice"])
			call := func() *response {
				return r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
			}
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					if res := call(); res.status != 200 || strings.Contains(res.body, "error") {
						t.Errorf("%d %s", res.status, res.body)
					}
				})
			}
			group.Wait()
			if s.count() != 1 || s.forms[0].Get("scope") != "a b" || s.forms[0].Get("resource") != "urn:r" || s.forms[0].Get("grant_type") != "client_credentials" {
				t.Errorf("%d tokens for %v", s.count(), s.forms)
			}
			s.revoke()
			u.forget()
			if res := call(); res.status != 200 || strings.Contains(res.body, "error") {
				t.Errorf("after the server refuses the token: %d %s", res.status, res.body)
			}
			if n := len(u.all("tools/call")); n != 1 || s.count() != 2 {
				t.Errorf("%d calls, %d tokens", n, s.count())
			}
			s.revoke()
			s.mu.Lock()
			s.down = true
			s.mu.Unlock()
			if res := call(); !strings.Contains(res.body, `"code":"upstream_token_unavailable"`) {
				t.Errorf("without a token: %d %s", res.status, res.body)
			}
			for _, secret := range []string{"very/secret", "very%2Fsecret", "Bearer t", keys["alice"]} {
				if strings.Contains(r.logs.String(), secret) {
					t.Errorf("%q is in the log", secret)
				}
			}
		})
	}
}
