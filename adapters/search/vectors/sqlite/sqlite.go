// Package sqlite keeps the vectors of tools in a file. They are read when the file is opened, and searched in memory.
package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/url"
	"sync"
	"time"

	"github.com/goccy/go-json"
	_ "modernc.org/sqlite" // the driver

	"dragoman/adapters/search/vectors"
)

//go:embed schema.sql
var schema string

// busyTime is how long a write waits for another process.
const busyTime = 5 * time.Second

// Store is a [vectors.Store] in a SQLite file, which may be that of the catalogue: its tables begin with tool_vectors. The file is for one process.
type Store struct {
	*vectors.Memory // what the file has
	space           vectors.Space
	db              *sql.DB
	mu              sync.Mutex // so that file and memory change in the same order
}

// Open opens or creates the file. Vectors of another space are removed from it. The caller must close the store.
func Open(ctx context.Context, path string, space vectors.Space) (*Store, error) {
	memory, err := vectors.NewMemory(space)
	if err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTime.Milliseconds()), "journal_mode(wal)", "synchronous(normal)"}, "_txlock": {"immediate"}}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("vectors %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	s := &Store{Memory: memory, space: space, db: db}
	if err := s.begin(ctx); err != nil {
		return nil, fmt.Errorf("vectors %s: %w; fix: remove the file, and the vectors are made anew", path, errors.Join(err, db.Close()))
	}
	return s, nil
}

// Close releases the file and the memory.
func (s *Store) Close() error { return errors.Join(s.db.Close(), s.Memory.Close()) }

// begin makes the tables, removes what is of another space, and reads the rest into memory.
func (s *Store) begin(ctx context.Context) error {
	err := s.transaction(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		var of vectors.Space
		err := tx.QueryRowContext(ctx, "SELECT model, dimension FROM tool_vectors_space").Scan(&of.Model, &of.Dimension)
		if err == nil && of == s.space {
			return nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM tool_vectors; DELETE FROM tool_vectors_space"); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO tool_vectors_space(model, dimension) VALUES (?, ?)", s.space.Model, s.space.Dimension)
		return err
	})
	if err != nil {
		return err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT server, tool, sum, categories, vector FROM tool_vectors ORDER BY server, tool")
	if err != nil {
		return err
	}
	defer rows.Close()
	batch := make([]vectors.Point, 0, vectors.MaxBatch)
	for rows.Next() {
		p, err := s.scan(rows)
		if err != nil {
			return err
		}
		if batch = append(batch, p); len(batch) == cap(batch) {
			if err := s.Memory.Put(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return errors.Join(rows.Err(), s.Memory.Put(ctx, batch))
}

// scan reads a row.
func (s *Store) scan(rows *sql.Rows) (p vectors.Point, err error) {
	var sum, categories, vector []byte
	if err := rows.Scan(&p.Server, &p.Tool, &sum, &categories, &vector); err != nil {
		return p, err
	}
	if len(sum) != len(p.Sum) || len(vector) != 4*s.space.Dimension {
		return p, fmt.Errorf("%s of %s has a sum of %d and a vector of %d bytes", p.Tool, p.Server, len(sum), len(vector))
	}
	p.Sum, p.Vector = [32]byte(sum), make([]float32, s.space.Dimension)
	for i := range p.Vector {
		p.Vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(vector[4*i:]))
	}
	return p, json.Unmarshal(categories, &p.Categories)
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

// write changes the file, and then, if that has succeeded, the memory.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error, memory func(context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.transaction(ctx, f); err != nil {
		return fmt.Errorf("vectors: %w", err)
	}
	return memory(context.WithoutCancel(ctx))
}

// Put implements vectors.Writer.
func (s *Store) Put(ctx context.Context, points []vectors.Point) error {
	if err := s.space.CheckPoints(points); err != nil {
		return err
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, `INSERT INTO tool_vectors(server, tool, sum, categories, vector) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT(server, tool) DO UPDATE SET sum = excluded.sum, categories = excluded.categories, vector = excluded.vector`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range points {
			p := &points[i]
			raw := make([]byte, 0, 4*len(p.Vector))
			for _, v := range p.Vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			}
			categories, err := json.Marshal(p.Categories)
			if err != nil {
				return err
			}
			if _, err := insert.ExecContext(ctx, p.Server, p.Tool, p.Sum[:], string(categories), raw); err != nil {
				return err
			}
		}
		return nil
	}, func(ctx context.Context) error { return s.Memory.Put(ctx, points) })
}

// SetCategories implements vectors.Writer.
func (s *Store) SetCategories(ctx context.Context, server, tool string, categories []string) error {
	raw, err := json.Marshal(categories)
	if err != nil {
		return fmt.Errorf("vectors: %w", err)
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE tool_vectors SET categories = ? WHERE server = ? AND tool = ?", string(raw), server, tool)
		return err
	}, func(ctx context.Context) error { return s.Memory.SetCategories(ctx, server, tool, categories) })
}

// RemoveTools implements vectors.Remover.
func (s *Store) RemoveTools(ctx context.Context, server string, tools []string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		for _, tool := range tools {
			if _, err := tx.ExecContext(ctx, "DELETE FROM tool_vectors WHERE server = ? AND tool = ?", server, tool); err != nil {
				return err
			}
		}
		return nil
	}, func(ctx context.Context) error { return s.Memory.RemoveTools(ctx, server, tools) })
}

// RemoveServer implements vectors.Remover.
func (s *Store) RemoveServer(ctx context.Context, server string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM tool_vectors WHERE server = ?", server)
		return err
	}, func(ctx context.Context) error { return s.Memory.RemoveServer(ctx, server) })
}

var _ vectors.Store = (*Store)(nil)
