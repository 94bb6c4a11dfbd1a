package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"dragoman/internal/app/logging"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/internal/imported/clients"
	"dragoman/internal/setup"
	"dragoman/proxy/wire"
)

const setupLong = `Put dragoman into the files of the MCP clients on this machine: Claude Desktop, Claude
Code, Cursor, VS Code, Windsurf, Zed, Codex and Gemini CLI. Without a CLIENT, into
those of all that are found.

With --all-servers, the servers that a client has go into a configuration of dragoman's
in ~/.config/dragoman, and one entry takes their place: the client then starts one
dragoman, which serves them all. Secrets go into files that only you can read. Otherwise
--config or --url says what the entry serves.

It shows the change of each file and asks before it writes. Comments and everything else
in the file stay, and it is written in one step. The file as it was is kept, and --undo
gives it back, byte by byte if nobody has changed it since. Running it twice changes
nothing. No server is started.`

const setupExample = `  dragoman setup --dry-run
  dragoman setup claude-desktop --all-servers
  dragoman setup cursor --config ~/servers.toml
  dragoman setup vscode --project --url http://127.0.0.1:8080/mcp
  dragoman setup claude-desktop --undo`

// defaultEntry is the name of the entry in a client's file.
const defaultEntry = "dragoman"

// setupFlags are the flags of `dragoman setup`.
type setupFlags struct {
	p                            *program
	all, project, dry, yes, undo bool
	file, url, name, launcher    string
}

func newSetup(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "setup [CLIENT...] [flags]",
		Short:   "Put dragoman into the files of MCP clients, and take it out again",
		Long:    setupLong,
		Example: setupExample,
	}
	f := &setupFlags{p: p}
	flags := c.Flags()
	flags.BoolVar(&f.all, "all-servers", false, "serve all servers that the client has, in place of them")
	flags.StringVar(&f.file, "config", "", "serve the configuration `FILE`")
	flags.StringVar(&f.url, "url", "", "serve the server at this `URL`, such as that of a running dragoman")
	flags.BoolVar(&f.project, "project", false, "change the client's file in the working directory, not that of the user")
	flags.StringVar(&f.name, "name", defaultEntry, "`NAME` of the entry")
	flags.StringVar(&f.launcher, "launcher", "", "`'COMMAND ARG...'` that starts dragoman, such as 'npx -y PACKAGE@1.2.3' (default: the path of this program)")
	flags.BoolVar(&f.dry, "dry-run", false, "show the changes only")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&f.undo, "undo", false, "take dragoman out, and give the file back as it was")
	_ = c.MarkFlagFilename("config", "toml", "json", "yaml", "yml")
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		for _, one := range clients.Clients {
			names = append(names, cobra.CompletionWithDesc(one.ID, one.Title))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, args []string) error { return f.run(c.Context(), args) }
	return c
}

// run plans the change of each client, shows it, asks, and makes it.
func (f *setupFlags) run(ctx context.Context, args []string) error {
	s, err := f.setup()
	if err != nil {
		return err
	}
	found, err := f.clients(s.Machine, args)
	if err != nil {
		return err
	}
	if !f.dry && !f.yes && !f.p.attended() {
		return usagef("nobody can be asked: standard input is no terminal; fix: write --yes, or --dry-run to see the changes")
	}
	failures := 0
	for _, at := range found {
		err := f.one(ctx, s, at)
		if len(args) == 0 && errors.Is(err, setup.ErrNoServers) {
			err = f.say("%s: %v", at.Title, err)
		}
		if err != nil {
			failures++
			f.p.printError(fmt.Errorf("%s: %w", at.Title, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if failures > 0 {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// setup returns what is written, by the flags.
func (f *setupFlags) setup() (*setup.Setup, error) {
	s := &setup.Setup{Name: f.name, All: f.all}
	given := 0
	for _, is := range []bool{f.all, f.file != "", f.url != "", f.undo} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, usagef("only one of --all-servers, --config, --url and --undo can be given; fix: leave the others out")
	case given == 0:
		return nil, usagef("what the clients are to reach is missing; fix: write --all-servers for the servers that they have, --config FILE, or --url URL; with --dry-run nothing is changed")
	case f.name == "" || value.HasControl(f.name):
		return nil, usagef("--name: an entry needs a name; fix: write one such as dragoman")
	case f.url != "" && !isURL(f.url):
		return nil, usagef("--url %s is not a URL; fix: write one such as http://127.0.0.1:8080/mcp", mistaken(f.url))
	case f.url != "":
		s.Reach = []string{f.url}
	case f.file != "":
		file, err := filepath.Abs(f.file)
		if err != nil {
			return nil, failed(err)
		}
		if _, err := config.LoadConfig(config.LoadOptions{File: file, Environ: f.p.environ, For: config.OnStdio}); err != nil {
			return nil, err
		}
		s.Reach = []string{"--config", file}
	}
	var err error
	if s.Machine, s.Dir, err = f.p.machine(); err != nil {
		return nil, failed(err)
	}
	s.Launch, err = f.launch()
	return s, failed(err)
}

// machine returns where clients are looked for, and Dragoman's own directory of the user.
func (p *program) machine() (m *clients.Machine, dir string, err error) {
	m = &clients.Machine{System: runtime.GOOS, Environ: func(name string) string { text, _ := p.lookup(name); return text }}
	m.Home = m.Environ("HOME")
	if runtime.GOOS == "windows" {
		m.Home = m.Environ("USERPROFILE")
	}
	if m.Home == "" {
		return nil, "", errors.New("the home directory of the user is not known; fix: set HOME")
	}
	if m.Work, err = os.Getwd(); err != nil {
		return nil, "", err
	}
	return m, m.Settings("dragoman"), nil
}

// launch returns the command with which a client starts dragoman.
func (f *setupFlags) launch() ([]string, error) {
	text, set := f.p.lookup(config.LauncherVariable)
	if f.launcher != "" {
		text, set = f.launcher, true
	}
	if set {
		words := strings.Fields(text)
		if len(words) == 0 {
			return nil, errors.New("--launcher is empty; fix: write a command such as 'npx -y PACKAGE@1.2.3'")
		}
		return words, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the path of this program is not known: %w; fix: write --launcher", err)
	}
	for _, cache := range []string{"_npx", "archive-v0", "go-build"} { // of npx, uvx and go run
		if strings.Contains(filepath.ToSlash(self), "/"+cache) {
			_, _ = fmt.Fprintf(f.p.std.Err, "dragoman: warning: this program is in a cache, which may be emptied: %s; install dragoman, or write --launcher\n", self)
		}
	}
	return []string{self}, nil
}

// clients returns the files to change: those of the named clients, or of all that are found.
func (f *setupFlags) clients(m *clients.Machine, args []string) (found []clients.Installed, err error) {
	for _, name := range args {
		c := clients.Find(name)
		if c == nil {
			var ids []string
			for _, one := range clients.Clients {
				ids = append(ids, one.ID)
			}
			return nil, usagef("%q is no client that is known; fix: write %s", value.Shorten(name), value.OneOf(ids))
		}
		at, _ := m.Of(c)
		if f.project {
			if at, _ = m.InProject(c); at.Client == nil {
				return nil, usagef("%s has no file in a project; fix: leave out --project", c.Title)
			}
		}
		found = append(found, at)
	}
	if len(args) > 0 {
		return found, nil
	}
	found = m.Installed()
	if f.project {
		found = nil
		for _, c := range clients.Clients {
			if at, ok := m.InProject(c); ok && at.Exists {
				found = append(found, at)
			}
		}
	}
	if len(found) == 0 {
		return nil, failed(errors.New("no MCP client was found; fix: name one: `dragoman setup CLIENT ...`, `dragoman setup --help` lists them"))
	}
	return found, nil
}

// one plans, shows, asks and applies the change of one client.
func (f *setupFlags) one(ctx context.Context, s *setup.Setup, at clients.Installed) error {
	plan, err := s.Plan(at)
	if f.undo {
		plan, err = s.Undo(at)
	}
	switch {
	case errors.Is(err, setup.ErrNothing):
		return f.say("%s: %s has dragoman already; nothing is to be changed", at.Title, at.Path)
	case errors.Is(err, setup.ErrNotSetUp):
		return f.say("%s: dragoman has not been set up there", at.Title)
	case err != nil:
		return err
	}
	_, _ = fmt.Fprintf(f.p.std.Out, "%s\n%s", at.Title, plan.Diff(logging.Colourful(f.p.std.Out, f.p.environ)))
	if plan.Config != "" {
		_, _ = fmt.Fprintf(f.p.std.Out, "%s would serve %s: %s\n", plan.Config, counted(len(plan.Moved), "server"), wire.Shown(strings.Join(plan.Moved, ", ")))
	}
	for _, line := range plan.Lines {
		_, _ = fmt.Fprintf(f.p.std.Out, "  note: %s\n", line)
	}
	if f.dry {
		return f.say("nothing is changed: --dry-run")
	}
	if !f.yes {
		if err := f.p.ask(ctx, "Change it? [y/N] ", "changed"); err != nil {
			return err
		}
	}
	if err := plan.Apply(f.check); err != nil {
		return err
	}
	if f.undo {
		return f.say("dragoman is out of %s; restart %s", at.Path, at.Title)
	}
	return f.say("%s has dragoman; restart %s. `dragoman setup %s --undo` takes it out, and the file as it was is %s", at.Path, at.Title, at.ID, plan.Backup())
}

// check judges a configuration that setup has made.
func (f *setupFlags) check(file string) error {
	_, err := config.LoadConfig(config.LoadOptions{File: file, Environ: f.p.environ, For: config.OnStdio})
	if err != nil {
		return fmt.Errorf("its servers make no valid configuration, and nothing is changed:\n%w", err)
	}
	return nil
}

func (f *setupFlags) say(format string, args ...any) error {
	_, err := fmt.Fprintf(f.p.std.Out, format+"\n", args...)
	return err
}
