package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// tokens knows the bearer tokens of some callers.
type tokens map[string]proxy.Caller

func (k tokens) Verify(token, _ []byte, _ *x509.Certificate, _ time.Time) (proxy.Caller, *proxy.Error) {
	if string(token) == "later" {
		return proxy.Caller{}, proxy.Errf(proxy.NoKeys, "the issuer is away")
	}
	who, ok := k[string(token)]
	if !ok {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the token is not valid")
	}
	return who, nil
}

// Credentials of the tests: two keys of ann, one of bob, and tokens of ann and of carl, who lacks a scope.
var (
	annKey, annOther, bobKey = policies.NewKey(), policies.NewKey(), policies.NewKey()
	people                   = tokens{
		"ann-token":  {Principal: "ann", Rights: &proxy.Rights{Kind: "jwt", Scopes: []string{"mcp", "more"}}},
		"carl-token": {Principal: "carl", Rights: &proxy.Rights{Kind: "jwt", Scopes: []string{"mcp"}}},
	}
)

func gateKeys(t *testing.T) *Keys {
	t.Helper()
	k, err := NewKeys([]KeyOptions{{Name: "ann", Hashes: []string{policies.HashKey(annKey), policies.HashKey(annOther)}}, {Name: "b", Principal: "bob", Hashes: []string{policies.HashKey(bobKey)}}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
}

// One valid credential of any kind suffices. An invalid one ends the request even beside a valid one, and two name one caller.
func TestCredentials(t *testing.T) {
	all := AuthOptions{Keys: gateKeys(t), Tokens: people, Certificates: true, Scopes: []string{"mcp", "more"}}
	keysOnly, tokensOnly, certsOnly := AuthOptions{Keys: all.Keys}, AuthOptions{Tokens: people}, AuthOptions{Certificates: true}
	for _, c := range []struct {
		name  string
		opt   AuthOptions
		lines []string
		cert  *x509.Certificate
		who   string
		fails string // a part of the error
		row   proxy.Fault
	}{
		{"nothing", all, nil, nil, "", "show who you are: a bearer token (Authorization: Bearer TOKEN), or an API key (Authorization: Bearer KEY, or X-API-Key: KEY), or a client certificate", proxy.Unauthenticated},
		{"nothing, keys only", keysOnly, nil, nil, "", "show who you are: an API key (", proxy.Unauthenticated},
		{"nothing, tokens only", tokensOnly, nil, nil, "", "show who you are: a bearer token (Authorization: Bearer TOKEN)", proxy.Unauthenticated},
		{"nothing, certificates only", certsOnly, nil, nil, "", "show who you are: a client certificate", proxy.Unauthenticated},
		{"a key", all, []string{"X-API-Key: " + annKey}, nil, "ann", "", proxy.Fault{}},
		{"a key as a token", all, []string{"Authorization: Bearer " + annKey}, nil, "ann", "", proxy.Fault{}},
		{"a principal's key", all, []string{"X-API-Key:  " + bobKey}, nil, "bob", "", proxy.Fault{}},
		{"a key's scheme in another case", all, []string{"Authorization: bEARER   " + annKey}, nil, "ann", "", proxy.Fault{}},
		{"an unknown key", all, []string{"X-API-Key: x"}, nil, "", "not known here", proxy.BadCredentials},
		{"an unknown key as a token", all, []string{"Authorization: Bearer " + policies.NewKey()}, nil, "", "the API key is not known here", proxy.BadCredentials},
		{"an unknown key where there are no tokens", keysOnly, []string{"Authorization: Bearer x"}, nil, "", "the API key is not known here", proxy.BadCredentials},
		{"two keys", all, []string{"X-API-Key: " + annKey, "X-API-Key: " + annKey}, nil, "", "several X-API-Key", proxy.BadCredentials},
		{"a key where there are none", tokensOnly, []string{"X-API-Key: " + annKey}, nil, "", "show who you are", proxy.Unauthenticated},
		{"a token", all, []string{"Authorization: Bearer ann-token"}, nil, "ann", "", proxy.Fault{}},
		{"a token, tokens only", tokensOnly, []string{"Authorization: Bearer carl-token"}, nil, "carl", "", proxy.Fault{}},
		{"a token without a scope", all, []string{"Authorization: Bearer carl-token"}, nil, "", "lacks a scope; needed are mcp more", proxy.InsufficientScope},
		{"an unknown token", all, []string{"Authorization: Bearer x"}, nil, "", "the token is not valid", proxy.BadCredentials},
		{"a token that cannot be checked", all, []string{"Authorization: Bearer later"}, nil, "", "the issuer is away", proxy.NoKeys},
		{"two tokens", all, []string{"Authorization: Bearer ann-token", "Authorization: Bearer ann-token"}, nil, "", "several Authorization", proxy.BadCredentials},
		{"another scheme", all, []string{"Authorization: Basic YTpi"}, nil, "", "not Bearer and a token", proxy.BadCredentials},
		{"no token", all, []string{"Authorization: Bearer "}, nil, "", "not Bearer and a token", proxy.BadCredentials},
		{"a token where only certificates count", certsOnly, []string{"Authorization: Bearer x"}, certificate("ci"), "certificate:cn:ci", "", proxy.Fault{}},
		{"two keys of one caller", all, []string{"X-API-Key: " + annKey, "Authorization: Bearer " + annOther}, nil, "ann", "", proxy.Fault{}},
		{"key and token of one caller", all, []string{"X-API-Key: " + annKey, "Authorization: Bearer ann-token"}, nil, "ann", "", proxy.Fault{}},
		{"key and token of two callers", all, []string{"X-API-Key: " + bobKey, "Authorization: Bearer ann-token"}, nil, "", "are of different callers", proxy.BadCredentials},
		{"an invalid token beside a key", all, []string{"X-API-Key: " + annKey, "Authorization: Bearer x"}, nil, "", "the token is not valid", proxy.BadCredentials},
		{"an invalid key beside a token", all, []string{"X-API-Key: x", "Authorization: Bearer ann-token"}, nil, "", "not known here", proxy.BadCredentials},
		{"a certificate", all, nil, certificate("ci"), "certificate:cn:ci", "", proxy.Fault{}},
		{"a certificate without a name", all, nil, certificate(""), "", "no URI, DNS name or common name", proxy.BadCredentials},
		{"a certificate beside a user's token", all, []string{"Authorization: Bearer ann-token"}, certificate("ci"), "ann", "", proxy.Fault{}},
		{"a certificate beside an invalid token", all, []string{"Authorization: Bearer x"}, certificate("ci"), "", "the token is not valid", proxy.BadCredentials},
		{"a nameless certificate beside a token", all, []string{"Authorization: Bearer ann-token"}, certificate(""), "", "no URI", proxy.BadCredentials},
		{"a certificate where they do not count", keysOnly, nil, certificate("ci"), "", "show who you are", proxy.Unauthenticated},
	} {
		h, err := admit(t, c.opt, c.cert, c.lines...)
		switch {
		case c.fails == "" && (err != nil || h.Caller.Principal != c.who || h.Caller.Rights == nil):
			t.Errorf("%s: %q, %v", c.name, h.Caller.Principal, err)
		case c.fails != "" && (err == nil || !strings.Contains(err.Message, c.fails) || !proxy.IsFault(err, c.row) || h.Caller.Rights != nil || h.Caller.Principal != ""):
			t.Errorf("%s: %q, %v", c.name, h.Caller.Principal, err)
		}
	}
}

// admit passes a request through the gate.
func admit(t *testing.T, opt AuthOptions, cert *x509.Certificate, lines ...string) (*proxy.Head, *proxy.Error) {
	t.Helper()
	opt.Metrics = prometheus.NewRegistry()
	a, err := NewAuthenticator(opt)
	if err != nil {
		t.Fatal(err)
	}
	h := headOf(t, lines...)
	h.Cert, h.Path = cert, []byte("/mcp")
	return h, a.Gate()(h)
}

// A certificate names its holder by the most specific name that it has.
func TestCertificateNames(t *testing.T) {
	a := &Authenticator{opt: AuthOptions{CertScopes: []string{"s"}}}
	uri, _ := url.Parse("spiffe://a/b")
	for want, cert := range map[string]*x509.Certificate{
		"certificate:cn:ci": certificate("ci"), "certificate:cn:" + strings.Repeat("n", maxCertName): certificate(strings.Repeat("n", maxCertName)),
		"certificate:dns:a.example":       {Subject: pkix.Name{CommonName: "ci"}, DNSNames: []string{"a.example", "b.example"}, NotAfter: time.Now().Add(time.Hour)},
		"certificate:uri:" + uri.String(): {Subject: pkix.Name{CommonName: "ci"}, DNSNames: []string{"a.example"}, URIs: []*url.URL{uri}, NotAfter: time.Now().Add(time.Hour)},
	} {
		if who, err := a.certified(cert); err != nil || who.Principal != want || who.Rights.Kind != "certificate" || !who.Has("s") || !who.Rights.Expires.Equal(cert.NotAfter) {
			t.Errorf("%s: %+v, %v", want, who, err)
		}
	}
	if who, err := a.certified(certificate(strings.Repeat("n", maxCertName+1))); err == nil {
		t.Errorf("a name that is too long: %+v", who)
	}
}

// Without a credential a request passes where none is needed: at an open path, or from this machine through no proxy.
func TestWithoutCredentials(t *testing.T) {
	open := func(h *proxy.Head) bool { return string(h.Path) == "/healthz" }
	for _, c := range []struct {
		name, path, address string
		lines               []string
		loopback            bool
		kind                string // of the counter; empty: refused
	}{
		{"an open path", "/healthz", "192.0.2.1", nil, false, "open"},
		{"another", "/mcp", "192.0.2.1", nil, false, ""},
		{"from here", "/mcp", "127.0.0.1", nil, true, "anonymous"},
		{"from here by IPv6", "/mcp", "::1", nil, true, "anonymous"},
		{"from elsewhere", "/mcp", "192.0.2.1", nil, true, ""},
		{"from here, where that does not count", "/mcp", "127.0.0.1", nil, false, ""},
		{"through a local proxy", "/mcp", "127.0.0.1", []string{"X-Forwarded-For: 127.0.0.1"}, true, ""},
		{"through a local proxy of another kind", "/mcp", "127.0.0.1", []string{"Via: 1.1 a"}, true, ""},
		{"an invalid credential at an open path", "/healthz", "127.0.0.1", []string{"X-API-Key: x"}, true, ""},
	} {
		reg := prometheus.NewRegistry()
		a, err := NewAuthenticator(AuthOptions{Keys: gateKeys(t), Open: open, Loopback: c.loopback, Metrics: reg})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time with the counter used last
			h := headOf(t, c.lines...)
			h.Path, h.Address = []byte(c.path), netip.MustParseAddr(c.address)
			if err := a.Gate()(h); (err == nil) != (c.kind != "") || h.Caller.Principal != "" || (h.Caller.Rights != nil) != (c.kind == "anonymous") {
				t.Errorf("%s: %+v, %v", c.name, h.Caller, err)
			}
		}
		if got := policytest.Labels(t, reg, "dragoman_authenticated_total", "kind"); c.kind != "" && (got[c.kind] != 2 || len(got) != 1) || c.kind == "" && len(got) != 0 {
			t.Errorf("%s: admitted %v", c.name, got)
		}
		if got := policytest.Metric(t, reg, "dragoman_unauthenticated_total"); (got == 2) != (c.kind == "") {
			t.Errorf("%s: %v refused", c.name, got)
		}
	}
	if (*Authenticator)(nil).Gate() != nil {
		t.Error("a gate without authentication")
	}
}

// Each caller is counted by the kind of its own credential.
func TestAdmittedKinds(t *testing.T) {
	reg := prometheus.NewRegistry()
	a, err := NewAuthenticator(AuthOptions{Keys: gateKeys(t), Tokens: people, Metrics: reg})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"X-API-Key: " + annKey, "Authorization: Bearer ann-token", "X-API-Key: " + bobKey} {
		if err := a.Gate()(headOf(t, line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if got := policytest.Labels(t, reg, "dragoman_authenticated_total", "kind"); got["api_key"] != 2 || got["jwt"] != 1 {
		t.Errorf("%v", got)
	}
}

// A refusal tells the client by which header what to show, or when to come again.
func TestRefusalHeaders(t *testing.T) {
	for _, c := range []struct {
		name string
		opt  AuthOptions
		line string
		want string
	}{
		{"no credential", AuthOptions{Tokens: people, Scopes: []string{"mcp"}, Resource: "https://r/"}, "",
			`WWW-Authenticate: Bearer realm="dragoman", scope="mcp", resource_metadata="https://r/.well-known/oauth-protected-resource/mcp"`},
		{"no credential, keys only", AuthOptions{Keys: gateKeys(t)}, "", `WWW-Authenticate: Bearer realm="dragoman"`},
		{"no certificate", AuthOptions{Certificates: true}, "", `WWW-Authenticate: Certificate realm="dragoman"`},
		{"an invalid one", AuthOptions{Keys: gateKeys(t)}, "X-API-Key: x", `WWW-Authenticate: Bearer realm="dragoman", error="invalid_token", error_description="the API key is not known here"`},
		{"too few scopes", AuthOptions{Tokens: people, Scopes: []string{"all"}, Resource: "http://r:8/base"}, "Authorization: Bearer ann-token",
			`WWW-Authenticate: Bearer realm="dragoman", error="insufficient_scope", error_description="the token lacks a scope; needed are all", scope="all", resource_metadata="http://r:8/.well-known/oauth-protected-resource/base/mcp"`},
		{"not now", AuthOptions{Tokens: people}, "Authorization: Bearer later", "Retry-After: 1"},
	} {
		var lines []string
		if c.line != "" {
			lines = []string{c.line}
		}
		h, err := admit(t, c.opt, nil, lines...)
		got := ""
		for _, field := range h.Reply {
			got += field.Name + ": " + field.Value
		}
		if err == nil || got != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

// An endpoint below a server's name is that server's; other paths belong to the server or the service.
func TestResourcePath(t *testing.T) {
	for path, want := range map[string]string{"/mcp": "/mcp", "/sse": "/sse", "/mcp/sse": "/mcp/sse", "/messages": "/sse", "/": "", "/docs": "", "/mcp/x": "",
		"/servers/a/mcp": "/servers/a/mcp", "/servers/a/messages": "/servers/a/sse", "/servers/a": "/servers/a", "/servers/a/docs": "/servers/a", "/servers/z-9_0/sse": "/servers/z-9_0/sse",
		"/servers/": "", "/servers/A/mcp": "", "/servers/a%2f/mcp": "", "/servers/{/mcp": "", "/servers/`/mcp": "", "/servers/:/mcp": "", "/servers/0/mcp": "/servers/0/mcp"} {
		if got := resourcePath(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
