// Package postgres stores a catalogue in a PostgreSQL database, which several Dragomans may share.
//
// The driver is pgx, since LISTEN needs a connection of its own, which database/sql hides.
package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"dragoman/adapters/catalogue"
)

// migrations bring the tables from one version to the next. Versions only rise; mcp.schema_version has that of a database.
var migrations = []string{first, second, classified}

//go:embed first.sql
var first string

//go:embed second.sql
var second string

//go:embed classified.sql
var classified string

// Options configure a Store.
type Options struct {
	// URL is a connection string as libpq takes it: postgres://USER:PASSWORD@HOST/DATABASE?sslmode=…
	URL string
	// Instance is the name of this Dragoman among those that share the database; empty: it has no rows of its own, and stores no status.
	Instance string
	// Owners is told, after Save, of URIs that belong to another server than was to be saved, by URI the server's name: another Dragoman was
	// first. Nil: nobody is.
	Owners func(map[string]string)
	// Note is told when the database is lost, with the error, and when it is there again, with nil; nil: nobody is.
	Note func(err error)
}

// Times of a Store.
const (
	connectTime = 5 * time.Second  // for a connection
	saveTime    = 10 * time.Second // for a transaction, as the caller may set no limit
	beatTime    = 5 * time.Second  // between two signs of life
	aliveTime   = 20 * time.Second // after the last sign of life an instance counts as gone
	retryLeast  = 250 * time.Millisecond
	retryMost   = 2 * time.Second // between two attempts to reach the database
)

// maxConnections bounds the connections of a Store, besides that which listens.
const maxConnections = 4

// Store is a catalogue in a database. It implements [catalogue.Store] and [catalogue.Registry]. While the database cannot be reached its
// methods fail with [catalogue.ErrAway]; they work again when it is back.
type Store struct {
	opt  Options
	pool *pgxpool.Pool

	changed chan struct{} // holds one
	stop    context.CancelFunc
	tended  sync.WaitGroup

	tried chan struct{} // closed after the first attempt to bring the tables up to date

	mu     sync.Mutex
	why    error // why it cannot be used; nil: the tables are up to date
	broken bool  // why is for good
}

// Open returns the Store of a database, and brings its tables to the newest version. If the database cannot be reached,
// the Store is returned all the same and goes on trying. A wrong URL, or tables of a newer Dragoman, are an error. The caller must close it.
func Open(ctx context.Context, opt Options) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(opt.URL)
	if err != nil {
		return nil, errors.New("catalogue: the URL of the database is not valid; write postgres://USER@HOST:PORT/DATABASE") // err holds the password
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = maxConnections, connectTime
	cfg.ConnConfig.RuntimeParams["application_name"] = "dragoman"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	if opt.Note == nil {
		opt.Note = func(error) {}
	}
	life, stop := context.WithCancel(context.Background())
	s := &Store{opt: opt, pool: pool, stop: stop, changed: make(chan struct{}, 1), tried: make(chan struct{}), why: catalogue.ErrAway}
	s.tended.Go(func() { s.tend(life) })
	select {
	case <-s.tried:
	case <-ctx.Done():
	}
	if s.failed() {
		return nil, errors.Join(s.there(), s.Close())
	}
	return s, nil
}

// Close implements catalogue.Store. The rows of this instance are removed.
func (s *Store) Close() error {
	s.stop()
	s.tended.Wait()
	if s.opt.Instance != "" && s.there() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = s.pool.Exec(ctx, "DELETE FROM mcp.instances WHERE name = $1", s.opt.Instance) // else the others see that it has ended
	}
	s.pool.Close()
	return nil
}

// there returns why the database cannot be used; nil: its tables are up to date.
func (s *Store) there() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// failed reports whether the database can never be used.
func (s *Store) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// settle notes the outcome of an attempt to bring the tables up to date.
func (s *Store) settle(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.tried:
	default:
		defer close(s.tried)
	}
	switch {
	case err == nil:
		s.why = nil
	case errors.Is(err, errNewer):
		s.why, s.broken = err, true
	default:
		s.why = away(err)
	}
}

// away returns an error of the driver as one that says whether the database was reached. Its text has no password.
func away(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !slices.Contains([]string{"57", "08", "53"}, refused.Code[:min(2, len(refused.Code))]) { // shutting down, connection, resources
		return fmt.Errorf("catalogue: the database refuses: %w", err)
	}
	return fmt.Errorf("%w: %w", catalogue.ErrAway, err)
}

var errNewer = errors.New("the database is of a newer Dragoman; use that one, or another database")

// migrate applies the migrations that the database does not have, all in one transaction. Of several instances that start at once one does
// it, and the others wait.
func (s *Store) migrate(ctx context.Context) error {
	return s.transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS mcp; CREATE TABLE IF NOT EXISTS mcp.schema_version (version integer NOT NULL)"); err != nil {
			return err
		}
		version := 0
		if err := tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM mcp.schema_version").Scan(&version); err != nil {
			return err
		}
		if version > len(migrations) {
			return fmt.Errorf("%w (version %d of its tables, %d is known)", errNewer, version, len(migrations))
		}
		for ; version < len(migrations); version++ {
			if _, err := tx.Exec(ctx, migrations[version]); err != nil {
				return fmt.Errorf("migration %d: %w", version+1, err)
			}
			if _, err := tx.Exec(ctx, "INSERT INTO mcp.schema_version VALUES ($1)", version+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// Advisory locks, which are numbers that nobody else should use: "drgm" and a small one.
const (
	migrationLock = 0x6472676d<<8 | 1
	writeLock     = 0x6472676d<<8 | 2
)

// transaction calls f in a transaction, which counts if f succeeds.
func (s *Store) transaction(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, f)
}

// write calls f in a transaction that writes. All instances write one after the other, so that what f has read still holds, and none waits
// for another in a circle.
func (s *Store) write(ctx context.Context, f func(pgx.Tx) error) error {
	return s.transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", writeLock); err != nil {
			return err
		}
		return f(tx)
	})
}

var (
	_ catalogue.Store    = (*Store)(nil)
	_ catalogue.Registry = (*Store)(nil)
	_ catalogue.Pins     = (*Store)(nil)

	_ catalogue.Classifications = (*Store)(nil)
)
