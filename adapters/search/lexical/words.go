package lexical

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/russian"
)

// maxWord bounds a word, in letters. Longer ones are cut.
const maxWord = 40

// pieces splits a text into words: at what is neither letter nor digit, and within names such as getUserInfo or HTTPServer. Words are in
// lower case.
func pieces(text string) (words []string) {
	each(text, func(word string) { words = append(words, word) })
	return words
}

// Stems returns the words of a text, at most some, in the form in which they are compared.
func Stems(text string, most int) (all []string) {
	for _, word := range pieces(text) {
		if len(all) == most {
			break
		}
		all = append(all, stem(word))
	}
	return all
}

// kind tells apart letters that are not of one word.
type kind uint8

const (
	other kind = iota
	lower
	upper
	digit
	ideograph // of a script without spaces between words
)

func kindOf(r rune) kind {
	switch {
	case r >= 'a' && r <= 'z':
		return lower
	case r >= 'A' && r <= 'Z':
		return upper
	case r >= '0' && r <= '9':
		return digit
	case r < 0x80:
		return other
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
		return ideograph
	case unicode.IsUpper(r):
		return upper
	case unicode.IsLetter(r), unicode.IsMark(r):
		return lower
	case unicode.IsDigit(r):
		return digit
	}
	return other
}

// each calls see with the words of a text. Of scripts that have no spaces between words it is each pair of neighbours.
func each(text string, see func(word string)) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			see(strings.ToLower(string(word[:min(len(word), maxWord)])))
			word = word[:0]
		}
	}
	var before kind
	var last rune
	for _, r := range text {
		k := kindOf(r)
		switch {
		case k == other && (r == '\'' || r == '’') && before == lower: // it's, don't: the rest says nothing
			k = lower
			word = append(word, '\'')
			before = k
			continue
		case k == ideograph:
			end()
			if before == ideograph {
				see(string([]rune{last, r}))
			}
			last = r
		case before == ideograph, k == other, k == digit && before != digit, k != digit && before == digit, k == upper && before == lower:
			end()
		case k == lower && before == upper && len(word) > 1: // the last capital begins the next word: HTTPServer
			first := word[len(word)-1]
			word = word[:len(word)-1]
			end()
			word = append(word, first)
		}
		if k != other && k != ideograph {
			word = append(word, r)
		}
		before = k
	}
	end()
}

// stem returns the form in which a word is looked for: the stem of an English or a Russian word (Porter 2), else the word.
func stem(word string) string {
	word, _, _ = strings.Cut(word, "'")
	if len(word) < 3 {
		return word
	}
	kept := &stems[maphash.String(stemSeed, word)%uint64(len(stems))]
	if s := kept.Load(); s != nil && s.word == word {
		return s.stem
	}
	s := &stemmed{strings.Clone(word), word}
	switch first := word[0]; {
	case first >= 'a' && first <= 'z':
		s.stem = english.Stem(word, true)
	case first == 0xd0 || first == 0xd1: // Cyrillic letters
		s.stem = russian.Stem(word, true)
	default:
		return word
	}
	kept.Store(s)
	return s.stem
}

// stems has the stems of recent words, since stemming takes longer than all else that is done with a word. A word has one place.
var (
	stems    [4096]atomic.Pointer[stemmed]
	stemSeed = maphash.MakeSeed()
)

type stemmed struct{ word, stem string }

// common are words of questions that say nothing of what is asked for: of the language, not of tools.
var common = set(`a about above after again all also am an and any anyone are as at be because been before being below between both but by can cannot
could did do does doing done down during each either else etc ever every few for from further get give gave given go goes going got had has have having he help her here hers
him his how i if in into is it its itself just know let lets like ll may maybe me might more most much must my myself need needs no nor not now of off ok on once one only or other our
ours out over own please provide re same shall she should show so some someone something such tell than thank thanks that the their theirs them then there these they this those through to too
trying try under until up upon us use used using ve very want wants wanted was way we were what when where which while who whom whose why will with within without won would you your yours yourself`)

func set(text string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(text) {
		all[word] = true
	}
	return all
}
