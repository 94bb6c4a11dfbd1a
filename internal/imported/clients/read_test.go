package clients

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
)

var update = flag.Bool("update-imports", false, "write testdata/*.txt")

// fixtures are files as the makers of the clients document them, by the places where the clients have them.
func fixtures(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ".txt" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) < 11 {
		t.Fatalf("%d files: %v", len(paths), err)
	}
	return paths
}

// place returns where a fixture would be: in /home/me, or in /home/me/shop.
func place(path string) string {
	slashed := strings.TrimPrefix(filepath.ToSlash(path), "testdata/")
	return filepath.FromSlash(strings.Replace(strings.Replace("/"+slashed, "/home/", "/home/me/", 1), "/project/", "/home/me/shop/", 1))
}

// Each file of a client becomes tables of a configuration, and what is not taken over is said line by line.
func TestFilesOfClients(t *testing.T) {
	environ := map[string]string{"API_KEY": "k", "DATA_DIR": "/data", "DB_DSN": "postgres://db/x", "GITHUB_TOKEN": "g"}
	seen := map[string]bool{}
	for _, path := range fixtures(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := Parse(place(path), data, "/home/me")
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if file.Client != nil {
			seen[file.Client.ID] = true
		}
		w := imported.Writer{
			Lookup: func(name string) (string, bool) { text, ok := environ[name]; return text, ok },
			Keep: func(server, name, secret string) (string, error) {
				if secret == "" {
					return "", errors.New("an empty secret")
				}
				return fmt.Sprintf("file:/secrets/%s.%s.%d", server, name, len(secret)), nil
			},
		}
		text, err := w.Servers(file.Servers)
		if err != nil {
			t.Fatal(err)
		}
		got := "client: " + title(file.Client) + "\n\n" + text + "\nnot taken over, or to be seen to:\n" + strings.Join(append(file.Lost, w.Lines...), "\n") + "\n"
		golden := filepath.Join("testdata", strings.ReplaceAll(strings.TrimPrefix(filepath.ToSlash(path), "testdata/"), "/", "_")+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || string(want) != got {
			t.Errorf("%s: %v\n%s\nwant\n%s", path, err, got, want)
		}
		for _, secret := range []string{"ghp_", "s3cret", "abcdefgh"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: a secret is shown: %s", path, got)
			}
		}
	}
	for _, c := range Clients {
		if !seen[c.ID] {
			t.Errorf("no file of %s was recognised", c.Title)
		}
	}
}

func title(c *Client) string {
	if c == nil {
		return "none that is known"
	}
	return c.Title
}

// Files that cannot be read say why and what to do, with the file's name.
func TestUnreadableFiles(t *testing.T) {
	for path, c := range map[string]struct{ text, want string }{
		"a.json": {"{", "is not JSON"}, "b.json": {"{}", "has no servers of MCP"}, "c.json": {`{"mcpServers": [1]}`, "a list, not an object"},
		"d.toml": {"a =", "is not TOML"}, "e.toml": {"a = 1", "has no servers of MCP"}, "f.json": {strings.Repeat(`{"a":`, 300), "deep"}, "g.json": {`[]`, "has no servers"},
	} {
		_, err := Parse(path, []byte(c.text), "/home/me")
		ce, ok := errors.AsType[*value.ConfigError](err)
		if !ok || !strings.Contains(err.Error(), c.want) || ce.Source.Name != path || ce.Fix == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.json"), "/"); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
}

// A Dragoman that imports the file that it stands in would start itself for ever: it is no server.
func TestImportOfItself(t *testing.T) {
	for _, c := range []struct {
		args string
		is   bool
	}{
		{`["stdio", "--import", "/home/me/.cursor/mcp.json"]`, true}, {`["stdio", "--import=~/.cursor/mcp.json"]`, true}, {`["stdio", "--import", "/home/me/.cursor/../.cursor/mcp.json"]`, true},
		{`["stdio", "--import", "/home/me/other.json"]`, false}, {`["--root", "/home/me/.cursor/mcp.json"]`, false},
	} {
		file, err := Parse("/home/me/.cursor/mcp.json", []byte(`{"mcpServers": {"x": {"command": "dragoman", "args": `+c.args+`}}}`), "/home/me")
		if err != nil || (len(file.Servers[0].Command) == 0) != c.is || c.is != strings.Contains(strings.Join(file.Servers[0].Lost, ""), "would start itself") {
			t.Errorf("%s: %v %+v", c.args, err, file.Servers)
		}
	}
}

// Values of the wrong kind are said and left out, without the values.
func TestFieldsOfTheWrongKind(t *testing.T) {
	file, err := Parse("/x/mcp.json", []byte(`{"mcpServers": {
		"a": {"command": 1, "args": "secret1", "env": {"X": ["secret2"], "Y": null}, "url": {"secret3": 1}, "timeout": "secret4", "what\u202eever": 1},
		"b": "secret5", "c": {"command": "x", "args": ["-v", 2, true, {"secret6": 1}], "url": "https://x.example/"}, "d": {"command": ["node", "x.js"], "transport": "carrier-pigeon"}}}`), "")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range file.Servers {
		all = append(all, s.Lost...)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"command is a number, not text", "args is text, not a list", `"X" of env is a list, not text`, `"Y" of env is null`, "url is an object, not text", "timeout is no time", "is text, not an object", "args[3] is an object, not text", "the command counts", "carrier-pigeon", "is not known", "neither a command nor an address"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret") || strings.ContainsRune(text, '\u202e') {
		t.Errorf("a value is shown, or a text that reads backwards:\n%s", text)
	}
	if c := file.Servers[2]; len(c.Command) != 4 || c.Command[2].String() != "2" || c.Command[3].String() != "true" || c.URL != nil {
		t.Errorf("%+v", c)
	}
	if d := file.Servers[3]; len(d.Command) != 2 || file.Servers[3].From != "mcp.json:3" {
		t.Errorf("%+v", d)
	}
}

// Clients are found by their files and folders, on each system.
func TestInstalled(t *testing.T) {
	home, err := filepath.Abs("testdata/home")
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{System: "linux", Home: home, Work: filepath.Join(home, "..", "project")}
	var ids []string
	for _, at := range m.Installed() {
		ids = append(ids, at.ID)
		if !at.Exists {
			t.Errorf("%s: %s does not exist", at.ID, at.Path)
		}
	}
	if len(ids) != len(Clients) {
		t.Errorf("found %v", ids)
	}
	if at, ok := m.InProject(Find("VS Code")); !ok || !at.Exists {
		t.Errorf("%+v", at)
	}
	if _, ok := m.InProject(Find("windsurf")); ok {
		t.Error("Windsurf has no file in a project")
	}
	empty := t.TempDir()
	if all := (&Machine{System: "linux", Home: empty}).Installed(); len(all) != 0 {
		t.Errorf("found %v", all)
	}
	if err := os.MkdirAll(filepath.Join(empty, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	if all := (&Machine{System: "linux", Home: empty}).Installed(); len(all) != 1 || all[0].Exists || all[0].Path != filepath.Join(empty, ".cursor", "mcp.json") {
		t.Errorf("found %+v", all)
	}
	for _, c := range []struct{ system, client, want string }{
		{"darwin", "claude-desktop", "/h/Library/Application Support/Claude/claude_desktop_config.json"}, {"windows", "claude-desktop", "/h/AppData/Roaming/Claude/claude_desktop_config.json"},
		{"linux", "claude-desktop", "/h/.config/Claude/claude_desktop_config.json"}, {"darwin", "vscode", "/h/Library/Application Support/Code/User/mcp.json"}, {"linux", "vscode", "/h/.config/Code/User/mcp.json"},
		{"darwin", "zed", "/h/.config/zed/settings.json"}, {"windows", "zed", "/h/AppData/Roaming/Zed/settings.json"}, {"linux", "codex", "/h/.codex/config.toml"}, {"darwin", "claude-code", "/h/.claude.json"},
		{"windows", "windsurf", "/h/.codeium/windsurf/mcp_config.json"}, {"linux", "gemini", "/h/.gemini/settings.json"}, {"linux", "cursor", "/h/.cursor/mcp.json"},
	} {
		at, _ := (&Machine{System: c.system, Home: "/h"}).Of(Find(c.client))
		if filepath.ToSlash(at.Path) != c.want {
			t.Errorf("%s on %s: %s, want %s", c.client, c.system, at.Path, c.want)
		}
	}
	vars := map[string]string{"XDG_CONFIG_HOME": "/xdg", "CODEX_HOME": "/cx", "CLAUDE_CONFIG_DIR": "/cc", "APPDATA": "/roaming"}
	for _, c := range []struct{ system, client, want string }{
		{"linux", "vscode", "/xdg/Code/User/mcp.json"}, {"linux", "codex", "/cx/config.toml"}, {"linux", "claude-code", "/cc/.claude.json"}, {"windows", "claude-desktop", "/roaming/Claude/claude_desktop_config.json"},
	} {
		at, _ := (&Machine{System: c.system, Home: "/h", Environ: func(name string) string { return vars[name] }}).Of(Find(c.client))
		if filepath.ToSlash(at.Path) != c.want {
			t.Errorf("%s on %s: %s, want %s", c.client, c.system, at.Path, c.want)
		}
	}
}

// Any bytes are read within bounds, and what is read makes a table of a configuration.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"testdata/home/.cursor/mcp.json", "testdata/home/.codex/config.toml", "testdata/home/.config/Code/User/mcp.json", "testdata/home/.config/zed/settings.json", "testdata/home/.gemini/settings.json"} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(place(path), data)
	}
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		file, err := Parse(path, data, "/home/me")
		if err != nil {
			return
		}
		w := imported.Writer{Lookup: func(string) (string, bool) { return "", false }, Keep: func(string, string, string) (string, error) { return "file:/x", nil }}
		text, err := w.Servers(file.Servers)
		if err != nil {
			t.Fatal(err)
		}
		root, err := parseTOML([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		usable := 0
		for i := range file.Servers {
			if s := &file.Servers[i]; !s.Disabled && len(s.Command)+len(s.URL) > 0 {
				usable++
			}
		}
		if all := root.at("upstreams"); usable > 0 && (all == nil || len(all.members) != usable) {
			t.Fatalf("%d servers: %s", usable, text)
		}
	})
}
