package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"dragoman/adapters/catalogue"
)

// Pins implements catalogue.Pins.
func (s *Store) Pins(ctx context.Context, server string) (all []catalogue.Pin, err error) {
	if err := s.there(); err != nil {
		return nil, err
	}
	err = each(ctx, s.pool, `SELECT kind, key, hash, definition, approved_by, approved_at FROM mcp.pins WHERE server_id = $1 ORDER BY kind COLLATE "C", key`, func(rows pgx.Rows) error {
		var p catalogue.Pin
		var key, hash []byte
		if err := rows.Scan(&p.Kind, &key, &hash, &p.Definition, &p.By, &p.At); err != nil {
			return err
		}
		if len(hash) != len(p.Hash) {
			return fmt.Errorf("the pin of %s %q: %w", p.Kind, key, errHash)
		}
		p.Key, p.Hash = string(key), [len(p.Hash)]byte(hash)
		all = append(all, p)
		return nil
	}, server)
	if err != nil {
		return nil, away(err)
	}
	return all, nil
}

// PutPins implements catalogue.Pins.
func (s *Store) PutPins(ctx context.Context, server string, pins []catalogue.Pin) error {
	return s.change(ctx, func(tx pgx.Tx) error {
		for i := range pins {
			p := &pins[i]
			if _, err := tx.Exec(ctx, `INSERT INTO mcp.pins(server_id, kind, key, hash, definition, approved_by, approved_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
				ON CONFLICT (server_id, kind, sha256(key)) DO UPDATE SET hash = excluded.hash, definition = excluded.definition, approved_by = excluded.approved_by, approved_at = excluded.approved_at`,
				server, p.Kind, []byte(p.Key), p.Hash[:], append([]byte{}, p.Definition...), clean(p.By), p.At); err != nil {
				return err
			}
		}
		return nil
	})
}

// RemovePins implements catalogue.Pins.
func (s *Store) RemovePins(ctx context.Context, server string) error {
	return s.change(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, removePins, server)
		return err
	})
}

const removePins = "DELETE FROM mcp.pins WHERE server_id = $1"
