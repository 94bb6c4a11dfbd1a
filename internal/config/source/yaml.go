package source

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"dragoman/internal/config/value"
)

// yamlFile flattens a YAML document by its syntax tree.
type yamlFile struct {
	chosen  func(table []string) bool // see normalise
	json    bool                      // the document is known to be JSON
	entries []Entry
}

// ParseYAML reads one YAML 1.2 document whose root is a mapping. Anchors, aliases, merge keys and tags are refused: a
// value must stand where its key does, so that an error can name the line, and no file can expand into a larger one.
func ParseYAML(data []byte, chosen func(table []string) bool) (entries []Entry, err error) {
	return (&yamlFile{chosen: chosen}).parse(data)
}

func (f *yamlFile) parse(data []byte) (entries []Entry, err error) {
	// The parser dereferences nil on some malformed input. A bad file must be an error, not the end of the process.
	defer func() {
		if recover() != nil {
			entries, err = nil, failed(0, "is not YAML", "check brackets and indentation")
		}
	}()
	if line := yamlDepth(data); line > 0 {
		return nil, tooDeep(line)
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, yamlSyntax(err)
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d == nil || d.Body == nil || d.Body.Type() == ast.CommentType })
	if len(docs) == 0 {
		return nil, nil
	}
	if len(docs) > 1 {
		return nil, failed(yamlLine(docs[1].Body), "holds more than one document", "keep one")
	}
	root, ok := docs[0].Body.(ast.MapNode)
	if !ok {
		if docs[0].Body.Type() == ast.NullType {
			return nil, nil
		}
		return nil, failed(yamlLine(docs[0].Body), "is not a YAML mapping", "write KEY: VALUE")
	}
	if err := f.mapping(root, nil, 1); err != nil {
		return nil, err
	}
	return f.entries, nil
}

// yamlDepth protects the parser, whose time grows with the square of the depth. It returns the first line on which more
// brackets are open, or more sequence dashes follow each other, than any configuration needs, or 0. It knows nothing of
// strings, so its bound is generous.
func yamlDepth(data []byte) int {
	const most = 16 * maxNesting
	open := 0
	for number, line := range bytes.Split(data, []byte("\n")) {
		open += bytes.Count(line, []byte("[")) + bytes.Count(line, []byte("{"))
		if open > most || bytes.Count(line, []byte("- ")) > most || bytes.Count(line, []byte("? ")) > most {
			return number + 1
		}
		open = max(0, open-bytes.Count(line, []byte("]"))-bytes.Count(line, []byte("}")))
	}
	return 0
}

// yamlSyntax keeps the parser's message and line, and drops its excerpt, which may hold secrets.
func yamlSyntax(err error) error {
	var ye yaml.Error
	if !errors.As(err, &ye) {
		return failed(0, "is not YAML", "check brackets and indentation")
	}
	line := 0
	if t := ye.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	return failed(line, "is not YAML: "+ye.GetMessage(), "correct the line, or the one above it")
}

func yamlLine(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0
	}
	return n.GetToken().Position.Line
}

func (f *yamlFile) mapping(node ast.MapNode, table []string, depth int) error {
	for it := node.MapRange(); it.Next(); {
		key, line := it.Key(), yamlLine(it.Key())
		if depth > maxNesting {
			return tooDeep(line)
		}
		name, err := yamlKey(key)
		if err != nil {
			return err
		}
		path := normalise(append(slices.Clone(table), name), f.chosen)
		value, err := f.literal(it.Value(), depth)
		if err != nil {
			return err
		}
		f.entries = append(f.entries, Entry{Path: path, Value: value, Line: line})
		if below, ok := it.Value().(ast.MapNode); ok {
			if err := f.mapping(below, path, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func yamlKey(key ast.MapKeyNode) (string, error) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return key.GetToken().Value, nil
	case *ast.MergeKeyNode:
		return "", failed(yamlLine(key), "uses a merge key (<<), which is not supported", "write the keys out")
	default:
		return "", failed(yamlLine(key), fmt.Sprintf("has a %s for a key, which is not supported", key.Type()), "write a plain key")
	}
}

func (f *yamlFile) literal(node ast.Node, depth int) (value.Literal, error) {
	switch n := node.(type) {
	case *ast.StringNode:
		if f.json && n.Token.Type != token.DoubleQuoteType { // 1e5, which is text in YAML 1.2
			return value.Literal{Kind: value.FloatLiteral, Text: n.Value}, nil
		}
		return value.Literal{Kind: value.QuotedLiteral, Text: n.Value}, nil
	case *ast.LiteralNode:
		return value.Literal{Kind: value.QuotedLiteral, Text: n.Value.Value}, nil
	case *ast.IntegerNode:
		return value.Literal{Kind: value.IntegerLiteral, Text: n.Token.Value}, nil
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return value.Literal{Kind: value.FloatLiteral, Text: n.GetToken().Value}, nil
	case *ast.BoolNode:
		if n.Value {
			return value.Literal{Kind: value.BooleanLiteral, Text: "true"}, nil
		}
		return value.Literal{Kind: value.BooleanLiteral, Text: "false"}, nil
	case *ast.NullNode, nil:
		return value.Literal{Kind: value.NullLiteral}, nil
	case ast.MapNode:
		return value.Literal{Kind: value.TableLiteral}, nil
	case *ast.SequenceNode:
		return f.list(n, depth+1)
	}
	return value.Literal{}, failed(yamlLine(node), fmt.Sprintf("uses a YAML %s, which is not supported", node.Type()), "write the value itself")
}

func (f *yamlFile) list(node *ast.SequenceNode, depth int) (value.Literal, error) {
	list := value.Literal{Kind: value.ListLiteral}
	if depth > maxNesting {
		return list, tooDeep(yamlLine(node))
	}
	for _, item := range node.Values {
		v, err := f.literal(item, depth)
		if err != nil {
			return list, err
		}
		list.Items = append(list.Items, v)
	}
	return list, nil
}
