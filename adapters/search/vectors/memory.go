package vectors

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/viterin/vek/vek32"
)

// blockRows is how many tools are in one block. A change copies the descriptions of a block, and a worker takes one at a time.
const blockRows = 1024

// maxWorkers bounds the goroutines of one search: more would wait for the memory.
const maxWorkers = 4

// Memory is a Store in the process, which compares a query with every vector. A search reads a snapshot: it waits for no change, and no change
// waits for it. 100,000 vectors of 384 dimensions take 150 MB.
type Memory struct {
	space Space
	now   atomic.Pointer[snapshot]

	mu     sync.Mutex // of the changes
	places map[key]place
	gone   int // rows in the blocks that are no longer in places
}

type key struct{ server, tool string }

type place struct{ block, row int }

// snapshot is the content at one time. It does not change.
type snapshot struct {
	blocks  []*block
	servers map[string]int32 // the number of each server
}

// block holds rows, which are added until it is full. What a snapshot has of a block does not change: vectors are only written behind it.
type block struct {
	vectors []float32 // of blockRows rows
	rows    []row
}

// row describes a tool.
type row struct {
	server     string
	tool       string
	sum        [32]byte
	categories []string
	number     int32 // of the server
	gone       bool
}

// NewMemory returns an empty store.
func NewMemory(space Space) (*Memory, error) {
	if err := space.Check(); err != nil {
		return nil, err
	}
	m := &Memory{space: space, places: map[key]place{}}
	m.now.Store(&snapshot{})
	return m, nil
}

// Close releases the vectors.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.places, m.gone = map[key]place{}, 0
	m.now.Store(&snapshot{})
	return nil
}

// Sums implements Writer.
func (m *Memory) Sums(context.Context) (Sums, error) {
	all := Sums{}
	for _, b := range m.now.Load().blocks {
		for i := range b.rows {
			r := &b.rows[i]
			if r.gone {
				continue
			}
			all.Add(r.server, r.tool, Stored{r.sum, r.categories})
		}
	}
	return all, nil
}

// Put implements Writer.
func (m *Memory) Put(_ context.Context, points []Point) error {
	if err := m.space.CheckPoints(points); err != nil {
		return err
	}
	m.change(func(c *change) {
		for i := range points {
			p := &points[i]
			c.remove(key{p.Server, p.Tool})
			c.add(row{server: p.Server, tool: p.Tool, sum: p.Sum, categories: slices.Clone(p.Categories)}, p.Vector)
		}
	})
	return nil
}

// SetCategories implements Writer.
func (m *Memory) SetCategories(_ context.Context, server, tool string, categories []string) error {
	m.change(func(c *change) {
		if at, there := m.places[key{server, tool}]; there {
			c.edit(at).categories = slices.Clone(categories)
		}
	})
	return nil
}

// RemoveTools implements Remover.
func (m *Memory) RemoveTools(_ context.Context, server string, tools []string) error {
	m.change(func(c *change) {
		for _, tool := range tools {
			c.remove(key{server, tool})
		}
	})
	return nil
}

// RemoveServer implements Remover.
func (m *Memory) RemoveServer(_ context.Context, server string) error {
	m.change(func(c *change) {
		for k := range m.places {
			if k.server == server {
				c.remove(k)
			}
		}
	})
	return nil
}

// change is the next snapshot while it is made.
type change struct {
	m      *Memory
	next   snapshot
	copied map[int]bool // blocks whose rows are not those of the last snapshot
	named  bool         // so is next.servers
}

// change calls f, whose changes count at once.
func (m *Memory) change(f func(*change)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.now.Load()
	c := &change{m: m, next: snapshot{slices.Clone(last.blocks), last.servers}, copied: map[int]bool{}}
	f(c)
	if m.gone > blockRows && m.gone > len(m.places) {
		c = m.compact(c)
	}
	m.now.Store(&c.next)
}

// own makes the rows of a block those of this change.
func (c *change) own(i int) *block {
	if !c.copied[i] {
		b := c.next.blocks[i]
		c.next.blocks[i] = &block{b.vectors, append(make([]row, 0, min(blockRows, 2*len(b.rows)+1)), b.rows...)}
		c.copied[i] = true
	}
	return c.next.blocks[i]
}

func (c *change) edit(at place) *row { return &c.own(at.block).rows[at.row] }

// remove marks a row.
func (c *change) remove(k key) {
	if at, there := c.m.places[k]; there {
		*c.edit(at) = row{gone: true}
		delete(c.m.places, k)
		c.m.gone++
	}
}

// add appends a row.
func (c *change) add(r row, vector []float32) {
	last := len(c.next.blocks) - 1
	if last < 0 || len(c.next.blocks[last].rows) == blockRows {
		last++
		c.next.blocks = append(c.next.blocks, &block{vectors: make([]float32, blockRows*c.m.space.Dimension)})
		c.copied[last] = true
	}
	r.number = c.number(r.server)
	b := c.own(last)
	copy(b.vectors[len(b.rows)*c.m.space.Dimension:], vector)
	c.m.places[key{r.server, r.tool}] = place{last, len(b.rows)}
	b.rows = append(b.rows, r)
}

// number returns the number of a server.
func (c *change) number(server string) int32 {
	if n, there := c.next.servers[server]; there {
		return n
	}
	if !c.named {
		named := make(map[string]int32, len(c.next.servers)+1)
		for name, n := range c.next.servers {
			named[name] = n
		}
		c.next.servers, c.named = named, true
	}
	n := int32(len(c.next.servers)) //nolint:gosec // no process has as many servers
	c.next.servers[server] = n
	return n
}

// compact returns the change of the same content without the rows that have gone. The caller holds mu.
func (m *Memory) compact(of *change) *change {
	m.places, m.gone = map[key]place{}, 0
	c := &change{m: m, copied: map[int]bool{}}
	for _, b := range of.next.blocks {
		for i, r := range b.rows {
			if !r.gone {
				c.add(r, b.vectors[i*m.space.Dimension:][:m.space.Dimension])
			}
		}
	}
	return c
}

// Search implements Searcher.
func (m *Memory) Search(ctx context.Context, vector []float32, filter Filter, k int) ([]Hit, error) {
	if err := m.space.CheckVector(vector); err != nil {
		return nil, err
	}
	s := m.now.Load()
	k = min(k, MaxHits)
	if k < 1 || len(s.blocks) == 0 {
		return nil, ctx.Err()
	}
	q := query{vector, s.filter(filter), k}
	workers := min(maxWorkers, runtime.GOMAXPROCS(0), len(s.blocks)/2+1)
	found := make([][]Hit, workers)
	var next atomic.Int64
	work := func(i int) {
		for at := next.Add(1) - 1; at < int64(len(s.blocks)) && ctx.Err() == nil; at = next.Add(1) - 1 {
			found[i] = q.search(s.blocks[at], found[i])
		}
	}
	var all sync.WaitGroup
	for i := 1; i < workers; i++ {
		all.Go(func() { work(i) })
	}
	work(0)
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	hits := slices.Concat(found...)
	slices.SortFunc(hits, Compare)
	return hits[:min(k, len(hits))], nil
}

// Mean implements Searcher.
func (m *Memory) Mean(ctx context.Context, filter Filter) ([]float32, error) {
	s := m.now.Load()
	f := s.filter(filter)
	sum := make([]float64, m.space.Dimension)
	for _, b := range s.blocks {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for i := range b.rows {
			if f.lets(&b.rows[i]) {
				for j, x := range b.vectors[i*len(sum):][:len(sum)] {
					sum[j] += float64(x)
				}
			}
		}
	}
	return Direction(sum), ctx.Err()
}

// Compare orders hits: by score, then by name.
func Compare(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool))
}

// query is what is searched for.
type query struct {
	vector []float32
	filter
	k int
}

// filter is a Filter for the rows of a snapshot.
type filter struct {
	servers  []bool // by number; nil: all
	category string
}

func (s *snapshot) filter(of Filter) filter {
	f := filter{category: of.Category}
	if of.Servers != nil {
		f.servers = make([]bool, len(s.servers))
		for _, name := range of.Servers {
			if n, there := s.servers[name]; there {
				f.servers[n] = true
			}
		}
	}
	return f
}

// lets reports whether a row is there, and passes.
func (f *filter) lets(r *row) bool {
	return !r.gone && (f.servers == nil || f.servers[r.number]) && (f.category == "" || slices.Contains(r.categories, f.category))
}

// search adds the best of a block to the best so far, which are in order.
func (q *query) search(b *block, best []Hit) []Hit {
	size := len(q.vector)
	for i := range b.rows {
		r := &b.rows[i]
		if !q.lets(r) {
			continue
		}
		score := vek32.Dot(q.vector, b.vectors[i*size:][:size])
		if len(best) == q.k && score < best[q.k-1].Score {
			continue
		}
		hit := Hit{r.server, r.tool, score}
		at, _ := slices.BinarySearchFunc(best, hit, Compare)
		if at == q.k {
			continue
		}
		if len(best) == q.k {
			best = best[:q.k-1]
		}
		best = slices.Insert(best, at, hit)
	}
	return best
}

var _ Store = (*Memory)(nil)
