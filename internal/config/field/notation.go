package field

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"
)

// Notation is what may be written for a key, for people and for programs: the reference and the schema are made of it.
type Notation struct {
	Kind   string // the type, in a word or two
	Bounds string // what of that type; "" if that is all
	Shape  Shape
}

// Notated is a field that knows its notation. All do: TestNotations.
type Notated interface{ Notation() Notation }

// Shape is a JSON Schema, as far as the configuration needs it; draft-07, since that is what editors know.
type Shape struct {
	Schema      string            `json:"$schema,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Type        JsonTypes         `json:"type,omitempty"`
	Default     json.RawMessage   `json:"default,omitempty"`
	Enum        []string          `json:"enum,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
	MinLength   int               `json:"minLength,omitempty"`
	MaxLength   int               `json:"maxLength,omitempty"`
	Minimum     *int64            `json:"minimum,omitempty"`
	Maximum     *int64            `json:"maximum,omitempty"`
	AnyOf       []Shape           `json:"anyOf,omitempty"`
	Items       *Shape            `json:"items,omitempty"`
	MinItems    int               `json:"minItems,omitempty"`
	MaxItems    int               `json:"maxItems,omitempty"`
	Properties  map[string]*Shape `json:"properties,omitempty"`
	Names       *Shape            `json:"propertyNames,omitempty"`
	Others      *Others           `json:"additionalProperties,omitempty"`
}

// Others are the keys of a table that have no name of ours.
type Others struct {
	Of  *Shape // nil: anything goes, or nothing
	Any bool
}

// MarshalJSON writes a schema, or the one that all or none fit.
func (o *Others) MarshalJSON() ([]byte, error) {
	if o.Of == nil {
		return strconv.AppendBool(nil, o.Any), nil
	}
	return json.MarshalWithOption(o.Of, json.DisableHTMLEscape())
}

// JsonTypes are JSON types, of which one is enough.
type JsonTypes []string

// MarshalJSON writes a single type without a list.
func (k JsonTypes) MarshalJSON() ([]byte, error) {
	if len(k) == 1 {
		return strconv.AppendQuote(nil, k[0]), nil
	}
	return json.Marshal([]string(k))
}

// The types of JSON that values are written in.
var (
	StringType  = JsonTypes{"string"}
	integerType = JsonTypes{"integer"}
	scalarTypes = JsonTypes{"string", "integer", "number", "boolean"}
)

// between is an integer from least to most, or, if zero says something, 0.
func between(least, most int64, zero bool) Shape {
	s := Shape{Type: integerType, Minimum: &least, Maximum: &most}
	switch {
	case !zero || least <= 0:
		return s
	case least == 1:
		s.Minimum = new(int64)
		return s
	}
	return Shape{AnyOf: []Shape{s, {Type: integerType, Minimum: new(int64), Maximum: new(int64)}}}
}

// OrElse is what one of two shapes takes.
func OrElse(a, b Shape) Shape {
	if len(a.AnyOf) > 0 {
		return Shape{AnyOf: append(slices.Clone(a.AnyOf), b)}
	}
	return Shape{AnyOf: []Shape{a, b}}
}

func (f Text) Notation() Notation {
	s := Shape{Type: StringType, MaxLength: f.Most}
	if !f.Empty {
		s.MinLength = 1
	}
	bounds := f.What
	if f.Pattern != nil {
		s.Pattern = f.Pattern.String()
		if f.Empty {
			s.Pattern += "|^$"
		}
	}
	if f.Most > 0 {
		bounds += fmt.Sprintf(", at most %d bytes", f.Most)
	}
	return Notation{Kind: "text", Bounds: strings.TrimPrefix(strings.TrimPrefix(bounds, "text"), ", "), Shape: s}
}

func (f Enum) Notation() Notation {
	words := slices.Clone(f.Values)
	var more []string
	for spelling := range f.Same {
		more = append(more, spelling)
	}
	slices.Sort(more)
	return Notation{Kind: "word", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Enum: append(words, more...)}}
}

func (f Bool) Notation() Notation {
	return Notation{Kind: "boolean", Shape: Shape{Type: JsonTypes{"boolean"}}}
}

func (f Int) Notation() Notation {
	return Notation{Kind: "integer", Bounds: f.Allowed(), Shape: between(int64(f.Least), int64(f.Most), f.Zero != "")}
}

// durationPattern is what time.ParseDuration takes, without a sign.
const durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

func (f Duration) Notation() Notation {
	bounds := fmt.Sprintf("%s to %s", shortDuration(f.Least), shortDuration(f.Most))
	if f.Zero != "" {
		bounds += ", or 0 for " + f.Zero
	}
	text, none := Shape{Type: StringType, Pattern: durationPattern}, Shape{Type: integerType, Minimum: new(int64), Maximum: new(int64)}
	switch {
	case f.Seconds:
		n := between(int64(f.Least/time.Second), int64(f.Most/time.Second), f.Zero != "")
		return Notation{Kind: "seconds, or duration", Bounds: bounds, Shape: OrElse(n, text)}
	case f.Zero != "":
		return Notation{Kind: "duration", Bounds: bounds, Shape: OrElse(text, none)}
	}
	return Notation{Kind: "duration", Bounds: bounds, Shape: text}
}

func (f Size) Notation() Notation {
	unit := int64(max(f.Unit, 1))
	n := between(int64(f.Least)/unit, int64(f.Most)/unit, f.Zero != "")
	var suffixes []string
	for _, u := range sizeUnits {
		suffixes = append(suffixes, u.suffix)
	}
	text := Shape{Type: StringType, Pattern: `^[0-9]+ *(` + strings.Join(suffixes, "|") + `)?$`}
	kind, bounds := "size", fmt.Sprintf("%s to %s", strings.Trim(sizeText(f.Least), `"`), strings.Trim(sizeText(f.Most), `"`))
	if f.Unit == Mib {
		kind, bounds = "mebibytes, or size", fmt.Sprintf("%d to %d", f.Least/Mib, f.Most/Mib)
	}
	if f.Zero != "" {
		bounds += ", or 0 for " + f.Zero
	}
	return Notation{Kind: kind, Bounds: bounds, Shape: OrElse(n, text)}
}

func (f Host) Notation() Notation {
	return Notation{Kind: "host", Bounds: f.Allowed(), Shape: Shape{Type: StringType, MinLength: 1}}
}

const addressPattern = `^.*:[0-9]+$`

func (f Listen) Notation() Notation {
	return Notation{Kind: "address", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: addressPattern}}
}

func (f Admin) Notation() Notation {
	return Notation{Kind: "address", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: addressPattern + "|^off$"}}
}

func (f List) Notation() Notation {
	item := Shape{Type: scalarTypes}
	if len(f.Words) > 0 {
		item = Shape{Type: StringType, Enum: f.Words}
	}
	return Notation{Kind: "list", Bounds: strings.TrimPrefix(strings.TrimPrefix(f.What, "a list "), "of "), Shape: Shape{Type: JsonTypes{"array"}, Items: &item, MinItems: f.Least, MaxItems: f.Most}}
}

func (f URL) Notation() Notation {
	return Notation{Kind: "URL", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: `^(https?://|tcp://|unix:).`}}
}

// webPattern is an address of the web, or none.
const webPattern = `^$|^https?://.`

func (f Proxy) Notation() Notation {
	return Notation{Kind: "URL", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: webPattern + "|^off$"}}
}

func (f CheckURL) Notation() Notation {
	return Notation{Kind: "URL", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: webPattern}}
}

func (f Link) Notation() Notation {
	return Notation{Kind: "URL", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: webPattern}}
}

func (f SecretText) Notation() Notation {
	return Notation{Kind: "secret", Bounds: f.What, Shape: Shape{Type: scalarTypes}}
}

func (f Key) Notation() Notation {
	s := Shape{Type: scalarTypes}
	if f.Least > 0 {
		s.Pattern = fmt.Sprintf(`^$|^env:.|^file:.|^.{%d,}$`, f.Least)
		return Notation{Kind: "secret", Bounds: f.Allowed(), Shape: s}
	}
	return Notation{Kind: "secret", Bounds: `the value, "env:NAME" or "file:/path"`, Shape: s}
}

func (f Time) Notation() Notation {
	return Notation{Kind: "date or time", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}`}}
}

func (f Isolation) Notation() Notation {
	words := Shape{Type: StringType, Enum: []string{PerSession, PerPrincipal, SharedByAll}}
	return Notation{Kind: "word", Bounds: f.Allowed(), Shape: Shape{AnyOf: []Shape{words, {Type: StringType, Pattern: `^pool *\( *([1-9][0-9]{0,2}|1000) *\)$`}}}}
}
