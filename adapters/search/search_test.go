package search

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/metatools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func item(name, description string) catalogue.Item {
	raw := fmt.Appendf(nil, `{"name":%q,"description":%q}`, name, description)
	return catalogue.Item{Key: name, Raw: raw, Sum: sha256.Sum256(raw)}
}

// rig is an Engine of a catalogue with servers.
func rig(t *testing.T, servers ...string) (*Engine, *catalogue.Catalogue) {
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
	e := New(Options{Catalogue: c, Categories: func(server, name string) []string {
		if name == "mow" {
			return []string{"garden", server}
		}
		return nil
	}})
	t.Cleanup(e.Close)
	return e, c
}

func set(c *catalogue.Catalogue, server string, items ...catalogue.Item) {
	c.SetList(server, catalogue.Tools, catalogue.List{Items: items})
}

func anything(string, string) bool { return true }

func (e *Engine) names(q metatools.Query, allowed func(server, name string) bool) (all []string) {
	if q.Limit == 0 {
		q.Limit = 10
	}
	for _, hit := range e.Find(context.Background(), q, allowed) {
		all = append(all, hit.Server+"."+hit.Name)
	}
	slices.Sort(all)
	return all
}

func wants(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// The index follows what servers list, what is said of them, and which there are.
func TestIndexFollowsTheCatalogue(t *testing.T) {
	e, c := rig(t, "a", "b")
	set(c, "a", item("mow", "Mows the lawn"), item("sow", "Sows seeds"))
	set(c, "b", item("mow", "Mows hay"))
	lawn, mow := metatools.Query{Text: "lawn"}, metatools.Query{Text: "mow"}
	wants(t, e.names(lawn, anything), "a.mow")
	wants(t, e.names(mow, anything), "a.mow", "b.mow")
	set(c, "a", item("mow", "Cuts grass"), item("sow", "Sows seeds"))
	wants(t, e.names(lawn, anything))
	wants(t, e.names(metatools.Query{Text: "grass"}, anything), "a.mow")
	wants(t, e.names(metatools.Query{Text: "seeds"}, anything), "a.sow")
	set(c, "a", item("sow", "Sows seeds"))
	wants(t, e.names(mow, anything), "b.mow")
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}})
	wants(t, e.names(mow, anything))
	wants(t, e.names(metatools.Query{Text: "seeds"}, anything), "a.sow")
}

// What has not changed is not read again.
func TestNothingIsReadTwice(t *testing.T) {
	e, c := rig(t, "a", "b")
	set(c, "a", item("mow", "Mows the lawn"), item("sow", "Sows seeds"))
	set(c, "b", item("mow", "Mows hay"))
	e.names(metatools.Query{Text: "mow"}, anything)
	before := e.read.Load()
	if before != 3 {
		t.Errorf("%d tools were read", before)
	}
	c.Renew()
	set(c, "a", item("mow", "Mows the lawn"), item("sow", "Sows more seeds"), item("reap", "Reaps"))
	wants(t, e.names(metatools.Query{Text: "reap"}, anything), "a.reap")
	if n := e.read.Load() - before; n != 2 {
		t.Errorf("%d tools were read after a change of one and an addition of another", n)
	}
	before = e.read.Load()
	c.Describe("b", catalogue.Description{Instructions: "All about meadows"})
	wants(t, e.names(metatools.Query{Text: "hay meadows"}, anything), "b.mow")
	if n := e.read.Load() - before; n != 1 {
		t.Errorf("%d tools were read when another thing was said of their server", n)
	}
}

func TestFilters(t *testing.T) {
	e, c := rig(t, "a", "b")
	set(c, "a", item("mow", "Mows the lawn"), item("sow", "Sows the lawn"))
	set(c, "b", item("mow", "Mows the lawn"))
	wants(t, e.names(metatools.Query{Text: "lawn", Server: "b"}, anything), "b.mow")
	wants(t, e.names(metatools.Query{Text: "lawn", Category: "garden"}, anything), "a.mow", "b.mow")
	wants(t, e.names(metatools.Query{Text: "lawn", Category: "a"}, anything), "a.mow")
	wants(t, e.names(metatools.Query{Text: "lawn", Category: "none"}, anything))
	wants(t, e.names(metatools.Query{Text: "lawn"}, func(server, name string) bool { return server == "a" && name == "sow" }), "a.sow")
	if got := e.names(metatools.Query{Text: "lawn", Limit: 1}, anything); len(got) != 1 {
		t.Errorf("one is wanted: %v", got)
	}
	hits := e.Find(t.Context(), metatools.Query{Text: "lawn", Limit: 1, Server: "b"}, anything)
	if len(hits) != 1 || hits[0].Score <= 0 || !slices.Contains(hits[0].Why, "description: lawn") || !slices.Equal(hits[0].Categories, []string{"garden", "b"}) {
		t.Errorf("%+v", hits)
	}
}

// Without words, a server or a category is browsed by the names of tools.
func TestBrowse(t *testing.T) {
	e, c := rig(t, "a", "b")
	set(c, "a", item("mow", "Mows"), item("sow", "Sows"), item("reap", "Reaps"))
	set(c, "b", item("mow", "Mows"))
	wants(t, e.names(metatools.Query{Server: "a"}, anything), "a.mow", "a.reap", "a.sow")
	wants(t, e.names(metatools.Query{Category: "garden"}, anything), "a.mow", "b.mow")
	hits := e.Find(t.Context(), metatools.Query{Server: "a", Limit: 2}, anything)
	if len(hits) != 2 || hits[0].Name != "mow" || hits[1].Name != "reap" {
		t.Errorf("%+v", hits)
	}
}

// What a server shows one audience only is found by that audience, in the place of what others find.
func TestOwnLists(t *testing.T) {
	e, c := rig(t, "a", "b")
	set(c, "a", item("mow", "Mows the lawn"))
	set(c, "b", item("sow", "Sows the lawn"))
	own := func(of string, items ...catalogue.Item) *catalogue.Server {
		s := &catalogue.Server{Name: "a", For: of}
		s.Lists[catalogue.Tools] = &catalogue.List{Items: items}
		return s
	}
	ann, bob := own("ann", item("hers", "Her lawn")), own("bob", item("his", "His lawn"), item("mow", "Mows his lawn"))
	lawn := func(own ...*catalogue.Server) metatools.Query { return metatools.Query{Text: "lawn", Own: own} }
	wants(t, e.names(lawn(), anything), "a.mow", "b.sow")
	wants(t, e.names(lawn(ann), anything), "a.hers", "b.sow")
	wants(t, e.names(lawn(bob), anything), "a.his", "a.mow", "b.sow")
	wants(t, e.names(lawn(), anything), "a.mow", "b.sow")
	wants(t, e.names(lawn(own("ann", item("others", "Other lawn"))), anything), "a.others", "b.sow")
	before := e.index.Len()
	for i := range maxOwned + 10 {
		e.names(lawn(own(fmt.Sprint(i), item("one", "One lawn"))), anything)
	}
	if n := e.index.Len(); n > before+maxOwned {
		t.Errorf("%d documents are kept for audiences", n-before)
	}
	wants(t, e.names(lawn(ann), anything), "a.hers", "b.sow")
}

// An Engine that is closed, before or after its start, answers.
func TestClosed(t *testing.T) {
	e, c := rig(t, "a")
	set(c, "a", item("mow", "Mows"))
	e.Close()
	e.Close()
	wants(t, e.names(metatools.Query{Text: "mow"}, anything))
	other, c := rig(t, "a")
	set(c, "a", item("mow", "Mows"))
	wants(t, other.names(metatools.Query{Text: "mow"}, anything), "a.mow")
	other.Close()
	wants(t, other.names(metatools.Query{Text: "mow"}, anything), "a.mow")
}

// The first search waits until everything is indexed.
func TestFirstSearchIsComplete(t *testing.T) {
	e, c := rig(t, "a")
	var items []catalogue.Item
	for i := range 20_000 {
		items = append(items, item(fmt.Sprintf("t%05d", i), fmt.Sprintf("Finds the number %05d", i)))
	}
	set(c, "a", items...)
	wants(t, e.names(metatools.Query{Text: "19999", Limit: 1}, anything), "a.t19999")
}
