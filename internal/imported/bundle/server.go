package bundle

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dragoman/internal/imported"
	"dragoman/proxy/wire"
)

// Machine is what of the machine on which the server is started goes into its command.
type Machine struct {
	// Platform is linux, darwin or win32.
	Platform string
	// Home is the home directory of the user; empty: it is not known.
	Home string
	// Separator stands between the parts of a path.
	Separator string
}

// Here returns this machine. goos is runtime.GOOS.
func Here(goos, home string) Machine {
	platform, known := map[string]string{"windows": "win32"}[goos]
	if !known {
		platform = goos
	}
	return Machine{platform, home, string(filepath.Separator)}
}

// Plan is a bundle on a machine: which values it wants, and how it is started.
type Plan struct {
	// Variables are the values that it wants, by name.
	Variables []imported.Variable
	// Notes deserve a look, a line each.
	Notes []string

	b        *Bundle
	m        Machine
	dir      string
	from     string
	defaults imported.Values
	start    start
}

// Plan returns how the bundle is started from a directory, in which it was or will be unpacked. The error says why it cannot be.
func (b *Bundle) Plan(dir, from string, m Machine) (*Plan, error) {
	p := &Plan{b: b, m: m, dir: dir, from: from, defaults: imported.Values{}}
	if all := b.Manifest.Compatibility.Platforms; len(all) > 0 && !slices.Contains(all, m.Platform) {
		return nil, fmt.Errorf("the bundle is for %s, and not for %s", wire.Shown(strings.Join(all, ", ")), m.Platform)
	}
	if b.Signed {
		p.Notes = append(p.Notes, "its signature is not checked")
	}
	p.choose()
	for _, name := range b.Manifest.options {
		if err := p.option(name); err != nil {
			return nil, err
		}
	}
	return p, p.check()
}

// choose takes the command of the platform.
func (p *Plan) choose() {
	s := &p.b.Manifest.Server
	if s.Config == nil { // uv: whoever starts it knows how
		p.start = start{Command: "uv", Args: []string{"run", "--directory", "${__dirname}", s.EntryPoint}}
		if p.b.has("uv.lock") {
			p.start.Args = slices.Insert(p.start.Args, 1, "--frozen")
		} else {
			p.Notes = append(p.Notes, "it has no uv.lock, so that what it depends on may differ from one machine to the next")
		}
		return
	}
	p.start = *s.Config
	if over, is := s.Config.Overrides[p.m.Platform]; is {
		if over.Command != "" {
			p.start.Command = over.Command
		}
		if over.Args != nil {
			p.start.Args = over.Args
		}
		if over.Env != nil {
			p.start.Env = over.Env
		}
	}
}

// option adds a variable.
func (p *Plan) option(name string) error {
	o := p.b.Manifest.UserConfig[name]
	v := imported.Variable{Name: name, Description: strings.TrimSpace(o.Title + ": " + o.Description), Secret: o.Sensitive, Required: o.Required, Kind: kinds[o.Type], Repeated: o.Multiple, Min: o.Min, Max: o.Max}
	texts, err := o.defaults()
	if err == nil && len(texts) > 0 && !o.Sensitive { // a secret that everybody has is an example
		for i, text := range texts {
			if texts[i], err = p.place(text); err != nil {
				break
			}
		}
		if err == nil {
			err = v.Check(texts)
		}
		if err != nil || slices.ContainsFunc(texts, imported.Reads) {
			p.Notes = append(p.Notes, "the default of "+wire.Shown(name)+" is not taken over: it is not valid here")
		} else {
			v.Default, p.defaults[name] = texts[0], texts
		}
	}
	p.Variables = append(p.Variables, v)
	return nil
}

// check finds faults that no value mends.
func (p *Plan) check() error {
	for _, text := range append([]string{p.start.Command}, p.start.Args...) {
		for _, name := range optionsIn(text) {
			if v := p.variable(name); v != nil && v.Secret && v.Required {
				return fmt.Errorf("the bundle wants the secret %s as an argument, and everybody on the machine can see arguments", wire.Shown(name))
			}
		}
	}
	for _, text := range slices.Concat([]string{p.start.Command}, p.start.Args, slices.Collect(maps.Values(p.start.Env))) {
		for _, name := range optionsIn(text) {
			if p.variable(name) == nil {
				return fmt.Errorf("the bundle uses user_config.%s, which it does not have", wire.Shown(name))
			}
		}
	}
	return nil
}

func (p *Plan) variable(name string) *imported.Variable {
	at := slices.IndexFunc(p.Variables, func(v imported.Variable) bool { return v.Name == name })
	if at < 0 {
		return nil
	}
	return &p.Variables[at]
}

var (
	inText = regexp.MustCompile(`\$\{([^{}]*)\}`)
	// directories are the directories that a manifest may name, below the home directory.
	directories = map[string]string{"HOME": "", "DESKTOP": "Desktop", "DOCUMENTS": "Documents", "DOWNLOADS": "Downloads"}
)

const optionPrefix = "user_config."

// optionsIn returns the options that a text has.
func optionsIn(text string) (names []string) {
	for _, m := range inText.FindAllStringSubmatch(text, -1) {
		if name, is := strings.CutPrefix(m[1], optionPrefix); is {
			names = append(names, name)
		}
	}
	return names
}

// place replaces what is of the machine in a text. Options stay.
func (p *Plan) place(text string) (string, error) {
	var wrong error
	text = inText.ReplaceAllStringFunc(text, func(all string) string {
		name := all[2 : len(all)-1]
		below, directory := directories[name]
		switch {
		case name == "__dirname":
			return p.dir
		case name == "pathSeparator" || name == "/":
			return p.m.Separator
		case directory && p.m.Home != "":
			return filepath.Join(p.m.Home, below)
		case directory:
			wrong = errors.New("the home directory is not known; fix: set HOME")
		case !strings.HasPrefix(name, optionPrefix):
			wrong = fmt.Errorf("the bundle uses the variable %s, which is not known", wire.Shown(all))
		}
		return all
	})
	return text, wrong
}

// Server returns the server with values for its variables. What needs an optional one that has none is left out.
func (p *Plan) Server(given imported.Values) (*imported.Server, error) {
	if err := imported.CheckAll(p.Variables, given); err != nil {
		return nil, err
	}
	m := p.b.Manifest
	s := &imported.Server{Name: m.Name, Description: m.Description, From: p.from, Dir: imported.Literal(p.dir), Lost: p.Notes}
	argv, err := p.command(given)
	if err != nil {
		return nil, err
	}
	s.Command = imported.Texts(argv...)
	for _, name := range slices.Sorted(maps.Keys(p.start.Env)) {
		one, ok, err := p.setting(name, p.start.Env[name], given)
		if err != nil {
			return nil, err
		}
		if ok {
			s.Env = append(s.Env, one)
		}
	}
	return s, nil
}

// values returns the values of an option.
func (p *Plan) values(name string, given imported.Values) []string {
	if values := given[name]; len(values) > 0 {
		return values
	}
	return p.defaults[name]
}

// command returns the command. In arguments nothing is a reference.
func (p *Plan) command(given imported.Values) (argv []string, err error) {
	for i, text := range append([]string{p.start.Command}, p.start.Args...) {
		if text, err = p.place(text); err != nil {
			return nil, err
		}
		words, ok, err := p.spell(text, given)
		switch {
		case err != nil:
			return nil, err
		case ok:
			for _, word := range words {
				argv = append(argv, p.absolute(word, i == 0))
			}
		case i > 1 && strings.HasPrefix(argv[len(argv)-1], "-") && !strings.Contains(argv[len(argv)-1], "="): // the option without its value
			argv = argv[:len(argv)-1]
		}
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("the bundle has no command without values that are not given")
	}
	return argv, nil
}

// spell returns the words of an argument; ok is false if one of its options has no value. An option alone may have several.
func (p *Plan) spell(text string, given imported.Values) (words []string, ok bool, err error) {
	names := optionsIn(text)
	for _, name := range names {
		values := p.values(name, given)
		switch {
		case len(values) == 0:
			return nil, false, nil
		case p.variable(name).Secret:
			return nil, false, fmt.Errorf("the bundle takes the secret %s as an argument, and everybody on the machine can see arguments; fix: leave it out", wire.Shown(name))
		case slices.ContainsFunc(values, imported.Refers):
			return nil, false, fmt.Errorf("%s stands in an argument, where nothing reads references; fix: write the value itself", wire.Shown(name))
		case len(names) == 1 && text == "${"+optionPrefix+name+"}":
			return values, true, nil
		case len(values) > 1:
			return nil, false, fmt.Errorf("%s is only a part of an argument, and has several values; fix: give one", wire.Shown(name))
		}
	}
	return []string{inText.ReplaceAllStringFunc(text, func(all string) string {
		return p.values(strings.TrimPrefix(all[2:len(all)-1], optionPrefix), given)[0]
	})}, true, nil
}

// absolute returns a word with the directory before it if it is the path of a file in the bundle: the program, or the entry point. The working
// directory is another one.
func (p *Plan) absolute(word string, program bool) string {
	entry := path.Clean(p.b.Manifest.Server.EntryPoint)
	clean := path.Clean(filepath.ToSlash(word))
	if program && strings.Contains(word, "/") && !path.IsAbs(clean) && p.b.has(clean) || !program && clean == entry && p.b.Manifest.Server.Type != UV {
		return filepath.Join(p.dir, filepath.FromSlash(clean))
	}
	return word
}

// setting returns a variable of the environment; ok is false if one of its options has no value.
func (p *Plan) setting(name, text string, given imported.Values) (s imported.Setting, ok bool, err error) {
	if text, err = p.place(text); err != nil {
		return s, false, err
	}
	s.Name = name
	at := 0
	fixed := inText.ReplaceAllString(text, "x")
	if imported.Reads(fixed) {
		return s, false, fmt.Errorf("the bundle has the variable %s with a fixed value that would read secrets of the running dragoman", name)
	}
	all := inText.FindAllStringSubmatchIndex(text, -1)
	for _, m := range all {
		option := strings.TrimPrefix(text[m[2]:m[3]], optionPrefix)
		values := p.values(option, given)
		if len(values) == 0 {
			return s, false, nil
		}
		if len(values) > 1 {
			return s, false, fmt.Errorf("%s goes into the variable %s, which has one value; fix: give one", wire.Shown(option), name)
		}
		part := imported.ValuePart(values[0])
		if strings.HasPrefix(part.Variable, "file:") && (m[0] > 0 || m[1] < len(text)) {
			return s, false, fmt.Errorf("%s is only a part of a value, which cannot refer to a file; fix: write %s=env:NAME", wire.Shown(option), wire.Shown(option))
		}
		if m[0] > at {
			s.Value = append(s.Value, imported.Part{Literal: text[at:m[0]]})
		}
		s.Value, s.Secret, at = append(s.Value, part), s.Secret || p.variable(option).Secret, m[1]
	}
	if at < len(text) {
		s.Value = append(s.Value, imported.Part{Literal: text[at:]})
	}
	if s.Value.Reads() {
		return s, false, fmt.Errorf("the value of the variable %s would read secrets of the running dragoman; fix: give the reference alone, as env:NAME", name)
	}
	return s, len(s.Value) > 0, nil
}
