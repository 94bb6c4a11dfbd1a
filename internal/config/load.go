package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

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
	l.environment(value.FromSharedEnv)
	l.environment(value.FromEnv)
	l.beginLayer()
	for _, a := range opt.Flags {
		l.assign(a.Path, a.literal(), value.Source{Kind: value.FromFlag, Name: a.Name})
	}
	l.upstreamFlags(opt.UpstreamFlags, opt.Pick)
	l.pick(opt.Pick)
	l.keysFile()
	l.check()
	l.cfg.Loaded = opt
	l.cfg.Seen = Fingerprint(l.cfg.Files())
	if len(l.errs) > 0 {
		value.SortErrors(l.errs)
		return nil, l.errs
	}
	return l.cfg, nil
}

func newLoader(opt LoadOptions) *loader {
	l := &loader{
		cfg:      &Config{sources: map[string]value.Source{}},
		settings: Keys(),
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
	entries, errs := source.Read(path, userTable)
	l.errs = append(l.errs, errs...)
	entries, errs = source.Duplicates(entries, path)
	l.errs = append(l.errs, errs...)
	for _, e := range entries {
		l.assign(e.Path, e.Value, value.Source{Kind: value.FromFile, Name: path, Line: e.Line})
	}
}

// upstreamFlags applies the flags that concern one upstream.
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
		l.fail(&value.Problem{
			What: fmt.Sprintf("concerns one upstream, but %d are configured", len(l.cfg.Upstreams)),
			Fix:  "give a URL or a COMMAND, or write it into the file below upstreams.NAME",
		}, "", value.Source{Kind: value.FromFlag, Name: flags[0].Name}, "")
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
		names := make([]string, 0, len(l.cfg.Upstreams))
		for _, u := range l.cfg.Upstreams {
			names = append(names, u.Name)
		}
		fix := "configure it below upstreams." + value.Shorten(name)
		if len(names) > 0 {
			fix = "choose " + value.OneOf(names)
		}
		l.fail(&value.Problem{What: fmt.Sprintf("there is no upstream %q", value.Shorten(name)), Fix: fix}, "", value.Source{Kind: value.FromFlag, Name: "--upstream"}, "")
		return
	}
	l.cfg.Upstreams = []*Upstream{u}
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

// readEnvFile reads an upstream's env_file. A relative path is relative to the working directory. Errors name the file
// and the line, never the content.
func (l *loader) readEnvFile(u *Upstream, key string, from value.Source) {
	if u.EnvFile == "" {
		return
	}
	vars, open, err := source.EnvFile(u.EnvFile)
	if err != nil {
		l.fail(err, key, from, "")
		return
	}
	u.FileEnv = vars
	if open {
		l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf("%s: %q can be read by everybody on this machine; chmod 600 keeps its secrets", key, value.Shorten(u.EnvFile)))
	}
}
