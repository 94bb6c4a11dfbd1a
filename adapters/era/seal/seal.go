// Package seal encrypts and binds what Dragoman gives a client to bring back: requestState, and cursors.
package seal

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

// Sealer seals state that a client keeps for Dragoman, and opens it again. A sealed text is encrypted and authenticated, expires, and is
// bound to a request: it does not open for another caller, for another method, or with other parameters (2026-07-28
// multi-round-trip requests, Server Requirements).
type Sealer struct{ aead cipher.AEAD }

// Kinds: what a sealed text stands for.
const (
	PendingCall byte = 1 // a suspended call: its handle, which is new in each round
	URLs        byte = 2 // the questions made of a -32042 error, for which no call waits
	State       byte = 3 // a server's own requestState, wrapped
	Page        byte = 4 // a cursor, and the session in which it counts
	Member      byte = 5 // the requestState of one of several servers, wrapped
	Task        byte = 6 // the id of a task of one of several servers, wrapped
)

const prefix = "v1."

var errState = errors.New("seal: requestState is unknown, changed or expired")

// BadState returns the error for a requestState that cannot be opened or whose call is gone.
func BadState() *proxy.Error {
	return proxy.Errf(proxy.BadState, "requestState is unknown, changed, used or expired; send the request again without it")
}

// New derives the key from a secret; an empty one is replaced by random bytes, so that what is sealed ends with the process.
func New(secret []byte) (*Sealer, error) {
	if len(secret) == 0 {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails: crypto/rand ends the process instead
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "dragoman requestState v1", 32)
	if err != nil {
		return nil, fmt.Errorf("seal: deriving a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return &Sealer{aead}, nil
}

// Seal encrypts body and returns it as ASCII text, valid until exp. Open needs the same bound: a Binding, or another digest.
func (s *Sealer) Seal(kind byte, body []byte, bound [32]byte, exp time.Time) string {
	plain := append(make([]byte, 0, 9+len(body)), kind)
	plain = binary.BigEndian.AppendUint64(plain, uint64(exp.Unix())) //nolint:gosec // after 1970
	return prefix + base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, append(plain, body...), bound[:]))
}

// Open returns what was sealed. The error says nothing of which part was changed.
func (s *Sealer) Open(state string, bound [32]byte, now time.Time) (kind byte, body []byte, err error) {
	rest, ok := strings.CutPrefix(state, prefix)
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

// Binding digests a request: the caller, the server, the method and the parameters without those that differ between a call and
// its retry. Parameters count as values: the order of members does not matter.
func Binding(ex *proxy.Exchange, server string) [32]byte {
	m := &ex.Msg
	h := sha256.New()
	for _, part := range [][]byte{ex.Caller.Identity().Append(nil), []byte(server), m.Text(m.Method)} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	_, _ = h.Write(Canonical(nil, m.Raw, m.Params, "inputResponses", "requestState", "_meta"))
	return [32]byte(h.Sum(nil))
}

// maxDepth is how deep Canonical orders members; what lies deeper counts as it is written. Finding the end of a value
// takes a walk through it, so that without a bound a message of nothing but brackets would be walked once for each of them.
const maxDepth = 32

// Canonical appends a value such that equal values give equal bytes: members ordered by name, no space, strings escaped one
// way. Numbers stay as they are written. The members named in skip are left out of the outermost object.
func Canonical(dst, raw []byte, s wire.Span, skip ...string) []byte {
	return canonical(dst, raw, s, 0, skip...)
}

func canonical(dst, raw []byte, s wire.Span, depth int, skip ...string) []byte {
	switch {
	case !s.Present():
		return dst
	case depth > maxDepth:
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
