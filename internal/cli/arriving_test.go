package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

const importable = `{
  "mcpServers": {
    // the first
    "One": {"command": "true", "env": {"API_TOKEN": "hunter2-secret"}},
    "two": {"url": "https://two.example/mcp", "headers": {"Authorization": "Bearer hunter2-secret"}},
    "live": {"url": "wss://live.example/"},
  }
}
`

// serve and stdio take the file of a client; what of it is lost is a warning of the configuration.
func TestImportFlag(t *testing.T) {
	file := testkit.WriteFile(t, "mcp.json", importable)
	for _, command := range []string{"serve", "stdio"} {
		rec, code, _, errs := runLine(t, nil, nil, command, "--import", file)
		if code != ExitOK {
			t.Fatalf("%s: %d %s", command, code, errs)
		}
		var names []string
		for _, u := range rec.Cfg.Upstreams {
			names = append(names, u.Name)
		}
		if !slices.Equal(names, []string{"one", "two"}) || !strings.Contains(strings.Join(rec.Cfg.Warnings, "\n"), "server live: url is a WebSocket") {
			t.Errorf("%s: %q %q", command, names, rec.Cfg.Warnings)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"serve", "--import", file, "https://a.example/"}, ExitUsage, "both --import and a URL are given"},
		{[]string{"serve", "--import", testkit.WriteFile(t, "x.json", `{"mcpServers": {"live": {"url": "wss://x/"}}}`)}, ExitFailed, "has no server that can be served"},
		{[]string{"serve", "--import", testkit.WriteFile(t, "y.json", `{}`)}, ExitFailed, "has no servers of MCP"},
		{[]string{"serve", "--import", "/none.json"}, ExitFailed, "cannot be read"},
	} {
		if _, code, _, errs := runLine(t, nil, nil, c.args...); code != c.code || !strings.Contains(errs, c.want) || strings.Contains(errs, "hunter2") {
			t.Errorf("%q: %d %s", c.args, code, errs)
		}
	}
}

// config import prints a configuration, or writes one with its secrets, and never shows a secret.
func TestConfigImport(t *testing.T) {
	file := testkit.WriteFile(t, "mcp.json", importable)
	_, code, out, errs := runLine(t, nil, nil, "config", "import", file)
	for _, want := range []string{"[upstreams.one] # mcp.json:4\n", "env.API_TOKEN = \"env:API_TOKEN\"", "headers.Authorization = \"env:TWO_AUTHORIZATION\""} {
		if code != ExitOK || !strings.Contains(out, want) {
			t.Errorf("%d: %q is missing in\n%s", code, want, out)
		}
	}
	for _, want := range []string{"One: is called one here", "live: url is a WebSocket", "set API_TOKEN to the value", "set TWO_AUTHORIZATION to the value"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is missing in\n%s", want, errs)
		}
	}
	made := filepath.Join(t.TempDir(), "made.toml")
	_, code, told, errs := runLine(t, nil, nil, "config", "import", file, "two", "--output", made)
	if code != ExitOK || !strings.Contains(told, made+" has 1 server, and made.toml.secrets 1 secret\n") || strings.Contains(errs, "live") {
		t.Errorf("%d %s %s", code, told, errs)
	}
	text := testkit.ReadText(t, made)
	if strings.Contains(out+told+errs+text, "hunter2") {
		t.Errorf("a secret is shown: %s %s %s", out, told, errs)
	}
	for path, mode := range map[string]os.FileMode{made: 0o600, made + ".secrets": 0o700 | os.ModeDir, made + ".secrets/two.Authorization": 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	rec, code, _, errs := runLine(t, nil, nil, "serve", "--config", made)
	if code != ExitOK || rec.Cfg.Upstreams[0].Headers[0].Value.Reveal() != "Bearer hunter2-secret" {
		t.Errorf("%d %s", code, errs)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{file, "--output", made}, ExitFailed, "add --force"},
		{[]string{file, "three"}, ExitUsage, `there is no server "three"; fix: write One, two or live`},
		{[]string{file, "live"}, ExitFailed, "has no server that can be taken over"},
		{nil, ExitUsage, "the FILE of an MCP client is missing"},
		{[]string{file, "--output", file + "/x.toml"}, ExitFailed, "cannot be written"},
	} {
		if _, code, _, errs := runLine(t, nil, nil, append([]string{"config", "import"}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: %d %s", c.args, code, errs)
		}
	}
}

// setup changes the files of clients only when it may, and says what to write otherwise.
func TestSetup(t *testing.T) {
	home := t.TempDir()
	environ := []string{"HOME=" + home, "USERPROFILE=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config")}
	file := filepath.Join(home, ".cursor", "mcp.json")
	run := func(args ...string) (code int, out, errs string) {
		_, code, out, errs = runLine(t, environ, nil, append([]string{"setup"}, args...)...)
		return code, out, errs
	}
	if code, _, errs := run("--all-servers", "--dry-run"); code != ExitFailed || !strings.Contains(errs, "no MCP client was found") {
		t.Errorf("%d %s", code, errs)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	testkit.PutFile(t, file, importable)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, ExitUsage, "what the clients are to reach is missing"},
		{[]string{"--all-servers", "--undo"}, ExitUsage, "only one of"},
		{[]string{"--all-servers"}, ExitUsage, "nobody can be asked"},
		{[]string{"emacs", "--all-servers", "--yes"}, ExitUsage, `"emacs" is no client that is known; fix: write claude-desktop, claude-code`},
		{[]string{"windsurf", "--project", "--all-servers", "--yes"}, ExitUsage, "has no file in a project"},
		{[]string{"--url", "example.com", "--yes"}, ExitUsage, "is not a URL"},
		{[]string{"--config", "/none.toml", "--yes"}, ExitFailed, "/none.toml"},
		{[]string{"--all-servers", "--name", "", "--yes"}, ExitUsage, "needs a name"},
		{[]string{"--all-servers", "--launcher", " ", "--yes"}, ExitFailed, "--launcher is empty"},
	} {
		if code, _, errs := run(c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: %d %s", c.args, code, errs)
		}
		if testkit.ReadText(t, file) != importable {
			t.Fatalf("%q: the file is changed", c.args)
		}
	}
	code, out, errs := run("--all-servers", "--dry-run")
	if code != ExitOK || !strings.Contains(out, "nothing is changed: --dry-run") || !strings.Contains(out, `+    "dragoman": {`) || strings.Contains(out, "hunter2") || testkit.ReadText(t, file) != importable {
		t.Errorf("%d %s %s", code, out, errs)
	}
	code, out, errs = run("Cursor", "--all-servers", "--yes", "--launcher", "npx -y dragoman@1.2.3")
	now := testkit.ReadText(t, file)
	if code != ExitOK || !strings.Contains(now, `"command": "npx"`) || !strings.Contains(now, `"args": ["-y", "dragoman@1.2.3", "stdio", "--config", "`+filepath.Join(home, ".config", "dragoman", "cursor.toml")) || !strings.Contains(now, "live") {
		t.Errorf("%d %s %s\n%s", code, out, errs, now)
	}
	if code, out, _ = run("cursor", "--all-servers", "--yes", "--launcher", "npx -y dragoman@1.2.3"); code != ExitOK || !strings.Contains(out, "has dragoman already") || testkit.ReadText(t, file) != now {
		t.Errorf("a second time: %d %s", code, out)
	}
	if rec, code, _, errs := runLine(t, environ, nil, "stdio", "--config", filepath.Join(home, ".config", "dragoman", "cursor.toml")); code != ExitOK || len(rec.Cfg.Upstreams) != 2 {
		t.Errorf("%d %s", code, errs)
	}
	if code, out, _ = run("cursor", "--undo", "--yes"); code != ExitOK || testkit.ReadText(t, file) != importable {
		t.Errorf("undo: %d %s", code, out)
	}
	if code, out, _ = run("cursor", "--undo", "--yes"); code != ExitOK || !strings.Contains(out, "has not been set up there") {
		t.Errorf("undo again: %d %s", code, out)
	}
	if code, _, errs := run("cursor", "--url", "http://127.0.0.1:8080/mcp", "--yes"); code != ExitOK || !strings.Contains(testkit.ReadText(t, file), `"http://127.0.0.1:8080/mcp"]`) {
		t.Errorf("%d %s", code, errs)
	}
}

// servers add --import registers what may be registered, one after the other, and says what it does not.
func TestServersAddImport(t *testing.T) {
	s := serveAggregator(t, "commands = [\"npx\"]\n")
	file := testkit.WriteFile(t, "mcp.json", `{"mcpServers": {
		"First One": {"url": "`+toolsServer(t, "a", "b")+`", "headers": {"X-Token": "${AGG_TOKEN}"}, "alwaysAllow": ["a"], "disabledTools": ["b"]},
		"shell": {"command": "sh", "args": ["-c", "x"]},
		"moving": {"command": "npx", "args": ["-y", "server-latest"], "cwd": "/srv"},
		"bare": {"url": "https://example.com/mcp", "headers": {"X-Key": "5ecret-value"}},
		"braces": {"command": "npx", "args": ["x@1.2.3"], "env": {"A": "${not one}"}},
		"lacks": {"command": "npx", "args": ["x@1.2.3", "${NOT_SET}"]},
		"off": {"url": "https://example.com/mcp", "disabled": true}}}`)
	code, out, errs := s.run("add", "--import", file, "--yes")
	if code != ExitFailed || !strings.Contains(out, "first-one is registered and connected, with 2 tools\n") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	for _, want := range []string{"server   First One\n", "alwaysAllow is not taken over", "its hidden tools are not registered", "as       first-one\n", "header   X-Token from env:AGG_TOKEN\n",
		`shell: servers: `, `"sh" may not be registered`, "moving: servers: ", "fixed version", "its directory is not registered", "bare: servers: ", "has no reference to a secret", "braces: the value of A holds what registrations read as a reference",
		"lacks: its command needs NOT_SET, which is not set", "off: it is switched off there", "6 of 7 are not registered"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is missing in\n%s", want, errs)
		}
	}
	s.want(ExitOK, "CONNECTED", "show", "first-one")
	s.want(ExitUsage, `there is no server "none"; fix: write First One, shell`, "add", "--import", file, "none")
	s.want(ExitUsage, "--url does not go with --import", "add", "--import", file, "--url", "https://x.example/")
	s.want(ExitUsage, "both a COMMAND and --import", "add", "--import", file, "--", "npx")
	s.want(ExitFailed, "cannot be read", "add", "--import", "/none.json")
}
