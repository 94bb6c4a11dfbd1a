package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dragoman/adapters/catalogue"
)

// Categories implements catalogue.Categories.
func (s *Store) Categories(ctx context.Context) (all []catalogue.Category, err error) {
	if err := s.there(); err != nil {
		return nil, err
	}
	err = each(ctx, s.pool, `SELECT name, description, keywords, removed, changed_at FROM mcp.categories ORDER BY name COLLATE "C"`, func(rows pgx.Rows) error {
		var c catalogue.Category
		if err := rows.Scan(&c.Name, &c.Description, &c.Keywords, &c.Removed, &c.At); err != nil {
			return err
		}
		all = append(all, c)
		return nil
	})
	if err != nil {
		return nil, away(err)
	}
	return all, nil
}

// PutCategory implements catalogue.Categories.
func (s *Store) PutCategory(ctx context.Context, c catalogue.Category) error {
	keywords := []string{}
	for _, one := range c.Keywords {
		keywords = append(keywords, clean(one))
	}
	return s.category(ctx, `INSERT INTO mcp.categories(name, description, keywords, removed, changed_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (name) DO UPDATE SET description = excluded.description, keywords = excluded.keywords, removed = excluded.removed, changed_at = excluded.changed_at`,
		c.Name, clean(c.Description), keywords, c.Removed, c.At)
}

// DropCategory implements catalogue.Categories.
func (s *Store) DropCategory(ctx context.Context, name string) error {
	return s.category(ctx, "DELETE FROM mcp.categories WHERE name = $1", name)
}

// category changes a category.
func (s *Store) category(ctx context.Context, change string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	if err := s.there(); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, change, args...); err != nil {
		return away(err)
	}
	return nil
}
