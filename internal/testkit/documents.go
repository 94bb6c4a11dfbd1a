package testkit

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Fence is a fenced block of a document.
type Fence struct{ File, Kind, Text string }

// Fences matches the fenced blocks of a document: their kind and text.
var Fences = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")

// FencesOf returns the fenced blocks of the documents that patterns match.
func FencesOf(t *testing.T, patterns ...string) (all []Fence) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range Fences.FindAllSubmatch(data, -1) {
				all = append(all, Fence{File: file, Kind: string(m[1]), Text: string(m[2])})
			}
		}
	}
	return all
}

// Manual lists the documents whose commands and configurations have to work.
var Manual = []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/design/*.md", "deploy/README.md"}

// Documents returns all documents of the repository except those that programs write or that belong to tests.
func Documents(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (name[0] == '.' || slices.Contains([]string{"node_modules", "testdata", "results", "checks"}, name)):
			return filepath.SkipDir
		case !d.IsDir() && filepath.Ext(name) == ".md":
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) < 20 {
		t.Fatal(err, files)
	}
	return files
}

// CodeSpan matches text between backquotes within a line.
var CodeSpan = regexp.MustCompile("`([^`\n]+)`")

// ShellWords splits a line at blanks outside quotes.
func ShellWords(line string) (words []string) {
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}
