package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/goccy/go-json"

	"dragoman/adapters/catalogue"
)

// Registrations implements catalogue.Registry.
func (s *Store) Registrations(ctx context.Context) (all []catalogue.Registration, err error) {
	return all, s.each(ctx, `SELECT id, name, transport_type, registered_at, version, description, connection_config, health_check_url, wanted, disabled_tools, updated_at
	FROM external_servers WHERE version IS NOT NULL ORDER BY name`, func(rows *sql.Rows) error {
		var r catalogue.Registration
		var registered, updated int64
		var disabled []byte
		if err := rows.Scan(&r.ID, &r.Name, &r.Transport, &registered, &r.Revision, &r.Description, &r.Connection, &r.HealthURL, &r.Wanted, &disabled, &updated); err != nil {
			return err
		}
		if err := json.Unmarshal(disabled, &r.Disabled); err != nil {
			return fmt.Errorf("%s: disabled_tools: %w", r.Name, err)
		}
		r.Registered, r.Updated = instant(registered), instant(updated)
		all = append(all, r)
		return nil
	})
}

// Put implements catalogue.Registry.
func (s *Store) Put(ctx context.Context, r catalogue.Registration) (catalogue.Registration, error) {
	disabled, err := json.Marshal(append([]string{}, r.Disabled...))
	if err != nil {
		return r, fmt.Errorf("catalogue: %w", err)
	}
	err = s.transaction(ctx, func(tx *sql.Tx) error {
		if err := admit(ctx, tx, &r); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO external_servers(id, name, transport_type, registered_at, version, description, connection_config, health_check_url, wanted, disabled_tools, updated_at,
			revision, instructions, status, status_since, connected_at, last_health_check, response_time_ms, consecutive_failures, last_error, tool_count)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '', ?, 0, 0, 0, 0, 0, '', 0)
			ON CONFLICT(id) DO UPDATE SET name = excluded.name, transport_type = excluded.transport_type, registered_at = excluded.registered_at, version = excluded.version,
			description = excluded.description, connection_config = excluded.connection_config, health_check_url = excluded.health_check_url,
			wanted = excluded.wanted, disabled_tools = excluded.disabled_tools, updated_at = excluded.updated_at`,
			r.ID, r.Name, r.Transport, stamp(r.Registered), r.Revision+1, r.Description, string(r.Connection), r.HealthURL, r.Wanted, string(disabled), stamp(r.Updated), unknownState)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("catalogue: %w", err)
	}
	r.Revision++
	return r, nil
}

// unknownState is the status of a server that nobody has tried to reach (seed 004, BR-001).
const unknownState = "DISCONNECTED"

// admit reports why a registration cannot be put. A server that is in the catalogue without a registration becomes the registered one, with
// what is known of it: its row is another process's, or of a server that the configuration does not have any more.
func admit(ctx context.Context, tx *sql.Tx, r *catalogue.Registration) error {
	var stored sql.NullInt64
	err := tx.QueryRowContext(ctx, "SELECT version FROM external_servers WHERE id = ?", r.ID).Scan(&stored)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case r.Revision > 0 && !stored.Valid:
		return catalogue.ErrGone
	case stored.Int64 != r.Revision:
		return catalogue.ErrStale
	}
	var id string
	err = tx.QueryRowContext(ctx, "SELECT id, version FROM external_servers WHERE name = ? AND id <> ?", r.Name, r.ID).Scan(&id, &stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case stored.Valid || r.Revision > 0:
		return catalogue.ErrExists
	}
	r.ID = id
	return nil
}

// Remove implements catalogue.Registry.
func (s *Store) Remove(ctx context.Context, id string) error {
	err := s.transaction(ctx, func(tx *sql.Tx) error {
		there, err := remove(ctx, tx, "DELETE FROM external_servers WHERE id = ? AND version IS NOT NULL", id)
		if err == nil && !there {
			return catalogue.ErrGone
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("catalogue: %w", err)
	}
	return nil
}

// remove deletes the row of a server, and what was approved of it. It reports whether there was one.
func remove(ctx context.Context, tx *sql.Tx, query, id string) (there bool, err error) {
	done, err := tx.ExecContext(ctx, query, id)
	if err != nil {
		return false, err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	if _, err = tx.ExecContext(ctx, removePins, id); err != nil {
		return true, err
	}
	_, err = tx.ExecContext(ctx, removeClassifications, id)
	return true, err
}
