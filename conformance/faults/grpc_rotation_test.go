package faults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	cert, key := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	block, _ := pem.Decode(cert)
	var err error
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	a.key, a.pem = key, cert
	return a
}

// sign makes a certificate and its key: of the authority, or of itself if it has none yet.
func (a *authority) sign(of *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	of.SerialNumber, of.NotBefore, of.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = of, key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

// issue writes a certificate of a name and its key to files, in place of those that are there.
func (a *authority) issue(name, certFile, keyFile string) {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	put(a.t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	put(a.t, certFile, cert)
}

// put replaces a file at once.
func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// reloads waits until Dragoman has taken over a changed configuration.
func (d *dragoman) reloads(change func()) {
	d.t.Helper()
	const count = `dragoman_config_reloads_total`
	before := d.metric(count)
	change()
	eventually(d.t, "the configuration is read again", func() bool { return d.metric(count) > before })
	if d.metric("dragoman_config_last_reload_successful") != 1 {
		d.t.Error("it is refused")
	}
}

// certificates is the case of certificates that are replaced while calls run: the provider's, Dragoman's own, and in two steps, as operators do it, their
// authority. Connections last a second, so that new ones are made all the time.
func certificates(t *testing.T, r *row) {
	dir, one, two := t.TempDir(), newAuthority(t, "one"), newAuthority(t, "two")
	at := func(name string) string { return filepath.Join(dir, name) }
	put(t, at("roots.pem"), one.pem)
	put(t, at("clients.pem"), one.pem)
	one.issue("provider", at("cert.pem"), at("key.pem"))
	one.issue("old", at("own.pem"), at("own.key"))
	p := startProcess(t, providerConfig{Name: "up", Certs: dir, MaxAge: time.Second})
	c := newCaller(t, startWith(t, "serve", patientHead+section("default", "grpcs://"+p.addr,
		"ca_file = \""+at("roots.pem")+"\"\ngrpc.cert_file = \""+at("own.pem")+"\"\ngrpc.key_file = \""+at("own.key")+"\"")), "/mcp")
	c.ready()
	long := c.begin("stream.v1", work{Times: 10_000, Pause: 20, Pad: 10}, 0, true)
	long.moves(1)
	l := newLoad(c, 4, "echo.v1", 5)
	l.meets("up for old")
	one.issue("provider", at("cert.pem"), at("key.pem"))
	one.issue("new", at("own.pem"), at("own.key"))
	r.note("a certificate counts %.1f s after it was replaced", l.meets("up for new").Seconds())
	both := append(append([]byte(nil), one.pem...), two.pem...)
	put(t, at("clients.pem"), both)
	c.d.reloads(func() { put(t, at("roots.pem"), both) })
	two.issue("provider", at("cert.pem"), at("key.pem"))
	two.issue("newest", at("own.pem"), at("own.key"))
	l.meets("up for newest")
	put(t, at("clients.pem"), two.pem)
	c.d.reloads(func() { put(t, at("roots.pem"), two.pem) })
	l.meets("up for newest")
	long.moves(1)
	t.Logf("%d calls", l.saved(false, p))
	c.leaves(long, p)
	c.d.end()
}
