package output

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tree returns the files of a folder with their contents, links as "-> target", programs as "+ content".
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			all[rel] = "-> " + to
		case !d.IsDir() && rel != ManifestName:
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			info, _ := d.Info()
			if all[rel] = string(data); info.Mode()&0o100 != 0 {
				all[rel] = "+ " + all[rel]
			}
		case d.IsDir():
			if left, _ := os.ReadDir(name); len(left) == 0 {
				all[rel] = "empty"
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func file(path, data string) File { return File{Path: path, Data: []byte(data)} }

// plan returns a plan with an open unit and one for each server, whose files are given by "path=data".
func plan(units map[string][]string) *Plan {
	p := &Plan{Roots: []string{"bash"}, Units: []Unit{{Dir: "bash", Open: true, Files: []File{file("README.md", "readme")}}}}
	for dir, files := range units {
		u := Unit{Dir: dir}
		for _, f := range files {
			name, data, _ := strings.Cut(f, "=")
			u.Files = append(u.Files, File{Path: name, Data: []byte(data), Exec: strings.HasSuffix(name, ".sh")})
		}
		p.Units = append(p.Units, u)
	}
	return p
}

// want compares a folder with what it must hold.
func want(t *testing.T, dir string, all map[string]string) {
	t.Helper()
	got := tree(t, dir)
	for name, data := range all {
		if got[name] != data {
			t.Errorf("%s is %q, want %q", name, got[name], data)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s should not be there", name)
	}
}

func wantChanges(t *testing.T, c *Changes, err error, created, changed, removed string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		what string
		got  []string
		want string
	}{{"created", c.Created, created}, {"changed", c.Changed, changed}, {"removed", c.Removed, removed}} {
		if !slices.Equal(one.got, strings.Fields(one.want)) {
			t.Errorf("%s: %q, want %q", one.what, one.got, one.want)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "out")
	first := plan(map[string][]string{"bash/one": {"a.sh=A", "deep/b.md=B"}, "bash/two": {"c.sh=C"}})
	c, err := Check(dir, first)
	wantChanges(t, c, err, "bash/README.md bash/one/a.sh bash/one/deep/b.md bash/two/c.sh", "", "")
	if _, err := os.Stat(dir); err == nil {
		t.Error("Check has made the folder")
	}
	c, err = Write(dir, first)
	wantChanges(t, c, err, "bash/README.md bash/one/a.sh bash/one/deep/b.md bash/two/c.sh", "", "")
	want(t, dir, map[string]string{"bash/README.md": "readme", "bash/one/a.sh": "+ A", "bash/one/deep/b.md": "B", "bash/two/c.sh": "+ C"})

	// The same again touches nothing.
	old := time.Unix(1e9, 0)
	for _, name := range []string{"bash/one/a.sh", "bash/README.md", ManifestName} {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	c, err = Write(dir, first)
	wantChanges(t, c, err, "", "", "")
	for _, name := range []string{"bash/one/a.sh", "bash/README.md", ManifestName} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.ModTime().Equal(old) {
			t.Errorf("%s was written again", name)
		}
	}

	// A tool is changed, one is new, one is gone; somebody has changed a file and its mode, and another one's folder has caches.
	if err := os.WriteFile(filepath.Join(dir, "bash/two/c.sh"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "bash/two/c.sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "bash/one/deep/__pycache__"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bash/one/deep/__pycache__/x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := plan(map[string][]string{"bash/one": {"a.sh=A2", "z.md=Z"}, "bash/two": {"c.sh=C"}})
	c, err = Check(dir, second)
	wantChanges(t, c, err, "bash/one/z.md", "bash/one/a.sh bash/two/c.sh", "bash/one/deep/b.md")
	c, err = Write(dir, second)
	wantChanges(t, c, err, "bash/one/z.md", "bash/one/a.sh bash/two/c.sh", "bash/one/deep/b.md")
	want(t, dir, map[string]string{"bash/README.md": "readme", "bash/one/a.sh": "+ A2", "bash/one/z.md": "Z", "bash/two/c.sh": "+ C"})

	// A server that could not be asked keeps its folder, one that is gone loses it, and what belongs to another target stays.
	third := plan(map[string][]string{})
	third.Keep = []string{"bash/one"}
	c, err = Write(dir, third)
	wantChanges(t, c, err, "", "", "bash/two/c.sh")
	want(t, dir, map[string]string{"bash/README.md": "readme", "bash/one/a.sh": "+ A2", "bash/one/z.md": "Z"})
	other := &Plan{Roots: []string{"python"}, Units: []Unit{{Dir: "python/one", Files: []File{file("a.py", "p")}}}}
	c, err = Write(dir, other)
	wantChanges(t, c, err, "python/one/a.py", "", "")
	c, err = Write(dir, plan(map[string][]string{}))
	wantChanges(t, c, err, "", "", "bash/one/a.sh bash/one/z.md")
	want(t, dir, map[string]string{"bash/README.md": "readme", "python/one/a.py": "p"})
}

// Of an open folder each file is written and removed alone, with the folders that only it needed.
func TestOpenFolder(t *testing.T) {
	dir := t.TempDir()
	open := func(files ...string) *Plan {
		p := &Plan{Roots: []string{"."}, Units: []Unit{{Dir: ".", Open: true}}}
		for _, f := range files {
			p.Units[0].Files = append(p.Units[0].Files, file(f, f))
		}
		return p
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Write(dir, open("a", "b/c/d/e", "b/f"))
	wantChanges(t, c, err, "a b/c/d/e b/f", "", "")
	if c.Count() != 3 {
		t.Errorf("%d changes", c.Count())
	}
	c, err = Write(dir, open("a", "b/f"))
	wantChanges(t, c, err, "", "", "b/c/d/e")
	want(t, dir, map[string]string{"mine": "", "a": "a", "b/f": "b/f"})
	if left, err := os.ReadDir(filepath.Join(dir, "b")); err != nil || len(left) != 1 {
		t.Errorf("%v, %v: folders that are empty are left", left, err)
	}
	const said = "the output folder holds mine, which was not generated; fix: move it away, or generate into another folder"
	if c, err = Write(dir, open("b/f", "mine")); err == nil || err.Error() != said {
		t.Errorf("%v, %v", c, err)
	}
	c, err = Write(dir, open("g/h"))
	wantChanges(t, c, err, "g/h", "", "a b/f")
	want(t, dir, map[string]string{"mine": "", "g/h": "g/h"})
}

// Files of others are not changed and not removed.
func TestForeignFiles(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"in a folder that was never generated": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "bash/one"), 0o755), os.WriteFile(filepath.Join(dir, "bash/one/a.sh"), []byte("mine"), 0o600))
		},
		"in a generated folder": func(dir string) error {
			_, err := Write(dir, plan(map[string][]string{"bash/one": {"b.sh=B"}}))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "bash/one/mine.txt"), []byte("mine"), 0o600))
		},
		"in an open folder": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "bash"), 0o755), os.WriteFile(filepath.Join(dir, "bash/README.md"), []byte("mine"), 0o600))
		},
		"a folder in the place of a file": func(dir string) error { return os.MkdirAll(filepath.Join(dir, "bash/one/a.sh"), 0o755) },
		"a file in the place of a folder": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "bash"), 0o755), os.WriteFile(filepath.Join(dir, "bash/one"), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			before := tree(t, dir)
			if _, err := Check(dir, plan(map[string][]string{"bash/one": {"a.sh=A"}})); err == nil || !strings.Contains(err.Error(), "fix: move it away") {
				t.Errorf("Check: %v", err)
			}
			if c, err := Write(dir, plan(map[string][]string{"bash/one": {"a.sh=A"}})); err == nil || !strings.Contains(err.Error(), "fix: move it away") {
				t.Errorf("Write: %v, %v", c, err)
			}
			want(t, dir, before)
		})
	}
}

// Nothing is written or removed through links, and a manifest from anywhere cannot name what is outside.
func TestLinks(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "a.sh"), []byte("theirs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func(dir string) error{
		"a target's folder": func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "bash")) },
		"a server's folder": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "bash"), 0o755), os.Symlink(outside, filepath.Join(dir, "bash/one")))
		},
		"a folder inside": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "here"), 0o755), os.Symlink("here", filepath.Join(dir, "bash")))
		},
		"a file": func(dir string) error {
			_, err := Write(dir, plan(map[string][]string{"bash/one": {"b.sh=B"}}))
			return errors.Join(err, os.Symlink(filepath.Join(outside, "a.sh"), filepath.Join(dir, "bash/one/a.sh")))
		},
		"a manifest": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ManifestName), []byte(`{"units":{"bash/two":["../../../x"]}}`), 0o600)
		},
		"a manifest with a folder": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ManifestName), []byte(`{"units":{"bash/../../x":["a"]}}`), 0o600)
		},
		"no manifest": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ManifestName), []byte(`[]`), 0o600)
		},
		"a folder to be removed": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, ManifestName), []byte(`{"units":{"bash/x/two":["a.sh"]}}`), 0o600),
				os.MkdirAll(filepath.Join(dir, "bash/here/two"), 0o755), os.Symlink("here", filepath.Join(dir, "bash/x")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			before := tree(t, dir)
			if c, err := Write(dir, plan(map[string][]string{"bash/one": {"a.sh=A"}})); err == nil || !strings.Contains(err.Error(), "fix: ") {
				t.Errorf("%v, %v", c, err)
			}
			want(t, dir, before)
			want(t, outside, map[string]string{"a.sh": "+ theirs"})
		})
	}
}

// What a run that was killed has left is completed by the next.
func TestAfterAKill(t *testing.T) {
	dir := t.TempDir()
	if _, err := Write(dir, plan(map[string][]string{"bash/one": {"a.sh=A"}})); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	next := plan(map[string][]string{"bash/one": {"b.sh=B"}})
	w := &writer{root: root, plan: next}
	if w.before, err = readManifest(root); err != nil {
		t.Fatal(err)
	}
	if _, err := w.compare(); err != nil {
		t.Fatal(err)
	}
	// It had named the files of before and after, and placed the unit.
	if err := errors.Join(root.Mkdir("temp", 0o755), w.manifest().with(w.before).write(root, "temp"), w.place(&next.Units[1], "temp/unit")); err != nil {
		t.Fatal(err)
	}
	if err := root.RemoveAll("temp"); err != nil {
		t.Fatal(err)
	}
	c, err := Write(dir, plan(map[string][]string{"bash/one": {"a.sh=A", "c.sh=C"}}))
	wantChanges(t, c, err, "bash/one/a.sh bash/one/c.sh", "", "bash/one/b.sh")
	want(t, dir, map[string]string{"bash/README.md": "readme", "bash/one/a.sh": "+ A", "bash/one/c.sh": "+ C"})
}
