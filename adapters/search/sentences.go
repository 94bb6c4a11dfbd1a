package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"dragoman/adapters/search/lexical"
	"dragoman/adapters/search/vectors"
)

// Bounds of the sentences of a query that have vectors of their own.
const (
	mostSentences = 6
	leastWords    = 3 // of one: less says too little without the rest
	sentenceEnds  = ".;?!\n\r。；？！"
)

// Sentences returns the sentences of a query that asks for several things, the first six of those with at least three words; nil: it has fewer
// than two. A stop within a name or a number ends none.
func Sentences(query string) (all []string) {
	for rest := query; rest != "" && len(all) < mostSentences; {
		var one string
		if one, rest = sentence(rest); len(lexical.Stems(one, leastWords)) == leastWords {
			all = append(all, one)
		}
	}
	if len(all) < 2 {
		return nil
	}
	return all
}

// sentence returns the first sentence of a text without its end, and the rest.
func sentence(text string) (one, rest string) {
	for i, r := range text {
		if !strings.ContainsRune(sentenceEnds, r) {
			continue
		}
		rest = text[i+utf8.RuneLen(r):]
		if next, _ := utf8.DecodeRuneInString(rest); r >= utf8.RuneSelf || rest == "" || unicode.IsSpace(r) || unicode.IsSpace(next) {
			return strings.Trim(text[:i], sentenceEnds+" "), rest
		}
	}
	return strings.Trim(text, sentenceEnds+" "), ""
}

// sentencePart is how much the cosine of a sentence of a query counts, beside that of the whole query.
const sentencePart = 0.9

// Join joins what is near to a query with what is near to each of its sentences: of a tool the best cosine counts. The lists are in the order of
// the whole query and of [Sentences]. It returns the best first; those of one score by server and name.
func Join(lists [][]vectors.Hit) []vectors.Hit {
	if len(lists) == 1 {
		return lists[0]
	}
	at := map[place]int{}
	var all []vectors.Hit
	for i, hits := range lists {
		for _, h := range hits {
			if i > 0 && h.Score > 0 {
				h.Score *= sentencePart
			}
			if j, has := at[place{h.Server, h.Tool}]; has {
				all[j].Score = max(all[j].Score, h.Score)
				continue
			}
			at[place{h.Server, h.Tool}] = len(all)
			all = append(all, h)
		}
	}
	slices.SortFunc(all, vectors.Compare)
	return all
}
