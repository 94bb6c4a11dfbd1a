package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dragoman/internal/cli/clients"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/internal/generate/source"
	"dragoman/internal/generate/targets"
	"dragoman/internal/scaffold"
	"dragoman/proxy/wire"
)

const generateLong = `Generate code that calls the tools of servers: scripts, typed packages, command
lines and descriptions, a folder for each server. The generated code calls the tools
at a Dragoman's REST endpoint (--service-url, http://127.0.0.1:8080 by default), or
at any service with GET /tools and POST /call-tool.

The tools are those of a running Dragoman or such a service (its URL), of the services
in a services.yaml (--services), or of MCP servers: a URL, a COMMAND after --, what
a --config file names, or what its catalogue remembers of them (--catalogue).

Files are written whole, and only where something has changed. Files of tools and
servers that are gone are removed. Other files are left alone. A server that fails is
reported, and what was generated for it stays; the exit code is 1 then.

Tokens are never written: what is generated reads them from MCP_TOKEN_NAME of the
environment, or from the variable that --token-env or token_env names.`

const generateExample = `  # scripts for the tools of a running dragoman, a folder for each of its servers
  dragoman generate http://127.0.0.1:8080 --target bash

  # all kinds of code, for the servers of a configuration
  dragoman generate --config servers.toml --out clients

  # a stdio server, as a Python package
  dragoman generate --name files --target python -- npx -y @modelcontextprotocol/server-filesystem /srv

  # services that speak the REST envelope; in CI: is what was committed still right?
  dragoman generate --services services.yaml --check

  # files of one's own: a folder of Jinja2 templates, such as wrapper.sh.j2
  dragoman generate http://127.0.0.1:8080 --template templates

  # what the catalogue of a configuration remembers, without asking any server
  dragoman generate --config servers.toml --catalogue

  # follow what servers change
  dragoman generate http://127.0.0.1:8080 --watch`

func newGenerate(p *program) *cobra.Command {
	names := make([]string, len(targets.All))
	for i, t := range targets.All {
		names[i] = t.Name
	}
	c := &cobra.Command{
		Use:     "generate [flags] URL | --services FILE | --config FILE | -- COMMAND [ARG...]",
		Short:   "Generate clients for the tools of servers",
		Long:    generateLong,
		Example: generateExample,
	}
	o := &clients.Options{}
	f := c.Flags()
	f.StringSliceVarP(&o.Targets, "target", "t", nil, "what to generate, of "+strings.Join(names, ", ")+"; repeatable (default all)")
	f.StringVarP(&o.Out, "out", "o", "generated", "the `FOLDER` to write into")
	f.StringVar(&o.Services, "services", "", "the services of a services.yaml `FILE`")
	f.StringVar(&o.Name, "name", "", "the `NAME` of the one server in what is generated (default its own)")
	f.StringVar(&o.ServiceURL, "service-url", "", "the `URL` where the generated code calls the tools (default that of the service; for MCP servers the listener of the configuration)")
	f.StringVar(&o.TokenVariable, "token-env", "", "the environment `VARIABLE` with the bearer token (default MCP_TOKEN_NAME)")
	f.BoolVar(&o.Merged, "merged", false, "take the servers behind a URL as one service, with the names that they have there")
	f.BoolVar(&o.Catalogue, "catalogue", false, "ask no server: take the tools that the catalogue of the configuration remembers")
	f.BoolVar(&o.Check, "check", false, "write nothing; exit with 1 if something would change")
	f.BoolVar(&o.Watch, "watch", false, "go on, and follow what servers change")
	f.DurationVar(&o.Every, "every", clients.WatchEvery, "how often --watch asks, `DURATION`")
	f.DurationVar(&o.Limit, "timeout", time.Minute, "how long an MCP server may take, `DURATION`")
	f.StringVar(&o.Templates, "template", "", "a `FOLDER` of Jinja2 templates to render for each tool, in the place of --target")
	f.StringVar(&o.Python, "python", "python3", "the `PROGRAM` that renders templates: a Python with Jinja2")
	_ = c.MarkFlagDirname("out")
	_ = c.MarkFlagDirname("template")
	_ = c.MarkFlagFilename("services", "yaml", "yml")
	_ = c.RegisterFlagCompletionFunc("target", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	flags := addSettingFlags(c, config.OnProbe)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.Validate(); err != nil {
			return usagef("%w", err)
		}
		if err := p.generated(c, args, o, flags); err != nil {
			return err
		}
		return failed(p.run.Generate(c.Context(), o, p.std))
	}
	return c
}

// generated reads what the tools come from.
func (p *program) generated(c *cobra.Command, args []string, o *clients.Options, flags *settingFlags) (err error) {
	if o.Services != "" {
		switch {
		case len(args) > 0 || flags.file != "" || o.Catalogue || o.Merged:
			return usagef("--services and a server are given; fix: leave one out")
		case o.Name != "" || o.ServiceURL != "" || o.TokenVariable != "":
			return usagef("--name, --service-url and --token-env are of one server; fix: write name, url and token_env into %s", o.Services)
		}
		return nil
	}
	if o.Config, err = p.load(c, args, flags); err != nil {
		return err
	}
	if o.Several() && o.Name != "" {
		return usagef("--name is of one server, and %s are configured; fix: leave it out", counted(len(o.Config.Upstreams), "server"))
	}
	if len(args) == 1 && c.ArgsLenAtDash() < 0 && source.CheckURL(args[0]) == nil {
		o.Given = strings.TrimSuffix(strings.TrimRight(args[0], "/"), "/mcp")
	}
	if o.Merged && o.Given == "" {
		return usagef("--merged is of the URL of a running dragoman; fix: write one, or leave it out")
	}
	return nil
}

const newServerLong = `Write an MCP server as a project into the folder NAME: on the official SDK, with an
example of a tool, resources and a prompt, configuration, limits, authentication, tests,
linters, an image, and Dragoman as its sidecar. Its README says how to add to it.

It speaks every revision of MCP over stdio and HTTP. A folder that has something in it
is refused, and after an error nothing is written.`

const newServerExample = `  dragoman new server weather --lang python
  dragoman new server weather --lang typescript --dir ~/src/weather --description 'Says how it is outside.'`

func newNew(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "new",
		Short:   "Begin an MCP server of your own",
		Long:    "Write new projects.",
		Example: "  dragoman new server weather --lang python",
	}
	parent(c)
	c.AddCommand(newNewServer(p))
	return c
}

func newNewServer(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "server NAME --lang LANGUAGE [flags]",
		Short:   "Write an MCP server as a project",
		Long:    newServerLong,
		Example: newServerExample,
	}
	known := scaffold.Languages()
	lang := c.Flags().String("lang", "", "`LANGUAGE` of the project: "+value.OneOf(known))
	dir := c.Flags().String("dir", "", "write into the folder `DIR` (default NAME)")
	description := c.Flags().String("description", "", "what the server is for, one line of `TEXT`")
	_ = c.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
	_ = c.MarkFlagDirname("dir")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("the name of the server is missing; fix: write `%s weather --lang %s`", c.CommandPath(), known[0])
		case len(args) > 1:
			return usagef("unexpected argument %q; fix: write `%s NAME --lang LANGUAGE`", value.Shorten(args[1]), c.CommandPath())
		case *lang == "":
			return usagef("the language is missing; fix: add --lang %s", value.OneOf(known))
		case !slices.Contains(known, *lang):
			return unknownWord("lang", *lang, known)
		case *dir == "":
			*dir = args[0]
		}
		project := scaffold.Project{Name: args[0], Language: *lang, Description: *description}
		if err := project.Check(); err != nil {
			return err
		}
		if err := project.Write(*dir); err != nil {
			return failed(err)
		}
		_, err := fmt.Fprintf(p.std.Out, "%s is written. Next:\n\n  make -C %s check   # installs what is pinned, then linters and tests\n  make -C %[2]s run     # serves on stdin and stdout; README.md has the rest\n",
			wire.Shown(filepath.Clean(*dir)), shellWord(filepath.Clean(*dir)))
		return failed(err)
	}
	return c
}

// shellWord returns a text as a word of a POSIX shell.
func shellWord(text string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !safe(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
