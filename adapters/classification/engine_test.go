package classification

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/catalogue"
)

// fake is a Classifier that takes a time and says of each tool what its description says. It is a fake of a service.
type fake struct {
	took   time.Duration
	spoilt string // the name of a tool about which, and about all in its company, the answer is wrong

	mu      sync.Mutex
	err     error
	calls   [][]string // names of tools
	running int
	most    int // calls at a time
}

func (f *fake) Name() string { return "fake" }

func (f *fake) Classify(ctx context.Context, tools []Tool) ([][]Assigned, error) {
	f.mu.Lock()
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	f.calls = append(f.calls, names)
	f.running++
	f.most = max(f.most, f.running)
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.running--; f.mu.Unlock() }()
	late := time.NewTimer(f.took)
	defer late.Stop()
	select {
	case <-late.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	all := make([][]Assigned, len(tools))
	for i, t := range tools {
		if t.Name == f.spoilt {
			return nil, errors.New("nonsense")
		}
		all[i] = []Assigned{{t.Description, 0.9}, {"files", 0.5}, {"web", 0.49}}
	}
	return all, nil
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoilt = ""
}

func (f *fake) asked() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

var someCategories = []Category{{Name: "files"}, {Name: "web"}, {Name: "mail"}}

func newCatalogue(t *testing.T, servers ...string) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Open(t.Context(), catalogue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]catalogue.Kept{}
	for _, name := range servers {
		all[name] = catalogue.Kept{Transport: "HTTP"}
	}
	c.Keep(all)
	for _, name := range servers {
		c.SetPresence(name, catalogue.There)
	}
	return c
}

// list makes a server list tools, each a name and its category.
func list(c *catalogue.Catalogue, server string, tools ...[2]string) {
	var l catalogue.List
	for _, one := range tools {
		raw := fmt.Appendf(nil, `{"name":%q,"description":%q}`, one[0], one[1])
		l.Items = append(l.Items, catalogue.Item{Key: one[0], Raw: raw, Sum: sha256.Sum256(raw)})
	}
	c.SetList(server, catalogue.Tools, l)
}

func many(n int, category string) (all [][2]string) {
	for i := range n {
		all = append(all, [2]string{fmt.Sprintf("t%04d", i), category})
	}
	return all
}

// both returns classifiers that do not depend on the categories.
func both(first, fallback Classifier) func([]Category) (Classifier, Classifier) {
	return func([]Category) (Classifier, Classifier) { return first, fallback }
}

// start starts an Engine.
func start(t *testing.T, opt Options) *Engine {
	t.Helper()
	if opt.Store == nil {
		opt.Store = &catalogue.MemoryClassifications{}
	}
	if opt.Categories == nil {
		opt.Categories = someCategories
	}
	e := New(opt)
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func (e *Engine) wantState(t *testing.T, server, name string, state catalogue.ClassState, categories ...string) {
	t.Helper()
	got := e.Classification(server, name)
	if of := e.Of(server, name); got.State != state || !slices.Equal(of, categories) {
		t.Errorf("%s.%s is %s with %q, want %s with %q", server, name, got.State, of, state, categories)
	}
}

// states counts the tools of a server by state.
func (e *Engine) states(c *catalogue.Catalogue, server string) map[catalogue.ClassState]int {
	all := map[catalogue.ClassState]int{}
	for _, item := range c.Snapshot().Server(server).Lists[catalogue.Tools].Items {
		all[e.Classification(server, item.Key).State]++
	}
	return all
}

// A tool goes through the states of seed 004, and gets what is kept of what the classifier says.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a"), &fake{took: 3 * time.Second}
		list(c, "a", [2]string{"x", "mail"})
		e := New(Options{Catalogue: c, Store: &catalogue.MemoryClassifications{}, Categories: someCategories, Classifiers: both(f, nil)})
		t.Cleanup(e.Close)
		e.wantState(t, "a", "x", catalogue.Discovered)
		e.Start()
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classifying)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classified, "mail", "files")
		f.fail(errors.New("nonsense"))
		if n, err := e.Reclassify(t.Context(), "a", "x"); n != 1 || err != nil {
			t.Error(n, err)
		}
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classifying, "mail", "files") // until it is known better
		time.Sleep(3 * time.Second)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Unclassified)
		f.fail(nil)
		time.Sleep(retryLeast)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classifying)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classified, "mail", "files")
	})
}

// Fifty tools are classified within 60 s by a service that takes 3 s a batch, and five hundred ten at a time, at most five calls at once
// (seed 004, BR-004 and EC-006). The catalogue is not kept waiting.
func TestBatches(t *testing.T) {
	for _, tools := range []int{1, 50, 500} {
		synctest.Test(t, func(t *testing.T) {
			c, f := newCatalogue(t, "a"), &fake{took: 3 * time.Second}
			e := start(t, Options{Catalogue: c, Classifiers: both(f, nil)})
			synctest.Wait()
			began := time.Now()
			list(c, "a", many(tools, "web")...)
			if d := time.Since(began); d != 0 {
				t.Errorf("the list waited for %v", d)
			}
			calls := (tools + BatchSize - 1) / BatchSize
			time.Sleep(time.Duration((calls+AtOnce-1)/AtOnce) * f.took)
			synctest.Wait()
			if got := e.states(c, "a"); got[catalogue.Classified] != tools {
				t.Errorf("after %v: %v", time.Since(began), got)
			}
			if tools == 50 && time.Since(began) > 60*time.Second {
				t.Errorf("50 tools took %v", time.Since(began))
			}
			if f.asked() != calls || f.most > AtOnce {
				t.Errorf("%d calls, %d at a time", f.asked(), f.most)
			}
		})
	}
}

// Nothing is classified twice: not when another tool changes, not after a restart, and not when a server comes back. What has changed is: a
// definition, the categories, the classifier.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, store := newCatalogue(t, "a"), &fake{}, &catalogue.MemoryClassifications{}
		opt := Options{Catalogue: c, Classifiers: both(f, nil), Store: store, Categories: someCategories}
		e := start(t, opt)
		asked := 0
		expect := func(what string, names ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, call := range f.calls[asked:] {
				got = append(got, call...)
			}
			if asked = len(f.calls); !slices.Equal(got, names) {
				t.Errorf("%s: %q is classified, want %q", what, got, names)
			}
		}
		list(c, "a", [2]string{"x", "mail"}, [2]string{"y", "web"})
		expect("the first list", "x", "y")
		list(c, "a", [2]string{"y", "web"}, [2]string{"x", "mail"}, [2]string{"z", "web"})
		expect("one more", "z")
		list(c, "a", [2]string{"y", "web"}, [2]string{"x", "web"}, [2]string{"z", "web"})
		expect("another definition", "x")
		e.Close()
		e = start(t, opt)
		expect("a restart")
		e.wantState(t, "a", "x", catalogue.Classified, "web", "files")
		c.SetPresence("a", catalogue.Away)
		c.SetPresence("a", catalogue.There)
		expect("a server that comes back")
		e.Close()
		opt.Categories = append(slices.Clone(someCategories), Category{Name: "new"})
		start(t, opt)
		expect("other categories", "x", "y", "z")
		list(c, "a", [2]string{"y", "web"})
		synctest.Wait()
		if all, err := store.Classifications(t.Context()); len(all) != 1 || err != nil {
			t.Errorf("of tools that are gone there is %+v, %v", all, err)
		}
	})
}

// While the classifier is away tools stay unclassified, it is asked more and more seldom with one call, and when it is back all are classified
// (seed 004, EC-009).
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes []string
		c, f := newCatalogue(t, "a"), &fake{err: &AwayError{Err: errors.New("down")}}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, nil), Note: func(what string, err error) { notes = append(notes, fmt.Sprint(what, ": ", err)) }})
		list(c, "a", many(100, "web")...)
		synctest.Wait()
		if got := e.states(c, "a"); got[catalogue.Classified] != 0 || f.asked() > AtOnce {
			t.Errorf("%v after %d calls", got, f.asked())
		}
		e.wantState(t, "a", "t0000", catalogue.Unclassified)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := f.asked(); n < 10 || n > 20 {
			t.Errorf("a service that is away was asked %d times in an hour", n)
		}
		f.fail(nil)
		time.Sleep(retryMost)
		synctest.Wait()
		if got := e.states(c, "a"); got[catalogue.Classified] != 100 {
			t.Errorf("when it is back: %v", got)
		}
		if want := []string{"the classifier: down", "the classifier: <nil>"}; !slices.Equal(notes, want) {
			t.Errorf("told %q", notes)
		}
	})
}

// A service that says how long it wants to be left alone is left alone for so long, and Reclassify asks it at once.
func TestAwayForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a"), &fake{err: &AwayError{Err: errors.New("busy"), After: 2 * time.Minute}}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, nil)})
		list(c, "a", [2]string{"x", "web"})
		time.Sleep(2*time.Minute - time.Second)
		synctest.Wait()
		if n := f.asked(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		f.fail(nil)
		if _, err := e.Reclassify(t.Context(), "", ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classified, "web", "files")
	})
}

// A service that never answers is given up after a minute.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a"), &fake{took: time.Hour}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, nil)})
		list(c, "a", [2]string{"x", "web"})
		time.Sleep(MostTime)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Unclassified)
	})
}

// The fallback classifies while the classifier is away, at once, and the classifier does it again when it is back.
func TestFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a"), &fake{err: &AwayError{Err: errors.New("down")}}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, NewLocal([]Category{{Name: "files"}, {Name: "mail", Keywords: []string{"mail"}}}))})
		list(c, "a", [2]string{"files", "web"}, [2]string{"mail", "web"})
		synctest.Wait()
		e.wantState(t, "a", "files", catalogue.Classified, "files")
		e.wantState(t, "a", "mail", catalogue.Classified, "mail")
		list(c, "a", [2]string{"files", "web"}, [2]string{"mail", "web"}, [2]string{"send_mail", "web"})
		synctest.Wait()
		e.wantState(t, "a", "send_mail", catalogue.Classified, "mail")
		if n := f.asked(); n != 1 {
			t.Errorf("a service that is away was asked %d times at once", n)
		}
		f.fail(nil)
		time.Sleep(retryMost)
		synctest.Wait()
		e.wantState(t, "a", "files", catalogue.Classified, "web", "files")
		if got := e.Classification("a", "mail"); got.By != "fake" {
			t.Errorf("%+v", got)
		}
	})
}

// An answer that is wrong is about its tools: they are tried again later and later, alone, and the fallback steps in if there is one.
func TestWrongAnswers(t *testing.T) {
	for _, fallback := range []Classifier{nil, NewLocal(someCategories)} {
		synctest.Test(t, func(t *testing.T) {
			c, f := newCatalogue(t, "a"), &fake{spoilt: "mail"}
			e := start(t, Options{Catalogue: c, Classifiers: both(f, fallback)})
			list(c, "a", [2]string{"a", "web"}, [2]string{"mail", "web"}, [2]string{"z", "web"})
			synctest.Wait()
			if f.asked() != 1 {
				t.Errorf("asked %d times at once", f.asked())
			}
			time.Sleep(retryLeast)
			synctest.Wait()
			e.wantState(t, "a", "a", catalogue.Classified, "web", "files")
			e.wantState(t, "a", "z", catalogue.Classified, "web", "files")
			if fallback == nil {
				e.wantState(t, "a", "mail", catalogue.Unclassified)
			} else {
				e.wantState(t, "a", "mail", catalogue.Classified, "mail")
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := f.asked(); n < 10 || n > 20 {
				t.Errorf("asked %d times in an hour", n)
			}
			list(c, "a", [2]string{"b", "web"})
			synctest.Wait()
			e.wantState(t, "a", "b", catalogue.Classified, "web", "files")
		})
	}
}

// A person is right: over later definitions, over Reclassify, over a restart, and while the tool is being classified; until taken back.
func TestPersonIsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, store := newCatalogue(t, "a"), &fake{took: time.Second}, &catalogue.MemoryClassifications{}
		opt := Options{Catalogue: c, Classifiers: both(f, nil), Store: store}
		e := start(t, opt)
		list(c, "a", [2]string{"x", "mail"})
		synctest.Wait() // it is being classified
		correct := func(want error, server, name string, categories ...string) {
			t.Helper()
			if err := e.Correct(t.Context(), server, name, categories); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		correct(nil, "a", "x", "web", "files", "web")
		settle := func() { time.Sleep(time.Minute); synctest.Wait() }
		settle()
		e.wantState(t, "a", "x", catalogue.Classified, "web", "files")
		list(c, "a", [2]string{"x", "files"})
		if _, err := e.Reclassify(t.Context(), "", ""); err != nil {
			t.Error(err)
		}
		settle()
		e.wantState(t, "a", "x", catalogue.Classified, "web", "files")
		list(c, "a")
		settle()
		list(c, "a", [2]string{"x", "mail"})
		settle()
		e.Close()
		e = start(t, opt)
		settle()
		e.wantState(t, "a", "x", catalogue.Classified, "web", "files")
		correct(ErrNoTool, "a", "y", "web")
		correct(ErrNoTool, "b", "x", "web")
		correct(ErrNoCategory, "a", "x", "nothing")
		correct(nil, "a", "x")
		settle()
		e.wantState(t, "a", "x", catalogue.Classified, "mail", "files")
		if _, err := e.Reclassify(t.Context(), "b", ""); !errors.Is(err, ErrNoTool) {
			t.Error(err)
		}
	})
}

// Several Dragomans that share a store classify each tool once, and each knows what the others have found.
func TestInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, f := &catalogue.MemoryClassifications{}, &fake{took: 3 * time.Second}
		var engines []*Engine
		c := newCatalogue(t, "a")
		for i := range 3 {
			engines = append(engines, start(t, Options{Catalogue: c, Classifiers: both(f, nil), Store: store, Instance: fmt.Sprint("i", i)}))
		}
		list(c, "a", many(100, "web")...)
		time.Sleep(time.Minute)
		synctest.Wait()
		seen := map[string]int{}
		for _, call := range f.calls {
			for _, name := range call {
				seen[name]++
			}
		}
		for name, n := range seen {
			if n != 1 {
				t.Errorf("%s was classified %d times", name, n)
			}
		}
		for i, e := range engines {
			if got := e.states(c, "a"); got[catalogue.Classified] != 100 {
				t.Errorf("%d: %v", i, got)
			}
		}
		if err := engines[0].Correct(t.Context(), "a", "t0000", []string{"mail"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookSeldom)
		synctest.Wait()
		engines[1].wantState(t, "a", "t0000", catalogue.Classified, "mail")
	})
}

// What an instance leaves when it is closed another one does at once.
func TestCloseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := &catalogue.MemoryClassifications{}, newCatalogue(t, "a")
		e := start(t, Options{Catalogue: c, Classifiers: both(&fake{took: 30 * time.Second}, nil), Store: store, Instance: "one"})
		list(c, "a", [2]string{"x", "web"})
		synctest.Wait()
		e.Close()
		e.Close()
		next := start(t, Options{Catalogue: c, Classifiers: both(&fake{}, nil), Store: store, Instance: "two"})
		synctest.Wait()
		next.wantState(t, "a", "x", catalogue.Classified, "web", "files")
	})
}

// broken is a store that cannot be reached at times.
type broken struct {
	catalogue.MemoryClassifications
	mu  sync.Mutex
	err error
}

func (b *broken) why() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *broken) Classifications(ctx context.Context) ([]catalogue.Classification, error) {
	if err := b.why(); err != nil {
		return nil, err
	}
	return b.MemoryClassifications.Classifications(ctx)
}

func (b *broken) ClaimTools(ctx context.Context, instance string, lease time.Duration, all []catalogue.Classification) ([]catalogue.ToolKey, error) {
	if err := b.why(); err != nil {
		return nil, err
	}
	return b.MemoryClassifications.ClaimTools(ctx, instance, lease, all)
}

// A store that cannot be reached is tried again.
func TestBrokenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newCatalogue(t, "a"), &broken{err: catalogue.ErrAway}
		e := start(t, Options{Catalogue: c, Classifiers: both(&fake{}, nil), Store: store})
		list(c, "a", [2]string{"x", "web"})
		time.Sleep(time.Minute)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Discovered)
		store.mu.Lock()
		store.err = nil
		store.mu.Unlock()
		time.Sleep(lookAgain)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classified, "web", "files")
	})
}

// Categories are counted with the tools that there are: those of a server that is removed are gone at once (seed 004, BR-008).
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := 0
		c := newCatalogue(t, "a", "b")
		e := start(t, Options{Catalogue: c, Classifiers: both(&fake{}, nil), Changed: func() { changed++ }})
		list(c, "a", [2]string{"x", "web"}, [2]string{"y", "mail"})
		list(c, "b", [2]string{"x", "web"})
		synctest.Wait()
		expect := func(want ...Count) {
			t.Helper()
			if got := e.Counts(); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		expect(Count{someCategories[0], 3, 0, false}, Count{someCategories[1], 2, 2, false}, Count{someCategories[2], 1, 1, false})
		if changed == 0 {
			t.Error("nobody was told")
		}
		c.Keep(map[string]catalogue.Kept{"b": {Transport: "HTTP"}})
		synctest.Wait()
		expect(Count{someCategories[0], 1, 0, false}, Count{someCategories[1], 1, 1, false}, Count{someCategories[2], 0, 0, false})
	})
	var none *Engine
	_, reclassified := none.Reclassify(t.Context(), "", "")
	for _, err := range []error{reclassified, none.Correct(t.Context(), "a", "x", nil), none.PutCategory(t.Context(), Category{}), none.RemoveCategory(t.Context(), "files"), none.ResetCategory(t.Context(), "files")} {
		if !errors.Is(err, ErrOff) {
			t.Errorf("of no engine: %v", err)
		}
	}
	if none.Of("a", "x") != nil || none.Counts() != nil || none.Classification("a", "x").State != catalogue.Discovered {
		t.Error("no engine knows something")
	}
}
