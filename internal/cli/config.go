package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"dragoman/internal/config"
	"dragoman/internal/config/reference"
	"dragoman/internal/config/value"
)

const configLong = `Check the configuration, or print it with the source of every value.

Settings come from flags, DRAGOMAN_... variables, MCP_... variables, the file and
defaults, in this order of precedence. config.toml in the repository is the
complete file with every key explained.`

func newConfig(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		Short:   "Check or print the configuration",
		Long:    configLong,
		Example: "  dragoman config check servers.toml\n  dragoman config print --json servers.toml",
	}
	parent(c)
	c.AddCommand(newConfigCheck(p), newConfigPrint(p), newConfigReference(p), newConfigSchema(p))
	return c
}

func newConfigCheck(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "check [flags] [FILE]",
		Short: "Check the configuration and report everything that is wrong",
		Long: `Check the file, the environment and the flags together and report everything
that is wrong, each with key, file, line and fix, also what would keep
` + "`dragoman serve`" + ` from starting here: it makes everything that serve makes, and
asks no server. Exits with 0 if it is valid. Warnings are of what may change: a
command that is not found, an address in use.`,
		Example: "  dragoman config check servers.toml\n  DRAGOMAN_LISTEN=127.0.0.1:9000 dragoman config check",
	}
	flags := addSettingFlags(c, config.OnConfig)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, file, err := p.loadFile(c, args, flags, config.OnConfig)
		if err != nil {
			return err
		}
		further, err := p.run.Check(cfg)
		for _, w := range append(cfg.Warnings, further...) {
			_, _ = fmt.Fprintf(p.std.Err, "dragoman: warning: %s\n", w)
		}
		if err != nil {
			return failed(err)
		}
		if file == "" {
			file = "the environment"
		}
		_, err = fmt.Fprintf(p.std.Out, "%s is valid, %s\n", file, counted(len(cfg.Upstreams), "upstream"))
		return failed(err)
	}
	return c
}

func newConfigPrint(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "print [flags] [FILE]",
		Short: "Print every value and where it comes from",
		Long: `Print the whole configuration as TOML. The comment behind each value is its
source: default, FILE:LINE, the variable or the flag. Headers and variables of
upstreams are never shown.`,
		Example: "  dragoman config print\n  dragoman config print --json config.yaml",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON")
	flags := addSettingFlags(c, config.OnConfig)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, _, err := p.loadFile(c, args, flags, 0)
		if err != nil {
			return err
		}
		if *asJSON {
			return failed(cfg.PrintJSON(p.std.Out))
		}
		return failed(cfg.PrintTOML(p.std.Out))
	}
	return c
}

// loadFile loads the configuration file that an argument, --config or the variable names; "" if there is none. use is
// [config.LoadOptions.For].
func (p *program) loadFile(c *cobra.Command, args []string, s *settingFlags, use config.Command) (cfg *config.Config, file string, err error) {
	switch {
	case len(args) > 1:
		return nil, "", usagef("unexpected argument %q; fix: write `%s FILE`", value.Shorten(args[1]), c.CommandPath())
	case len(args) == 1 && s.file != "":
		return nil, "", usagef("both FILE and --config are given; fix: leave one out")
	case len(args) == 1:
		s.file = args[0]
	}
	flags, _, err := s.assignments()
	if err != nil {
		return nil, "", err
	}
	file, _ = p.configFile(s.file)
	cfg, err = config.LoadConfig(config.LoadOptions{File: file, Environ: p.environ, Flags: flags, For: use})
	return cfg, file, err
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func newConfigReference(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "reference [flags]",
		Short: "Print what every key is, as Markdown",
		Long: `Print a reference of the configuration: every key with its type, default,
bounds, variable, flag, and what it is for. docs/configuration.md is this.`,
		Example: "  dragoman config reference",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return failed(reference.WriteReference(p.std.Out)) },
	}
}

func newConfigSchema(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [flags]",
		Short: "Print a JSON Schema of the file, for editors",
		Long: `Print a JSON Schema (draft-07) of the configuration file, with which editors
complete and check it as one writes. In TOML the first line of the file names it:

  #:schema ./config.schema.json`,
		Example: "  dragoman config schema > config.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := reference.Schema()
			if err != nil {
				return failed(err)
			}
			_, err = p.std.Out.Write(text)
			return failed(err)
		},
	}
}
