package target

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/postgres"
	"dragoman/adapters/catalogue/sqlite"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
)

// catalogueComponent is the name of the component of the catalogue.
const catalogueComponent = "catalogue"

// openTime bounds reading the catalogue's file.
const openTime = 10 * time.Second

// openCatalogue opens the catalogue. If its file cannot be used, what servers offer is lost at the end, which the log says.
func (b *Builder) openCatalogue() (*catalogue.Catalogue, error) {
	return component.Get(b.Components, catalogueComponent, placeOf(b.Config), component.Spec[*catalogue.Catalogue]{Build: func(prometheus.Registerer) (*catalogue.Catalogue, error) {
		opt := catalogue.Options{Failed: func(err error) {
			b.Log.Warn().Err(err).Msg("what servers offer cannot be stored yet; it is tried again")
		}}
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()
		if b.Config.Catalogue.Path == config.InMemory || b.Rehearsal {
			return catalogue.Open(ctx, opt)
		}
		c, err := b.openStored(ctx, opt)
		if err != nil {
			b.Log.Warn().Err(err).Msg("the catalogue is kept in memory: after a restart the first list waits for the servers; set catalogue.path to a file in a directory that can be written, or catalogue.url to a database")
			return catalogue.Open(ctx, opt)
		}
		return c, nil
	}, Stage: component.Last, Close: func(c *catalogue.Catalogue) {
		if err := c.Close(); err != nil {
			b.Log.Warn().Err(err).Msg("closing the catalogue")
		}
	}})
}

// OpenStore opens the store of a configuration: its database, or its file. It is nil if the catalogue is in memory. note is told when the
// database is lost, and with nil when it is back.
func OpenStore(ctx context.Context, c *config.Config, note func(error)) (Stored, error) {
	return openStore(ctx, c, postgres.Options{Note: note})
}

// openStore opens a store; opt is for a database.
func openStore(ctx context.Context, c *config.Config, opt postgres.Options) (Stored, error) {
	switch opt.URL = c.Catalogue.URL.Reveal(); {
	case opt.URL != "":
		return postgres.Open(ctx, opt)
	case c.Catalogue.Path == config.InMemory:
		return nil, nil //nolint:nilnil // there is none
	}
	return openFile(ctx, c)
}

// place says where a catalogue is kept.
type place struct{ path, url, instance string }

func placeOf(c *config.Config) place {
	return place{c.Catalogue.Path, c.Catalogue.URL.Reveal(), c.Catalogue.Instance}
}

// Stored is a store of all that a catalogue holds.
type Stored interface {
	catalogue.Store
	catalogue.Registry
	catalogue.OfTools
}

// instance returns the name of this Dragoman among those that share a database.
func instance(c *config.Config) string {
	if c.Catalogue.Instance != "" {
		return c.Catalogue.Instance
	}
	host, err := os.Hostname()
	if err != nil {
		host = "dragoman"
	}
	return host + "-" + strings.ToLower(rand.Text()[:6])
}

// OpenRegistry opens the store of the servers that are registered, beside the catalogue. The caller closes it, if it is an io.Closer.
func OpenRegistry(c *config.Config, note func(error)) (catalogue.Registry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	store, err := OpenStore(ctx, c, note)
	if store == nil && err == nil {
		return &catalogue.MemoryRegistry{}, nil
	}
	return store, err
}

// openStored opens the catalogue of a file or a database. A database that is away has the catalogue when it comes.
func (b *Builder) openStored(ctx context.Context, opt catalogue.Options) (*catalogue.Catalogue, error) {
	var open atomic.Pointer[catalogue.Catalogue]
	store, err := openStore(ctx, b.Config, postgres.Options{Instance: instance(b.Config), Note: func(err error) {
		if c := open.Load(); err == nil && c != nil {
			c.Restore() // others take an instance that was away for long for ended
		}
	}, Owners: func(owners map[string]string) {
		if c := open.Load(); c != nil {
			c.Adopt(owners)
		}
	}})
	if err != nil {
		return nil, err
	}
	opt.Store = store
	c, err := catalogue.Open(ctx, opt)
	if errors.Is(err, catalogue.ErrAway) {
		b.Log.Warn().Err(err).Msg("what servers offered before is not known yet")
		opt.Empty = true
		c, err = catalogue.Open(ctx, opt)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	open.Store(c)
	return c, nil
}

// openFile opens the file of the catalogue, which it makes if there is none.
func openFile(ctx context.Context, c *config.Config) (*sqlite.Store, error) {
	path, err := cataloguePath(c)
	if err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, path)
}

// cataloguePath returns the path of the catalogue's file, whose directory it makes if there is none.
func cataloguePath(c *config.Config) (string, error) {
	path := c.Catalogue.Path
	if path == "" {
		dir, err := stateDir(os.Getenv)
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, catalogueFile(c.Loaded.File))
	}
	return path, os.MkdirAll(filepath.Dir(path), 0o700)
}

// catalogueFile returns the name of the catalogue's file for a configuration file: each has its own, since servers of one name may differ.
func catalogueFile(of string) string {
	if abs, err := filepath.Abs(of); err == nil {
		of = abs
	}
	sum := sha256.Sum256([]byte(of))
	return "catalogue-" + hex.EncodeToString(sum[:6]) + ".db"
}

// stateDir returns the directory for what is kept over a restart: that of systemd, else that of the XDG base directory specification, else
// the system's own place.
func stateDir(env func(string) string) (string, error) {
	if dir, _, _ := strings.Cut(env("STATE_DIRECTORY"), ":"); dir != "" {
		return dir, nil
	}
	if dir := env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "dragoman"), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "dragoman"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "dragoman"), err
}
