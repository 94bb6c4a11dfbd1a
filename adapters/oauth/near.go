package oauth

import (
	"hash/maphash"
	"sync/atomic"
)

// Bounds of what is found without a cryptographic sum: 1 024 places for tokens of 2 KiB at most.
const (
	nearPlaces = 1 << 10
	nearToken  = 2 << 10
	nearEnd    = 32 // bytes that the place is found by
)

// near finds the tokens that are in use by themselves, since a SHA-256 sum of one costs as much as all else that a call does for it. A
// place is found by a keyed sum of a token's end, which nobody outside can aim at, and only where that is the same is the token compared: how
// long a look takes tells a stranger nothing of the tokens that others have. He would have to know the end, and that is 24 bytes of a
// signature: nobody guesses them.
type near struct {
	seed   maphash.Seed
	places [nearPlaces]atomic.Pointer[nearby]
}

// nearby is a token that was verified. It is not changed, but for used.
type nearby struct {
	sum   uint64
	token string
	of    *verified
	used  atomic.Bool // since another token wanted the place
}

func newNear() *near { return &near{seed: maphash.MakeSeed()} }

// find gives what is known of a token, nil if nothing is, and the sum of it for keep and drop.
func (n *near) find(token []byte) (*verified, uint64) {
	if len(token) > nearToken {
		return nil, 0
	}
	sum := maphash.Bytes(n.seed, token[max(0, len(token)-nearEnd):])
	at := n.places[sum%nearPlaces].Load()
	if at == nil || at.sum != sum || at.token != string(token) {
		return nil, sum
	}
	if !at.used.Load() {
		at.used.Store(true)
	}
	return at.of, sum
}

// keep remembers a token, unless its place is another's that was used since it was wanted last.
func (n *near) keep(token []byte, sum uint64, of *verified) {
	if len(token) > nearToken {
		return
	}
	place := &n.places[sum%nearPlaces]
	if at := place.Load(); at != nil && at.sum != sum && at.used.Swap(false) {
		return
	}
	place.Store(&nearby{sum: sum, token: string(token), of: of})
}

// drop forgets a token that does not count any more.
func (n *near) drop(sum uint64, of *verified) {
	place := &n.places[sum%nearPlaces]
	if at := place.Load(); at != nil && at.of == of {
		place.CompareAndSwap(at, nil)
	}
}
