package config

import (
	"fmt"
	"slices"
)

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

func (l *loader) file(path string) {
	if path == "" {
		return
	}
	l.beginLayer()
	entries, errs := readConfigFile(path, userTable)
	l.errs = append(l.errs, errs...)
	entries, errs = duplicates(entries, path)
	l.errs = append(l.errs, errs...)
	for _, e := range entries {
		l.assign(e.path, e.value, Source{Kind: FromFile, Name: path, Line: e.line})
	}
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
