package wire

// clean counts the bytes at p, which are n, before the first that str must look at; it leaves the last fifteen alone.
//
//go:noescape
func clean(p *byte, n int) int

// wide says that clean may use AVX2.
//
//lint:ignore U1000 clean looks at it
var wide = hasAVX2()

// hasAVX2 asks the processor, and whether the system keeps the registers.
//
//lint:ignore U1000 as above
func hasAVX2() bool

// plain returns a place at or behind i before which the string in raw has nothing that str must look at: it goes on in steps
// of sixteen bytes, and to that byte.
func plain(raw []byte, i int) int {
	if i >= len(raw) {
		return i
	}
	return i + clean(&raw[i], len(raw)-i)
}
