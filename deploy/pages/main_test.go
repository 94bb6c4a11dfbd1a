package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every command that people see has a page with its help and its flags; every shell has its completions. Twice they are the same.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var found [2]map[string]string
	for i := range found {
		dir := t.TempDir()
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
		found[i] = map[string]string{}
		files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(dir, f)
			if err != nil {
				t.Fatal(err)
			}
			found[i][filepath.ToSlash(name)] = string(data)
		}
	}
	if !maps.Equal(found[0], found[1]) {
		t.Error("the second pages differ")
	}
	for name, want := range map[string]string{
		"man/dragoman.1":             "\nExit codes: 0 done,",
		"man/dragoman-serve.1":       "\\fB--allow-anonymous\\fP",
		"man/dragoman-servers-add.1": "dragoman servers add",
		"completions/dragoman.bash":  "complete -o default -F __start_dragoman dragoman",
		"completions/_dragoman":      "#compdef dragoman",
		"completions/dragoman.fish":  "complete -c dragoman",
		"completions/dragoman.ps1":   "Register-ArgumentCompleter -CommandName 'dragoman'",
	} {
		if !strings.Contains(found[0][name], want) {
			t.Errorf("%s lacks %q:\n%.600s", name, want, found[0][name])
		}
	}
	if page, hidden := found[0]["man/dragoman-reaper.1"]; hidden {
		t.Errorf("a hidden command has a page:\n%s", page)
	}
}
