package registry

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"dragoman/internal/config/command"
	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/proxy/wire"
)

// runner starts packages of one kind.
type runner struct {
	kind, program string
	words         []string // behind the program
	others        []string // programs that take the same arguments
	// switches and options are what a description may hand to the program: nothing that has it start something else than the package, or gives
	// more rights over the machine than a program has that is started without it.
	switches, options []string
	base              string // the address of the package registry that needs no naming
	index             string // the option that names another
	separator         string // between what is for the program and what is for the package
}

var runners = []runner{
	{kind: KindNPM, program: "npx", words: []string{"-y"}, base: "https://registry.npmjs.org", index: "--registry",
		switches: []string{"-y", "--yes", "-q", "--quiet", "--silent", "--prefer-offline", "--prefer-online"}, options: []string{"--loglevel"}},
	{kind: KindPyPI, program: "uvx", base: "https://pypi.org", index: "--default-index",
		switches: []string{"-q", "--quiet", "--isolated", "-n", "--no-cache", "--no-config", "--native-tls", "--no-progress", "--managed-python"}, options: []string{"-p", "--python"}},
	{kind: KindOCI, program: "docker", words: []string{"run", "-i", "--rm"}, others: []string{"podman"},
		switches: []string{"-i", "--interactive", "--rm", "--init", "--read-only", "-q", "--quiet", "--no-healthcheck"},
		options: []string{"-e", "--env", "-v", "--volume", "--mount", "--network", "--net", "--name", "-u", "--user", "-w", "--workdir", "-m", "--memory", "--cpus", "--pull", "--platform",
			"--add-host", "--cap-drop", "--tmpfs", "--pids-limit", "--shm-size", "--dns", "--label", "-l", "--stop-timeout", "-p", "--publish"}},
	{kind: KindNuGet, program: "dnx", words: []string{"--yes"}, base: "https://api.nuget.org/v3/index.json", index: "--source", separator: "--",
		switches: []string{"-y", "--yes", "--prerelease"}, options: []string{"-v", "--verbosity"}},
}

// sha256Form matches a SHA-256 in hexadecimal.
var sha256Form = regexp.MustCompile(`^[a-f0-9]{64}$`)

// offer returns a package as an offer.
func (p *Package) offer() Offer {
	o := Offer{Kind: p.Type, Title: strings.TrimSpace(fmt.Sprintf("%s package %s %s", wire.Shown(p.Type), wire.Shown(p.Identifier), wire.Shown(p.Version)))}
	if p.Type == KindBundle {
		o.Title = "bundle " + wire.Shown(p.Identifier)
		o.Bundle, o.Problem = p.bundle()
		return o
	}
	at := slices.IndexFunc(runners, func(r runner) bool { return r.kind == p.Type })
	switch {
	case at < 0:
		o.Problem = fmt.Errorf("packages of %s cannot be started", wire.Shown(p.Type))
		return o
	case p.Transport.Type != "stdio":
		o.Problem = fmt.Errorf("it serves %s at %s after somebody has started it; fix: start it, and add it with --url", wire.Shown(p.Transport.Type), wire.Shown(p.Transport.URL))
		return o
	}
	in := &inputs{}
	c := p.command(in, &runners[at])
	if in.problem == nil {
		_, in.problem = c.server(nil) // values of its own only
	}
	o.Problem, o.Variables, o.Notes, o.server = in.problem, in.variables, in.notes, c.server
	return o
}

// bundle returns where a bundle is.
func (p *Package) bundle() (*Download, error) {
	u, err := url.Parse(p.Identifier)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil:
		return nil, errors.New("it is at no http or https URL")
	case !sha256Form.MatchString(p.SHA256):
		return nil, errors.New("it has no SHA-256, so that it could be another file at each download")
	}
	return &Download{p.Identifier, p.SHA256}, nil
}

// start is the command of a package before its values are known.
type start struct {
	in            *inputs
	run           *runner
	program, spec string
	identifier    string
	runtime, args []word
	index         []string
	env           []setting
}

// command makes the command of a package.
func (p *Package) command(in *inputs, r *runner) *start {
	c := &start{in: in, run: r, program: r.program, identifier: p.Identifier}
	if hint := p.RuntimeHint; hint != "" && hint != r.program {
		if slices.Contains(r.others, hint) {
			c.program = hint
		} else {
			in.note("%s starts it, and not %s", r.program, wire.Shown(hint))
		}
	}
	c.spec = p.spec(r)
	c.index = p.from(in, r)
	runtime := p.RuntimeArguments
	if r.kind == KindOCI {
		runtime = c.environment(runtime, p)
	}
	c.env = append(c.env, in.settings(p.Env, false)...)
	c.runtime, c.args = in.words(runtime), in.words(p.Arguments)
	return c
}

// spec returns the package with its version, as the program takes it.
func (p *Package) spec(r *runner) string {
	switch {
	case p.Version == "":
		return p.Identifier
	case r.kind != KindOCI:
		return p.Identifier + "@" + p.Version
	case strings.Contains(p.Identifier, "@") || strings.LastIndexByte(p.Identifier, ':') > strings.LastIndexByte(p.Identifier, '/'):
		return p.Identifier // the version is that of the server
	}
	return p.Identifier + ":" + p.Version
}

// from returns the option for a package registry that is not the usual one.
func (p *Package) from(in *inputs, r *runner) []string {
	base := strings.TrimRight(p.BaseURL, "/")
	if base == "" || r.base == "" || base == r.base || strings.HasPrefix(r.base, base+"/") {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || value.HasControl(base) {
		in.fail("its package registry %q is no https URL", wire.Shown(value.RedactURL(base)))
		return nil
	}
	in.note("the package comes from %s", wire.Shown(base))
	return []string{r.index + "=" + base}
}

// environment takes variables that are written as options of a container out of its arguments: their values may be secrets, and everybody on
// the machine can see arguments.
func (c *start) environment(arguments []Argument, p *Package) (rest []Argument) {
	for i, a := range arguments {
		name, text, assigned := strings.Cut(a.Value, "=")
		switch {
		case a.Type == "positional" && i < 2 && (a.Value == "run" || a.Value == "container"): // ours
		case a.Type != "named" || a.Name != "-e" && a.Name != "--env" || !assigned:
			rest = append(rest, a)
		case text == "":
		default:
			f := Field{Name: name, Template: a.Template}
			f.Value = text
			c.env = append(c.env, c.in.settings([]Field{f}, false)...)
		}
	}
	for _, s := range c.env {
		if slices.ContainsFunc(p.Env, func(f Field) bool { return f.Name == s.name }) {
			c.in.fail("the variable %s is there twice", s.name)
		}
	}
	return rest
}

// server returns the server with values.
func (c *start) server(given imported.Values) (*imported.Server, error) {
	env, err := c.in.filled(c.env, given)
	if err != nil {
		return nil, err
	}
	runtime, err := c.in.spelled(c.runtime, given)
	if err != nil {
		return nil, err
	}
	if runtime, err = c.run.allowed(runtime); err != nil {
		return nil, err
	}
	args, err := c.in.spelled(c.args, given)
	if err != nil {
		return nil, err
	}
	argv := slices.Concat([]string{c.program}, c.run.words, runtime, c.index)
	if c.run.kind == KindOCI {
		for _, s := range env {
			argv = append(argv, "-e", s.Name)
		}
	}
	argv = append(argv, c.spec)
	if c.program == "dnx" { // its options may stand behind the package
		argv = slices.Concat([]string{c.program, c.spec}, c.run.words, runtime, c.index)
	}
	if err := c.judge(argv); err != nil {
		return nil, err
	}
	if c.run.separator != "" && len(args) > 0 {
		argv = append(argv, c.run.separator)
	}
	argv = append(argv, args...)
	return &imported.Server{Command: imported.Texts(argv...), Env: env, Lost: c.in.notes}, nil
}

// judge returns an error unless a command starts the package that the description names, in a fixed version, and no other.
func (c *start) judge(argv []string) error {
	all, err := command.Packages(argv)
	switch {
	case err != nil:
		return err
	case len(all) != 1 || all[0].Version == "":
		return fmt.Errorf("%q is no package of %s with a fixed version", wire.Shown(c.spec), c.run.kind)
	case all[0].Name != c.identifier && !strings.HasPrefix(c.identifier, all[0].Name+"@") && !strings.HasPrefix(c.identifier, all[0].Name+":"):
		return fmt.Errorf("it would start %s, and not %s", wire.Shown(all[0].Name), wire.Shown(c.identifier))
	}
	return nil
}

// allowed returns the words for the program without those that it gets anyway, or an error if one could have it start something else.
func (r *runner) allowed(words []string) (kept []string, err error) {
	for i := 0; i < len(words); i++ {
		option, _, joined := strings.Cut(words[i], "=")
		switch {
		case !joined && slices.Contains(r.words, words[i]):
		case r.kind == KindOCI && (words[i] == "-t" || words[i] == "--tty"): // a terminal would change the messages
		case r.kind == KindOCI && (words[i] == "-it" || words[i] == "-ti"):
		case !joined && slices.Contains(r.switches, words[i]):
			kept = append(kept, words[i])
		case slices.Contains(r.options, option) && joined:
			kept = append(kept, words[i])
		case slices.Contains(r.options, option) && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-"):
			kept = append(kept, words[i], words[i+1])
			i++
		default:
			return nil, fmt.Errorf("it hands %q to %s, which could start something else, or give it more rights; fix: write the command yourself with --", wire.Shown(words[i]), r.program)
		}
	}
	return kept, nil
}
