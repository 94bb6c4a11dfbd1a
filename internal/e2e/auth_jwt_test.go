package e2e

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"dragoman/internal/testkit"
)

// Invalid tokens, each for its own reason, and what is requested from the issuer for them.
func TestHostileTokens(t *testing.T) {
	u := newUpstream(t, "modern")
	i := newIssuer(t, "rsa", "ec")
	var lured int // requests for keys at a URL that a token names
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		lured++
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: testKeys()["other"].Public(), KeyID: "other"}}})
	}))
	defer evil.Close()
	r := startRig(t, i.toml("")+u.toml(""), true)
	if res := r.ask("Authorization", "Bearer "+i.token("rsa", jose.RS256, nil)); res.status != 200 {
		t.Fatalf("a good token: %d %s", res.status, res.body)
	}
	good := i.token("rsa", jose.RS256, nil)
	parts := strings.Split(good, ".")
	bad := i.hostile(t, good, evil.URL)
	for what, token := range bad {
		res := r.ask("Authorization", "Bearer "+token)
		challenged(t, what, res, 401, `error="invalid_token"`, "resource_metadata")
		if len(token) > 40 && strings.Contains(res.body+res.header.Get("WWW-Authenticate"), token[:40]) {
			t.Errorf("%s: the token is repeated", what)
		}
	}
	if lured != 0 {
		t.Error("the keys that a token names were fetched")
	}
	if n := i.fetched(); n > 2 {
		t.Errorf("%d fetches of the keys for a handful of bad tokens", n)
	}
	if res := r.must("POST", "/mcp?access_token="+good, discoverBody, modernHeaders("server/discover", "")...); res.status != 401 {
		t.Errorf("a token in the query counts: %d", res.status)
	}
	if log := r.logs.String(); strings.Contains(log, parts[1]) || strings.Contains(log, parts[2]) {
		t.Error("a token is in the log")
	}
}

// hostile returns invalid tokens by their fault. lure is the URL of keys that some of them name.
func (i *issuer) hostile(t *testing.T, good, lure string) map[string]string {
	t.Helper()
	now := time.Now().Unix()
	over := func(key string, value any) string {
		return i.token("rsa", jose.RS256, map[string]any{key: value})
	}
	head := func(key crypto.Signer, h map[jose.HeaderKey]any) string {
		return sign(t, key, jose.RS256, h, i.claims(nil))
	}
	pub := testKeys()["rsa"].Public()
	der, _ := x509.MarshalPKIXPublicKey(pub)
	asSecret := func(secret []byte) string {
		return sign(t, secret, jose.HS256, map[jose.HeaderKey]any{"kid": "rsa", "typ": "at+jwt"}, i.claims(nil))
	}
	payload, _ := json.Marshal(i.claims(nil))
	parts := strings.Split(good, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	return map[string]string{
		"another audience":    over("aud", "https://other.example/mcp"),
		"another server's":    over("aud", authResource+"/servers/other/mcp"),
		"a longer host":       over("aud", authResource+".evil.example/mcp"),
		"audience in a list":  over("aud", []string{"https://a.example", "https://b.example"}),
		"no audience":         over("aud", nil),
		"another issuer":      over("iss", i.url+"/"),
		"no issuer":           over("iss", nil),
		"expired":             over("exp", now-10),
		"no expiry":           over("exp", nil),
		"expiry as text":      over("exp", "never"),
		"expiry far off":      over("exp", 1e300),
		"not yet valid":       over("nbf", now+600),
		"never valid":         over("nbf", 1e300),
		"issued later":        over("iat", now+600),
		"nobody":              over("sub", nil),
		"somebody too long":   over("sub", strings.Repeat("a", 600)),
		"bound by DPoP":       over("cnf", map[string]string{"jkt": "x"}),
		"bound to a cert":     over("cnf", map[string]string{"x5t#S256": "x"}),
		"none":                b64([]byte(`{"alg":"none"}`)) + "." + b64(payload) + ".",
		"None":                b64([]byte(`{"alg":"None"}`)) + "." + b64(payload) + ".",
		"none, signed":        b64([]byte(`{"alg":"none","kid":"rsa"}`)) + "." + parts[1] + "." + parts[2],
		"HS256 by the PEM":    asSecret(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"HS256 by the DER":    asSecret(der),
		"HS256 by the number": asSecret(pub.(*rsa.PublicKey).N.Bytes()),
		"another's key":       head(testKeys()["other"], map[jose.HeaderKey]any{"kid": "rsa"}),
		"a key of its own":    head(testKeys()["other"], map[jose.HeaderKey]any{"jwk": jose.JSONWebKey{Key: testKeys()["other"].Public()}}),
		"jku":                 head(testKeys()["other"], map[jose.HeaderKey]any{"kid": "other", "jku": lure}),
		"x5u":                 head(testKeys()["other"], map[jose.HeaderKey]any{"x5u": lure}),
		"kid as a path":       head(testKeys()["other"], map[jose.HeaderKey]any{"kid": "../../../../dev/null"}),
		"kid as SQL":          head(testKeys()["other"], map[jose.HeaderKey]any{"kid": "x' UNION SELECT 'key'--"}),
		"an id token":         head(testKeys()["rsa"], map[jose.HeaderKey]any{"kid": "rsa", "typ": "logout+jwt"}),
		"critical":            head(testKeys()["rsa"], map[jose.HeaderKey]any{"kid": "rsa", "crit": []string{"x"}, "x": 1}),
		"another's kind":      sign(t, testKeys()["ec"], jose.ES256, map[jose.HeaderKey]any{"kid": "rsa"}, i.claims(nil)),
		"claims changed":      parts[0] + "." + b64([]byte(strings.Replace(string(payload), "alice", "admin", 1))) + "." + parts[2],
		"signature cut":       good[:len(good)-4],
		"no signature":        parts[0] + "." + parts[1] + ".",
		"one part":            "abc",
		"five parts":          good + ".a.b",
		"oversized":           strings.Repeat("a", 17<<10),
		"blanks within":       parts[0] + " " + parts[1],
		"claims twice":        sign(t, testKeys()["rsa"], jose.RS256, map[jose.HeaderKey]any{"kid": "rsa"}, json.RawMessage(`{"iss":"`+i.url+`","sub":"a","sub":"b","aud":"`+authResource+`","exp":9999999999}`)),
	}
}

// With several servers, a token for one of them is valid for that one only, and one for the whole service for all.
func TestTokensOfOneServer(t *testing.T) {
	a, b := newUpstream(t, "modern"), newUpstream(t, "modern")
	i := newIssuer(t, "rsa")
	toml := strings.Replace(a.toml(""), "upstreams.default", "upstreams.a", 1) + strings.Replace(b.toml(""), "upstreams.default", "upstreams.b", 1)
	r := startRig(t, i.toml("")+toml, true)
	f := func(aud, path string, want int) {
		t.Helper()
		token := i.token("rsa", jose.RS256, map[string]any{"aud": []string{"https://else.example", authResource + aud}})
		if res := r.must("POST", path, discoverBody, bearing(token, modernHeaders("server/discover", ""))...); res.status != want {
			t.Errorf("%q at %s: %d %s", aud, path, res.status, res.body)
		}
	}
	f("/servers/a/mcp", "/servers/a/mcp", 200)
	f("/servers/a/mcp", "/servers/b/mcp", 401)
	f("/servers/a/mcp", "/mcp", 401)
	f("/mcp", "/servers/a/mcp", 401)
	f("", "/servers/a/mcp", 200)
	f("/", "/servers/b/mcp", 200)
	f("/servers/a", "/servers/a/mcp", 200)
	f("/evil", "/servers/a/mcp", 401)
	res := r.must("POST", "/servers/a/mcp", discoverBody, modernHeaders("server/discover", "")...)
	challenged(t, "where to ask", res, 401, `/.well-known/oauth-protected-resource/servers/a/mcp"`)
}

// New keys are fetched once, and removed keys are invalid. While the issuer is away its keys stay valid as long as configured; an issuer
// that was never reached is no fault of the caller.
func TestKeysOfTheIssuer(t *testing.T) {
	u := newUpstream(t, "modern")
	i := newIssuer(t, "rsa")
	i.Set(true)
	r := startRig(t, i.toml("")+u.toml(""), true)
	ask := func(kid string) *response {
		return r.ask("Authorization", "Bearer "+i.token(kid, jose.RS256, nil))
	}
	res := ask("rsa")
	if res.status != 503 || !strings.Contains(res.body, `"code":"issuer_unavailable"`) || res.header.Get("Retry-After") == "" {
		t.Errorf("no keys at all: %d %s %v", res.status, res.body, res.header)
	}
	i.Set(false)
	testkit.Eventually(t, "the issuer is back, and so are we", func() bool { return ask("rsa").status == 200 })
	if res := ask("other"); res.status != 401 {
		t.Errorf("a key that is not there: %d", res.status)
	}
	i.Set(true)
	if res := ask("rsa"); res.status != 200 {
		t.Errorf("a key that is there, while the issuer is away: %d", res.status)
	}
}

// A listen ends with its token: it ends with a result, and the next one needs another token.
func TestAListenEndsWithItsToken(t *testing.T) {
	i, u := newIssuer(t, "rsa"), newUpstream(t, "modern")
	u.on("subscriptions/listen", func(c *call) {
		c.event(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$ID},"notifications":{"toolsListChanged":true}}}`)
		<-c.cancelled
	})
	r := startRig(t, i.toml("")+u.toml(""), true).as(i.token("rsa", jose.RS256, map[string]any{"exp": time.Now().Unix() + 1}))
	listen := func() *response {
		return r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`,
			modernHeaders("subscriptions/listen", "")...)
	}
	res := listen()
	mentions(t, res.body, "notifications/subscriptions/acknowledged", `"id":"l","result":`)
	if res.status != 200 {
		t.Errorf("%d %s", res.status, res.body)
	}
	if res := listen(); res.status != 401 || !strings.Contains(res.header.Get("WWW-Authenticate"), "expired") {
		t.Errorf("%d %v", res.status, res.header)
	}
}
