// Package command generates a program in Go whose commands are the tools of a server. It needs nothing but the standard library, and becomes one file.
package command

import (
	"embed"
	"fmt"
	"regexp"

	"github.com/goccy/go-json"

	"dragoman/internal/generate"
	"dragoman/internal/generate/names"
	"dragoman/internal/generate/output"
)

// sources are the files of the program, which are the same for all servers.
//
//go:embed program/main.go program/completion.go
var sources embed.FS

var (
	folders  = names.Files("-", "")
	commands = names.Style{Join: "-", Empty: "tool", Fold: true, Reserved: names.Set("help list completion")}
	// completed are values that shells complete: those that no shell reads as code.
	completed = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/@%+=,-]*$`)
)

// Folders returns the names of the folders of the services, and so of their programs. They differ.
func Folders(services []string) []string { return folders.Assign(services) }

// tool and option are what the program reads of tools.json.
type tool struct {
	Command string   `json:"command"`
	Name    string   `json:"name"`
	Summary string   `json:"summary"`
	About   string   `json:"about"`
	Options []option `json:"options"`
}

type option struct {
	Name     string   `json:"name"`
	Member   string   `json:"member"`
	Kind     string   `json:"kind"`
	Required bool     `json:"required,omitempty"`
	About    string   `json:"about,omitempty"`
	Values   []string `json:"values,omitempty"`
}

// Commands returns the names of the commands of a service's tools, in their order.
func Commands(s *generate.Service) []string { return s.Files(commands) }

// Files returns the program for a service. name is that of its folder.
func Files(s *generate.Service, name string) ([]output.File, error) {
	described, err := tools(s, name)
	if err != nil {
		return nil, err
	}
	all := []output.File{{Path: "go.mod", Data: fmt.Appendf(nil, "module mcp-clients/%s\n\ngo 1.24\n", name)}, {Path: "tools.json", Data: described}}
	for _, file := range []string{"main.go", "completion.go"} {
		source, err := sources.ReadFile("program/" + file)
		if err != nil {
			return nil, err
		}
		all = append(all, output.File{Path: file, Data: source})
	}
	return all, nil
}

// tools returns tools.json.
func tools(s *generate.Service, name string) ([]byte, error) {
	described := struct {
		Name          string `json:"name"`
		Title         string `json:"title"`
		URL           string `json:"url"`
		URLVariable   string `json:"url_variable"`
		TokenVariable string `json:"token_variable"`
		Tools         []tool `json:"tools"`
	}{name, generate.Line(generate.FirstOf(s.Title, s.Name), 200), s.URL, s.URLVariable, s.TokenVariable, []tool{}}
	for i, command := range Commands(s) {
		t := s.Tools[i]
		one := tool{Command: command, Name: t.Name, Summary: generate.Line(t.Summary(), 120), About: generate.Plain(generate.FirstOf(t.Description, t.Title, t.Name)), Options: []option{}}
		for _, o := range generate.Options(t) {
			var values []string
			for _, v := range o.Values() {
				if completed.MatchString(v) {
					values = append(values, v)
				}
			}
			one.Options = append(one.Options, option{Name: o.Name, Member: o.Member, Kind: o.Kind, Required: o.Required, About: o.About(), Values: values})
		}
		described.Tools = append(described.Tools, one)
	}
	raw, err := json.MarshalIndentWithOption(described, "", " ", json.DisableHTMLEscape())
	return append(raw, '\n'), err
}
