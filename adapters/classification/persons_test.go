package classification

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/catalogue"
)

// Persons add, change and remove categories while the Engine runs: what it sorts by follows, over a restart as well, and takes the place of the
// configuration's until they take it back.
func TestChangedCategories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newCatalogue(t, "a"), &catalogue.MemoryClassifications{}
		opt := Options{Catalogue: c, Store: store, Classifiers: func(all []Category) (Classifier, Classifier) { return NewLocal(all), nil }}
		e := start(t, opt)
		list(c, "a", [2]string{"mow_lawn", "Mows"}, [2]string{"send_mail", "Sends"}, [2]string{"open_web", "Opens"})
		synctest.Wait()
		expect := func(name string, categories ...string) {
			t.Helper()
			synctest.Wait()
			e.wantState(t, "a", name, catalogue.Classified, categories...)
		}
		done := func(err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		names := func(want ...string) {
			t.Helper()
			var got []string
			for _, one := range e.Counts() {
				if one.Changed {
					one.Name += "*"
				}
				got = append(got, one.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("categories %q, want %q", got, want)
			}
		}
		expect("mow_lawn")
		done(e.PutCategory(t.Context(), Category{Name: "garden", Keywords: []string{"mow"}}), nil)
		expect("mow_lawn", "garden")
		done(e.PutCategory(t.Context(), Category{Name: "files", Keywords: []string{"lawn"}}), nil)
		names("files*", "web", "mail", "garden*")
		done(e.Correct(t.Context(), "a", "open_web", []string{"garden", "web"}), nil)
		done(e.RemoveCategory(t.Context(), "garden"), nil)
		expect("mow_lawn", "files")
		expect("open_web", "web") // of what a person has said the rest stays
		e.Close()
		e = start(t, opt)
		expect("mow_lawn", "files")
		names("files*", "web", "mail")
		done(e.RemoveCategory(t.Context(), "garden"), ErrNoCategory)
		done(e.RemoveCategory(t.Context(), "mail"), nil)
		expect("send_mail")
		done(e.ResetCategory(t.Context(), "mail"), nil)
		done(e.ResetCategory(t.Context(), "mail"), ErrNoCategory)
		expect("send_mail", "mail")
		done(e.RemoveCategory(t.Context(), "mail"), nil)
		done(e.RemoveCategory(t.Context(), "web"), nil)
		done(e.RemoveCategory(t.Context(), "files"), ErrLast)
		done(e.PutCategory(t.Context(), Category{Name: "mail"}), nil)
		done(e.ResetCategory(t.Context(), "garden"), nil)
		names("files*", "mail*")
		for i := range MaxCategories - 2 {
			done(e.PutCategory(t.Context(), Category{Name: fmt.Sprintf("c%02d", i)}), nil)
		}
		done(e.PutCategory(t.Context(), Category{Name: "more"}), ErrTooMany)
		done(e.ResetCategory(t.Context(), "web"), ErrTooMany)
		done(e.PutCategory(t.Context(), Category{Name: "files"}), nil)
	})
}

// Categories that were all removed under another configuration are none, and nothing is asked about them.
func TestNoCategories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, store := newCatalogue(t, "a"), &fake{}, &catalogue.MemoryClassifications{}
		for _, one := range someCategories {
			if err := store.PutCategory(t.Context(), catalogue.Category{Name: one.Name, Removed: true}); err != nil {
				t.Fatal(err)
			}
		}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, nil), Store: store})
		list(c, "a", [2]string{"x", "web"})
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Discovered)
		if f.asked() != 0 || len(e.Counts()) != 0 {
			t.Errorf("%d questions, %v", f.asked(), e.Counts())
		}
	})
}

// Dragomans that share a store have the same categories.
func TestCategoriesOfInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newCatalogue(t, "a"), &catalogue.MemoryClassifications{}
		opt := Options{Catalogue: c, Store: store, Instance: "one", Classifiers: func(all []Category) (Classifier, Classifier) { return NewLocal(all), nil }}
		one := start(t, opt)
		opt.Instance = "two"
		two := start(t, opt)
		list(c, "a", [2]string{"mow_lawn", "Mows"})
		synctest.Wait()
		if err := one.PutCategory(t.Context(), Category{Name: "garden", Keywords: []string{"mow"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookSeldom)
		synctest.Wait()
		one.wantState(t, "a", "mow_lawn", catalogue.Classified, "garden")
		two.wantState(t, "a", "mow_lawn", catalogue.Classified, "garden")
	})
}

// What was done and what is left is counted.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a"), &fake{}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, NewLocal(someCategories))})
		list(c, "a", many(20, "web")...)
		synctest.Wait()
		f.fail(&AwayError{Err: errors.New("down")})
		list(c, "a", many(21, "web")...)
		synctest.Wait()
		if got := e.Stats(); got.Done != 2 || got.StoodIn != 1 || got.Failed != 0 || got.States[catalogue.Classified] != 21 {
			t.Errorf("%+v", got)
		}
		e.Close()
		e = start(t, Options{Catalogue: c, Classifiers: both(f, nil)})
		synctest.Wait()
		if got := e.Stats(); got.Done != 0 || got.Failed == 0 || got.States[catalogue.Unclassified] != 21 {
			t.Errorf("%+v", got)
		}
		var none *Engine
		if got := none.Stats(); len(got.States) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// Reclassify concerns the tools of a server, one of them, or all, and none is no error unless something was named.
func TestReclassified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a", "b"), &fake{}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, nil)})
		again := func(server, name string, want int, failed error, asked ...string) {
			t.Helper()
			synctest.Wait()
			before := len(f.calls)
			if n, err := e.Reclassify(t.Context(), server, name); n != want || !errors.Is(err, failed) {
				t.Errorf("%q %q: %d, %v; want %d, %v", server, name, n, err, want, failed)
			}
			synctest.Wait()
			var got []string
			for _, call := range f.calls[before:] {
				got = append(got, call...)
			}
			if slices.Sort(got); !slices.Equal(got, asked) {
				t.Errorf("%q %q: %q are classified, want %q", server, name, got, asked)
			}
		}
		again("", "", 0, nil)
		again("a", "", 0, ErrNoTool)
		list(c, "a", [2]string{"x", "mail"}, [2]string{"y", "web"})
		list(c, "b", [2]string{"x", "web"}, [2]string{"z", "web"})
		again("", "", 4, nil, "x", "x", "y", "z")
		again("a", "", 2, nil, "x", "y")
		again("b", "z", 1, nil, "z")
		again("", "x", 2, nil, "x", "x")
		again("a", "z", 0, ErrNoTool)
		again("c", "", 0, ErrNoTool)
	})
}

// A tool that is being classified when somebody has it classified again is counted and not asked about twice.
func TestReclassifiedWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a"), &fake{took: time.Minute}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, nil)})
		list(c, "a", [2]string{"x", "mail"})
		synctest.Wait()
		if n, err := e.Reclassify(t.Context(), "a", "x"); n != 1 || err != nil || f.asked() != 1 {
			t.Errorf("%d, %v, asked %d times", n, err, f.asked())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classified, "mail", "files")
		if f.asked() != 1 {
			t.Errorf("asked %d times", f.asked())
		}
	})
}

// The failure of a call that began before Reclassify does not count: the classifier is asked again at once, and nobody is told.
func TestReclassifiedBeforeAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a"), &fake{took: 10 * time.Second, err: &AwayError{Err: errors.New("down"), After: time.Hour}}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, NewLocal(someCategories)), Note: func(what string, err error) { t.Error(what, err) }})
		list(c, "a", [2]string{"x", "mail"})
		time.Sleep(5 * time.Second)
		if _, err := e.Reclassify(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		f.fail(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classified, "mail", "files")
		if n := f.asked(); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})
}

// What a person takes back is classified at once, even if the classifier has failed at it before.
func TestTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a"), &fake{spoilt: "x"}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, nil)})
		list(c, "a", [2]string{"x", "mail"})
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Unclassified)
		if err := e.Correct(t.Context(), "a", "x", []string{"web"}); err != nil {
			t.Fatal(err)
		}
		f.mend()
		if err := e.Correct(t.Context(), "a", "x", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classified, "mail", "files")
	})
}

// late is a store that reads slowly: while is called after it has read, and before it answers.
type late struct {
	catalogue.MemoryClassifications
	while atomic.Pointer[func()]
}

func (l *late) Categories(ctx context.Context) ([]catalogue.Category, error) {
	all, err := l.MemoryClassifications.Categories(ctx)
	if while := l.while.Swap(nil); while != nil {
		(*while)()
	}
	return all, err
}

// What a person says while the store is being read is not lost: what was read is older.
func TestSaidMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newCatalogue(t, "a"), &late{}
		e := start(t, Options{Catalogue: c, Store: store, Instance: "one", Classifiers: func(all []Category) (Classifier, Classifier) { return NewLocal(all), nil }})
		list(c, "a", [2]string{"mow_lawn", "Mows"}, [2]string{"x", "web"})
		synctest.Wait()
		meanwhile := func() {
			if err := e.PutCategory(t.Context(), Category{Name: "garden", Keywords: []string{"mow"}}); err != nil {
				t.Error(err)
			}
			if err := e.Correct(t.Context(), "a", "x", []string{"garden"}); err != nil {
				t.Error(err)
			}
		}
		store.while.Store(&meanwhile)
		time.Sleep(lookSeldom)
		synctest.Wait()
		e.wantState(t, "a", "mow_lawn", catalogue.Classified, "garden")
		e.wantState(t, "a", "x", catalogue.Classified, "garden")
	})
}

// A Reclassify while the store is being read is not lost.
func TestReclassifiedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, store := newCatalogue(t, "a"), &fake{}, &late{}
		e := start(t, Options{Catalogue: c, Store: store, Instance: "one", Classifiers: both(f, nil)})
		list(c, "a", [2]string{"x", "mail"})
		synctest.Wait()
		meanwhile := func() {
			if _, err := e.Reclassify(t.Context(), "", ""); err != nil {
				t.Error(err)
			}
		}
		store.while.Store(&meanwhile)
		time.Sleep(lookSeldom)
		synctest.Wait()
		if n := f.asked(); n != 2 {
			t.Errorf("asked %d times", n)
		}
		e.wantState(t, "a", "x", catalogue.Classified, "mail", "files")
	})
}

// A tool whose definition has changed is discovered again, and keeps its categories, until it is its turn.
func TestChangedDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newCatalogue(t, "a"), &fake{}
		e := start(t, Options{Catalogue: c, Classifiers: both(f, nil)})
		list(c, "a", [2]string{"x", "mail"})
		synctest.Wait()
		f.fail(&AwayError{Err: errors.New("down")})
		list(c, "a", [2]string{"x", "mail"}, [2]string{"y", "web"})
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classified, "mail", "files")
		list(c, "a", [2]string{"x", "web"}, [2]string{"y", "web"})
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Discovered, "mail", "files")
	})
}

// words is a Classifier by which the categories of a tool are the words of its description.
type words struct{}

func (words) Name() string { return "words" }

func (words) Classify(_ context.Context, tools []Tool) (all [][]Assigned, _ error) {
	for _, t := range tools {
		var of []Assigned
		for _, word := range strings.Fields(t.Description) {
			of = append(of, Assigned{word, 0.9})
		}
		all = append(all, of)
	}
	return all, nil
}

// Whoever wants to know is told when categories of tools have changed, and only then: by a classifier, by a person, or because others exist.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Int64
		c := newCatalogue(t, "a")
		e := start(t, Options{Catalogue: c, Classifiers: both(words{}, nil), Changed: func() { changed.Add(1) }})
		told := func(what string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := changed.Swap(0); got != want {
				t.Errorf("%s: told %d times, want %d", what, got, want)
			}
		}
		told("at the start", 0)
		list(c, "a", [2]string{"x", ""})
		told("a tool without categories", 0)
		list(c, "a", [2]string{"x", ""}, [2]string{"y", "web"})
		told("a tool with one", 1)
		list(c, "a", [2]string{"x", " "}, [2]string{"y", "web "})
		told("other definitions, the same categories", 0)
		list(c, "a", [2]string{"x", " "}, [2]string{"y", "mail"})
		told("another category", 1)
		list(c, "a", [2]string{"x", " "}, [2]string{"y", "mail web"})
		told("one more category", 1)
		if _, err := e.Reclassify(t.Context(), "", ""); err != nil {
			t.Error(err)
		}
		told("the same again", 0)
		if err := e.Correct(t.Context(), "a", "x", []string{"web"}); err != nil {
			t.Error(err)
		}
		told("a person", 1)
		if err := e.PutCategory(t.Context(), Category{Name: "web", Description: "Pages"}); err != nil {
			t.Error(err)
		}
		told("another text of a category", 1)
	})
}

// While many tools are classified one is told now and then, and at the end.
func TestChangedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Int64
		c := newCatalogue(t, "a")
		start(t, Options{Catalogue: c, Classifiers: both(&fake{took: 4 * time.Second}, nil), Changed: func() { changed.Add(1) }})
		list(c, "a", many(10*AtOnce*BatchSize, "web")...) // ten times four seconds
		time.Sleep(39 * time.Second)
		synctest.Wait()
		before := changed.Load()
		if before < 2 || before > 4 {
			t.Errorf("told %d times in 39 s, want about one in 10 s", before)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := changed.Load(); got == before || got > before+2 {
			t.Errorf("told %d times in the end, %d before", got, before)
		}
	})
}

// What is known of the tools of a server that is away stays, even if it lists others when it was seen last.
func TestAwayServerKeepsItsCategories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newCatalogue(t, "a"), &catalogue.MemoryClassifications{}
		start(t, Options{Catalogue: c, Store: store, Classifiers: both(&fake{}, nil)})
		list(c, "a", [2]string{"x", "web"}, [2]string{"y", "web"})
		synctest.Wait()
		kept := func(want int) {
			t.Helper()
			synctest.Wait()
			if all, err := store.Classifications(t.Context()); len(all) != want || err != nil {
				t.Errorf("%d are kept, %v; want %d", len(all), err, want)
			}
		}
		c.SetPresence("a", catalogue.Away)
		list(c, "a", [2]string{"x", "web"})
		kept(2)
		c.SetPresence("a", catalogue.There)
		kept(2)
		list(c, "a")
		kept(1)
	})
}

// counting is a store that counts claims.
type counting struct {
	catalogue.MemoryClassifications
	claims atomic.Int64
}

func (c *counting) ClaimTools(ctx context.Context, instance string, lease time.Duration, all []catalogue.Classification) ([]catalogue.ToolKey, error) {
	c.claims.Add(1)
	return c.MemoryClassifications.ClaimTools(ctx, instance, lease, all)
}

// What a person says of one tool while its batch runs concerns that one only, and once everything is classified nothing is claimed any more. An
// Engine that was closed does not start.
func TestNothingIsLeftToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newCatalogue(t, "a"), &counting{}
		opt := Options{Catalogue: c, Store: store, Classifiers: both(&fake{took: time.Second}, nil)}
		e := start(t, opt)
		list(c, "a", [2]string{"x", "mail"}, [2]string{"y", "web"})
		synctest.Wait()
		if err := e.Correct(t.Context(), "a", "x", []string{"files"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		e.wantState(t, "a", "x", catalogue.Classified, "files")
		e.wantState(t, "a", "y", catalogue.Classified, "web", "files")
		if n := store.claims.Load(); n != 1 {
			t.Errorf("tools were claimed %d times", n)
		}
		opt.Categories = someCategories
		closed := New(opt)
		closed.Close()
		closed.Start()
		list(c, "a", [2]string{"z", "web"})
		e.Close()
		before := store.claims.Load()
		list(c, "a", [2]string{"zz", "web"})
		time.Sleep(time.Hour)
		if n := store.claims.Load(); n != before {
			t.Errorf("a closed engine claimed tools %d times", n-before)
		}
	})
}
