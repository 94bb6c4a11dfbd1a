package clients

import (
	"bytes"
	"strings"
	"testing"
)

// An entry is written into a file of any style, and everything else keeps its bytes; removing it gives the file back.
func TestAddAndRemove(t *testing.T) {
	cursor, vscode, codex := Find("cursor"), Find("vscode"), Find("codex")
	entry := Entry{Name: "dragoman", Command: []string{"/usr/bin/dragoman", "stdio", `C:\x "y"`}}
	for _, c := range []struct {
		name        string
		client      *Client
		before, now string
	}{
		{"no file", cursor, "", "{\n  \"mcpServers\": {\n    \"dragoman\": {\n      \"command\": \"/usr/bin/dragoman\",\n      \"args\": [\"stdio\", \"C:\\\\x \\\"y\\\"\"]\n    }\n  }\n}\n"},
		{"no servers", cursor, "{\n\t\"a\": 1 // one\n}\n", "{\n\t\"a\": 1, // one\n\t\"mcpServers\": {\n\t\t\"dragoman\": {\n\t\t\t\"command\": \"/usr/bin/dragoman\",\n\t\t\t\"args\": [\"stdio\", \"C:\\\\x \\\"y\\\"\"]\n\t\t}\n\t}\n}\n"},
		{"empty object", cursor, "{\"mcpServers\": {}}", "{\"mcpServers\": {\n    \"dragoman\": {\n      \"command\": \"/usr/bin/dragoman\",\n      \"args\": [\"stdio\", \"C:\\\\x \\\"y\\\"\"]\n    }\n  }}"},
		{"comment behind the last", cursor, "{\n    \"mcpServers\": {\n        \"a\": {\"command\": \"x\"} // keep, this\n    }\n}\n",
			"{\n    \"mcpServers\": {\n        \"a\": {\"command\": \"x\"}, // keep, this\n        \"dragoman\": {\n            \"command\": \"/usr/bin/dragoman\",\n            \"args\": [\"stdio\", \"C:\\\\x \\\"y\\\"\"]\n        }\n    }\n}\n"},
		{"trailing comma", cursor, "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}, /* , */\n  },\n}\n",
			"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}, /* , */\n    \"dragoman\": {\n      \"command\": \"/usr/bin/dragoman\",\n      \"args\": [\"stdio\", \"C:\\\\x \\\"y\\\"\"]\n    },\n  },\n}\n"},
		{"one line", cursor, `{"mcpServers": {"a": {"command": "x"}}}`, "{\"mcpServers\": {\"a\": {\"command\": \"x\"}, \"dragoman\": {\n      \"command\": \"/usr/bin/dragoman\",\n      \"args\": [\"stdio\", \"C:\\\\x \\\"y\\\"\"]\n    }}}"},
		{"lines of Windows", vscode, "\ufeff{\r\n  \"servers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n", "\ufeff{\r\n  \"servers\": {\r\n    \"a\": {},\r\n    \"dragoman\": {\r\n      \"type\": \"stdio\",\r\n      \"command\": \"/usr/bin/dragoman\",\r\n      \"args\": [\"stdio\", \"C:\\\\x \\\"y\\\"\"]\r\n    }\r\n  }\r\n}\r\n"},
		{"TOML", codex, "model = \"x\" # mine\n\n# a server\n[mcp_servers.a]\ncommand = \"x\"\n", "model = \"x\" # mine\n\n# a server\n[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.dragoman]\ncommand = \"/usr/bin/dragoman\"\nargs = [\"stdio\", \"C:\\\\x \\\"y\\\"\"]\n"},
	} {
		after, err := c.client.Add([]byte(c.before), entry)
		if err != nil || string(after) != c.now {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, after, c.now)
			continue
		}
		if again, err := c.client.Add(after, entry); err != nil || !bytes.Equal(again, after) {
			t.Errorf("%s: a second time: %v\n%q\nwant\n%q", c.name, err, again, after)
		}
		removed, err := c.client.Remove(after, "dragoman")
		if err != nil || strings.Contains(string(removed), "dragoman") {
			t.Errorf("%s: removed: %v\n%s", c.name, err, removed)
		}
		if _, err := c.client.Servers(removed); err != nil {
			t.Errorf("%s: removed: %v\n%s", c.name, err, removed)
		}
	}
}

// Servers are removed with their commas and lines, comments stay, and what Raw returned puts them back.
func TestRemove(t *testing.T) {
	for _, c := range []struct {
		name, client, before string
		names                []string
		now                  string
	}{
		{"the first", "cursor", "{\n  \"mcpServers\": {\n    // one\n    \"a\": {\"command\": \"x\"}, // first\n    \"b\": {\"command\": \"y\"}\n  }\n}\n", []string{"a"}, "{\n  \"mcpServers\": {\n    // one\n     // first\n    \"b\": {\"command\": \"y\"}\n  }\n}\n"},
		{"the last", "cursor", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}, // first\n    \"b\": {\n      \"command\": \"y\"\n    }\n  }\n}\n", []string{"b"}, "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"} // first\n  }\n}\n"},
		{"all", "cursor", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"},\n    \"b\": {\n      \"command\": \"y\"\n    }\n  },\n  \"z\": 1\n}\n", []string{"a", "b"}, "{\n  \"mcpServers\": {\n  },\n  \"z\": 1\n}\n"},
		{"twice there", "cursor", "{\"mcpServers\": {\"a\": {}, \"b\": {}, \"a\": {}}}", []string{"a"}, "{\"mcpServers\": { \"b\": {} }}"},
		{"comment before the comma", "cursor", "{\"mcpServers\": {\"a\": {} /* x */, \"b\": {}}}", []string{"a"}, "{\"mcpServers\": { /* x */ \"b\": {}}}"},
		{"none", "cursor", "{\"mcpServers\": {\"a\": {}}}", []string{"c"}, "{\"mcpServers\": {\"a\": {}}}"},
		{"TOML", "codex", "x = 1\n[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a.env]\nA = \"1\"\n# of b\n[mcp_servers.b]\ncommand = \"y\"\n[other]\nz = 1\n", []string{"a"}, "x = 1\n# of b\n[mcp_servers.b]\ncommand = \"y\"\n[other]\nz = 1\n"},
		{"TOML, all", "codex", "[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.b]\ncommand = \"y\"\n", []string{"a", "b"}, ""},
	} {
		client := Find(c.client)
		after, err := client.Remove([]byte(c.before), c.names...)
		if err != nil || string(after) != c.now {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, after, c.now)
			continue
		}
		back := after
		for _, name := range c.names {
			if raw, ok := client.Raw([]byte(c.before), name); ok {
				if back, err = client.Put(back, name, raw); err != nil {
					t.Errorf("%s: back: %v", c.name, err)
				}
			}
		}
		if err := client.same([]byte(c.before), back); err != nil && c.name != "twice there" {
			t.Errorf("%s: back: %v\n%s", c.name, err, back)
		}
	}
}

// What cannot be changed is refused, with the reason.
func TestRefusedEdits(t *testing.T) {
	entry := Entry{Name: "dragoman", Command: []string{"x"}}
	for _, c := range []struct{ client, before, want string }{
		{"cursor", "[]", "not a JSON object"},
		{"cursor", `{"mcpServers": []}`, "not an object of servers"},
		{"cursor", `{"mcpServers": {`, "is not JSON"},
		{"cursor", strings.Repeat("[", 1000), "deep"},
		{"codex", "a = ", "is not TOML"},
		{"codex", "mcp_servers = { dragoman = { command = \"y\" } }", "inline"},
	} {
		after, err := Find(c.client).Add([]byte(c.before), entry)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\n%s", c.before, err, after)
		}
	}
	if _, err := Find("codex").Remove([]byte("[mcp_servers]\na = { command = \"y\" }\n"), "a"); err == nil || !strings.Contains(err.Error(), "table of its own") {
		t.Errorf("inline: %v", err)
	}
}

// Whatever a file contains, an edit leaves all other values as they are, or is refused.
func FuzzEdit(f *testing.F) {
	f.Add([]byte("{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}, // first\n  }\n}\n"), "a", false)
	f.Add([]byte("\ufeff{\"mcpServers\": {\"a\": {} /* x */, \"b\": {}}}"), "b", false)
	f.Add([]byte("x = 1\n# a\n[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a.env]\nA = \"1\"\n"), "a", true)
	f.Fuzz(func(t *testing.T, data []byte, name string, toml bool) {
		client := Find(map[bool]string{true: "codex", false: "cursor"}[toml])
		added, err := client.Add(data, Entry{Name: "dragoman", Command: []string{"d", "stdio"}})
		if err != nil {
			return
		}
		names, err := client.Servers(added)
		if err != nil || !strings.Contains(strings.Join(names, "\x00"), "dragoman") {
			t.Fatalf("%v: %q", err, added)
		}
		if again, err := client.Add(added, Entry{Name: "dragoman", Command: []string{"d", "stdio"}}); err != nil || !bytes.Equal(again, added) {
			t.Fatalf("a second time: %v: %q, want %q", err, again, added)
		}
		if removed, err := client.Remove(added, "dragoman", name); err == nil {
			if names, err := client.Servers(removed); err != nil || strings.Contains(strings.Join(names, "\x00"), "dragoman") {
				t.Fatalf("removed: %v: %q", err, removed)
			}
		}
	})
}

// What is shown of a file has no value of a header, a variable, or of a text that is a secret by its name or form, in any notation.
func TestMasked(t *testing.T) {
	text := "{\n  // mine\n  \"primaryApiKey\": \"hunter0\",\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\", \"args\": [\"--api-key\", \"hunter1\", \"--root\", \"/srv\", \"https://me:hunter2@x.example/?api_key=hunter3\"],\n" +
		"      \"env\": {\"U\": \"\\u0068unter4\", \"S\": \"abc\", \"E\": \"\"},\n      \"headers\": {\"X\": \"hunter5\"}\n    }\n  }\n}\n"
	got := string(Find("cursor").Masked([]byte(text)))
	if strings.Contains(got, "unter") || strings.Contains(got, "abc") || strings.Count(got, "(hidden)") != 6 {
		t.Errorf("%s", got)
	}
	for _, want := range []string{"// mine", `"theme": "dark"`, `"--api-key", "(hidden)", "--root", "/srv"`, `"E": ""`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if same := Find("cursor").Masked([]byte("{")); string(same) != "{" {
		t.Errorf("%q", same)
	}
}
