package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"dragoman/adapters/stdio/reaper"
	"dragoman/internal/app"
	"dragoman/internal/config/value"
)

// Execute runs one command line and returns the exit code. It writes errors to std.Err, each with what fixes it.
func Execute(ctx context.Context, args, environ []string, std app.Streams, run Runners) int {
	p := &program{std: std, environ: environ, run: run}
	if len(args) > 0 && slices.ContainsFunc(commands(), func(c command) bool { return c.name == args[0] }) {
		p.only = args[0] // building the hundreds of flags of the others takes longer than parsing the command line
	}
	root := newRoot(p)
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if err.Error() != "" {
		p.printError(err)
	}
	return exitCode(err)
}

const rootLong = `Dragoman stands between MCP clients and MCP servers and speaks to each in its own
era (2026-07-28, or 2024-11-05 to 2025-11-25) and transport (streamable HTTP,
HTTP+SSE, stdio), so that any client can use any server.

Settings come from flags, DRAGOMAN_... and MCP_... variables, a file (--config) and defaults,
in this order of precedence. For variables, the key's dots become underscores:
sessions.idle_ttl is DRAGOMAN_SESSIONS_IDLE_TTL.

Other variables: DRAGOMAN_CONFIG names the file, DRAGOMAN_AGGREGATOR_KEY the key of
` + "`dragoman servers`" + `, DRAGOMAN_PARENT the id of the process whose end is an interrupt (0:
the one that has started dragoman); HTTPS_PROXY, HTTP_PROXY and NO_PROXY the proxy to
servers; SSL_CERT_FILE and SSL_CERT_DIR the trusted roots; NO_COLOR and TERM=dumb turn
colours off; GOGC, GOMEMLIMIT and GOMAXPROCS are those of Go.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server to test, 130 a second interrupt.`

const rootExample = `  dragoman serve -- npx -y @modelcontextprotocol/server-everything
  dragoman serve https://example.com/mcp
  dragoman stdio https://example.com/mcp
  dragoman probe https://example.com/mcp
  dragoman demo --http 127.0.0.1:8081`

// Tree returns all commands with their flags, for what is generated from them. Its commands are not for running.
func Tree() *cobra.Command { return newRoot(new(program)) }

func newRoot(p *program) *cobra.Command {
	root := &cobra.Command{
		Use:     "dragoman",
		Short:   "Let any MCP client use any MCP server",
		Long:    rootLong,
		Example: rootExample,

		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(p.std.In)
	root.SetOut(p.std.Out) // before the completion command is made, which stores it
	root.SetErr(p.std.Err)
	parent(root)
	p.versionFlag(root)
	root.SetFlagErrorFunc(flagError)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g, Title: g + ":"})
	}
	for _, c := range commands() {
		if p.only == "" || p.only == c.name {
			made := c.make(p)
			made.GroupID = c.group
			for _, one := range append(made.Commands(), made) {
				one.DisableFlagsInUseLine = true // Use says where they belong
			}
			root.AddCommand(made)
		}
	}
	if p.only != "" {
		return root
	}
	root.SetCompletionCommandGroupID(groupOther)
	root.SetHelpCommandGroupID(groupOther)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Example = "  source <(dragoman completion bash)\n  dragoman completion fish > ~/.config/fish/completions/dragoman.fish"
			parent(c)
			for _, shell := range c.Commands() {
				shell.Example = "  dragoman completion " + shell.Name()
			}
		case "help":
			c.Example = "  dragoman help serve"
		}
	}
	return root
}

// Groups of commands in the help.
const (
	groupServe = "Serve"
	groupRun   = "Run and configure"
	groupTest  = "Look at servers"
	groupOther = "Other"
)

var groups = []string{groupServe, groupRun, groupTest, groupOther}

// command is a direct subcommand of the program.
type command struct {
	name  string
	group string // "" for a hidden command
	make  func(*program) *cobra.Command
}

func commands() []command {
	return []command{
		{"serve", groupServe, newServe}, {"stdio", groupServe, newStdio},
		{"config", groupRun, newConfig}, {"key", groupRun, newKey}, {"status", groupRun, newStatus}, {"servers", groupRun, newServers}, {"approve", groupRun, newApprove}, {"catalogue", groupRun, newCatalogue}, {"health", groupRun, newHealth}, {"errors", groupRun, newErrors},
		{"probe", groupTest, newProbe}, {"conformance", groupTest, newConformance}, {"bench", groupTest, newBench}, {"demo", groupTest, newDemo},
		{"version", groupOther, newVersion}, {reaper.Command, "", newReaper},
	}
}

// versionFlag adds --version. cobra's own flag uses a template, and with templates the linker must keep every method of
// every type, a quarter of the binary.
func (p *program) versionFlag(root *cobra.Command) {
	asked := root.Flags().BoolP("version", "v", false, "version for dragoman")
	otherwise := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		if !*asked {
			return otherwise(c, args)
		}
		_, err := fmt.Fprintln(p.std.Out, "dragoman", app.ReadVersion().Version)
		return failed(err)
	}
}

func newVersion(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version",
		Long:    "Print the version and revision of this binary, and what it was built with.",
		Example: "  dragoman version\n  dragoman version --json",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unexpected argument %q; fix: write `dragoman version`", value.Shorten(args[0]))
		}
		line := app.ReadVersion().String()
		if *asJSON {
			data, err := json.Marshal(app.ReadVersion())
			if err != nil {
				return failed(fmt.Errorf("version: %w", err))
			}
			line = string(data)
		}
		_, err := fmt.Fprintln(p.std.Out, line)
		return failed(err)
	}
	return c
}
