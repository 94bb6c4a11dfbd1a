package skills

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"dragoman/proxy/wire"
)

// yamlToJSON returns the mapping that a YAML document is, as JSON.
func yamlToJSON(text []byte) (raw []byte, err error) {
	// The parser dereferences nil on some malformed input.
	defer func() {
		if recover() != nil {
			raw, err = nil, fmt.Errorf("%w: it is not YAML", errFrontmatter)
		}
	}()
	if len(text) > maxFrontmatter || !utf8.Valid(text) || tooDeep(text) {
		return nil, fmt.Errorf("%w: it is nested too deeply, is too large, or is not UTF-8", errFrontmatter)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not YAML", errFrontmatter) // the parser's words quote the document
	}
	if len(file.Docs) != 1 || file.Docs[0] == nil {
		return nil, fmt.Errorf("%w: it is not one YAML document", errFrontmatter)
	}
	root, ok := file.Docs[0].Body.(ast.MapNode)
	if !ok {
		return nil, fmt.Errorf("%w: it is not a YAML mapping", errFrontmatter)
	}
	return appendMapping(nil, root, 1)
}

// tooDeep protects the parser, whose time grows with the square of the depth.
func tooDeep(text []byte) bool {
	open := 0
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		open += bytes.Count(line, []byte("[")) + bytes.Count(line, []byte("{"))
		if open > 16*maxNesting || bytes.Count(line, []byte("- ")) > 16*maxNesting || bytes.Count(line, []byte("? ")) > 16*maxNesting {
			return true
		}
		open = max(0, open-bytes.Count(line, []byte("]"))-bytes.Count(line, []byte("}")))
	}
	return false
}

func appendMapping(dst []byte, node ast.MapNode, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%w: it is nested deeper than %d", errFrontmatter, maxNesting)
	}
	dst, first := append(dst, '{'), true
	for it := node.MapRange(); it.Next(); first = false {
		var key string
		switch k := it.Key().(type) {
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			key = it.Key().GetToken().Value
		default:
			return nil, fmt.Errorf("%w: a key is a YAML %s", errFrontmatter, k.Type())
		}
		if !first {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendText(dst, key), ':')
		var err error
		if dst, err = appendNode(dst, it.Value(), depth); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendNode(dst []byte, node ast.Node, depth int) ([]byte, error) {
	switch n := node.(type) {
	case *ast.StringNode:
		return wire.AppendText(dst, n.Value), nil
	case *ast.LiteralNode:
		return wire.AppendText(dst, n.Value.Value), nil
	case *ast.BoolNode:
		return strconv.AppendBool(dst, n.Value), nil
	case *ast.NullNode, nil:
		return append(dst, "null"...), nil
	case *ast.IntegerNode:
		switch v := n.Value.(type) {
		case int64:
			return strconv.AppendInt(dst, v, 10), nil
		case uint64:
			return strconv.AppendUint(dst, v, 10), nil
		}
		return wire.AppendText(dst, n.Token.Value), nil
	case *ast.InfinityNode, *ast.NanNode:
		return wire.AppendText(dst, n.GetToken().Value), nil
	case *ast.FloatNode:
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			return wire.AppendText(dst, n.Token.Value), nil
		}
		return strconv.AppendFloat(dst, n.Value, 'g', -1, 64), nil
	case ast.MapNode:
		return appendMapping(dst, n, depth+1)
	case *ast.SequenceNode:
		return appendSequence(dst, n, depth+1)
	}
	return nil, fmt.Errorf("%w: it uses a YAML %s, which is not read; fix: write the value itself", errFrontmatter, node.Type())
}

func appendSequence(dst []byte, node *ast.SequenceNode, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%w: it is nested deeper than %d", errFrontmatter, maxNesting)
	}
	dst = append(dst, '[')
	for i, item := range node.Values {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendNode(dst, item, depth); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}
