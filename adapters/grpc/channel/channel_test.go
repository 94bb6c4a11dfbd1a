package channel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// A server is believed by its certificate, and believes Dragoman by its own, which may be replaced while it runs.
func TestTLS(t *testing.T) {
	pair, roots := testkit.Certificate(t)
	of := says("secure")
	seen := make(chan string, 10)
	of.unary = func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		from, _ := peer.FromContext(ctx)
		certificates := from.AuthInfo.(credentials.TLSInfo).State.PeerCertificates
		if len(certificates) == 0 {
			seen <- "nobody"
		} else {
			seen <- certificates[0].SerialNumber.String()
		}
		return new(testgrpc.SimpleResponse), nil
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	at, s := serve(t, "", of, grpc.Creds(credentials.NewTLS(conf)))
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	testkit.PutFile(t, ca, string(roots))
	port := at[strings.LastIndexByte(at, ':')+1:]
	target := "dns:///127.0.0.1:" + port

	if _, err := ask(open(t, Options{Target: target, TLS: true})); row(err) != proxy.Unreachable.Name || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	if _, err := ask(open(t, Options{Target: target})); row(err) != proxy.Unreachable.Name {
		t.Errorf("without TLS: %v", err)
	}
	if _, err := ask(open(t, Options{Target: target, TLS: true, CAFile: ca})); err != nil {
		t.Error(err)
	}
	if got := testkit.Receive(t, "the client", seen); got != "nobody" {
		t.Error(got)
	}
	first := putPair(t, cert, key, 1)
	c := open(t, Options{Target: target, TLS: true, CAFile: ca, CertFile: cert, KeyFile: key})
	if _, err := ask(c); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, "the client", seen); got != first {
		t.Errorf("%s, want %s", got, first)
	}
	second := putPair(t, cert, key, 2)
	s.Stop()
	serve(t, "127.0.0.1:"+port, of, grpc.Creds(credentials.NewTLS(conf)))
	eventually(t, c, func(_ string, err error) bool { return err == nil })
	if got := testkit.Receive(t, "the client", seen); got != second || first == second {
		t.Errorf("after the certificate was replaced %s, want %s", got, second)
	}
}

// putPair writes a certificate with its key into files, and returns its serial number.
func putPair(t *testing.T, cert, key string, serial int64) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	testkit.PutFile(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	testkit.PutFile(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
	return template.SerialNumber.String()
}

// Files that cannot be used are errors before anything is connected.
func TestNewErrors(t *testing.T) {
	wrong := testkit.WriteFile(t, "wrong.pem", "no PEM")
	for want, opt := range map[string]Options{
		"grpc: CA file: open":        {TLS: true, CAFile: "/no/such/file"},
		"no certificate in it":       {TLS: true, CAFile: wrong},
		"grpc: client certificate: ": {TLS: true, CertFile: wrong, KeyFile: wrong},
		"grpc: address \x00: ":       {Target: "\x00"},
	} {
		if opt.Target == "" {
			opt.Target = "dns:///127.0.0.1:1"
		}
		if c, err := New(opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %s", c, err, want)
		}
	}
	if _, err := os.Stat("/no/such/file"); err == nil {
		t.Fatal("the file is there")
	}
}

// token is a fixed token.
type token struct {
	value   string
	err     error
	refused atomic.Int32
}

func (t *token) Authorization(context.Context) (string, error) { return t.value, t.err }
func (t *token) Refused(string)                                { t.refused.Add(1) }
func (t *token) Hide(text string) string                       { return strings.ReplaceAll(text, t.value, "(hidden)") }

// A call has the headers of the configuration, those that are forwarded of its client, its trace, and a token; nothing of these is shown.
func TestMetadata(t *testing.T) {
	var got metadata.MD
	of := says("")
	of.unary = func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		got, _ = metadata.FromIncomingContext(ctx)
		return new(testgrpc.SimpleResponse), nil
	}
	at, _ := serve(t, "", of)
	credential := &token{value: "Bearer s3cret"}
	c := open(t, Options{Target: "dns:///" + at, Headers: []httpclient.Header{{Name: "X-Own", Value: "1"}, {Name: "X-Own", Value: "2"}},
		Forward: []httpclient.Forward{{From: "x-user", To: "X-For-Service"}, {From: "x-absent", To: "x-absent"}}, Credentials: credential, UserAgent: "dragoman"})
	ex := &proxy.Exchange{RequestID: "id", Caller: proxy.Caller{Forwarded: &proxy.Forwarded{Headers: []proxy.Header{{Name: "x-user", Value: "anna-the-user"}, {Name: "x-other", Value: "no"}}}}}
	ex.SetOutgoingTrace(&proxy.Trace{Parent: "00-1", Baggage: "b=1"})
	s, err := c.Open(ex, unary, new(testgrpc.SimpleRequest), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(ex.GiveUp(1 << 40)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	for key, want := range map[string]string{"x-own": "1,2", "x-for-service": "anna-the-user", "x-absent": "", "x-other": "", "x-user": "", "traceparent": "00-1", "tracestate": "", "baggage": "b=1",
		"authorization": "Bearer s3cret", "x-correlation-id": "id"} {
		if value := strings.Join(got.Get(key), ","); value != want {
			t.Errorf("%s: %q, want %q", key, value, want)
		}
	}
	if agent := strings.Join(got.Get("user-agent"), ""); !strings.HasPrefix(agent, "dragoman grpc-go/") {
		t.Error(agent)
	}
	if text := c.Hide(ex, "anna-the-user sent Bearer s3cret"); text != "(hidden) sent (hidden)" {
		t.Error(text)
	}
	if credential.err = errors.New("none"); true {
		if _, err := c.Open(new(proxy.Exchange), unary, new(testgrpc.SimpleRequest), false); err == nil || err.Error() != "none" {
			t.Error(err)
		}
	}
}

// An address that is not allowed is not connected to.
func TestRefuse(t *testing.T) {
	at, _ := serve(t, "", says("x"))
	allowed := true
	c := open(t, Options{Target: "dns:///" + at, Refuse: func(to netip.AddrPort) error {
		if to.String() != at {
			t.Errorf("asked about %s", to)
		}
		if !allowed {
			return errors.New("not allowed")
		}
		return nil
	}})
	if got, err := ask(c); got != "x" || err != nil {
		t.Error(got, err)
	}
	allowed = false
	c = open(t, Options{Target: "dns:///" + at, Refuse: func(netip.AddrPort) error { return errors.New("not allowed here") }})
	if _, err := ask(c); row(err) != proxy.Unreachable.Name || !strings.Contains(err.Error(), "not allowed here") {
		t.Error(err)
	}
	if c.Authority() != at {
		t.Error(c.Authority())
	}
}

// nameServer is a name server that has one name.
func nameServer(t *testing.T, addresses *atomic.Value) string {
	t.Helper()
	pc, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = pc.Close(); <-ended })
	go func() {
		defer close(ended)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response = true
			m.Additionals = nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				for _, a := range addresses.Load().([]string) {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()}})
				}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	return pc.LocalAddr().String()
}
