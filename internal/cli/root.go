package cli

import (
	"context"
	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dragoman/adapters/stdio/reaper"
)

// Runners are what the commands start once everything they were given is
// checked. Tests put their own in.
type Runners struct {
	Serve func(ctx context.Context, cfg *config.Config, std app.Streams) error
	Stdio func(ctx context.Context, cfg *config.Config, std app.Streams) error
	Probe func(ctx context.Context, cfg *config.Config, std app.Streams, asJSON bool) error
	Demo  func(ctx context.Context, opt app.DemoOptions, std app.Streams) error
	// Conformance writes reports; its error may be a [verdict].
	Conformance func(ctx context.Context, opt *ConformanceOptions, std app.Streams) error
	Bench       func(ctx context.Context, opt *BenchOptions, std app.Streams) error // likewise
}

// program is one run of the command line.
type program struct {
	std     app.Streams
	environ []string
	run     Runners
	only    string // the one command that is wanted, all if ""
}

// usageError is a mistake in what was typed: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// failure marks what failed after the command line was understood: exit code 1.
type failure struct{ err error }

func (e *failure) Error() string { return e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// verdict is the end of a command that was carried out and whose outcome scripts are to see: its exit code. Without err all has
// been said already.
type verdict struct {
	code int
	err  error
}

func (v *verdict) Error() string {
	if v.err == nil {
		return ""
	}
	return v.err.Error()
}
func (v *verdict) Unwrap() error { return v.err }

// Execute runs one command line and returns the exit code. Errors are written
// to std.Err, each with what to do about it.
func Execute(ctx context.Context, args, environ []string, std app.Streams, run Runners) int {
	p := &program{std: std, environ: environ, run: run}
	if len(args) > 0 && slices.ContainsFunc(commands(), func(c command) bool { return c.name == args[0] }) {
		p.only = args[0] // the flags of the others, some hundreds, take longer to make than the command line to read
	}
	root := newRoot(p)
	root.SetArgs(append([]string{}, args...)) // nil would stand for those of the process
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if err.Error() != "" {
		printError(std.Err, environ, err)
	}
	return exitCode(err)
}

// exitCode tells usage errors from the rest. What is not marked comes from
// the parser of the command line.
func exitCode(err error) int {
	var ce value.ConfigErrors
	var fe *failure
	var v *verdict
	switch {
	case errors.As(err, &v):
		return v.code
	case errors.As(err, &ce):
		if ce.OnCommandLine() {
			return ExitUsage
		}
		return ExitFailed
	case errors.As(err, &fe):
		return ExitFailed
	default:
		return ExitUsage
	}
}

const (
	red   = "\x1b[1;31m"
	plain = "\x1b[0m"
)

// printError writes "dragoman: …", the name in colour on a terminal.
func printError(w io.Writer, environ []string, err error) {
	name := "dragoman:"
	if app.Colourful(w, environ) {
		name = red + name + plain
	}
	_, _ = fmt.Fprintf(w, "%s %s\n", name, strings.TrimSpace(err.Error()))
}

const rootLong = `Dragoman stands between MCP clients and MCP servers and speaks to each in its own
era (2026-07-28, or 2024-11-05 to 2025-11-25) and transport (streamable HTTP,
HTTP+SSE, stdio), so that any client can use any server.

Settings come from flags, DRAGOMAN_... variables, a file (--config) and defaults,
in this order of precedence. For variables, the key's dots become underscores:
sessions.idle_ttl is DRAGOMAN_SESSIONS_IDLE_TTL.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 a second interrupt.`

const rootExample = `  dragoman serve -- npx -y @modelcontextprotocol/server-everything
  dragoman serve https://example.com/mcp
  dragoman stdio https://example.com/mcp
  dragoman probe https://example.com/mcp
  dragoman demo --http 127.0.0.1:8081`

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
	root.SetOut(p.std.Out) // before the completion command is made, which keeps it
	root.SetErr(p.std.Err)
	parent(root)
	p.versionFlag(root)
	root.SetFlagErrorFunc(flagError)
	for _, c := range commands() {
		if p.only == "" || p.only == c.name {
			root.AddCommand(c.make(p))
		}
	}
	if p.only != "" {
		return root
	}
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

// command is one that stands right behind the program's name.
type command struct {
	name string
	make func(*program) *cobra.Command
}

func commands() []command {
	return []command{{"serve", newServe}, {"stdio", newStdio}, {"probe", newProbe}, {"health", newHealth}, {"config", newConfig}, {"demo", newDemo},
		{"conformance", newConformance}, {"bench", newBench}, {"errors", newErrors}, {"key", newKey}, {"version", newVersion}, {reaper.Command, newReaper}}
}

// versionFlag is --version, as cobra has it, which would take a template for it: with templates the linker has to keep every method
// of everything, a quarter of the binary.
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

// parent makes a command that only has subcommands show its help, and refuse
// a subcommand that it does not have.
func parent(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		hint := fmt.Sprintf("run `%s --help` for a list", c.CommandPath())
		if near := value.Nearest(args[0], names); near != "" {
			hint = fmt.Sprintf("did you mean `%s %s`?", c.CommandPath(), near)
		} else if isURL(args[0]) && !c.HasParent() {
			hint = "did you mean `dragoman serve " + value.RedactURL(args[0]) + "`?"
		}
		return usagef("%s", value.WithFix(fmt.Sprintf("unknown command %q", value.Shorten(args[0])), hint))
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// flagError adds to the parser's error what was probably meant. A flag with a
// single dash is most often the child's.
func flagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("run `%s --help` for the flags", c.CommandPath())
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := value.Nearest(unknown.GetSpecifiedName(), names); near != "" && len(unknown.GetSpecifiedName()) > 1 {
			hint = fmt.Sprintf("did you mean --%s?", near)
		} else if slices.Contains([]string{"serve", "stdio", "probe", "conformance", "bench"}, c.Name()) {
			hint += "; flags of the command to start come after --, as in `" + c.CommandPath() + " -- npx -y PACKAGE`"
		}
	}
	return usagef("%s", value.WithFix(err.Error(), hint))
}

// ran turns the end of a long-running command into the command's result: an
// interrupted one that has drained is done.
func ran(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return failed(err)
}

// failed marks an error of a run. Configuration errors keep their own code.
func failed(err error) error {
	var ce value.ConfigErrors
	if err == nil || errors.As(err, &ce) {
		return err
	}
	return &failure{err: err}
}
