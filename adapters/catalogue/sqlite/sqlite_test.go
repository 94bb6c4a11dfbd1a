package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/storetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("CATALOGUE_TEST_WRITES"); path != "" {
		os.Exit(writeForever(path))
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// catalogueOf opens a catalogue on a file.
func catalogueOf(t *testing.T, path string) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Open(t.Context(), catalogue.Options{Store: open(t, path), Now: func() time.Time { return time.UnixMilli(1_800_000_000_123) }, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// content returns the servers of a snapshot by value, for a comparison.
func content(s *catalogue.Snapshot) (all []catalogue.Server) {
	for _, one := range s.Servers {
		all = append(all, *one)
	}
	return all
}

func TestStore(t *testing.T) {
	storetest.Store(t, func(t *testing.T) func() catalogue.Store {
		path := filepath.Join(t.TempDir(), "catalogue.db")
		return func() catalogue.Store { return open(t, path) }
	})
}

// How a server was is kept, and keys of any bytes.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalogue.db")
	c := catalogueOf(t, path)
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "STDIO"}})
	at := time.UnixMilli(1_800_000_000_456)
	c.SetStatus("a", catalogue.Status{State: "DEGRADED", Since: at, ConnectedAt: at.Add(1e9), CheckedAt: at.Add(2e9), ResponseTime: 12 * time.Millisecond, ConsecutiveFailures: 2, LastError: "no answer"})
	c.SetList("a", catalogue.Prompts, catalogue.List{Items: []catalogue.Item{{Key: "a\x00b\xff", Raw: []byte(`{}`)}}})
	want := c.Snapshot()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	again := catalogueOf(t, path)
	defer again.Close()
	if got := again.Snapshot(); !reflect.DeepEqual(content(got), content(want)) {
		t.Errorf("loaded %+v\nstored %+v", content(got), content(want))
	}
}

// The tables can be read as seed 004 has them.
func TestTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalogue.db")
	c := catalogueOf(t, path)
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "STDIO"}})
	c.SetList("a", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "x", Raw: []byte(`{"name":"x","description":"does x","inputSchema":{"type":"object"}}`)}}})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	defer s.Close()
	var server, original, description, schema string
	var count int
	if err := s.db.QueryRowContext(t.Context(), `SELECT e.name, tool_count, original_name, t.description, input_schema FROM external_servers e
		JOIN tools t ON t.source_server_id = e.id`).Scan(&server, &count, &original, &description, &schema); err != nil {
		t.Fatal(err)
	}
	if server != "a" || count != 1 || original != "x" || description != "does x" || schema != `{"type":"object"}` {
		t.Errorf("read %s, %d tools, %s, %s, %s", server, count, original, description, schema)
	}
	if _, err := s.db.ExecContext(t.Context(), "DELETE FROM external_servers"); err != nil {
		t.Fatal(err)
	}
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM tools").Scan(&count); err != nil || count != 0 {
		t.Errorf("%d tools are left, error %v", count, err)
	}
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer.db")
	s := open(t, newer)
	if _, err := s.db.ExecContext(t.Context(), fmt.Sprintf("PRAGMA user_version = %d", len(migrations)+1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.db")
	s = open(t, foreign)
	if _, err := s.db.ExecContext(t.Context(), "PRAGMA user_version = 0"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{newer: "newer Dragoman", foreign: "migration 1: ", garbage: "not a database", filepath.Join(dir, "none", "x.db"): "unable to open"} {
		if s, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, error %v, want %q", path, s, err, want)
		}
	}
}

// A file of each earlier version has all that it had after it was opened.
func TestMigrations(t *testing.T) {
	for version := 1; version < len(migrations); version++ {
		path := filepath.Join(t.TempDir(), "catalogue.db")
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		statements := append(slices.Clone(migrations[:version]), fmt.Sprintf("PRAGMA user_version = %d", version),
			`INSERT INTO external_servers(id, name, transport_type, origin, registered_at, revision, server_info, capabilities, instructions, status, status_since, connected_at,
				last_health_check, response_time_ms, consecutive_failures, last_error, tool_count, tools_at, prompts_at, resources_at, templates_at) VALUES ('7', 'a', 'HTTP', NULL, 1, 'r', NULL, NULL, 'i', 'CONNECTED', 2, 3, 4, 5, 6, 'e', 1, 7, NULL, NULL, NULL)`,
			`INSERT INTO tools(source_server_id, position, original_name, definition, hash, created_at, updated_at) VALUES ('7', 0, 't', '{}', zeroblob(32), 1, 2)`,
			`INSERT INTO resource_owners VALUES ('u', '7')`)
		for _, statement := range statements {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("version %d: %v", version, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		stored, err := s.Load(t.Context())
		if err != nil || len(stored.Servers) != 1 || stored.Owners["u"] != "a" {
			t.Fatalf("version %d: %+v, %v", version, stored, err)
		}
		if a := stored.Servers[0]; a.ID != "7" || a.Status.LastError != "e" || len(a.Lists[catalogue.Tools].Items) != 1 {
			t.Errorf("version %d: %+v", version, a)
		}
		if all, err := s.Registrations(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("version %d: registered %+v, %v", version, all, err)
		}
	}
}

// A transaction of which a part fails stores nothing.
func TestSaveIsAllOrNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "catalogue.db"))
	a := &catalogue.Server{ID: "1", Name: "a"}
	if err := s.Save(t.Context(), []catalogue.Change{{Server: a, Parts: catalogue.Head}, {Server: &catalogue.Server{ID: "2", Name: "a"}, Parts: catalogue.Head}}); err == nil || !strings.Contains(err.Error(), "a: ") {
		t.Fatalf("two servers of one name: error %v", err)
	}
	if stored, err := s.Load(t.Context()); err != nil || len(stored.Servers) != 0 {
		t.Errorf("stored %v, error %v", stored.Servers, err)
	}
}

// listOf is a list of which each item names the generation.
func listOf(generation int) (items []catalogue.Item) {
	for i := range 20 {
		items = append(items, catalogue.Item{Key: fmt.Sprintf("demo:%d/%d", i%10*generation, i), Raw: fmt.Appendf(nil, `{"generation":%d}`, generation)})
	}
	return items
}

// writeForever stores one generation after the other, and prints each that is stored, until it is killed.
func writeForever(path string) int {
	ctx := context.Background()
	store, err := Open(ctx, path)
	if err == nil {
		var c *catalogue.Catalogue
		if c, err = catalogue.Open(ctx, catalogue.Options{Store: store}); err == nil {
			c.Keep(map[string]catalogue.Kept{"a": {Transport: "STDIO"}})
			for generation := firstGeneration(c.Snapshot()); err == nil; generation++ {
				c.SetList("a", catalogue.Resources, catalogue.List{Items: listOf(generation)})
				if err = c.Flush(ctx); err == nil {
					fmt.Println(generation)
				}
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// firstGeneration is the one after the stored.
func firstGeneration(s *catalogue.Snapshot) int { return generationOf(s) + 1 }

// generationOf returns the generation that all items have; 0: there is none, -1: they differ.
func generationOf(s *catalogue.Snapshot) int {
	a := s.Server("a")
	if a == nil || a.Lists[catalogue.Resources] == nil {
		return 0
	}
	items := a.Lists[catalogue.Resources].Items
	for _, item := range items {
		if string(item.Raw) != string(items[0].Raw) || s.Owner(item.Key) != "a" {
			return -1
		}
	}
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(string(items[0].Raw), `{"generation":`), "}"))
	if err != nil || len(items) != 20 {
		return -1
	}
	return n
}

// A process that is killed while it writes loses nothing that was stored, and leaves no half of anything.
func TestKilledWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalogue.db")
	for n := range 100 {
		stored := killWriter(t, path, n%7)
		store := open(t, path)
		c, err := catalogue.Open(t.Context(), catalogue.Options{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		found := generationOf(c.Snapshot())
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if found < stored {
			t.Fatalf("kill %d: generation %d was stored, %d is there", n, stored, found)
		}
	}
}

// killWriter runs a writer, kills it once it has stored some generations, and returns the last that it has reported.
func killWriter(t *testing.T, path string, generations int) (stored int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "CATALOGUE_TEST_WRITES="+path)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i := 0; i <= generations && lines.Scan(); i++ {
		stored, _ = strconv.Atoi(lines.Text())
	}
	_ = cmd.Process.Kill()
	for lines.Scan() { // what it has reported before it died
		stored, _ = strconv.Atoi(lines.Text())
	}
	if _ = cmd.Wait(); stored == 0 {
		t.Fatalf("the writer has stored nothing: %s", &complaint)
	}
	return stored
}
