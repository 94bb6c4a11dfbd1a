// Package names turns the names that servers give to tools and arguments into identifiers, options and file names: readable where they can
// be, never the same for two of one list, and the same at every run, whichever others there are.
package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Bounds of what is made of a name. Longer ones end with a hash.
const (
	maxIdentifier = 60
	hashLength    = 6
)

// Style is how the words of a name become one.
type Style struct {
	Join    string // between words
	Capital bool   // words begin with a capital
	First   bool   // so does the first
	Upper   bool   // all letters are capitals
	Plain   bool   // letters beyond ASCII are left out
	// Reserved are the words that no name may be, in lower case if Fold is set; an underscore is added to them.
	Reserved map[string]bool
	// Fold says that names that differ by case are the same, as on many file systems.
	Fold bool
	// Empty is the name of what has no letters and no digits.
	Empty string
}

// Words returns the words of a text: runs of letters and digits, which also end where a small letter is followed by a capital one. Letters that
// compilers of some age may not know are none.
func Words(text string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, string(word))
		}
		word = word[:0]
	}
	var last rune
	for _, c := range norm.NFKC.String(text) {
		switch {
		case !letter(c) && !(c >= '0' && c <= '9') && !(unicode.IsMark(c) && c < 0xFE00 && len(word) > 0):
			end()
		case unicode.IsUpper(c) && (unicode.IsLower(last) || last >= '0' && last <= '9'):
			end()
			word = append(word, c)
		default:
			word = append(word, c)
		}
		last = c
	}
	end()
	return words
}

// scripts are the ranges whose letters every compiler and interpreter of the last ten years knows.
var scripts = [][2]rune{{'A', 'Z'}, {'a', 'z'}, {0xC0, 0x24F}, {0x386, 0x3FF}, {0x400, 0x52F}, {0x5D0, 0x5EA}, {0x620, 0x64A}, {0x904, 0x939}, {0xE01, 0xE2E},
	{0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x4E00, 0x9FA5}, {0xAC00, 0xD7A3}}

func letter(c rune) bool {
	for _, s := range scripts {
		if c >= s[0] && c <= s[1] {
			return unicode.IsLetter(c)
		}
	}
	return false
}

// one returns the name of a text by itself.
func (s Style) one(text string) string {
	var b strings.Builder
	for i, word := range s.words(text) {
		if i > 0 {
			b.WriteString(s.Join)
		}
		switch {
		case s.Upper:
			word = strings.ToUpper(word)
		case s.Capital && (i > 0 || s.First):
			runes := []rune(strings.ToLower(word))
			word = string(unicode.ToUpper(runes[0])) + string(runes[1:])
		default:
			word = strings.ToLower(word)
		}
		b.WriteString(word)
	}
	name := norm.NFKC.String(b.String()) // letters of another case may be written otherwise
	if name == "" {
		name = s.Empty
	}
	if len(name) > maxIdentifier {
		name = strings.ToValidUTF8(name[:maxIdentifier], "")
		name = s.joined(name, hash(text, 0))
	}
	if c := name[0]; c >= '0' && c <= '9' {
		name = s.joined(s.prefix(), name)
	}
	key := name
	if s.Fold {
		key = strings.ToLower(name)
	}
	if s.Reserved[key] {
		name += "_"
	}
	return name
}

func (s Style) words(text string) []string {
	words := Words(text)
	if !s.Plain {
		return words
	}
	var plain []string
	for _, w := range words {
		w = strings.Map(func(c rune) rune {
			if c > unicode.MaxASCII {
				return -1
			}
			return c
		}, norm.NFKD.String(w))
		if w != "" {
			plain = append(plain, w)
		}
	}
	return plain
}

// prefix stands before a digit.
func (s Style) prefix() string {
	if s.Upper || s.First {
		return "N"
	}
	return "n"
}

func (s Style) joined(a, b string) string {
	if s.Join == "" {
		return a + "_" + b
	}
	return a + s.Join + b
}

// Assign returns a name for each of the given texts, which differ from each other. Texts that would share a name all get a hash, but for one that is
// that name already.
func (s Style) Assign(texts []string) []string {
	key := func(name string) string {
		if s.Fold {
			return strings.ToLower(name)
		}
		return name
	}
	all, wanted := make([]string, len(texts)), make(map[string]int, len(texts))
	for i, text := range texts {
		all[i] = s.one(text)
		wanted[key(all[i])]++
	}
	taken := make(map[string]bool) // by names with a hash
	for i, text := range texts {
		if wanted[key(all[i])] == 1 || all[i] == text {
			continue
		}
		name := all[i]
		for n := 0; ; n++ {
			if other := s.joined(strings.TrimSuffix(name, "_"), hash(text, n)); !taken[key(other)] && wanted[key(other)] == 0 {
				all[i], taken[key(other)] = other, true
				break
			}
		}
	}
	return all
}

// Set makes a set of words.
func Set(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

func hash(text string, n int) string {
	sum := sha256.Sum256(append([]byte{byte(n & 0xff)}, text...))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// devices are the names that Windows keeps for devices, with any extension.
const devices = "con prn aux nul com0 com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt0 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9"

// Files is the style of file names without their extension: lower-case ASCII letters, digits and the given joint. reserved are names that are
// used for something else.
func Files(join, reserved string) Style {
	return Style{Join: join, Plain: true, Fold: true, Empty: "tool", Reserved: Set(devices + " " + reserved)}
}
