package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/internal/imported/clients"
	"dragoman/internal/testkit"
)

// importVariables are those that the fixtures of the clients need.
var importVariables = []string{"API_KEY=ak", "AIRTABLE_API_KEY=at", "DATA_DIR=/d", "MY_API_KEY=mk", "MY_SERVICE_TOKEN=st", "PERPLEXITY_KEY=pk", "GITHUB_TOKEN=gt", "FIGMA_OAUTH_TOKEN=fo", "FIGMA_KEY=fk",
	"DB_CONNECTION_STRING=dc", "EXTERNAL_API_KEY=ek", "TOKEN=to", "DB_DSN=dd", "LOCAL_TOKEN=lt"}

// The servers of a client's file are the same whether the file is imported or made into a configuration first.
func TestImportIsConfigImport(t *testing.T) {
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS("internal/imported/clients/testdata")); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(work, "home")
	t.Setenv("HOME", home)
	t.Chdir(work)
	for _, dir := range []string{"mcp-servers/python", "project/e2e"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"home/.mcp.env", "project/.env"} {
		if err := os.WriteFile(file, []byte("FROM_FILE=1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"home/.config/Claude/claude_desktop_config.json", "home/.claude.json", "home/.cursor/mcp.json", "home/.config/Code/User/mcp.json", "home/.config/zed/settings.json", "home/.codex/config.toml",
		"home/.gemini/settings.json", "project/.mcp.json", "project/.vscode/mcp.json", "project/.cursor/mcp.json"} {
		direct, err := LoadConfig(LoadOptions{Import: []string{path}, Environ: importVariables})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		file, err := clients.Read(path, home)
		if err != nil {
			t.Fatal(err)
		}
		lookup := func(name string) (string, bool) {
			at := slices.IndexFunc(importVariables, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
			if at < 0 {
				return "", false
			}
			return importVariables[at][len(name)+1:], true
		}
		secrets := imported.Secrets{Dir: filepath.Join(t.TempDir(), "secrets")}
		w := imported.Writer{Lookup: lookup, Keep: secrets.Keep}
		text, err := w.Servers(file.Servers)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := secrets.Write(); err != nil {
			t.Fatal(err)
		}
		written, err := LoadConfig(LoadOptions{File: testkit.WriteFile(t, "x.toml", text), Environ: importVariables})
		if err != nil {
			t.Errorf("%s: %v\n%s", path, err, text)
			continue
		}
		if len(direct.Upstreams) == 0 || !reflect.DeepEqual(revealed(direct), revealed(written)) {
			t.Errorf("%s: %q\nwant %q", path, revealed(direct), revealed(written))
		}
		if !slices.Contains(direct.Files(), path) {
			t.Errorf("%s is not watched: %q", path, direct.Files())
		}
	}
}

// revealed returns what was imported of each upstream, secrets too.
func revealed(c *Config) (all []string) {
	for _, u := range c.Upstreams {
		text := fmt.Sprint(u.Name, u.URL, u.Command, u.Transport, u.Cwd, u.EnvFile, u.EnvInherit, u.StartTimeout)
		for _, h := range u.Headers {
			text += " " + h.Name + ": " + h.Value.Reveal()
		}
		for _, v := range u.Env {
			text += " " + v.Name + "=" + v.Value.Reveal()
		}
		for _, tool := range u.Tools {
			text += fmt.Sprint(" ", tool.Name, tool.Enabled, tool.Timeout)
		}
		for _, g := range u.Access {
			text += fmt.Sprint(" ", g.Principal, g.Tools)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// Servers of files are added to those of the configuration, under names that are free; what they lack is an error with the file and the line.
func TestImports(t *testing.T) {
	conf := testkit.WriteFile(t, "x.toml", "[upstreams.a]\nurl = \"https://a.example/\"\n")
	one := testkit.WriteFile(t, "one.json", "{\"mcpServers\": {\n\"a\": {\"command\": \"x\", \"env\": {\"K\": \"${input:the-key}\", \"LITERAL\": \"${notmine}\"}},\n\"A\": {\"url\": \"https://b.example/\"},\n\"off\": {\"command\": \"x\", \"disabled\": true}, \"none\": {}}}")
	two := testkit.WriteFile(t, "two.json", "{\"servers\": {\"a\": {\"command\": \"y\", \"env\": {\"K\": \"${input:the-key}\"}}}, \"inputs\": [{\"id\": \"the-key\", \"description\": \"the key of the shop\", \"password\": true}]}")
	c, err := LoadConfig(LoadOptions{File: conf, Import: []string{one, two}, Environ: []string{"THE_KEY=s", "notmine=other"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.names(), " "); got != "a a-2 a-3 a-4" {
		t.Error(got)
	}
	if env := c.Upstreams[1].Environ(); !slices.Equal(env, []string{"K=s", "LITERAL=other"}) {
		t.Errorf("%q", env)
	}
	warnings := strings.Join(c.Warnings, "\n")
	for _, want := range []string{"server a is called a-2 here", "server A is called a-3 here", "server off is switched off there", "server none: has neither"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("%q is missing in\n%s", want, warnings)
		}
	}
	_, err = LoadConfig(LoadOptions{Import: []string{one, two, "/none.json"}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{one + `:2: upstreams.a.env.K: needs the variable "THE_KEY", which is not set`, "fix: set it: the key of the shop", "/none.json: cannot be read"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

// Headers and variables may contain references; what is none stays.
func TestReferencesInText(t *testing.T) {
	file := testkit.WriteFile(t, "x.toml", `
[upstreams.a]
url = "https://a.example/"
headers = { Authorization = "Bearer ${TOKEN}", X-Two = "${A}-${A}", X-None = "${not a name} $A {A}" }
[upstreams.b]
command = ["x"]
env = { DSN = "postgres://me:${PW}@db/x", PLAIN = "file:./x ${}" }
`)
	c, err := LoadConfig(LoadOptions{File: file, Environ: []string{"TOKEN=t", "A=1", "PW=p"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range slices.Concat(c.Upstreams[0].Headers, c.Upstreams[1].Env) {
		got = append(got, h.Name+"="+h.Value.Reveal())
	}
	slices.Sort(got)
	if want := []string{"Authorization=Bearer t", "DSN=postgres://me:p@db/x", "PLAIN=file:./x ${}", "X-None=${not a name} $A {A}", "X-Two=1-1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	_, err = LoadConfig(LoadOptions{File: file, Environ: []string{"TOKEN=t", "A=1"}})
	if ce, ok := err.(value.ConfigErrors); !ok || len(ce) != 1 || ce[0].Key != "upstreams.b.env.DSN" || !strings.Contains(err.Error(), `"PW" it refers to is not set`) {
		t.Error(err)
	}
}
