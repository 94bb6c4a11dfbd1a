package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/definitions"
	"dragoman/internal/app/logging"
	"dragoman/internal/cli/servers"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

const serversLong = `See, register, change and remove the servers of a running ` + "`dragoman serve`" + `, which
goes on serving meanwhile. It does so over the API of its admin listener, whose
address is found as ` + "`dragoman health`" + ` finds it.

The API asks for a key: --key, or DRAGOMAN_AGGREGATOR_KEY, is the key itself,
env:NAME for a variable, or file:/path. Others of this machine can see arguments, so
that a variable or a file is better.
` + "`dragoman key new me --role operator`" + ` makes a key, and prints the table
[aggregator.keys.me] for the configuration of the running dragoman. A viewer may use
list, show and tools only.

Exit codes: 0 done; 1 refused, nobody answers, or a server that was to be connected
is not; 2 wrong usage.`

const serversExample = `  dragoman servers list
  dragoman servers add github --url https://api.githubcopilot.com/mcp/ --header 'Authorization: Bearer ${GITHUB_TOKEN}'
  dragoman servers add files -- npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /srv
  dragoman servers edit github --disable delete_repository
  dragoman servers remove github`

const (
	// serversTime is how long the API may take: a disconnect waits for the requests that run.
	serversTime     = time.Minute
	mostServersTime = 10 * time.Minute
	// completionTime bounds the request for the names that complete a command line.
	completionTime = 2 * time.Second
	// maxServers is the largest answer in bytes: the tools of one page, with their schemas.
	maxServers = 64 << 20
)

// serversFlags are the flags of all `dragoman servers` commands.
type serversFlags struct {
	p     *program
	admin *adminFlags
	key   string
}

func addServersFlags(p *program, f *pflag.FlagSet) *serversFlags {
	s := &serversFlags{p: p, admin: addAdminFlags(f, serversTime, mostServersTime)}
	f.StringVar(&s.key, "key", "", "key of the API, `KEY|env:NAME|file:/path`; default: $"+config.KeyVariable)
	return s
}

func newServers(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "servers",
		Short:   "See and register the servers of a running dragoman",
		Long:    serversLong,
		Example: serversExample,
	}
	parent(c)
	s := addServersFlags(p, c.PersistentFlags())
	c.AddCommand(s.list(), s.show(), s.tools(), s.add(), s.edit(), s.remove(), s.connect(), s.disconnect(), s.refresh(), s.test(), s.search())
	return c
}

// api returns the client that the flags describe.
func (s *serversFlags) api() (*servers.Client, error) {
	text, from := s.key, "--key"
	if text == "" {
		text, _ = s.p.lookup(config.KeyVariable)
		from = config.KeyVariable
	}
	if text == "" {
		return nil, usagef("servers: no key is given; fix: write --key, or set %s; %s", config.KeyVariable, servers.Remedy)
	}
	key, err := value.ResolveSecret(text, s.p.lookup)
	if err != nil {
		return nil, failed(fmt.Errorf("%s: %s", from, config.FullText(err)))
	}
	if value.HasControl(key) || strings.Contains(key, " ") {
		return nil, failed(fmt.Errorf("%s: a key has no blanks and no control characters", from)) // it is not repeated
	}
	address, err := s.admin.address(s.p)
	if err != nil {
		return nil, err
	}
	send := func(ctx context.Context, req *fasthttp.Request, resp *fasthttp.Response) error {
		return sendAdmin(ctx, address, req, resp, maxServers)
	}
	stream := func(ctx context.Context, req *fasthttp.Request, read func(*fasthttp.Response) error) error {
		return streamAdmin(ctx, address, req, read)
	}
	return &servers.Client{Send: send, Stream: stream, Key: value.NewSecret(key)}, nil
}

// run makes requests to the API, within --timeout.
func (s *serversFlags) run(c *cobra.Command, do func(ctx context.Context, api *servers.Client) error) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), *s.admin.limit)
	defer cancel()
	err = do(ctx, api)
	if _, wrong := errors.AsType[*servers.Misuse](err); wrong || err == nil {
		return err
	}
	return failed(fmt.Errorf("servers: %w", err))
}

func (s *serversFlags) say(line string) error {
	_, err := fmt.Fprintln(s.p.std.Out, line)
	return err
}

func (s *serversFlags) colourful() bool { return logging.Colourful(s.p.std.Out, s.p.environ) }

// named makes a command take exactly one NAME, which is completed from the servers that fit.
func (s *serversFlags) named(c *cobra.Command, fits func(*aggregator.Server) bool) {
	c.Args = func(c *cobra.Command, args []string) error { return oneName(c, args, true) }
	c.ValidArgsFunction = s.complete(fits)
}

func oneName(c *cobra.Command, args []string, required bool) error {
	switch {
	case len(args) == 0 && required:
		return usagef("the NAME of a server is missing; fix: write `%s NAME`, `dragoman servers list` shows the names", c.CommandPath())
	case len(args) > 1:
		return usagef("unexpected argument %q; fix: write `%s NAME`", value.Shorten(args[1]), c.CommandPath())
	}
	return nil
}

// complete returns the names of servers that fit, with their states, for the completion of a command line. Without a key or an answer it
// completes nothing.
func (s *serversFlags) complete(fits func(*aggregator.Server) bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		api, err := s.api()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		all, err := api.List(ctx, "")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for i := range all.Is {
			if one := &all.Is[i]; fits == nil || fits(one) {
				names = append(names, cobra.CompletionWithDesc(wire.Shown(one.Name), wire.Shown(one.Status)+", "+servers.Counted(one.ToolCount)))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (s *serversFlags) list() *cobra.Command {
	c := &cobra.Command{
		Use:   "list [flags]",
		Short: "Print all servers",
		Long: `Print a line for each server, those of the configuration file too: its name, its
state, the number of its tools, its transport, who has named it, if it is down why, and
how many of its definitions are held.

With --watch the table is drawn again when something changes, until it is interrupted.
If standard output is no terminal, each change is a line; with --json it is JSON.`,
		Example: "  dragoman servers list\n  dragoman servers list --status ERROR\n  dragoman servers list --json\n  dragoman servers list --watch",
	}
	status := c.Flags().String("status", "", "only those of this `STATUS`: "+strings.Join(aggregator.Statuses, ", "))
	asJSON := c.Flags().Bool("json", false, "print JSON, as the API has it")
	watch := c.Flags().BoolP("watch", "w", false, "go on, and show each change")
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(aggregator.Statuses, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, args []string) error {
		wanted := strings.ToUpper(*status)
		switch {
		case len(args) > 0:
			return usagef("unexpected argument %q; fix: write `%s`, or `dragoman servers show NAME`", value.Shorten(args[0]), c.CommandPath())
		case wanted != "" && !slices.Contains(aggregator.Statuses, wanted):
			return usagef("%s", value.WithFix(fmt.Sprintf("--status: %q is not known", value.Shorten(*status)), "write "+value.OneOf(aggregator.Statuses)))
		}
		if *watch {
			return s.watch(c, &servers.Watcher{Out: s.p.std.Out, JSON: *asJSON, Redraw: logging.Terminal(s.p.std.Out), Colourful: s.colourful(), Status: wanted})
		}
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			all, err := api.List(ctx, wanted)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return servers.JSON(s.p.std.Out, all.Raw)
			}
			return servers.List(s.p.std.Out, all.Is, s.colourful())
		})
	}
	return c
}

// watch shows changes of servers until it is interrupted.
func (s *serversFlags) watch(c *cobra.Command, w *servers.Watcher) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	if err := api.Watch(c.Context(), w.Told); err != nil {
		return failed(fmt.Errorf("servers: %w", err))
	}
	return nil
}

func (s *serversFlags) show() *cobra.Command {
	c := &cobra.Command{
		Use:     "show NAME [flags]",
		Short:   "Print what is known of one server",
		Long:    "Print what is known of one server. Headers and variables are shown if they are references to secrets, and hidden else.",
		Example: "  dragoman servers show github\n  dragoman servers show github --json",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON, as the API has it")
	s.named(c, nil)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			one, err := api.Show(ctx, args[0])
			switch {
			case err != nil:
				return err
			case *asJSON:
				return servers.JSON(s.p.std.Out, one.Raw)
			}
			return servers.Show(s.p.std.Out, &one.Is, s.colourful())
		})
	}
	return c
}

func (s *serversFlags) tools() *cobra.Command {
	c := &cobra.Command{
		Use:   "tools [NAME] [flags]",
		Short: "Print the tools of one server, or of all",
		Long: `Print a line for each tool of a server, or of all: the name by which clients call it
at /mcp, its server, whether clients see it, its categories, and the first line of its
description.`,
		Example: "  dragoman servers tools\n  dragoman servers tools github --json\n  dragoman servers tools --category project_management",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON, as the API has it: with descriptions and schemas")
	category := c.Flags().String("category", "", "only tools of this category, by its `NAME`")
	s.named(c, nil)
	c.Args = func(c *cobra.Command, args []string) error { return oneName(c, args, false) }
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			all, err := api.Tools(ctx, strings.Join(args, ""), *category)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return servers.JSON(s.p.std.Out, all.Raw)
			}
			return servers.Tools(s.p.std.Out, all.Is, s.colourful())
		})
	}
	return c
}

func (s *serversFlags) test() *cobra.Command {
	c := &cobra.Command{
		Use:   "test URL [flags] | [flags] -- COMMAND [ARG...]",
		Short: "Connect to a server without registering it",
		Long: `Have the running dragoman connect to a server once, and print what it says: what it is,
what it speaks, how much it offers, and text that models read and people do not see.
Nothing is registered, and nothing stays. The server must be one that could be added.

The exit code is 0 if the server can be used, 1 if it is refused or cannot, 2 for wrong usage.`,
		Example: `  dragoman servers test https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'
  dragoman servers test -- npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /srv`,
	}
	var g given
	g.connection(c)
	asJSON := c.Flags().Bool("json", false, "print JSON, as the API has it")
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.RunE = func(c *cobra.Command, args []string) error {
		of, err := g.tested(c, args)
		if err != nil {
			return err
		}
		r, err := of.Registration("", false)
		if err != nil {
			return err
		}
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			got, err := api.Test(ctx, r)
			switch {
			case err != nil:
				return err
			case *asJSON:
				err = servers.JSON(s.p.std.Out, got.Raw)
				if err == nil && !got.Is.OK {
					err = errors.New(wire.ShownText(got.Is.Error))
				}
				return err
			}
			return servers.Tested(s.p.std.Out, &got.Is)
		})
	}
	return c
}

// tested returns what was given to test: URL, or -- COMMAND.
func (g *given) tested(c *cobra.Command, args []string) (*servers.Given, error) {
	var command []string
	if at := c.ArgsLenAtDash(); at >= 0 {
		args, command = args[:at], args[at:]
	}
	if len(args) > 1 {
		return nil, usagef("unexpected argument %q; fix: write `%s URL` or `%s -- COMMAND`", value.Shorten(args[1]), c.CommandPath(), c.CommandPath())
	}
	of, err := g.read(c, command)
	if err == nil && len(args) == 1 {
		of.URL = &args[0]
	}
	return of, err
}

const approveLong = `Show which definitions of servers are held until somebody approves them, and approve
them. A definition is what a model reads: that of a tool, a prompt or a resource
template, or the instructions of a server. It is held if it is new or has changed and
the running dragoman has definitions = "approve" for the server.

Without a NAME, what is held is listed. With one, what has changed is shown, and approved
if the answer is yes: all of the server, or the KEYs, which are the server's own names of
tools and prompts, templates, or the word instructions.

It uses the same API as ` + "`dragoman servers`" + `; ` + "`dragoman servers --help`" + ` tells about
its key, whose role must be operator to approve.

Exit codes: 0 done, or nothing is held; 1 refused, nobody answers, or not approved; 2
wrong usage.`

func newApprove(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "approve [NAME [KEY...]] [flags]",
		Short:   "See what servers have changed, and approve it",
		Long:    approveLong,
		Example: "  dragoman approve\n  dragoman approve github\n  dragoman approve github create_issue --yes",
	}
	s := addServersFlags(p, c.Flags())
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	asJSON := c.Flags().Bool("json", false, "print JSON, as the API has it: what is held, or with --yes what is approved")
	c.ValidArgsFunction = s.complete(func(one *aggregator.Server) bool { return one.Held > 0 })
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return s.run(c, func(ctx context.Context, api *servers.Client) error { return s.holding(ctx, api, *asJSON) })
		}
		return s.approve(c, args[0], args[1:], *yes, *asJSON)
	}
	return c
}

// holding prints what is held at all servers.
func (s *serversFlags) holding(ctx context.Context, api *servers.Client, asJSON bool) error {
	all, err := api.List(ctx, "")
	if err != nil {
		return err
	}
	var names []string
	var held [][]definitions.Held
	byName := map[string]json.RawMessage{}
	for i := range all.Is {
		one := &all.Is[i]
		if one.Held == 0 {
			continue
		}
		of, err := api.Held(ctx, one.ID)
		if err != nil {
			return err
		}
		if len(of.Is) == 0 { // it was approved meanwhile
			continue
		}
		names, held, byName[one.Name] = append(names, one.Name), append(held, of.Is), of.Raw
	}
	switch {
	case asJSON:
		raw, err := json.Marshal(byName)
		if err != nil {
			return err
		}
		return servers.JSON(s.p.std.Out, raw)
	case names == nil:
		return s.say("nothing is held")
	}
	return servers.Holding(s.p.std.Out, names, held, s.colourful())
}

// approve shows what is held of a server, and approves it if that is wanted.
func (s *serversFlags) approve(c *cobra.Command, name string, keys []string, yes, asJSON bool) error {
	var held []definitions.Held
	err := s.run(c, func(ctx context.Context, api *servers.Client) error {
		all, err := api.Held(ctx, name)
		if err != nil {
			return err
		}
		if held, err = servers.Chosen(name, all.Is, keys); err != nil {
			return err
		}
		return s.differences(held, name, yes, asJSON)
	})
	switch {
	case err != nil || !yes && asJSON || !asJSON && len(held) == 0:
		return err
	case !yes && !s.p.attended():
		return usagef("nothing was approved, as nobody can be asked: standard input is no terminal; fix: write --yes")
	case !yes:
		if err := s.p.ask(c.Context(), fmt.Sprintf("Approve %s of %s? [y/N] ", servers.Definitions(len(held)), name), "approved"); err != nil {
			return failed(fmt.Errorf("servers: %w", err))
		}
	}
	return s.run(c, func(ctx context.Context, api *servers.Client) error {
		done, err := api.Approve(ctx, name, held)
		switch {
		case err != nil:
			return err
		case asJSON:
			return servers.JSON(s.p.std.Out, done.Raw)
		}
		return s.say(servers.Definitions(len(done.Is.Definitions)) + " of " + name + " approved")
	})
}

// differences shows what is held of a server.
func (s *serversFlags) differences(held []definitions.Held, name string, yes, asJSON bool) error {
	switch {
	case asJSON && yes:
		return nil // the answer is printed
	case asJSON:
		raw, err := json.Marshal(append([]definitions.Held{}, held...))
		if err != nil {
			return err
		}
		return servers.JSON(s.p.std.Out, raw)
	case len(held) == 0:
		return s.say("nothing is held of " + name)
	}
	return servers.Differences(s.p.std.Out, held, s.colourful())
}
