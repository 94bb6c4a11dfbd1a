// Package clients writes clients for the tools of servers: the command `dragoman generate`.
package clients

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

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

// WatchEvery is how often the tools are asked for by default.
const WatchEvery = 2 * time.Second

// Options say what is generated, of which tools, and where.
type Options struct {
	Targets   []string // names of targets.All; none and no Templates: all
	Templates string   // a folder of templates; empty: none
	Python    string   // the program that renders them
	Out       string   // the folder to write into

	Services  string         // a services.yaml; empty: Config says which servers there are
	Config    *config.Config // nil with Services
	Given     string         // the URL that was given, which may be that of a REST endpoint; empty: none
	Merged    bool           // several servers behind Given are one service
	Catalogue bool           // no server is asked: the tools are those that the catalogue of Config remembers

	// Of one server: its name, where its tools are called, and the variable with its token. Empty: its own, that of the service, and MCP_TOKEN_NAME.
	Name, ServiceURL, TokenVariable string

	Check, Watch bool          // nothing is written; Run goes on and follows changes
	Every        time.Duration // how often Watch asks
	Limit        time.Duration // how long an MCP server may take

	chosen []*targets.Target
	own    *targets.Own
}

// Validate checks the options by themselves, and reads the templates.
func (o *Options) Validate() error {
	for i := range targets.All {
		if len(o.Targets) == 0 && o.Templates == "" {
			o.chosen = append(o.chosen, &targets.All[i])
		}
	}
	for _, name := range o.Targets {
		t, err := targets.Find(name)
		if err != nil {
			return fmt.Errorf("--target: %w", err)
		}
		o.chosen = append(o.chosen, t)
	}
	if o.Templates != "" {
		set, err := template.Load(o.Templates, func(name string) bool { _, err := targets.Find(name); return err == nil })
		if err != nil {
			return fmt.Errorf("--template: %w", err)
		}
		o.own = &targets.Own{Set: set, Python: o.Python}
	}
	if o.Check && o.Watch {
		return errors.New("--check and --watch exclude each other; fix: leave one out")
	}
	if o.Limit <= 0 || o.Every < 100*time.Millisecond {
		return errors.New("--timeout or --every is too short; fix: write durations such as 30s, for --every at least 100ms")
	}
	for _, one := range []struct {
		flag, value string
		check       func(string) error
	}{{"--name", o.Name, source.CheckName}, {"--token-env", o.TokenVariable, source.CheckVariable}, {"--service-url", o.ServiceURL, source.CheckURL}} {
		if one.value == "" {
			continue
		}
		if err := one.check(one.value); err != nil {
			return fmt.Errorf("%s: %w", one.flag, err)
		}
	}
	return nil
}

// Several reports whether each server has a path of its own.
func (o *Options) Several() bool { return len(o.Config.Upstreams) > 1 || o.Config.Merged() }

// Run writes what is generated, once, or with Watch until ctx ends.
func Run(ctx context.Context, o *Options, std app.Streams) error {
	ask, done, err := o.source(ctx, std)
	if err != nil {
		return err
	}
	defer done()
	var last [sha256.Size]byte
	var said string
	for {
		all, err := ask(ctx)
		if ctx.Err() != nil {
			if o.Watch {
				return nil
			}
			return errors.New("interrupted; nothing was written")
		}
		if sum := source.Sum(all); err == nil && sum != last {
			last, said = sum, ""
			err = o.write(ctx, std, all)
		}
		if !o.Watch {
			return err
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			tell(std, "%s", err)
		}
		later := time.NewTimer(o.Every)
		select {
		case <-ctx.Done():
			later.Stop()
			return nil
		case <-later.C:
		}
	}
}

// tell writes a line to standard error.
func tell(std app.Streams, format string, args ...any) {
	_, _ = fmt.Fprintln(std.Err, wire.Visible(fmt.Sprintf(format, args...)))
}

// source returns what asks for the tools, and what ends it.
func (o *Options) source(ctx context.Context, std app.Streams) (ask source.Asker, done func(), err error) {
	if o.Services != "" {
		ask, done = source.Services(o.Services)
		return ask, done, nil
	}
	if o.Given != "" {
		if e := (source.Entry{Name: o.Name, URL: o.Given, TokenEnv: o.TokenVariable}); e.Answers(ctx) {
			if o.Merged || o.Name != "" || o.ServiceURL != "" {
				ask, done = source.One(e, o.ServiceURL)
			} else {
				ask, done = source.Gateway(e)
			}
			return ask, done, nil
		}
	}
	base := o.ServiceURL
	if base == "" {
		base = "http://" + o.Config.Listen()
	}
	if o.Catalogue {
		return o.remembered(base), func() {}, nil
	}
	lists, err := app.OpenToolLists(o.Config, std)
	if err != nil {
		return nil, nil, err
	}
	asking := func(name string) {
		if logging.Terminal(std.Err) {
			tell(std, "asking %s", name)
		}
	}
	return func(ctx context.Context) ([]source.Result, error) {
		var all []source.Result
		for _, l := range lists.List(ctx, o.Limit, asking) {
			all = append(all, o.listed(&l, base, o.Several()))
		}
		return all, nil
	}, lists.Close, nil
}

// ErrNoCatalogue says that a configuration has no catalogue that lasts.
var ErrNoCatalogue = errors.New("the catalogue of this configuration is in memory (catalogue.path); fix: name the configuration with --config, or set catalogue.path or catalogue.url")

// remembered returns an asker of the catalogue of a configuration, which is opened each time: another Dragoman may use it.
func (o *Options) remembered(base string) source.Asker {
	return func(ctx context.Context) ([]source.Result, error) {
		store, err := stores.OpenStore(ctx, o.Config, nil)
		if err != nil {
			return nil, err
		}
		if store == nil {
			return nil, ErrNoCatalogue
		}
		defer func() { _ = store.Close() }() // it was only read
		stored, err := store.Load(ctx)
		if err != nil {
			return nil, err
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
			return nil, errors.New("the catalogue remembers no tools; fix: run `dragoman serve` with the same configuration first")
		}
		return all, nil
	}
}

// listed returns what an MCP server has listed. Of several servers each is at a path of its own.
func (o *Options) listed(l *app.Listed, base string, several bool) (r source.Result) {
	r.Name = l.Name
	if !several {
		if r.Name = o.Name; r.Name == "" {
			r.Name = source.Name(l.Own, l.Name)
		}
	}
	if r.Err = l.Err; r.Err != nil {
		return r
	}
	r.Service = &generate.Service{Name: r.Name, URL: base, Title: l.Title, Version: l.Version, Instructions: l.Instructions, TokenVariable: o.TokenVariable}
	if several {
		r.Service.URL += proxy.ServerPath(l.Name)
	}
	r.Service.Tools, r.Skipped = source.Tools(l.Tools)
	r.Service.Prepare()
	return r
}

// write writes what is generated for services, or with --check compares it, and reports what has changed. It fails if a service has failed, or if
// something would change.
func (o *Options) write(ctx context.Context, std app.Streams, all []source.Result) error {
	var services []targets.Named
	bad, tools := 0, 0
	for _, r := range all {
		services = append(services, targets.Named{Name: r.Name, Service: r.Service})
		if r.Err != nil {
			bad++
			tell(std, "%s: %s", r.Name, r.Err)
			continue
		}
		tools += len(r.Service.Tools)
		for _, s := range r.Skipped {
			tell(std, "%s: left out: %s", r.Name, s)
		}
	}
	plan, err := targets.Plan(ctx, services, o.chosen, o.own)
	if err != nil {
		return err
	}
	do := output.Write
	if o.Check {
		do = output.Check
	}
	changes, err := do(o.Out, plan)
	if err != nil {
		return err
	}
	if !o.Watch || changes.Count() > 0 {
		o.report(std, changes, tools, len(all)-bad)
	}
	switch {
	case bad > 0:
		return fmt.Errorf("%s of %d could not be asked; what was generated for them is as it was", counted(bad, "service"), len(all))
	case o.Check && changes.Count() > 0:
		return fmt.Errorf("%s is not up to date; fix: run the same without --check", o.Out)
	}
	return nil
}

// mostPaths is how many paths of each kind a report names.
const mostPaths = 20

// report says what has changed.
func (o *Options) report(std app.Streams, changes *output.Changes, tools, services int) {
	did := [...]string{"created", "changed", "removed"}
	if o.Check {
		did = [...]string{"is missing", "is stale", "has no tool any more"}
	}
	for i, all := range [][]string{changes.Created, changes.Changed, changes.Removed} {
		for n, path := range all {
			if n == mostPaths {
				_, _ = fmt.Fprintf(std.Out, "  and %d more\n", len(all)-n)
				break
			}
			_, _ = fmt.Fprintf(std.Out, "%s: %s\n", did[i], path)
		}
	}
	_, _ = fmt.Fprintf(std.Out, "%s of %s in %s: %s\n", counted(tools, "tool"), counted(services, "service"), o.Out, tally(changes))
}

func tally(c *output.Changes) string {
	if c.Count() == 0 {
		return "nothing has changed"
	}
	return fmt.Sprintf("%d created, %d changed, %d removed", len(c.Created), len(c.Changed), len(c.Removed))
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
