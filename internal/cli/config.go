package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"dragoman/internal/config"
	"dragoman/internal/config/reference"
	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/internal/imported/clients"
	"dragoman/proxy/wire"
)

const configLong = `Check the configuration, print it with the source of every value, or make one from
the file of an MCP client.

Settings come from flags, DRAGOMAN_... variables, MCP_... variables, the file and
defaults, in this order of precedence. config.toml in the repository is the
complete file with every key explained.`

func newConfig(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		Short:   "Check, print or import the configuration",
		Long:    configLong,
		Example: "  dragoman config check servers.toml\n  dragoman config print --json servers.toml",
	}
	parent(c)
	c.AddCommand(newConfigCheck(p), newConfigPrint(p), newConfigImport(p), newConfigReference(p), newConfigSchema(p))
	return c
}

const importLong = `Print a configuration with the servers in the FILE of an MCP client: Claude Desktop,
Claude Code, Cursor, VS Code, Windsurf, Zed, Codex or Gemini CLI, or any file with an
object mcpServers. Comments in JSON are accepted. With NAMEs, only these servers.

Secrets become references. Without --output they refer to variables, and a line says
which must be set. With --output FILE the configuration is written there, and each
secret into a file of its own that only its owner can read, in FILE.secrets.

Whatever is not taken over is said, a line each, on standard error. ` + "`dragoman serve\n--import FILE`" + ` serves the servers without a configuration.`

func newConfigImport(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "import FILE [NAME...] [flags]",
		Short:   "Make a configuration from the file of an MCP client",
		Long:    importLong,
		Example: "  dragoman config import ~/.cursor/mcp.json\n  dragoman config import claude_desktop_config.json --output servers.toml\n  dragoman config import .vscode/mcp.json playwright",
	}
	var out string
	var force bool
	c.Flags().StringVarP(&out, "output", "o", "", "write the configuration into this `FILE`, and secrets beside it")
	c.Flags().BoolVar(&force, "force", false, "replace the FILE of --output if there is one")
	_ = c.MarkFlagFilename("output", "toml")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("the FILE of an MCP client is missing; fix: write `dragoman config import FILE`; `dragoman setup --dry-run` shows where the clients of this machine have theirs")
		}
		return p.configImport(args[0], args[1:], out, force)
	}
	return c
}

func (p *program) configImport(file string, names []string, out string, force bool) error {
	if _, err := os.Stat(out); out != "" && err == nil && !force {
		return failed(fmt.Errorf("%s exists; fix: name another file, or add --force to replace it", out))
	}
	home, _ := os.UserHomeDir() // a text that refers to it then stays as it is
	read, err := clients.Read(file, home)
	if err != nil {
		return failed(err)
	}
	servers, err := onlyNamed(read.Servers, names)
	if err != nil {
		return err
	}
	secrets := imported.Secrets{}
	if out != "" {
		if out, err = filepath.Abs(out); err != nil {
			return failed(err)
		}
		secrets.Dir = out + ".secrets"
	}
	w := imported.Writer{Lookup: p.lookup, Keep: secrets.Keep}
	text, err := w.Servers(servers)
	if err != nil {
		return failed(err)
	}
	for _, line := range append(read.Lost, w.Lines...) {
		_, _ = fmt.Fprintf(p.std.Err, "dragoman: %s\n", line)
	}
	if len(w.Taken) == 0 {
		return failed(fmt.Errorf("%s has no server that can be taken over", file))
	}
	if out == "" {
		for _, name := range slices.Sorted(maps.Keys(secrets.Variables)) {
			_, _ = fmt.Fprintf(p.std.Err, "dragoman: set %s to the value that %s has, before dragoman is started\n", name, file)
		}
		_, err = io.WriteString(p.std.Out, text)
		return failed(err)
	}
	if _, err = secrets.Write(); err == nil {
		err = imported.WriteFile(out, []byte(text), 0o600)
	}
	if err != nil {
		return failed(fmt.Errorf("%s cannot be written: %w; fix: name a file in a directory that you can write", out, value.Reason(err)))
	}
	_, err = fmt.Fprintf(p.std.Out, "%s has %s, and %s.secrets %s\n  dragoman config check %s\n  dragoman serve --config %s\n", out, counted(len(w.Taken), "server"), filepath.Base(out), counted(len(secrets.Files), "secret"), out, out)
	return failed(err)
}

// onlyNamed returns the servers of the given names; all without names.
func onlyNamed(all []imported.Server, names []string) (some []imported.Server, err error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, s := range all {
		known = append(known, s.Name)
	}
	for _, name := range names {
		at := slices.Index(known, name)
		if at < 0 {
			return nil, usagef("there is no server %q; fix: write %s", value.Shorten(name), wire.Shown(value.OneOf(known)))
		}
		some = append(some, all[at])
	}
	return some, nil
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
