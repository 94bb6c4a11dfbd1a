package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
)

// maxShown bounds what is looked up, in bytes.
const maxShown = 512

// KeyOptions is a client and the sums of the keys that it may show.
type KeyOptions struct {
	Name      string
	Principal string   // empty: Name
	Hashes    []string // as HashKey gives them
	Scopes    []string
	Expires   time.Time // zero: never
}

// Keys finds out whose an API key is. Only sums are known: SHA-256 without salt or stretching, which slow down the guessing of
// what people think up. These keys are 256 random bits; there is nothing to guess, and a slow sum would let whoever sends wrong
// ones keep us busy.
type Keys struct {
	keys map[[sha256.Size]byte]*key
	now  func() time.Time
}

type key struct {
	sum    [sha256.Size]byte
	caller proxy.Caller
}

// NewKeys makes the table; now may be nil.
func NewKeys(all []KeyOptions, now func() time.Time) (*Keys, error) {
	if now == nil {
		now = time.Now
	}
	k := &Keys{keys: map[[sha256.Size]byte]*key{}, now: now}
	for _, o := range all {
		who := o.Principal
		if who == "" {
			who = o.Name
		}
		caller := proxy.Caller{Principal: who, Rights: &proxy.Rights{Kind: "api_key", Name: o.Name, Scopes: o.Scopes, Expires: o.Expires}}
		for _, text := range o.Hashes {
			sum, ok := policies.ParseKeyHash(text)
			if !ok {
				return nil, fmt.Errorf("access: a hash of the key %s is not sha256: and 64 digits", o.Name)
			}
			if k.keys[sum] != nil {
				return nil, fmt.Errorf("access: the key %s is another's, too", o.Name)
			}
			k.keys[sum] = &key{sum, caller}
		}
	}
	return k, nil
}

// Find gives the caller whose key it is. What time a look-up takes tells of the sum of what was shown, at most, and a sum leads to
// no key; all the same the last step takes as long for every sum.
func (k *Keys) Find(shown []byte) (proxy.Caller, *proxy.Error) {
	if len(shown) == 0 || len(shown) > maxShown {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the API key is not known here")
	}
	sum := sha256.Sum256(shown)
	found := k.keys[sum]
	if found == nil || subtle.ConstantTimeCompare(found.sum[:], sum[:]) != 1 {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the API key is not known here")
	}
	if end := found.caller.Rights.Expires; !end.IsZero() && !k.now().Before(end) {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the API key has expired")
	}
	return found.caller, nil
}
