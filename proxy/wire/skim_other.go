//go:build !amd64

package wire

// plain returns a position from i on before which the string in raw has nothing that str must examine.
func plain(raw []byte, i int) int { return plainWords(raw, i) }
