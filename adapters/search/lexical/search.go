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
	defer s.release()
	terms := x.found(s, q)
	s.best(limit, func(r ranked) bool {
		d := s.docs[r.id]
		if allowed == nil || allowed(d.server, d.name) {
			hits = append(hits, Hit{Server: d.server, Name: d.name, Score: float64(r.score), Fields: s.why(r.id, terms)})
		}
		return len(hits) < limit
	})
	return hits
}

// found sets the scores of documents, and copies what is needed of them, so that the rest of a search holds nobody up.
func (x *Index) found(s *scratch, q question) [][]asked {
	x.mu.RLock()
	defer x.mu.RUnlock()
	terms := make([][]asked, len(q.words))
	for i, word := range q.words {
		terms[i] = x.asked(s, word)
	}
	x.categories.score(s, q)
	x.score(s, q, terms)
	s.docs = append(s.docs[:0], x.docs...)
	s.serverOf = append(s.serverOf[:0], x.serverOf...)
	s.said = append(s.said[:0], x.said...)
	s.categoriesOf, s.names = append(s.categoriesOf[:0], x.categoriesOf...), x.categories.names
	return terms
}

// rarity is the inverse document frequency of a word that n of all have.
func rarity(n, all int) float64 {
	return math.Log(1 + (float64(all)-float64(n)+0.5)/(float64(n)+0.5))
}

// asked returns the words of the index for a word of a query.
func (x *Index) asked(s *scratch, word queryWord) (all []asked) {
	t, known := x.terms[word.stem]
	weight, server := math.Inf(1), math.Inf(1)
	if known {
		of := x.words[t]
		weight, server = rarity(len(of.postings), x.len()), rarity(len(of.servers), len(x.servers))
		all = append(all, asked{of, t, float32(weight), float32(server)})
		if len(of.postings) > alikeRare {
			return all
		}
	} else {
		t = -1
	}
	for _, like := range x.alike(s, word, t) {
		of := x.words[like.place]
		if known && len(of.postings) > alikeRare {
			continue
		}
		share := alikeWeight * like.likeness
		all = append(all, asked{of, like.place, float32(share * min(weight, rarity(len(of.postings), x.len()))),
			float32(share * min(server, rarity(len(of.servers), len(x.servers))))})
	}
	return all
}

// score sets the score of each document: a share of it is that of the whole query, another that of the part of the query that fits best; that
// of the server is added, and that of the category that says most.
func (x *Index) score(s *scratch, q question, terms [][]asked) {
	several := len(q.parts) > 1
	s.reset(len(x.docs), len(x.said), several)
	for _, same := range terms {
		s.word(same)
		s.serverWord(same)
	}
	mosts := s.wholes
	if several {
		for _, part := range q.parts {
			s.beginPart(part, terms)
			for _, w := range part {
				s.partWord(terms[w])
			}
			s.endPart()
		}
		mosts = s.mosts
	}
	for id, of := range x.serverOf {
		if of >= 0 {
			score := float32(1-partShare)*s.wholes[id] + float32(partShare)*mosts[id] + float32(serverShare)*s.servers[of]
			if s.sorted {
				score += s.categoryOf(x.categoriesOf[id])
			}
			if s.scores[id] = score; score > s.highest {
				s.highest = score
			}
		}
	}
}

// mostWhy bounds what is said of why a document was found.
const mostWhy = 5

// why says what of a document matches, of what is said of its server, and which of its categories.
func (s *scratch) why(id int32, terms [][]asked) (all []string) {
	d, said := s.docs[id], s.said[s.serverOf[id]]
	type match struct {
		text   string
		weight float64
	}
	var found []match
	if at, score := s.categoriesOf[id].best(&s.categories); score > 0 {
		found = append(found, match{categoryField + ": " + s.names[at-1], float64(score)})
	}
	for _, same := range terms {
		for _, t := range same {
			for _, c := range d.counts {
				if c.term == t.place {
					found = append(found, match{fieldNames[c.field] + ": " + t.text, float64(t.weight) * fieldWeights[c.field]})
				}
			}
			if _, has := slices.BinarySearch(said, t.place); has {
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
