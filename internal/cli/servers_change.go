package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dragoman/adapters/aggregator"
	"dragoman/internal/cli/servers"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

// given are the flags that describe a server.
type given struct {
	url, description, healthURL string
	sse                         bool
	headers, env, methods       []string
	disable, enable             []string
}

func (g *given) flags(c *cobra.Command) {
	c.Flags().StringVar(&g.url, "url", "", "`URL` of the server")
	c.Flags().StringVar(&g.description, "description", "", "`TEXT` for people")
	g.connection(c)
}

// connection adds the flags that say how a server is reached, but for its URL.
func (g *given) connection(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&g.sse, "sse", false, "the server speaks HTTP+SSE (2024-11-05) at that URL")
	f.StringArrayVar(&g.headers, "header", nil, "header of each request, `'NAME: VALUE'`, or @FILE with such lines; repeatable")
	f.StringArrayVar(&g.env, "env", nil, "variable of the command, `NAME=VALUE`; repeatable")
	f.StringArrayVar(&g.methods, "grpc-method", nil, "methods of a gRPC service that are tools, `PATTERN` such as 'routeguide.RouteGuide/*'; repeatable")
	f.StringVar(&g.healthURL, "health-url", "", "`URL` that answers 200 while the server is well")
}

// read returns what was given: the flags that were written, and the words after --.
func (g *given) read(c *cobra.Command, command []string) (*servers.Given, error) {
	of := &servers.Given{Command: command, Methods: g.methods, Disable: g.disable, Enable: g.enable}
	for name, to := range map[string]struct {
		at   **string
		from *string
	}{"url": {&of.URL, &g.url}, "description": {&of.Description, &g.description}, "health-url": {&of.HealthURL, &g.healthURL}} {
		if c.Flags().Changed(name) {
			*to.at = to.from
		}
	}
	if c.Flags().Changed("sse") {
		of.SSE = &g.sse
	}
	fields, err := headerFields(g.headers)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		of.Headers = append(of.Headers, servers.Named{Name: f.name, Value: f.value})
	}
	for _, pair := range g.env {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" { // it is not repeated: it may be a secret
			return nil, usagef("--env: the value is not NAME=VALUE; fix: write --env NAME=VALUE, and for a secret --env NAME=env:VARIABLE")
		}
		of.Env = append(of.Env, servers.Named{Name: name, Value: text})
	}
	return of, nil
}

// nameAndCommand splits the arguments NAME [-- COMMAND ARG...].
func nameAndCommand(c *cobra.Command, args []string) (name string, command []string, err error) {
	if at := c.ArgsLenAtDash(); at >= 0 {
		args, command = args[:at], args[at:]
		if len(command) == 0 {
			return "", nil, usagef("the COMMAND after -- is missing; fix: write `%s NAME -- COMMAND`, for example `%s NAME -- npx -y PACKAGE`", c.CommandPath(), c.CommandPath())
		}
	}
	switch {
	case len(args) > 1 && isURL(args[1]):
		return "", nil, usagef("unexpected argument; fix: write the URL after --url")
	case len(args) > 1:
		return "", nil, usagef("unexpected argument %q; fix: write `%s NAME --url URL` or `%s NAME -- COMMAND`", value.Shorten(args[1]), c.CommandPath(), c.CommandPath())
	}
	if err := oneName(c, args, true); err != nil {
		return "", nil, err
	}
	return args[0], command, nil
}

// waitTime is how long a command waits for a server to be connected.
const waitTime = 10 * time.Second

func yesFlag(c *cobra.Command) *bool {
	return c.Flags().BoolP("yes", "y", false, "do not ask")
}

func waitFlag(c *cobra.Command) *time.Duration {
	return c.Flags().Duration("wait", waitTime, "how long to wait until the server is connected, `DURATION`; 0s: not at all")
}

// waited prints a server once it is connected, after it was registered or changed (done; empty: neither). It fails if the server is not
// connected in time.
func (s *serversFlags) waited(c *cobra.Command, api *servers.Client, name, done string, wait time.Duration, asJSON bool) error {
	ctx, cancel := context.WithTimeout(c.Context(), max(wait, 0)+*s.admin.limit)
	defer cancel()
	one, err := api.Settled(ctx, name, wait)
	switch {
	case err != nil && done != "":
		return fmt.Errorf("%s is %s, but nobody says whether it is connected: %w", name, done, err)
	case err != nil:
		return err
	case wait > 0 && !servers.Connected(&one.Is):
		written := ""
		if one.Is.Transport == "STDIO" {
			written = ", and the log of dragoman what it has written"
		}
		return fmt.Errorf("%s is %snot connected (%s): %s; `dragoman servers show %s` shows how it goes on%s", name, joined(done, ", but "), wire.Shown(one.Is.Status),
			wire.ShownText(cmp.Or(one.Is.Error, one.Is.LastError, "it has not answered yet")), name, written)
	case asJSON:
		return servers.JSON(s.p.std.Out, one.Raw)
	case wait <= 0:
		return s.say(fmt.Sprintf("%s is %sbeing connected; `dragoman servers show %s` shows how it goes on", name, joined(done, " and "), name))
	}
	return s.say(fmt.Sprintf("%s is %sconnected, with %s", name, joined(done, " and "), servers.Counted(one.Is.ToolCount)))
}

// joined returns a part of a sentence with the word that leads on; nothing for nothing.
func joined(begin, word string) string {
	if begin == "" {
		return ""
	}
	return begin + word
}

const addLong = `Register a server, connect it, and say how many tools it has. Clients see them as
NAME.TOOL at once. The server is kept over restarts.

Headers and variables may be, or contain, references to secrets that the running
dragoman resolves: env:NAME, file:/path or ${NAME}, as its aggregator.secrets allows.
A COMMAND must be one of its aggregator.commands, and the packages that it fetches must
have fixed versions. What it starts is shown, and asked about on a terminal. An address
outside of the public networks must be in its aggregator.networks.

With --registry NAME is the exact name of a server of an MCP registry, and @VERSION one of
its versions; its end becomes our name. With --bundle the server is in a file (.mcpb),
which is unpacked on this machine. Both say what is used, and which values are needed:
they are asked for on a terminal, or given with --var. Secrets are references only.

With --import the servers in the file of an MCP client are registered, each shown and
asked about; with NAMEs, only these.

The exit code is 0 if the server is registered and, unless --no-connect or --wait 0s
is given, connected in time; 1 if it is refused or not connected, 2 for wrong usage.`

const addExample = `  dragoman servers add github --url https://api.githubcopilot.com/mcp/ --header 'Authorization: Bearer ${GITHUB_TOKEN}'
  dragoman servers add files --env LOG=env:FILES_LOG -- npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /srv
  dragoman servers add old --sse --url https://example.com/sse --no-connect
  dragoman servers add routes --url grpcs://example.com:443 --grpc-method 'routeguide.RouteGuide/*'
  dragoman servers add io.github.me/weather@1.2.0 --registry https://registry.example.com --var API_KEY=env:WEATHER_KEY
  dragoman servers add notes --bundle notes.mcpb --var directory=/srv/notes
  dragoman servers add --import ~/.cursor/mcp.json`

func (s *serversFlags) add() *cobra.Command {
	c := &cobra.Command{
		Use:   "add NAME --url URL [flags] | NAME [flags] -- COMMAND [ARG...] | NAME[@VERSION] --registry URL [flags] | NAME --bundle FILE [flags] | --import FILE [NAME...] [flags]",
		Short: "Register a server and connect it",
		Long:  addLong, Example: addExample,
	}
	var g given
	g.flags(c)
	var a arriving
	a.flags(c)
	file := c.Flags().String("import", "", "register the servers in the `FILE` of an MCP client, such as claude_desktop_config.json or mcp.json")
	_ = c.MarkFlagFilename("import", "json", "toml")
	idle := c.Flags().Bool("no-connect", false, "register it only, for a later connect")
	wait := waitFlag(c)
	yes := yesFlag(c)
	asJSON := c.Flags().Bool("json", false, "print the server as JSON, as the API has it")
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.RunE = func(c *cobra.Command, args []string) error {
		if *file != "" {
			return s.imports(c, *file, args, &importing{*idle, *yes, *wait})
		}
		name, of, err := s.added(c, args, &g, &a, *yes)
		if err != nil {
			return err
		}
		r, err := of.Registration(name, !*idle)
		if err != nil {
			return err
		}
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			one, err := api.Add(ctx, r)
			switch {
			case err != nil:
				return err
			case *idle && *asJSON:
				return servers.JSON(s.p.std.Out, one.Raw)
			case *idle:
				return s.say(name + " is registered; `dragoman servers connect " + name + "` connects it")
			}
			return s.waited(c, api, name, "registered", *wait, *asJSON)
		})
	}
	return c
}

// added returns what is registered, and its name. It was shown, and may be started.
func (s *serversFlags) added(c *cobra.Command, args []string, g *given, a *arriving, yes bool) (name string, of *servers.Given, err error) {
	described, err := a.wanted(c, args)
	switch {
	case err != nil:
		return "", nil, err
	case described:
		of, name, err = s.arrive(c, a, args[0], yes)
		if err == nil && c.Flags().Changed("description") {
			of.Description = &g.description
		}
		if err == nil && c.Flags().Changed("health-url") {
			of.HealthURL = &g.healthURL
		}
		return name, of, err
	}
	name, command, err := nameAndCommand(c, args)
	if err != nil {
		return "", nil, err
	}
	if of, err = g.read(c, command); err != nil {
		return "", nil, err
	}
	if _, err := of.Registration(name, false); err != nil {
		return "", nil, err
	}
	return name, of, s.confirm(c.Context(), of, yes)
}

func (s *serversFlags) edit() *cobra.Command {
	c := &cobra.Command{
		Use:   "edit NAME [flags] [-- COMMAND [ARG...]]",
		Short: "Change a registered server",
		Long: `Change a registered server. Settings that are not given stay. An empty value removes a
header or a variable (--header 'X-Team:'). Values that the API hides are kept as long as the
address or the command stays.

The exit code is 0 if the server is changed and, if it was connected or to be, connected
in time; 1 if the change is refused or the server not connected, 2 for wrong usage.`,
		Example: `  dragoman servers edit github --disable delete_repository --disable 'admin_*'
  dragoman servers edit github --header 'Authorization: Bearer ${NEW_TOKEN}' --description 'our repositories'
  dragoman servers edit files -- npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /srv /data`,
	}
	var g given
	g.flags(c)
	c.Flags().StringArrayVar(&g.disable, "disable", nil, "`TOOL` that clients shall not see; a * at its end stands for any ending; repeatable")
	c.Flags().StringArrayVar(&g.enable, "enable", nil, "`TOOL` that is disabled no longer; repeatable")
	wait := waitFlag(c)
	yes := yesFlag(c)
	asJSON := c.Flags().Bool("json", false, "print the server as JSON, as the API has it")
	c.ValidArgsFunction = s.complete(changeable)
	c.RunE = func(c *cobra.Command, args []string) error {
		name, command, err := nameAndCommand(c, args)
		if err != nil {
			return err
		}
		of, err := g.read(c, command)
		if err != nil {
			return err
		}
		if of.Nothing() {
			return usagef("nothing is to be changed; fix: write a flag, `%s --help` lists them", c.CommandPath())
		}
		if err := s.confirm(c.Context(), of, *yes); err != nil {
			return err
		}
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			before, after, err := edited(ctx, api, name, of)
			switch {
			case err != nil:
				return err
			case before.Status != "DISCONNECTED" && of.Connects():
				return s.waited(c, api, name, "changed", *wait, *asJSON)
			case *asJSON:
				return servers.JSON(s.p.std.Out, after.Raw)
			}
			return s.say(name + " is changed")
		})
	}
	return c
}

// edited changes a server as it was given, and returns it as it was before, and as it is.
func edited(ctx context.Context, api *servers.Client, name string, of *servers.Given) (before aggregator.Server, after servers.Answer[aggregator.Server], err error) {
	now, err := api.Show(ctx, name)
	if err != nil {
		return before, after, err
	}
	var tools servers.Answer[[]aggregator.Tool]
	if len(of.Disable)+len(of.Enable) > 0 {
		if tools, err = api.Tools(ctx, name, ""); err != nil {
			return before, after, err
		}
	}
	u, err := of.Update(&now.Is, tools.Is)
	if err == nil {
		after, err = api.Edit(ctx, name, u)
	}
	return now.Is, after, err
}

// changeable reports whether a server can be changed by the API.
func changeable(s *aggregator.Server) bool { return s.Source == aggregator.Registered }

func (s *serversFlags) remove() *cobra.Command {
	c := &cobra.Command{
		Use:   "remove NAME [flags]",
		Short: "Disconnect a registered server and forget it",
		Long: `Disconnect a registered server when its running requests have ended, and forget it
with its tools. It asks first, on a terminal.`,
		Example: "  dragoman servers remove github\n  dragoman servers remove github --yes",
	}
	yes := yesFlag(c)
	s.named(c, changeable)
	c.RunE = func(c *cobra.Command, args []string) error {
		if !*yes && !s.p.attended() {
			return usagef("nobody can be asked whether %s is to be removed: standard input is no terminal; fix: write --yes", value.Shorten(args[0]))
		}
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			one, err := api.Show(ctx, args[0])
			if err != nil {
				return err
			}
			if !*yes {
				if err := s.p.ask(c.Context(), fmt.Sprintf("Remove %s with %s? [y/N] ", wire.Shown(one.Is.Name), servers.Counted(one.Is.ToolCount)), "removed"); err != nil {
					return err
				}
			}
			if err := api.Remove(ctx, args[0]); err != nil {
				return err
			}
			return s.say(args[0] + " is removed")
		})
	}
	return c
}

// confirm shows what a COMMAND starts, and asks on a terminal whether it may.
func (s *serversFlags) confirm(ctx context.Context, of *servers.Given, yes bool) error {
	lines := of.Starts()
	for _, line := range lines {
		_, _ = fmt.Fprintln(s.p.std.Err, line)
	}
	if yes || len(lines) == 0 || !s.p.attended() {
		return nil
	}
	return failed(s.p.ask(ctx, "Start it on the machine of dragoman? [y/N] ", "sent"))
}

func (s *serversFlags) connect() *cobra.Command {
	c := &cobra.Command{
		Use:   "connect NAME [flags]",
		Short: "Connect a registered server",
		Long: `Connect a registered server, and say how many tools it has. One that is connected
stays so.

The exit code is 0 if it is connected in time, or with --wait 0s if it is being
connected; else 1, and 2 for wrong usage.`,
		Example: "  dragoman servers connect github\n  dragoman servers connect github --wait 1m",
	}
	wait := waitFlag(c)
	s.named(c, changeable)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			err := api.Connect(ctx, args[0])
			if err != nil {
				one, shown := api.Show(ctx, args[0])
				if shown == nil && servers.Connected(&one.Is) && changeable(&one.Is) {
					return s.say(fmt.Sprintf("%s is connected already, with %s", args[0], servers.Counted(one.Is.ToolCount)))
				}
				return err
			}
			return s.waited(c, api, args[0], "", *wait, false)
		})
	}
	return c
}

func (s *serversFlags) disconnect() *cobra.Command {
	c := &cobra.Command{
		Use:   "disconnect NAME [flags]",
		Short: "Stop using a registered server",
		Long: `Stop using a registered server until it is connected again, over restarts too. New
requests to it are refused at once; those that run end first, in the drain_timeout of
the running dragoman.`,
		Example: "  dragoman servers disconnect github\n  dragoman servers disconnect github --force",
	}
	force := c.Flags().Bool("force", false, "cut the requests that run, which fail with 503")
	s.named(c, changeable)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			if err := api.Disconnect(ctx, args[0], *force); err != nil {
				return err
			}
			return s.say(args[0] + " is disconnected; `dragoman servers connect " + args[0] + "` connects it again")
		})
	}
	return c
}

func (s *serversFlags) refresh() *cobra.Command {
	c := &cobra.Command{
		Use:   "refresh NAME [flags]",
		Short: "Read the tools of a connected server again",
		Long: `Read the tools and other lists of a connected server again, one of the configuration
file too. Dragoman does so by itself when the server says that they have changed; this
is for servers that do not say so.`,
		Example: "  dragoman servers refresh github",
	}
	s.named(c, nil)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.run(c, func(ctx context.Context, api *servers.Client) error {
			if err := api.Refresh(ctx, args[0]); err != nil {
				return err
			}
			if one, err := api.Show(ctx, args[0]); err == nil && one.Is.Status == "ERROR" {
				return fmt.Errorf("%s is %s: its lists are read again when it answers; `dragoman servers show %s` says why it does not", args[0], one.Is.Status, args[0])
			}
			return s.say("the lists of " + args[0] + " are read again; `dragoman servers tools " + args[0] + "` shows its tools")
		})
	}
	return c
}
