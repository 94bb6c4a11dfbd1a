package wire

// clean returns how many of the n bytes at p precede the first that str must examine. It does not examine the last fifteen.
//
//go:noescape
func clean(p *byte, n int) int

// wide means that clean may use AVX2.
//
//lint:ignore U1000 clean reads it
var wide = hasAVX2()

// hasAVX2 reports whether the processor has AVX2 and the system preserves its registers.
//
//lint:ignore U1000 as above
func hasAVX2() bool

// plain returns a position from i on before which the string in raw has nothing that str must examine. It advances in steps of sixteen
// bytes, and to that byte.
func plain(raw []byte, i int) int {
	if i >= len(raw) {
		return i
	}
	return i + clean(&raw[i], len(raw)-i)
}
