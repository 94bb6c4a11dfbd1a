package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// fence is a block of a document.
type fence struct{ file, kind, text string }

var fences = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")

// fencesOf are the blocks of the guides and of other documents.
func fencesOf(t *testing.T, patterns ...string) (all []fence) {
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
			for _, m := range fences.FindAllSubmatch(data, -1) {
				all = append(all, fence{file: file, kind: string(m[1]), text: string(m[2])})
			}
		}
	}
	return all
}
