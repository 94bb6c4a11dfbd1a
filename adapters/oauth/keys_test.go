package oauth

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"dragoman/proxy"
)

func newTestKeys(t *testing.T, s *server, c *clock) *Keys {
	t.Helper()
	k, err := NewKeys(KeysOptions{URL: s.url + "/jwks", TTL: 10 * time.Minute, Stale: time.Hour, Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// landed waits for the fetch in progress, if there is one.
func landed(k *Keys) {
	k.mu.Lock()
	flight := k.flight
	k.mu.Unlock()
	if flight != nil {
		<-flight
	}
}

// Keys are fetched once, found by their id, fetched again for an unknown id, but not repeatedly, and removed when the issuer removes
// them.
func TestKeyRotation(t *testing.T) {
	s, c := newServer(t), newClock()
	s.respond(200, set(public("a", ecKey())))
	k := newTestKeys(t, s, c)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if found, _, err := k.find("a", "ES256"); err != nil || len(found) != 1 {
				t.Errorf("%v %v", found, err)
			}
		})
	}
	group.Wait()
	for range 50 {
		if _, _, err := k.find("b", "ES256"); !errors.Is(err, errNoSuchKey) {
			t.Fatal(err)
		}
	}
	if n := s.count("/jwks"); n != 1 {
		t.Errorf("%d fetches, of keys that were fetched just now", n)
	}
	s.respond(200, set(public("b", ecKey())))
	c.pass(11 * time.Second)
	if _, _, err := k.find("b", "ES256"); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	if _, _, err := k.find("a", "ES256"); !errors.Is(err, errNoSuchKey) {
		t.Errorf("a removed key: %v", err)
	}
	if n := s.count("/jwks"); n != 2 {
		t.Errorf("%d fetches", n)
	}
	if _, _, err := k.find("b", "RS256"); !errors.Is(err, errNoSuchKey) {
		t.Errorf("a key of another kind: %v", err)
	}
}

// While the issuer is unreachable its keys stay valid as long as configured, no request waits for it, and it is not tried every time.
func TestUnreachableIssuer(t *testing.T) {
	s, c := newServer(t), newClock()
	s.respond(200, set(public("a", ecKey())))
	k := newTestKeys(t, s, c)
	if _, _, err := k.find("a", "ES256"); err != nil {
		t.Fatal(err)
	}
	s.respond(500, nil)
	c.pass(10 * time.Minute)
	for range 50 {
		if _, _, err := k.find("a", "ES256"); err != nil {
			t.Fatalf("stale, but within an hour: %v", err)
		}
		landed(k)
	}
	if n := s.count("/jwks"); n != 2 {
		t.Errorf("%d fetches within no time", n)
	}
	c.pass(time.Hour)
	if _, _, err := k.find("a", "ES256"); err == nil || errors.Is(err, errNoSuchKey) {
		t.Errorf("beyond the hour: %v", err)
	}
	s.respond(200, set(public("a", ecKey())))
	c.pass(2 * time.Second)
	if _, _, err := k.find("a", "ES256"); err != nil {
		t.Errorf("it is back: %v", err)
	}
}

// A silent issuer blocks no request for longer than the timeout of one fetch, however many URLs are tried.
func TestSilentIssuer(t *testing.T) {
	s := newServer(t)
	s.hold = make(chan struct{})
	k, err := NewKeys(KeysOptions{Issuer: s.url + "/tenant", TTL: time.Minute, Within: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	done := make(chan error, 1)
	go func() { _, _, err := k.find("a", "ES256"); done <- err }()
	select {
	case err := <-done:
		if err == nil || errors.Is(err, errNoSuchKey) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("still waiting")
	}
}

// An invalid key set, or one without acceptable keys, counts as none.
func TestUnusableKeySets(t *testing.T) {
	weak := `{"keys":[{"kty":"RSA","kid":"w","e":"AQAB","n":"` + strings.Repeat("A", 170) + `w"}]}`
	for what, body := range map[string]string{"no JSON": "<html>", "no keys": `{}`, "empty": `{"keys":[]}`, "null": "null", "symmetric": `{"keys":[{"kty":"oct","kid":"s","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}]}`,
		"weak": weak, "unknown": `{"keys":[{"kty":"new","kid":"n"}]}`, "too large": `{"keys":[` + strings.Repeat(" ", maxKeySet) + `]}`,
		"for encryption": strings.Replace(string(set(public("a", rsaKey()))), `"kty"`, `"use":"enc","kty"`, 1)} {
		s, c := newServer(t), newClock()
		s.respond(200, []byte(body))
		if _, _, err := newTestKeys(t, s, c).find("s", "HS256"); err == nil || errors.Is(err, errNoSuchKey) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s, c := newServer(t), newClock()
	private, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: rsaKey(), KeyID: "p"}}})
	s.respond(200, private)
	found, _, err := newTestKeys(t, s, c).find("p", "RS256")
	if err != nil || !found[0].IsPublic() {
		t.Errorf("a private key that was published: %v %v", found, err)
	}
}

// Metadata names the URL of the keys: at the places of RFC 8414 and OpenID, only of the issuer itself, and only over TLS or loopback.
func TestDiscovery(t *testing.T) {
	s, c := newServer(t), newClock()
	meta := func(issuer, jwks string) []byte {
		raw, _ := json.Marshal(map[string]string{"issuer": issuer, "jwks_uri": jwks})
		return raw
	}
	f := func(issuer string, body []byte, want string) {
		t.Helper()
		s.respond(200, body)
		k, err := NewKeys(KeysOptions{Issuer: issuer, TTL: time.Minute, Now: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if _, _, err := k.find("a", "ES256"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	f(s.url+"/a", meta(s.url+"/b", s.url+"/jwks"), "names the issuer")
	for _, path := range []string{"/.well-known/oauth-authorization-server/a", "/.well-known/openid-configuration/a", "/a/.well-known/openid-configuration"} {
		if s.count(path) != 1 {
			t.Errorf("%s was asked %d times", path, s.count(path))
		}
	}
	f(s.url, meta(s.url, "http://issuer.example/jwks"), "not https")
	f(s.url, meta(s.url, "file:///etc/passwd"), "not https")
	f(s.url, meta(s.url, ""), "no jwks_uri")
	f(s.url, []byte("x"), "no JSON")
	f(s.url, meta(s.url, s.url+"/jwks"), "is no set of keys")
}

// Keys are fetched over TLS, or from the hosts that are loopback everywhere else.
func TestPrivateURLs(t *testing.T) {
	for url, want := range map[string]bool{"https://id.example/keys": true, "http://127.0.0.2/keys": true, "http://[::1]:80/keys": true, "http://id.localhost/keys": true,
		"http://localhost.example/keys": false, "http://id.example/keys": false, "https://user:word@id.example/keys": false, "https:///keys": false, "ftp://localhost/keys": false} {
		if private(url) != want {
			t.Errorf("%s: %v", url, !want)
		}
	}
}

// A verified token is not verified again. It ends with its lifetime, and with the key that has signed it.
func TestVerifiedTokensAreRemembered(t *testing.T) {
	s, c := newServer(t), newClock()
	s.respond(200, set(public("a", ecKey())))
	v, err := NewVerifier(VerifierOptions{Issuer: "https://i", Resource: "https://r/", Algorithms: Algorithms(), Types: []string{"jwt"}, PrincipalClaim: "sub",
		Keys: newTestKeys(t, s, c), Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(raw []byte, path string) *proxy.Error {
		_, err := v.Verify(raw, []byte(path), nil, time.Time{})
		return err
	}
	end := c.Now().Add(40 * time.Minute).Unix()
	raw := token(t, "a", map[string]any{"iss": "https://i", "sub": "x", "aud": "https://r/mcp", "exp": end, "scope": "a b", "scp": []string{"c"}})
	for range 3 {
		who, err := v.Verify(raw, []byte("/mcp"), nil, time.Time{})
		if err != nil || who.Principal != "https://i#x" || strings.Join(who.Rights.Scopes, " ") != "a b c" {
			t.Fatalf("%+v %v", who, err)
		}
	}
	if v.Cached() != 1 {
		t.Errorf("%d are cached", v.Cached())
	}
	if err := verify(raw, "/servers/a/mcp"); err == nil {
		t.Error("a cached token is valid at another server")
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = v.Verify(raw, []byte("/mcp"), nil, time.Time{}) }); n > 2 {
		t.Errorf("%v allocations for a cached token", n)
	}
	s.respond(200, set(public("b", ecKey())))
	c.pass(11 * time.Minute)
	_ = verify(raw, "/mcp") // starts a fetch of the keys
	landed(v.opt.Keys)
	if err := verify(raw, "/mcp"); err == nil || err.Name != proxy.BadCredentials.Name {
		t.Errorf("signed with a removed key: %v", err)
	}
	s.respond(200, set(public("a", ecKey())))
	c.pass(11 * time.Second)
	if err := verify(raw, "/mcp"); err != nil {
		t.Errorf("it is there again: %v", err)
	}
	c.pass(time.Hour)
	if err := verify(raw, "/mcp"); err == nil || v.Cached() != 0 {
		t.Errorf("expired: %v, %d cached", err, v.Cached())
	}
}

// Keys in a file are read at once, and again later.
func TestKeysInAFile(t *testing.T) {
	c, path := newClock(), filepath.Join(t.TempDir(), "jwks.json")
	if _, err := NewKeys(KeysOptions{File: path}); err == nil {
		t.Error("there is no file")
	}
	if err := os.WriteFile(path, set(public("a", ecKey())), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := NewKeys(KeysOptions{File: path, TTL: time.Minute, Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, _, err := k.find("a", "ES256"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, set(public("b", ecKey())), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.find("b", "ES256"); err != nil {
		t.Error(err)
	}
}
