package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/storetest"
	"dragoman/internal/testkit"
	"dragoman/internal/testkit/database"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store, and closes it when the test ends.
func open(t *testing.T, url, instance string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: url, Instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestRegistry(t *testing.T) {
	p := database.Start(t)
	storetest.Registry(t, func(t *testing.T) (catalogue.Registry, func() catalogue.Registry) {
		url := p.Database(t)
		s := open(t, url, "")
		return s, func() catalogue.Registry {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			return open(t, url, "")
		}
	})
}

func TestPins(t *testing.T) {
	p := database.Start(t)
	storetest.PinStore(t, func(t *testing.T) (catalogue.Pins, func() catalogue.Pins) {
		url := p.Database(t)
		s := open(t, url, "")
		return s, func() catalogue.Pins {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			return open(t, url, "")
		}
	})
}

// Keys of pins may be of any bytes and length.
func TestHostilePins(t *testing.T) {
	s := open(t, database.Start(t).Database(t), "")
	for _, key := range []string{"\x00\xff", strings.Repeat("x", 100_000)} {
		for range 2 {
			if err := s.PutPins(t.Context(), "1", []catalogue.Pin{{Kind: "tools", Key: key, Definition: []byte("{}"), At: time.UnixMilli(1)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if all, err := s.Pins(t.Context(), "1"); err != nil || len(all) != 2 || all[0].Key != "\x00\xff" || len(all[1].Key) != 100_000 {
		t.Errorf("%d pins, %v", len(all), err)
	}
}

func TestStore(t *testing.T) {
	p := database.Start(t)
	storetest.Store(t, func(t *testing.T) func() catalogue.Store {
		url := p.Database(t)
		return func() catalogue.Store { return open(t, url, t.Name()) }
	})
}

// What PostgreSQL does not take, from servers that send it, keeps nothing else from being stored.
func TestHostileTexts(t *testing.T) {
	url := database.Start(t).Database(t)
	s := open(t, url, "a")
	c := catalogueOf(t, s)
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "STDIO"}})
	c.Describe("a", catalogue.Description{Revision: "\x00\xff", Info: []byte("{\"name\":\"\xff\"}"), Instructions: "a\x00b\xff"})
	c.SetStatus("a", catalogue.Status{State: "ERROR", LastError: "\x00\xff"})
	c.SetList("a", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "a\x00", Raw: []byte(`{}`)}, {Key: "b", Raw: []byte("{\"a\":\"\xff\"}")},
		{Key: strings.Repeat("ä", 1001), Raw: []byte(`{}`)}, {Key: strings.Repeat("ä", 1000), Raw: []byte(`{"b":"\u0000"}`)}}})
	c.SetList("a", catalogue.Resources, catalogue.List{Items: []catalogue.Item{{Key: "a:\x00", Raw: []byte(`{}`)}, {Key: "a:" + strings.Repeat("x", 3000), Raw: []byte(`{}`)}, {Key: "a:b", Raw: []byte(`{}`)}}})
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored, err := s.Load(t.Context())
	if err != nil || len(stored.Servers) != 1 {
		t.Fatalf("%+v, %v", stored, err)
	}
	one := stored.Servers[0]
	if tools := one.Lists[catalogue.Tools].Items; len(tools) != 1 || string(tools[0].Raw) != `{"b":"\u0000"}` || len(stored.Owners) != 1 || stored.Owners["a:b"] != "a" {
		t.Errorf("stored %q, owners %q", tools, stored.Owners)
	}
	if one.Instructions != "a\uFFFDb\uFFFD" || one.Revision != "\uFFFD\uFFFD" {
		t.Errorf("stored %+v", one)
	}
}

// catalogueOf opens a catalogue.
func catalogueOf(t *testing.T, s *Store) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Open(t.Context(), catalogue.Options{Store: s, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// heard waits for a change.
func heard(t *testing.T, s *Store) {
	t.Helper()
	testkit.Receive(t, "a change", s.Changes())
}

// Each instance hears of each change.
func TestChangesAreHeard(t *testing.T) {
	url := database.Start(t).Database(t)
	a, b := open(t, url, "a"), open(t, url, "b")
	heard(t, a) // of the beginning
	heard(t, b)
	one, err := a.Put(t.Context(), catalogue.Registration{ID: "1", Name: "a", Connection: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	heard(t, b)
	heard(t, a)
	if all, err := b.Registrations(t.Context()); err != nil || len(all) != 1 || all[0].Revision != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if err := b.Remove(t.Context(), one.ID); err != nil {
		t.Error(err)
	}
	heard(t, a)
	heard(t, b)
	select {
	case <-a.Changes():
		t.Error("a change that nobody has made")
	default:
	}
}

// Servers of the configuration are one row for all instances, with a status for each. The row goes with the last instance that has it.
func TestInstances(t *testing.T) {
	url := database.Start(t).Database(t)
	stores := map[string]*Store{"a": open(t, url, "a"), "b": open(t, url, "b")}
	catalogues := map[string]*catalogue.Catalogue{}
	id := catalogue.ConfiguredID("x")
	for name, s := range stores {
		c := catalogueOf(t, s)
		catalogues[name] = c
		c.Keep(map[string]catalogue.Kept{"x": {Transport: "HTTP"}})
		c.SetStatus("x", catalogue.Status{State: "state of " + name, Since: time.UnixMilli(1), CheckedAt: time.UnixMilli(2), ResponseTime: time.Second, ConsecutiveFailures: 3, LastError: "e"})
		c.SetList("x", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "t", Raw: []byte(`{}`)}}})
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	statuses := func(of string) (all []string) {
		t.Helper()
		by, err := stores[of].Statuses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range by[id] {
			all = append(all, one.Instance+": "+one.State)
			if !one.CheckedAt.Equal(time.UnixMilli(2)) || one.ResponseTime != time.Second || one.ConsecutiveFailures != 3 || one.LastError != "e" || !one.ConnectedAt.IsZero() {
				t.Errorf("status %+v", one)
			}
		}
		return all
	}
	if got := statuses("a"); !slices.Equal(got, []string{"a: state of a", "b: state of b"}) {
		t.Errorf("statuses %q", got)
	}
	servers := func() int {
		t.Helper()
		stored, err := stores["a"].Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(stored.Servers)
	}
	catalogues["a"].Keep(nil)
	if err := catalogues["a"].Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := statuses("b"); servers() != 1 || !slices.Equal(got, []string{"b: state of b"}) {
		t.Errorf("statuses %q, %d servers", got, servers())
	}
	catalogues["b"].Keep(nil)
	if err := catalogues["b"].Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := servers(); n != 0 {
		t.Errorf("%d servers are left", n)
	}
}

// An instance that was killed no longer counts after aliveTime, and its rows are removed later. The lists of servers stay.
func TestDeadInstance(t *testing.T) {
	url := database.Start(t).Database(t)
	a := open(t, url, "a")
	c := catalogueOf(t, a)
	c.Keep(map[string]catalogue.Kept{"x": {Transport: "HTTP"}})
	c.SetStatus("x", catalogue.Status{State: "CONNECTED"})
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead := func(age time.Duration) {
		database.Exec(t, url, fmt.Sprintf("INSERT INTO mcp.instances VALUES ('dead', now(), now() - interval '%d s') ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at;"+
			"INSERT INTO mcp.server_status VALUES ('%s', 'dead', 'CONNECTED', NULL, NULL, NULL, 0, 0, '') ON CONFLICT DO NOTHING", int(age.Seconds()), catalogue.ConfiguredID("x")))
	}
	count := func() (seen, rows int) {
		t.Helper()
		by, err := a.Statuses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := a.pool.QueryRow(t.Context(), "SELECT count(*) FROM mcp.server_status").Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return len(by[catalogue.ConfiguredID("x")]), rows
	}
	for _, test := range []struct {
		age        time.Duration
		seen, rows int
	}{{aliveTime / 2, 2, 2}, {aliveTime + time.Second, 1, 2}, {3*aliveTime + time.Second, 1, 1}} {
		dead(test.age)
		if err := a.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		if seen, rows := count(); seen != test.seen || rows != test.rows {
			t.Errorf("after %s %d statuses are seen, and %d stored; want %d, %d", test.age, seen, rows, test.seen, test.rows)
		}
	}
	b := open(t, url, "b")
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	var left bool
	if err := a.pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM mcp.instances WHERE name = 'b')").Scan(&left); err != nil || left {
		t.Errorf("a closed instance is left: %v, %v", left, err)
	}
}

// Instances that start at once on an empty database, and on one of each earlier version, all find the newest tables.
func TestMigrations(t *testing.T) {
	p := database.Start(t)
	for version := range len(migrations) + 1 {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			url := p.Database(t)
			if version > 0 {
				old := migrations
				migrations = migrations[:version]
				s, err := Open(t.Context(), Options{URL: url})
				migrations = old
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Registrations(t.Context()); err != nil {
					t.Fatal(err)
				}
				_ = s.Close()
			}
			const many = 4
			var all sync.WaitGroup
			for range many {
				all.Go(func() {
					s, err := Open(t.Context(), Options{URL: url, Instance: t.Name()})
					if err == nil {
						_, err = s.Put(t.Context(), catalogue.Registration{ID: "1", Name: "a", Connection: []byte("{}")})
						err = errors.Join(err, s.Close())
					}
					if err != nil && !errors.Is(err, catalogue.ErrStale) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			s := open(t, url, "")
			if all, err := s.Registrations(t.Context()); err != nil || len(all) != 1 {
				t.Errorf("%v, %v", all, err)
			}
			rows, err := s.pool.Query(t.Context(), "SELECT version FROM mcp.schema_version ORDER BY version")
			if err != nil {
				t.Fatal(err)
			}
			versions, err := pgx.CollectRows(rows, pgx.RowTo[int])
			if want := len(migrations); err != nil || len(versions) != want || versions[want-1] != want {
				t.Errorf("versions %v, %v", versions, err)
			}
		})
	}
	t.Run("newer", func(t *testing.T) {
		url := p.Database(t)
		open(t, url, "")
		database.Exec(t, url, fmt.Sprintf("INSERT INTO mcp.schema_version VALUES (%d)", len(migrations)+1))
		if s, err := Open(t.Context(), Options{URL: url}); !errors.Is(err, errNewer) {
			t.Errorf("opened %v, %v", s, err)
		}
	})
}

// A database that goes away and comes back: what fails says so, nothing is changed, and others hear of what they have missed.
func TestAway(t *testing.T) {
	p := database.Start(t)
	url := p.Database(t)
	noted := make(chan error, 100)
	s, err := Open(t.Context(), Options{URL: url, Instance: "a", Note: func(err error) { noted <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	heard(t, s)
	p.Stop()
	if err := testkit.Receive(t, "the loss", noted); !errors.Is(err, catalogue.ErrAway) {
		t.Errorf("noted %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Put(ctx, catalogue.Registration{ID: "1", Name: "a", Connection: []byte("{}")}); !errors.Is(err, catalogue.ErrAway) {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Registrations(ctx); !errors.Is(err, catalogue.ErrAway) {
		t.Errorf("read: %v", err)
	}
	if _, err := s.Statuses(ctx); !errors.Is(err, catalogue.ErrAway) {
		t.Errorf("statuses: %v", err)
	}
	p.Begin(t)
	if err := testkit.Receive(t, "the return", noted); err != nil {
		t.Errorf("noted %v", err)
	}
	heard(t, s)
	if _, err := s.Put(t.Context(), catalogue.Registration{ID: "1", Name: "a", Connection: []byte("{}")}); err != nil {
		t.Error(err)
	}
}

// A database that is not there yet is waited for.
func TestNotThereYet(t *testing.T) {
	p := database.Start(t)
	url := p.Database(t)
	p.Stop()
	s := open(t, url, "a")
	if _, err := s.Load(t.Context()); !errors.Is(err, catalogue.ErrAway) {
		t.Errorf("load: %v", err)
	}
	p.Begin(t)
	heard(t, s)
	if _, err := s.Load(t.Context()); err != nil {
		t.Error(err)
	}
}

// An error says whether the database may be there later, whatever code it has.
func TestErrorsOfTheDatabase(t *testing.T) {
	for code, isAway := range map[string]bool{"57P01": true, "08006": true, "53300": true, "42501": false, "": false, "5": false} {
		if err := away(&pgconn.PgError{Code: code}); errors.Is(err, catalogue.ErrAway) != isAway {
			t.Errorf("%q: %v", code, err)
		}
	}
}

// Errors never hold the password.
func TestErrorsHoldNoPassword(t *testing.T) {
	for _, url := range []string{"postgres://u:secret@127.0.0.1:1/d?sslmode=disable&connect_timeout=1", "postgres://u:secret@[::1/d", "host=x password=secret port=no"} {
		said := make(chan error, 100)
		s, err := Open(t.Context(), Options{URL: url, Note: func(err error) { said <- err }})
		if err == nil {
			_, err = s.Registrations(t.Context())
			_ = s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
		for len(said) > 0 {
			if err := <-said; strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: noted %v", url, err)
			}
		}
	}
}

// Of two servers that list one URI the same is its owner for all instances, in whatever order each of them has listed it.
func TestOwnersAgree(t *testing.T) {
	url := database.Start(t).Database(t)
	var catalogues []*catalogue.Catalogue
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		var c *catalogue.Catalogue
		s, err := Open(t.Context(), Options{URL: url, Instance: "of " + order[0], Owners: func(owners map[string]string) { c.Adopt(owners) }})
		if err != nil {
			t.Fatal(err)
		}
		c, err = catalogue.Open(t.Context(), catalogue.Options{Store: s, Empty: true, Failed: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		catalogues = append(catalogues, c)
		c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "b": {Transport: "HTTP"}})
		for _, name := range order {
			c.SetList(name, catalogue.Resources, catalogue.List{Items: []catalogue.Item{{Key: "x:shared", Raw: []byte("{}")}, {Key: "x:" + name, Raw: []byte("{}")}}})
		}
		if got := c.Snapshot().Owner("x:shared"); got != order[0] {
			t.Fatalf("it belongs to %s at first, want %s", got, order[0])
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range catalogues {
		if s := c.Snapshot(); s.Owner("x:shared") != "a" || s.Owner("x:a") != "a" || s.Owner("x:b") != "b" {
			t.Errorf("%d: it belongs to %s", i, s.Owner("x:shared"))
		}
	}
	catalogues[0].Adopt(map[string]string{"x:shared": "unknown"})
	if got := catalogues[0].Snapshot().Owner("x:shared"); got != "a" {
		t.Errorf("it belongs to %s", got)
	}
}
