package lexical

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// gram is three neighbouring letters of a word.
type gram uint64

// gramsOf returns the grams of a word, with its ends marked, each once.
func gramsOf(word string) (all []gram) {
	const letter = 21 // bits
	add := func(g gram) {
		if !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	all = make([]gram, 0, len(word))
	g, n := gram('^'), 1
	for _, r := range word + "$" {
		g = (g<<letter | gram(r)) & (1<<(3*letter) - 1) //nolint:gosec // runes are positive
		if n++; n >= 3 {
			add(g)
		}
	}
	return all
}

// leastLetters is the length from which on words can be like others.
const leastLetters = 4

// alike is a word of the index that looks like a word of a query.
type alike struct {
	place    int32
	likeness float64 // at most 1
}

// alike returns the words of the index that look like a word, but for the word itself: the most alike first. Likeness is the part of their
// grams that both have; a word that has the other in it is like it, however long it is.
func (x *Index) alike(s *scratch, word queryWord, itself int32) (all []alike) {
	letters := utf8.RuneCountInString(word.stem)
	if letters < leastLetters {
		return nil
	}
	grams := gramsOf(word.stem)
	s.shared = sized(s.shared, len(x.words))
	s.sharing = s.sharing[:0]
	for _, g := range grams {
		for _, t := range x.grams[g] {
			if s.shared[t] == 0 {
				s.sharing = append(s.sharing, t)
			}
			s.shared[t]++
		}
	}
	root := utf8.RuneCountInString(word.root)
	for _, t := range s.sharing {
		n := int(s.shared[t])
		if n < 2 || t == itself {
			continue
		}
		of := x.words[t]
		likeness := 2 * float64(n) / float64(len(grams)+of.letters)
		switch {
		case likeness >= alikeLeast:
		case root >= leastLetters && n >= root-2 && strings.Contains(of.text, word.root),
			of.letters >= leastLetters && n >= of.letters-2 && strings.Contains(word.stem, of.text):
			likeness = alikeLeast
		default:
			continue
		}
		all = append(all, alike{t, min(likeness, 1)})
	}
	slices.SortFunc(all, func(a, b alike) int {
		return cmp.Or(cmp.Compare(b.likeness, a.likeness), strings.Compare(x.words[a.place].text, x.words[b.place].text))
	})
	return all[:min(len(all), alikeMost)]
}
