// Package cli is the command line: it reads flags and arguments, runs a command, and turns its error into a message and
// an exit code.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"dragoman/adapters/stdio/reaper"
	"dragoman/conformance/mock"
	"dragoman/internal/app"
	"dragoman/internal/app/logging"
	_ "dragoman/internal/app/tuning/heap" // sets when garbage is collected
	"dragoman/internal/cli/clients"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/internal/setup"
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
` + "`dragoman servers`" + `, DRAGOMAN_REGISTRY the MCP registry that it asks and
DRAGOMAN_REGISTRY_KEY its key, DRAGOMAN_LAUNCHER the command that ` + "`dragoman setup`" + `
writes, DRAGOMAN_PARENT the id of the process whose end is an interrupt (0: the one that
has started dragoman); HTTPS_PROXY, HTTP_PROXY and NO_PROXY the proxy to
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
	p.greet(root)
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
		{"setup", groupRun, newSetup}, {"new", groupRun, newNew}, {"config", groupRun, newConfig}, {"key", groupRun, newKey}, {"status", groupRun, newStatus}, {"servers", groupRun, newServers}, {"tools", groupRun, newTools}, {"approve", groupRun, newApprove}, {"catalogue", groupRun, newCatalogue}, {"health", groupRun, newHealth}, {"errors", groupRun, newErrors},
		{"generate", groupRun, newGenerate},
		{"probe", groupTest, newProbe}, {"conformance", groupTest, newConformance}, {"bench", groupTest, newBench}, {"demo", groupTest, newDemo},
		{"version", groupOther, newVersion}, {reaper.Command, "", newReaper},
	}
}

// greet makes the program say on a terminal what it has found and what to do next, when it is called alone. Elsewhere it prints its help.
func (p *program) greet(root *cobra.Command) {
	otherwise := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		m, _, err := p.machine()
		if err != nil || len(args) > 0 || !logging.Terminal(p.std.Out) {
			return otherwise(c, args)
		}
		_, err = fmt.Fprint(p.std.Out, setup.Greeting(m, defaultEntry))
		return failed(err)
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

// Main runs the command line of this process and returns its exit code.
func Main() int {
	if reaper.Called(os.Args) { // the first child waits for it, so nothing else is set up
		return reaper.Main()
	}
	if mock.RelayCalled(os.Args) { // the server of `dragoman conformance --client`; the signals are for the client
		return mock.Relay(os.Args[2], os.Stdin, os.Stdout, os.Stderr)
	}
	if startsChild(os.Args[1:]) {
		reaper.Prelaunch()
	}
	ctx, stop := interruptible(context.Background(), os.Exit)
	defer stop()
	pid, err := parentOf(os.Environ(), os.Getppid())
	_ = os.Unsetenv(config.ParentVariable) // it is not about our children, and a failure is one of the name only
	if err != nil {
		printError(os.Stderr, os.Environ(), err)
		return exitCode(err)
	}
	if pid != 0 {
		var left func()
		ctx, left = withParent(ctx, pid, os.Getppid)
		defer left()
	}
	return Execute(ctx, os.Args[1:], os.Environ(), app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, Assembled())
}

// Assembled returns the real Runners.
func Assembled() Runners {
	return Runners{Check: app.Check, Serve: app.RunServe, Stdio: app.RunStdio, Probe: app.RunProbe, Demo: runDemo, Generate: clients.Run, Conformance: runConformance, Bench: runBench}
}

// sameSignal is how long after the first interrupt another one is taken for the same. A signal to a process group reaches
// us and what has launched us (npx, uvx), which passes it on.
const sameSignal = 500 * time.Millisecond

// interruptible returns a context that ends with the first SIGINT or SIGTERM, so that the running command drains. The
// second signal, later than [sameSignal], ends the process at once through exit. stop ends the signal handling.
func interruptible(parent context.Context, exit func(code int)) (ctx context.Context, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stopWatch := watch(parent, signals, exit)
	return ctx, func() {
		signal.Stop(signals)
		stopWatch()
	}
}

// watch is interruptible with signals from a channel. stop waits for its goroutine.
func watch(parent context.Context, signals <-chan os.Signal, exit func(code int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var first time.Time
		for {
			select {
			case <-signals:
			case <-quit:
				return
			}
			switch {
			case first.IsZero():
				first = time.Now()
				cancel()
			case time.Since(first) >= sameSignal:
				exit(exitInterrupted)
				return
			}
		}
	}()
	return ctx, func() {
		close(quit)
		<-ended
		cancel()
	}
}

// newReaper documents the hidden command with which Dragoman starts itself to run child processes and end their process
// trees. [Main] runs it.
func newReaper(*program) *cobra.Command {
	return &cobra.Command{
		Use:     reaper.Command + " [flags]",
		Short:   "Start and end child processes for another dragoman",
		Long:    "Start child processes for the dragoman that started this command, and end their process trees when it is gone.\nIt is not for users.",
		Example: "  dragoman serve -- npx -y @modelcontextprotocol/server-everything   # starts it where it is needed",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return usagef("dragoman starts this command itself") },
	}
}

// startsChild reports whether a command line names a COMMAND to start and a command that starts it.
func startsChild(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"serve", "stdio", "probe"}, args[0]) && slices.Contains(args, "--")
}

// parentCheck is how often the parent is looked for: what was left behind has ended a moment later, and an idle proxy stays idle.
const parentCheck = time.Second

// parentOf returns the process that [config.ParentVariable] names and with which this one ends; 0 means none. now is the parent at the start.
func parentOf(environ []string, now int) (pid int, err error) {
	at := slices.IndexFunc(environ, func(pair string) bool { return strings.HasPrefix(pair, config.ParentVariable+"=") })
	if at < 0 {
		return 0, nil
	}
	text := environ[at][len(config.ParentVariable)+1:]
	switch pid, err = strconv.Atoi(text); {
	case text == "":
		return 0, nil
	case err != nil || pid < 0:
		return 0, usagef("%s is %q; fix: write the id of the process that starts dragoman, or 0", config.ParentVariable, value.Shorten(text))
	case pid != 0 && pid != now:
		return 0, failed(fmt.Errorf("process %d has not started this one, or has ended, and %s names it; fix: unset the variable", pid, config.ParentVariable))
	}
	return now, nil
}

// withParent returns a context that ends when process pid is no longer the parent: a killed launcher cannot pass its signal on. stop ends the
// watch and waits for its goroutine. On Windows a parent never changes.
func withParent(parent context.Context, pid int, current func() int) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(parentCheck)
		defer tick.Stop()
		for current() == pid {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, func() {
		cancel()
		<-ended
	}
}
