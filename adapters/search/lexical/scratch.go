package lexical

import (
	"cmp"
	"slices"
	"strings"
)

// scratch is the memory of one search, used again by others.
type scratch struct {
	scores     []scores                   // of documents
	one        []float32                  // of documents or servers, for the word that is looked at
	servers    []float32                  // of servers, for the query
	highest    float32                    // score of all documents
	categories [maxCategories + 1]float32 // what each adds, by place
	touched    []int32                    // documents, or servers, that have the word
	inPart     []int32                    // documents that have a word of the part that is looked at
	ranked     []ranked

	shared  []uint8 // grams that each word of the index has in common with one of the query
	sharing []int32 // words of the index that have any

	docs         []*document // of the index as it was
	serverOf     []int32
	categoriesOf []places
	names        []string  // of categories
	said         [][]int32 // the words of what is said of each server
}

// scores are those of a document.
type scores struct {
	whole float32 // for the query
	part  float32 // for the part of it that is looked at
	most  float32 // for the part that fits best
	score float32 // in the end
}

// ranked is a document that has a score.
type ranked struct {
	id    int32
	score float32
}

// reset makes room for the scores of so many documents and servers, all of them zero.
func (s *scratch) reset(docs, servers int) {
	s.scores = sized(s.scores, docs)
	s.one = sized(s.one, max(docs, servers))
	s.servers = sized(s.servers, servers)
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

// word adds what the words of the index for one word of the query give to each document. Of several the best counts. first says that the
// word was in no part before.
func (s *scratch) word(terms []asked, first bool) {
	if len(terms) == 1 {
		weight := terms[0].weight
		for _, p := range terms[0].postings {
			s.add(p.at, weight*p.impact, first)
		}
		return
	}
	s.touched = s.touched[:0]
	for i := range terms {
		s.touch(terms[i].postings, terms[i].weight)
	}
	for _, id := range s.touched {
		s.add(id, s.one[id], first)
		s.one[id] = 0
	}
}

// add adds what a document has for a word.
func (s *scratch) add(id int32, score float32, first bool) {
	d := &s.scores[id]
	if d.part == 0 {
		s.inPart = append(s.inPart, id)
	}
	d.part += score
	if first {
		d.whole += score
	}
}

// endPart ends a part of the query.
func (s *scratch) endPart() {
	for _, id := range s.inPart {
		d := &s.scores[id]
		if d.part > d.most { // max is slower, since it sees to what is no number
			d.most = d.part
		}
		d.part = 0
	}
	s.inPart = s.inPart[:0]
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
	for i := range s.scores {
		counts[min(int(s.scores[i].score/step), len(counts)-1)]++
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
		for id := range s.scores {
			score := s.scores[id].score
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
