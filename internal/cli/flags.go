package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"dragoman/internal/config"
	"dragoman/internal/config/value"
)

// settingFlag is a flag of a setting, with the values given to it. It checks nothing: the setting itself does, so that
// flags, variables and files have the same rules.
type settingFlag struct {
	config.Flag
	values []string
}

// String returns "": pflag would show it as the default, which the usage text already has.
func (f *settingFlag) String() string { return "" }

// Type returns the value's name in the help.
func (f *settingFlag) Type() string { return cmp.Or(f.Arg, "bool") }

// Set adds a value.
func (f *settingFlag) Set(text string) error {
	f.values = append(f.values, text)
	return nil
}

// settingFlags are the flags of one command that set configuration keys.
type settingFlags struct {
	flags     []*settingFlag
	file      string   // --config
	from      []string // --import
	providers []string // --providers
	pick      string   // --upstream
	on        config.Command
}

// addSettingFlags adds the flags of every setting that applies to the command.
func addSettingFlags(c *cobra.Command, on config.Command) *settingFlags {
	s := &settingFlags{on: on}
	if on&config.OnDemo == 0 {
		c.Flags().StringVar(&s.file, "config", "", "configuration `FILE` (.toml, .json, .yaml); default: $"+config.FileVariable)
		_ = c.MarkFlagFilename("config", "toml", "json", "yaml", "yml")
	}
	if on&(config.OnServe|config.OnStdio) != 0 {
		c.Flags().StringArrayVar(&s.from, "import", nil, "serve the servers in the `FILE` of an MCP client too, such as claude_desktop_config.json or mcp.json; repeatable")
		_ = c.MarkFlagFilename("import", "json", "toml")
		c.Flags().StringArrayVar(&s.providers, "providers", nil, "serve the gRPC providers in a providers.yaml `FILE` too; repeatable")
		_ = c.MarkFlagFilename("providers", "yaml", "yml")
	}
	if on&(config.OnStdio|config.OnProbe) != 0 {
		c.Flags().StringVar(&s.pick, "upstream", "", "which upstream of the configuration, by its `NAME`")
	}
	for _, f := range config.Flags(on) {
		s.add(c, f)
	}
	return s
}

// add adds one flag to the command.
func (s *settingFlags) add(c *cobra.Command, f config.Flag) {
	usage := f.Doc
	if f.Default != "" {
		usage += " (default " + f.Default + ")"
	}
	if f.List || f.Divider != "" {
		usage += "; repeatable"
	}
	one := &settingFlag{Flag: f}
	flag := c.Flags().VarPF(one, f.Name, "", usage)
	if f.Arg == "" {
		flag.NoOptDefVal, flag.Usage = "true", f.Doc
	}
	if words := strings.Split(f.Arg, "|"); len(words) > 1 && strings.ToLower(f.Arg) == f.Arg {
		_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	s.flags = append(s.flags, one)
}

// assignments returns the flags that were given, in the order of the table.
func (s *settingFlags) assignments() (config, upstream []config.Assignment, err error) {
	for _, f := range s.flags {
		given, ferr := f.assignments()
		err = errors.Join(err, ferr)
		if f.Upstream {
			upstream = append(upstream, given...)
			continue
		}
		config = append(config, given...)
	}
	return config, upstream, err
}

func (f *settingFlag) assignments() ([]config.Assignment, error) {
	values, path := f.values, strings.Split(f.Key, ".")
	switch {
	case len(values) == 0:
		return nil, nil
	case f.List:
		return []config.Assignment{{Path: path, Value: values, List: true, Name: "--" + f.Name}}, nil
	case f.Divider == "":
		return []config.Assignment{{Path: path, Value: values[len(values)-1:], Name: "--" + f.Name}}, nil
	}
	given := make([]config.Assignment, 0, len(values))
	if f.Divider == ":" {
		fields, err := headerFields(values)
		for _, field := range fields {
			given = append(given, config.Assignment{Path: append(path[:len(path):len(path)], field.name), Value: []string{field.value}, Name: "--" + f.Name})
		}
		return given, err
	}
	for _, text := range values {
		name, value, ok := strings.Cut(text, f.Divider)
		if !ok { // the value is not repeated: it may be a secret
			return nil, usagef("--%s: the value has no %q; fix: write --%s %s", f.Name, f.Divider, f.Name, f.Arg)
		}
		given = append(given, config.Assignment{Path: append(path[:len(path):len(path)], name), Value: []string{value}, Name: "--" + f.Name})
	}
	return given, nil
}

// target parses the arguments `URL | -- COMMAND…`: at most one of the two.
func target(c *cobra.Command, args []string) ([]config.Assignment, error) {
	urls, command, err := splitTarget(c, args)
	path := c.CommandPath()
	switch {
	case err != nil:
		return nil, err
	case command != nil:
		return []config.Assignment{{Path: []string{config.CommandKey}, Value: command, List: true, Name: "COMMAND"}}, nil
	case len(urls) > 0 && !isURL(urls[0]):
		return nil, usagef("%s is not a URL; fix: write `%s https://HOST/PATH`, or to start a command `%s -- COMMAND`",
			mistaken(urls[0]), path, path)
	case len(urls) > 1:
		return nil, usagef("unexpected argument %q after the URL; fix: write `%s URL`", value.Shorten(urls[1]), path)
	case len(urls) == 1:
		return []config.Assignment{{Path: []string{config.UrlKey}, Value: urls, Name: "URL"}}, nil
	}
	return nil, nil
}

// splitTarget splits the arguments `URL... | -- COMMAND…`. command is nil if there is no --.
func splitTarget(c *cobra.Command, args []string) (urls, command []string, err error) {
	at, path := c.ArgsLenAtDash(), c.CommandPath()
	switch {
	case at < 0:
		return args, nil, nil
	case at > 0:
		return nil, nil, usagef("both a URL and a COMMAND are given; fix: write `%s URL` or `%s -- COMMAND`", path, path)
	case len(args) == 0:
		return nil, nil, usagef("the COMMAND after -- is missing; fix: write `%s -- COMMAND`, for example `%s -- npx -y PACKAGE`", path, path)
	}
	return nil, args, nil
}

// mistaken returns an argument for an error message, without user:password@host.
func mistaken(argument string) string {
	if strings.Contains(argument, "@") {
		return "the argument"
	}
	return strconv.Quote(value.Shorten(argument))
}

// isURL reports whether an argument looks like a URL rather than a command.
func isURL(text string) bool {
	return strings.Contains(text, "://") || strings.HasPrefix(text, value.UnixScheme)
}

// load loads the configuration of a command that takes `URL | -- COMMAND…`.
func (p *program) load(c *cobra.Command, args []string, s *settingFlags) (*config.Config, error) {
	named, err := target(c, args)
	if err != nil {
		return nil, err
	}
	file, origin := p.configFile(s.file)
	if len(named) > 0 && (file != "" || s.pick != "" || len(s.from)+len(s.providers) > 0) {
		switch {
		case len(s.from) > 0:
			origin = "--import"
		case len(s.providers) > 0:
			origin = "--providers"
		case file == "":
			origin = "--upstream"
		}
		return nil, usagef("both %s and a %s are given; fix: leave one out, or write the upstream into the file", origin, named[0].Name)
	}
	flags, upstream, err := s.assignments()
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadConfig(config.LoadOptions{File: file, Import: s.from, Providers: s.providers, Environ: p.environ, Flags: flags, UpstreamFlags: append(named, upstream...), Pick: s.pick, For: s.on})
	if err != nil {
		return nil, err
	}
	if path := c.CommandPath(); len(cfg.Upstreams) == 0 && file == "" {
		if len(s.from) > 0 {
			return nil, failed(errNoServers(s.from, cfg.Warnings))
		}
		return nil, usagef("a URL or a COMMAND is missing; fix: write `%s https://HOST/PATH`, `%s -- COMMAND`, or `%s --config FILE`", path, path, path)
	}
	return cfg, nil
}

// errNoServers says why nothing of the files of clients can be served.
func errNoServers(files, warnings []string) error {
	return fmt.Errorf("--import: %s has no server that can be served; fix: name a file with servers%s", strings.Join(files, ", "), strings.Join(append([]string{""}, warnings...), "\n  "))
}

// configFile returns the file to load, and the name of the flag or variable that named it.
func (p *program) configFile(flag string) (file, origin string) {
	if flag != "" {
		return flag, "--config"
	}
	file, _ = p.lookup(config.FileVariable)
	return file, config.FileVariable
}

// lookup returns a variable of the environment; the last of equal names counts, and an empty one is not given.
func (p *program) lookup(name string) (value string, set bool) {
	for _, pair := range p.environ {
		if v, ok := strings.CutPrefix(pair, name+"="); ok && v != "" {
			value, set = v, true
		}
	}
	return value, set
}

// headerField is a value of --header: the field's name, and its value or a reference to it ("env:NAME", "file:/path").
type headerField struct{ name, value string }

// headerFields parses the values of --header, for every command that has it: "NAME: VALUE", or "@FILE" for the lines of a
// file, as for curl. A VALUE of "@FILE" becomes a reference to the file. Errors never repeat a value, which may be a secret.
func headerFields(texts []string) (fields []headerField, err error) {
	for _, text := range texts {
		file, named := strings.CutPrefix(text, "@")
		if !named {
			field, err := parseHeader(text)
			if err != nil {
				return nil, err
			}
			fields = append(fields, field)
			continue
		}
		lines, err := readHeaders(file)
		if err != nil {
			return nil, failed(fmt.Errorf("--header @%s: %s", file, config.FullText(err)))
		}
		fields = append(fields, lines...)
	}
	return fields, nil
}

// readHeaders returns the fields of a file, a line each. Empty lines and lines that begin with # are left out.
func readHeaders(file string) (fields []headerField, err error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	text, err := value.ReadSecret(path)
	if err != nil {
		return nil, err
	}
	at := 0
	for line := range strings.Lines(text) {
		at++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		field, err := parseHeader(line)
		if err != nil {
			return nil, &value.Problem{What: fmt.Sprintf("line %d is not NAME: VALUE", at), Fix: "write a header field in each line"}
		}
		fields = append(fields, field)
	}
	return fields, nil
}

func parseHeader(text string) (headerField, error) {
	name, content, ok := strings.Cut(text, ":")
	name, content = strings.TrimSpace(name), strings.TrimSpace(content)
	if !ok || !httpguts.ValidHeaderFieldName(name) {
		return headerField{}, usagef("--header is not NAME: VALUE; fix: write it like --header 'Authorization: @token.txt', or name a file of such lines, --header @FILE")
	}
	if file, named := strings.CutPrefix(content, "@"); named {
		path, err := filepath.Abs(file)
		if err != nil {
			return headerField{}, failed(fmt.Errorf("--header %s: %w", name, err))
		}
		content = "file:" + path
	}
	return headerField{name, content}, nil
}
