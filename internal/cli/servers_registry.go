package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"dragoman/internal/cli/servers"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/internal/imported/clients"
	"dragoman/internal/imported/registry"
	"dragoman/proxy/wire"
)

// registryFlags name a registry.
type registryFlags struct{ url, key string }

func (r *registryFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&r.url, "registry", "", "`URL` of an MCP registry; default: $"+config.RegistryVariable)
	c.Flags().StringVar(&r.key, "registry-key", "", "credential for the registry, `env:NAME|file:/path`; default: $"+config.RegistryKeyVariable)
}

// client returns a client of the registry.
func (r *registryFlags) client(p *program) (*registry.Client, error) {
	if r.url == "" {
		r.url, _ = p.lookup(config.RegistryVariable)
	}
	if r.url == "" {
		return nil, usagef("no registry is named; fix: write --registry URL, or set %s", config.RegistryVariable)
	}
	text, from := r.key, "--registry-key"
	if text != "" && !imported.Refers(text) {
		return nil, usagef("--registry-key: the value is no reference, and others of this machine can see arguments; fix: write --registry-key env:NAME or file:/path")
	}
	if text == "" {
		text, _ = p.lookup(config.RegistryKeyVariable)
		from = config.RegistryKeyVariable
	}
	key, err := value.ResolveSecret(text, p.lookup)
	if err != nil {
		return nil, failed(fmt.Errorf("%s: %s", from, config.FullText(err)))
	}
	c, err := registry.New(r.url, value.NewSecret(key))
	if err != nil {
		return nil, usagef("--registry: %w", err)
	}
	return c, nil
}

// mirror returns what keeps the list of the registry.
func (r *registryFlags) mirror(c *registry.Client) (*registry.Mirror, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, failed(fmt.Errorf("the list of the registry has no place: %w; fix: set HOME or XDG_CACHE_HOME", err))
	}
	return &registry.Mirror{Client: c, Path: registry.Path(dir, c.Base()), Now: time.Now}, nil
}

// arriving are the flags of a server that a registry or a bundle describes.
type arriving struct {
	registryFlags
	kind, as, file, sum, below string
	values                     []string
}

func (a *arriving) flags(c *cobra.Command) {
	a.add(c)
	f := c.Flags()
	f.StringVar(&a.kind, "package", "", "`KIND` of what the registry offers that is used: "+strings.Join(registry.Kinds, ", "))
	f.StringVar(&a.as, "as", "", "our `NAME` of a server of a registry; default: the end of its name")
	f.StringVar(&a.file, "bundle", "", "`FILE` with a bundle (.mcpb)")
	f.StringVar(&a.sum, "sha256", "", "SHA-256 that the bundle must have, `HEX`")
	f.StringVar(&a.below, "bundles", "", "`DIRECTORY` in which bundles are unpacked; default: dragoman/bundles in the user's directory for configurations")
	f.StringArrayVar(&a.values, "var", nil, "value of a variable, `NAME=VALUE`, and of a secret NAME=env:VARIABLE or NAME=file:/path; repeatable")
}

// wanted reports whether a registry or a bundle describes the server, and whether the flags agree.
func (a *arriving) wanted(c *cobra.Command, args []string) (bool, error) {
	if c.ArgsLenAtDash() >= 0 {
		args = args[:c.ArgsLenAtDash()]
	}
	far := len(args) > 0 && strings.Contains(args[0], "/") && !isURL(args[0])
	for _, one := range []string{"package", "as", "var", "sha256", "bundles"} {
		if c.Flags().Changed(one) && !far && a.url == "" && a.file == "" {
			return false, usagef("--%s only concerns a server of a registry or a bundle; fix: leave it out, or write --registry URL or --bundle FILE", one)
		}
	}
	if !far && a.url == "" && a.file == "" {
		return false, nil
	}
	for _, one := range []string{"url", "sse", "header", "env", "grpc-method"} {
		if c.Flags().Changed(one) {
			return true, usagef("--%s is what the registry or the bundle says; fix: leave it out, and change the server with `dragoman servers edit` later", one)
		}
	}
	switch {
	case c.ArgsLenAtDash() >= 0:
		return true, usagef("both a COMMAND and a registry or a bundle are given; fix: leave one out")
	case a.file != "" && (c.Flags().Changed("registry") || far):
		return true, usagef("both a bundle and a registry are given; fix: write `%s NAME --bundle FILE`", c.CommandPath())
	case a.file == "" && c.Flags().Changed("sha256"):
		return true, usagef("--sha256 is for --bundle; a registry names the SHA-256 of its bundles itself; fix: leave it out")
	case a.file != "" && (a.kind != "" || a.as != ""):
		return true, usagef("--package and --as only concern a registry; fix: leave them out")
	}
	return true, oneName(c, args, true)
}

// given returns the values of --var.
func (a *arriving) given() (imported.Values, error) {
	values := imported.Values{}
	for _, pair := range a.values {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" { // it is not repeated: it may be a secret
			return nil, usagef("--var: the value is not NAME=VALUE; fix: write --var NAME=VALUE, and for a secret --var NAME=env:VARIABLE")
		}
		values[name] = append(values[name], text)
	}
	return values, nil
}

// arrival returns the server that the flags name, and our name of it.
func (s *serversFlags) arrival(ctx context.Context, a *arriving, name string, values imported.Values) (*servers.Arrival, string, error) {
	if a.file != "" {
		one, err := servers.FromBundle(a.file, a.sum, a.below)
		return one, name, failedOr(err)
	}
	client, err := a.client(s.p)
	if err != nil {
		return nil, "", err
	}
	defer client.Close()
	wanted := &servers.Wanted{Kind: a.kind, Bundles: a.below, Values: values}
	wanted.Name, wanted.Version, _ = strings.Cut(name, "@")
	var list *registry.List
	if mirror, err := a.mirror(client); err == nil {
		list, _ = registry.Kept(mirror.Path, client.Base()) // without one the registry is asked for similar names
	}
	one, err := servers.FromRegistry(ctx, client, list, wanted)
	if err != nil {
		return nil, "", failed(err)
	}
	if name = a.as; name == "" {
		name = imported.Name(one.Name, func(string) bool { return false })
	}
	return one, name, nil
}

// failedOr is failed for an error that may be none.
func failedOr(err error) error {
	if err == nil {
		return nil
	}
	return failed(err)
}

// arrive returns what is registered of a server that a registry or a bundle describes, and its name. What it is was shown, its values were asked
// for, and it may be started: then a bundle was unpacked.
func (s *serversFlags) arrive(c *cobra.Command, a *arriving, name string, yes bool) (*servers.Given, string, error) {
	values, err := a.given()
	if err != nil {
		return nil, "", err
	}
	if _, err := s.api(); err != nil { // before a registry is asked
		return nil, "", err
	}
	one, name, err := s.arrival(c.Context(), a, name, values)
	if err != nil {
		return nil, "", err
	}
	defer one.Close()
	s.tell(one.Lines)
	if err := s.fill(c.Context(), one, values); err != nil {
		return nil, "", err
	}
	described, err := one.Server(values)
	if err != nil {
		return nil, "", failed(fmt.Errorf("%s: %w", wire.Shown(one.Name), err))
	}
	of, err := servers.FromImported(described)
	if err != nil {
		return nil, "", failed(err)
	}
	s.tell(one.Optional(values))
	for _, note := range described.Lost {
		s.tell([]string{"note     " + wire.ShownText(note)})
	}
	s.tell(append(of.Reaches(), "as       "+name))
	if !yes && s.p.attended() {
		if err := s.p.ask(c.Context(), "Use it from the machine of dragoman? [y/N] ", "sent"); err != nil {
			return nil, "", failed(err)
		}
	}
	return of, name, failedOr(one.Place())
}

func (s *serversFlags) tell(lines []string) {
	for _, line := range lines {
		_, _ = fmt.Fprintln(s.p.std.Err, line)
	}
}

// fill asks for the values that a server lacks, on a terminal; else it fails.
func (s *serversFlags) fill(ctx context.Context, one *servers.Arrival, values imported.Values) error {
	if err := imported.CheckAll(one.Variables, values); err != nil {
		return usagef("--var: %w", err)
	}
	if !s.p.attended() {
		return one.Lacking(values)
	}
	for _, v := range imported.Missing(one.Variables, values) {
		text, err := s.p.prompt(ctx, servers.Wants(&v)+map[bool]string{true: ", as env:NAME or file:/path", false: ""}[v.Secret]+"\n"+wire.Shown(v.Name)+"=", v.Secret)
		if err != nil {
			return failed(err)
		}
		if text == "" {
			return failed(fmt.Errorf("%s has no value: nothing was sent", wire.Shown(v.Name)))
		}
		if err := v.Check([]string{text}); err != nil {
			return failed(err)
		}
		values[v.Name] = []string{text}
	}
	return nil
}

// prompt asks for a line on the terminal. hidden: what is typed is not shown.
func (p *program) prompt(ctx context.Context, question string, hidden bool) (string, error) {
	_, _ = fmt.Fprint(p.std.Err, question)
	type read struct {
		text string
		err  error
	}
	done := make(chan read, 1)
	file, is := p.std.In.(*os.File)
	var before *term.State
	if hidden && is {
		var err error
		if before, err = term.GetState(int(file.Fd())); err != nil {
			return "", err
		}
	}
	go func() { // ends with the answer, or with the process: a terminal cannot be read with a deadline
		var one read
		if hidden && is {
			var raw []byte
			raw, one.err = term.ReadPassword(int(file.Fd()))
			one.text = string(raw)
		} else {
			one.text, one.err = bufio.NewReader(p.std.In).ReadString('\n')
		}
		done <- one
	}()
	select {
	case one := <-done:
		if hidden {
			_, _ = fmt.Fprintln(p.std.Err)
		}
		if errors.Is(one.err, io.EOF) {
			one.err = nil
		}
		return strings.TrimSpace(one.text), one.err
	case <-ctx.Done():
		if before != nil {
			_ = term.Restore(int(file.Fd()), before)
		}
		_, _ = fmt.Fprintln(p.std.Err)
		return "", errors.New("nothing was sent")
	}
}

const searchLong = `Search the servers of an MCP registry: those whose names, titles or descriptions contain
all words of TEXT. Without TEXT all are listed. ` + "`dragoman servers add NAME --registry URL`" + `
adds one of them.

The list of the registry is kept on this machine. One that is older than an hour gets the
changes since then from the registry, one that is older than a day, or with --refresh, is
read as a whole. If the registry does not answer, the list that is there is searched, and
its age is told.

The exit code is 0 if the list was searched, 1 if there is none, 2 for wrong usage.`

// mostFound is the greatest number of servers on a page.
const mostFound = 1000

func (s *serversFlags) search() *cobra.Command {
	c := &cobra.Command{
		Use:     "search [TEXT...] [flags]",
		Short:   "Search the servers of an MCP registry",
		Long:    searchLong,
		Example: "  dragoman servers search weather --registry https://registry.example.com\n  dragoman servers search file system --limit 50 --page 2\n  dragoman servers search github --json",
	}
	var r registryFlags
	r.add(c)
	limit := c.Flags().Int("limit", 20, "`NUMBER` of servers on a page")
	page := c.Flags().Int("page", 1, "`NUMBER` of the page")
	refresh := c.Flags().Bool("refresh", false, "read the whole list of the registry again")
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.RunE = func(c *cobra.Command, args []string) error {
		if *limit < 1 || *limit > mostFound || *page < 1 || *page > registry.MaxEntries {
			return usagef("--limit is from 1 to %d, and --page from 1; fix: write another number", mostFound)
		}
		client, err := r.client(s.p)
		if err != nil {
			return err
		}
		defer client.Close()
		mirror, err := r.mirror(client)
		if err != nil {
			return err
		}
		list, err := mirror.List(c.Context(), *refresh)
		switch {
		case list == nil:
			return failed(fmt.Errorf("servers: %w", err))
		case err != nil:
			s.tell([]string{fmt.Sprintf("note: %s; this is the list of %s ago", wire.ShownText(err.Error()), time.Since(list.At).Round(time.Minute))})
		}
		found := list.Search(strings.Join(args, " "), (*page-1)*(*limit), *limit)
		if *asJSON {
			return s.foundJSON(list, &found)
		}
		if err := servers.Search(s.p.std.Out, found, s.colourful()); err != nil {
			return err
		}
		if found.Next > 0 {
			s.tell([]string{fmt.Sprintf("%d of %d servers; --page %d shows more", len(found.Servers), found.Total, *page+1)})
		}
		if list.Refused > 0 {
			s.tell([]string{fmt.Sprintf("note: %d entries of the registry are left out, which are not valid", list.Refused)})
		}
		return nil
	}
	return c
}

// foundJSON prints what was found as JSON.
func (s *serversFlags) foundJSON(list *registry.List, found *registry.Found) error {
	servers0 := found.Servers
	if servers0 == nil {
		servers0 = []registry.Listed{}
	}
	raw, err := json.Marshal(struct {
		At      time.Time         `json:"at"`
		Total   int               `json:"total"`
		Servers []registry.Listed `json:"servers"`
	}{list.At, found.Total, servers0})
	if err != nil {
		return err
	}
	return servers.JSON(s.p.std.Out, raw)
}

// importing is how the servers of a client's file are registered.
type importing struct {
	idle, yes bool
	wait      time.Duration
}

// imports registers servers of a client's file, one after the other. One that is refused is told, and the others are registered.
func (s *serversFlags) imports(c *cobra.Command, file string, names []string, how *importing) error {
	for _, one := range []string{"url", "sse", "header", "env", "grpc-method", "description", "registry", "bundle", "var", "package", "as", "sha256", "bundles", "json"} {
		if c.Flags().Changed(one) {
			return usagef("--%s does not go with --import; fix: leave it out", one)
		}
	}
	if c.ArgsLenAtDash() >= 0 {
		return usagef("both a COMMAND and --import are given; fix: leave one out")
	}
	home, _ := os.UserHomeDir() // a text that refers to it then stays as it is
	read, err := clients.Read(file, home)
	if err != nil {
		return failed(err)
	}
	chosen, err := onlyNamed(read.Servers, names)
	if err != nil {
		return err
	}
	for _, line := range read.Lost {
		s.tell([]string{"note     " + line})
	}
	var taken []string
	refused := 0
	for i := range chosen {
		name := imported.Name(chosen[i].Name, func(n string) bool { return slices.Contains(taken, n) })
		taken = append(taken, name)
		if err := s.importOne(c, &chosen[i], name, how); err != nil {
			refused++
			s.p.printError(fmt.Errorf("%s: %w", wire.Shown(chosen[i].Name), err))
		}
		if c.Context().Err() != nil {
			break
		}
	}
	if refused > 0 {
		return failed(fmt.Errorf("servers: %d of %d are not registered, or not connected", refused, len(chosen)))
	}
	return nil
}

// importOne shows one server, asks, and registers it.
func (s *serversFlags) importOne(c *cobra.Command, one *imported.Server, name string, how *importing) error {
	of, lines, err := servers.FromClient(one, s.p.lookup)
	for i, line := range lines {
		lines[i] = "note     " + line
	}
	s.tell(append([]string{"server   " + wire.Shown(one.Name)}, lines...))
	if err != nil {
		return err
	}
	s.tell(append(of.Reaches(), "as       "+name))
	if !how.yes && s.p.attended() {
		if err := s.p.ask(c.Context(), "Use it from the machine of dragoman? [y/N] ", "sent"); err != nil {
			return err
		}
	}
	r, err := of.Registration(name, !how.idle)
	if err != nil {
		return err
	}
	return s.run(c, func(ctx context.Context, api *servers.Client) error {
		if _, err := api.Add(ctx, r); err != nil {
			return err
		}
		if how.idle {
			return s.say(name + " is registered; `dragoman servers connect " + name + "` connects it")
		}
		return s.waited(c, api, name, "registered", how.wait, false)
	})
}
