package lexical

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// scratch is the memory of one search, used again by others.
type scratch struct {
	wholes     []float32                  // of documents, for the query
	parts      []float32                  // for the part of it that is looked at
	mosts      []float32                  // for the part that fits best
	scores     []float32                  // in the end
	one        []float32                  // of documents or servers, for the word that is looked at
	servers    []float32                  // of servers, for the query
	highest    float32                    // score of all documents
	categories [maxCategories + 1]float32 // what each adds, by place
	sorted     bool                       // one of them adds something
	touched    []int32                    // documents, or servers, that have the word
	inPart     []int32                    // documents that have a word of the part that is looked at, unless they are many
	many       bool                       // so many that all documents are looked at in their place
	ranked     []ranked

	shared  []uint8 // grams that each word of the index has in common with one of the query
	sharing []int32 // words of the index that have any

	docs         []*document // of the index as it was
	serverOf     []int32
	categoriesOf []places
	names        []string  // of categories
	said         [][]int32 // the words of what is said of each server
}

// ranked is a document that has a score.
type ranked struct {
	id    int32
	score float32
}

// reset makes room for the scores of so many documents and servers, all of them zero. A query of one part needs no scores of parts.
func (s *scratch) reset(docs, servers int, several bool) {
	s.wholes, s.scores = sized(s.wholes, docs), sized(s.scores, docs)
	s.one = sized(s.one, max(docs, servers))
	s.servers = sized(s.servers, servers)
	if several {
		s.parts, s.mosts = sized(s.parts, docs), sized(s.mosts, docs)
	}
	s.inPart = s.inPart[:0]
	s.highest = 0
}

// release lets go of what the index may remove.
func (s *scratch) release() {
	clear(s.docs)
	clear(s.said)
}

// sized returns a slice of n zeros, in the memory of another if it is large enough.
func sized[T any](all []T, n int) []T {
	if cap(all) < n {
		return make([]T, n, n+n/4)
	}
	all = all[:n]
	clear(all)
	return all
}

// word adds what the words of the index for one word of the query give to each document for the query.
func (s *scratch) word(terms []asked) {
	if len(terms) == 1 {
		weight := terms[0].weight
		for _, p := range terms[0].postings {
			s.wholes[p.at] += weight * p.impact
		}
		return
	}
	s.bestOf(terms, func(id int32, score float32) { s.wholes[id] += score })
}

// manyOf is the share of all documents from which on their number in a part is large: looking at all in turn takes less time than noting which.
const manyOf = 8

// beginPart begins a part of the query.
func (s *scratch) beginPart(part []int, terms [][]asked) {
	n := 0
	for _, w := range part {
		for i := range terms[w] {
			n += len(terms[w][i].postings)
		}
	}
	s.many = n > len(s.parts)/manyOf
}

// partWord adds what the words of the index for one word of the query give to each document for the part.
func (s *scratch) partWord(terms []asked) {
	switch {
	case len(terms) != 1:
		s.bestOf(terms, s.add)
	case s.many:
		weight := terms[0].weight
		for _, p := range terms[0].postings {
			s.parts[p.at] += weight * p.impact
		}
	default:
		weight := terms[0].weight
		for _, p := range terms[0].postings {
			s.add(p.at, weight*p.impact)
		}
	}
}

// bestOf calls see with the documents that have one of several words, and the most that one gives.
func (s *scratch) bestOf(terms []asked, see func(id int32, score float32)) {
	s.touched = s.touched[:0]
	for i := range terms {
		s.touch(terms[i].postings, terms[i].weight)
	}
	for _, id := range s.touched {
		see(id, s.one[id])
		s.one[id] = 0
	}
}

// add adds what a document has for a word of the part.
func (s *scratch) add(id int32, score float32) {
	if s.parts[id] == 0 && !s.many {
		s.inPart = append(s.inPart, id)
	}
	s.parts[id] += score
}

// endPart ends a part of the query.
func (s *scratch) endPart() {
	mosts := s.mosts[:len(s.parts)]
	if s.many {
		for id, score := range s.parts {
			mosts[id] = larger(score, mosts[id])
		}
		clear(s.parts)
		return
	}
	for _, id := range s.inPart {
		mosts[id] = larger(s.parts[id], mosts[id])
		s.parts[id] = 0
	}
	s.inPart = s.inPart[:0]
}

// larger returns the larger of two scores, none of which is negative: their bits are in the order of the numbers. There is no branch to
// foretell, and max of floats takes longer, since it sees to what is no number.
func larger(a, b float32) float32 {
	return math.Float32frombits(max(math.Float32bits(a), math.Float32bits(b)))
}

// serverWord does the same for servers.
func (s *scratch) serverWord(terms []asked) {
	s.touched = s.touched[:0]
	for i := range terms {
		s.touch(terms[i].servers, terms[i].server)
	}
	for _, at := range s.touched {
		s.servers[at] += s.one[at]
		s.one[at] = 0
	}
}

// touch notes the best of what a word gives.
func (s *scratch) touch(postings []posting, weight float32) {
	for _, p := range postings {
		was := s.one[p.at]
		if was == 0 {
			s.touched = append(s.touched, p.at)
		}
		if score := weight * p.impact; score > was {
			s.one[p.at] = score
		}
	}
}

// floor returns a score that at least so many documents have, and few more; 0 if there are fewer.
func (s *scratch) floor(n int) float32 {
	if s.highest == 0 {
		return 0
	}
	var counts [64]int // by score
	step := s.highest / float32(len(counts)-1)
	for _, score := range s.scores {
		counts[min(int(score/step), len(counts)-1)]++
	}
	for i := len(counts) - 1; i > 0; i-- {
		if n -= counts[i]; n <= 0 {
			return float32(i) * step
		}
	}
	return 0
}

// leastBatch is the least number of documents that are sorted at once.
const leastBatch = 64

// best calls see with the documents that have a score, the best first, until it returns false. It sorts a few more than limit, and more only
// if see wants more.
func (s *scratch) best(limit int, see func(r ranked) bool) {
	before := func(a, b ranked) int {
		if a.score != b.score {
			return cmp.Compare(b.score, a.score)
		}
		d, e := s.docs[a.id], s.docs[b.id]
		return cmp.Or(strings.Compare(d.server, e.server), strings.Compare(d.name, e.name))
	}
	var last ranked
	batch, floor := max(2*min(limit, len(s.scores)), leastBatch), s.floor(limit)
	for more := true; more; batch, floor = 8*batch, 0 {
		s.ranked = s.ranked[:0]
		worst := ranked{score: floor} // of those that are in the batch for sure; no document at first
		for id, score := range s.scores {
			if score < worst.score || score == 0 {
				continue
			}
			r := ranked{int32(id), score}
			if score == worst.score && score > floor && before(r, worst) > 0 || last.score > 0 && before(r, last) <= 0 {
				continue
			}
			if s.ranked = append(s.ranked, r); len(s.ranked) == 2*batch {
				slices.SortFunc(s.ranked, before)
				s.ranked = s.ranked[:batch]
				worst = s.ranked[batch-1]
			}
		}
		slices.SortFunc(s.ranked, before)
		more = len(s.ranked) >= batch || floor > 0
		for _, r := range s.ranked[:min(len(s.ranked), batch)] {
			if last = r; !see(r) {
				return
			}
		}
	}
}
