package e2e

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"dragoman/policies"
)

// issuer is an authorization server with metadata and keys that the test changes.
type issuer struct {
	t   *testing.T
	url string

	mu      sync.Mutex
	keys    []jose.JSONWebKey // with private parts; what is published is public
	down    bool
	fetches int
}

var testKeys = sync.OnceValue(func() map[string]crypto.Signer {
	rs, _ := rsa.GenerateKey(rand.Reader, 2048)
	other, _ := rsa.GenerateKey(rand.Reader, 2048)
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	return map[string]crypto.Signer{"rsa": rs, "other": other, "ec": ec, "ed": ed}
})

func newIssuer(t *testing.T, kids ...string) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.publish(kids...)
	srv := httptest.NewServer(i)
	i.url = srv.URL
	t.Cleanup(srv.Close)
	return i
}

// publish publishes the keys of these names, which are also their ids.
func (i *issuer) publish(kids ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, kid := range kids {
		i.keys = append(i.keys, jose.JSONWebKey{Key: testKeys()[kid], KeyID: kid, Use: "sig"})
	}
}

func (i *issuer) Set(down bool) { i.mu.Lock(); i.down = down; i.mu.Unlock() }

func (i *issuer) fetched() int { i.mu.Lock(); defer i.mu.Unlock(); return i.fetches }

// ServeHTTP implements http.Handler.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.down:
		w.WriteHeader(http.StatusBadGateway)
	case r.URL.Path == "/.well-known/oauth-authorization-server":
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/jwks", "token_endpoint": i.url + "/token"})
	case r.URL.Path == "/jwks":
		i.fetches++
		set := jose.JSONWebKeySet{}
		for _, k := range i.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// claims returns the claims of a token that is valid for half an hour, with changes.
func (i *issuer) claims(over map[string]any) map[string]any {
	now := time.Now().Unix()
	c := map[string]any{"iss": i.url, "aud": authResource + "/mcp", "sub": "alice", "exp": now + 1800, "iat": now - 1, "scope": "mcp:use"}
	for k, v := range over {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

const authResource = "https://mcp.example.com"

// token signs these claims with the key of a name.
func (i *issuer) token(kid string, alg jose.SignatureAlgorithm, over map[string]any) string {
	return sign(i.t, testKeys()[kid], alg, map[jose.HeaderKey]any{"kid": kid, "typ": "at+jwt"}, i.claims(over))
}

func sign(t *testing.T, key any, alg jose.SignatureAlgorithm, head map[jose.HeaderKey]any, claims any) string {
	t.Helper()
	opt := &jose.SignerOptions{}
	for k, v := range head {
		opt.WithHeader(k, v)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opt)
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := json.Marshal(claims)
	jws, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// toml is the configuration that trusts the issuer.
func (i *issuer) toml(extra string) string {
	return "[security.jwt]\nissuer = \"" + i.url + "\"\nresource = \"" + authResource + "\"\nleeway = \"1s\"\n" + extra + "\n"
}

// keysToml returns the configuration of an API key for each name, and the keys.
func keysToml(names ...string) (toml string, keys map[string]string) {
	keys = map[string]string{}
	for _, name := range names {
		keys[name] = policies.NewKey()
		toml += "[security.api_keys." + name + "]\nhashes = [\"" + policies.HashKey(keys[name]) + "\"]\n"
	}
	return toml, keys
}

// bearing adds a bearer token to headers.
func bearing(token string, headers []string) []string {
	return append([]string{"Authorization", "Bearer " + token}, headers...)
}

// ask is a modern request that needs no scope.
func (r *rig) ask(headers ...string) *response {
	r.t.Helper()
	return r.must("POST", "/mcp", discoverBody, append(headers, modernHeaders("server/discover", "")...)...)
}

// challenged checks that an answer is a refusal with this status and these parts of a challenge.
func challenged(t *testing.T, what string, res *response, status int, parts ...string) {
	t.Helper()
	if res.status != status {
		t.Errorf("%s: %d %s", what, res.status, res.body)
	}
	if got := res.header.Values("WWW-Authenticate"); len(got) != 1 {
		t.Errorf("%s: %d challenges: %q", what, len(got), got)
	}
	for _, part := range parts {
		if !strings.Contains(res.header.Get("WWW-Authenticate"), part) {
			t.Errorf("%s: the challenge is %s; want %s", what, res.header.Get("WWW-Authenticate"), part)
		}
	}
}

// as returns the same proxy for a client that always sends this token.
func (r *rig) as(token string) *rig {
	other := *r
	other.http = &http.Client{Transport: bearerTransport{r.http.Transport, token}}
	return &other
}
