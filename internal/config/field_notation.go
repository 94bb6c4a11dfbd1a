package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"
)

// notation is what may be written for a key, for people and for programs: the reference and the schema are made of it.
type notation struct {
	kind   string // the type, in a word or two
	bounds string // what of that type; "" if that is all
	shape  shape
}

// notated is a field that knows its notation. All do: TestNotations.
type notated interface{ notation() notation }

// shape is a JSON Schema, as far as the configuration needs it; draft-07, since that is what editors know.
type shape struct {
	Schema      string            `json:"$schema,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Type        jsonTypes         `json:"type,omitempty"`
	Default     json.RawMessage   `json:"default,omitempty"`
	Enum        []string          `json:"enum,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
	MinLength   int               `json:"minLength,omitempty"`
	MaxLength   int               `json:"maxLength,omitempty"`
	Minimum     *int64            `json:"minimum,omitempty"`
	Maximum     *int64            `json:"maximum,omitempty"`
	AnyOf       []shape           `json:"anyOf,omitempty"`
	Items       *shape            `json:"items,omitempty"`
	MinItems    int               `json:"minItems,omitempty"`
	MaxItems    int               `json:"maxItems,omitempty"`
	Properties  map[string]*shape `json:"properties,omitempty"`
	Names       *shape            `json:"propertyNames,omitempty"`
	Others      *others           `json:"additionalProperties,omitempty"`
}

// others are the keys of a table that have no name of ours.
type others struct {
	of  *shape // nil: anything goes, or nothing
	any bool
}

// MarshalJSON writes a schema, or the one that all or none fit.
func (o *others) MarshalJSON() ([]byte, error) {
	if o.of == nil {
		return strconv.AppendBool(nil, o.any), nil
	}
	return json.MarshalWithOption(o.of, json.DisableHTMLEscape())
}

// jsonTypes are JSON types, of which one is enough.
type jsonTypes []string

// MarshalJSON writes a single type without a list.
func (k jsonTypes) MarshalJSON() ([]byte, error) {
	if len(k) == 1 {
		return strconv.AppendQuote(nil, k[0]), nil
	}
	return json.Marshal([]string(k))
}

// The types of JSON that values are written in.
var (
	stringType  = jsonTypes{"string"}
	integerType = jsonTypes{"integer"}
	scalarTypes = jsonTypes{"string", "integer", "number", "boolean"}
)

// between is an integer from least to most, or, if zero says something, 0.
func between(least, most int64, zero bool) shape {
	s := shape{Type: integerType, Minimum: &least, Maximum: &most}
	switch {
	case !zero || least <= 0:
		return s
	case least == 1:
		s.Minimum = new(int64)
		return s
	}
	return shape{AnyOf: []shape{s, {Type: integerType, Minimum: new(int64), Maximum: new(int64)}}}
}

// orElse is what one of two shapes takes.
func orElse(a, b shape) shape {
	if len(a.AnyOf) > 0 {
		return shape{AnyOf: append(slices.Clone(a.AnyOf), b)}
	}
	return shape{AnyOf: []shape{a, b}}
}

func (f textField) notation() notation {
	s := shape{Type: stringType, MaxLength: f.most}
	if !f.empty {
		s.MinLength = 1
	}
	bounds := f.what
	if f.pattern != nil {
		s.Pattern = f.pattern.String()
		if f.empty {
			s.Pattern += "|^$"
		}
	}
	if f.most > 0 {
		bounds += fmt.Sprintf(", at most %d bytes", f.most)
	}
	return notation{kind: "text", bounds: strings.TrimPrefix(strings.TrimPrefix(bounds, "text"), ", "), shape: s}
}

func (f enumField) notation() notation {
	words := slices.Clone(f.values)
	var more []string
	for spelling := range f.same {
		more = append(more, spelling)
	}
	slices.Sort(more)
	return notation{kind: "word", bounds: f.Allowed(), shape: shape{Type: stringType, Enum: append(words, more...)}}
}

func (f boolField) notation() notation {
	return notation{kind: "boolean", shape: shape{Type: jsonTypes{"boolean"}}}
}

func (f intField) notation() notation {
	return notation{kind: "integer", bounds: f.Allowed(), shape: between(int64(f.least), int64(f.most), f.zero != "")}
}

// durationPattern is what time.ParseDuration takes, without a sign.
const durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

func (f durationField) notation() notation {
	bounds := fmt.Sprintf("%s to %s", shortDuration(f.least), shortDuration(f.most))
	if f.zero != "" {
		bounds += ", or 0 for " + f.zero
	}
	text, none := shape{Type: stringType, Pattern: durationPattern}, shape{Type: integerType, Minimum: new(int64), Maximum: new(int64)}
	switch {
	case f.seconds:
		n := between(int64(f.least/time.Second), int64(f.most/time.Second), f.zero != "")
		return notation{kind: "seconds, or duration", bounds: bounds, shape: orElse(n, text)}
	case f.zero != "":
		return notation{kind: "duration", bounds: bounds, shape: orElse(text, none)}
	}
	return notation{kind: "duration", bounds: bounds, shape: text}
}

func (f sizeField) notation() notation {
	unit := int64(max(f.unit, 1))
	n := between(int64(f.least)/unit, int64(f.most)/unit, f.zero != "")
	var suffixes []string
	for _, u := range sizeUnits {
		suffixes = append(suffixes, u.suffix)
	}
	text := shape{Type: stringType, Pattern: `^[0-9]+ *(` + strings.Join(suffixes, "|") + `)?$`}
	kind, bounds := "size", fmt.Sprintf("%s to %s", strings.Trim(sizeText(f.least), `"`), strings.Trim(sizeText(f.most), `"`))
	if f.unit == Mib {
		kind, bounds = "mebibytes, or size", fmt.Sprintf("%d to %d", f.least/Mib, f.most/Mib)
	}
	if f.zero != "" {
		bounds += ", or 0 for " + f.zero
	}
	return notation{kind: kind, bounds: bounds, shape: orElse(n, text)}
}

func (f hostField) notation() notation {
	return notation{kind: "host", bounds: f.Allowed(), shape: shape{Type: stringType, MinLength: 1}}
}

const addressPattern = `^.*:[0-9]+$`

func (f listenField) notation() notation {
	return notation{kind: "address", bounds: f.Allowed(), shape: shape{Type: stringType, Pattern: addressPattern}}
}

func (f adminField) notation() notation {
	return notation{kind: "address", bounds: f.Allowed(), shape: shape{Type: stringType, Pattern: addressPattern + "|^off$"}}
}

func (f listField) notation() notation {
	item := shape{Type: scalarTypes}
	if len(f.words) > 0 {
		item = shape{Type: stringType, Enum: f.words}
	}
	return notation{kind: "list", bounds: strings.TrimPrefix(strings.TrimPrefix(f.what, "a list "), "of "), shape: shape{Type: jsonTypes{"array"}, Items: &item, MinItems: f.least, MaxItems: f.most}}
}

func (f urlField) notation() notation {
	return notation{kind: "URL", bounds: f.Allowed(), shape: shape{Type: stringType, Pattern: `^(https?://|tcp://|unix:).`}}
}

// webPattern is an address of the web, or none.
const webPattern = `^$|^https?://.`

func (f proxyField) notation() notation {
	return notation{kind: "URL", bounds: f.Allowed(), shape: shape{Type: stringType, Pattern: webPattern + "|^off$"}}
}

func (f checkURLField) notation() notation {
	return notation{kind: "URL", bounds: f.Allowed(), shape: shape{Type: stringType, Pattern: webPattern}}
}

func (f linkField) notation() notation {
	return notation{kind: "URL", bounds: f.Allowed(), shape: shape{Type: stringType, Pattern: webPattern}}
}

func (f secretField) notation() notation {
	return notation{kind: "secret", bounds: f.what, shape: shape{Type: scalarTypes}}
}

func (f keyField) notation() notation {
	s := shape{Type: scalarTypes}
	if f.least > 0 {
		s.Pattern = fmt.Sprintf(`^$|^env:.|^file:.|^.{%d,}$`, f.least)
		return notation{kind: "secret", bounds: f.Allowed(), shape: s}
	}
	return notation{kind: "secret", bounds: `the value, "env:NAME" or "file:/path"`, shape: s}
}

func (f timeField) notation() notation {
	return notation{kind: "date or time", bounds: f.Allowed(), shape: shape{Type: stringType, Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}`}}
}

func (f isolationField) notation() notation {
	words := shape{Type: stringType, Enum: []string{perSession, PerPrincipal, SharedByAll}}
	return notation{kind: "word", bounds: f.Allowed(), shape: shape{AnyOf: []shape{words, {Type: stringType, Pattern: `^pool *\( *([1-9][0-9]{0,2}|1000) *\)$`}}}}
}
