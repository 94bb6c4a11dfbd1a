package policies

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// KeyPrefix begins every API key that [NewKey] makes, so that a key is recognised wherever it turns up.
const KeyPrefix = "dgm_"

const hashPrefix = "sha256:"

// NewKey makes an API key of at least 256 random bits.
func NewKey() string {
	return KeyPrefix + strings.ToLower(rand.Text()+rand.Text()) // each of 26 characters of base32, or 130 bits
}

// HashKey is the hash of a key as the configuration has it: "sha256:" and 64 hexadecimal digits.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// ParseKeyHash reads what HashKey writes; ok is false for anything else.
func ParseKeyHash(text string) (sum [sha256.Size]byte, ok bool) {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(sum) {
		return sum, false
	}
	return [sha256.Size]byte(raw), true
}
