package era

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// sealer makes the requestState that Dragoman gives out itself, and opens it again. It goes through the client's hands,
// so it is encrypted and authenticated, expires, and is bound to who asked for what: a state is worth nothing to another
// principal, for another method, or with other parameters (2026-07-28 multi-round-trip requests, Server Requirements).
type sealer struct{ aead cipher.AEAD }

// sealed kinds: what a state stands for.
const (
	sealedCall  byte = 1 // a parked call: its handle and the nonce of the round
	sealedURLs  byte = 2 // the questions made of a -32042 error; no call waits
	sealedState byte = 3 // a server's own requestState, wrapped
	sealedPage  byte = 4 // a cursor, and the session in which it counts
)

const sealPrefix = "v1."

var errState = errors.New("era: requestState is unknown, changed or expired")

// newSealer derives the key from a secret; empty: of random bytes, so that states end with the process.
func newSealer(secret []byte) (*sealer, error) {
	if len(secret) == 0 {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails: crypto/rand ends the process instead
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "dragoman requestState v1", 32)
	if err != nil {
		return nil, fmt.Errorf("era: deriving a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("era: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("era: %w", err)
	}
	return &sealer{aead}, nil
}

// seal makes a state of plain ASCII. bound is what opening it must present again.
func (s *sealer) seal(kind byte, body []byte, bound [32]byte, exp time.Time) string {
	plain := append(make([]byte, 0, 9+len(body)), kind)
	plain = binary.BigEndian.AppendUint64(plain, uint64(exp.Unix())) //nolint:gosec // after 1970
	return sealPrefix + base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, append(plain, body...), bound[:]))
}

// open answers what was sealed; errState if any of it is not as it was.
func (s *sealer) open(state string, bound [32]byte, now time.Time) (kind byte, body []byte, err error) {
	rest, ok := strings.CutPrefix(state, sealPrefix)
	if !ok || strings.ContainsAny(rest, "\r\n") { // which the decoder would pass over
		return 0, nil, errState
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil {
		return 0, nil, errState
	}
	plain, err := s.aead.Open(nil, nil, raw, bound[:])
	if err != nil || len(plain) < 9 || uint64(now.Unix()) > binary.BigEndian.Uint64(plain[1:9]) { //nolint:gosec // after 1970
		return 0, nil, errState
	}
	return plain[0], plain[9:], nil
}

// binding digests what a state is bound to: the principal, the server, the method and the parameters without those that
// differ between a call and its retry. Parameters are compared as values: the order of members does not count.
func binding(ex *proxy.Exchange, server string) [32]byte {
	m := &ex.Msg
	h := sha256.New()
	for _, part := range [][]byte{[]byte(ex.Caller.Principal), []byte(server), m.Text(m.Method)} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	_, _ = h.Write(canonical(nil, m.Raw, m.Params, 0, "inputResponses", "requestState", "_meta"))
	return [32]byte(h.Sum(nil))
}

// canonicalDepth is how deep canonical orders members; what lies deeper counts as it is written. Finding the end of a value
// takes a walk through it, so without a bound a message of nothing but brackets would be walked once for each.
const canonicalDepth = 32

// canonical writes a value so that equal values give equal bytes: members ordered by name, no space, strings escaped one
// way. Numbers stay as they are written. The members named in skip are left out of the outermost object.
func canonical(dst, raw []byte, s wire.Span, depth int, skip ...string) []byte {
	switch {
	case !s.Present():
		return dst
	case depth > canonicalDepth:
		return append(dst, s.Of(raw)...)
	case s.IsObject(raw):
		return canonicalObject(dst, raw, s, depth, skip)
	case s.IsString(raw):
		return wire.AppendText(dst, s.Text(raw))
	case raw[s.From] == '[':
		dst = append(dst, '[')
		for _, v := range wire.Items(raw, s) {
			dst = append(canonical(dst, raw, v, depth+1), ',')
		}
		return append(dst, ']')
	}
	return append(dst, s.Of(raw)...)
}

func canonicalObject(dst, raw []byte, s wire.Span, depth int, skip []string) []byte {
	type member struct {
		name  string
		value wire.Span
	}
	var all []member
	for k, v := range wire.Members(raw, s) {
		if name := string(k.Text(raw)); !slices.Contains(skip, name) {
			all = append(all, member{name, v})
		}
	}
	slices.SortStableFunc(all, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for _, m := range all {
		dst = append(wire.AppendText(dst, m.name), ':')
		dst = append(canonical(dst, raw, m.value, depth+1), ',')
	}
	return append(dst, '}')
}
