package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/internal/imported/clients"
	"dragoman/internal/testkit"
)

// The whole way: a client's file with two servers, one command, the entry that it wrote started as the client would, and the file back.
func TestSetupServesTheServersOfClients(t *testing.T) {
	self := testkit.Executable(t)
	json := func(key, more string) string {
		return "{\n  // mine\n  \"" + key + "\": {\n    \"First Server\": {" + more + "\"command\": \"" + self + "\", \"args\": [\"demo\"], \"env\": {\"" + testkit.AsDragoman + "\": \"main\", \"API_TOKEN\": \"hunter2-secret\"}},\n" +
			"    \"second\": {" + more + "\"command\": \"" + self + "\", \"args\": [\"demo\"], \"env\": {\"" + testkit.AsDragoman + "\": \"main\"}}, // the last\n  },\n}\n"
	}
	toml := "model = \"x\"\n\n[mcp_servers.\"First Server\"]\ncommand = \"" + self + "\"\nargs = [\"demo\"]\n[mcp_servers.\"First Server\".env]\n" + testkit.AsDragoman + " = \"main\"\nAPI_TOKEN = \"hunter2-secret\"\n\n" +
		"# two\n[mcp_servers.second]\ncommand = \"" + self + "\"\nargs = [\"demo\"]\nenv = { " + testkit.AsDragoman + " = \"main\" }\n"
	files := map[string]string{
		"claude-desktop": json("mcpServers", ""), "claude-code": json("mcpServers", `"type": "stdio", `), "cursor": json("mcpServers", ""), "vscode": json("servers", `"type": "stdio", `),
		"windsurf": json("mcpServers", ""), "zed": json("context_servers", ""), "codex": toml, "gemini": json("mcpServers", ""),
	}
	for _, client := range clients.Clients {
		t.Run(client.ID, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			m := &clients.Machine{System: "linux", Home: home}
			at, _ := m.Of(client)
			if err := os.MkdirAll(filepath.Dir(at.Path), 0o700); err != nil {
				t.Fatal(err)
			}
			testkit.PutFile(t, at.Path, files[client.ID])
			environ := append(slices.DeleteFunc(os.Environ(), func(v string) bool {
				return slices.ContainsFunc([]string{"HOME=", "XDG_CONFIG_HOME=", "CODEX_HOME=", "CLAUDE_CONFIG_DIR="}, func(name string) bool { return strings.HasPrefix(v, name) })
			}), "HOME="+home)
			setup := func(args ...string) string {
				t.Helper()
				c := testkit.Self(t, "main", append([]string{"setup", client.ID, "--yes"}, args...)...)
				c.Env = append(environ, testkit.AsDragoman+"=main", "GORACE=atexit_sleep_ms=0")
				out, err := c.CombinedOutput()
				if err != nil || strings.Contains(string(out), "hunter2") {
					t.Fatalf("%v: %s", err, out)
				}
				return string(out)
			}
			setup("--all-servers")
			file, err := clients.Read(at.Path, home)
			if err != nil || len(file.Servers) != 1 || len(file.Servers[0].Command) != 4 {
				t.Fatalf("%v: %+v", err, file)
			}
			var argv []string
			for _, word := range file.Servers[0].Command {
				argv = append(argv, word.String())
			}
			c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			c.Env = append(environ, testkit.AsDragoman+"=main", "GORACE=atexit_sleep_ms=0")
			session, err := mcp.NewClient(&mcp.Implementation{Name: client.ID, Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: c}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var tools []string
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				tools = append(tools, tool.Name)
			}
			if !slices.Contains(tools, "first-server.echo") || !slices.Contains(tools, "second.echo") {
				t.Errorf("tools: %q", tools)
			}
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "second.add", Arguments: map[string]any{"a": 2, "b": 3}})
			if err != nil || res.IsError {
				t.Errorf("%v %+v", err, res)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			setup("--undo")
			if now := testkit.ReadText(t, at.Path); now != files[client.ID] {
				t.Errorf("the file is not as it was:\n%s", now)
			}
		})
	}
}
