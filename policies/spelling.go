package policies

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxJudged bounds the names and URIs that rules judge, in bytes: folding costs more than reading.
const maxJudged = 64 << 10

// Fold returns the form in which the spellings of a name are the same that a lenient server may take for one another: of other capitals,
// of compatible characters (Unicode NFKC), with white space, controls or characters without a shape. It is name itself if name is such
// a form, as most are. Of a name beyond 64 KiB, which no rule has, only the beginning counts.
func Fold(name []byte) []byte {
	if len(name) > maxJudged {
		name = bytes.TrimLeft(name, " \t\r\n")
		name = name[:min(len(name), maxJudged)]
	}
	plain, ascii := true, true
	for _, c := range name {
		if c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' {
			plain = false
		}
		if c >= utf8.RuneSelf {
			ascii = false
		}
	}
	switch {
	case plain:
		return name
	case ascii:
		return foldRunes(make([]byte, 0, len(name)), name, unicode.IsSpace)
	}
	return foldWide(name, unicode.IsSpace)
}

// foldWide folds a text with characters beyond ASCII. Folding can leave a text that NFKC changes, and the other way round.
func foldWide(text []byte, drop func(rune) bool) []byte {
	for range 8 {
		next := foldRunes(make([]byte, 0, len(text)), norm.NFKC.Bytes(text), drop)
		if string(next) == string(text) {
			break
		}
		text = next
	}
	return text
}

// foldRunes appends the characters of text in one case, without those that cannot be seen and those that drop selects.
func foldRunes(dst, text []byte, drop func(rune) bool) []byte {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		i += n
		if invisible(r) || drop != nil && drop(r) {
			continue
		}
		dst = utf8.AppendRune(dst, foldRune(r))
	}
	return dst
}

// invisible reports whether a character has no shape of its own: controls, formats, and what Unicode says may be ignored.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// foldRune returns the same character for all that differ in case only: for letters of ASCII the small one.
func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	if least >= 'A' && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}
