package target

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/catalogue"
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
	path := b.Config.Catalogue.Path
	return component.Get(b.Components, catalogueComponent, path, component.Spec[*catalogue.Catalogue]{Build: func(prometheus.Registerer) (*catalogue.Catalogue, error) {
		opt := catalogue.Options{Failed: func(err error) {
			b.Log.Warn().Err(err).Msg("what servers offer cannot be stored; it will be tried again with the next change")
		}}
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()
		if path == config.InMemory || b.Rehearsal {
			return catalogue.Open(ctx, opt)
		}
		c, err := openStored(ctx, b.Config, opt)
		if err != nil {
			b.Log.Warn().Err(err).Msg("the catalogue is kept in memory: after a restart the first list waits for the servers; set catalogue.path to a file in a directory that can be written")
			return catalogue.Open(ctx, opt)
		}
		return c, nil
	}, Stage: component.Last, Close: func(c *catalogue.Catalogue) {
		if err := c.Close(); err != nil {
			b.Log.Warn().Err(err).Msg("closing the catalogue")
		}
	}})
}

// OpenRegistry opens the store of the servers that are registered, beside the catalogue. The caller closes it, if it is an io.Closer.
func OpenRegistry(c *config.Config) (catalogue.Registry, error) {
	if c.Catalogue.Path == config.InMemory {
		return &catalogue.MemoryRegistry{}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	return openStore(ctx, c)
}

// openStored opens the catalogue of a file.
func openStored(ctx context.Context, c *config.Config, opt catalogue.Options) (*catalogue.Catalogue, error) {
	store, err := openStore(ctx, c)
	if err != nil {
		return nil, err
	}
	opt.Store = store
	open, err := catalogue.Open(ctx, opt)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return open, nil
}

// openStore opens the file of the catalogue, which it makes if there is none.
func openStore(ctx context.Context, c *config.Config) (*sqlite.Store, error) {
	path := c.Catalogue.Path
	if path == "" {
		dir, err := stateDir(os.Getenv)
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, catalogueFile(c.Loaded.File))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, path)
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
