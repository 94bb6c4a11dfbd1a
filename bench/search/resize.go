package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"dragoman/adapters/search/lexical"
)

// Resized returns a set with so many tools. Fewer are the first ones, with the queries that they answer alone. More are copies with another
// tool's name, of which a quarter of the words stay, and the others are of any tools: they answer nothing. The same set and number give the
// same tools.
func (s *Set) Resized(tools int) Set {
	r := Set{Name: s.Name, Tools: slices.Clone(s.Tools[:min(tools, len(s.Tools))])}
	for _, q := range s.Queries {
		if q.Tools[len(q.Tools)-1] < len(r.Tools) {
			r.Queries = append(r.Queries, q)
		}
	}
	random := rand.New(rand.NewPCG(uint64(len(s.Tools)), 0)) //nolint:gosec // repeatable
	for len(r.Tools) < tools {
		at := len(r.Tools)
		r.Tools = append(r.Tools, s.copied(random, at%len(s.Tools), at/len(s.Tools)))
	}
	return r
}

// copied returns the copy of a tool with this number.
func (s *Set) copied(random *rand.Rand, at, number int) lexical.Document {
	d := s.Tools[at]
	other := func() *lexical.Document { return &s.Tools[random.IntN(len(s.Tools))] }
	varied := func(text string, of func(*lexical.Document) string) string {
		words := strings.Fields(text)
		for i := range words {
			if others := strings.Fields(of(other())); len(others) > 0 && random.IntN(4) > 0 {
				words[i] = others[random.IntN(len(others))]
			}
		}
		return strings.Join(words, " ")
	}
	d.Server = fmt.Sprintf("%s-%d", d.Server, number)
	d.Name = fmt.Sprintf("%s%d", other().Name, len(s.Tools)*number+at)
	d.Title = varied(d.Title, func(o *lexical.Document) string { return o.Title })
	d.Description = varied(d.Description, func(o *lexical.Document) string { return o.Description })
	d.Parameters = slices.Clone(d.Parameters)
	for i := range d.Parameters {
		if o := other(); len(o.Parameters) > 0 && random.IntN(4) > 0 {
			d.Parameters[i] = o.Parameters[random.IntN(len(o.Parameters))]
		}
	}
	return d
}
