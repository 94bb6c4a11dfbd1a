package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
)

func TestImports(t *testing.T) {
	const src = "// Package a is not dragoman/a.\npackage a\n\nimport (\n\t\"dragoman\"\n\tb \"dragoman/b\" // \"dragoman/b\"\n\t. \"dragoman/internal/c\"\n\t\"dragomania/b\"\n\t\"fmt\"\n)\n\nimport _ `dragoman/d`\n\nconst method = \"dragoman/no-such-method\"\n"
	want := strings.NewReplacer("\t\"dragoman\"", "\t\"example.com/x\"", "b \"dragoman/b\" ", "b \"example.com/x/b\" ", ". \"dragoman/", ". \"example.com/x/", "`dragoman/d`", "\"example.com/x/d\"").Replace(src)
	got, err := imports([]byte(src), "dragoman", "example.com/x")
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if _, err := imports([]byte("packag"), "a", "b"); err == nil {
		t.Error("what is not Go is accepted")
	}
}

// A module gets the files of its main package for every system and what is embedded, and neither tests nor other packages. Twice it is the same.
func TestPublish(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module dragoman\n\ngo 1.26.0\n", "go.sum": "", "LICENSE": "l", "README.md": "r",
		"main.go":            "package main\n\nimport \"dragoman/internal/a\"\n\nfunc main() { a.A() }\n",
		"main_test.go":       "package main\n",
		"internal/a/a.go":    "package a\n\nimport _ \"embed\"\n\n//go:embed a.json\nvar data string\n\nfunc A() { _ = data; b() }\n",
		"internal/a/a.json":  "{}",
		"internal/a/b_js.go": "package a\n\nfunc b() {}\n", "internal/a/b_linux.go": "package a\n\nfunc b() {}\n",
		"internal/a/b_windows.go": "package a\n\nimport \"dragoman/internal/w\"\n\nfunc b() { w.W() }\n",
		"internal/a/b_other.go":   "//go:build !js && !linux && !windows\n\npackage a\n\nfunc b() {}\n",
		"internal/w/w.go":         "package w\n\nfunc W() {}\n", "internal/w/data.txt": "not embedded",
		"tools/other.go": "package other\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	m := module.Version{Path: "example.com/Big/dragoman", Version: "v1.2.3"}
	var archives [2][]byte
	for i := range archives {
		dir := t.TempDir()
		if err := publish(".", dir, m, time.Unix(1.7e9, 0).UTC()); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, "example.com", "!big", "dragoman", "@v")
		for name, want := range map[string]string{"list": "v1.2.3\n", "v1.2.3.info": `{"Version":"v1.2.3","Time":"2023-11-14T22:13:20Z"}`, "v1.2.3.mod": "module example.com/Big/dragoman\n\ngo 1.26.0\n"} {
			if got, err := os.ReadFile(filepath.Join(at, name)); string(got) != want {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		archives[i], _ = os.ReadFile(filepath.Join(at, "v1.2.3.zip"))
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the second archive differs")
	}
	r, err := zip.NewReader(bytes.NewReader(archives[0]), int64(len(archives[0])))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range r.File {
		names = append(names, strings.TrimPrefix(f.Name, "example.com/Big/dragoman@v1.2.3/"))
	}
	want := []string{"LICENSE", "README.md", "go.mod", "go.sum", "internal/a/a.go", "internal/a/a.json", "internal/a/b_js.go", "internal/a/b_linux.go", "internal/a/b_other.go", "internal/a/b_windows.go", "internal/w/w.go", "main.go"}
	if !slices.Equal(names, want) {
		t.Errorf("%q\nwant %q", names, want)
	}
	for _, wrong := range []module.Version{{Path: "dragoman", Version: "v1.2.3"}, {Path: "example.com/dragoman", Version: "1.2.3"}, {Path: "example.com/dragoman", Version: "v2.0.0"}} {
		if err := publish(root, t.TempDir(), wrong, time.Time{}); err == nil || !strings.Contains(err.Error(), "fix:") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}
