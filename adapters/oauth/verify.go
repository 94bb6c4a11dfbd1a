package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json" // strict: it refuses a member that comes twice, and knows names by their case
	"github.com/hashicorp/golang-lru/v2"

	"dragoman/proxy"
)

// Bounds of tokens.
const (
	maxToken     = 16 << 10 // bytes
	maxPrincipal = 512      // bytes of a subject
	maxScopes    = 1000     // of one token
	cachedTokens = 10_000
)

// VerifierOptions say which tokens are accepted.
type VerifierOptions struct {
	Issuer         string   // iss
	Resource       string   // prefix of the paths of the MCP endpoints in aud
	Audience       []string // accepted aud, in place of Resource
	Algorithms     []string // of [Algorithms]
	Types          []string // typ, lower case, without "application/"; "jwt" also stands for a missing one
	PrincipalClaim string
	Leeway         time.Duration
	Keys           *Keys
	Now            func() time.Time // nil: the now of Verify
}

// Verifier checks bearer tokens: JWTs signed by one issuer for this service (RFC 9068 §4; RFC 8725). It remembers verified tokens by
// their SHA-256 sum. It is safe for concurrent use.
type Verifier struct {
	opt   VerifierOptions
	algs  []jose.SignatureAlgorithm
	cache *lru.Cache[[sha256.Size]byte, *verified]
}

// verified is a token with a valid signature. It is immutable.
type verified struct {
	caller     proxy.Caller
	aud        []string
	everywhere bool // aud names this service at every path
	from, to   time.Time
	bound      string // SHA-256 sum of the certificate that the token is bound to, base64url (RFC 8705 §3.1); empty: none
	gen        uint64 // keySet.gen of the keys that verified it
}

// NewVerifier makes a Verifier.
func NewVerifier(opt VerifierOptions) (*Verifier, error) {
	opt.Resource = strings.TrimSuffix(opt.Resource, "/")
	v := &Verifier{opt: opt}
	for _, alg := range opt.Algorithms {
		if !slices.Contains(Algorithms(), alg) {
			return nil, fmt.Errorf("oauth: algorithm %q is not taken", alg)
		}
		v.algs = append(v.algs, jose.SignatureAlgorithm(alg))
	}
	var err error
	v.cache, err = lru.New[[sha256.Size]byte, *verified](cachedTokens)
	return v, err
}

// Cached returns how many tokens are remembered.
func (v *Verifier) Cached() int { return v.cache.Len() }

// Verify checks the token of a request for path. cert is the certificate that the client has shown on the connection; nil: none. The
// error is of the row BadCredentials, or NoKeys if there are no keys to check the token. It never repeats a part of the token.
func (v *Verifier) Verify(token, path []byte, cert *x509.Certificate, now time.Time) (proxy.Caller, *proxy.Error) {
	if len(token) > maxToken {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the token is larger than %d bytes", maxToken)
	}
	if v.opt.Now != nil {
		now = v.opt.Now()
	}
	sum := sha256.Sum256(token)
	t, err := v.known(sum, token, now)
	switch {
	case err != nil:
		return proxy.Caller{}, err
	case !now.Before(t.to):
		v.cache.Remove(sum)
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the token has expired")
	case now.Before(t.from):
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the token is not valid yet")
	case !t.everywhere && !v.audienceAt(t.aud, string(path)):
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the token is for somebody else: its aud does not name this service")
	case t.bound != "" && !boundTo(cert, t.bound):
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the token is bound to a certificate that this connection has not shown")
	}
	return t.caller, nil
}

// known returns what was verified of a token, if the keys are still the same; else it checks the token.
func (v *Verifier) known(sum [sha256.Size]byte, token []byte, now time.Time) (*verified, *proxy.Error) {
	set := v.opt.Keys.current(now)
	if t, ok := v.cache.Get(sum); ok && set != nil && set.gen == t.gen {
		return t, nil
	}
	t, err := v.check(string(token), now)
	if err != nil {
		v.cache.Remove(sum)
		return nil, err
	}
	v.cache.Add(sum, t)
	return t, nil
}

// boundTo reports whether a token is bound to the certificate.
func boundTo(cert *x509.Certificate, bound string) bool {
	if cert == nil {
		return false
	}
	sum := sha256.Sum256(cert.Raw)
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(bound)) == 1
}

// check verifies the signature and the claims that do not depend on the request.
func (v *Verifier) check(token string, now time.Time) (*verified, *proxy.Error) {
	jws, err := jose.ParseSignedCompact(token, v.algs)
	if err != nil {
		return nil, proxy.Errf(proxy.BadCredentials, "the token is no JWT signed with one of %s", strings.Join(v.opt.Algorithms, ", "))
	}
	head := &jws.Signatures[0].Header
	typ, _ := head.ExtraHeaders[jose.HeaderType].(string)
	typ = strings.TrimPrefix(strings.ToLower(typ), "application/")
	if typ == "" {
		typ = "jwt"
	}
	if !slices.Contains(v.opt.Types, typ) {
		return nil, proxy.Errf(proxy.BadCredentials, "the token's typ is not one of %s", strings.Join(v.opt.Types, ", "))
	}
	keys, set, err := v.opt.Keys.find(head.KeyID, head.Algorithm)
	switch {
	case errors.Is(err, errNoSuchKey):
		return nil, proxy.Errf(proxy.BadCredentials, "the token is signed with a key that its issuer does not have")
	case err != nil:
		e := proxy.Errf(proxy.NoKeys, "the token cannot be checked: the keys of its issuer cannot be fetched")
		e.Cause, e.RetryAfter = err, 1
		return nil, e
	}
	for i := range keys {
		payload, err := jws.Verify(keys[i].Key)
		if err != nil {
			continue
		}
		t, rerr := v.read(payload, now)
		if rerr == nil {
			t.gen = set.gen
		}
		return t, rerr
	}
	return nil, proxy.Errf(proxy.BadCredentials, "the token's signature is wrong")
}

// claims are the claims that are read of a token.
type claims struct {
	Issuer    string   `json:"iss"`
	Audience  oneOrAll `json:"aud"`
	Expires   *float64 `json:"exp"`
	NotBefore *float64 `json:"nbf"`
	IssuedAt  *float64 `json:"iat"`
	Scope     oneOrAll `json:"scope"`
	Granted   oneOrAll `json:"scp"`
	Bound     struct {
		Cert string `json:"x5t#S256"`
		JKT  string `json:"jkt"`
	} `json:"cnf"`
}

// oneOrAll is a string or an array of strings.
type oneOrAll []string

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrAll) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '[' {
		return json.Unmarshal(raw, (*[]string)(o))
	}
	var one string
	err := json.Unmarshal(raw, &one)
	*o = oneOrAll{one}
	return err
}

// read checks the claims.
func (v *Verifier) read(payload []byte, now time.Time) (*verified, *proxy.Error) {
	var c claims
	var all map[string]json.RawMessage
	var who string
	if json.Unmarshal(payload, &c) != nil || json.Unmarshal(payload, &all) != nil {
		return nil, proxy.Errf(proxy.BadCredentials, "the token's claims are not what they should be")
	}
	if json.Unmarshal(all[v.opt.PrincipalClaim], &who) != nil {
		who = ""
	}
	switch {
	case c.Issuer != v.opt.Issuer:
		return nil, proxy.Errf(proxy.BadCredentials, "the token is from another issuer than %s", v.opt.Issuer)
	case c.Expires == nil:
		return nil, proxy.Errf(proxy.BadCredentials, "the token has no exp")
	case who == "" || len(who) > maxPrincipal:
		return nil, proxy.Errf(proxy.BadCredentials, "the token does not say who it is for in %s, or in more than %d bytes", v.opt.PrincipalClaim, maxPrincipal)
	case !validDate(c.Expires) || !validDate(c.NotBefore) || !validDate(c.IssuedAt):
		return nil, proxy.Errf(proxy.BadCredentials, "the token's exp, nbf or iat is no time")
	case c.Bound.JKT != "":
		return nil, proxy.Errf(proxy.BadCredentials, "the token is bound to a key by DPoP, which is not served here")
	}
	t := &verified{aud: c.Audience, everywhere: v.audienceEverywhere(c.Audience), to: at(*c.Expires).Add(v.opt.Leeway), bound: c.Bound.Cert}
	if c.NotBefore != nil {
		t.from = at(*c.NotBefore).Add(-v.opt.Leeway)
	}
	if c.IssuedAt != nil && now.Before(at(*c.IssuedAt).Add(-v.opt.Leeway)) {
		return nil, proxy.Errf(proxy.BadCredentials, "the token was issued in the future; see that the clocks agree")
	}
	scopes := strings.Fields(strings.Join(append(c.Scope, c.Granted...), " "))
	if len(scopes) > maxScopes {
		return nil, proxy.Errf(proxy.BadCredentials, "the token has more than %d scopes", maxScopes)
	}
	t.caller = proxy.Caller{Principal: v.opt.Issuer + "#" + who,
		Rights: &proxy.Rights{Kind: "jwt", Name: who, Scopes: scopes, Expires: t.to}}
	return t, nil
}

// validDate reports whether a NumericDate (RFC 7519 §2) is absent or within the range of a time.Time.
func validDate(seconds *float64) bool {
	return seconds == nil || *seconds >= 0 && *seconds < 1<<40
}

func at(seconds float64) time.Time { return time.Unix(int64(seconds), 0) }

// audienceAt reports whether one of the audiences is the MCP endpoint of a path. A token for one of several servers is therefore not
// valid for another.
func (v *Verifier) audienceAt(aud []string, path string) bool {
	return len(v.opt.Audience) == 0 && slices.ContainsFunc(aud, func(a string) bool {
		below, ok := strings.CutPrefix(strings.TrimSuffix(a, "/"), v.opt.Resource)
		at, rest := proxy.CutServer(below)
		server, _ := proxy.CutServer(path)
		return ok && endpoint(rest) && at == server
	})
}

// audienceEverywhere reports whether one of the audiences is this service at every path.
func (v *Verifier) audienceEverywhere(aud []string) bool {
	return slices.ContainsFunc(aud, func(a string) bool {
		if len(v.opt.Audience) > 0 {
			return slices.Contains(v.opt.Audience, a)
		}
		return strings.TrimSuffix(a, "/") == v.opt.Resource
	})
}

// endpoint reports whether a path below the resource, without a server, is that of an MCP endpoint, or of all.
func endpoint(path string) bool {
	switch path {
	case "", "/mcp", "/sse", "/mcp/sse":
		return true
	}
	return false
}
