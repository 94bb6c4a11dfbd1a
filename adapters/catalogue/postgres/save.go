package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"dragoman/adapters/catalogue"
)

// Save implements catalogue.Store.
func (s *Store) Save(ctx context.Context, changes []catalogue.Change) error {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	if err := s.there(); err != nil {
		return err
	}
	others := map[string]string{}
	err := s.write(ctx, func(tx pgx.Tx) error {
		for i := range changes {
			if err := s.save(ctx, tx, &changes[i], others); err != nil {
				return fmt.Errorf("%s: %w", changes[i].Server.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return away(err)
	}
	if len(others) > 0 && s.opt.Owners != nil {
		s.opt.Owners(others)
	}
	return nil
}

// save stores a change, and adds to others the URIs that are owned by another server.
func (s *Store) save(ctx context.Context, tx pgx.Tx, change *catalogue.Change, others map[string]string) error {
	of := change.Server
	if change.Removed {
		return s.drop(ctx, tx, of.ID)
	}
	known, err := s.saveServer(ctx, tx, of)
	if err != nil || !known {
		return err
	}
	for kind := range catalogue.Kinds {
		if change.Parts&(1<<kind) == 0 {
			continue
		}
		if err := saveList(ctx, tx, of.ID, kind, of.Lists[kind]); err != nil {
			return err
		}
	}
	if err := own(ctx, tx, of, change.Owned, others); err != nil {
		return err
	}
	return s.saveStatus(ctx, tx, of)
}

// own gives a server URIs that belong to nobody, and adds to others those that do.
func own(ctx context.Context, tx pgx.Tx, of *catalogue.Server, uris []string, others map[string]string) error {
	uris = slices.DeleteFunc(slices.Clone(uris), func(uri string) bool { return !storable(uri) })
	if len(uris) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, "INSERT INTO mcp.resource_owners(uri, server_id) SELECT unnest($1::text[]), $2 ON CONFLICT DO NOTHING", uris, of.ID); err != nil {
		return err
	}
	return each(ctx, tx, "SELECT o.uri, s.name FROM mcp.resource_owners o JOIN mcp.external_servers s ON s.id = o.server_id WHERE o.uri = ANY($1) AND o.server_id <> $2", func(rows pgx.Rows) error {
		var uri, name string
		err := rows.Scan(&uri, &name)
		others[uri] = name
		return err
	}, uris, of.ID)
}

// drop removes what this instance knows of a server that it does not have any more, and the server itself, with what was approved of it, if no other instance has it. A
// registered server is removed by Remove only.
func (s *Store) drop(ctx context.Context, tx pgx.Tx, id string) error {
	if _, err := tx.Exec(ctx, "DELETE FROM mcp.server_status WHERE server_id = $1 AND instance = $2", id, s.opt.Instance); err != nil {
		return err
	}
	done, err := tx.Exec(ctx, "DELETE FROM mcp.external_servers WHERE id = $1 AND version IS NULL AND NOT EXISTS (SELECT FROM mcp.server_status WHERE server_id = $1)", id)
	if err != nil || done.RowsAffected() == 0 {
		return err
	}
	_, err = tx.Exec(ctx, removeOf, id)
	return err
}

// saveServer writes the row of a server. It reports whether there is one: that of a registered server is made by Put, and the name of one of
// the configuration may be that of a registered server.
func (s *Store) saveServer(ctx context.Context, tx pgx.Tx, of *catalogue.Server) (known bool, err error) {
	tools := 0
	if l := of.Lists[catalogue.Tools]; l != nil {
		tools = len(l.Items)
	}
	query, fields := updateServer, []any{of.ID, of.Name, of.Transport, of.Origin, clean(of.Revision), object(of.Info), object(of.Capabilities), clean(of.Instructions), tools,
		fetched(of, catalogue.Tools), fetched(of, catalogue.Prompts), fetched(of, catalogue.Resources), fetched(of, catalogue.Templates)}
	if of.ID == catalogue.ConfiguredID(of.Name) {
		query, fields = upsertServer, append(fields, of.Registered)
	}
	done, err := tx.Exec(ctx, query, fields...)
	return done.RowsAffected() > 0, err
}

// The row of a registered server, whose transport Put writes, and of one of the configuration.
const (
	updateServer = `UPDATE mcp.external_servers SET transport_type = CASE WHEN version IS NULL THEN $3 ELSE transport_type END, origin = $4, revision = $5, server_info = $6, capabilities = $7, instructions = $8,
		tool_count = $9, tools_at = $10, prompts_at = $11, resources_at = $12, templates_at = $13 WHERE id = $1 AND name = $2`
	upsertServer = `INSERT INTO mcp.external_servers(id, name, transport_type, origin, revision, server_info, capabilities, instructions, tool_count, tools_at, prompts_at, resources_at, templates_at, registered_at)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14 WHERE NOT EXISTS (SELECT FROM mcp.external_servers WHERE name = $2 AND id <> $1)
		ON CONFLICT (id) DO UPDATE SET transport_type = excluded.transport_type, origin = excluded.origin, revision = excluded.revision, server_info = excluded.server_info,
			capabilities = excluded.capabilities, instructions = excluded.instructions, tool_count = excluded.tool_count, tools_at = excluded.tools_at, prompts_at = excluded.prompts_at,
			resources_at = excluded.resources_at, templates_at = excluded.templates_at`
)

// saveStatus writes how a server is for this instance. The instance may have no row yet, or none any more.
func (s *Store) saveStatus(ctx context.Context, tx pgx.Tx, of *catalogue.Server) error {
	if s.opt.Instance == "" {
		return nil
	}
	if _, err := tx.Exec(ctx, "INSERT INTO mcp.instances(name) VALUES ($1) ON CONFLICT DO NOTHING", s.opt.Instance); err != nil {
		return err
	}
	st := &of.Status
	_, err := tx.Exec(ctx, `INSERT INTO mcp.server_status(server_id, instance, status, status_since, connected_at, last_health_check, response_time_ms, consecutive_failures, last_error)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (server_id, instance) DO UPDATE SET status = excluded.status, status_since = excluded.status_since, connected_at = excluded.connected_at,
			last_health_check = excluded.last_health_check, response_time_ms = excluded.response_time_ms, consecutive_failures = excluded.consecutive_failures, last_error = excluded.last_error`,
		of.ID, s.opt.Instance, st.State, stamp(st.Since), stamp(st.ConnectedAt), stamp(st.CheckedAt), st.ResponseTime.Milliseconds(), st.ConsecutiveFailures, clean(st.LastError))
	return err
}

// saveList replaces a list; nil: the server has listed nothing.
func saveList(ctx context.Context, tx pgx.Tx, server string, kind catalogue.Kind, l *catalogue.List) error {
	if _, err := tx.Exec(ctx, "DELETE FROM mcp."+tables[kind]+" WHERE source_server_id = $1", server); err != nil || l == nil {
		return err
	}
	columns := []string{"source_server_id", "position", "original_name", "definition", "hash", "created_at", "updated_at"}
	rows := make([][]any, 0, len(l.Items))
	for i := range l.Items {
		if item := &l.Items[i]; storable(item.Key) && utf8.Valid(item.Raw) {
			rows = append(rows, []any{server, i, item.Key, string(item.Raw), item.Sum[:], item.Since, item.Changed})
		}
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"mcp", tables[kind]}, columns, pgx.CopyFromRows(rows))
	return err
}

// tables are the tables of the kinds.
var tables = [catalogue.Kinds]string{"tools", "prompts", "resources", "resource_templates"}

// Load implements catalogue.Store. How servers were before is not loaded.
func (s *Store) Load(ctx context.Context) (stored catalogue.Stored, err error) {
	if err := s.there(); err != nil {
		return stored, err
	}
	stored.Owners = map[string]string{}
	byID := map[string]*catalogue.Server{}
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := each(ctx, tx, `SELECT id, name, transport_type, origin, registered_at, revision, server_info, capabilities, instructions, tools_at, prompts_at, resources_at, templates_at
			FROM mcp.external_servers`, func(rows pgx.Rows) error {
			one, err := scanServer(rows)
			stored.Servers, byID[one.ID] = append(stored.Servers, one), one
			return err
		}); err != nil {
			return err
		}
		for kind := range catalogue.Kinds {
			if err := each(ctx, tx, "SELECT source_server_id, original_name, definition, hash, created_at, updated_at FROM mcp."+tables[kind]+" ORDER BY source_server_id, position",
				func(rows pgx.Rows) error { return scanItem(rows, byID, kind) }); err != nil {
				return err
			}
		}
		return each(ctx, tx, "SELECT o.uri, s.name FROM mcp.resource_owners o JOIN mcp.external_servers s ON s.id = o.server_id", func(rows pgx.Rows) error {
			var uri, name string
			err := rows.Scan(&uri, &name)
			stored.Owners[uri] = name
			return err
		})
	})
	if err != nil {
		return catalogue.Stored{}, away(err)
	}
	return stored, nil
}

// querier is a transaction, or the pool.
type querier interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

// each calls f for each row of a query.
func each(ctx context.Context, q querier, query string, f func(pgx.Rows) error, args ...any) error {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func scanServer(rows pgx.Rows) (*catalogue.Server, error) {
	s := &catalogue.Server{}
	var info, capabilities *string
	var at [catalogue.Kinds]*time.Time
	err := rows.Scan(&s.ID, &s.Name, &s.Transport, &s.Origin, &s.Registered, &s.Revision, &info, &capabilities, &s.Instructions,
		&at[catalogue.Tools], &at[catalogue.Prompts], &at[catalogue.Resources], &at[catalogue.Templates])
	for _, part := range []struct {
		to   *[]byte
		from *string
	}{{&s.Info, info}, {&s.Capabilities, capabilities}} {
		if part.from != nil {
			*part.to = []byte(*part.from)
		}
	}
	for kind, when := range at {
		if when != nil {
			s.Lists[kind] = &catalogue.List{Fetched: *when}
		}
	}
	return s, err
}

// errHash means that a hash has another length than ours.
var errHash = errors.New("a hash has a wrong length")

// scanItem appends an item to the list of its server.
func scanItem(rows pgx.Rows, servers map[string]*catalogue.Server, kind catalogue.Kind) error {
	var server string
	var item catalogue.Item
	var definition string
	var sum []byte
	if err := rows.Scan(&server, &item.Key, &definition, &sum, &item.Since, &item.Changed); err != nil {
		return err
	}
	if len(sum) != len(item.Sum) {
		return fmt.Errorf("%s %q: %w", kind, item.Key, errHash)
	}
	item.Raw, item.Sum = []byte(definition), [len(item.Sum)]byte(sum)
	if s := servers[server]; s != nil && s.Lists[kind] != nil {
		s.Lists[kind].Items = append(s.Lists[kind].Items, item)
	}
	return nil
}

// maxKey bounds the keys that are stored: those of an index of PostgreSQL may have 2,704 bytes.
const maxKey = 2000

// storable reports whether PostgreSQL takes a text as a key. Items with other keys are not stored: a restart waits for the server to list them.
func storable(text string) bool {
	return len(text) <= maxKey && utf8.ValidString(text) && !strings.Contains(text, "\x00")
}

// clean returns a text as PostgreSQL takes it.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// object returns a JSON object as PostgreSQL takes it; nil: none.
func object(raw []byte) *string {
	if raw == nil {
		return nil
	}
	text := clean(string(raw))
	return &text
}

// fetched returns when a server has listed a kind last; nil: never.
func fetched(s *catalogue.Server, kind catalogue.Kind) *time.Time {
	if s.Lists[kind] == nil {
		return nil
	}
	return &s.Lists[kind].Fetched
}

// stamp returns a time as it is stored; nil: none.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
