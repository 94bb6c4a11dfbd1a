// Package sqlite stores a catalogue in a file.
//
// The driver is modernc.org/sqlite: SQLite itself, compiled to Go, so that the binary stays static.
package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver

	"dragoman/adapters/catalogue"
)

// migrations bring the tables from one version to the next. Versions only rise; PRAGMA user_version is that of a file.
var migrations = []string{first, second, third, classified}

//go:embed first.sql
var first string

//go:embed second.sql
var second string

//go:embed third.sql
var third string

//go:embed classified.sql
var classified string

// busyTime is how long a write waits for another process.
const busyTime = 5 * time.Second

// Store is a catalogue in a SQLite file. Several processes may not share it for writing: the newest write counts.
type Store struct{ db *sql.DB }

// Open opens or creates the file, and brings its tables to the newest version. A file of a newer Dragoman is an error.
func Open(ctx context.Context, path string) (*Store, error) {
	dsn := url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTime.Milliseconds()), "journal_mode(wal)", "synchronous(normal)", "foreign_keys(1)"},
		"_txlock": {"immediate"}}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("catalogue %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // one writer, and a reader at the start
	s := &Store{db: db}
	if err := s.migrate(ctx); err != nil {
		return nil, fmt.Errorf("catalogue %s: %w", path, errors.Join(err, db.Close()))
	}
	return s, nil
}

// migrate applies the migrations that the file does not have, each with its version in one transaction.
func (s *Store) migrate(ctx context.Context) error {
	var version int
	if err := s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("the file is of a newer Dragoman (version %d of its tables, %d is known); move it away, or use that Dragoman", version, len(migrations))
	}
	for ; version < len(migrations); version++ {
		err := s.transaction(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, migrations[version]); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version+1))
			return err
		})
		if err != nil {
			return fmt.Errorf("migration %d: %w", version+1, err)
		}
	}
	return nil
}

// transaction calls f in a transaction, which counts if f succeeds.
func (s *Store) transaction(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Close implements catalogue.Store.
func (s *Store) Close() error { return s.db.Close() }

// Save implements catalogue.Store.
func (s *Store) Save(ctx context.Context, changes []catalogue.Change) error {
	return s.transaction(ctx, func(tx *sql.Tx) error {
		for i := range changes {
			if err := save(ctx, tx, &changes[i]); err != nil {
				return fmt.Errorf("catalogue: %s: %w", changes[i].Server.Name, err)
			}
		}
		return nil
	})
}

func save(ctx context.Context, tx *sql.Tx, change *catalogue.Change) error {
	s := change.Server
	if change.Removed { // a registration goes by Remove only: one whose server is left out may be served again
		_, err := remove(ctx, tx, "DELETE FROM external_servers WHERE id = ? AND version IS NULL", s.ID)
		return err
	}
	var other string
	err := tx.QueryRowContext(ctx, "SELECT id FROM external_servers WHERE name = ? AND id <> ? AND version IS NOT NULL", s.Name, s.ID).Scan(&other)
	if !errors.Is(err, sql.ErrNoRows) {
		return err // nil: the name is that of a registered server meanwhile
	}
	if err := saveServer(ctx, tx, s); err != nil {
		return err
	}
	for kind := range catalogue.Kinds {
		if change.Parts&(1<<kind) == 0 {
			continue
		}
		if err := saveList(ctx, tx, s.ID, kind, s.Lists[kind]); err != nil {
			return err
		}
	}
	for _, uri := range change.Owned {
		if _, err := tx.ExecContext(ctx, "INSERT INTO resource_owners(uri, server_id) VALUES (?, ?) ON CONFLICT DO NOTHING", uri, s.ID); err != nil {
			return err
		}
	}
	return nil
}

// saveServer writes the row of a server.
func saveServer(ctx context.Context, tx *sql.Tx, s *catalogue.Server) error {
	tools := 0
	if l := s.Lists[catalogue.Tools]; l != nil {
		tools = len(l.Items)
	}
	st := &s.Status
	_, err := tx.ExecContext(ctx, upsertServer, s.ID, s.Name, s.Transport, s.Origin, stamp(s.Registered), s.Revision, s.Info, s.Capabilities, s.Instructions,
		st.State, stamp(st.Since), stamp(st.ConnectedAt), stamp(st.CheckedAt), st.ResponseTime.Milliseconds(), st.ConsecutiveFailures, st.LastError, tools,
		fetched(s, catalogue.Tools), fetched(s, catalogue.Prompts), fetched(s, catalogue.Resources), fetched(s, catalogue.Templates))
	return err
}

//go:embed upsert_server.sql
var upsertServer string

// saveList replaces a list; nil: the server has listed nothing. Rows of what has not changed are replaced, too: a list is short, and changes seldom.
func saveList(ctx context.Context, tx *sql.Tx, server string, kind catalogue.Kind, l *catalogue.List) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+tables[kind]+" WHERE source_server_id = ?", server); err != nil {
		return err
	}
	if l == nil {
		return nil
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO "+tables[kind]+"(source_server_id, position, original_name, definition, hash, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }()
	for i := range l.Items {
		item := &l.Items[i]
		if _, err := insert.ExecContext(ctx, server, i, item.Key, string(item.Raw), item.Sum[:], stamp(item.Since), stamp(item.Changed)); err != nil {
			return err
		}
	}
	return nil
}

// tables are the tables of the kinds.
var tables = [catalogue.Kinds]string{"tools", "prompts", "resources", "resource_templates"}

// Load implements catalogue.Store.
func (s *Store) Load(ctx context.Context) (stored catalogue.Stored, err error) {
	stored.Owners = map[string]string{}
	byID := map[string]*catalogue.Server{}
	if err := s.each(ctx, selectServers, func(rows *sql.Rows) error {
		one, err := scanServer(rows)
		if err == nil {
			stored.Servers, byID[one.ID] = append(stored.Servers, one), one
		}
		return err
	}); err != nil {
		return stored, err
	}
	for kind := range catalogue.Kinds {
		if err := s.each(ctx, "SELECT source_server_id, original_name, definition, hash, created_at, updated_at FROM "+tables[kind]+" ORDER BY source_server_id, position", func(rows *sql.Rows) error {
			return scanItem(rows, byID, kind)
		}); err != nil {
			return stored, err
		}
	}
	return stored, s.each(ctx, "SELECT uri, server_id FROM resource_owners", func(rows *sql.Rows) error {
		var uri, id string
		err := rows.Scan(&uri, &id)
		if one := byID[id]; one != nil {
			stored.Owners[uri] = one.Name
		}
		return err
	})
}

// each calls f for each row of a query.
func (s *Store) each(ctx context.Context, query string, f func(*sql.Rows) error, args ...any) error {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("catalogue: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows); err != nil {
			return fmt.Errorf("catalogue: %w", err)
		}
	}
	return rows.Err()
}

const selectServers = `SELECT id, name, transport_type, origin, registered_at, revision, server_info, capabilities, instructions, status, status_since,
	connected_at, last_health_check, response_time_ms, consecutive_failures, last_error, tools_at, prompts_at, resources_at, templates_at
	FROM external_servers`

func scanServer(rows *sql.Rows) (*catalogue.Server, error) {
	s := &catalogue.Server{}
	st := &s.Status
	var registered, since, connected, checked, took int64
	var at [catalogue.Kinds]sql.NullInt64
	err := rows.Scan(&s.ID, &s.Name, &s.Transport, &s.Origin, &registered, &s.Revision, &s.Info, &s.Capabilities, &s.Instructions, &st.State, &since,
		&connected, &checked, &took, &st.ConsecutiveFailures, &st.LastError,
		&at[catalogue.Tools], &at[catalogue.Prompts], &at[catalogue.Resources], &at[catalogue.Templates])
	s.Registered, st.Since, st.ConnectedAt, st.CheckedAt = instant(registered), instant(since), instant(connected), instant(checked)
	st.ResponseTime = time.Duration(took) * time.Millisecond
	for kind, when := range at {
		if when.Valid {
			s.Lists[kind] = &catalogue.List{Fetched: instant(when.Int64)}
		}
	}
	return s, err
}

// scanItem appends an item to the list of its server.
func scanItem(rows *sql.Rows, servers map[string]*catalogue.Server, kind catalogue.Kind) error {
	var server string
	var item catalogue.Item
	var sum []byte
	var since, changed int64
	if err := rows.Scan(&server, &item.Key, &item.Raw, &sum, &since, &changed); err != nil {
		return err
	}
	if len(sum) != len(item.Sum) {
		return fmt.Errorf("%s %q has a hash of %d bytes", kind, item.Key, len(sum))
	}
	item.Sum, item.Since, item.Changed = [len(item.Sum)]byte(sum), instant(since), instant(changed)
	if s := servers[server]; s != nil && s.Lists[kind] != nil {
		s.Lists[kind].Items = append(s.Lists[kind].Items, item)
	}
	return nil
}

// fetched returns when a server has listed a kind last; nil: never.
func fetched(s *catalogue.Server, kind catalogue.Kind) any {
	if s.Lists[kind] == nil {
		return nil
	}
	return stamp(s.Lists[kind].Fetched)
}

// stamp is a time as it is stored: milliseconds since 1970; 0: none.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// instant reverses stamp.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
