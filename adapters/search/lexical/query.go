package lexical

import (
	"slices"
	"strings"
)

// Bounds of what of a query counts.
const (
	maxQuery      = 8 << 10 // bytes
	maxQueryWords = 64
	maxParts      = 32
)

// question is what is asked for: words, each once, and the parts of the query that they are in.
type question struct {
	words []queryWord
	parts [][]int // places of words
}

// queryWord is a word of a query.
type queryWord struct {
	text string
	stem string
	root string // what the word begins with as it stands: the stem of quality is qualiti, and its root qualit
}

// readQuery returns the words of a query. Those that say nothing are left out, unless there are no others.
func readQuery(query string) (q question) {
	if len(query) > maxQuery {
		query = strings.ToValidUTF8(query[:maxQuery], "")
	}
	if q = readWords(query, false); len(q.words) == 0 {
		q = readWords(query, true)
	}
	return q
}

// partEnds end the parts of a query. A stop within a name or a number ends one as well, which does no harm.
const partEnds = ".,;:?!\n\r。，、；：？！"

func readWords(query string, all bool) (q question) {
	for text := range strings.FieldsFuncSeq(query, func(r rune) bool { return strings.ContainsRune(partEnds, r) }) {
		var part []int
		each(text, func(word string) {
			if at := q.word(word, all); at >= 0 && !slices.Contains(part, at) {
				part = append(part, at)
			}
		})
		switch {
		case len(part) == 0:
		case len(q.parts) < maxParts:
			q.parts = append(q.parts, part)
		default: // the rest is one part
			last := &q.parts[maxParts-1]
			*last = append(*last, part...)
			slices.Sort(*last)
			*last = slices.Compact(*last)
		}
	}
	return q
}

// word returns the place of a word, -1 if it does not count.
func (q *question) word(word string, all bool) int {
	if !all && common[word] {
		return -1
	}
	s := stem(word)
	at := slices.IndexFunc(q.words, func(w queryWord) bool { return w.stem == s })
	if at < 0 && len(q.words) < maxQueryWords {
		at = len(q.words)
		q.words = append(q.words, queryWord{word, s, root(word, s)})
	}
	return at
}

// root returns the beginning that two words share.
func root(a, b string) string {
	for i, r := range a {
		if !strings.HasPrefix(b[min(i, len(b)):], string(r)) {
			return a[:i]
		}
	}
	return a
}
