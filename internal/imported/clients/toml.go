package clients

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"dragoman/internal/config/value"
)

// parseTOML parses TOML.
func parseTOML(data []byte) (*node, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxFile)
	}
	var root map[string]any
	if err := toml.Unmarshal(data, &root); err != nil {
		var de *toml.DecodeError
		if errors.As(err, &de) {
			line, _ := de.Position()
			return nil, fmt.Errorf("is not TOML: line %d: %s", line, strings.TrimPrefix(de.Error(), "toml: "))
		}
		return nil, errors.New("is not TOML: " + err.Error())
	}
	tables, err := tomlTables(data)
	if err != nil {
		return nil, err
	}
	made := tomlNode(root, nil, tables)
	return &made, nil
}

func tomlNode(in any, path []string, tables []tomlTable) node {
	switch in := in.(type) {
	case map[string]any:
		n := node{kind: '{'}
		for _, name := range slices.Sorted(maps.Keys(in)) {
			below := append(slices.Clone(path), name)
			n.members = append(n.members, member{name, tomlNode(in[name], below, tables), lineOf(tables, below)})
		}
		slices.SortStableFunc(n.members, func(a, b member) int { return a.line - b.line })
		return n
	case []any:
		n := node{kind: '['}
		for _, item := range in {
			n.items = append(n.items, tomlNode(item, path, nil))
		}
		return n
	case string:
		return node{kind: '"', text: in}
	case bool:
		return node{kind: 't', text: strconv.FormatBool(in)}
	case int64:
		return node{kind: '0', text: strconv.FormatInt(in, 10)}
	case float64:
		return node{kind: '0', text: strconv.FormatFloat(in, 'g', -1, 64)}
	}
	return node{kind: '"', text: fmt.Sprint(in)} // a date
}

// tomlTable is a table of a TOML document, with where its header, or its first key if it has none, stands.
type tomlTable struct {
	path       []string
	line       int
	begin, end int  // of its text, from the line of its header to that of the next one; comments before a header belong to it
	header     bool // it has a header [PATH]
}

// tomlTables returns the tables of a document, in its order. A key outside of the tables is a table without a header.
func tomlTables(data []byte) (tables []tomlTable, err error) {
	var p unstable.Parser
	p.Reset(data)
	headed := false
	for p.NextExpression() {
		n := p.Expression()
		if n.Kind != unstable.Table && n.Kind != unstable.ArrayTable && (n.Kind != unstable.KeyValue || headed) {
			continue
		}
		var t tomlTable
		for key := n.Key(); key.Next(); {
			one := key.Node()
			if len(t.path) == 0 {
				at := int(one.Raw.Offset)
				t.begin, t.line = lineStart(data, at), value.LineAt(data, at)
			}
			t.path = append(t.path, string(one.Data))
		}
		t.header = n.Kind != unstable.KeyValue
		headed = headed || t.header
		tables = append(tables, t)
	}
	if err := p.Error(); err != nil {
		return nil, errors.New("is not TOML: " + err.Error())
	}
	for i := range tables {
		if tables[i].header {
			tables[i].begin = withComments(data, tables[i].begin)
		}
		if tables[i].end = len(data); i > 0 {
			tables[i-1].end = tables[i].begin
		}
	}
	return tables, nil
}

func lineStart(data []byte, at int) int {
	return bytes.LastIndexByte(data[:at], '\n') + 1
}

// withComments returns the beginning of the lines of comments directly before a line that begins at a place.
func withComments(data []byte, at int) int {
	for at > 0 {
		before := lineStart(data, at-1)
		if !strings.HasPrefix(strings.TrimSpace(string(data[before:at])), "#") {
			return at
		}
		at = before
	}
	return at
}

// lineOf returns the line of the first table at or below a path; 0: none.
func lineOf(tables []tomlTable, path []string) int {
	for _, t := range tables {
		if len(t.path) >= len(path) && slices.Equal(t.path[:len(path)], path) {
			return t.line
		}
	}
	return 0
}
