package clients

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"dragoman/internal/config/value"
)

// Bounds of a file of a client. Claude Code keeps its history in the same file.
const (
	maxFile  = 32 << 20
	maxDepth = 200
)

// node is a value of a file, of JSON or TOML.
type node struct {
	kind    byte // '{', '[', '"', '0', 't' for both truths, 'n' for null
	text    string
	members []member // of '{'
	items   []node   // of '['
	line    int
}

type member struct {
	name  string
	value node
	line  int
}

// at returns the value below a path of names. The last of several members of a name counts, as in the clients' parsers.
func (n *node) at(path ...string) *node {
	for _, name := range path {
		if n == nil || n.kind != '{' {
			return nil
		}
		var next *node
		for i := range n.members {
			if n.members[i].name == name {
				next = &n.members[i].value
			}
		}
		n = next
	}
	return n
}

// what says of what kind a value is, for messages.
func (n *node) what() string {
	switch n.kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "text"
	case '0':
		return "a number"
	case 't':
		return "true or false"
	}
	return "null"
}

// scalar returns a text, a number or a truth as text.
func (n *node) scalar() (string, bool) {
	return n.text, n.kind == '"' || n.kind == '0' || n.kind == 't'
}

var errDeep = fmt.Errorf("is nested more than %d deep", maxDepth)

// parseJSON parses JSON with comments and trailing commas. An empty file is an empty object, as clients have it.
func parseJSON(data []byte) (*node, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxFile)
	}
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	if deep(text) {
		return nil, errDeep
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return &node{kind: '{', line: 1}, nil
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, errors.New("is not JSON: " + strings.TrimPrefix(err.Error(), "hujson: "))
	}
	lines := counter{data: text, line: 1}
	made := jsonNode(&root, &lines)
	return &made, nil
}

// deep reports whether JSON nests deeper than maxDepth: the parser has no bound of its own.
func deep(data []byte) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i += comment(data[i:])
		}
	}
	return false
}

// comment returns the length of a comment at the beginning of data, less one; 0 if there is none.
func comment(data []byte) int {
	var end int
	switch {
	case bytes.HasPrefix(data, []byte("//")):
		end = bytes.IndexByte(data, '\n')
	case bytes.HasPrefix(data, []byte("/*")):
		if end = bytes.Index(data[2:], []byte("*/")); end >= 0 {
			end += 3
		}
	default:
		return 0
	}
	if end < 0 {
		return len(data) - 1
	}
	return end
}

// counter counts lines up to places that only grow.
type counter struct {
	data     []byte
	at, line int
}

func (c *counter) lineAt(offset int) int {
	if offset > c.at {
		c.line += bytes.Count(c.data[c.at:offset], []byte("\n"))
		c.at = offset
	}
	return c.line
}

func jsonNode(v *hujson.Value, lines *counter) node {
	n := node{line: lines.lineAt(v.StartOffset)}
	switch in := v.Value.(type) {
	case *hujson.Object:
		n.kind = '{'
		for i := range in.Members {
			m := &in.Members[i]
			name, _ := m.Name.Value.(hujson.Literal)
			line := lines.lineAt(m.Name.StartOffset)
			n.members = append(n.members, member{name.String(), jsonNode(&m.Value, lines), line})
		}
	case *hujson.Array:
		n.kind = '['
		for i := range in.Elements {
			n.items = append(n.items, jsonNode(&in.Elements[i], lines))
		}
	case hujson.Literal:
		switch n.kind = byte(in.Kind()); n.kind {
		case '"':
			n.text = in.String()
		case 'f':
			n.kind, n.text = 't', "false"
		default:
			n.text = string(in)
		}
	}
	return n
}

// shown returns a name from a file for messages.
func shown(name string) string { return strconv.Quote(value.Shorten(name)) }
