package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
)

// Text in a challenge stays within its quotes, and requested text is not repeated in it.
func TestChallengesAreWellFormed(t *testing.T) {
	a := &Authenticator{opt: AuthOptions{Tokens: noTokens{}, Resource: "https://r.example/base/"}}
	f := func(path, message, want string) {
		t.Helper()
		err := &proxy.Error{Fault: proxy.BadCredentials, Message: message}
		if got := a.Challenge(err, path, []string{"a", "b"}); got != want {
			t.Errorf("%q %q\n  %s\nwant\n  %s", path, message, got, want)
		}
	}
	const begin = `Bearer realm="dragoman", error="invalid_token", error_description="`
	const end = `", scope="a b", resource_metadata="https://r.example/.well-known/oauth-protected-resource/base`
	f("/mcp", "no", begin+"no"+end+`/mcp"`)
	f("/servers/a-b_1/mcp", "no", begin+"no"+end+`/servers/a-b_1/mcp"`)
	f("/servers/a/messages", "no", begin+"no"+end+`/servers/a/sse"`)
	f("/tools", "a \"b\"\\\r\nX: y \u00e4", begin+"a 'b'X: y "+end+`"`)
	f(`/servers/a", x="/mcp`, "no", begin+"no"+end+`"`)
	f("/servers/a\r\nX: y/mcp", "no", begin+"no"+end+`"`)
}

// A certificate expires while a connection that used it is open.
func TestCertificatesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Authenticator{opt: AuthOptions{Certificates: true}}
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, NotAfter: time.Now()}
		if who, err := a.certified(cert); err != nil || who.Principal != "certificate:cn:ci" {
			t.Errorf("%+v %v", who, err)
		}
		time.Sleep(time.Second)
		if _, err := a.certified(cert); err == nil || err.Name != proxy.BadCredentials.Name || !strings.Contains(err.Message, "has expired") {
			t.Errorf("%v", err)
		}
	})
}

type noTokens struct{ Tokens }

// A key is found by its hash only, and only the key itself matches.
func TestKeys(t *testing.T) {
	key := policies.NewKey()
	if other := policies.NewKey(); key == other || len(key) != len(policies.KeyPrefix)+52 {
		t.Errorf("%q %q", key, other)
	}
	if k, err := NewKeys([]KeyOptions{{Name: "a", Principal: "p", Hashes: []string{strings.ToUpper(policies.HashKey(key)[7:])}}}); err == nil {
		t.Errorf("a hash without its kind: %v", k)
	}
	synctest.Test(t, func(t *testing.T) {
		k, err := NewKeys([]KeyOptions{{Name: "a", Principal: "p", Hashes: []string{policies.HashKey(key)}, Expires: time.Now().Add(time.Second)}})
		if err != nil {
			t.Fatal(err)
		}
		if who, err := k.Find([]byte(key)); err != nil || who.Principal != "p" || who.Rights.Name != "a" {
			t.Errorf("%+v %v", who, err)
		}
		for _, shown := range []string{"", key[:len(key)-1], key + "a", strings.ToUpper(key), policies.HashKey(key), policies.HashKey(key)[7:], strings.Repeat("a", 1<<20)} {
			if who, err := k.Find([]byte(shown)); err == nil {
				t.Errorf("%.80q is %+v", shown, who)
			}
		}
		time.Sleep(time.Second)
		if _, err := k.Find([]byte(key)); err == nil || !strings.Contains(err.Message, "expired") {
			t.Errorf("%v", err)
		}
	})
	if _, err := NewKeys([]KeyOptions{{Name: "a", Hashes: []string{policies.HashKey(key)}}, {Name: "b", Hashes: []string{policies.HashKey(key)}}}); err == nil {
		t.Error("one of two keys")
	}
}
