package wire

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func skimOf(raw []byte, i int) int { return (&scanner{raw: raw}).skim(i) }

// Every byte at every position of runs of every length: the first byte that str must examine is found.
func TestSkim(t *testing.T) {
	room := bytes.Repeat([]byte{'"'}, 300) // the surrounding bytes must not be found
	for n := range 150 {
		if n > 40 && n%16 > 1 && n%16 < 15 {
			continue
		}
		for _, from := range []int{0, 1, 7} {
			raw := room[from : from+n]
			for c := range 256 {
				if n%16 != 1 && c%32 > 2 && c%32 < 30 && c != '\\' {
					continue
				}
				for i := range raw {
					raw[i] = 'x'
				}
				odd := c < 0x20 || c == '"' || c == '\\' || c >= 0x80
				for at := range raw {
					raw[at] = byte(c)
					for _, f := range []func([]byte, int) int{plain, plainWords, skimOf} {
						got := f(raw, 0)
						if odd && got > at || got > n {
							t.Fatalf("byte %#x at %d of %d: passed over, to %d", c, at, n, got)
						}
						if !odd && n-got >= 32 {
							t.Fatalf("byte %#x at %d of %d: stopped at %d", c, at, n, got)
						}
					}
					if got := skimOf(raw, 0); odd && at < n-7 && got != at || !odd && n-got >= 8 {
						t.Fatalf("byte %#x at %d of %d: skimmed to %d", c, at, n, got)
					}
					raw[at] = 'x'
				}
			}
			for i := range raw {
				raw[i] = '"'
			}
		}
	}
}

// Every byte after a backslash.
func TestEscapes(t *testing.T) {
	for c := range 256 {
		_, err := Scan([]byte(text(`\` + string([]byte{byte(c)}) + `12af`)))
		if want := bytes.IndexByte([]byte(`"\/bfnrtu`), byte(c)) >= 0; (err == nil) != want {
			t.Errorf("escape of %#x: %v", c, err)
		}
	}
}

// Every first byte of a character, with the bounds of the next one, compared with the standard library.
func TestUTF8(t *testing.T) {
	next := []byte{'x', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0}
	for c := 0x80; c < 256; c++ {
		for _, d := range next {
			for _, e := range next {
				for _, f := range next {
					in := []byte{byte(c), d, e, f}
					if _, err := Scan([]byte(text(string(in)))); (err == nil) != utf8.Valid(in) {
						t.Fatalf("% x: %v", in, err)
					}
				}
			}
		}
	}
}

// A byte that str must examine at every position of runs that are read in the widest steps.
func TestSkimLongRuns(t *testing.T) {
	room := bytes.Repeat([]byte{'"'}, 2000) // the surrounding bytes must not be found
	for _, n := range []int{271, 272, 287, 288, 399, 400, 401, 415, 416, 527, 528, 529, 700, 1000} {
		for _, from := range []int{0, 1, 31} {
			raw := room[from : from+n]
			for i := range raw {
				raw[i] = "a !#[]~\x7f"[i%8]
			}
			if got := plain(raw, 0); got > n || n-got >= 32 {
				t.Fatalf("%d: stopped at %d", n, got)
			}
			for at := range raw {
				was := raw[at]
				for _, c := range []byte{0, 0x1f, '"', '\\', 0x80, 0xff} {
					raw[at] = c
					if got := plain(raw, 0); got > at || got < at-32 {
						t.Fatalf("byte %#x at %d of %d: looked at from %d", c, at, n, got)
					}
				}
				raw[at] = was
			}
			for i := range raw {
				raw[i] = '"'
			}
		}
	}
}
