// Package scaffold writes MCP servers as projects. The projects are real ones below this folder, with a placeholder for a name, so that their
// editors, linters and tests work on them in place. The rules that they hold are in RULES.md.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What is embedded is listed by kind, because these folders also have what their tools leave there.
//
//go:embed python/*.toml python/*.txt python/*.md python/*.yaml python/Makefile python/Containerfile
//go:embed python/.gitignore python/.containerignore python/.dockerignore python/.github/workflows/*.yml
//go:embed python/deploy/* python/files/* python/src/example_server/*.py python/tests/*.py
//go:embed typescript/*.toml typescript/*.json typescript/*.js typescript/*.md typescript/*.yaml typescript/Makefile typescript/Containerfile
//go:embed typescript/.gitignore typescript/.containerignore typescript/.dockerignore typescript/.prettierignore typescript/.prettierrc.json
//go:embed typescript/.github/workflows/*.yml typescript/deploy/* typescript/files/* typescript/src/*.ts typescript/test/*.ts
var trees embed.FS

//go:embed reserved_python.txt
var reservedPython string

// Names that npm refuses: those of its own, of Node.js's modules, and of dependencies.
//
//go:embed reserved_typescript.txt
var reservedTypeScript string

// Languages lists the languages of projects.
func Languages() []string {
	names := make([]string, len(languages))
	for i, l := range languages {
		names[i] = l.name
	}
	return names
}

// language is what differs between the trees.
type language struct {
	name     string
	reserved string // names that would hide a module, a line each
	files    []string
}

var languages = []language{{
	name:     "python",
	reserved: reservedPython,
	files: []string{"*.toml", "*.txt", "*.md", "*.yaml", "Makefile", "Containerfile", ".gitignore", ".containerignore", ".dockerignore",
		".github/workflows/*.yml", "deploy/*", "files/*", "src/example_server/*.py", "tests/*.py"},
}, {
	name:     "typescript",
	reserved: reservedTypeScript,
	files: []string{"*.toml", "*.json", "*.js", "*.md", "*.yaml", "Makefile", "Containerfile", ".gitignore", ".containerignore", ".dockerignore",
		".prettierignore", ".github/workflows/*.yml", "deploy/*", "files/*", "src/*.ts", "test/*.ts"},
}}

// Placeholders of the trees. The description stands alone on a line, and as a string of TOML or JSON: of a text that can be printed, only quotes
// and backslashes are escaped, as in Go.
const (
	placeholderName        = "example-server"
	placeholderModule      = "example_server"
	placeholderDescription = "An MCP server."
)

// Limits of what a user gives.
const (
	maxName        = 64  // bytes: rule of a server's name
	maxDescription = 500 // characters
)

var nameForm = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

// Project is a project to write.
type Project struct {
	// Name is that of the server, the package and the folder.
	Name string
	// Language is one of [Languages].
	Language string
	// Description is one line, at most 500 characters; "" is a general one.
	Description string
}

// Check returns an error, which says how to fix it, if the project cannot be written whatever the folder.
func (p *Project) Check() error {
	_, err := p.check()
	return err
}

// check returns the language of a project, or an error that says how to fix it.
func (p *Project) check() (*language, error) {
	at := slices.IndexFunc(languages, func(l language) bool { return l.name == p.Language })
	if at < 0 {
		return nil, fmt.Errorf("scaffold: there are no projects in %q; fix: choose %s", p.Language, strings.Join(Languages(), " or "))
	}
	switch l := &languages[at]; {
	case len(p.Name) > maxName || !nameForm.MatchString(p.Name):
		return nil, fmt.Errorf("scaffold: the name is not one of a server; fix: write a to z first, then a to z, 0 to 9 or -, no - at the end, %d in all", maxName)
	case slices.Contains(strings.Fields(l.reserved), module(p.Name)):
		return nil, fmt.Errorf("scaffold: %s is the name of a module of %s or of a dependency; fix: choose another, such as %s", p.Name, l.name, suggest(p.Name))
	case utf8.RuneCountInString(p.Description) > maxDescription:
		return nil, fmt.Errorf("scaffold: the description is longer than %d characters; fix: shorten it", maxDescription)
	case !utf8.ValidString(p.Description) || strings.ContainsFunc(p.Description, func(r rune) bool { return !unicode.IsPrint(r) }):
		return nil, errors.New("scaffold: the description has characters that cannot be shown; fix: write one line of text")
	default:
		return l, nil
	}
}

func suggest(name string) string {
	const suffix = "-server"
	return name[:min(len(name), maxName-len(suffix))] + suffix
}

// module returns a name as that of a Python module.
func module(name string) string { return strings.ReplaceAll(name, "-", "_") }

// file is a file of a project, its path with slashes.
type file struct {
	path, text string
}

// render returns the files of a project in the order of their paths.
func (p *Project) render() ([]file, error) {
	l, err := p.check()
	if err != nil {
		return nil, err
	}
	description := p.Description
	if strings.TrimSpace(description) == "" {
		description = placeholderDescription
	}
	names := strings.NewReplacer(placeholderName, p.Name, placeholderModule, module(p.Name),
		`"`+placeholderDescription+`"`, strconv.Quote(description), "\n"+placeholderDescription+"\n", "\n"+description+"\n")
	tree, err := fs.Sub(trees, l.name)
	if err != nil {
		return nil, fmt.Errorf("scaffold: %w", err)
	}
	var files []file
	for _, pattern := range l.files {
		found, err := fs.Glob(tree, pattern)
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("scaffold: no files %s: %w", pattern, errors.Join(err, fs.ErrNotExist))
		}
		for _, name := range found {
			raw, err := fs.ReadFile(tree, name)
			if err != nil {
				return nil, fmt.Errorf("scaffold: %w", err)
			}
			files = append(files, file{path.Clean(names.Replace(name)), names.Replace(string(raw))})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, nil
}
