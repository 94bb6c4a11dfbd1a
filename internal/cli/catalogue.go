package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dragoman/adapters/catalogue/archive"
	stores "dragoman/internal/app/target"
	"dragoman/internal/cli/clients"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

const catalogueLong = `Back up the catalogue of a configuration, and bring it into another one: registered
servers, and what servers have listed. The catalogue is a file (catalogue.path) or a
PostgreSQL database (catalogue.url); an archive of one can be read into the other.

Secrets are in an archive as the catalogue has them: as references (env:NAME), or
encrypted with aggregator.seal_key, which is not in it.`

func newCatalogue(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "catalogue",
		Short:   "Back up or move registered servers",
		Long:    catalogueLong,
		Example: "  dragoman catalogue export --config servers.toml --output backup.jsonl\n  dragoman catalogue import --config new.toml backup.jsonl",
	}
	parent(c)
	c.AddCommand(newCatalogueExport(p), newCatalogueImport(p))
	return c
}

// archiveTime bounds a backup.
const archiveTime = 5 * time.Minute

// openCatalogue opens the store of a configuration.
func (p *program) openCatalogue(ctx context.Context, c *cobra.Command, flags *settingFlags) (stores.Stored, error) {
	cfg, _, err := p.loadFile(c, nil, flags, 0)
	if err != nil {
		return nil, err
	}
	store, err := stores.OpenStore(ctx, cfg, nil)
	switch {
	case err != nil:
		return nil, failed(err)
	case store == nil:
		return nil, failed(clients.ErrNoCatalogue)
	}
	return store, nil
}

func newCatalogueExport(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "export [flags]",
		Short:   "Write the catalogue to an archive",
		Long:    "Write everything that the catalogue holds to standard output, or to a new file that\nonly its owner can read. Dragoman may run meanwhile.",
		Example: "  dragoman catalogue export --config servers.toml --output backup.jsonl\n  dragoman catalogue export | gzip > backup.jsonl.gz",
	}
	output := c.Flags().StringP("output", "o", "", "the `FILE` to write, which must not exist; standard output without it")
	flags := addSettingFlags(c, config.OnConfig)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unexpected argument %q; fix: write `%s --output FILE`", value.Shorten(args[0]), c.CommandPath())
		}
		ctx, cancel := context.WithTimeout(c.Context(), archiveTime)
		defer cancel()
		store, err := p.openCatalogue(ctx, c, flags)
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }() // it was only read
		to, finish := p.std.Out, func() error { return nil }
		if *output != "" {
			f, err := os.OpenFile(*output, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return failed(fmt.Errorf("%w; fix: name a new file in a directory that can be written", err))
			}
			to, finish = f, f.Close
		}
		n, err := archive.Write(ctx, to, store)
		if closed := finish(); err == nil {
			err = closed
		}
		if err != nil {
			if *output != "" {
				_ = os.Remove(*output) // half an archive is of no use
			}
			return failed(err)
		}
		_, err = fmt.Fprintf(p.std.Err, "%s\n", told("exported", n))
		return failed(err)
	}
	return c
}

func newCatalogueImport(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "import [flags] [FILE]",
		Short: "Read an archive into the catalogue",
		Long: `Read an archive from a file, or from standard input, into the catalogue. Registered
servers whose name the catalogue has already are left as they are, and said, unless
--replace is given; so are lists and approvals of other servers that it knows. Nothing else is removed.

Dragomans that share a database serve what was imported at once. A Dragoman that has
its catalogue in a file must not run meanwhile, since it would not notice.`,
		Example: "  dragoman catalogue import --config servers.toml backup.jsonl\n  gunzip < backup.jsonl.gz | dragoman catalogue import --replace",
	}
	replace := c.Flags().Bool("replace", false, "replace registered servers of the same name")
	flags := addSettingFlags(c, config.OnConfig)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("unexpected argument %q; fix: write `%s FILE`", value.Shorten(args[1]), c.CommandPath())
		}
		var from io.Reader = p.std.In
		if len(args) == 1 {
			f, err := os.Open(args[0])
			if err != nil {
				return failed(err)
			}
			defer func() { _ = f.Close() }()
			from = f
		}
		ctx, cancel := context.WithTimeout(c.Context(), archiveTime)
		defer cancel()
		store, err := p.openCatalogue(ctx, c, flags)
		if err != nil {
			return err
		}
		n, err := archive.Read(ctx, from, store, *replace)
		if closed := store.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return failed(fmt.Errorf("%w; before it: %s", err, told("imported", n)))
		}
		_, err = fmt.Fprintf(p.std.Err, "%s\n", told("imported", n))
		return failed(err)
	}
	return c
}

// told says in words what was exported or imported.
func told(did string, n archive.Counts) string {
	text := fmt.Sprintf("%s %s, and what is known of %s: %s", did, counted(n.Registrations, "registered server"), counted(n.Servers, "server"), counted(n.Definitions, "definition"))
	if len(n.Skipped) > 0 {
		names := make([]string, len(n.Skipped))
		for i, name := range n.Skipped {
			names[i] = wire.Visible(value.Shorten(name))
		}
		text += fmt.Sprintf("\nleft as they are: %s; --replace replaces them", strings.Join(names, ", "))
	}
	return text
}
