package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dragoman/adapters/catalogue"
	"dragoman/internal/app"
	"dragoman/internal/app/logging"
	stores "dragoman/internal/app/target"
	"dragoman/internal/config"
	"dragoman/internal/generate"
	"dragoman/internal/generate/output"
	"dragoman/internal/generate/source"
	"dragoman/internal/generate/targets"
	"dragoman/internal/generate/template"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const generateLong = `Generate code that calls the tools of servers: scripts, typed packages, command
lines and descriptions, a folder for each server. What is generated calls the tools
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

const generateExample = `  # scripts for the tools of a running dragoman
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

// watchEvery is how often --watch asks for the tools.
const watchEvery = 2 * time.Second

// generateOptions are the flags of the command besides those of the configuration.
type generateOptions struct {
	targets          []string
	out, services    string
	name, url, token string
	check, watch     bool
	kept             bool // --catalogue
	every, limit     time.Duration

	templates, python string

	chosen []*targets.Target
	own    *targets.Own
}

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
	o := &generateOptions{}
	f := c.Flags()
	f.StringSliceVarP(&o.targets, "target", "t", nil, "what to generate, of "+strings.Join(names, ", ")+"; repeatable (default all)")
	f.StringVarP(&o.out, "out", "o", "generated", "the `FOLDER` to write into")
	f.StringVar(&o.services, "services", "", "the services of a services.yaml `FILE`")
	f.StringVar(&o.name, "name", "", "the `NAME` of the one server in what is generated (default its own)")
	f.StringVar(&o.url, "service-url", "", "the `URL` where the generated code calls the tools (default that of the service; for MCP servers the listener of the configuration)")
	f.StringVar(&o.token, "token-env", "", "the environment `VARIABLE` with the bearer token (default MCP_TOKEN_NAME)")
	f.BoolVar(&o.kept, "catalogue", false, "ask no server: take the tools that the catalogue of the configuration remembers")
	f.BoolVar(&o.check, "check", false, "write nothing; exit with 1 if something would change")
	f.BoolVar(&o.watch, "watch", false, "go on, and follow what servers change")
	f.DurationVar(&o.every, "every", watchEvery, "how often --watch asks, `DURATION`")
	f.DurationVar(&o.limit, "timeout", time.Minute, "how long an MCP server may take, `DURATION`")
	f.StringVar(&o.templates, "template", "", "a `FOLDER` of Jinja2 templates to render for each tool, in the place of --target")
	f.StringVar(&o.python, "python", "python3", "the `PROGRAM` that renders templates: a Python with Jinja2")
	_ = c.MarkFlagDirname("out")
	_ = c.MarkFlagDirname("template")
	_ = c.MarkFlagFilename("services", "yaml", "yml")
	_ = c.RegisterFlagCompletionFunc("target", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	flags := addSettingFlags(c, config.OnProbe)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.validate(); err != nil {
			return usagef("%w", err)
		}
		ask, done, err := p.toolSource(c, args, o, flags)
		if err != nil {
			return err
		}
		defer done()
		return p.generate(c.Context(), o, ask)
	}
	return c
}

// validate checks the flags by themselves.
func (o *generateOptions) validate() error {
	for i := range targets.All {
		if len(o.targets) == 0 && o.templates == "" {
			o.chosen = append(o.chosen, &targets.All[i])
		}
	}
	for _, name := range o.targets {
		t, err := targets.Find(name)
		if err != nil {
			return fmt.Errorf("--target: %w", err)
		}
		o.chosen = append(o.chosen, t)
	}
	if o.templates != "" {
		set, err := template.Load(o.templates, func(name string) bool { _, err := targets.Find(name); return err == nil })
		if err != nil {
			return fmt.Errorf("--template: %w", err)
		}
		o.own = &targets.Own{Set: set, Python: o.python}
	}
	if o.check && o.watch {
		return errors.New("--check and --watch exclude each other; fix: leave one out")
	}
	if o.limit <= 0 || o.every < 100*time.Millisecond {
		return errors.New("--timeout or --every is too short; fix: write durations such as 30s, for --every at least 100ms")
	}
	for _, one := range []struct {
		flag, value string
		check       func(string) error
	}{{"--name", o.name, source.CheckName}, {"--token-env", o.token, source.CheckVariable}, {"--service-url", o.url, source.CheckURL}} {
		if one.value == "" {
			continue
		}
		if err := one.check(one.value); err != nil {
			return fmt.Errorf("%s: %w", one.flag, err)
		}
	}
	return nil
}

// toolSource returns what asks for the tools, and what ends it.
func (p *program) toolSource(c *cobra.Command, args []string, o *generateOptions, flags *settingFlags) (ask source.Asker, done func(), err error) {
	done = func() {}
	if o.services != "" {
		switch {
		case len(args) > 0 || flags.file != "" || o.kept:
			err = usagef("--services and a server are given; fix: leave one out")
		case o.name != "" || o.url != "" || o.token != "":
			err = usagef("--name, --service-url and --token-env are of one server; fix: write name, url and token_env into %s", o.services)
		}
		if err != nil {
			return nil, done, err
		}
		ask, done = source.Services(o.services)
		return ask, done, nil
	}
	if len(args) == 1 && c.ArgsLenAtDash() < 0 && source.CheckURL(args[0]) == nil {
		e := source.Entry{Name: o.name, URL: strings.TrimSuffix(strings.TrimRight(args[0], "/"), "/mcp"), TokenEnv: o.token}
		if e.Answers(c.Context()) {
			ask, done = source.One(e, o.url)
			return ask, done, nil
		}
	}
	cfg, err := p.load(c, args, flags)
	if err != nil {
		return nil, done, err
	}
	several := len(cfg.Upstreams) > 1 || cfg.Merged()
	if several && o.name != "" {
		return nil, done, usagef("--name is of one server, and %s are configured; fix: leave it out", counted(len(cfg.Upstreams), "server"))
	}
	base := o.url
	if base == "" {
		base = "http://" + cfg.Listen()
	}
	if o.kept {
		return o.remembered(cfg, base), done, nil
	}
	lists, err := app.OpenToolLists(cfg, p.std)
	if err != nil {
		return nil, done, failed(err)
	}
	return func(ctx context.Context) ([]source.Result, bool, error) {
		var all []source.Result
		for _, l := range lists.List(ctx, o.limit, p.asking) {
			all = append(all, o.listed(&l, base, several))
		}
		return all, true, nil
	}, lists.Close, nil
}

// remembered returns an asker of the catalogue of a configuration, which is opened each time: another Dragoman may use it.
func (o *generateOptions) remembered(cfg *config.Config, base string) source.Asker {
	return func(ctx context.Context) ([]source.Result, bool, error) {
		store, err := stores.OpenStore(ctx, cfg, nil)
		if err != nil {
			return nil, false, err
		}
		if store == nil {
			return nil, false, errNoCatalogue
		}
		defer func() { _ = store.Close() }() // it was only read
		stored, err := store.Load(ctx)
		if err != nil {
			return nil, false, err
		}
		var all []source.Result
		for _, s := range stored.Servers {
			l := app.Listed{Name: s.Name, Instructions: s.Instructions}
			if list := s.Lists[catalogue.Tools]; list != nil && s.For == "" {
				for _, item := range list.Items {
					l.Tools = append(l.Tools, item.Raw)
				}
				all = append(all, o.listed(&l, base, true))
			}
		}
		if len(all) == 0 {
			return nil, false, errors.New("the catalogue remembers no tools; fix: run `dragoman serve` with the same configuration first")
		}
		return all, true, nil
	}
}

// asking says on a terminal which server is asked.
func (p *program) asking(name string) {
	if logging.Terminal(p.std.Err) {
		_, _ = fmt.Fprintf(p.std.Err, "asking %s\n", wire.Shown(name))
	}
}

// listed returns what an MCP server has listed. Of several servers each is at a path of its own.
func (o *generateOptions) listed(l *app.Listed, base string, several bool) (r source.Result) {
	r.Name = l.Name
	if !several {
		if r.Name = o.name; r.Name == "" {
			r.Name = source.Name(l.Own, l.Name)
		}
	}
	if r.Err = l.Err; r.Err != nil {
		return r
	}
	r.Service = &generate.Service{Name: r.Name, URL: base, Title: l.Title, Version: l.Version, Instructions: l.Instructions, TokenVariable: o.token}
	if several {
		r.Service.URL += proxy.ServerPath(l.Name)
	}
	r.Service.Tools, r.Skipped = source.Tools(l.Tools)
	r.Service.Prepare()
	return r
}

// generate asks for the tools and writes, once, or with --watch until it is interrupted.
func (p *program) generate(ctx context.Context, o *generateOptions, ask source.Asker) error {
	for {
		all, changed, err := ask(ctx)
		if ctx.Err() != nil {
			if o.watch {
				return nil
			}
			return failed(errors.New("interrupted; nothing was written"))
		}
		if err == nil && changed {
			err = p.write(ctx, o, all)
		}
		if !o.watch {
			return failed(err)
		}
		if err != nil {
			printError(p.std.Err, p.environ, err)
		}
		later := time.NewTimer(o.every)
		select {
		case <-ctx.Done():
			later.Stop()
			return nil
		case <-later.C:
		}
	}
}

// write writes what is generated for services, or with --check compares it, and reports what has changed. It fails if a service has failed, or if
// something would change.
func (p *program) write(ctx context.Context, o *generateOptions, all []source.Result) error {
	var services []targets.Named
	bad, tools := 0, 0
	for _, r := range all {
		services = append(services, targets.Named{Name: r.Name, Service: r.Service})
		if r.Err != nil {
			bad++
			printError(p.std.Err, p.environ, fmt.Errorf("%s: %w", r.Name, r.Err))
			continue
		}
		tools += len(r.Service.Tools)
		for _, s := range r.Skipped {
			_, _ = fmt.Fprintf(p.std.Err, "%s: left out: %s\n", r.Name, wire.Visible(s))
		}
	}
	plan, err := targets.Plan(ctx, services, o.chosen, o.own)
	if err != nil {
		return err
	}
	do := output.Write
	if o.check {
		do = output.Check
	}
	changes, err := do(o.out, plan)
	if err != nil {
		return err
	}
	if !o.watch || changes.Count() > 0 {
		p.report(o, changes, tools, len(all)-bad)
	}
	switch {
	case bad > 0:
		return fmt.Errorf("%s of %d could not be asked; what was generated for them is as it was", counted(bad, "service"), len(all))
	case o.check && changes.Count() > 0:
		return fmt.Errorf("%s is not up to date; fix: run the same without --check", o.out)
	}
	return nil
}

// mostPaths is how many paths of each kind a report names.
const mostPaths = 20

// report says what has changed.
func (p *program) report(o *generateOptions, changes *output.Changes, tools, services int) {
	did := [...]string{"created", "changed", "removed"}
	if o.check {
		did = [...]string{"is missing", "is stale", "has no tool any more"}
	}
	for i, all := range [][]string{changes.Created, changes.Changed, changes.Removed} {
		for n, path := range all {
			if n == mostPaths {
				_, _ = fmt.Fprintf(p.std.Out, "  and %d more\n", len(all)-n)
				break
			}
			_, _ = fmt.Fprintf(p.std.Out, "%s: %s\n", did[i], path)
		}
	}
	_, _ = fmt.Fprintf(p.std.Out, "%s of %s in %s: %s\n", counted(tools, "tool"), counted(services, "service"), o.out, tally(changes))
}

func tally(c *output.Changes) string {
	if c.Count() == 0 {
		return "nothing has changed"
	}
	return fmt.Sprintf("%d created, %d changed, %d removed", len(c.Created), len(c.Changed), len(c.Removed))
}
