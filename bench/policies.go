package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"dragoman/bench/load/drive"
)

// policies measures the same hop with all policies off and with all policies on.
func (b *suite) policies(ctx context.Context, t *targets) error {
	issuer, err := newIssuer()
	if err != nil {
		return err
	}
	defer issuer.close()
	t.special["dragoman-off"] = func(ctx context.Context) (target, error) {
		return t.policed(ctx, "dragoman-off", false, "log.access = \"off\"\nsecurity.rate_limiting = \"off\"\nmonitoring.metrics_enabled = false\n", "breaker_failures = 0\n")
	}
	t.special["dragoman-on"] = func(ctx context.Context) (target, error) {
		found, err := t.policed(ctx, "dragoman-on", true, "log.access = \"all\"\nlog.format = \"json\"\nmonitoring.metrics_enabled = true\n"+limits+issuer.lines(), "breaker_failures = 20\n")
		if err == nil {
			found.header, err = issuer.header()
		}
		return found, err
	}
	rows := b.report.addRows(secPolicies, append(cellsOf(allCells(), baseline),
		cell{name: cellOff, what: "dragoman, modern to modern, all policies off", target: "dragoman-off", face: drive.ModernHTTP},
		cell{name: cellOn, what: "dragoman, JWT, rate limits, breaker, metrics, access log", target: "dragoman-on", face: drive.ModernHTTP}), smallSize, b.connections)
	b.interleave(ctx, t, rows)
	if on := rows[2]; len(on.Rounds) > 0 {
		if err := t.logged(on.cell.target, on.requests()); err != nil {
			on.fail(err)
		}
	}
	return ctx.Err()
}

// limits are rate limits of every kind that are never reached, but are counted.
const limits = `rate_limit_burst = 100000000
limits.rate = 1000000000
security.rate_limiting = "on"
security.rate_limit = 1000000000
security.address_rate_limit = 1000000000
`

// policed starts a Dragoman with these settings in front of the modern server.
func (t *targets) policed(ctx context.Context, name string, admin bool, lines, ofUpstream string) (target, error) {
	upstream, err := t.get(ctx, modernUpstream)
	if err != nil {
		return target{}, err
	}
	found, err := t.configured(ctx, name, admin, lines+fmt.Sprintf("[upstreams.default]\nurl = %q\n%s", upstream.url(), ofUpstream))
	found.behind = upstream.process
	return found, err
}

// logged checks that the access log was written: a policy that is not on would cost nothing.
func (t *targets) logged(name string, lines uint64) error {
	info, err := os.Stat(t.log(name))
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if least := int64(lines) * 50; info.Size() < least { //nolint:gosec // a count
		return fmt.Errorf("bench: the access log of %d calls has %d bytes", lines, info.Size())
	}
	return nil
}

// issuer is an authorization server as far as Dragoman needs one: a key set on the loopback interface, and a token.
type issuer struct {
	key    *rsa.PrivateKey
	server *http.Server
	url    string
	ended  chan struct{}
}

const (
	keyID    = "bench"
	resource = "http://127.0.0.1/"
	keyBits  = 2048
	tokenTTL = 24 * time.Hour
)

func newIssuer() (*issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	e := big.NewInt(int64(key.E)).Bytes()
	set := map[string]any{"keys": []any{map[string]string{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": keyID, "n": coded(key.N.Bytes()), "e": coded(e)}}}
	i := &issuer{key: key, url: "http://" + l.Addr().String(), ended: make(chan struct{})}
	i.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(set) // a client that gets half of it fails
	})}
	go func() { // ends with close
		defer close(i.ended)
		_ = i.server.Serve(l)
	}()
	return i, nil
}

func (i *issuer) close() {
	_ = i.server.Close()
	<-i.ended
}

// lines configure Dragoman to accept its tokens.
func (i *issuer) lines() string {
	return fmt.Sprintf("[security.jwt]\nissuer = %q\njwks_url = %q\nresource = %q\n", i.url, i.url+"/keys", resource)
}

// header is a header line with a token that is valid for the whole run.
func (i *issuer) header() (string, error) {
	now := time.Now()
	head, err := json.Marshal(map[string]string{"alg": "RS256", "kid": keyID, "typ": "at+jwt"})
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	claims, err := json.Marshal(map[string]any{"iss": i.url, "sub": "bench", "aud": resource, "iat": now.Unix(), "exp": now.Add(tokenTTL).Unix(), "client_id": "bench", "jti": "1"})
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	token := coded(head) + "." + coded(claims)
	sum := sha256.Sum256([]byte(token))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	return "Authorization: Bearer " + token + "." + coded(signature) + "\r\n", nil
}

func coded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
