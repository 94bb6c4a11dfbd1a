package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/goccy/go-json"

	"dragoman/adapters/catalogue"
)

// Categories implements catalogue.Categories.
func (s *Store) Categories(ctx context.Context) (all []catalogue.Category, err error) {
	return all, s.each(ctx, "SELECT name, description, keywords, removed, changed_at FROM categories ORDER BY name", func(rows *sql.Rows) error {
		var c catalogue.Category
		var keywords []byte
		var at int64
		if err := rows.Scan(&c.Name, &c.Description, &keywords, &c.Removed, &at); err != nil {
			return err
		}
		c.At = instant(at)
		if err := json.Unmarshal(keywords, &c.Keywords); err != nil {
			return fmt.Errorf("the category %q: %w", c.Name, err)
		}
		all = append(all, c)
		return nil
	})
}

// PutCategory implements catalogue.Categories.
func (s *Store) PutCategory(ctx context.Context, c catalogue.Category) error {
	keywords, err := json.Marshal(append([]string{}, c.Keywords...))
	if err == nil {
		_, err = s.db.ExecContext(ctx, `INSERT INTO categories(name, description, keywords, removed, changed_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT(name) DO UPDATE SET description = excluded.description, keywords = excluded.keywords, removed = excluded.removed, changed_at = excluded.changed_at`,
			c.Name, c.Description, string(keywords), c.Removed, stamp(c.At))
	}
	if err != nil {
		return fmt.Errorf("catalogue: %w", err)
	}
	return nil
}

// DropCategory implements catalogue.Categories.
func (s *Store) DropCategory(ctx context.Context, name string) error {
	if _, err := s.db.ExecContext(ctx, "DELETE FROM categories WHERE name = ?", name); err != nil {
		return fmt.Errorf("catalogue: %w", err)
	}
	return nil
}
