package setup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dragoman/internal/imported/clients"
)

// variables are those that the fixtures of the clients need.
var variables = []string{"API_KEY", "AIRTABLE_API_KEY", "DATA_DIR", "MY_API_KEY", "MY_SERVICE_TOKEN", "PERPLEXITY_KEY", "GITHUB_TOKEN", "FIGMA_OAUTH_TOKEN", "FIGMA_KEY", "DB_CONNECTION_STRING", "EXTERNAL_API_KEY", "TOKEN"}

// home makes a home directory with a file of every client, as the tests of their readers have them.
func home(t *testing.T) *Setup {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "imported", "clients", "testdata", "home"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".mcp.env"), []byte("A=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &clients.Machine{System: "linux", Home: dir, Work: t.TempDir(), Environ: func(name string) string {
		if slices.Contains(variables, name) {
			return "value of " + name
		}
		return ""
	}}
	return &Setup{Machine: m, Dir: filepath.Join(dir, ".config", "dragoman"), Name: "dragoman", Launch: []string{"/usr/bin/dragoman"}, All: true}
}

// tree returns the contents and rights of all files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		info, serr := d.Info()
		if serr == nil {
			all[path] = info.Mode().String() + "\n" + string(data)
		}
		return errors.Join(err, serr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func mustPlan(t *testing.T, s *Setup, at clients.Installed) *Plan {
	t.Helper()
	p, err := s.Plan(at)
	if err != nil {
		t.Fatalf("%s: %v", at.Title, err)
	}
	return p
}

// Each client's servers go behind one entry, a second time changes nothing, and undo gives every byte and right back.
func TestSetupTwiceAndBack(t *testing.T) {
	for _, all := range []bool{true, false} {
		s := home(t)
		if s.All = all; !all {
			s.Reach = []string{"http://127.0.0.1:8080/mcp"}
		}
		before := tree(t, s.Machine.Home)
		installed := s.Machine.Installed()
		for _, at := range installed {
			p := mustPlan(t, s, at)
			if d := p.Diff(false); !strings.Contains(d, "+++ "+at.Path) || !strings.Contains(d, `"/usr/bin/dragoman"`) || strings.Contains(d, "ghp_") || strings.Contains(d, "s3cret") || strings.Contains(d, "abcdefgh") {
				t.Errorf("%s:\n%s", at.Title, d)
			}
			if err := p.Apply(nil); err != nil {
				t.Fatalf("%s: %v", at.Title, err)
			}
			if _, err := s.Plan(at); !errors.Is(err, ErrNothing) {
				t.Errorf("%s: a second time: %v", at.Title, err)
			}
			if kept, err := os.ReadFile(p.Backup()); err != nil || before[at.Path] != modeOf(t, at.Path)+"\n"+string(kept) {
				t.Errorf("%s: backup: %v", at.Title, err)
			}
		}
		made := tree(t, s.Dir)
		for path, content := range made {
			if !strings.HasPrefix(content, "-rw-------") {
				t.Errorf("others can read %s: %s", path, content[:10])
			}
		}
		if config := made[filepath.Join(s.Dir, "claude-desktop.toml")]; all != strings.Contains(config, "[upstreams.github]") || strings.Contains(config, "ghp_") {
			t.Errorf("%v: %s", all, config)
		}
		for _, at := range installed {
			p, err := s.Undo(at)
			if err != nil || len(p.Lines) > 0 {
				t.Fatalf("%s: %v %q", at.Title, err, p.Lines)
			}
			if err := p.Apply(nil); err != nil {
				t.Fatalf("%s: %v", at.Title, err)
			}
			if _, err := s.Undo(at); !errors.Is(err, ErrNotSetUp) {
				t.Errorf("%s: a second undo: %v", at.Title, err)
			}
		}
		after := tree(t, s.Machine.Home)
		if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", s.Dir, err)
		}
		for path := range after {
			if _, had := before[path]; !had {
				t.Errorf("%s is left", path)
			}
		}
		for path, content := range before {
			if after[path] != content {
				t.Errorf("%s is not as it was:\n%s\nwant\n%s", path, after[path], content)
			}
		}
	}
}

func modeOf(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().String()
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// What a client or its user changes in the file after a setup survives the undo, and so do servers that were added and moved by a second setup.
func TestUndoKeepsLaterChanges(t *testing.T) {
	s := home(t)
	at, _ := s.Machine.Of(clients.Find("cursor"))
	mustWrite(t, at.Path, "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"true\"} // mine\n  }\n}\n")
	mode := modeOf(t, at.Path)
	if err := mustPlan(t, s, at).Apply(nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(at.Path)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, at.Path, strings.Replace(string(text), "{\n", "{\n  \"theme\": \"dark\",\n", 1))
	other := *s
	other.Name = "second" // which finds no servers but the first entry
	if p := mustPlan(t, &other, at); len(p.Moved) > 0 || !strings.Contains(strings.Join(p.Lines, "\n"), "would start itself") {
		t.Errorf("the entry would be behind itself: %q %q", p.Moved, p.Lines)
	}
	other.Name, other.All, other.Reach = "second", false, []string{"https://x.example/mcp"}
	if err := mustPlan(t, &other, at).Apply(nil); err != nil { // another entry of Dragoman's
		t.Fatal(err)
	}
	now, err := os.ReadFile(at.Path)
	if err != nil {
		t.Fatal(err)
	}
	more, err := at.Put(now, "b", []byte(`{"command": "false"}`))
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, at.Path, string(more))
	p := mustPlan(t, s, at)
	if !slices.Equal(p.Moved, []string{"second", "b"}) || strings.Count(p.ConfigText, "[upstreams.") != 3 {
		t.Fatalf("%v\n%s", p.Moved, p.ConfigText)
	}
	if err := p.Apply(nil); err != nil {
		t.Fatal(err)
	}
	undo, err := s.Undo(at)
	if err != nil || !strings.Contains(strings.Join(undo.Lines, "\n"), "has been changed since") {
		t.Fatalf("%v %q", err, undo.Lines)
	}
	if err := undo.Apply(nil); err != nil {
		t.Fatal(err)
	}
	back, err := os.ReadFile(at.Path)
	if err != nil {
		t.Fatal(err)
	}
	names, err := at.Servers(back)
	if err != nil || !slices.Equal(names, []string{"a", "b"}) || !strings.Contains(string(back), "dark") || !strings.Contains(string(back), "// mine") {
		t.Errorf("%v %v\n%s", names, err, back)
	}
	if modeOf(t, at.Path) != mode {
		t.Errorf("the rights have changed: %s", modeOf(t, at.Path))
	}
}

// A client without a file gets one, which undo removes; a link stays a link; a file of a project has a configuration of its own.
func TestSetupPlaces(t *testing.T) {
	s := home(t)
	s.All, s.Reach = false, []string{"https://example.com/mcp"}
	s.Machine.Home = t.TempDir()
	cursor, _ := s.Machine.Of(clients.Find("cursor"))
	if err := mustPlan(t, s, cursor).Apply(nil); err != nil {
		t.Fatal(err)
	}
	if mode := modeOf(t, cursor.Path); mode != "-rw-------" {
		t.Errorf("a new file has %s", mode)
	}
	undo, err := s.Undo(cursor)
	if err == nil {
		err = undo.Apply(nil)
	}
	if _, gone := os.Stat(cursor.Path); err != nil || !errors.Is(gone, os.ErrNotExist) {
		t.Errorf("%v, %v", err, gone)
	}

	real := filepath.Join(s.Machine.Home, "dotfiles", "mcp.json")
	mustWrite(t, real, "{}")
	if err := os.Symlink(real, cursor.Path); err != nil {
		t.Fatal(err)
	}
	if err := mustPlan(t, s, cursor).Apply(nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(cursor.Path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if text, err := os.ReadFile(real); err != nil || !strings.Contains(string(text), "dragoman") {
		t.Errorf("%v: %s", err, text)
	}

	s.All = true
	project, _ := s.Machine.InProject(clients.Find("cursor"))
	mustWrite(t, project.Path, `{"mcpServers": {"tool": {"command": "./tool"}}}`)
	p := mustPlan(t, s, project)
	if p.Config == filepath.Join(s.Dir, "cursor.toml") || !strings.Contains(p.ConfigText, "cwd = \""+s.Machine.Work+"\"") {
		t.Errorf("%s\n%s", p.Config, p.ConfigText)
	}
}

// A setup that cannot be finished leaves the client's file, and nothing of its own.
func TestSetupThatFails(t *testing.T) {
	s := home(t)
	at, _ := s.Machine.Of(clients.Find("claude-desktop"))
	before := tree(t, s.Machine.Home)
	p := mustPlan(t, s, at)
	if err := p.Apply(func(string) error { return errors.New("no good") }); err == nil || err.Error() != "no good" {
		t.Error(err)
	}
	for path, content := range tree(t, s.Machine.Home) {
		if before[path] != content {
			t.Errorf("%s is left or changed", path)
		}
	}
	mustWrite(t, at.Path, "{}")
	if err := p.Apply(nil); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Error(err)
	}
	if _, err := s.Plan(at); err == nil || !strings.Contains(err.Error(), "no servers that dragoman could serve") || !errors.Is(err, ErrNoServers) {
		t.Error(err)
	}
	mustWrite(t, at.Path, "{")
	if _, err := s.Plan(at); err == nil || !strings.Contains(err.Error(), "is not JSON") {
		t.Error(err)
	}
}

// What is no file is refused at once; a file that the client changes while the setup is under way is not overwritten, and nothing remains of the setup.
func TestSetupMeanwhile(t *testing.T) {
	s := home(t)
	at, _ := s.Machine.Of(clients.Find("cursor"))
	p := mustPlan(t, s, at)
	if err := p.Apply(func(string) error {
		mustWrite(t, at.Path, "{\"mine\": 1}")
		return nil
	}); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Error(err)
	}
	if text, err := os.ReadFile(at.Path); err != nil || string(text) != "{\"mine\": 1}" {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := s.Undo(at); !errors.Is(err, ErrNotSetUp) {
		t.Error(err)
	}
	for path := range tree(t, filepath.Dir(s.Dir)) {
		if strings.HasPrefix(path, s.Dir) {
			t.Errorf("%s is left", path)
		}
	}
	if err := os.Remove(at.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Plan(at); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Error(err)
	}
}

// A configuration that somebody has changed stays after an undo, with the secrets that it refers to.
func TestUndoKeepsChangedConfiguration(t *testing.T) {
	s := home(t)
	at, _ := s.Machine.Of(clients.Find("claude-desktop"))
	p := mustPlan(t, s, at)
	if err := p.Apply(nil); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, p.Config, p.ConfigText+"# mine\n")
	undo, err := s.Undo(at)
	if err == nil {
		err = undo.Apply(nil)
	}
	if err != nil || !strings.Contains(strings.Join(undo.Lines, "\n"), p.Config+" has been changed since, and stays with what belongs to it") {
		t.Fatalf("%v %q", err, undo.Lines)
	}
	for path := range p.secrets.Files {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// Of two servers of a name the last counts, as for clients.
func TestServersOfOneName(t *testing.T) {
	s := home(t)
	at, _ := s.Machine.Of(clients.Find("cursor"))
	mustWrite(t, at.Path, `{"mcpServers": {"b": {"command": "x", "cwd": "/none"}, "b": {"command": "true"}}}`)
	if p := mustPlan(t, s, at); !slices.Equal(p.Moved, []string{"b"}) || !strings.Contains(p.ConfigText, `command = ["true"]`) || strings.Contains(p.ConfigText, "/none") {
		t.Errorf("%q\n%s", p.Moved, p.ConfigText)
	}
}

// A server that lacks a variable or a file stays at the client, with the reason: Dragoman would not start with it.
func TestServersThatStay(t *testing.T) {
	s := home(t)
	s.Machine.Environ = func(string) string { return "" }
	at, _ := s.Machine.Of(clients.Find("cursor"))
	mustWrite(t, at.Path, `{"mcpServers": {"ok": {"command": "true"}, "v": {"command": "x", "env": {"A": "${env:NONE}"}}, "f": {"command": "x", "envFile": "/none/x"}, "d": {"command": "x", "cwd": "/none"}, "off": {"command": "x", "disabled": true}, "bad": {}}}`)
	p := mustPlan(t, s, at)
	if !slices.Equal(p.Moved, []string{"ok"}) {
		t.Errorf("moved: %v", p.Moved)
	}
	lines := strings.Join(p.Lines, "\n")
	for _, want := range []string{"v stays where it is: it needs NONE", "f stays where it is: it needs /none/x", "d stays where it is: it needs /none", "off stays where it is: it is switched off", "bad stays where it is: it cannot be served"} {
		if !strings.Contains(lines, want) {
			t.Errorf("%q is missing in\n%s", want, lines)
		}
	}
	if names, err := at.Servers(p.After); err != nil || !slices.Equal(names, []string{"v", "f", "d", "off", "bad", "dragoman"}) {
		t.Errorf("%v %v", names, err)
	}
}

// A diff is one hunk with three lines around it.
func TestDiff(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nX\nf\ng\nh\n", "--- f\n+++ f\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n"},
		{"", "a\n", "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n"},
		{"a\n", "", "--- f\n+++ f\n@@ -1,1 +0,0 @@\n-a\n"},
		{"a\n", "a\n", ""},
		{"a\nb\n", "a\na\nb\n", "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n+a\n b\n"},
	} {
		if got := diff("f", c.before, c.after, false); got != c.want {
			t.Errorf("%q to %q:\n%s\nwant\n%s", c.before, c.after, got, c.want)
		}
	}
	if got := diff("f", "a", "b\x1b[0m", true); !bytes.Contains([]byte(got), []byte("\x1b[31m-a\x1b[0m")) || strings.Contains(got, "b\x1b") {
		t.Errorf("%q", got)
	}
}
