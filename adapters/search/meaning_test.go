package search

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/search/embedding"
	"dragoman/adapters/search/lexical"
	"dragoman/adapters/search/vectors"
)

// dictionary is a model that knows which words mean the same.
type dictionary struct {
	mu    sync.Mutex
	same  map[string]string
	texts []string // that were embedded
	fails error
	waits chan struct{} // nil: it answers at once
}

func (m *dictionary) Name() string { return "dictionary" }

func (m *dictionary) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	m.mu.Lock()
	m.texts = append(m.texts, texts...)
	fails, waits := m.fails, m.waits
	m.mu.Unlock()
	if waits != nil {
		select {
		case <-waits:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fails != nil {
		return nil, fails
	}
	all := make([][]float32, len(texts))
	for i, text := range texts {
		v := make([]float32, 64)
		v[63] = 0.1
		for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
			if other := m.same[word]; other != "" {
				word = other
			}
			h := fnv.New32a()
			_, _ = h.Write([]byte(word))
			v[h.Sum32()%63]++
		}
		if err := embedding.Normalise(v); err != nil {
			return nil, err
		}
		all[i] = v
	}
	return all, nil
}

func (m *dictionary) set(err error, waits chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails, m.waits = err, waits
}

// took returns what was embedded since the last time.
func (m *dictionary) took() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.texts = nil }()
	return m.texts
}

// meant is an Engine with a model, within a bubble.
type meant struct {
	*Engine
	*catalogue.Catalogue
	model *dictionary
	store *vectors.Memory
	told  []string
	opens int
}

// bubble runs a test with an Engine that has a model, and fake time.
func bubble(t *testing.T, shared bool, test func(t *testing.T, x *meant)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := catalogue.Open(t.Context(), catalogue.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "b": {Transport: "HTTP"}})
		x := &meant{Catalogue: c, model: &dictionary{same: map[string]string{"shorten": "mow", "grass": "lawn"}}}
		x.Engine = New(Options{Catalogue: c, Meaning: &Meaning{Model: x.model, Patience: time.Second, Shared: shared, Failed: func(err error) { x.told = append(x.told, fmt.Sprint(err)) },
			Open: func(_ context.Context, space vectors.Space) (vectors.Store, error) {
				if x.opens++; x.store == nil {
					x.store, err = vectors.NewMemory(space)
				}
				return x.store, err
			}}})
		defer x.Engine.Close()
		set(c, "a", item("mow", "Mows the lawn"), item("sow", "Sows seeds"))
		test(t, x)
	})
}

func (x *meant) best(text string) string {
	hits := x.Find(context.Background(), metatools.Query{Text: text, Limit: 1}, anything)
	if len(hits) == 0 {
		return ""
	}
	return hits[0].Server + "." + hits[0].Name
}

// A tool is found by what its words mean. Each text is embedded once, and so is each query.
func TestMeaning(t *testing.T) {
	bubble(t, false, func(t *testing.T, x *meant) {
		x.Start()
		synctest.Wait()
		if took := x.model.took(); len(took) != 3 || took[0] != dimensionOf {
			t.Errorf("embedded: %q", took)
		}
		for range 2 {
			if got := x.best("shorten grass"); got != "a.mow" {
				t.Errorf("found %q", got)
			}
		}
		if took := x.model.took(); !slices.Equal(took, []string{"shorten grass"}) {
			t.Errorf("embedded: %q", took)
		}
		set(x.Catalogue, "a", item("mow", "Mows the lawn"), item("reap", "Reaps"))
		set(x.Catalogue, "b", item("mow", "Mows the lawn"))
		synctest.Wait()
		if took := x.model.took(); len(took) != 2 {
			t.Errorf("embedded after a change: %q", took)
		}
		sums, _ := x.store.Sums(t.Context())
		if len(sums["a"]) != 2 || len(sums["b"]) != 1 {
			t.Errorf("stored %v", sums)
		}
		x.Keep(map[string]catalogue.Kept{"b": {Transport: "HTTP"}})
		synctest.Wait()
		if sums, _ := x.store.Sums(t.Context()); len(sums) != 1 || len(x.model.took()) != 0 {
			t.Errorf("stored %v", sums)
		}
		if s := x.State(); !s.On || !s.Works || s.Tools != 1 || s.Searches != 2 || s.Failed != 0 || x.opens != 1 || x.told != nil {
			t.Errorf("%+v, opened %d times, told %q", s, x.opens, x.told)
		}
		own := &catalogue.Server{Name: "b", For: "ann"}
		own.Lists[catalogue.Tools] = &catalogue.List{Items: []catalogue.Item{item("hers", "Her own")}}
		if hits := x.Find(t.Context(), metatools.Query{Text: "shorten grass", Limit: 5, Own: []*catalogue.Server{own}}, anything); len(hits) != 0 {
			t.Errorf("what others are shown is found by its meaning: %+v", hits)
		}
	})
}

// A model that fails makes searches go by words, says so once, and is tried again until it works.
func TestModelThatFails(t *testing.T) {
	bubble(t, false, func(t *testing.T, x *meant) {
		x.model.set(errors.New("no model today"), nil)
		x.Start()
		synctest.Wait()
		if got := x.best("lawn"); got != "a.mow" {
			t.Errorf("by words: %q", got)
		}
		if got := x.best("shorten grass"); got != "" {
			t.Errorf("by meaning: %q", got)
		}
		time.Sleep(10 * time.Minute)
		if tries := len(x.model.took()); tries < 10 || tries > 25 {
			t.Errorf("tried %d times in ten minutes", tries)
		}
		if s := x.State(); s.Works || s.Tools != 0 || s.Failed != 2 || !slices.Equal(x.told, []string{"no model today"}) {
			t.Errorf("%+v, told %q", s, x.told)
		}
		x.model.set(nil, nil)
		time.Sleep(pauseMost)
		synctest.Wait()
		if got := x.best("shorten grass"); got != "a.mow" || !slices.Equal(x.told, []string{"no model today", "<nil>"}) || !x.State().Works {
			t.Errorf("found %q, told %q", got, x.told)
		}
		x.model.set(errors.New("gone again"), nil)
		if got := x.best("mow the grass"); got != "a.mow" {
			t.Errorf("by words again: %q", got)
		}
		synctest.Wait()
		for range 100 {
			x.best("mow more grass")
			time.Sleep(time.Second)
		}
		if !slices.Equal(x.told, []string{"no model today", "<nil>", "gone again"}) {
			t.Errorf("told %q", x.told)
		}
		if tries := len(x.model.took()); tries > 20 {
			t.Errorf("a model that fails was asked %d times in 100 s", tries)
		}
		x.model.set(nil, nil)
		time.Sleep(pauseMost)
		synctest.Wait()
		if got := x.best("shorten grass"); got != "a.mow" || len(x.told) != 4 || !x.State().Works {
			t.Errorf("found %q, told %q", got, x.told)
		}
	})
}

// A search does not wait longer than its patience for the model, and not at all for vectors of tools.
func TestModelThatIsSlow(t *testing.T) {
	bubble(t, false, func(t *testing.T, x *meant) {
		never := make(chan struct{})
		x.model.set(nil, never)
		x.Start()
		synctest.Wait()
		began := time.Now()
		if got := x.best("lawn"); got != "a.mow" || time.Since(began) > patience {
			t.Errorf("before there are vectors: %q after %s", got, time.Since(began))
		}
		close(never)
		synctest.Wait()
		x.model.set(nil, make(chan struct{}))
		began = time.Now()
		if got := x.best("mow lawns"); got != "a.mow" || time.Since(began) != time.Second {
			t.Errorf("a slow query: %q after %s", got, time.Since(began))
		}
	})
}

// In a store that others share, only what this catalogue had is removed.
func TestSharedStore(t *testing.T) {
	for _, shared := range []bool{false, true} {
		bubble(t, shared, func(t *testing.T, x *meant) {
			v := make([]float32, 64)
			v[0] = 1
			var err error
			if x.store, err = vectors.NewMemory(vectors.Space{Model: "dictionary", Dimension: 64}); err != nil {
				t.Fatal(err)
			}
			if err := x.store.Put(t.Context(), []vectors.Point{{Server: "theirs", Tool: "x", Vector: v}, {Server: "a", Tool: "old", Vector: v}}); err != nil {
				t.Fatal(err)
			}
			set(x.Catalogue, "b", item("mow", "Mows"))
			x.Start()
			synctest.Wait()
			sums, _ := x.store.Sums(t.Context())
			if (len(sums["theirs"]) == 1) != shared || len(sums["a"]) != 2 || len(sums["b"]) != 1 {
				t.Errorf("shared %t: %v", shared, sums)
			}
			x.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}})
			synctest.Wait()
			if sums, _ := x.store.Sums(t.Context()); len(sums["b"]) != 0 || (len(sums["theirs"]) == 1) != shared {
				t.Errorf("shared %t, after a removal: %v", shared, sums)
			}
		})
	}
}

// As many tools as wanted are found, though most of the nearest may not be used.
func TestMeaningAsksForMore(t *testing.T) {
	bubble(t, false, func(t *testing.T, x *meant) {
		var items []catalogue.Item
		for i := range 400 {
			items = append(items, item(fmt.Sprintf("t%03d", i), "Mows the lawn"))
		}
		set(x.Catalogue, "a", items...)
		x.Start()
		synctest.Wait()
		hits := x.Find(t.Context(), metatools.Query{Text: "shorten grass", Limit: 5}, func(_, name string) bool { return name >= "t390" })
		if len(hits) != 5 || hits[0].Name < "t390" {
			t.Errorf("%+v", hits)
		}
	})
}

func TestFuse(t *testing.T) {
	words := []lexical.Hit{{Server: "s", Name: "w", Score: 4, Fields: []string{"name: x"}}, {Server: "s", Name: "both", Score: 2, Fields: []string{"title: x"}}}
	near := []vectors.Hit{{Server: "s", Tool: "m", Score: 0.75}, {Server: "s", Tool: "both", Score: 0.7}, {Server: "s", Tool: "far", Score: 0.25}}
	var got []string
	for _, h := range Fuse(words, near, 10) {
		got = append(got, fmt.Sprintf("%s %.2f %s", h.Name, h.Score, strings.Join(h.Fields, ",")))
	}
	want := []string{"both 0.80 meaning,title: x", "m 0.75 meaning", "w 0.45 name: x", "far 0.25 meaning"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Fuse(words, nil, 1); len(got) != 1 || got[0].Name != "w" || got[0].Score != 4 {
		t.Errorf("without meaning: %+v", got)
	}
	if got := Fuse(nil, near, 2); len(got) != 2 || got[1].Name != "both" {
		t.Errorf("without words: %+v", got)
	}
}
