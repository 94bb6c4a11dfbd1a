package targets

import (
	"path"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/adapters/skills"
	"dragoman/internal/generate"
	"dragoman/internal/generate/bash"
	"dragoman/internal/generate/output"
)

// scripts is the folder of a skill in which the scripts of its tools are (Agent Skills).
const scripts = "scripts"

// how says how a skill's commands work.
const how = "Each tool is a script in `scripts/` of this skill, which needs bash and curl. Run it from the folder of the skill. `--help` shows its options; `-` in their place " +
	"reads the arguments as JSON from standard input. The answer is JSON on standard output: the result of the tool is in `data`. A call that has failed ends with exit code 1 and " +
	"says why on standard error. "

// skill returns the folder of an Agent Skill for a service: what the tools are for, and scripts that call them.
func skill(s *generate.Service, folder string) ([]output.File, error) {
	from := skills.Server{Name: folder, ID: s.Name, Title: s.Title, Instructions: s.Instructions, How: how + "`" + s.URLVariable + "` says that the server is somewhere else, `" + s.TokenVariable + "` has the token that it wants."}
	commands := make(map[string]string, len(s.Tools))
	for i, name := range bash.Scripts(s) {
		t := s.Tools[i]
		commands[t.Name] = path.Join(scripts, name)
		var hints struct{ ReadOnlyHint, DestructiveHint bool }
		_ = json.Unmarshal(t.Annotations, &hints) // what is no object hints at nothing
		from.Tools = append(from.Tools, skills.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.Input, OutputSchema: t.Output,
			ReadOnly: hints.ReadOnlyHint, Destructive: hints.DestructiveHint})
	}
	from.Call = func(t skills.Tool, arguments []byte) string {
		return "bash " + commands[t.Name] + " - <<'JSON'\n" + strings.TrimSpace(string(arguments)) + "\nJSON"
	}
	made, err := skills.Generate(from)
	if err != nil {
		return nil, err
	}
	var all []output.File
	for _, f := range made.Files {
		all = append(all, output.File{Path: f.Path, Data: f.Data})
	}
	for _, f := range bash.Files(s) {
		f.Path = path.Join(scripts, f.Path)
		all = append(all, f)
	}
	return all, nil
}
