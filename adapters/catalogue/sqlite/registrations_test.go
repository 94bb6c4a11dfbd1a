package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/storetest"
)

func TestRegistry(t *testing.T) {
	storetest.Registry(t, func(t *testing.T) (catalogue.Registry, func() catalogue.Registry) {
		path := filepath.Join(t.TempDir(), "catalogue.db")
		s := open(t, path)
		return s, func() catalogue.Registry {
			_ = s.Close()
			return open(t, path)
		}
	})
}

func TestPins(t *testing.T) {
	storetest.PinStore(t, func(t *testing.T) (catalogue.Pins, func() catalogue.Pins) {
		path := filepath.Join(t.TempDir(), "catalogue.db")
		s := open(t, path)
		return s, func() catalogue.Pins {
			_ = s.Close()
			return open(t, path)
		}
	})
}

// registered returns a catalogue and the registry of one file.
func registered(t *testing.T) (*catalogue.Catalogue, *Store) {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "catalogue.db"))
	c, err := catalogue.Open(t.Context(), catalogue.Options{Store: s, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, s
}

func flush(t *testing.T, c *catalogue.Catalogue) {
	t.Helper()
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A registration and the state of its server do not touch each other, and the removal of the one is that of the other.
func TestRegistrationAndState(t *testing.T) {
	c, s := registered(t)
	r, err := s.Put(t.Context(), catalogue.Registration{ID: "7", Name: "a", Transport: "HTTP", Connection: []byte(`{}`), Registered: time.UnixMilli(5), Updated: time.UnixMilli(6)})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep(map[string]catalogue.Kept{"a": {ID: "7", Transport: "HTTP"}})
	c.SetStatus("a", catalogue.Status{State: "CONNECTED"})
	c.SetList("a", catalogue.Tools, of("t"))
	c.SetList("a", catalogue.Resources, of("u"))
	flush(t, c)
	r.Description = "new"
	if _, err = s.Put(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	stored, err := s.Load(t.Context())
	if err != nil || len(stored.Servers) != 1 || stored.Servers[0].ID != "7" || stored.Servers[0].Status.State != "CONNECTED" || len(stored.Servers[0].Lists[catalogue.Tools].Items) != 1 {
		t.Errorf("stored %+v, %v", stored.Servers, err)
	}
	if all, err := s.Registrations(t.Context()); err != nil || len(all) != 1 || all[0].Description != "new" || all[0].Revision != 2 {
		t.Errorf("registered %+v, %v", all, err)
	}
	c.Keep(nil) // as the configuration cannot take it for now
	flush(t, c)
	if all, err := s.Registrations(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("registered %+v, %v, after its server was left out", all, err)
	}
	if err := s.Remove(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	if stored, err := s.Load(t.Context()); err != nil || len(stored.Servers)+len(stored.Owners) != 0 {
		t.Errorf("left over: %+v, %v", stored, err)
	}
}

// A server that was in the catalogue before, of the configuration, keeps its id when it is registered. One that is written late does not take
// the place of the registered one that has its name by then.
func TestRegistrationOfAKnownName(t *testing.T) {
	c, s := registered(t)
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}})
	flush(t, c)
	r, err := s.Put(t.Context(), catalogue.Registration{ID: "7", Name: "a", Transport: "HTTP", Connection: []byte(`{}`)})
	if err != nil || r.ID != catalogue.ConfiguredID("a") || r.Revision != 1 {
		t.Fatalf("registered %+v, %v", r, err)
	}
	if err := s.Remove(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if r, err = s.Put(t.Context(), catalogue.Registration{ID: "8", Name: "a", Transport: "SSE", Connection: []byte(`{}`)}); err != nil || r.ID != "8" {
		t.Fatalf("registered %+v, %v", r, err)
	}
	c.SetStatus("a", catalogue.Status{State: "CONNECTED"})
	c.SetList("a", catalogue.Tools, of("t"))
	flush(t, c)
	stored, err := s.Load(t.Context())
	if err != nil || len(stored.Servers) != 1 || stored.Servers[0].ID != "8" || stored.Servers[0].Transport != "SSE" || stored.Servers[0].Lists[catalogue.Tools] != nil {
		t.Errorf("stored %+v, %v", stored.Servers, err)
	}
}

// of returns a list of items with the given keys.
func of(keys ...string) (l catalogue.List) {
	for _, key := range keys {
		l.Items = append(l.Items, catalogue.Item{Key: key, Raw: []byte(`{}`)})
	}
	return l
}
