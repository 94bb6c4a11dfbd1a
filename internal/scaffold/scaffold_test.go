package scaffold

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// leftovers are what the tools of a project leave in its folder.
var leftovers = []string{".venv", "node_modules", "dist", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}

// Every file of a tree is rendered, under its own name, and no placeholder is left.
func TestTreesAreWhole(t *testing.T) {
	for _, lang := range Languages() {
		t.Run(lang, func(t *testing.T) {
			p := Project{Name: "my-weather-2", Language: lang, Description: "Says how it is outside."}
			files, err := p.render()
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, f := range files {
				got = append(got, f.path)
				if text := strings.ReplaceAll(f.path+f.text, `\`, ""); strings.Contains(text, placeholderName) || strings.Contains(text, placeholderModule) || strings.Contains(text, placeholderDescription) {
					t.Errorf("%s has a placeholder", f.path)
				}
			}
			err = filepath.WalkDir(lang, func(name string, entry fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if slices.Contains(leftovers, entry.Name()) || strings.HasSuffix(entry.Name(), ".egg-info") {
					if entry.IsDir() {
						return fs.SkipDir
					}
					return nil
				}
				if !entry.IsDir() {
					name, err := filepath.Rel(lang, name)
					want = append(want, strings.ReplaceAll(filepath.ToSlash(name), placeholderModule, "my_weather_2"))
					return err
				}
				return nil
			})
			slices.Sort(want)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v\ngot  %q\nwant %q", err, got, want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"weather": true, "a": true, "my-server-2": true, strings.Repeat("a", 64): true, "json-rpc": true,
		"": false, "A": false, "Weather": false, "2a": false, "-a": false, "a-": false, "a_b": false, "a b": false, "a/b": false, "..": false,
		"a\n": false, "wetter-ü": false, strings.Repeat("a", 65): false,
		"json": false, "http": false, "asyncio": false, "class": false, "match": false, "mcp": false, "mcp-types": false, "pydantic": false, "tests": false,
		"concurrent": false, "lib2to3": false,
	} {
		_, err := (&Project{Name: name, Language: "python"}).render()
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "; fix: ") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"fs", "zod", "node-modules", "typescript-eslint", "http"} {
		if _, err := (&Project{Name: name, Language: "typescript"}).render(); err == nil || !strings.Contains(err.Error(), "; fix: choose another, such as "+name+"-server") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (&Project{Name: "a", Language: "cobol"}).render(); err == nil || !strings.Contains(err.Error(), "; fix: choose python") {
		t.Errorf("cobol: %v", err)
	}
}

// A suggestion is a name that is taken.
func TestSuggestions(t *testing.T) {
	for _, name := range append(strings.Fields(reservedPython), strings.Repeat("a", 64)) {
		name = strings.ReplaceAll(name, "_", "-")
		if _, err := (&Project{Name: suggest(name), Language: "python"}).render(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A description arrives as it was, whatever it would mean to TOML, JSON or a shell.
func TestDescriptions(t *testing.T) {
	for _, text := range []string{"plain", `quotes " and ' and \ and \n`, `""" $(touch x) {{x}} </script>`, "Grüße 🌦", strings.Repeat("ü", maxDescription), "example-server"} {
		files, err := (&Project{Name: "weather", Language: "python", Description: text}).render()
		more, moreErr := (&Project{Name: "weather", Language: "typescript", Description: text}).render()
		if err != nil || moreErr != nil {
			t.Fatalf("%q: %v %v", text, err, moreErr)
		}
		var project struct {
			Project struct{ Name, Description string }
		}
		for _, f := range append(files, more...) {
			switch f.path {
			case "pyproject.toml":
				if err := toml.Unmarshal([]byte(f.text), &project); err != nil || project.Project.Description != text || project.Project.Name != "weather" {
					t.Errorf("%q: %v %+v", text, err, project)
				}
			case "package.json":
				var of struct{ Name, Description string }
				if err := json.Unmarshal([]byte(f.text), &of); err != nil || of.Name != "weather" || of.Description != text {
					t.Errorf("%q: %v %+v", text, err, of)
				}
			case "README.md":
				if !strings.HasPrefix(f.text, "# weather\n\n"+text+"\n") {
					t.Errorf("%q: %.300s", text, f.text)
				}
			}
		}
	}
	for _, text := range []string{"two\nlines", "a\x00", "\xff", "turned \u202e around", strings.Repeat("ü", maxDescription+1), "tab\t"} {
		if _, err := (&Project{Name: "weather", Language: "python", Description: text}).render(); err == nil || !strings.Contains(err.Error(), "; fix: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWrite(t *testing.T) {
	p := Project{Name: "weather", Language: "python"}
	files, err := p.render()
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	empty := filepath.Join(parent, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(parent, "fresh"), empty} {
		if err := p.Write(dir); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name := filepath.Join(dir, f.path)
			raw, err := os.ReadFile(name)
			info, statErr := os.Lstat(name)
			if err != nil || statErr != nil || string(raw) != f.text || info.Mode().Perm()&^0o644 != 0 {
				t.Errorf("%s: %v %v", f.path, err, info.Mode())
			}
		}
		if err := p.Write(dir); err == nil || !strings.Contains(err.Error(), "is not empty; fix: ") {
			t.Errorf("again: %v", err)
		}
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

// What is refused leaves everything as it was.
func TestWriteRefuses(t *testing.T) {
	outside := t.TempDir()
	for what, prepare := range map[string]func(parent string) (dir, says string){
		"a file": func(parent string) (string, string) {
			dir := filepath.Join(parent, "weather")
			if err := os.WriteFile(dir, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			return dir, "is no folder; fix: "
		},
		"a link": func(parent string) (string, string) {
			dir := filepath.Join(parent, "weather")
			if err := os.Symlink(outside, dir); err != nil {
				t.Fatal(err)
			}
			return dir, "is no folder; fix: "
		},
		"a dangling link": func(parent string) (string, string) {
			dir := filepath.Join(parent, "weather")
			if err := os.Symlink(filepath.Join(outside, "none"), dir); err != nil {
				t.Fatal(err)
			}
			return dir, "is no folder; fix: "
		},
		"a hidden file in the folder": func(parent string) (string, string) {
			dir := filepath.Join(parent, "weather")
			if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o700); err != nil {
				t.Fatal(err)
			}
			return dir, "not empty; fix: "
		},
		"no parent": func(parent string) (string, string) {
			return filepath.Join(parent, "none", "weather"), "; fix: make that folder"
		},
	} {
		t.Run(what, func(t *testing.T) {
			parent := t.TempDir()
			dir, says := prepare(parent)
			before := names(t, parent)
			if err := (&Project{Name: "weather", Language: "python"}).Write(dir); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v", err)
			}
			if after := names(t, parent); !slices.Equal(before, after) || len(names(t, outside)) > 1 {
				t.Errorf("before %q, after %q, outside %q", before, after, names(t, outside))
			}
		})
	}
}

// A file that cannot be written leaves nothing behind.
func TestWriteIsWhole(t *testing.T) {
	parent, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	for _, bad := range []string{"../escapes", "/escapes", "a/../../escapes"} {
		if err := fill(parent, "weather", []file{{"a", "x"}, {bad, "x"}}); err == nil {
			t.Errorf("%s was written", bad)
		}
		if err := parent.RemoveAll("weather"); err != nil {
			t.Fatal(err)
		}
	}
	if left := names(t, parent.Name()); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		all = append(all, name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func FuzzProject(f *testing.F) {
	f.Add("weather", `quotes " and \`)
	f.Add("json", "")
	f.Add("a-", "two\nlines")
	f.Fuzz(func(t *testing.T, name, description string) {
		files, err := (&Project{Name: name, Language: "python", Description: description}).render()
		if err != nil {
			if !strings.Contains(err.Error(), "; fix: ") {
				t.Fatal(err)
			}
			return
		}
		for _, f := range files {
			if !fs.ValidPath(f.path) {
				t.Errorf("path %q", f.path)
			}
			if f.path == "pyproject.toml" {
				var all struct{ Project struct{ Description string } }
				if err := toml.Unmarshal([]byte(f.text), &all); err != nil || strings.TrimSpace(description) != "" && all.Project.Description != description {
					t.Errorf("%v:\n%s", err, f.text)
				}
			}
		}
	})
}
