package search

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"dragoman/adapters/search/embedding"
	"dragoman/adapters/search/lexical"
	"dragoman/adapters/search/vectors"
)

// Kind is a category of tools.
type Kind = lexical.Category

// kinds holds the categories that there are, and where they are among the vectors.
type kinds struct {
	of func() []Kind // nil: there are none

	mu   sync.Mutex
	all  []Kind
	near []nearKind // empty: there are no vectors yet
}

// nearKind is a category with its vector, which is the mean of its tools' vectors. One without tools has the vector of its text.
type nearKind struct {
	name   string
	of     [sha256.Size]byte // what the vector was made from
	vector []float32
}

// read reads the categories, and tells an index of them if they are others than before. Only Engine.follow calls it.
func (k *kinds) read(index *lexical.Index) {
	if k.of == nil {
		return
	}
	all := k.of()
	k.mu.Lock()
	same := slices.Equal(all, k.all)
	k.all = all
	k.mu.Unlock()
	if !same {
		index.SetCategories(all)
	}
}

// nearest returns the categories whose vectors are nearest to any of some vectors, the nearest first.
func (k *kinds) nearest(to [][]float32, limit int) []string {
	k.mu.Lock()
	near, all := k.near, k.all
	k.mu.Unlock()
	type scored struct {
		name  string
		score float32
	}
	var found []scored
	for _, one := range near {
		if !slices.ContainsFunc(all, func(is Kind) bool { return is.Name == one.name }) {
			continue // it was removed, and the vectors have not followed yet
		}
		best := float32(-1)
		for _, v := range to {
			best = max(best, dot(v, one.vector))
		}
		found = append(found, scored{one.name, best})
	}
	slices.SortFunc(found, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name)) })
	var names []string
	for _, one := range found[:max(0, min(limit, len(found)))] {
		names = append(names, one.name)
	}
	return names
}

func dot(a, b []float32) (sum float32) {
	for i := range min(len(a), len(b)) {
		sum += a[i] * b[i]
	}
	return sum
}

// follow makes the vectors of the categories follow their tools, whose vectors are stored: those whose tools, or whose text, are others than
// before. Only meaning.follow calls it.
func (k *kinds) follow(ctx context.Context, model embedding.Model, store vectors.Searcher, tools map[place]doc) error {
	k.mu.Lock()
	all, before := k.all, k.near
	k.mu.Unlock()
	if len(all) == 0 && len(before) == 0 {
		return nil
	}
	sums, servers := sumsOfKinds(tools)
	now := make([]nearKind, 0, len(all))
	var without []Kind // tools
	for _, one := range all {
		of, has := sums[one.Name]
		if !has {
			of = sha256.Sum256([]byte(one.Text))
		}
		if i := slices.IndexFunc(before, func(b nearKind) bool { return b.name == one.Name && b.of == of }); i >= 0 {
			now = append(now, before[i])
			continue
		}
		var vector []float32
		if has {
			var err error
			if vector, err = store.Mean(ctx, vectors.Filter{Servers: servers, Category: one.Name}); err != nil {
				return fmt.Errorf("reading the vectors of a category: %w", err)
			}
		}
		if vector == nil { // also where a store does not take the names of the tools
			without = append(without, one)
		}
		now = append(now, nearKind{one.Name, of, vector})
	}
	if err := described(ctx, model, without, now); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.near = now
	return nil
}

// described gives categories the vectors of their texts.
func described(ctx context.Context, model embedding.Model, some []Kind, near []nearKind) error {
	for part := range slices.Chunk(some, batch) {
		texts := make([]string, len(part))
		for i, one := range part {
			texts[i] = one.Text
		}
		made, err := model.Embed(ctx, texts)
		if err != nil {
			return err
		}
		for i, one := range part {
			at := slices.IndexFunc(near, func(n nearKind) bool { return n.name == one.Name })
			near[at].vector = made[i]
		}
	}
	return nil
}

// sumsOfKinds returns a sum over the tools of each category that has any, which is another one when other tools have it, or when their texts
// are others; and the servers of all tools.
func sumsOfKinds(tools map[place]doc) (sums map[string][sha256.Size]byte, servers []string) {
	ones := map[string][][sha256.Size]byte{}
	servers = []string{}
	seen := map[string]bool{}
	for at, d := range tools {
		if !seen[at.server] {
			seen[at.server] = true
			servers = append(servers, at.server)
		}
		if len(d.categories) == 0 {
			continue
		}
		text := binary.AppendUvarint(nil, uint64(len(at.server)))
		one := sha256.Sum256(append(append(append(text, at.server...), at.tool...), d.sum[:]...))
		for _, name := range d.categories {
			ones[name] = append(ones[name], one)
		}
	}
	sums = make(map[string][sha256.Size]byte, len(ones))
	for name, all := range ones {
		slices.SortFunc(all, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
		h := sha256.New()
		for _, one := range all {
			h.Write(one[:])
		}
		sums[name] = [sha256.Size]byte(h.Sum(nil))
	}
	return sums, servers
}

// NearCategories returns the names of at most limit categories that a query may be about, the nearest first: by meaning, or by the words of
// their names, descriptions and keywords if there is no model, or if it fails.
func (e *Engine) NearCategories(ctx context.Context, query string, limit int) []string {
	if e.kinds.of == nil || limit < 1 {
		return nil
	}
	e.Start()
	e.catchUp(ctx)
	if e.means != nil {
		names, err := e.means.nearKinds(ctx, query, limit)
		if err == nil && len(names) > 0 {
			return names
		}
		e.broke(ctx, err)
	}
	return e.index.Categories(query, limit)
}
