package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"dragoman/adapters/catalogue"
)

// Registrations implements catalogue.Registry.
func (s *Store) Registrations(ctx context.Context) (all []catalogue.Registration, err error) {
	if err := s.there(); err != nil {
		return nil, err
	}
	err = each(ctx, s.pool, `SELECT id, name, transport_type, registered_at, version, description, connection_config, health_check_url, wanted, disabled_tools, updated_at
		FROM mcp.external_servers WHERE version IS NOT NULL ORDER BY name COLLATE "C"`, func(rows pgx.Rows) error {
		var r catalogue.Registration
		var connection string
		var updated *time.Time
		err := rows.Scan(&r.ID, &r.Name, &r.Transport, &r.Registered, &r.Revision, &r.Description, &connection, &r.HealthURL, &r.Wanted, &r.Disabled, &updated)
		r.Connection = []byte(connection)
		if updated != nil {
			r.Updated = *updated
		}
		all = append(all, r)
		return err
	})
	if err != nil {
		return nil, away(err)
	}
	return all, nil
}

// Put implements catalogue.Registry.
func (s *Store) Put(ctx context.Context, r catalogue.Registration) (catalogue.Registration, error) {
	err := s.change(ctx, func(tx pgx.Tx) error {
		if err := admit(ctx, tx, &r); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO mcp.external_servers(id, name, transport_type, registered_at, version, description, connection_config, health_check_url, wanted, disabled_tools, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
			ON CONFLICT (id) DO UPDATE SET name = excluded.name, transport_type = excluded.transport_type, version = excluded.version, description = excluded.description,
				connection_config = excluded.connection_config, health_check_url = excluded.health_check_url, wanted = excluded.wanted, disabled_tools = excluded.disabled_tools, updated_at = excluded.updated_at`,
			r.ID, r.Name, r.Transport, r.Registered, r.Revision+1, clean(r.Description), string(r.Connection), clean(r.HealthURL), r.Wanted, cleaned(r.Disabled), stamp(r.Updated))
		return err
	})
	if err != nil {
		return r, err
	}
	r.Revision++
	return r, nil
}

// change makes a change of the registrations, of which all instances are told.
func (s *Store) change(ctx context.Context, f func(pgx.Tx) error) error {
	if err := s.there(); err != nil {
		return err
	}
	err := s.write(ctx, func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT pg_notify($1, '')", channel)
		return err
	})
	for _, known := range []error{catalogue.ErrExists, catalogue.ErrGone, catalogue.ErrStale} {
		if errors.Is(err, known) {
			return err
		}
	}
	if err != nil {
		return away(err)
	}
	return nil
}

// admit reports why a registration cannot be put. A row of its name that is no registration is of a server that the configuration of some
// instance has, or had: it makes way.
func admit(ctx context.Context, tx pgx.Tx, r *catalogue.Registration) error {
	var stored *int64
	err := tx.QueryRow(ctx, "SELECT version FROM mcp.external_servers WHERE id = $1", r.ID).Scan(&stored)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return err
	case r.Revision > 0 && stored == nil:
		return catalogue.ErrGone
	case stored != nil && *stored != r.Revision:
		return catalogue.ErrStale
	}
	var taken bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM mcp.external_servers WHERE name = $1 AND id <> $2 AND version IS NOT NULL)", r.Name, r.ID).Scan(&taken); err != nil {
		return err
	}
	if taken {
		return catalogue.ErrExists
	}
	_, err = tx.Exec(ctx, "DELETE FROM mcp.external_servers WHERE name = $1 AND id <> $2", r.Name, r.ID)
	return err
}

// Remove implements catalogue.Registry.
func (s *Store) Remove(ctx context.Context, id string) error {
	return s.change(ctx, func(tx pgx.Tx) error {
		done, err := tx.Exec(ctx, "DELETE FROM mcp.external_servers WHERE id = $1 AND version IS NOT NULL", id)
		switch {
		case err != nil:
			return err
		case done.RowsAffected() == 0:
			return catalogue.ErrGone
		}
		_, err = tx.Exec(ctx, removeOf, id)
		return err
	})
}

// Statuses implements catalogue.Instances.
func (s *Store) Statuses(ctx context.Context) (map[string][]catalogue.InstanceStatus, error) {
	if err := s.there(); err != nil {
		return nil, err
	}
	all := map[string][]catalogue.InstanceStatus{}
	err := each(ctx, s.pool, `SELECT t.server_id, t.instance, t.status, t.status_since, t.connected_at, t.last_health_check, t.response_time_ms, t.consecutive_failures, t.last_error
		FROM mcp.server_status t JOIN mcp.instances i ON i.name = t.instance WHERE i.seen_at > now() - make_interval(secs => $1) ORDER BY t.instance COLLATE "C"`, func(rows pgx.Rows) error {
		var id string
		var one catalogue.InstanceStatus
		var since, connected, checked *time.Time
		var took int64
		err := rows.Scan(&id, &one.Instance, &one.State, &since, &connected, &checked, &took, &one.ConsecutiveFailures, &one.LastError)
		for _, at := range []struct{ to, from *time.Time }{{&one.Since, since}, {&one.ConnectedAt, connected}, {&one.CheckedAt, checked}} {
			if at.from != nil {
				*at.to = *at.from
			}
		}
		one.ResponseTime = time.Duration(took) * time.Millisecond
		all[id] = append(all[id], one)
		return err
	}, aliveTime.Seconds())
	if err != nil {
		return nil, away(err)
	}
	return all, nil
}

func cleaned(all []string) []string {
	out := make([]string, len(all))
	for i, text := range all {
		out[i] = clean(text)
	}
	return out
}
