package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_800_000_000, 0)} }

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) pass(d time.Duration) { c.mu.Lock(); c.now = c.now.Add(d); c.mu.Unlock() }

// server answers every path as the test says, and counts requests.
type server struct {
	url string

	mu      sync.Mutex
	status  int
	body    []byte
	asked   map[string]int
	arrived chan struct{} // if not nil, receives each request
	hold    chan struct{} // if not nil, answers wait until it is closed
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{status: 200, asked: map[string]int{}}
	srv := httptest.NewServer(s)
	s.url = srv.URL
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path]++
	status, body, hold, arrived := s.status, s.body, s.hold, s.arrived
	s.mu.Unlock()
	if arrived != nil {
		arrived <- struct{}{}
	}
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (s *server) respond(status int, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

func (s *server) count(path string) int { s.mu.Lock(); defer s.mu.Unlock(); return s.asked[path] }

var (
	ecKey  = sync.OnceValue(func() *ecdsa.PrivateKey { k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); return k })
	rsaKey = sync.OnceValue(func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
)

func set(keys ...jose.JSONWebKey) []byte {
	raw, _ := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	return raw
}

func public(kid string, key any) jose.JSONWebKey {
	k := jose.JSONWebKey{Key: key, KeyID: kid}
	return k.Public()
}

// token returns a token with claims, signed with the EC key under a key id.
func token(t *testing.T, kid string, claims map[string]any) []byte {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: ecKey()}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(claims)
	jws, err := signer.Sign(raw)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := jws.CompactSerialize()
	return []byte(text)
}
