package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"dragoman/internal/config/source"
	"dragoman/internal/config/value"
)

// LoadConfig makes the configuration from five layers: defaults, the file, MCP_… variables, DRAGOMAN_… variables, and
// flags. Later layers take precedence. The error is a [value.ConfigErrors] with everything that is wrong in any layer,
// even if a higher one overrides it. Files are bounded (256 KiB). What "env:" and "file:" values refer to is read here,
// and so is env_file; ca_file and cwd are checked. No connection is opened.
func LoadConfig(opt LoadOptions) (*Config, error) {
	l := newLoader(opt)
	l.file(opt.File)
	l.imports(opt.Import)
	l.providers(opt.Providers)
	l.environment(value.FromSharedEnv)
	l.environment(value.FromEnv)
	l.beginLayer()
	for _, a := range opt.Flags {
		l.assign(a.Path, a.literal(), value.Source{Kind: value.FromFlag, Name: a.Name})
	}
	l.upstreamFlags(opt.UpstreamFlags, opt.Pick)
	l.pick(opt.Pick)
	l.file(l.cfg.Security.Auth.KeysFile, "security", "api_keys")
	l.check()
	l.checkServe(opt)
	l.cfg.Loaded = opt
	l.cfg.Seen = Fingerprint(l.cfg.Files())
	l.checkRights()
	if len(l.errs) > 0 {
		value.SortErrors(l.errs)
		return nil, l.errs
	}
	return l.cfg, nil
}

// loader fills one Config, layer by layer.
type loader struct {
	cfg     *Config
	keys    []setting // of cfg
	last    *Upstream // the upstream of the last key
	below   []setting // keys of last
	environ []string
	errs    value.ConfigErrors
	unknown [][]string        // tables already reported; their keys are not
	written map[string]writer // what the current layer wrote, by cell

	mostName int // bytes that the name of an upstream may have; 0: maxName
}

// keysOf returns the keys of an upstream. Those of one upstream are mostly given together.
func (l *loader) keysOf(u *Upstream) []setting {
	if l.last != u {
		l.last, l.below = u, u.keys()
	}
	return l.below
}

// writer is what wrote a cell in the current layer.
type writer struct {
	key    string
	source value.Source
	text   string
}

// standard sets the defaults. A test sets all of them, so an error is a bug in the table and is reported as one.
func (l *loader) standard(rows []setting) {
	for _, s := range rows {
		if s.field == nil || s.alias() {
			continue
		}
		if err := s.field.Set(value.Word(s.std)); err != nil && s.std != "" {
			l.errs = append(l.errs, &value.ConfigError{Key: s.key, Problem: "BUG: the default " + err.Error()})
		}
	}
}

func (l *loader) beginLayer() { l.written = map[string]writer{} }

// fail reports what is wrong with a key, and what fixes it.
func (l *loader) fail(key string, from value.Source, what, fix string) {
	l.errs = append(l.errs, &value.ConfigError{Source: from, Key: key, Problem: what, Fix: fix})
}

// failWith reports an error of a key.
func (l *loader) failWith(err error, key string, from value.Source) {
	l.errs = append(l.errs, value.AsConfigError(err, key, from, ""))
}

// checkRights warns of files that others may change: what they write, Dragoman runs and trusts.
func (l *loader) checkRights() {
	files := l.cfg.Files()
	for _, path := range []string{l.cfg.TLS.KeyFile, l.cfg.TLS.CertFile, l.cfg.TLS.ClientCAFile} {
		if path != "" {
			files = append(files, path)
		}
	}
	for _, path := range files {
		if warning := source.Rights(path); warning != "" {
			l.warn("%s", warning)
		}
	}
}

// warn adds a remark on what is accepted.
func (l *loader) warn(format string, args ...any) {
	l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf(format, args...))
}

// lookup returns a variable of the given environment.
func (l *loader) lookup(name string) (string, bool) {
	for _, pair := range slices.Backward(l.environ) {
		if k, v, ok := strings.Cut(pair, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// reported reports whether there is an error for something below a key already.
func (l *loader) reported(table string) bool {
	return slices.ContainsFunc(l.errs, func(e *value.ConfigError) bool { return strings.HasPrefix(e.Key, table+".") })
}

func newLoader(opt LoadOptions) *loader {
	l := &loader{cfg: &Config{Origin: Origin{sources: map[string]value.Source{}}}, environ: opt.Environ}
	l.keys = l.cfg.keys()
	l.standard(l.keys)
	return l
}

// file applies a file, if there is one, whose keys lie below a table.
func (l *loader) file(path string, below ...string) {
	if path == "" {
		return
	}
	l.beginLayer()
	entries, errs := source.Read(path, func(table []string) bool { return userTable(append(below, table...)) })
	l.errs = append(l.errs, errs...)
	entries, errs = source.Duplicates(entries, path)
	l.errs = append(l.errs, errs...)
	for _, e := range entries {
		if len(e.Path) == 1 && e.Path[0] == schemaKey {
			continue
		}
		l.assign(append(below, e.Path...), e.Value, value.Source{Kind: value.FromFile, Name: path, Line: e.Line})
	}
}

// imports adds the servers of files of MCP clients.
func (l *loader) imports(files []string) {
	for _, path := range files {
		l.beginLayer()
		i := importing{path: path, lookup: l.lookup, taken: func(name string) bool { return l.cfg.Upstream(name) != nil }}
		i.read()
		l.errs = append(l.errs, i.errs...)
		l.cfg.Warnings = append(l.cfg.Warnings, i.warnings...)
		for _, k := range i.keys {
			g := given{k.path, k.Literal, k.from}
			if !k.secret {
				l.assign(g.path, g.Literal, g.from)
			} else if u := l.upstream(g); u != nil {
				l.final(u, g)
			}
		}
	}
}

// providers adds the providers of files. One that is switched off is left out.
func (l *loader) providers(files []string) {
	for _, path := range files {
		l.beginLayer()
		all, errs := source.Providers(path)
		l.errs = append(l.errs, errs...)
		for _, p := range all {
			from := value.Source{Kind: value.FromFile, Name: path, Line: p.Line}
			switch was := l.cfg.Upstream(p.Name); {
			case len(errs) > 0:
			case !p.On():
				l.warn("%s: provider %s is switched off there, and left out", path, value.Shorten(p.Name))
			case was != nil:
				l.fail(upstreamKey(p.Name, UrlKey), from, "is set already, in "+l.cfg.sources[upstreamKey(p.Name, UrlKey)].String(), "rename the provider, or remove one of the two")
			default:
				l.assign([]string{UpstreamsKey, p.Name, UrlKey}, value.Literal{Kind: value.QuotedLiteral, Text: "grpc://" + p.Address}, from)
				if u := l.cfg.Upstream(p.Name); u != nil {
					u.Metadata = p.Sorted()
				}
			}
		}
	}
}

// schemaKey names the schema of a file for editors. It is no setting.
const schemaKey = "$schema"

// openTables holds the tables whose keys users choose.
var openTables = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, s := range new(Config).keys() {
		names[s.key] = s.open != nil
	}
	for _, s := range new(Upstream).keys() {
		names[upstreamKey(AnyName, s.key)] = s.open != nil
	}
	return names
})

// userTable reports whether users choose the names in a table of the file, which may then have dots.
func userTable(path []string) bool {
	if len(path) > 2 && path[0] == UpstreamsKey {
		path = append([]string{UpstreamsKey, AnyName}, path[2:]...)
	}
	return len(path) > 0 && path[0] == DependenciesKey || openTables()[strings.Join(path, ".")]
}

// upstreamFlags applies the flags that concern one upstream.
func (l *loader) upstreamFlags(flags []Assignment, pick string) {
	if len(flags) == 0 {
		return
	}
	name := pick
	switch {
	case slices.ContainsFunc(flags, func(a Assignment) bool { return a.Path[0] == UrlKey || a.Path[0] == CommandKey }):
		name = defaultName
	case name == "" && len(l.cfg.Upstreams) == 1:
		name = l.cfg.Upstreams[0].Name
	case name == "":
		l.fail("", value.Source{Kind: value.FromFlag, Name: flags[0].Name}, fmt.Sprintf("concerns one upstream, but %d are configured", len(l.cfg.Upstreams)),
			"give a URL or a COMMAND, or write it into the file below upstreams.NAME")
		return
	case l.cfg.Upstream(name) == nil:
		return // pick reports it
	}
	for _, a := range flags {
		l.assign(append([]string{UpstreamsKey, name}, a.Path...), a.literal(), value.Source{Kind: value.FromFlag, Name: a.Name})
	}
}

// pick keeps only the upstream of the given name.
func (l *loader) pick(name string) {
	if name == "" {
		return
	}
	u := l.cfg.Upstream(name)
	if u == nil {
		fix := "configure it below upstreams." + value.Shorten(name)
		if names := l.cfg.names(); len(names) > 0 {
			fix = "choose " + value.OneOf(names)
		}
		l.fail("", value.Source{Kind: value.FromFlag, Name: "--upstream"}, fmt.Sprintf("there is no upstream %q", value.Shorten(name)), fix)
		return
	}
	l.cfg.Upstreams, l.cfg.Groups = []*Upstream{u}, nil
}

// fixedKey is a key, or a table of keys, that cannot change while the process runs: listeners, and state that clients
// hold, depend on it.
type fixedKey struct {
	key string
	at  any // points to its value
}

func (c *Config) fixedKeys() []fixedKey {
	return []fixedKey{
		{hostKey, &c.Service.Host},
		{portKey, &c.Service.Port},
		{adminKey, &c.Admin.Listen},
		{"log.format", &c.Log.Format},
		{"keepalive", &c.Keepalive},
		{"keep_awake", &c.KeepAwake},
		{"tls", &c.TLS},
		{"limits.request_body", &c.Limits.RequestBody},
		{"limits.header", &c.Limits.Header},
		{"limits.streams", &c.Limits.Streams},
		{"limits.connections", &c.Limits.Connections},
		{"limits.read_time", &c.Limits.ReadTime},
		{"limits.in_flight_bytes", &c.Limits.InFlightBytes},
		{"limits.arriving_bytes", &c.Limits.ArrivingBytes},
		{"limits.answer_bytes", &c.Limits.AnswerBytes},
		{"limits.answer_bytes_per_principal", &c.Limits.AnswerBytesPerPrincipal},
		{"limits.answer_rate", &c.Limits.AnswerRate},
		{"questions", &c.Questions},
		{"resume", &c.Resume},
		{cataloguePathKey, &c.Catalogue.Path},
		{"monitoring.metrics_enabled", &c.Monitoring.MetricsEnabled},
	}
}

// Hold copies the values of fixed keys from the configuration before, and returns the keys whose values differed.
func (c *Config) Hold(before *Config) (held []string) {
	was := before.fixedKeys()
	for i, k := range c.fixedKeys() {
		now, then := reflect.ValueOf(k.at).Elem(), reflect.ValueOf(was[i].at).Elem()
		if !reflect.DeepEqual(now.Interface(), then.Interface()) {
			now.Set(then)
			held = append(held, k.key)
		}
	}
	return held
}

// Again loads the configuration again from the same file, the environment as it was at the start, and the flags.
// Secrets in files are read anew. The error is that of [LoadConfig].
func (c *Config) Again() (*Config, error) {
	opt := c.Loaded
	opt.For |= OnServe // only a process that serves reads it again
	return LoadConfig(opt)
}

// Same reports whether two configurations have the same values, from whatever sources.
func (c *Config) Same(other *Config) bool {
	a, b := *c, *other
	a.Origin, b.Origin = Origin{}, Origin{}
	return reflect.DeepEqual(a, b)
}

// Files returns the files that the configuration was read from, sorted: a change of one is a reason to read it again.
// Files of TLS and of an issuer's keys are not among them: their users watch them.
func (c *Config) Files() []string {
	all := slices.Concat([]string{c.Loaded.File, c.Security.Auth.KeysFile, c.Tracing.CAFile}, c.Loaded.Import, c.Loaded.Providers, c.secretFiles)
	for _, u := range c.Upstreams {
		all = append(all, u.EnvFile, u.CAFile)
	}
	for _, s := range c.Events.Sinks {
		all = append(all, s.CAFile)
	}
	all = slices.DeleteFunc(all, func(path string) bool { return path == "" })
	for i, path := range all {
		all[i] = filepath.Clean(path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Fingerprint returns size and modification time of each file as text, by which a change shows without reading the
// files.
func Fingerprint(files []string) string {
	var b strings.Builder
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			fmt.Fprintf(&b, "%s: none\n", name)
			continue
		}
		fmt.Fprintf(&b, "%s: %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
