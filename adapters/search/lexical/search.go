package lexical

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxQueryWords bounds the words of a query that count.
const maxQueryWords = 64

// asked is a word of the index that a query asks for.
type asked struct {
	*term
	place  int32
	word   int     // of the query
	weight float64 // of the word: its rarity, less if it is only like the word of the query
}

// Search returns at most limit documents that a query finds, the best first; those of one score by server and name. allowed reports whether
// a document may be returned; it is asked in the order of scores, and must not call back. It is nil if all may be.
func (x *Index) Search(query string, limit int, allowed func(server, name string) bool) []Hit {
	x.mu.RLock()
	defer x.mu.RUnlock()
	words := queryWords(query)
	if len(words) == 0 || limit <= 0 || len(x.at) == 0 {
		return nil
	}
	terms := x.asked(words)
	scores := x.scores(terms, len(words))
	q := &queue{x: x, scores: scores}
	for id, s := range scores {
		if s > 0 && x.docs[id] != nil {
			q.ids = append(q.ids, int32(id)) //nolint:gosec // less than the documents
		}
	}
	heap.Init(q)
	var hits []Hit
	for len(hits) < limit && q.Len() > 0 {
		id := heap.Pop(q).(int32)
		d := x.docs[id]
		if allowed == nil || allowed(d.server, d.name) {
			hits = append(hits, Hit{Server: d.server, Name: d.name, Score: float64(scores[id]), Fields: x.why(d, terms)})
		}
	}
	return hits
}

// queryWords returns the stems of a query's words, each once. Words that say nothing are left out, unless there are no others.
func queryWords(query string) (words []string) {
	read := func(all bool) {
		each(query, func(word string) {
			if s := stem(word); (all || !common[word]) && len(words) < maxQueryWords && !slices.Contains(words, s) {
				words = append(words, s)
			}
		})
	}
	if read(false); len(words) == 0 {
		read(true)
	}
	return words
}

// rarity is the inverse document frequency of a word of which n of all documents have one.
func rarity(n, all int) float64 {
	return math.Log(1 + (float64(all)-float64(n)+0.5)/(float64(n)+0.5))
}

// asked returns the words of the index for those of a query.
func (x *Index) asked(words []string) (all []asked) {
	for i, word := range words {
		exact := int32(-1)
		weight := rarity(0, len(x.at))
		if t, known := x.terms[word]; known && x.words[t].live > 0 {
			exact, weight = t, rarity(x.words[t].live, len(x.at))
			all = append(all, asked{x.words[t], t, i, weight})
		}
		for _, like := range x.alike(word, exact) {
			t := x.words[like.place]
			all = append(all, asked{t, like.place, i, alikeWeight * like.likeness * min(weight, rarity(t.live, len(x.at)))})
		}
	}
	return all
}

type alike struct {
	place    int32
	likeness float64
}

// alike returns the words of the index that look like a word, but for the word itself: the most alike first.
func (x *Index) alike(word string, but int32) (all []alike) {
	if utf8.RuneCountInString(word) < 4 {
		return nil
	}
	grams := gramsOf(word)
	shared := map[int32]int{}
	for _, gram := range grams {
		for _, t := range x.grams[gram] {
			shared[t]++
		}
	}
	for t, n := range shared {
		of := x.words[t]
		if t == but || of.live == 0 {
			continue
		}
		likeness := 2 * float64(n) / float64(len(grams)+max(utf8.RuneCountInString(of.text), 1))
		if contained := strings.Contains(of.text, word) || len(of.text) >= 4 && strings.Contains(word, of.text); contained {
			likeness = max(likeness, alikeLeast)
		}
		if likeness >= alikeLeast {
			all = append(all, alike{t, min(likeness, 1)})
		}
	}
	slices.SortFunc(all, func(a, b alike) int {
		return cmp.Or(cmp.Compare(b.likeness, a.likeness), strings.Compare(x.words[a.place].text, x.words[b.place].text))
	})
	return all[:min(len(all), alikeMost)]
}

// scores returns the score of each document.
func (x *Index) scores(terms []asked, words int) []float32 {
	scores := make([]float32, len(x.docs))
	best := make([]float32, len(x.docs)) // of the word that is looked at: words that are alike count once
	var touched []int32
	matched := make([]uint8, len(x.docs))
	for i := 0; i < len(terms); {
		touched = touched[:0]
		for word := terms[i].word; i < len(terms) && terms[i].word == word; i++ {
			w := float32(terms[i].weight)
			for _, p := range terms[i].postings {
				if s := w * p.impact; s > best[p.doc] {
					if best[p.doc] == 0 {
						touched = append(touched, p.doc)
					}
					best[p.doc] = s
				}
			}
		}
		for _, id := range touched {
			scores[id] += best[id]
			best[id] = 0
			matched[id]++
		}
	}
	servers := x.serverScores(terms)
	for id, s := range scores {
		if s > 0 && x.docs[id] != nil {
			part := float32(matched[id]) / float32(words)
			scores[id] = s*(1-coverage+coverage*part) + serverShare*servers[x.docs[id].of]
		}
	}
	return scores
}

// serverScores returns how well what is said of each server fits the query.
func (x *Index) serverScores(terms []asked) map[*server]float32 {
	all := make(map[*server]float32, len(x.servers))
	for _, s := range x.servers {
		for i := range terms {
			if s.words[terms[i].place] {
				all[s] += float32(terms[i].weight)
			}
		}
	}
	return all
}

// mostWhy bounds what is said of why a document was found.
const mostWhy = 5

// why says what of a document matches.
func (x *Index) why(d *document, terms []asked) (all []string) {
	type match struct {
		text   string
		weight float64
	}
	var found []match
	for i := range terms {
		for _, c := range d.counts {
			if c.term == terms[i].place {
				found = append(found, match{fieldNames[c.field] + ": " + terms[i].text, terms[i].weight * fieldWeights[c.field]})
			}
		}
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.text, b.text)) })
	for _, m := range found[:min(len(found), mostWhy)] {
		all = append(all, m.text)
	}
	return all
}

// queue has the documents with the best score first.
type queue struct {
	x      *Index
	scores []float32
	ids    []int32
}

func (q *queue) Len() int { return len(q.ids) }
func (q *queue) Less(i, j int) bool {
	a, b := q.ids[i], q.ids[j]
	if q.scores[a] != q.scores[b] {
		return q.scores[a] > q.scores[b]
	}
	x, y := q.x.docs[a], q.x.docs[b]
	return cmp.Or(strings.Compare(x.server, y.server), strings.Compare(x.name, y.name)) < 0
}
func (q *queue) Swap(i, j int) { q.ids[i], q.ids[j] = q.ids[j], q.ids[i] }
func (q *queue) Push(v any)    { q.ids = append(q.ids, v.(int32)) }
func (q *queue) Pop() any {
	last := q.ids[len(q.ids)-1]
	q.ids = q.ids[:len(q.ids)-1]
	return last
}
