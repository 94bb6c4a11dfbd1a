// Package clients knows the MCP clients that people have: where their files are, which servers are in them, and how a file is changed so that everything
// else in it stays.
package clients

import (
	"path/filepath"
	"slices"
	"strings"
)

// Client is a program with servers of MCP, after its maker's documents.
type Client struct {
	// ID is what commands call it, Title what people do.
	ID, Title string
	// key is where its servers are in its file.
	key []string
	// files returns where the file of a user may be; the first is the one to make if there is none.
	files func(m *Machine) []string
	// presence are directories that show that the client is installed, besides its files.
	presence func(m *Machine) []string
	// project is the path of its file in a project; empty: it has none.
	project string
	dialect dialect
	// urlIsSSE means that "url" is an address of HTTP+SSE, and milliseconds that "timeout" is in these.
	urlIsSSE, milliseconds bool
	// typed means that an entry says its transport in "type".
	typed bool
}

const claudeCode = "claude-code"

// Clients are the clients that are known, in the order in which they are listed.
var Clients = []*Client{
	{ID: "claude-desktop", Title: "Claude Desktop", key: []string{"mcpServers"}, dialect: noVariables,
		files: func(m *Machine) []string { return []string{m.appData("Claude", "claude_desktop_config.json")} }, presence: func(m *Machine) []string { return []string{m.appData("Claude")} }},
	{ID: claudeCode, Title: "Claude Code", key: []string{"mcpServers"}, dialect: shellVariables, project: ".mcp.json", typed: true, milliseconds: true,
		files: func(m *Machine) []string {
			if dir := m.Lookup("CLAUDE_CONFIG_DIR"); dir != "" {
				return []string{filepath.Join(dir, ".claude.json")}
			}
			return []string{m.home(".claude.json")}
		}, presence: func(m *Machine) []string { return []string{m.home(".claude")} }},
	{ID: "cursor", Title: "Cursor", key: []string{"mcpServers"}, dialect: envVariables, project: ".cursor/mcp.json",
		files: func(m *Machine) []string { return []string{m.home(".cursor", "mcp.json")} }, presence: func(m *Machine) []string { return []string{m.home(".cursor")} }},
	{ID: "vscode", Title: "VS Code", key: []string{"servers"}, dialect: envVariables, project: ".vscode/mcp.json", typed: true,
		files: func(m *Machine) []string {
			return []string{m.appData("Code", "User", "mcp.json"), m.appData("Code - Insiders", "User", "mcp.json"), m.appData("VSCodium", "User", "mcp.json")}
		}, presence: func(m *Machine) []string { return []string{m.appData("Code", "User")} }},
	{ID: "windsurf", Title: "Windsurf", key: []string{"mcpServers"}, dialect: envVariables,
		files: func(m *Machine) []string { return []string{m.home(".codeium", "windsurf", "mcp_config.json")} }, presence: func(m *Machine) []string { return []string{m.home(".codeium", "windsurf")} }},
	{ID: "zed", Title: "Zed", key: []string{"context_servers"}, dialect: noVariables, project: ".zed/settings.json",
		files: func(m *Machine) []string { return []string{m.config("zed", "Zed", "settings.json")} }, presence: func(m *Machine) []string { return []string{m.config("zed", "Zed", "")} }},
	{ID: "codex", Title: "Codex", key: []string{"mcp_servers"}, dialect: noVariables, project: ".codex/config.toml",
		files: func(m *Machine) []string {
			if dir := m.Lookup("CODEX_HOME"); dir != "" {
				return []string{filepath.Join(dir, "config.toml")}
			}
			return []string{m.home(".codex", "config.toml")}
		}, presence: func(m *Machine) []string { return []string{m.home(".codex")} }},
	{ID: "gemini", Title: "Gemini CLI", key: []string{"mcpServers"}, dialect: dollarVariables, project: ".gemini/settings.json", urlIsSSE: true, milliseconds: true,
		files: func(m *Machine) []string { return []string{m.home(".gemini", "settings.json")} }, presence: func(m *Machine) []string { return []string{m.home(".gemini")} }},
}

// Find returns a client by its ID or its title, in any case; nil if there is none.
func Find(name string) *Client {
	fold := func(s string) string {
		return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(s))
	}
	for _, c := range Clients {
		if fold(name) == fold(c.ID) || fold(name) == fold(c.Title) {
			return c
		}
	}
	return nil
}

func titles() (all []string) {
	for _, c := range Clients {
		all = append(all, c.Title)
	}
	return all
}

// form is how a file has its servers.
type form struct {
	client *Client
	key    []string
	// top are members beside the servers that are none.
	top []string
	dialect
	urlIsSSE, milliseconds bool
}

// formKeys are the keys that hold servers in any file.
func formKeys() []string {
	return []string{"mcpServers", "servers", "context_servers", "mcp_servers", "mcp.servers"}
}

// formOf returns the form of a file, by its name and content; nil if it has no servers.
func formOf(path string, root *node) *form {
	slashed := filepath.ToSlash(path)
	abs, err := filepath.Abs(path)
	if err == nil {
		slashed = filepath.ToSlash(abs)
	}
	for _, c := range Clients {
		if root.at(c.key...) != nil && c.owns(slashed) {
			return c.form()
		}
	}
	for _, key := range formKeys() {
		parts := strings.Split(key, ".")
		if root.at(parts...) == nil {
			continue
		}
		for _, c := range Clients { // a key that one client alone has
			if slices.Equal(c.key, parts) && key != "mcpServers" {
				return c.form()
			}
		}
		if key == "mcp.servers" { // VS Code's settings.json of 2025
			f := Find("vscode").form()
			f.key = parts
			return f
		}
		return &form{key: parts, dialect: anyVariables}
	}
	return nil
}

func (c *Client) form() *form {
	return &form{client: c, key: c.key, dialect: c.dialect, urlIsSSE: c.urlIsSSE, milliseconds: c.milliseconds}
}

// owns reports whether a path, with slashes, is one of a file of the client.
func (c *Client) owns(path string) bool {
	ends := c.endings()
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(path, "/"+end) })
}

// endings are the ends of the paths of a client's files on any system.
func (c *Client) endings() (ends []string) {
	if c.project != "" {
		ends = append(ends, c.project)
	}
	for _, path := range c.files(&Machine{}) {
		parts := strings.Split(filepath.ToSlash(path), "/")
		if len(parts) > 1 && parts[len(parts)-1] == "mcp.json" || parts[len(parts)-1] == "settings.json" || parts[len(parts)-1] == "config.toml" {
			ends = append(ends, strings.Join(parts[len(parts)-2:], "/"))
			continue
		}
		ends = append(ends, parts[len(parts)-1])
	}
	return ends
}

// project returns the folder of the project of a file, by the place of the file in it; "" if it belongs to a user.
func (f *form) project(path, home string) string {
	if f.client == nil {
		return ""
	}
	end := filepath.FromSlash(f.client.project)
	folder, is := strings.CutSuffix(path, string(filepath.Separator)+end)
	if end == "" || !is || folder == home {
		return ""
	}
	return folder
}
