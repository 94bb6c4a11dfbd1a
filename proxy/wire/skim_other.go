//go:build !amd64

package wire

// plain returns a place at or behind i before which the string in raw has nothing that str must look at.
func plain(raw []byte, i int) int { return plainWords(raw, i) }
