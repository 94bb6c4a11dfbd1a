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

// leastShared is the least number of grams that words have in common of which one is like the other without a slip.
const leastShared = leastLetters - 2

// alike is a word of the index that looks like a word of a query.
type alike struct {
	place    int32
	likeness float64 // at most 1
}

// alike returns the words of the index that look like a word, but for the word itself, which is -1 if the index has not got it: the most alike
// first.
func (x *Index) alike(s *scratch, word queryWord, itself int32) (all []alike) {
	if utf8.RuneCountInString(word.text) < leastLetters {
		return nil
	}
	unknown, root := itself < 0, utf8.RuneCountInString(word.root)
	grams := x.sharing(s, word.stem)
	for _, t := range s.sharing {
		shared := int(s.shared[t])
		if t == itself || shared < leastShared && !unknown {
			continue
		}
		if likeness := likeness(word, root, x.words[t], shared, grams, unknown); likeness >= alikeLeast {
			all = append(all, alike{t, likeness})
		}
	}
	slices.SortFunc(all, func(a, b alike) int {
		return cmp.Or(cmp.Compare(b.likeness, a.likeness), strings.Compare(x.words[a.place].text, x.words[b.place].text))
	})
	return all[:min(len(all), alikeMost)]
}

// sharing notes the words of the index that have grams of a word, and how many, and returns how many it has.
func (x *Index) sharing(s *scratch, word string) int {
	grams := gramsOf(word)
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
	return len(grams)
}

// likeness returns how much a word of the index is like one of a query: the part of their grams that both have. If one has the other in it,
// or the other is not in the index and so may be mistyped and is one slip away, they are alike with less in common. root is the number of letters of
// the word's root, and grams that of its grams.
func likeness(word queryWord, root int, of *term, shared, grams int, unknown bool) float64 {
	all := 2 * float64(shared) / float64(grams+of.letters)
	switch {
	case all >= alikeLeast:
		return min(all, 1)
	case unknown && oneSlip(word.stem, of.text):
		return slipLikeness
	case has(of.text, word.root, root, shared), has(word.stem, of.text, of.letters, shared):
		return alikeLeast
	}
	return 0
}

// has reports whether a word has another in it, of so many letters, that is long enough to mean something. It need not look if they share too few grams.
func has(word, part string, letters, shared int) bool {
	return letters >= leastLetters && shared >= letters-2 && strings.Contains(word, part)
}

// oneSlip reports whether a letter more, less, or other, or two that are exchanged, make one word of another. The
// first letter is the same: there slips are rare, and other words common. None is empty.
func oneSlip(a, b string) bool {
	v, w := []rune(a), []rune(b)
	if v[0] != w[0] {
		return false
	}
	if len(v) > len(w) {
		v, w = w, v
	}
	for len(v) > 0 && v[0] == w[0] {
		v, w = v[1:], w[1:]
	}
	for len(v) > 0 && v[len(v)-1] == w[len(w)-1] {
		v, w = v[:len(v)-1], w[:len(w)-1]
	}
	return len(v) <= 1 && len(w) <= 1 || len(v) == 2 && len(w) == 2 && v[0] == w[1] && v[1] == w[0]
}
