package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"

	"dragoman/adapters/search"
	"dragoman/adapters/search/embedding"
	"dragoman/adapters/search/lexical"
	"dragoman/adapters/search/vectors"
)

// embedded bounds the tools of a set whose vectors a model makes. Further ones have vectors of these that are perturbed, since a hundred
// thousand take hours.
const embedded = 5000

// perturbed is the length of what is added to a vector of length one that is perturbed.
const perturbed = 0.5

// near is how many tools are asked for by meaning and by words before both are joined.
const near = 50

// Meant are the ways of searching with a model, in the place of those that Ways only names: by meaning alone, and joined with words. Times of
// queries are without those of the model, since each query's vector is kept.
func Meant(ctx context.Context, model embedding.Model) []Way {
	m := &meant{ctx: ctx, model: model, kept: map[[sha256.Size]byte][]float32{}}
	return []Way{Lexical(), {"semantic", m.semantic, m.failed}, {"fused", m.fused, m.failed}}
}

// meant makes vectors, each once.
type meant struct {
	ctx   context.Context //nolint:containedctx // that of the one run that it is made for
	model embedding.Model
	kept  map[[sha256.Size]byte][]float32
	err   error // of a query
}

func (m *meant) failed() error { return m.err }

// vectors returns those of some texts.
func (m *meant) vectors(texts []string) ([][]float32, error) {
	all := make([][]float32, len(texts))
	var missing []string
	for _, text := range texts {
		if m.kept[sha256.Sum256([]byte(text))] == nil {
			missing = append(missing, text)
		}
	}
	made, err := m.model.Embed(m.ctx, missing)
	if err != nil {
		return nil, err
	}
	for i, text := range missing {
		m.kept[sha256.Sum256([]byte(text))] = made[i]
	}
	for i, text := range texts {
		all[i] = m.kept[sha256.Sum256([]byte(text))]
	}
	return all, nil
}

// store returns a store with the vectors of tools.
func (m *meant) store(tools []lexical.Document) (*vectors.Memory, error) {
	texts := make([]string, min(len(tools), embedded))
	for i := range texts {
		texts[i] = tools[i].Text()
	}
	made, err := m.vectors(texts)
	if err != nil {
		return nil, err
	}
	if len(made) == 0 {
		return nil, errors.New("the set has no tools")
	}
	store, err := vectors.NewMemory(vectors.Space{Model: m.model.Name(), Dimension: len(made[0])})
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(uint64(len(tools)), 1)) //nolint:gosec // repeatable
	var points []vectors.Point
	for i := range tools {
		v := made[i%len(made)]
		if i >= len(made) {
			v = other(random, v)
		}
		points = append(points, vectors.Point{Server: tools[i].Server, Tool: tools[i].Name, Vector: v})
		if len(points) == vectors.MaxBatch || i == len(tools)-1 {
			if err := store.Put(m.ctx, points); err != nil {
				return nil, err
			}
			points = points[:0]
		}
	}
	return store, nil
}

// other returns a vector near another one.
func other(random *rand.Rand, v []float32) []float32 {
	noise := make([]float32, len(v))
	for i := range noise {
		noise[i] = float32(random.NormFloat64())
	}
	if embedding.Normalise(noise) != nil {
		return v
	}
	for i := range noise {
		noise[i] = v[i] + perturbed*noise[i]
	}
	if embedding.Normalise(noise) != nil {
		return v
	}
	return noise
}

func (m *meant) semantic(tools []lexical.Document) (Searcher, error) {
	find, err := m.finder(tools)
	if err != nil {
		return nil, err
	}
	return func(query string, limit int) []lexical.Hit { return search.Fuse(nil, find(query), limit) }, nil
}

func (m *meant) fused(tools []lexical.Document) (Searcher, error) {
	find, err := m.finder(tools)
	if err != nil {
		return nil, err
	}
	words := lexical.New()
	words.Put(tools...)
	return func(query string, limit int) []lexical.Hit {
		return search.Fuse(words.Search(query, near, nil), find(query), limit)
	}, nil
}

// finder returns what finds tools by meaning. It finds nothing if the model fails, which failed tells.
func (m *meant) finder(tools []lexical.Document) (func(query string) []vectors.Hit, error) {
	store, err := m.store(tools)
	if err != nil {
		return nil, err
	}
	return func(query string) []vectors.Hit {
		all, err := m.vectors(append([]string{query}, search.Sentences(query)...))
		lists := make([][]vectors.Hit, len(all))
		for i, v := range all {
			if err == nil {
				lists[i], err = store.Search(m.ctx, v, vectors.Filter{}, near)
			}
		}
		if err != nil {
			m.err = cmp.Or(m.err, err)
			return nil
		}
		return search.Join(lists)
	}, nil
}
