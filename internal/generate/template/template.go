// Package template generates files by templates of the user's (seed 000, WrapperTemplate), in the syntax of Jinja2.
//
// They are rendered by Jinja2 itself, in a process of Python. The ports to Go look up methods by their names, so that the linker has to keep every
// method: one of them made the binary 10 MB and the memory at the start 30 % larger for everybody, and differs from Jinja2 in details.
package template

import (
	"bytes"
	"context"
	_ "embed" // render.py
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/goccy/go-yaml"

	"dragoman/internal/generate"
	"dragoman/internal/generate/names"
	"dragoman/internal/generate/output"
	"dragoman/proxy/wire"
)

//go:embed render.py
var renderer string

// Bounds of a folder of templates, and of what they make.
const (
	maxFile     = 1 << 20
	maxFolder   = 16 << 20
	maxRendered = 512 << 20
	renderTime  = 2 * time.Minute
)

// Template is one template (seed 000, WrapperTemplate).
type Template struct {
	Name      string `yaml:"name"`             // of the folder below which its files are
	Path      string `yaml:"template_path"`    // in the folder of templates
	Extension string `yaml:"output_extension"` // of the files, such as .sh
}

// Set is a folder of templates.
type Set struct {
	Templates []Template
	sources   map[string]string // by path
}

// ListName is the file in a folder that names its templates. Without it every *.j2 file in the folder is one: bash-script.sh.j2 is the template
// bash-script of .sh files.
const ListName = "templates.yaml"

var (
	templateName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	extension    = regexp.MustCompile(`^(\.[A-Za-z0-9]{1,16}){1,2}$`)
)

// Load reads a folder of templates: what is in it, and nothing that a link leads to. taken are names that templates may not have.
func Load(dir string, taken func(name string) bool) (*Set, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w; fix: name a folder with templates", err)
	}
	defer root.Close()
	s := &Set{sources: map[string]string{}}
	size := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if size += int(info.Size()); info.Size() > maxFile || size > maxFolder {
			return fmt.Errorf("%s: the templates take more than %d bytes, or one more than %d", name, maxFolder, maxFile)
		}
		source, err := root.ReadFile(name)
		s.sources[name] = string(source)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.list(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	seen := map[string]bool{}
	for i := range s.Templates {
		t := &s.Templates[i]
		if err := t.check(s.sources); err != nil {
			return nil, fmt.Errorf("%s: template %d: %w", dir, i+1, err)
		}
		if seen[t.Name] || taken(t.Name) {
			return nil, fmt.Errorf("%s: template %d: the name %s is taken; fix: choose another", dir, i+1, t.Name)
		}
		seen[t.Name] = true
	}
	return s, nil
}

// list finds the templates of the folder.
func (s *Set) list() error {
	if raw, named := s.sources[ListName]; named {
		var file struct {
			Templates []Template `yaml:"templates"`
		}
		if err := yaml.UnmarshalWithOptions([]byte(raw), &file, yaml.Strict()); err != nil {
			return fmt.Errorf("%s: %s", ListName, yaml.FormatError(err, false, true))
		}
		s.Templates = file.Templates
	} else {
		for name := range s.sources {
			if base, is := strings.CutSuffix(name, ".j2"); is && !strings.Contains(name, "/") {
				ext := path.Ext(base)
				s.Templates = append(s.Templates, Template{Name: strings.TrimSuffix(base, ext), Path: name, Extension: ext})
			}
		}
	}
	if len(s.Templates) == 0 {
		return fmt.Errorf("there are no templates; fix: put NAME.EXTENSION.j2 files into the folder, or a %s with templates:, and below it - name, template_path, output_extension", ListName)
	}
	return nil
}

func (t *Template) check(sources map[string]string) error {
	switch _, there := sources[t.Path]; {
	case !templateName.MatchString(t.Name):
		return fmt.Errorf("\"%s\" is no name of a template; fix: use lower-case letters, digits and hyphens, a letter first", wire.Shown(t.Name))
	case !extension.MatchString(t.Extension):
		return fmt.Errorf("%s: \"%s\" is no extension of a file; fix: write one such as .sh", t.Name, wire.Shown(t.Extension))
	case !there:
		return fmt.Errorf("%s: there is no file \"%s\" in the folder; links do not count", t.Name, wire.Shown(t.Path))
	}
	return nil
}

// job is a file to render.
type job struct {
	Template  string         `json:"template"`
	Variables map[string]any `json:"variables"`
}

var files = names.Files("_", "")

// Files returns, for each of the services, the files that a template makes: one for each tool. python is the program that runs Jinja2.
func (s *Set) Files(ctx context.Context, t *Template, services []*generate.Service, python string) ([][]output.File, error) {
	work := struct {
		Templates map[string]string `json:"templates"`
		Jobs      []job             `json:"jobs"`
	}{s.sources, []job{}}
	for _, one := range services {
		for i := range one.Tools {
			work.Jobs = append(work.Jobs, job{t.Path, variables(one, one.Tools[i])})
		}
	}
	texts, err := render(ctx, python, work)
	if err != nil {
		return nil, err
	}
	if len(texts) != len(work.Jobs) {
		return nil, errors.New("Jinja2 has rendered too few files")
	}
	all := make([][]output.File, len(services))
	for i, one := range services {
		for _, name := range one.Files(files) {
			all[i] = append(all[i], output.File{Path: name + t.Extension, Data: []byte(texts[0]), Exec: strings.HasPrefix(texts[0], "#!")})
			texts = texts[1:]
		}
	}
	return all, nil
}

// variables returns what a template knows of a tool: the variables of seed 000, and some more.
func variables(s *generate.Service, t *generate.Tool) map[string]any {
	var schema struct {
		Properties json.RawMessage   `json:"properties"`
		Required   []json.RawMessage `json:"required"`
	}
	_ = json.Unmarshal(t.Input, &schema) // what is no schema has no arguments
	if len(schema.Properties) == 0 || schema.Properties[0] != '{' {
		schema.Properties = json.RawMessage("{}")
	}
	if schema.Required == nil {
		schema.Required = []json.RawMessage{}
	}
	all := map[string]any{"tool_name": t.Name, "description": generate.Plain(generate.FirstOf(t.Description, t.Title, t.Name)), "arguments": schema.Properties, "service_url": s.URL,
		"title": t.Title, "required": schema.Required, "input_schema": t.Input, "service_name": s.Name, "token_variable": s.TokenVariable, "url_variable": s.URLVariable}
	if t.Output != nil {
		all["output_schema"] = t.Output
	} else {
		all["output_schema"] = nil
	}
	return all
}

// render runs Jinja2.
func render(ctx context.Context, python string, work any) (texts []string, err error) {
	input, err := json.Marshal(work)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, renderTime)
	defer cancel()
	c := exec.CommandContext(ctx, python, "-c", renderer) //nolint:gosec // the user names it, and no shell reads it
	var out, said limited
	out.left, said.left = maxRendered, 64<<10
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(input), &out, &said
	err = c.Run()
	message := strings.TrimSpace(said.String())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%s is not there, which templates need; fix: install Python 3 with Jinja2, or name one with --python", python)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the templates were not rendered within %s", renderTime)
	case message == "Jinja2 is missing":
		return nil, fmt.Errorf("%s has no Jinja2; fix: %s -m pip install jinja2, or name another Python with --python", python, python)
	case err != nil && message != "":
		return nil, errors.New(wire.ShownText(message))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", python, err)
	}
	if err := json.Unmarshal(out.Bytes(), &texts); err != nil {
		return nil, fmt.Errorf("what %s has rendered cannot be read: %w", python, err)
	}
	return texts, nil
}

// limited is a buffer that takes so many bytes.
type limited struct {
	bytes.Buffer
	left int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errors.New("too much was written")
	}
	return l.Buffer.Write(p)
}
