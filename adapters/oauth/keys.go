package oauth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/goccy/go-json"
)

// Bounds of a key set.
const (
	maxKeySet = 512 << 10 // bytes
	maxKeys   = 200
	maxTries  = 8    // keys that are tried for one signature
	leastRSA  = 2048 // bits (RFC 7518 §3.3)
	// pauseOfFetches is the pause between two fetches, and againAfterFailure after a failed one.
	pauseOfFetches    = 10 * time.Second
	againAfterFailure = time.Second
)

// KeysOptions say where an issuer's keys are, and how long they are valid.
type KeysOptions struct {
	Issuer string // its metadata names the URL, if neither URL nor File is set
	URL    string
	File   string
	CAFile string
	TTL    time.Duration // after which the keys are fetched again
	Stale  time.Duration // how much longer they are valid while fetches fail
	Within time.Duration // timeout of a fetch with its metadata, for which tokens with an unknown key wait; 0: 15 s
	Now    func() time.Time
	// Note, if not nil, receives the result of each fetch; err is nil after a success.
	Note func(err error)
}

// Keys are the public keys of an issuer. They are fetched when they are needed, by one goroutine at a time. If fetches fail, the last
// keys stay valid for a bounded time. Close must be called.
type Keys struct {
	opt   KeysOptions
	web   *web
	ctx   context.Context
	stop  context.CancelFunc
	group sync.WaitGroup
	set   atomic.Pointer[keySet]

	mu     sync.Mutex
	flight chan struct{} // closed at the end of the fetch in progress; nil: there is none
	began  time.Time     // start of the last fetch
	failed error         // error of the last fetch that has ended

	fetches, failures atomic.Uint64
}

// keySet is one state of the keys. It is immutable except for at.
type keySet struct {
	keys []jose.JSONWebKey
	sum  [sha256.Size]byte
	gen  uint64       // changes with the keys
	at   atomic.Int64 // when the keys were last fetched, in nanoseconds
}

// NewKeys makes the keys without fetching them. It fails if the file cannot be read.
func NewKeys(opt KeysOptions) (*Keys, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Within == 0 {
		opt.Within = 15 * time.Second
	}
	k := &Keys{opt: opt, web: newWeb(opt.CAFile)}
	k.ctx, k.stop = context.WithCancel(context.Background())
	if opt.File != "" {
		keys, raw, err := k.read()
		if err != nil {
			k.Close()
			return nil, err
		}
		k.store(keys, raw)
	}
	return k, nil
}

// Close cancels a fetch in progress and releases the connections.
func (k *Keys) Close() {
	k.mu.Lock()
	k.stop()
	k.mu.Unlock()
	k.group.Wait()
	k.web.close()
}

// Prefetch starts a fetch, so that the first token need not wait for it.
func (k *Keys) Prefetch() { k.startFetch(k.opt.Now()) }

// Stats returns the number of fetches and failures, and the number and the age of the keys.
func (k *Keys) Stats() (fetches, failures uint64, keys int, age time.Duration) {
	if set := k.set.Load(); set != nil {
		keys, age = len(set.keys), k.opt.Now().Sub(time.Unix(0, set.at.Load()))
	}
	return k.fetches.Load(), k.failures.Load(), keys, age
}

// current returns the keys, or nil if they are too old. It starts a fetch if they are older than TTL.
func (k *Keys) current(now time.Time) *keySet {
	set := k.set.Load()
	if set == nil {
		return nil
	}
	age := time.Duration(now.UnixNano() - set.at.Load())
	if age >= k.opt.TTL {
		k.startFetch(now)
	}
	if age >= k.opt.TTL+k.opt.Stale {
		return nil
	}
	return set
}

var errNoSuchKey = errors.New("oauth: no such key")

// find returns the keys that may have made a signature, and their set. The error is errNoSuchKey, or the reason why there are no
// keys.
func (k *Keys) find(kid, alg string) ([]jose.JSONWebKey, *keySet, error) {
	set := k.current(k.opt.Now())
	if set != nil {
		if found := set.match(kid, alg); len(found) > 0 {
			return found, set, nil
		}
	}
	err := k.refresh()
	if set = k.current(k.opt.Now()); set != nil {
		if found := set.match(kid, alg); len(found) > 0 {
			return found, set, nil
		}
	}
	switch {
	case err != nil:
		return nil, nil, err
	case set == nil:
		return nil, nil, errors.New("oauth: the keys are too old")
	}
	return nil, nil, errNoSuchKey
}

// match returns the keys with a key id, or if there are none, those without an id.
func (s *keySet) match(kid, alg string) (found []jose.JSONWebKey) {
	for _, named := range []bool{true, false} {
		for _, key := range s.keys {
			if named && kid != "" && key.KeyID != kid || !named && key.KeyID != "" || !suits(&key, alg) || len(found) == maxTries {
				continue
			}
			found = append(found, key)
		}
		if len(found) > 0 {
			break
		}
	}
	return found
}

// suits reports whether a key is meant for an algorithm.
func suits(key *jose.JSONWebKey, alg string) bool {
	if key.Algorithm != "" && key.Algorithm != alg {
		return false
	}
	switch key.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(alg, "ES")
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// refresh fetches the keys, unless it is too early for that, and returns the error of the last fetch.
func (k *Keys) refresh() error {
	if flight := k.startFetch(k.opt.Now()); flight != nil {
		<-flight // ends within opt.Within, or with Close
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// startFetch starts a fetch unless it is too early for one. It returns the end of the fetch in progress; nil: there is none.
func (k *Keys) startFetch(now time.Time) chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	pause := pauseOfFetches
	if k.failed != nil {
		pause = againAfterFailure
	}
	if k.flight != nil || !k.began.IsZero() && now.Sub(k.began) < pause || k.ctx.Err() != nil {
		return k.flight
	}
	k.began = now
	flight := make(chan struct{})
	k.flight = flight
	k.group.Go(func() { k.fetch(flight) })
	return flight
}

func (k *Keys) fetch(flight chan struct{}) {
	k.fetches.Add(1)
	keys, raw, err := k.load()
	if err == nil {
		k.store(keys, raw)
	} else {
		k.failures.Add(1)
	}
	if k.opt.Note != nil && k.ctx.Err() == nil {
		k.opt.Note(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed, k.flight = err, nil
	close(flight)
}

func (k *Keys) load() ([]jose.JSONWebKey, []byte, error) {
	if k.opt.File != "" {
		return k.read()
	}
	ctx, cancel := context.WithTimeout(k.ctx, k.opt.Within)
	defer cancel()
	place := k.opt.URL
	if place == "" {
		var err error
		if place, err = discover(ctx, k.web, k.opt.Issuer); err != nil {
			return nil, nil, err
		}
	}
	raw, err := k.web.get(ctx, place, maxKeySet)
	var keys []jose.JSONWebKey
	if err == nil {
		keys, err = parseKeys(raw)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("oauth: %s: %w", place, err)
	}
	return keys, raw, nil
}

func (k *Keys) read() ([]jose.JSONWebKey, []byte, error) {
	f, err := os.Open(k.opt.File)
	if err != nil {
		return nil, nil, fmt.Errorf("oauth: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxKeySet))
	if err != nil {
		return nil, nil, fmt.Errorf("oauth: %w", err)
	}
	keys, err := parseKeys(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("oauth: %s: %w", k.opt.File, err)
	}
	return keys, raw, nil
}

// store stores the keys. If they are the same as before, tokens that were verified with them stay valid.
func (k *Keys) store(keys []jose.JSONWebKey, raw []byte) {
	set := &keySet{keys: keys, sum: sha256.Sum256(bytes.TrimSpace(raw)), gen: 1}
	now := k.opt.Now().UnixNano()
	if old := k.set.Load(); old != nil {
		if old.sum == set.sum {
			old.at.Store(now)
			return
		}
		set.gen = old.gen + 1
	}
	set.at.Store(now)
	k.set.Store(set)
}

// parseKeys reads a JWK set (RFC 7517 §5). It leaves out keys that are unknown, symmetric, weak, or not for signatures.
func parseKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil || set.Keys == nil {
		return nil, errors.New("is no set of keys (RFC 7517)")
	}
	var keys []jose.JSONWebKey
	for _, one := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(one); err != nil || key.Use != "" && key.Use != "sig" {
			continue
		}
		if key = key.Public(); strong(&key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("has no key for signatures that is not symmetric and not weak")
	}
	return keys, nil
}

func strong(key *jose.JSONWebKey) bool {
	switch pub := key.Key.(type) {
	case *rsa.PublicKey:
		return pub.N.BitLen() >= leastRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return key.Valid()
	}
	return false
}
