package setup

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"dragoman/internal/imported/clients"
	"dragoman/proxy/wire"
)

const greeting = `Dragoman lets any MCP client use any MCP server, whatever revision and transport each
of them speaks, and serves many servers as one.
`

// Greeting says what Dragoman is, which clients with how many servers are on the machine, and the three things to do next. entry is the name of
// Dragoman's own entry.
func Greeting(m *clients.Machine, entry string) string {
	var b strings.Builder
	b.WriteString(greeting)
	var first *clients.Installed
	rows := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for i, at := range m.Installed() {
		if i == 0 {
			_, _ = fmt.Fprint(rows, "\nFound on this machine:\n") // a strings.Builder takes everything
		}
		servers, what := count(m, at, entry)
		_, _ = fmt.Fprintf(rows, "  %s\t%s\t%s\n", at.Title, what, short(m, at.Path))
		if first == nil && servers > 0 {
			first = &at
		}
	}
	_ = rows.Flush()
	b.WriteString("\nWhat to do next:\n")
	for _, step := range steps(m, first) {
		b.WriteString("  " + step[0] + "\n      " + step[1] + "\n")
	}
	b.WriteString("\nAll commands: dragoman --help\n")
	return b.String()
}

// steps are three commands, each with what it does.
func steps(m *clients.Machine, first *clients.Installed) [][2]string {
	probe := [2]string{"dragoman probe https://example.com/mcp", "say what a server speaks, and what clients of each era lose"}
	if first == nil {
		return [][2]string{
			{"dragoman serve -- npx -y @modelcontextprotocol/server-everything", "serve a server to every kind of client at http://127.0.0.1:8080/mcp"},
			{"dragoman setup CLIENT --url http://127.0.0.1:8080/mcp", "let a client on this machine use it: Claude Desktop, Cursor, VS Code and others"},
			probe,
		}
	}
	return [][2]string{
		{"dragoman setup " + first.ID + " --all-servers", "put the servers of " + first.Title + " behind one dragoman; it asks first, and --undo takes it back"},
		{"dragoman serve --import " + quoted(short(m, first.Path)), "serve them to every kind of client at http://127.0.0.1:8080/mcp, and change nothing"},
		probe,
	}
}

// count returns how many servers a client has besides Dragoman's entry, and says so.
func count(m *clients.Machine, at clients.Installed, entry string) (servers int, what string) {
	if !at.Exists {
		return 0, "no servers yet"
	}
	file, err := clients.Read(at.Path, m.Home)
	if err != nil {
		return 0, "no servers"
	}
	has := ""
	for i := range file.Servers {
		if file.Servers[i].Name == entry {
			has = " and dragoman"
			continue
		}
		servers++
	}
	if servers == 1 {
		return servers, "1 server" + has
	}
	return servers, fmt.Sprintf("%d servers%s", servers, has)
}

// short returns a path with ~ for the user's directory.
func short(m *clients.Machine, path string) string {
	if rest, below := strings.CutPrefix(path, m.Home+string(filepath.Separator)); below {
		path = filepath.Join("~", rest)
	}
	return wire.Shown(path)
}

// quoted returns a path as shells take it. The ~ stays outside of the quotes.
func quoted(path string) string {
	if !strings.ContainsAny(path, " '\"$&;()") {
		return path
	}
	rest, home := strings.CutPrefix(path, "~"+string(filepath.Separator))
	text := "'" + strings.ReplaceAll(rest, "'", `'\''`) + "'"
	if home {
		return "~" + string(filepath.Separator) + text
	}
	return text
}
