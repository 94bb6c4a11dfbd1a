// Package postgres keeps the vectors of tools in a PostgreSQL database with the extension pgvector, which several Dragomans may share. The
// database searches: approximately, by an index over the graph of near vectors (HNSW), or exactly where a filter leaves few.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"dragoman/adapters/search/vectors"
)

// Bounds of a Store.
const (
	connectTime    = 5 * time.Second  // for a connection
	writeTime      = 30 * time.Second // for a change of a full batch
	maxConnections = 4
	recounted      = 100  // points of a Put after which the database counts anew what is there
	maxIndexed     = 2000 // dimensions that pgvector indexes; more are compared one by one
)

// Advisory locks, besides those of the catalogue: "drgm" and a small number.
const (
	migrationLock int64 = 0x6472676d<<8 | 3
	writeLock     int64 = 0x6472676d<<8 | 4
)

// Store is a [vectors.Store] in a database. Each space has a table of its own, so that Dragomans with another model do not meet; one that none has
// written to or opened for 30 days is removed. The names of servers and tools that PostgreSQL cannot store, with a zero byte or not in UTF-8, are left out.
type Store struct {
	space vectors.Space
	pool  *pgxpool.Pool

	mu    sync.Mutex
	table string // of the space; empty: the tables may not be there yet
}

// Open returns the Store of a space in a database, whose URL is as libpq takes it. It connects when it is used first, and
// again after the database was away. The caller must close it.
func Open(ctx context.Context, url string, space vectors.Space) (*Store, error) {
	if err := space.Check(); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("vectors: the URL of the database is not valid; fix: write postgres://USER@HOST:PORT/DATABASE") // err holds the password
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = maxConnections, connectTime
	cfg.ConnConfig.RuntimeParams["application_name"] = "dragoman"
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		// A search goes on until enough hits pass its filter, and looks at more candidates than it returns, usually.
		_, err := conn.Exec(ctx, "SET hnsw.iterative_scan = strict_order; SET hnsw.ef_search = 200")
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	return &Store{space: space, pool: pool}, nil
}

// Close closes the connections.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// Ready makes the extension and the tables if they are missing. Every other method does so, too: an error here says early what they will say.
func (s *Store) Ready(ctx context.Context) error {
	_, err := s.ready(ctx)
	return err
}

// ready returns the name of the table, which is then there.
func (s *Store) ready(ctx context.Context) (string, error) {
	s.mu.Lock()
	table := s.table
	s.mu.Unlock()
	if table != "" {
		return table, nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		table, err = s.migrate(ctx, tx)
		return err
	})
	if err != nil {
		return "", s.failed(ctx, err)
	}
	s.mu.Lock()
	s.table = table
	s.mu.Unlock()
	return table, nil
}

// migrate makes what is missing, and removes the tables that are no longer used. Of several Dragomans that start at once one does it.
func (s *Store) migrate(ctx context.Context, tx pgx.Tx) (table string, err error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
		return "", err
	}
	if err := extension(ctx, tx); err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS mcp; CREATE TABLE IF NOT EXISTS mcp.vector_spaces (
		id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, model text NOT NULL, dimension integer NOT NULL, used_at timestamptz NOT NULL, UNIQUE (model, dimension))`); err != nil {
		return "", err
	}
	var id int
	if err := tx.QueryRow(ctx, `INSERT INTO mcp.vector_spaces(model, dimension, used_at) VALUES ($1, $2, now())
		ON CONFLICT (model, dimension) DO UPDATE SET used_at = now() RETURNING id`, s.space.Model, s.space.Dimension).Scan(&id); err != nil {
		return "", err
	}
	rows, err := tx.Query(ctx, "DELETE FROM mcp.vector_spaces WHERE used_at < now() - interval '30 days' RETURNING id")
	if err != nil {
		return "", err
	}
	unused, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return "", err
	}
	for _, one := range unused {
		if _, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+tableOf(one)); err != nil {
			return "", err
		}
	}
	table = tableOf(id)
	create := fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (server text COLLATE "C" NOT NULL, tool text COLLATE "C" NOT NULL, sum bytea NOT NULL,
		categories text[] NOT NULL, vector vector(%d) NOT NULL, PRIMARY KEY (server, tool));
		CREATE INDEX IF NOT EXISTS tool_vectors_%d_categories ON %[1]s USING gin (categories)`, table, s.space.Dimension, id)
	if s.space.Dimension <= maxIndexed {
		create += fmt.Sprintf("; CREATE INDEX IF NOT EXISTS tool_vectors_%d_near ON %s USING hnsw (vector vector_ip_ops)", id, table)
	}
	_, err = tx.Exec(ctx, create)
	return table, err
}

func tableOf(space int) string { return "mcp.tool_vectors_" + strconv.Itoa(space) }

// extension makes the extension if it is missing, and reports one that is too old.
func extension(ctx context.Context, tx pgx.Tx) error {
	var version string
	err := tx.QueryRow(ctx, "SELECT extversion FROM pg_extension WHERE extname = 'vector'").Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err := tx.Exec(ctx, "CREATE EXTENSION vector"); err != nil {
			return fmt.Errorf("the database has no extension vector, and it cannot be made: %w; fix: install pgvector 0.8 or later at the server (Debian: postgresql-NN-pgvector), and let a superuser say CREATE EXTENSION vector in this database", err)
		}
		err = tx.QueryRow(ctx, "SELECT extversion FROM pg_extension WHERE extname = 'vector'").Scan(&version)
	}
	if err != nil {
		return err
	}
	var major, minor int
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 || err != nil || major == 0 && minor < 8 {
		return fmt.Errorf("the extension vector is of version %.20q; fix: install pgvector 0.8 or later at the server, and say ALTER EXTENSION vector UPDATE", version)
	}
	return nil
}

// failed returns an error as callers see it. If a table has gone, the next call makes it anew.
func (s *Store) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42P01" { // undefined_table
		s.mu.Lock()
		s.table = ""
		s.mu.Unlock()
	}
	return fmt.Errorf("vectors: %w", err)
}

// Sums implements vectors.Writer.
func (s *Store) Sums(ctx context.Context) (vectors.Sums, error) {
	table, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, "SELECT server, tool, sum, categories FROM "+table)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	all := vectors.Sums{}
	var server, tool string
	var sum []byte
	var categories []string
	_, err = pgx.ForEachRow(rows, []any{&server, &tool, &sum, &categories}, func() error {
		if len(sum) != 32 {
			return nil // another's: it is made anew
		}
		all.Add(server, tool, vectors.Stored{Sum: [32]byte(sum), Categories: slices.Clone(categories)})
		return nil
	})
	return all, s.failed(ctx, err)
}

// write sends statements as one transaction. All Dragomans write one after the other, so that none waits for another in a circle.
func (s *Store) write(ctx context.Context, statements func(table string, b *pgx.Batch)) error {
	table, err := s.ready(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	b := &pgx.Batch{}
	b.Queue("SELECT pg_advisory_xact_lock($1)", writeLock)
	b.Queue("UPDATE mcp.vector_spaces SET used_at = now() WHERE model = $1 AND dimension = $2 AND used_at < now() - interval '1 hour'", s.space.Model, s.space.Dimension)
	statements(table, b)
	return s.failed(ctx, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() }))
}

// Put implements vectors.Writer.
func (s *Store) Put(ctx context.Context, points []vectors.Point) error {
	if err := s.space.CheckPoints(points); err != nil {
		return err
	}
	return s.write(ctx, func(table string, b *pgx.Batch) {
		for i := range points {
			p := &points[i]
			if !storable(p.Server) || !storable(p.Tool) {
				continue
			}
			b.Queue("INSERT INTO "+table+`(server, tool, sum, categories, vector) VALUES ($1, $2, $3, $4, $5::vector) ON CONFLICT (server, tool)
				DO UPDATE SET sum = excluded.sum, categories = excluded.categories, vector = excluded.vector`, p.Server, p.Tool, p.Sum[:], texts(p.Categories), text(p.Vector))
		}
		if len(points) >= recounted { // at once: else a search of few servers walks the graph until it meets their tools
			b.Queue("ANALYZE " + table)
		}
	})
}

// storable reports whether PostgreSQL takes a text.
func storable(text string) bool { return !strings.ContainsRune(text, 0) && utf8.ValidString(text) }

// texts returns the texts that can be stored, as an array that is never null.
func texts(all []string) []string {
	out := make([]string, 0, len(all))
	for _, one := range all {
		if storable(one) {
			out = append(out, one)
		}
	}
	return out
}

// text returns a vector in pgvector's notation.
func text(v []float32) string {
	b := append(make([]byte, 0, 12*len(v)), '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return string(append(b, ']'))
}

// SetCategories implements vectors.Writer.
func (s *Store) SetCategories(ctx context.Context, server, tool string, categories []string) error {
	if !storable(server) || !storable(tool) {
		return nil // it is not stored
	}
	return s.write(ctx, func(table string, b *pgx.Batch) {
		b.Queue("UPDATE "+table+" SET categories = $3 WHERE server = $1 AND tool = $2", server, tool, texts(categories))
	})
}

// RemoveTools implements vectors.Remover.
func (s *Store) RemoveTools(ctx context.Context, server string, tools []string) error {
	if tools = texts(tools); !storable(server) || len(tools) == 0 {
		return nil
	}
	return s.write(ctx, func(table string, b *pgx.Batch) {
		b.Queue("DELETE FROM "+table+" WHERE server = $1 AND tool = ANY($2)", server, tools)
	})
}

// RemoveServer implements vectors.Remover. What other spaces have of the server is removed, too.
func (s *Store) RemoveServer(ctx context.Context, server string) error {
	if _, err := s.ready(ctx); err != nil || !storable(server) {
		return err
	}
	rows, err := s.pool.Query(ctx, "SELECT id FROM mcp.vector_spaces")
	if err != nil {
		return s.failed(ctx, err)
	}
	spaces, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return s.failed(ctx, err)
	}
	return s.write(ctx, func(_ string, b *pgx.Batch) {
		for _, id := range spaces {
			b.Queue("DELETE FROM "+tableOf(id)+" WHERE server = $1", server)
		}
	})
}

// Search implements vectors.Searcher.
func (s *Store) Search(ctx context.Context, vector []float32, filter vectors.Filter, k int) ([]vectors.Hit, error) {
	if err := s.space.CheckVector(vector); err != nil {
		return nil, err
	}
	table, err := s.ready(ctx)
	if k = min(k, vectors.MaxHits); err != nil || k < 1 {
		return nil, err
	}
	query, args := statement(table, vector, filter, k)
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	hits, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h vectors.Hit, err error) {
		return h, row.Scan(&h.Server, &h.Tool, &h.Score)
	})
	return hits, s.failed(ctx, err)
}

// statement returns the query of a search: the operator <#> is the negative inner product, which the index is made for, and which is the cosine
// of vectors of length one.
func statement(table string, vector []float32, filter vectors.Filter, k int) (query string, args []any) {
	where, args := condition(filter, text(vector), k)
	return fmt.Sprintf(`SELECT server, tool, score FROM (SELECT server, tool, (-(vector <#> $1::vector))::real AS score FROM %s %s ORDER BY vector <#> $1::vector LIMIT $2) near
		ORDER BY score DESC, server, tool`, table, where), args
}

// condition returns the condition of a filter, and the arguments of the statement, which begin with args.
func condition(filter vectors.Filter, args ...any) (string, []any) {
	var where []string
	if filter.Servers != nil {
		args = append(args, texts(filter.Servers))
		where = append(where, fmt.Sprintf("server = ANY($%d)", len(args)))
	}
	if filter.Category != "" {
		args = append(args, texts([]string{filter.Category}))
		where = append(where, fmt.Sprintf("categories && $%d", len(args)))
	}
	if len(where) > 0 {
		where[0] = "WHERE " + where[0]
	}
	return strings.Join(where, " AND "), args
}

// Mean implements vectors.Searcher: the database adds up the vectors.
func (s *Store) Mean(ctx context.Context, filter vectors.Filter) ([]float32, error) {
	table, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	where, args := condition(filter)
	var mean []float32
	if err := s.pool.QueryRow(ctx, "SELECT avg(vector)::real[] FROM "+table+" "+where, args...).Scan(&mean); err != nil {
		return nil, s.failed(ctx, err)
	}
	sum := make([]float64, len(mean))
	for i, x := range mean {
		sum[i] = float64(x)
	}
	return vectors.Direction(sum), nil
}

var _ vectors.Store = (*Store)(nil)
