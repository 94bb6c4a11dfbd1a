package catalogue

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// Vault encrypts what a store keeps of a registration (AES-256-GCM). It is immutable.
type Vault struct{ keys []cipher.AEAD } // the first one seals, all open

// NewVault returns the Vault of the keys that are not empty; nil if there are none. A key is any text that cannot be guessed. The first one
// seals; what others have sealed can be opened.
func NewVault(keys ...string) *Vault {
	v := &Vault{}
	for _, key := range keys {
		if key == "" {
			continue
		}
		sum := sha256.Sum256([]byte("dragoman registrations\x00" + key))
		block, _ := aes.NewCipher(sum[:]) // the length is right
		aead, _ := cipher.NewGCM(block)   // of a block cipher of 16 bytes
		v.keys = append(v.keys, aead)
	}
	if len(v.keys) == 0 {
		return nil
	}
	return v
}

// ErrSealed means that something was sealed with a key that the Vault does not have, or was changed.
var ErrSealed = errors.New("catalogue: it was sealed with another key")

// sealedPrefix begins the text of what is sealed. No JSON object begins so.
const sealedPrefix = "sealed:"

// Seal returns an object encrypted for the server of a name; a nil Vault returns it as it is.
func (v *Vault) Seal(name string, plain []byte) []byte {
	if v == nil {
		return plain
	}
	nonce := make([]byte, v.keys[0].NonceSize(), v.keys[0].NonceSize()+len(plain)+v.keys[0].Overhead())
	_, _ = rand.Read(nonce) // never fails
	return base64.StdEncoding.AppendEncode([]byte(sealedPrefix), v.keys[0].Seal(nonce, nonce, plain, []byte(name)))
}

// Open reverses Seal. first reports whether the first key has sealed it, or nothing has and there is no key. It fails with ErrSealed.
func (v *Vault) Open(name string, stored []byte) (plain []byte, first bool, err error) {
	text, sealed := bytes.CutPrefix(stored, []byte(sealedPrefix))
	switch {
	case !sealed:
		return stored, v == nil, nil
	case v == nil:
		return nil, false, ErrSealed
	}
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return nil, false, ErrSealed
	}
	for i, key := range v.keys {
		if len(raw) < key.NonceSize() {
			break
		}
		if plain, err := key.Open(nil, raw[:key.NonceSize()], raw[key.NonceSize():], []byte(name)); err == nil {
			return plain, i == 0, nil
		}
	}
	return nil, false, ErrSealed
}

// Sealed reports whether something stored is sealed.
func Sealed(stored []byte) bool { return bytes.HasPrefix(stored, []byte(sealedPrefix)) }
