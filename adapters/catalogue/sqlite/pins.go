package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"dragoman/adapters/catalogue"
)

// Pins implements catalogue.Pins.
func (s *Store) Pins(ctx context.Context, server string) (all []catalogue.Pin, err error) {
	return all, s.each(ctx, "SELECT kind, key, hash, definition, approved_by, approved_at FROM pins WHERE server_id = ? ORDER BY kind, key", func(rows *sql.Rows) error {
		var p catalogue.Pin
		var hash []byte
		var at int64
		if err := rows.Scan(&p.Kind, &p.Key, &hash, &p.Definition, &p.By, &at); err != nil {
			return err
		}
		if len(hash) != len(p.Hash) {
			return fmt.Errorf("the pin of %s %q has a hash of %d bytes", p.Kind, p.Key, len(hash))
		}
		p.Hash, p.At = [len(p.Hash)]byte(hash), instant(at)
		all = append(all, p)
		return nil
	}, server)
}

// PutPins implements catalogue.Pins.
func (s *Store) PutPins(ctx context.Context, server string, pins []catalogue.Pin) error {
	err := s.transaction(ctx, func(tx *sql.Tx) error {
		for i := range pins {
			p := &pins[i]
			if _, err := tx.ExecContext(ctx, `INSERT INTO pins(server_id, kind, key, hash, definition, approved_by, approved_at) VALUES (?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT(server_id, kind, key) DO UPDATE SET hash = excluded.hash, definition = excluded.definition, approved_by = excluded.approved_by, approved_at = excluded.approved_at`,
				server, p.Kind, p.Key, p.Hash[:], append([]byte{}, p.Definition...), p.By, stamp(p.At)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("catalogue: %w", err)
	}
	return nil
}

// RemovePins implements catalogue.Pins.
func (s *Store) RemovePins(ctx context.Context, server string) error {
	if _, err := s.db.ExecContext(ctx, removePins, server); err != nil {
		return fmt.Errorf("catalogue: %w", err)
	}
	return nil
}

const removePins = "DELETE FROM pins WHERE server_id = ?"
