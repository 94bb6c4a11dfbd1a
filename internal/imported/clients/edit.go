package clients

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"dragoman/internal/config/value"
)

// Entry is a server as setup writes it into a client's file: a command with its arguments.
type Entry struct {
	Name    string
	Command []string
}

// Add returns the content of a file with an entry: in place of one of its name, else behind the others. Everything else keeps its bytes. nil is a
// file that does not exist. The error says why the file cannot be changed.
func (c *Client) Add(data []byte, e Entry) ([]byte, error) {
	return c.put(data, e.Name, c.render(e), true)
}

// Raw returns the text of a server in a file, for Put; false if there is none.
func (c *Client) Raw(data []byte, name string) (raw []byte, ok bool) {
	if c.toml() {
		return tomlRaw(data, append(slices.Clone(c.key), name))
	}
	doc, err := openJSON(data)
	if err != nil {
		return nil, false
	}
	obj := doc.object(c.key)
	if obj == nil {
		return nil, false
	}
	m := memberOf(obj, name)
	if m == nil {
		return nil, false
	}
	return doc.data[m.Value.StartOffset:m.Value.EndOffset], true
}

// Put is Add with the text of a server as Raw returned it.
func (c *Client) Put(data []byte, name string, raw []byte) (after []byte, err error) {
	return c.put(data, name, raw, false)
}

func (c *Client) put(data []byte, name string, raw []byte, indent bool) (after []byte, err error) {
	if c.toml() {
		after, err = tomlPut(data, append(slices.Clone(c.key), name), raw)
	} else {
		after, err = jsonPut(data, c.key, name, raw, indent)
	}
	if err == nil {
		err = c.same(data, after, name)
	}
	return after, err
}

// Remove returns the content of a file without servers. Names that are not in it are ignored.
func (c *Client) Remove(data []byte, names ...string) (after []byte, err error) {
	after = data
	for _, name := range names {
		if c.toml() {
			after, err = tomlRemove(after, append(slices.Clone(c.key), name))
		} else {
			after, err = jsonRemove(after, c.key, name)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := c.same(data, after, names...); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, still := c.Raw(after, name); still {
			return nil, fmt.Errorf("the server %s is not written as a table of its own; fix: write it so, or remove it by hand", shown(name))
		}
	}
	return after, nil
}

// Servers returns the names of the servers in a file, in its order.
func (c *Client) Servers(data []byte) (names []string, err error) {
	root, err := c.parse(data)
	if err != nil {
		return nil, err
	}
	if all := root.at(c.key...); all != nil {
		for _, m := range all.members {
			if !slices.Contains(names, m.name) {
				names = append(names, m.name)
			}
		}
	}
	return names, nil
}

func (c *Client) toml() bool { return c.ID == "codex" }

func (c *Client) parse(data []byte) (*node, error) {
	if c.toml() {
		return parseTOML(data)
	}
	return parseJSON(data)
}

// render returns an entry as a client has it: indented by one unit, which jsonPut replaces by that of the file.
func (c *Client) render(e Entry) []byte {
	args := make([]string, 0, len(e.Command))
	for _, arg := range e.Command[1:] {
		args = append(args, value.Quote(arg))
	}
	list := "[" + strings.Join(args, ", ") + "]"
	if c.toml() {
		return []byte("command = " + value.Quote(e.Command[0]) + "\nargs = " + list + "\n")
	}
	typed := ""
	if c.typed {
		typed = "\n\t\"type\": \"stdio\","
	}
	return []byte("{" + typed + "\n\t\"command\": " + value.Quote(e.Command[0]) + ",\n\t\"args\": " + list + "\n}")
}

// same returns an error unless two contents differ in the named servers only. It guards a user's file against faults of the editor.
func (c *Client) same(before, after []byte, names ...string) error {
	a, err := c.parse(before)
	if err != nil {
		return err
	}
	b, err := c.parse(after)
	if err != nil {
		return fmt.Errorf("the changed file would be unreadable (%w); fix: change it by hand, and report this", err)
	}
	for _, root := range []*node{a, b} {
		if all := root.at(c.key...); all != nil && all.kind == '{' {
			all.members = slices.DeleteFunc(all.members, func(m member) bool { return slices.Contains(names, m.name) })
		}
		prune(root, c.key)
		unline(root)
	}
	if !reflect.DeepEqual(a, b) {
		return errors.New("changing it would change something else in it; fix: change it by hand, and report this")
	}
	return nil
}

// prune removes empty objects along a path.
func prune(n *node, path []string) {
	if n == nil || len(path) == 0 || n.kind != '{' {
		return
	}
	prune(n.at(path[0]), path[1:])
	n.members = slices.DeleteFunc(n.members, func(m member) bool {
		return m.name == path[0] && m.value.kind == '{' && len(m.value.members) == 0
	})
}

// unline removes positions, and orders the members of tables.
func unline(n *node) {
	n.line = 0
	for i := range n.members {
		n.members[i].line = 0
		unline(&n.members[i].value)
	}
	for i := range n.items {
		unline(&n.items[i])
	}
	if len(n.members) == 0 {
		n.members = nil
	}
	slices.SortStableFunc(n.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
}

// newline returns how the lines of a file end.
func newline(data []byte) string {
	if at := bytes.IndexByte(data, '\n'); at > 0 && data[at-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
