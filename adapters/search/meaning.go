package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/search/embedding"
	"dragoman/adapters/search/lexical"
	"dragoman/adapters/search/vectors"
)

// Meaning is what searching by meaning needs besides words.
type Meaning struct {
	Model embedding.Model
	// Open opens the store of the vectors of a space. The Engine closes it if it is an io.Closer.
	Open func(ctx context.Context, space vectors.Space) (vectors.Store, error)
	// Shared means that others have tools of their own in the store: those of servers that the catalogue never had are left alone.
	Shared bool
	// Patience is how long a search waits for the vector of its query, and for the store; after that it goes by words.
	Patience time.Duration
	// Failed is told when the model or the store fails, once until it works again, which is told with nil.
	Failed func(err error)
}

// State says how much of the catalogue is searched by meaning.
type State struct {
	On               bool // there is a model
	Works            bool // it has not failed since it was last used
	Tools            int  // with a vector, that is of their present text
	Searches, Failed int64
}

// Bounds of what is done at a time.
const (
	batch       = 32          // tools that are embedded at once
	queries     = 1000        // vectors of queries, and of their sentences, that are kept
	pauseFirst  = time.Second // after the first failure of the model or the store
	pauseMost   = time.Minute // after any
	leastNear   = 50          // tools that the store is asked for, at least
	lexicalPart = 0.2         // of the best score by words, beside the cosine
	dimensionOf = "how many dimensions"
)

// meaning keeps the vectors of the tools.
type meaning struct {
	opt     Meaning
	texts   func(before map[place]doc) map[place]doc // the present tools
	kinds   *kinds
	store   atomic.Pointer[opened]
	queries *lru.Cache[[sha256.Size]byte, []float32]
	wake    chan struct{} // holds one

	had              map[string]bool // servers of the last follow; owned by run
	last             map[place]doc   // tools of the last follow; owned by run
	failing          atomic.Bool
	tools            atomic.Int64
	searches, failed atomic.Int64
	mu               sync.Mutex // of what is told
}

type opened struct{ vectors.Store }

// place is where a tool is.
type place struct{ server, tool string }

// doc is a tool from whose text its vector is made.
type doc struct {
	item       *catalogue.Item
	sum        [sha256.Size]byte // of the text
	categories []string
}

// text returns the text.
func (d *doc) text() string {
	parsed := lexical.Parse("", d.item.Key, d.item.Raw)
	return parsed.Text()
}

func newMeaning(opt Meaning, texts func(before map[place]doc) map[place]doc, kinds *kinds) *meaning {
	m := &meaning{opt: opt, texts: texts, kinds: kinds, wake: make(chan struct{}, 1)}
	m.queries, _ = lru.New[[sha256.Size]byte, []float32](queries) // it fails for a size below one only
	return m
}

// changed makes the vectors follow the tools.
func (m *meaning) changed() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run makes vectors of what has changed until ctx ends. After a failure it tries again, later each time. It is owned by the Engine.
func (m *meaning) run(ctx context.Context) {
	pause := pauseFirst
	for {
		err := m.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		m.tell(err)
		if err == nil {
			pause = pauseFirst
			select {
			case <-m.wake:
			case <-ctx.Done():
			}
		}
		if m.failing.Load() { // of this, or of a search: nothing but time brings the next attempt
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, pauseMost)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if s := m.store.Load(); s != nil {
		if c, ok := s.Store.(interface{ Close() error }); ok {
			_ = c.Close()
		}
	}
}

// tell tells of a failure, and of the end of failures, once.
func (m *meaning) tell(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was := m.failing.Swap(err != nil); was != (err != nil) && m.opt.Failed != nil {
		m.opt.Failed(err)
	}
}

// follow makes the store have the vectors of the present tools with their categories, and no others. What was embedded before is not again.
// Then the vectors of categories follow.
func (m *meaning) follow(ctx context.Context) error {
	store, err := m.open(ctx)
	if err != nil {
		return err
	}
	if m.failing.Load() { // there may be nothing to embed that would show that the model works again
		if _, err := m.opt.Model.Embed(ctx, []string{dimensionOf}); err != nil {
			return err
		}
	}
	stored, err := store.Sums(ctx)
	if err != nil {
		return fmt.Errorf("reading the store of vectors: %w", err)
	}
	wanted := m.texts(m.last)
	m.last = wanted
	if err := m.remove(ctx, store, stored, wanted); err != nil {
		return fmt.Errorf("removing vectors: %w", err)
	}
	var missing []place
	for at, d := range wanted {
		was, has := stored[at.server][at.tool]
		if !has || was.Sum != d.sum {
			missing = append(missing, at)
		} else if !slices.Equal(was.Categories, d.categories) {
			if err := store.SetCategories(ctx, at.server, at.tool, d.categories); err != nil {
				return fmt.Errorf("storing categories: %w", err)
			}
		}
	}
	slices.SortFunc(missing, comparePlaces)
	m.tools.Store(int64(len(wanted) - len(missing)))
	for part := range slices.Chunk(missing, batch) {
		if err := m.put(ctx, store, part, wanted); err != nil {
			return err
		}
		m.tools.Add(int64(len(part)))
	}
	return m.kinds.follow(ctx, m.opt.Model, store, wanted)
}

// open opens the store. The dimension of its vectors is that of a first one.
func (m *meaning) open(ctx context.Context) (vectors.Store, error) {
	if s := m.store.Load(); s != nil {
		return s.Store, nil
	}
	first, err := m.opt.Model.Embed(ctx, []string{dimensionOf})
	if err != nil {
		return nil, err
	}
	store, err := m.opt.Open(ctx, vectors.Space{Model: m.opt.Model.Name(), Dimension: len(first[0])})
	if err != nil {
		return nil, fmt.Errorf("opening the store of vectors: %w", err)
	}
	m.store.Store(&opened{store})
	return store, nil
}

// remove removes the vectors of tools that there are no longer.
func (m *meaning) remove(ctx context.Context, store vectors.Remover, stored vectors.Sums, wanted map[place]doc) error {
	servers := map[string]bool{}
	for at := range wanted {
		servers[at.server] = true
	}
	for _, server := range slices.Sorted(maps.Keys(stored)) {
		if !servers[server] && m.opt.Shared && !m.had[server] {
			continue
		}
		if !servers[server] {
			if err := store.RemoveServer(ctx, server); err != nil {
				return err
			}
			continue
		}
		var gone []string
		for tool := range stored[server] {
			if _, stays := wanted[place{server, tool}]; !stays {
				gone = append(gone, tool)
			}
		}
		if len(gone) > 0 {
			if err := store.RemoveTools(ctx, server, gone); err != nil {
				return err
			}
		}
	}
	m.had = servers
	return nil
}

// put stores the vectors of some tools.
func (m *meaning) put(ctx context.Context, store vectors.Writer, part []place, wanted map[place]doc) error {
	texts := make([]string, len(part))
	for i, at := range part {
		d := wanted[at]
		texts[i] = d.text()
	}
	made, err := m.opt.Model.Embed(ctx, texts)
	if err != nil {
		return err
	}
	points := make([]vectors.Point, len(part))
	for i, at := range part {
		points[i] = vectors.Point{Server: at.server, Tool: at.tool, Sum: wanted[at].sum, Categories: wanted[at].categories, Vector: made[i]}
	}
	if err := store.Put(ctx, points); err != nil {
		return fmt.Errorf("storing vectors: %w", err)
	}
	return nil
}

// errNotYet means that the vectors are not there yet, or that the model or the store is known to fail: a search does not wait for them.
var errNotYet = errors.New("search: no vectors yet")

// near returns the tools nearest in meaning to a query, of the given servers, that are allowed.
func (m *meaning) near(ctx context.Context, q metatools.Query, servers []string, allowed func(server, name string) bool) ([]vectors.Hit, error) {
	s := m.store.Load()
	if s == nil || m.failing.Load() {
		return nil, errNotYet
	}
	ctx, cancel := context.WithTimeout(ctx, m.opt.Patience)
	defer cancel()
	all, err := m.vectorsOf(ctx, q.Text)
	if err != nil {
		return nil, err
	}
	lists := make([][]vectors.Hit, len(all))
	for i, v := range all {
		if lists[i], err = nearest(ctx, s, v, vectors.Filter{Servers: servers, Category: q.Category}, q.Limit, allowed); err != nil {
			return nil, err
		}
	}
	return Join(lists), nil
}

// nearest returns at least limit of the tools nearest to a vector that are allowed, if there are as many.
func nearest(ctx context.Context, s vectors.Searcher, vector []float32, filter vectors.Filter, limit int, allowed func(server, name string) bool) ([]vectors.Hit, error) {
	for k := max(leastNear, 4*limit); ; k *= 4 {
		k = min(k, vectors.MaxHits)
		all, err := s.Search(ctx, vector, filter, k)
		if err != nil {
			return nil, err
		}
		kept := slices.DeleteFunc(slices.Clone(all), func(h vectors.Hit) bool { return !allowed(h.Server, h.Tool) })
		if len(kept) >= limit || len(all) < k || k == vectors.MaxHits {
			return kept, nil
		}
	}
}

// nearKinds returns the categories nearest in meaning to a query.
func (m *meaning) nearKinds(ctx context.Context, query string, limit int) ([]string, error) {
	if m.store.Load() == nil || m.failing.Load() {
		return nil, errNotYet
	}
	ctx, cancel := context.WithTimeout(ctx, m.opt.Patience)
	defer cancel()
	all, err := m.vectorsOf(ctx, query)
	if err != nil {
		return nil, err
	}
	return m.kinds.nearest(all, limit), nil
}

// vectorsOf returns the vector of a query, and those of its sentences. The model makes those that are not kept at once.
func (m *meaning) vectorsOf(ctx context.Context, query string) ([][]float32, error) {
	texts := append([]string{query}, Sentences(query)...)
	all := make([][]float32, len(texts))
	var missing []string
	var places []int
	for i, text := range texts {
		v, kept := m.queries.Get(sha256.Sum256([]byte(text)))
		if all[i] = v; !kept {
			missing, places = append(missing, text), append(places, i)
		}
	}
	if len(missing) == 0 {
		return all, nil
	}
	made, err := m.opt.Model.Embed(ctx, missing)
	if err != nil {
		return nil, err
	}
	for i, at := range places {
		m.queries.Add(sha256.Sum256([]byte(missing[i])), made[i])
		all[at] = made[i]
	}
	return all, nil
}

// Fuse joins what was found by words and by meaning: the score is the cosine, and a part of how near the score by words is to the best one.
// A tool that was found by words only has the lowest cosine that was found. It returns at most limit tools, the best first; those of one score
// by server and name.
func Fuse(words []lexical.Hit, near []vectors.Hit, limit int) []lexical.Hit {
	if len(near) == 0 {
		return words[:min(len(words), limit)]
	}
	best := 0.0
	for _, w := range words {
		best = max(best, w.Score)
	}
	lowest := float64(near[len(near)-1].Score)
	at := map[place]int{}
	var all []lexical.Hit
	for _, n := range near {
		at[place{n.Server, n.Tool}] = len(all)
		all = append(all, lexical.Hit{Server: n.Server, Name: n.Tool, Score: float64(n.Score), Fields: []string{"meaning"}})
	}
	for _, w := range words {
		i, known := at[place{w.Server, w.Name}]
		if !known {
			i = len(all)
			all = append(all, lexical.Hit{Server: w.Server, Name: w.Name, Score: lowest})
		}
		all[i].Score += lexicalPart * w.Score / best
		all[i].Fields = append(all[i].Fields, w.Fields...)
	}
	slices.SortStableFunc(all, func(a, b lexical.Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return comparePlaces(place{a.Server, a.Name}, place{b.Server, b.Name})
	})
	return all[:min(len(all), limit)]
}

// serversOf returns the servers whose vectors a search may find: those that do not show the caller lists of its own.
func serversOf(snap *catalogue.Snapshot, q *metatools.Query) []string {
	names := []string{}
	for _, s := range snap.Servers {
		own := slices.ContainsFunc(q.Own, func(o *catalogue.Server) bool { return o.Name == s.Name })
		if !own && (q.Server == "" || q.Server == s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.server, b.server), cmp.Compare(a.tool, b.tool))
}
