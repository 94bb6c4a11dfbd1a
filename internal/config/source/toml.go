package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"dragoman/internal/config/value"
)

// tomlFile flattens a TOML document by its syntax tree, which has the positions.
type tomlFile struct {
	parser  unstable.Parser
	chosen  func(table []string) bool // see normalise
	lines   lines
	entries []Entry
	table   []string        // of the last header
	skip    bool            // inside [[…]], which no key is
	arrays  map[string]bool // [[…]] already reported
}

// ParseTOML reads TOML 1.0. What the syntax tree accepts but TOML forbids, such as a bad date, is found by decoding the
// document. That comes last, so that duplicates are reported as such.
func ParseTOML(data []byte, chosen func(table []string) bool) ([]Entry, error) {
	f := &tomlFile{chosen: chosen, lines: lines{data: data}, arrays: map[string]bool{}}
	f.parser.Reset(data)
	for f.parser.NextExpression() {
		if err := f.expression(f.parser.Expression()); err != nil {
			return nil, err
		}
	}
	if err := f.parser.Error(); err != nil {
		return nil, tomlSyntax(&f.parser, data, err)
	}
	if _, twice := Duplicates(slices.Clone(f.entries), ""); len(twice) == 0 {
		if err := decodable(data); err != nil {
			return nil, err
		}
	}
	return f.entries, nil
}

func tomlSyntax(p *unstable.Parser, data []byte, err error) error {
	var pe *unstable.ParserError
	if errors.As(err, &pe) {
		line := value.LineAt(data, len(data))
		if len(pe.Highlight) > 0 {
			line = value.LineAt(data, int(p.Range(pe.Highlight).Offset))
		}
		return failed(line, "is not TOML: "+pe.Message, "correct the line")
	}
	return failed(0, "is not TOML: "+err.Error(), "")
}

func decodable(data []byte) error {
	var discard map[string]any // only the error matters
	err := toml.Unmarshal(data, &discard)
	var de *toml.DecodeError
	if errors.As(err, &de) {
		line, _ := de.Position()
		return failed(line, "is not TOML: "+strings.TrimPrefix(de.Error(), "toml: "), "correct the line")
	}
	if err != nil {
		return failed(0, "is not TOML: "+err.Error(), "")
	}
	return nil
}

func (f *tomlFile) expression(n *unstable.Node) error {
	switch n.Kind {
	case unstable.Table:
		path, line := f.key(n.Key(), nil)
		f.table, f.skip = path, false
		f.add(path, value.Literal{Kind: value.TableLiteral}, line)
	case unstable.ArrayTable:
		path, line := f.key(n.Key(), nil)
		f.skip = true
		if id := value.KeyText(path); !f.arrays[id] {
			f.arrays[id] = true
			f.add(path, value.Literal{Kind: value.ListLiteral}, line)
		}
	case unstable.KeyValue:
		if f.skip {
			return nil
		}
		return f.keyValue(n, f.table, 1)
	}
	return nil
}

func (f *tomlFile) add(path []string, value value.Literal, line int) {
	f.entries = append(f.entries, Entry{Path: path, Value: value, Line: line})
}

// key returns the path of a dotted key below a table, and its line.
func (f *tomlFile) key(parts unstable.Iterator, table []string) (path []string, line int) {
	path = slices.Clone(table)
	for parts.Next() {
		node := parts.Node()
		if line == 0 {
			line = f.lines.of(int(node.Raw.Offset))
		}
		path = append(path, string(node.Data))
	}
	return normalise(path, f.chosen), line
}

func (f *tomlFile) keyValue(n *unstable.Node, table []string, depth int) error {
	path, line := f.key(n.Key(), table)
	node := n.Value()
	if node.Kind != unstable.InlineTable {
		v, err := f.literal(node, line, depth)
		if err == nil {
			f.add(path, v, line)
		}
		return err
	}
	if depth > maxNesting {
		return tooDeep(line)
	}
	f.add(path, value.Literal{Kind: value.TableLiteral}, line)
	for it := node.Children(); it.Next(); {
		if err := f.keyValue(it.Node(), path, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func tooDeep(line int) error {
	return failed(line, fmt.Sprintf("is nested more than %d deep", maxNesting), "flatten it")
}

func (f *tomlFile) literal(n *unstable.Node, line, depth int) (value.Literal, error) {
	kinds := map[unstable.Kind]value.LiteralKind{
		unstable.String: value.QuotedLiteral, unstable.Bool: value.BooleanLiteral, unstable.Float: value.FloatLiteral,
		unstable.Integer: value.IntegerLiteral, unstable.InlineTable: value.TableLiteral,
	}
	if n.Kind != unstable.Array {
		kind, known := kinds[n.Kind]
		if !known {
			kind = value.DateLiteral
		}
		return value.Literal{Kind: kind, Text: string(n.Data)}, nil
	}
	if depth > maxNesting {
		return value.Literal{}, tooDeep(line)
	}
	list := value.Literal{Kind: value.ListLiteral}
	for it := n.Children(); it.Next(); {
		item, err := f.literal(it.Node(), line, depth+1)
		if err != nil {
			return list, err
		}
		list.Items = append(list.Items, item)
	}
	return list, nil
}
