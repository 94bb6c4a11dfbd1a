package config

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/goccy/go-json"
)

// jsonFile flattens a JSON document token by token: the decoder tells the
// place of each, and sees duplicate keys that decoding would swallow.
type jsonFile struct {
	dec     *json.Decoder
	lines   lines
	entries []entry
}

// parseJSON reads strict JSON whose root is an object.
func parseJSON(data []byte) ([]entry, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil // as an empty TOML or YAML file
	}
	f := &jsonFile{dec: json.NewDecoder(bytes.NewReader(data)), lines: lines{data: data}}
	f.dec.UseNumber()
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	if token != json.Delim('{') {
		return nil, &fileError{line: 1, what: "is not a JSON object", fix: `write {"KEY": VALUE}`}
	}
	if err := f.object(nil, 1); err != nil {
		return nil, err
	}
	if _, err := f.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &fileError{line: f.line(), what: "is not JSON: something follows the object", fix: "remove it"}
	}
	return f.entries, nil
}

func (f *jsonFile) line() int { return f.lines.of(int(f.dec.InputOffset())) }

func (f *jsonFile) token() (json.Token, error) {
	token, err := f.dec.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &fileError{line: lineAt(f.lines.data, len(f.lines.data)), what: "is not JSON: it ends too early", fix: "close what is open"}
	case err != nil:
		line := f.line()
		var se *json.SyntaxError
		if errors.As(err, &se) && int(se.Offset) > f.lines.at {
			line = lineAt(f.lines.data, int(se.Offset))
		}
		return nil, &fileError{line: line, what: "is not JSON: " + err.Error(), fix: "correct the line"}
	}
	return token, nil
}

// object reads up to the closing brace; the opening one has been read.
func (f *jsonFile) object(table []string, depth int) error {
	if depth > maxNesting {
		return tooDeep(f.line())
	}
	for {
		token, err := f.token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return nil // the decoder lets nothing but a key or the brace through
		}
		path := normalize(append(slices.Clone(table), key))
		if err := f.member(path, f.line(), depth); err != nil {
			return err
		}
	}
}

func (f *jsonFile) member(path []string, line, depth int) error {
	token, err := f.token()
	if err != nil {
		return err
	}
	if token == json.Delim('{') {
		f.entries = append(f.entries, entry{path: path, value: Literal{Kind: tableLiteral}, line: line})
		return f.object(path, depth+1)
	}
	value, err := f.value(token, depth)
	if err == nil {
		f.entries = append(f.entries, entry{path: path, value: value, line: line})
	}
	return err
}

// value is a literal whose first token has been read. Objects in lists are
// read over: no key takes one.
func (f *jsonFile) value(token json.Token, depth int) (Literal, error) {
	switch t := token.(type) {
	case string:
		return Literal{Kind: QuotedLiteral, Text: t}, nil
	case bool:
		if t {
			return Literal{Kind: booleanLiteral, Text: "true"}, nil
		}
		return Literal{Kind: booleanLiteral, Text: "false"}, nil
	case json.Number:
		if bytes.ContainsAny([]byte(t), ".eE") {
			return Literal{Kind: floatLiteral, Text: t.String()}, nil
		}
		return Literal{Kind: integerLiteral, Text: t.String()}, nil
	case json.Delim:
		if t == '[' {
			return f.list(depth + 1)
		}
		inner := &jsonFile{dec: f.dec, lines: f.lines}
		return Literal{Kind: tableLiteral}, inner.object(nil, depth+1)
	default:
		return Literal{Kind: nullLiteral}, nil
	}
}

func (f *jsonFile) list(depth int) (Literal, error) {
	list := Literal{Kind: listLiteral}
	if depth > maxNesting {
		return list, tooDeep(f.line())
	}
	for {
		token, err := f.token()
		if err != nil || token == json.Delim(']') {
			return list, err
		}
		item, err := f.value(token, depth)
		if err != nil {
			return list, err
		}
		list.items = append(list.items, item)
	}
}
