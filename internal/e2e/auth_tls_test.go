package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"dragoman/internal/app"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
	n    int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "roots"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, _ = x509.ParseCertificate(der)
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue makes a certificate, and files of it and its key with this name.
func (a *authority) issue(name string, over func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.n++
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(a.n + 1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	over(tmpl)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, _ := x509.MarshalPKCS8PrivateKey(key)
	pair, err := tls.LoadX509KeyPair(a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", raw))
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// startTLS serves the configuration as serve does, over TLS.
func startTLS(t *testing.T, toml string) *rig {
	t.Helper()
	h, logs := startApp(t, toml)
	srv, err := h.ClientServer()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := app.SecureListener(&h.Cfg.TLS, listen(t), h.Log, h.Certified)
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, srv, ln)
	probeAll(t, h)
	return &rig{t: t, h: h, base: "https://" + addr, logs: logs}
}

// showing is a client of the proxy with a certificate, or none.
func (r *rig) showing(a *authority, certs ...tls.Certificate) *rig {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	other := *r
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs, MinVersion: tls.VersionTLS12}}
	other.http = &http.Client{Transport: transport}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &other
}

// A client is identified by its certificate at a listener with TLS. Without one, or with one of another authority, it is anonymous.
func TestClientCertificates(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	a, stranger := newAuthority(t), newAuthority(t)
	a.issue("listener", func(c *x509.Certificate) {
		c.DNSNames = []string{"localhost"}
		c.IPAddresses = append(c.IPAddresses, []byte{127, 0, 0, 1})
	})
	spiffe := a.issue("one", func(c *x509.Certificate) {
		c.URIs = []*url.URL{{Scheme: "spiffe", Host: "x", Path: "/one"}}
		c.DNSNames = []string{"two.example"}
	})
	named := a.issue("two", func(c *x509.Certificate) { c.DNSNames = []string{"two.example"} })
	plain := a.issue("three", nothing)
	i := newIssuer(t, "rsa")
	toml := func(auth string) string {
		return fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\nclient_ca_file = %q\nclient_auth = %q\nclient_scopes = [\"read\"]\n%s%s", filepath.Join(a.dir, "listener.pem"),
			filepath.Join(a.dir, "listener.key"), filepath.Join(a.dir, "ca.pem"), auth, i.toml(""), u.toml(`scopes = { "tool:read" = ["read"], "tool:write" = ["write"] }`))
	}
	r := startTLS(t, toml("optional"))
	sessions := map[string]*rig{}
	for name, cert := range map[string]tls.Certificate{"uri": spiffe, "dns": named, "cn": plain} {
		c := r.showing(a, cert)
		sessions[c.open("2025-11-25", "{}")] = c
		if res := c.must("POST", "/mcp", modernCall("1", "read", ""), modernHeaders("tools/call", "read")...); res.status != 200 {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
		challenged(t, name, c.must("POST", "/mcp", modernCall("1", "write", ""), modernHeaders("tools/call", "write")...), 403, "insufficient_scope")
	}
	for id, owner := range sessions {
		for other, c := range sessions {
			want := map[bool]int{true: 200, false: 404}[c == owner]
			if res := c.must("POST", "/mcp", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, legacyHeaders(id)...); res.status != want {
				t.Errorf("session of %s asked by %s: %d", id[:4], other[:4], res.status)
			}
		}
	}
	nobody := r.showing(a)
	challenged(t, "no certificate", nobody.ask(), 401)
	if res := nobody.ask("Authorization", "Bearer "+i.token("rsa", jose.RS256, nil)); res.status != 200 {
		t.Errorf("a token instead: %d %s", res.status, res.body)
	}
	challenged(t, "a certificate, and a bad token", r.showing(a, plain).ask("Authorization", "Bearer x"), 401, "invalid_token")
	bad := r.showing(a, stranger.issue("three", nothing))
	if res, err := bad.do(t.Context(), "GET", "/health", ""); err == nil {
		t.Errorf("another authority's certificate: %d %s", res.status, res.body)
	}
	bound := i.token("rsa", jose.RS256, map[string]any{"cnf": map[string]string{"x5t#S256": thumbprint(spiffe)}})
	if res := r.showing(a, spiffe).ask("Authorization", "Bearer "+bound); res.status != 200 {
		t.Errorf("a token bound to this certificate: %d %s", res.status, res.body)
	}
	challenged(t, "a token bound to another", r.showing(a, named).ask("Authorization", "Bearer "+bound), 401)
	strict := startTLS(t, toml("required"))
	if res, err := strict.showing(a).do(t.Context(), "GET", "/health", ""); err == nil {
		t.Errorf("none where one is required: %d", res.status)
	}
	if res := strict.showing(a, plain).ask(); res.status != 200 {
		t.Errorf("%d %s", res.status, res.body)
	}
}

func thumbprint(c tls.Certificate) string {
	cert, _ := x509.ParseCertificate(c.Certificate[0])
	sum := sha256.Sum256(cert.Raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// The listener accepts no TLS version older than configured, and answers nothing in plain text.
func TestListenerTLS(t *testing.T) {
	u := newUpstream(t, "modern")
	a := newAuthority(t)
	a.issue("listener", func(c *x509.Certificate) { c.IPAddresses = append(c.IPAddresses, []byte{127, 0, 0, 1}) })
	r := startTLS(t, fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\n%s", filepath.Join(a.dir, "listener.pem"), filepath.Join(a.dir, "listener.key"), u.toml("")))
	if res := r.showing(a).ask(); res.status != 200 {
		t.Errorf("%d %s", res.status, res.body)
	}
	address := strings.TrimPrefix(r.base, "https://")
	serial := func() int64 {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	before := serial()
	if err := os.WriteFile(filepath.Join(a.dir, "listener.key"), []byte("half written"), 0o600); err != nil {
		t.Fatal(err)
	}
	if serial() != before {
		t.Error("an incomplete new certificate is used")
	}
	a.issue("listener", func(c *x509.Certificate) { c.IPAddresses = append(c.IPAddresses, []byte{127, 0, 0, 1}) })
	later := time.Now().Add(time.Minute) // clocks of file systems are coarse
	if err := os.Chtimes(filepath.Join(a.dir, "listener.pem"), later, later); err != nil {
		t.Fatal(err)
	}
	if serial() == before {
		t.Error("the new certificate is not used")
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != want {
			t.Errorf("TLS %x: %v", version, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	clear := &rig{t: t, base: "http://" + address, http: &http.Client{}}
	if res, err := clear.do(t.Context(), "GET", "/health", ""); err == nil && res.status == 200 {
		t.Errorf("in plain text: %d %s", res.status, res.body)
	}
	clear.http.CloseIdleConnections()
}

// nothing is a certificate with a common name only.
func nothing(*x509.Certificate) {}
