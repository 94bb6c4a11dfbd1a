package schema

import (
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// Every method of services that others wrote becomes a tool that a client can list, or is refused because the client streams.
func TestRealServices(t *testing.T) {
	l := link(t, setOf(real...))
	names := Names(l.methods)
	seen, listed, refused := map[string]bool{}, 0, 0
	for i, method := range l.methods {
		if seen[names[i]] || !toolName.MatchString(names[i]) {
			t.Errorf("%s has the name %q", method.FullName(), names[i])
		}
		seen[names[i]] = true
		tool, err := NewTool(method, names[i], l.types)
		if err != nil {
			if refused++; !method.IsStreamingClient() || !strings.Contains(err.Error(), "fix: exclude the method") {
				t.Errorf("%s: %v", method.FullName(), err)
			}
			continue
		}
		listed++
		checkDefinition(t, tool)
	}
	t.Logf("%d methods listed, %d refused", listed, refused)
	if listed < 100 || refused < 5 {
		t.Errorf("%d methods listed, %d refused: descriptors are missing", listed, refused)
	}
}

// checkDefinition compiles both schemas, and demands what MCP and clients do.
func checkDefinition(t *testing.T, tool *Tool) {
	t.Helper()
	d := definitionOf(t, tool)
	if d.Name != tool.Name || d.Title == "" || d.Description == "" {
		t.Errorf("%s: name %q, title %q, description %q", tool.Name, d.Name, d.Title, d.Description)
	}
	for which, schema := range map[string][]byte{"inputSchema": d.InputSchema, "outputSchema": d.OutputSchema} {
		notes, err := checker.Notes(schema)
		if err != nil || len(notes) > 0 {
			t.Errorf("%s: %s of %d bytes: %v %q", tool.Name, which, len(schema), err, notes)
		}
		top := rawObject(t, schema)
		if string(top["type"]) != `"object"` {
			t.Errorf("%s: %s is of type %s", tool.Name, which, top["type"])
		}
		for _, keyword := range []string{"oneOf", "anyOf", "allOf", "not"} {
			if which == "inputSchema" && top[keyword] != nil {
				t.Errorf("%s: %s has %s at its root", tool.Name, which, keyword)
			}
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 90)
	l := link(t, setFile("a.proto", "a", service("S", "M", "N"), service("T"+long, "M"+long)))
	other := link(t, setFile("b.proto", "b.c", service("S", "M")))
	all := append(append([]protoreflect.MethodDescriptor{}, l.methods...), other.methods...)
	got := Names(all)
	want := []string{"a.S.M", "S.N", "", "b.c.S.M"}
	for i, name := range want {
		if name != "" && got[i] != name {
			t.Errorf("%s is called %q, want %q", all[i].FullName(), got[i], name)
		}
	}
	if long := got[2]; len(long) != maxName || !toolName.MatchString(long) {
		t.Errorf("a long name became %q", long)
	}
}
