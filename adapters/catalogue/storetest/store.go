package storetest

import (
	"reflect"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
)

// Store tests a Store. open returns a function that opens a new one each time, with the content of the last, which is closed by then.
func Store(t *testing.T, open func(t *testing.T) func() catalogue.Store) {
	t.Run("store", func(t *testing.T) { storeRoundTrip(t, open(t)) })
	t.Run("again", func(t *testing.T) { removedAndBack(t, open(t)) })
	t.Run("approved", func(t *testing.T) { pinsOfConfigured(t, open(t)) })
	t.Run("registered", func(t *testing.T) { registeredStays(t, open(t)) })
}

// catalogueOf opens a catalogue on a store.
func catalogueOf(t *testing.T, s catalogue.Store) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Open(t.Context(), catalogue.Options{Store: s, Now: func() time.Time { return time.UnixMilli(1_800_000_000_123) }, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func end(t *testing.T, c *catalogue.Catalogue) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// bare returns the servers of a snapshot by value, without their status, and with local times, for a comparison.
func bare(s *catalogue.Snapshot) (all []catalogue.Server) {
	for _, one := range s.Servers {
		of := *one
		of.Status, of.Registered = catalogue.Status{}, of.Registered.Local()
		for kind, l := range of.Lists {
			if l == nil {
				continue
			}
			next := catalogue.List{Fetched: l.Fetched.Local()}
			for _, item := range l.Items {
				item.Since, item.Changed = item.Since.Local(), item.Changed.Local()
				next.Items = append(next.Items, item)
			}
			of.Lists[kind] = &next
		}
		all = append(all, of)
	}
	return all
}

// items returns a list of items, each a key and its definition.
func items(all ...[2]string) (list catalogue.List) {
	for _, one := range all {
		list.Items = append(list.Items, catalogue.Item{Key: one[0], Raw: []byte(one[1])})
	}
	return list
}

func storeRoundTrip(t *testing.T, open func() catalogue.Store) {
	c := catalogueOf(t, open())
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "STDIO"}, "b": {Transport: "HTTP"}, "gone": {Transport: "SSE"}})
	c.SetOrigin("a", []byte{0, 255})
	c.Describe("a", catalogue.Description{Revision: "r", Info: []byte(`{"name":"x"}`), Capabilities: []byte(`{"tools":{}}`), Instructions: "use x"})
	for kind := range catalogue.Kinds {
		c.SetList("a", kind, items([2]string{"z", `{"name":"z","description":"é\u0000","inputSchema":{"type":"object"}}`}, [2]string{"é", `{}`}, [2]string{"", `{"big":12345678901234567890}`}))
	}
	c.SetList("b", catalogue.Resources, items([2]string{"z", `{}`}, [2]string{"own", `{}`}))
	c.SetList("b", catalogue.Tools, catalogue.List{})
	c.SetList("gone", catalogue.Resources, items([2]string{"late", `{}`}))
	want := c.Snapshot()
	end(t, c)
	again := catalogueOf(t, open())
	got := again.Snapshot()
	for i, s := range bare(got) {
		if w := bare(want)[i]; !reflect.DeepEqual(s, w) {
			t.Errorf("loaded %+v\nstored %+v", s, w)
		}
	}
	if len(got.Servers) != 3 || got.Server("b").Lists[catalogue.Tools] == nil || got.Server("b").Lists[catalogue.Prompts] != nil {
		t.Errorf("loaded %d servers; b: %v", len(got.Servers), got.Server("b").Lists)
	}
	for uri, owner := range map[string]string{"z": "a", "own": "b", "late": "gone", "other": ""} {
		if got.Owner(uri) != owner {
			t.Errorf("%s belongs to %q, want %q", uri, got.Owner(uri), owner)
		}
	}
	again.Keep(map[string]catalogue.Kept{"a": {Transport: "STDIO"}, "b": {Transport: "HTTP"}})
	end(t, again)
	last := catalogueOf(t, open())
	defer last.Close()
	if s := last.Snapshot(); len(s.Servers) != 2 || s.Owner("late") != "" || s.Owner("z") != "a" {
		t.Errorf("after a removal: %d servers, late belongs to %q", len(s.Servers), s.Owner("late"))
	}
}

// A server that is removed and added again has nothing of before, also if both are stored as one change.
func removedAndBack(t *testing.T, open func() catalogue.Store) {
	c := catalogueOf(t, open())
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "STDIO"}})
	c.Describe("a", catalogue.Description{Revision: "r"})
	c.SetList("a", catalogue.Tools, items([2]string{"x", `{}`}))
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Keep(nil)
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "STDIO"}})
	end(t, c)
	again := catalogueOf(t, open())
	defer again.Close()
	if a := again.Snapshot().Server("a"); a == nil || a.Revision != "" || a.Lists[catalogue.Tools] != nil {
		t.Errorf("loaded %+v", a)
	}
}

// A registration stays as it was put when the catalogue stores its server, and when that is left out, as one that cannot be decrypted is. It
// goes with Remove only.
func registeredStays(t *testing.T, open func() catalogue.Store) {
	s := open()
	r, ok := s.(catalogue.Registry)
	if !ok {
		t.Fatalf("%T is no Registry", s)
	}
	one := put(t, r, registration("a"))
	c := catalogueOf(t, s)
	c.Keep(map[string]catalogue.Kept{"a": {ID: one.ID, Transport: "STDIO"}})
	changed := one
	changed.Transport = "HTTP"
	changed = put(t, r, changed)
	c.SetList("a", catalogue.Tools, items([2]string{"x", `{}`})) // the catalogue does not know of the change yet
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, r, changed)
	c.Keep(nil)
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, r, changed)
	if err := r.Remove(t.Context(), one.ID); err != nil {
		t.Error(err)
	}
	end(t, c)
	again := catalogueOf(t, open())
	defer again.Close()
	if n := len(again.Snapshot().Servers); n != 0 {
		t.Errorf("%d servers are left", n)
	}
}

// What is approved of a server of the configuration goes with it. Before it is in the catalogue something may be approved already.
func pinsOfConfigured(t *testing.T, open func() catalogue.Store) {
	s := open()
	p, ok := s.(catalogue.Pins)
	if !ok {
		t.Fatalf("%T is no Pins", s)
	}
	id := catalogue.ConfiguredID("a")
	putPins(t, p, id, pin("tools", "x", "{}"))
	c := catalogueOf(t, s)
	defer end(t, c)
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "STDIO"}})
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantPins(t, p, id, pin("tools", "x", "{}"))
	c.Keep(nil)
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantPins(t, p, id)
}
