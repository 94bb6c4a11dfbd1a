package lexical

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// asked is a word of the index that a query asks for.
type asked struct {
	*term
	place  int32
	weight float32 // rarity among tools, less if the word is only like the one of the query
	server float32 // rarity among servers, the same
}

// Search returns at most limit documents that a query finds, the best first; those of one score by server and name. allowed reports whether
// a document may be returned; it is asked in the order of scores, and must not call back. It is nil if all may be.
func (x *Index) Search(query string, limit int, allowed func(server, name string) bool) (hits []Hit) {
	q := readQuery(query)
	if len(q.words) == 0 || limit <= 0 {
		return nil
	}
	s := x.scratch.Get().(*scratch)
	defer x.scratch.Put(s)
	x.mu.RLock()
	defer x.mu.RUnlock()
	terms := make([][]asked, len(q.words))
	for i, word := range q.words {
		terms[i] = x.asked(s, word)
	}
	x.score(s, q, terms)
	s.best(x, limit, func(id int32) bool {
		d := x.docs[id]
		if allowed == nil || allowed(d.server, d.name) {
			hits = append(hits, Hit{Server: d.server, Name: d.name, Score: float64(s.scores[id]), Fields: x.why(id, terms)})
		}
		return len(hits) < limit
	})
	return hits
}

// rarity is the inverse document frequency of a word that n of all have.
func rarity(n, all int) float64 {
	return math.Log(1 + (float64(all)-float64(n)+0.5)/(float64(n)+0.5))
}

// asked returns the words of the index for a word of a query.
func (x *Index) asked(s *scratch, word queryWord) (all []asked) {
	t, known := x.terms[word.stem]
	weight, server := rarity(0, len(x.at)), rarity(0, len(x.servers))
	if known {
		of := x.words[t]
		weight, server = rarity(len(of.postings), len(x.at)), rarity(len(of.servers), len(x.servers))
		all = append(all, asked{of, t, float32(weight), float32(server)})
		if len(of.postings) > alikeRare {
			return all
		}
	} else {
		t = -1
	}
	for _, like := range x.alike(s, word, t) {
		of := x.words[like.place]
		share := alikeWeight * like.likeness
		all = append(all, asked{of, like.place, float32(share * min(weight, rarity(len(of.postings), len(x.at)))),
			float32(share * min(server, rarity(len(of.servers), len(x.servers))))})
	}
	return all
}

// score sets the score of each document: a part of it is that of the whole query, another that of the part of the query that fits best, and
// a little that of the server.
func (x *Index) score(s *scratch, q question, terms [][]asked) {
	s.reset(len(x.docs), len(x.places))
	seen := make([]bool, len(terms))
	for _, part := range q.parts {
		clear(s.part)
		for _, w := range part {
			s.word(terms[w], !seen[w])
			seen[w] = true
		}
		for id, score := range s.part {
			s.most[id] = max(s.most[id], score)
		}
	}
	for _, same := range terms {
		s.serverWord(same)
	}
	whole, most, server := float32(1-partShare), float32(partShare), float32(serverShare)
	for id, of := range x.serverOf {
		if of >= 0 {
			s.scores[id] = whole*s.scores[id] + most*s.most[id] + server*s.servers[of]
		}
	}
}

// mostWhy bounds what is said of why a document was found.
const mostWhy = 5

// why says what of a document matches.
func (x *Index) why(id int32, terms [][]asked) (all []string) {
	type match struct {
		text   string
		weight float64
	}
	var found []match
	of := x.serverOf[id]
	for _, same := range terms {
		for _, t := range same {
			for _, c := range x.docs[id].counts {
				if c.term == t.place {
					found = append(found, match{fieldNames[c.field] + ": " + t.text, float64(t.weight) * fieldWeights[c.field]})
				}
			}
			if _, has := find(t.servers, of); has {
				found = append(found, match{serverField + ": " + t.text, float64(t.server) * serverShare})
			}
		}
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.text, b.text)) })
	for _, m := range slices.Compact(found) {
		if len(all) < mostWhy {
			all = append(all, m.text)
		}
	}
	return all
}
