package lexical

import (
	"cmp"
	"slices"
	"strings"
)

// scratch is the memory of one search, used again by others.
type scratch struct {
	scores  []float32 // of documents, for the query
	part    []float32 // for the part of the query that is looked at
	most    []float32 // for the part that fits best
	one     []float32 // for the word that is looked at
	servers []float32 // of servers, for the query
	touched []int32   // documents, or servers, that have the word
	ranked  []ranked

	shared []uint8 // grams that each word of the index has in common with one of the query
	found  []int32 // words of the index that have any
}

// ranked is a document that has a score.
type ranked struct {
	id    int32
	score float32
}

// reset makes room for the scores of so many documents and servers, all of them zero.
func (s *scratch) reset(docs, servers int) {
	for _, all := range []*[]float32{&s.scores, &s.part, &s.most} {
		*all = sized(*all, docs)
	}
	s.one = sized(s.one, max(docs, servers))
	s.servers = sized(s.servers, servers)
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

// word adds what the words of the index for one word of the query give to each document. Of several the best counts. first says that the
// word was in no part before.
func (s *scratch) word(terms []asked, first bool) {
	s.touched = s.touched[:0]
	for i := range terms {
		s.touch(terms[i].postings, terms[i].weight)
	}
	for _, id := range s.touched {
		score := s.one[id]
		s.one[id] = 0
		s.part[id] += score
		if first {
			s.scores[id] += score
		}
	}
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
		s.one[p.at] = max(was, weight*p.impact)
	}
}

// leastBatch is the least number of documents that are sorted at once.
const leastBatch = 64

// best calls see with the documents that have a score, the best first, until it returns false. It sorts a few more than limit, and more only
// if see wants more.
func (s *scratch) best(x *Index, limit int, see func(id int32) bool) {
	before := func(a, b ranked) int {
		if a.score != b.score {
			return cmp.Compare(b.score, a.score)
		}
		d, e := x.docs[a.id], x.docs[b.id]
		return cmp.Or(strings.Compare(d.server, e.server), strings.Compare(d.name, e.name))
	}
	var last ranked
	for batch, more := max(2*min(limit, len(s.scores)), leastBatch), true; more; batch *= 8 {
		s.ranked = s.ranked[:0]
		worst := ranked{score: -1} // of those that are in the batch for sure
		for id, score := range s.scores {
			r := ranked{int32(id), score} //nolint:gosec // less than the documents
			if score == 0 || score < worst.score || score == worst.score && before(r, worst) > 0 || last.score > 0 && before(r, last) <= 0 {
				continue
			}
			if s.ranked = append(s.ranked, r); len(s.ranked) == 2*batch {
				slices.SortFunc(s.ranked, before)
				s.ranked = s.ranked[:batch]
				worst = s.ranked[batch-1]
			}
		}
		slices.SortFunc(s.ranked, before)
		more = len(s.ranked) >= batch
		for _, r := range s.ranked[:min(len(s.ranked), batch)] {
			if last = r; !see(r.id) {
				return
			}
		}
	}
}
