package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/search/vectors"
)

// sorter has categories, and those of tools.
type sorter struct {
	mu    sync.Mutex
	of    map[string][]string // by SERVER.TOOL
	kinds []Kind
}

func (s *sorter) categories(server, name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[server+"."+name]
}

func (s *sorter) all() []Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kinds
}

func (s *sorter) set(of map[string][]string, kinds ...Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of, s.kinds = of, kinds
}

var (
	garden  = Kind{Name: "garden", Text: "garden. Lawns and plants. lawn, plant"}
	kitchen = Kind{Name: "kitchen", Text: "kitchen. Cooking meals. stove, oven"}
)

// storeOfKinds counts what is asked of a store.
type storeOfKinds struct {
	*vectors.Memory
	mu    sync.Mutex
	sets  []string // SERVER.TOOL whose categories were set
	means []string // categories whose mean was read
	fails error    // of SetCategories
}

func (s *storeOfKinds) SetCategories(ctx context.Context, server, tool string, categories []string) error {
	s.mu.Lock()
	s.sets = append(s.sets, server+"."+tool)
	err := s.fails
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Memory.SetCategories(ctx, server, tool, categories)
}

func (s *storeOfKinds) Mean(ctx context.Context, f vectors.Filter) ([]float32, error) {
	s.mu.Lock()
	s.means = append(s.means, f.Category)
	s.mu.Unlock()
	return s.Memory.Mean(ctx, f)
}

// took returns what was asked for since the last time, sorted.
func (s *storeOfKinds) took() (sets, means []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.sets, s.means = nil, nil }()
	slices.Sort(s.sets)
	slices.Sort(s.means)
	return s.sets, s.means
}

func (s *storeOfKinds) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

// sorted is an Engine with a model and categories, within a bubble.
type sorted struct {
	*Engine
	*catalogue.Catalogue
	sorter sorter
	model  *dictionary
	store  *storeOfKinds
}

func sortedBubble(t *testing.T, test func(t *testing.T, x *sorted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := catalogue.Open(t.Context(), catalogue.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "b": {Transport: "HTTP"}})
		x := &sorted{Catalogue: c, model: &dictionary{same: map[string]string{"shorten": "mow", "grass": "lawn"}}}
		x.sorter.set(map[string][]string{"a.mow": {"garden"}}, garden, kitchen)
		x.open()
		defer func() { x.Engine.Close() }()
		set(c, "a", item("mow", "Mows the lawn"), item("sow", "Sows seeds"))
		set(c, "b", item("boil", "Boils water"))
		x.Start()
		synctest.Wait()
		test(t, x)
	})
}

// open makes the Engine, over the store that there is.
func (x *sorted) open() {
	x.Engine = New(Options{Catalogue: x.Catalogue, Categories: x.sorter.categories, Kinds: x.sorter.all, Meaning: &Meaning{Model: x.model, Patience: time.Second,
		Open: func(_ context.Context, space vectors.Space) (vectors.Store, error) {
			if x.store == nil {
				memory, err := vectors.NewMemory(space)
				x.store = &storeOfKinds{Memory: memory}
				return x.store, err
			}
			return unclosed{x.store}, nil
		}}})
}

// unclosed is a store that stays when an Engine is closed.
type unclosed struct{ vectors.Store }

// change changes categories, and waits until everything has followed.
func (x *sorted) change(of map[string][]string, kinds ...Kind) {
	x.sorter.set(of, kinds...)
	x.CategoriesChanged()
	time.Sleep(settle) // in a bubble: no real time passes
	synctest.Wait()
}

// vectorOf returns the vector of a category.
func (x *sorted) vectorOf(t *testing.T, name string) []float32 {
	t.Helper()
	x.kinds.mu.Lock()
	defer x.kinds.mu.Unlock()
	for _, one := range x.kinds.near {
		if one.name == name {
			return one.vector
		}
	}
	t.Errorf("%s has no vector", name)
	return nil
}

// like reports whether a vector is the direction of the sum of those of some texts.
func (x *sorted) like(t *testing.T, v []float32, texts ...string) {
	t.Helper()
	all, err := x.model.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	sum := make([]float64, len(all[0]))
	for _, one := range all {
		for i := range one {
			sum[i] += float64(one[i])
		}
	}
	if cosine := dot(v, vectors.Direction(sum)); math.Abs(float64(cosine)-1) > 1e-5 {
		t.Errorf("the vector is not that of %q: %v", texts, cosine)
	}
	x.model.took()
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

const (
	mowText  = "mow. Mows the lawn"
	sowText  = "sow. Sows seeds"
	boilText = "boil. Boils water"
)

// The categories of stored vectors follow those of tools, and the vectors of categories follow their tools: only those that have changed, and
// no tool is embedded again (seed 004, BR-004.7).
func TestCategoriesFollow(t *testing.T) {
	sortedBubble(t, func(t *testing.T, x *sorted) {
		sets, means := x.store.took()
		same(t, "set at first", sets)
		same(t, "averaged at first", means, "garden")
		x.like(t, x.vectorOf(t, "garden"), mowText)
		x.like(t, x.vectorOf(t, "kitchen"), kitchen.Text)

		x.change(map[string][]string{"a.mow": {"garden"}, "a.sow": {"garden"}, "b.boil": {"kitchen", "garden"}}, garden, kitchen)
		sets, means = x.store.took()
		same(t, "set", sets, "a.sow", "b.boil")
		same(t, "averaged", means, "garden", "kitchen")
		same(t, "embedded", x.model.took())
		x.like(t, x.vectorOf(t, "garden"), mowText, sowText, boilText)
		x.like(t, x.vectorOf(t, "kitchen"), boilText)

		x.change(map[string][]string{"a.mow": {"garden"}, "a.sow": {"garden"}, "b.boil": {"garden", "kitchen"}}, garden, kitchen)
		sets, means = x.store.took()
		same(t, "set in another order", sets, "b.boil")
		same(t, "averaged though the same tools have it", means)

		x.change(map[string][]string{"a.mow": {"garden"}, "a.sow": {"garden"}}, garden, kitchen)
		x.like(t, x.vectorOf(t, "garden"), mowText, sowText)
		x.like(t, x.vectorOf(t, "kitchen"), kitchen.Text)
		x.store.took()

		set(x.Catalogue, "a", item("mow", "Mows hay"), item("sow", "Sows seeds"))
		synctest.Wait()
		sets, means = x.store.took()
		same(t, "set with a vector", sets)
		same(t, "averaged after a change of a tool", means, "garden")
		x.like(t, x.vectorOf(t, "garden"), "mow. Mows hay", sowText)
	})
}

// The vectors of the categories that a server's tools had are made anew when it is removed; one that has no tools left has that of its
// description (seed 004, BR-008).
func TestCategoriesOfAServerThatGoes(t *testing.T) {
	sortedBubble(t, func(t *testing.T, x *sorted) {
		x.change(map[string][]string{"a.mow": {"garden"}, "b.boil": {"kitchen", "garden"}}, garden, kitchen)
		x.store.took()
		x.model.took()
		x.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}})
		synctest.Wait()
		_, means := x.store.took()
		same(t, "averaged", means, "garden")
		same(t, "embedded", x.model.took(), kitchen.Text)
		x.like(t, x.vectorOf(t, "garden"), mowText)
		x.like(t, x.vectorOf(t, "kitchen"), kitchen.Text)
	})
}

// After a restart nothing is embedded again but the texts of categories without tools, and only categories that differ are set.
func TestCategoriesAfterARestart(t *testing.T) {
	sortedBubble(t, func(t *testing.T, x *sorted) {
		x.sorter.set(map[string][]string{"a.mow": {"garden"}, "b.boil": {"garden"}}, garden, kitchen)
		x.store.took()
		x.model.took()
		before := x.Engine
		x.open()
		x.Start()
		synctest.Wait()
		sets, means := x.store.took()
		same(t, "set", sets, "b.boil")
		same(t, "averaged", means, "garden")
		same(t, "embedded", x.model.took(), dimensionOf, kitchen.Text)
		x.like(t, x.vectorOf(t, "garden"), mowText, boilText)
		before.Close()
	})
}

// In a store that others share, the vectors of categories are those of our tools.
func TestCategoriesOfASharedStore(t *testing.T) {
	sortedBubble(t, func(t *testing.T, x *sorted) {
		v := make([]float32, 64)
		v[1] = 1
		if err := x.store.Put(t.Context(), []vectors.Point{{Server: "theirs", Tool: "x", Categories: []string{"garden", "kitchen"}, Vector: v}}); err != nil {
			t.Fatal(err)
		}
		before := x.Engine
		x.open()
		x.means.opt.Shared = true
		x.sorter.set(map[string][]string{"a.mow": {"garden"}, "a.sow": {"garden"}}, garden, kitchen)
		x.Start()
		synctest.Wait()
		if sums, err := x.store.Sums(t.Context()); err != nil || len(sums["theirs"]) != 1 {
			t.Errorf("stored %v, %v", sums, err)
		}
		x.like(t, x.vectorOf(t, "garden"), mowText, sowText)
		x.like(t, x.vectorOf(t, "kitchen"), kitchen.Text)
		before.Close()
	})
}

// Changes of categories are gathered: however many are told, everything is read once or twice.
func TestChangesOfCategoriesAreGathered(t *testing.T) {
	sortedBubble(t, func(t *testing.T, x *sorted) {
		before := x.sorts.Load()
		x.sorter.set(map[string][]string{"a.mow": {"kitchen"}}, garden, kitchen)
		for range 1000 {
			x.CategoriesChanged()
			time.Sleep(settle / 1000)
		}
		time.Sleep(settle)
		synctest.Wait()
		if n := x.sorts.Load() - before; n < 1 || n > 2 {
			t.Errorf("categories were read %d times", n)
		}
		if n := x.read.Load(); n != 4 {
			t.Errorf("%d definitions were read, of three tools of which one has changed", n)
		}
		x.like(t, x.vectorOf(t, "kitchen"), mowText)
		set(x.Catalogue, "b", item("boil", "Boils milk"))
		x.sorter.set(map[string][]string{"a.mow": {"garden"}}, garden, kitchen)
		x.CategoriesChanged()
		synctest.Wait()
		set(x.Catalogue, "b", item("boil", "Boils tea")) // while changes settle
		time.Sleep(settle)
		synctest.Wait()
		x.like(t, x.vectorOf(t, "garden"), mowText)
	})
}

// A store that fails to keep categories is tried again.
func TestCategoriesThatCannotBeStored(t *testing.T) {
	sortedBubble(t, func(t *testing.T, x *sorted) {
		x.store.fail(errors.New("read only today"))
		x.change(map[string][]string{"a.mow": {"kitchen"}}, garden, kitchen)
		if x.State().Works {
			t.Error("the failure is not told")
		}
		x.store.fail(nil)
		time.Sleep(pauseMost)
		synctest.Wait()
		if !x.State().Works {
			t.Error("it is not tried again")
		}
		x.like(t, x.vectorOf(t, "kitchen"), mowText)
	})
}

// A search within a category finds its tools by meaning, though others are nearer (seed 004, BR-007).
func TestMeaningWithinACategory(t *testing.T) {
	sortedBubble(t, func(t *testing.T, x *sorted) {
		var items []catalogue.Item
		of := map[string][]string{"b.boil": {"kitchen"}}
		for i := range vectors.MaxHits + 100 {
			items = append(items, item(fmt.Sprintf("t%04d", i), "Mows the lawn"))
		}
		set(x.Catalogue, "a", items...)
		x.change(of, garden, kitchen)
		hits := x.Find(t.Context(), metatools.Query{Text: "shorten grass", Category: "kitchen", Limit: 5}, anything)
		if len(hits) != 1 || hits[0].Name != "boil" || !slices.Equal(hits[0].Why, []string{"meaning"}) || !slices.Equal(hits[0].Categories, []string{"kitchen"}) {
			t.Errorf("%+v", hits)
		}
		x.change(map[string][]string{"a.t0007": {"kitchen"}}, garden, kitchen)
		hits = x.Find(t.Context(), metatools.Query{Text: "shorten grass", Category: "kitchen", Limit: 5}, anything)
		if len(hits) != 1 || hits[0].Name != "t0007" {
			t.Errorf("after a change: %+v", hits)
		}
	})
}

// Categories are found by meaning, and by words where there is no model or where it fails.
func TestNearCategories(t *testing.T) {
	near := func(x *sorted, query string, limit int) []string {
		return x.NearCategories(context.Background(), query, limit)
	}
	sortedBubble(t, func(t *testing.T, x *sorted) {
		x.change(map[string][]string{"a.mow": {"garden"}, "b.boil": {"kitchen"}}, garden, kitchen)
		same(t, "by meaning", near(x, "shorten grass", 1), "garden")
		same(t, "by the tools", near(x, "water", 1), "kitchen")
		same(t, "all", near(x, "shorten grass", 5), "garden", "kitchen")
		same(t, "none", near(x, "shorten grass", 0))
		same(t, "by a sentence", near(x, "Stories of old lawn chairs please. It boils water", 1), "kitchen")
		x.change(nil, kitchen)
		same(t, "one was removed", near(x, "shorten grass", 5), "kitchen")
		x.model.set(errors.New("no model today"), nil)
		same(t, "by words, since the model fails", near(x, "an oven for plants", 5), "kitchen")
		if x.State().Works {
			t.Error("the failure is not told")
		}
		same(t, "again", near(x, "cook", 5), "kitchen")
		same(t, "of no category", near(x, "shorten grass", 5))
	})
	c, err := catalogue.Open(t.Context(), catalogue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, kinds := range map[string]func() []Kind{"no categories": nil, "an empty list": func() []Kind { return nil }, "two": func() []Kind { return []Kind{garden, kitchen} }} {
		e := New(Options{Catalogue: c, Kinds: kinds})
		var want []string
		if name == "two" {
			want = []string{"garden"}
		}
		same(t, name, e.NearCategories(t.Context(), "planted lawns", 5), want...)
		e.Close()
	}
}

// What is said of a tool's categories finds it, in lists that belong to one audience as well.
func TestCategoriesAreWords(t *testing.T) {
	sortedBubble(t, func(t *testing.T, x *sorted) {
		own := &catalogue.Server{Name: "b", For: "ann"}
		own.Lists[catalogue.Tools] = &catalogue.List{Items: []catalogue.Item{item("boil", "Boils water")}}
		q := metatools.Query{Text: "cookery", Limit: 5}
		hers := q
		hers.Own = []*catalogue.Server{own}
		first := func(q metatools.Query) string {
			for _, h := range x.Find(t.Context(), q, anything) {
				if slices.Contains(h.Why, "category: home_cookery") {
					return h.Server + "." + h.Name
				}
			}
			return ""
		}
		if got := first(q) + first(hers); got != "" {
			t.Errorf("found %s", got)
		}
		x.change(map[string][]string{"b.boil": {"home_cookery"}}, Kind{Name: "home_cookery", Text: "Cookery at home"})
		if all, one := first(q), first(hers); all != "b.boil" || one != "b.boil" {
			t.Errorf("found %q, and by the audience %q", all, one)
		}
		x.change(nil, Kind{Name: "home_cookery", Text: "Cookery at home"})
		if got := first(q) + first(hers); got != "" {
			t.Errorf("found %s, which has the category no longer", got)
		}
	})
}
