// Package targets makes the plan of what is written for services: for each kind of code that is asked for, a folder of each service.
package targets

import (
	"context"
	"fmt"
	"path"
	"strings"

	"dragoman/adapters/rest/openapi"
	"dragoman/adapters/skills"
	"dragoman/internal/generate"
	"dragoman/internal/generate/bash"
	"dragoman/internal/generate/command"
	"dragoman/internal/generate/names"
	"dragoman/internal/generate/output"
	"dragoman/internal/generate/python"
	"dragoman/internal/generate/template"
	"dragoman/internal/generate/typescript"
)

// Target is a kind of code.
type Target struct {
	Name  string
	About string // in a few words, for a help text

	common func() []output.Unit
	// folders returns the folders of services, which differ, by their names.
	folders func(services []string) []string
	files   func(s *generate.Service, folder string) ([]output.File, error)
}

var folders = names.Files("-", "")

// All are the kinds of code that can be asked for.
var All = []Target{
	{Name: "bash", About: "a script for each tool; needs bash and curl", folders: under("bash", folders.Assign),
		files: func(s *generate.Service, _ string) ([]output.File, error) { return bash.Files(s), nil }},
	{Name: "python", About: "a typed package for Python 3.10, with httpx and pydantic", common: python.Common, folders: under("python/"+python.Package, python.Modules),
		files: func(s *generate.Service, _ string) ([]output.File, error) { return python.Files(s), nil }},
	{Name: "typescript", About: "a typed module for each tool, for Node.js and browsers", common: typescript.Common, folders: under("typescript/servers", typescript.Folders),
		files: func(s *generate.Service, _ string) ([]output.File, error) { return typescript.Files(s), nil }},
	{Name: "cli", About: "a program in Go for each server, with completion", folders: under("cli", command.Folders),
		files: command.Files},
	{Name: "skills", About: "an Agent Skill for each server, with scripts", folders: under("skills", skills.Names), files: skill},
	{Name: "openapi", About: "OpenAPI 3.1 documents", folders: under("openapi", folders.Assign), files: describe},
}

func under(dir string, assign func([]string) []string) func([]string) []string {
	return func(services []string) []string {
		all := assign(services)
		for i := range all {
			all[i] = path.Join(dir, all[i])
		}
		return all
	}
}

// Find returns the target of a name.
func Find(name string) (*Target, error) {
	var known []string
	for i := range All {
		if All[i].Name == name {
			return &All[i], nil
		}
		known = append(known, All[i].Name)
	}
	return nil, fmt.Errorf("unknown target %q; fix: choose of %s", name, strings.Join(known, ", "))
}

// Named is a service to generate for, or the name of one that could not be asked.
type Named struct {
	Name    string
	Service *generate.Service // nil: what was generated for it stays
}

// Own are templates of the user's, and the Python that renders them.
type Own struct {
	*template.Set
	Python string
}

// Plan returns what has to be written. own may be nil.
func Plan(ctx context.Context, services []Named, chosen []*Target, own *Own) (*output.Plan, error) {
	all := make([]string, len(services))
	for i, s := range services {
		all[i] = s.Name
	}
	plan := &output.Plan{}
	for _, t := range chosen {
		plan.Roots = append(plan.Roots, t.Name)
		if t.common != nil {
			plan.Units = append(plan.Units, t.common()...)
		}
		dirs := t.folders(all)
		for i, named := range services {
			dir, s := dirs[i], named.Service
			if s == nil {
				plan.Keep = append(plan.Keep, dir)
				continue
			}
			files, err := t.files(s, path.Base(dir))
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", t.Name, s.Name, err)
			}
			plan.Units = append(plan.Units, output.Unit{Dir: dir, Files: files})
		}
	}
	if own == nil {
		return plan, nil
	}
	return plan, own.add(ctx, plan, services, folders.Assign(all))
}

// add adds what the user's templates make.
func (o *Own) add(ctx context.Context, plan *output.Plan, services []Named, dirs []string) error {
	var there []*generate.Service
	for _, s := range services {
		if s.Service != nil {
			there = append(there, s.Service)
		}
	}
	for i := range o.Templates {
		t := &o.Templates[i]
		plan.Roots = append(plan.Roots, t.Name)
		made, err := o.Files(ctx, t, there, o.Python)
		if err != nil {
			return err
		}
		for i, s := range services {
			dir := path.Join(t.Name, dirs[i])
			if s.Service == nil {
				plan.Keep = append(plan.Keep, dir)
				continue
			}
			plan.Units = append(plan.Units, output.Unit{Dir: dir, Files: made[0]})
			made = made[1:]
		}
	}
	return nil
}

// describe returns the OpenAPI documents of a service: one for each thousand tools.
func describe(s *generate.Service, _ string) ([]output.File, error) {
	var all []output.File
	for offset := 0; offset == 0 || offset < len(s.Tools); {
		part := s.Tools[offset:min(len(s.Tools), offset+openapi.MaxTools)]
		tools := make([]openapi.Tool, len(part))
		for i, t := range part {
			tools[i] = openapi.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.Input, OutputSchema: t.Output, Annotations: t.Annotations}
		}
		name, end := documentName(len(all)), 0
		doc, _, err := openapi.Build(openapi.Info{Title: s.Name, Version: s.Version, ServerURL: s.URL,
			Part: openapi.Part{Offset: offset, Total: len(s.Tools), Next: func(from int) string { end = from; return documentName(len(all) + 1) }}}, tools)
		if err != nil {
			return nil, err
		}
		all = append(all, output.File{Path: name, Data: append(doc, '\n')})
		if end <= offset {
			break
		}
		offset = end
	}
	return all, nil
}

func documentName(n int) string {
	if n == 0 {
		return "openapi.json"
	}
	return fmt.Sprintf("openapi-%d.json", n+1)
}
