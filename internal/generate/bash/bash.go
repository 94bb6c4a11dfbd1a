// Package bash generates a script for each tool: options from its arguments, JSON on standard input and output. The scripts need bash and curl.
package bash

import (
	_ "embed" // mcp.bash
	"fmt"
	"strings"

	"dragoman/internal/generate"
	"dragoman/internal/generate/names"
	"dragoman/internal/generate/output"
)

// library is what the scripts of a folder share.
//
//go:embed mcp.bash
var library []byte

const (
	libraryName = "mcp.bash"
	extension   = ".sh"
)

var files = names.Files("_", "")

// Files returns the scripts of a service, and what they share.
func Files(s *generate.Service) []output.File {
	all := []output.File{{Path: libraryName, Data: library}}
	for i, name := range s.Files(files) {
		all = append(all, output.File{Path: name + extension, Data: script(s, s.Tools[i], name+extension), Exec: true})
	}
	return all
}

// Scripts returns the names of the scripts of a service's tools, in their order.
func Scripts(s *generate.Service) []string {
	all := s.Files(files)
	for i := range all {
		all[i] += extension
	}
	return all
}

// script returns the script of a tool.
func script(s *generate.Service, t *generate.Tool, name string) []byte {
	var b strings.Builder
	b.WriteString("#!/usr/bin/env bash\n# Written by dragoman generate, not for editing.\n# shellcheck disable=SC1091,SC2034 # " + libraryName + " uses what is set here\n\n")
	fmt.Fprintf(&b, "mcp_tool=%s\nmcp_url=%s\nmcp_url_variable=%s\nmcp_token_variable=%s\n", quote(t.Name), quote(s.URL), s.URLVariable, s.TokenVariable)
	options := generate.Options(t)
	b.WriteString("mcp_options=( # option, kind, whether it is required, member of the arguments\n")
	for _, o := range options {
		need := "optional"
		if o.Required {
			need = "required"
		}
		fmt.Fprintf(&b, "  %s %s %s %s\n", quote("--"+o.Name), o.Kind, need, quote(o.Member))
	}
	text := usage(t, name, options)
	end := "USAGE"
	for strings.Contains(text, end) {
		end += "_"
	}
	fmt.Fprintf(&b, ")\nmcp_usage() {\n  cat <<'%s'\n%s%s\n}\n\n", end, text, end)
	fmt.Fprintf(&b, ". \"$(dirname -- \"${BASH_SOURCE[0]}\")/%s\" && mcp_main \"$@\"\n", libraryName)
	return []byte(b.String())
}

// usage returns the help of a script.
func usage(t *generate.Tool, name string, options []generate.Option) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s [OPTION]...\n       %s - < ARGUMENTS.json\n\n", name, name)
	for line := range strings.Lines(generate.Plain(generate.FirstOf(t.Description, t.Title, t.Name))) {
		b.WriteString(strings.TrimRight(line, "\n") + "\n")
	}
	b.WriteString("\nThe answer is JSON, on standard output; on standard error, with exit code 1, if the call has failed.\n\nOptions:\n")
	for _, o := range options {
		head := "--" + o.Name
		if o.Value != "" {
			head += " " + o.Value
		}
		fmt.Fprintf(&b, "  %s\n", head)
		for line := range strings.Lines(o.About()) {
			fmt.Fprintf(&b, "      %s\n", strings.TrimSpace(line))
		}
	}
	b.WriteString("  -h, --help\n")
	return b.String()
}

// quote returns a word that bash reads as text and that no linter takes for code.
func quote(text string) string {
	plain := true
	for i := range len(text) {
		c := text[i]
		plain = plain && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(" _-./:,=@%+", c) >= 0)
	}
	if plain {
		return "'" + text + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(text) {
		c := text[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == ' ' || c == '_' || c == '-' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "\\%03o", c)
	}
	return b.String() + "'"
}
