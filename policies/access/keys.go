package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
)

// maxKeyLength is the longest key that is looked up, in bytes.
const maxKeyLength = 512

// KeyOptions describes a client and the hashes of its API keys.
type KeyOptions struct {
	Name      string
	Principal string   // empty: Name
	Hashes    []string // in the form that HashKey returns
	Scopes    []string
	Expires   time.Time // zero: never
}

// Keys maps API keys to callers. It holds SHA-256 sums of the keys, without salt or stretching. Those slow down the
// guessing of passwords that people choose; a key is 256 random bits and cannot be guessed. A slow hash would let
// anybody load the proxy by sending wrong keys.
type Keys struct{ keys map[[sha256.Size]byte]*key }

type key struct {
	sum    [sha256.Size]byte
	caller proxy.Caller
}

// NewKeys builds the table. It fails for a malformed hash, and for one that two keys share.
func NewKeys(all []KeyOptions) (*Keys, error) {
	k := &Keys{keys: map[[sha256.Size]byte]*key{}}
	for _, o := range all {
		caller := proxy.Caller{Principal: cmp.Or(o.Principal, o.Name), Rights: &proxy.Rights{Kind: "api_key", Name: o.Name, Scopes: o.Scopes, Expires: o.Expires}}
		for _, text := range o.Hashes {
			sum, ok := policies.ParseKeyHash(text)
			if !ok {
				return nil, fmt.Errorf("access: a hash of the key %s is not sha256: followed by 64 hexadecimal digits", o.Name)
			}
			if k.keys[sum] != nil {
				return nil, fmt.Errorf("access: a hash of the key %s belongs to another key, too", o.Name)
			}
			k.keys[sum] = &key{sum, caller}
		}
	}
	return k, nil
}

// Find returns the caller that an API key belongs to, or BadCredentials if the key is unknown or has expired. The time
// of the map look-up depends on the sum of what was sent only, and a sum does not lead to a key. The final comparison
// takes constant time nevertheless.
func (k *Keys) Find(text []byte) (proxy.Caller, *proxy.Error) {
	if len(text) == 0 || len(text) > maxKeyLength {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the API key is not known here")
	}
	sum := sha256.Sum256(text)
	found := k.keys[sum]
	if found == nil || subtle.ConstantTimeCompare(found.sum[:], sum[:]) != 1 {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the API key is not known here")
	}
	if end := found.caller.Rights.Expires; !end.IsZero() && !time.Now().Before(end) {
		return proxy.Caller{}, proxy.Errf(proxy.BadCredentials, "the API key has expired")
	}
	return found.caller, nil
}
