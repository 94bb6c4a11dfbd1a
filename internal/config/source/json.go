package source

import (
	"bytes"
	"errors"
	"io"

	"github.com/goccy/go-json"

	"dragoman/internal/config/value"
)

// ParseJSON reads strict JSON whose root is an object. Since JSON is YAML as well, the YAML parser flattens it.
func ParseJSON(data []byte, chosen func(table []string) bool) ([]Entry, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil // as an empty TOML or YAML file
	}
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	return (&yamlFile{chosen: chosen, json: true}).parse(data)
}

// checkJSON reports the first place at which data is not JSON, or not an object.
func checkJSON(data []byte) error {
	dec, at := json.NewDecoder(bytes.NewReader(data)), lines{data: data}
	line := func() int { return at.of(int(dec.InputOffset())) }
	depth := 0
	for first := true; ; first = false {
		token, err := dec.Token()
		switch {
		case errors.Is(err, io.EOF) && depth == 0 && !first:
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return failed(value.LineAt(data, len(data)), "is not JSON: it ends too early", "close what is open")
		case depth == 0 && !first:
			return failed(line(), "is not JSON: something follows the object", "remove it")
		case err != nil:
			n := line()
			var se *json.SyntaxError
			if errors.As(err, &se) && int(se.Offset) > at.at {
				n = value.LineAt(data, int(se.Offset))
			}
			return failed(n, "is not JSON: "+err.Error(), "correct the line")
		case first && token != json.Delim('{'):
			return failed(1, "is not a JSON object", `write {"KEY": VALUE}`)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxNesting {
				return tooDeep(line())
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}
