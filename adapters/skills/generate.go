package skills

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"dragoman/proxy/wire"
)

// Budgets of words.
const (
	// DefaultBudget has room for a line each for some 25 tools, which is more than most servers have, and three examples. It is a tenth of
	// the 5,000 tokens that the Agent Skills format recommends at most, since a model reads SKILL.md before it knows what it needs.
	DefaultBudget = 500
	// MinBudget has room for everything in SKILL.md that is no tool.
	MinBudget = 250
)

// maxTools bounds the tools of a server.
const maxTools = 10_000

// Server describes an MCP server as it describes itself. Its texts are not trusted.
type Server struct {
	Name         string // of the skill, see Name; empty: that of ID
	ID           string // by which people know the server here
	Title        string // by which it calls itself
	Instructions string
	Tools        []Tool
	Prompts      []Prompt
	Resources    []Resource
	// How says how to call, in some sentences of Markdown of the caller's, 60 words at most, which are trusted; empty: by tools/call.
	How string
	// Call returns the command or the call that calls a tool with arguments, in lines. The text goes into a fenced block. nil: tools/call, the
	// name and the arguments.
	Call func(tool Tool, arguments []byte) string
	// Budget is the number of words that SKILL.md has at most, counted between white space; 0: DefaultBudget.
	Budget int
}

// Tool is a tool of a server.
type Tool struct {
	Name, Title, Description  string
	InputSchema, OutputSchema []byte // JSON Schemas; empty: none
	ReadOnly                  bool   // annotations.readOnlyHint
	Destructive               bool   // annotations.destructiveHint
}

// Prompt is a prompt of a server.
type Prompt struct{ Name, Title, Description string }

// Resource is a resource, or a template of resources.
type Resource struct{ URI, Name, Description string }

// ErrBudget is the error of a budget below MinBudget.
var ErrBudget = errors.New("skills: the budget of words is too small")

// Generate writes a skill about a server: SKILL.md with what the server is for, how to call, a line for each tool, and examples, within the
// budget; a file in references for each tool with its arguments; and lists of all tools, prompts and resources where SKILL.md has no room.
// The same server gives the same bytes. Where the schemas of a server take too long to read in all, the last tools have neither arguments nor
// examples. It fails for a budget below MinBudget, and for more than 10,000 tools.
func Generate(s Server) (Skill, error) {
	if s.Budget == 0 {
		s.Budget = DefaultBudget
	}
	if s.Budget < MinBudget {
		return Skill{}, fmt.Errorf("%w: %d; fix: give it %d or more", ErrBudget, s.Budget, MinBudget)
	}
	if len(s.Tools) > maxTools {
		return Skill{}, fmt.Errorf("skills: %s has %d tools; at most %d are described; fix: leave some out", wire.Shown(s.ID), len(s.Tools), maxTools)
	}
	if s.Name == "" {
		s.Name = Name(s.ID)
	}
	if s.Call == nil {
		s.Call = func(tool Tool, arguments []byte) string { return "tools/call " + tool.Name + " " + string(arguments) }
	}
	w := &writing{Server: s, places: placesOf(s.Tools), examples: make([][]byte, len(s.Tools)), left: maxWork}
	out := Skill{Name: s.Name, Description: w.description()}
	head := Frontmatter{Name: s.Name, Description: out.Description, Metadata: map[string]string{"generator": "dragoman"}}
	main := head.Append(nil)
	main = append(main, w.main(s.Budget-words(string(main)))...)
	out.Files = append([]File{{Path: Main, MIME: markdown, Data: main}}, w.references()...)
	if err := out.Check(); err != nil {
		return Skill{}, err
	}
	return out, nil
}

// markdown is the media type of all files that are generated.
const markdown = "text/markdown"

// writing is a skill while it is written.
type writing struct {
	Server
	places   []string // the file of each tool
	examples [][]byte // arguments of each, as far as they were made
	whole    bool     // SKILL.md has all tools
	left     int      // bytes of schemas that may still be gone through
}

// maxNamed bounds the tools that the description names.
const maxNamed = 24

// description says what the skill is for, from names alone: hosts show it to a model before anybody asks for the skill. Names of tools that
// are no identifiers are left out.
func (w *writing) description() string {
	of := title(w.Title)
	if of == "" {
		of = title(w.ID)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Uses the MCP server '%s'", of)
	named, lead := 0, ", which has the tools "
	for _, t := range w.Tools {
		if !identifier(t.Name) {
			continue
		}
		if named >= maxNamed || b.Len()+len(t.Name) > maxDescription-200 {
			break
		}
		b.WriteString(lead + t.Name)
		named, lead = named+1, ", "
	}
	if rest := len(w.Tools) - named; rest > 0 && named > 0 {
		fmt.Fprintf(&b, " and %d more", rest)
	}
	b.WriteString(". Use it when a task needs one of these, or something of this server.")
	return b.String()
}

// title returns a text for the description: a line of 64 characters at most, without quotes and what may be markup.
func title(text string) string {
	return strings.NewReplacer("'", `\u0027`, `"`, `\u0022`, "<", `\u003c`, ">", `\u003e`).Replace(oneLine(firstWords(text, maxTitleWords), 64))
}

// identifier reports whether a name has the characters that the names of tools should have only (2026-07-28 tools, Tool Names).
func identifier(name string) bool {
	return name != "" && len(name) <= 128 && utf8.ValidString(name) && strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' || r == '/')
	}) < 0
}
