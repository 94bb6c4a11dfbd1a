package config

import (
	"fmt"
	"slices"
	"strings"
)

// LoadOptions is where [LoadConfig] looks.
type LoadOptions struct {
	// File is the path of the configuration file; "" for none.
	File string
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Flags are the settings given as flags, in order.
	Flags []Assignment
	// UpstreamFlags are keys below upstreams.NAME given on the command line.
	// They make the upstream "default" if they name a url or a command, else
	// they concern Pick or the only upstream there is.
	UpstreamFlags []Assignment
	// Pick keeps only the upstream of this name; "" keeps all.
	Pick string
}

// Assignment is one value from the command line.
type Assignment struct {
	Path  []string // the key; for UpstreamFlags below upstreams.NAME
	Value []string // one text, or the items of a list
	List  bool
	Name  string // as typed: "--listen", "URL", "COMMAND"
}

func (a Assignment) literal() Literal {
	if !a.List {
		return word(strings.Join(a.Value, ","))
	}
	list := Literal{Kind: listLiteral}
	for _, item := range a.Value {
		list.items = append(list.items, word(item))
	}
	return list
}

// LoadConfig makes the configuration: defaults, then the file, then MCP_…
// variables, then DRAGOMAN_… variables, then flags, each over the ones before.
// The error is a [ConfigErrors] with everything that is wrong in any of them,
// also where a higher layer would have hidden it. Files are bounded (256 KiB);
// what "env:" and "file:" values refer to is read here, and so is env_file;
// ca_file and cwd are looked at. Nothing is connected to.
func LoadConfig(opt LoadOptions) (*Config, error) {
	l := newLoader(opt)
	l.file(opt.File)
	l.environment(FromSharedEnv)
	l.environment(FromEnv)
	l.beginLayer()
	for _, a := range opt.Flags {
		l.assign(a.Path, a.literal(), Source{Kind: FromFlag, Name: a.Name})
	}
	l.upstreamFlags(opt.UpstreamFlags, opt.Pick)
	l.pick(opt.Pick)
	l.keysFile()
	l.check()
	l.cfg.Loaded = opt
	l.cfg.Seen = Fingerprint(l.cfg.Files())
	if len(l.errs) > 0 {
		sortErrors(l.errs)
		return nil, l.errs
	}
	return l.cfg, nil
}

// loader fills one Config, layer upon layer.
type loader struct {
	cfg      *Config
	settings []setting[Config]
	below    []setting[Upstream]
	environ  []string
	errs     ConfigErrors
	unknown  [][]string        // tables already reported; their keys are not
	written  map[string]writer // what the present layer wrote, by cell
}

// writer is who wrote a cell in the present layer.
type writer struct {
	key    string
	source Source
	text   string
	secret bool
}

func newLoader(opt LoadOptions) *loader {
	l := &loader{
		cfg:      &Config{sources: map[string]Source{}},
		settings: ConfigKeys(),
		below:    upstreamKeys(),
		environ:  opt.Environ,
	}
	for _, s := range l.settings {
		if !s.alias() && s.field != nil {
			l.standard(s.field(l.cfg), s.Key, s.std)
		}
	}
	return l
}

// standard writes a default. A test sets every one of them, so an error here
// is a bug of the table and is reported as one.
func (l *loader) standard(f field, key, std string) {
	if err := f.Set(word(std)); err != nil && std != "" {
		l.errs = append(l.errs, &ConfigError{Key: key, Problem: "BUG: the default " + err.Error()})
	}
}

func (l *loader) beginLayer() { l.written = map[string]writer{} }

func (l *loader) fail(err error, key string, from Source, allowed string) {
	l.errs = append(l.errs, asConfigError(err, key, from, allowed))
}

func (l *loader) file(path string) {
	if path == "" {
		return
	}
	l.beginLayer()
	entries, errs := readConfigFile(path)
	l.errs = append(l.errs, errs...)
	entries, errs = duplicates(entries, path)
	l.errs = append(l.errs, errs...)
	for _, e := range entries {
		l.assign(e.path, e.value, Source{Kind: FromFile, Name: path, Line: e.line})
	}
}

// assign writes one value to the key that the path names.
func (l *loader) assign(path []string, v Literal, from Source) {
	if slices.ContainsFunc(l.unknown, func(table []string) bool { return hasPrefix(path, table) }) {
		return
	}
	if path[0] != upstreamsKey {
		assignTo(l, l.cfg, l.settings, path, 0, v, from)
		return
	}
	switch {
	case len(path) == 1 && (v.Kind == tableLiteral || v.Kind == nullLiteral):
	case len(path) == 1:
		l.unknown = append(l.unknown, path)
		l.fail(&problem{what: "must be a table of upstreams by name, not " + v.Kind.String(), fix: "write upstreams.NAME.url or upstreams.NAME.command"}, upstreamsKey, from, "")
	default:
		if u := l.upstream(path, v, from); u != nil && len(path) > 2 {
			assignTo(l, u, l.below, path, 2, v, from)
		}
	}
}

// upstream finds or makes the upstream that a path is below of; nil after an error.
func (l *loader) upstream(path []string, v Literal, from Source) *Upstream {
	name := path[1]
	switch {
	case !upstreamName.MatchString(name) || len(name) > maxName:
		l.unknown = append(l.unknown, path[:2])
		l.fail(&problem{
			what: fmt.Sprintf("%q is not a name for an upstream", Shorten(name)),
			fix:  "use at most 64 lower-case letters, digits, hyphens and underscores, a letter first",
		}, KeyText(path[:2]), from, "")
		return nil
	case len(path) == 2 && v.Kind != tableLiteral && v.Kind != nullLiteral:
		l.unknown = append(l.unknown, path)
		l.fail(&problem{
			what: "must be a table, not " + v.Kind.String(),
			fix:  fmt.Sprintf("write upstreams.%s.url or upstreams.%s.command", name, name),
		}, KeyText(path), from, "")
		return nil
	}
	if u := l.cfg.Upstream(name); u != nil {
		return u
	}
	u := &Upstream{Name: name}
	for _, s := range l.below {
		if s.field != nil && s.Key != UrlKey && s.Key != CommandKey {
			l.standard(s.field(u), s.Key, s.std)
		}
	}
	l.cfg.Upstreams = append(l.cfg.Upstreams, u)
	l.cfg.sources[KeyText(path[:2])] = from
	return u
}

// assignTo finds the setting of a path among rows, of which the first skip
// parts are not part of the key, and writes it.
func assignTo[T any](l *loader, at *T, rows []setting[T], path []string, skip int, v Literal, from Source) {
	key, shown := strings.Join(path[skip:], "."), KeyText(path)
	var longest *setting[T]
	for i := range rows {
		row := &rows[i]
		switch {
		case row.Key == key:
			longest = row
		case row.open && hasPrefix(path[skip:], strings.Split(row.Key, ".")):
			longest = row
		case strings.HasPrefix(row.Key, key+"."): // a table of keys
			if v.Kind != tableLiteral && v.Kind != nullLiteral {
				l.unknown = append(l.unknown, path)
				l.fail(&problem{what: "is a table, not a key", fix: "write a key of it such as " + strings.Join(append(slices.Clone(path[:skip]), row.Key), ".")}, shown, from, "")
			}
			return
		}
	}
	switch {
	case longest == nil:
		l.unknownKey(rowKeys(rows), path, skip, from)
	case longest.open:
		assignOpen(l, at, longest, path, skip+strings.Count(longest.Key, "."), v, from)
	case v.Kind == nullLiteral && longest.null:
	case v.Kind == nullLiteral:
		l.fail(problemf("has no value"), shown, from, longest.field(at).Allowed()+", or remove the key")
	default:
		if text, ok := v.scalarText(); ok && longest.secret {
			var err error
			if v.Text, err = l.resolve(text); err != nil {
				l.fail(err, shown, from, "")
				return
			}
		}
		store(l, longest.field(at), v, slot{key: shown, cells: prefixed(path[:skip], longest.cells()), secret: longest.secret, text: cellText(rows, longest, at)}, from)
	}
}

// assignOpen writes one name of a table whose names are the user's.
func assignOpen[T any](l *loader, at *T, row *setting[T], path []string, skip int, v Literal, from Source) {
	shown := KeyText(path)
	own := path[skip+1:]
	switch {
	case row.parts != nil:
		assignPart(l, at, row, path, skip, v, from)
	case row.entry == nil: // free-form: accepted as it is, at any depth
		table := KeyText(path[:skip+1])
		if _, set := l.cfg.sources[table]; !set {
			l.cfg.sources[table] = from
		}
		if row.take != nil {
			if err := row.take(at, own, v); err != nil {
				l.fail(err, shown, from, "")
			}
		}
	case len(own) == 0 && (v.Kind == tableLiteral || v.Kind == nullLiteral):
	case len(own) == 0:
		l.fail(&problem{what: "must be a table of names and values, not " + v.Kind.String(), fix: fmt.Sprintf("write %s.NAME = \"VALUE\"", shown)}, shown, from, "")
	case len(own) > 1:
		l.fail(&problem{what: "has a name of several parts", fix: fmt.Sprintf("quote the name: %s.%s", KeyText(path[:skip+1]), Quote(strings.Join(own, ".")))}, shown, from, "")
	default:
		place, err := row.entry(at, own[0])
		if err != nil {
			l.fail(err, shown, from, "")
			return
		}
		cell := KeyText(path)
		if row.Key == headersKey || row.Key == forwardKey || row.Key == tracingHeadersKey { // names are equal without regard to case (RFC 9110 §5.1)
			cell = KeyText(append(slices.Clone(path[:len(path)-1]), strings.ToLower(own[0])))
		}
		if text, ok := v.scalarText(); ok && row.Key != scopesKey && row.Key != forwardKey && (row.Key != envKey || refers(text)) {
			if v.Text, err = l.resolve(text); err != nil {
				l.fail(err, shown, from, "")
				return
			}
		}
		store(l, place, v, slot{key: shown, cells: []string{cell}, secret: true, text: func(string) string { return "" }}, from)
	}
}

// slot is where store writes: a key and the cells it stands for.
type slot struct {
	key    string
	cells  []string
	secret bool
	text   func(cell string) string // the cell's present value
}

// store sets one field and remembers who did. Two keys of one layer that say
// different things of the same cell are an error; across layers the higher wins.
func store(l *loader, f field, v Literal, s slot, from Source) {
	if err := f.Set(v); err != nil {
		l.fail(err, s.key, from, f.Allowed())
		return
	}
	for _, cell := range s.cells {
		now := writer{key: s.key, source: from, text: s.text(cell), secret: s.secret}
		before, again := l.written[cell]
		if again && (before.text != now.text || s.secret) {
			l.fail(&problem{
				what: fmt.Sprintf("contradicts %s (%s): both set %s", before.key, before.source, cell),
				fix:  "keep one of the two",
			}, s.key, from, "")
		}
		l.written[cell] = now
		l.cfg.sources[cell] = from
	}
}

// cellText reads the present value of a cell among rows.
func cellText[T any](rows []setting[T], row *setting[T], at *T) func(string) string {
	return func(cell string) string {
		for i := range rows {
			if rows[i].Key == cell && rows[i].field != nil {
				return rows[i].field(at).text()
			}
		}
		return row.field(at).text()
	}
}

// unknownKey reports a key that no table has, with what was probably meant.
func (l *loader) unknownKey(known []string, path []string, skip int, from Source) {
	l.unknown = append(l.unknown, path)
	key := strings.Join(path[skip:], ".")
	fix := "remove it; `dragoman config print` lists the keys"
	if near := Nearest(key, known); near != "" {
		fix = "did you mean " + strings.Join(append(slices.Clone(path[:skip]), near), ".") + "?"
	}
	l.errs = append(l.errs, &ConfigError{Source: from, Key: KeyText(path), Problem: "unknown key", Fix: fix})
}

// rowKeys are the keys of rows and the tables that they are in.
func rowKeys[T any](rows []setting[T]) []string {
	var keys []string
	for i := range rows {
		for at, c := range rows[i].Key {
			if c == '.' && !slices.Contains(keys, rows[i].Key[:at]) {
				keys = append(keys, rows[i].Key[:at])
			}
		}
		keys = append(keys, rows[i].Key)
	}
	if _, top := any(rows).([]setting[Config]); top {
		keys = append(keys, upstreamsKey)
	}
	return keys
}

func prefixed(prefix, cells []string) []string {
	if len(prefix) == 0 {
		return cells
	}
	out := make([]string, 0, len(cells))
	for _, c := range cells {
		out = append(out, KeyText(prefix)+"."+c)
	}
	return out
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// resolve reads what a secret refers to.
func (l *loader) resolve(text string) (string, error) {
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		l.cfg.secretFiles = append(l.cfg.secretFiles, path)
	}
	return ResolveSecret(text, l.lookup)
}

// lookup finds a variable in the environment that was given.
func (l *loader) lookup(name string) (string, bool) {
	for _, pair := range slices.Backward(l.environ) {
		if k, v, ok := strings.Cut(pair, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// upstreamFlags applies what the command line says of one upstream.
func (l *loader) upstreamFlags(flags []Assignment, pick string) {
	if len(flags) == 0 {
		return
	}
	name := pick
	defines := slices.ContainsFunc(flags, func(a Assignment) bool {
		return a.Path[0] == UrlKey || a.Path[0] == CommandKey
	})
	switch {
	case defines:
		name = defaultName
	case name == "" && len(l.cfg.Upstreams) == 1:
		name = l.cfg.Upstreams[0].Name
	case name == "":
		l.fail(&problem{
			what: fmt.Sprintf("concerns one upstream, but %d are configured", len(l.cfg.Upstreams)),
			fix:  "give a URL or a COMMAND, or write it into the file below upstreams.NAME",
		}, "", Source{Kind: FromFlag, Name: flags[0].Name}, "")
		return
	case l.cfg.Upstream(name) == nil:
		return // pick reports it
	}
	for _, a := range flags {
		l.assign(append([]string{upstreamsKey, name}, a.Path...), a.literal(), Source{Kind: FromFlag, Name: a.Name})
	}
}

// pick keeps one upstream.
func (l *loader) pick(name string) {
	if name == "" {
		return
	}
	u := l.cfg.Upstream(name)
	if u == nil {
		names := make([]string, 0, len(l.cfg.Upstreams))
		for _, u := range l.cfg.Upstreams {
			names = append(names, u.Name)
		}
		fix := "configure it below upstreams." + Shorten(name)
		if len(names) > 0 {
			fix = "choose " + OneOf(names)
		}
		l.fail(&problem{what: fmt.Sprintf("there is no upstream %q", Shorten(name)), fix: fix}, "", Source{Kind: FromFlag, Name: "--upstream"}, "")
		return
	}
	l.cfg.Upstreams = []*Upstream{u}
}
