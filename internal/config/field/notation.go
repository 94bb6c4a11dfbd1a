package field

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"
)

// Notation is what may be written for a key. The reference and the schema are made of it.
type Notation struct {
	Kind   string // the type, in a word or two
	Bounds string // which values of that type; "" if all
	Shape  Shape
}

// Notated is a field that has a notation. All have: TestNotations.
type Notated interface{ Notation() Notation }

// Shape is the part of JSON Schema that the configuration needs, in draft-07, which editors support.
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

// Others describes the keys of a table that have no fixed name.
type Others struct {
	Of  *Shape // schema of their values; nil: Any says whether they are allowed
	Any bool
}

// MarshalJSON implements json.Marshaler. Without Of it writes a boolean schema.
func (o *Others) MarshalJSON() ([]byte, error) {
	if o.Of == nil {
		return strconv.AppendBool(nil, o.Any), nil
	}
	return json.MarshalWithOption(o.Of, json.DisableHTMLEscape())
}

// JsonTypes lists JSON types, of which a value must have one.
type JsonTypes []string

// MarshalJSON implements json.Marshaler. It writes a single type as a string.
func (k JsonTypes) MarshalJSON() ([]byte, error) {
	if len(k) == 1 {
		return strconv.AppendQuote(nil, k[0]), nil
	}
	return json.Marshal([]string(k))
}

// The JSON types of values.
var (
	StringType  = JsonTypes{"string"}
	integerType = JsonTypes{"integer"}
	scalarTypes = JsonTypes{"string", "integer", "number", "boolean"}
)

// between returns the shape of an integer from least to most, or of 0 as well if zero is true.
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

// OrElse returns the shape that accepts what a or b accepts.
func OrElse(a, b Shape) Shape {
	if len(a.AnyOf) > 0 {
		return Shape{AnyOf: append(slices.Clone(a.AnyOf), b)}
	}
	return Shape{AnyOf: []Shape{a, b}}
}

// Notation implements [Notated].
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

// Notation implements [Notated].
func (f Enum) Notation() Notation {
	words := slices.Clone(f.Values)
	var more []string
	for spelling := range f.Same {
		more = append(more, spelling)
	}
	slices.Sort(more)
	return Notation{Kind: "word", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Enum: append(words, more...)}}
}

// Notation implements [Notated].
func (f Bool) Notation() Notation {
	return Notation{Kind: "boolean", Shape: Shape{Type: JsonTypes{"boolean"}}}
}

// Notation implements [Notated].
func (f Int) Notation() Notation {
	return Notation{Kind: "integer", Bounds: f.Allowed(), Shape: between(int64(f.Least), int64(f.Most), f.Zero != "")}
}

// durationPattern matches what time.ParseDuration accepts, without a sign.
const durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

// Notation implements [Notated].
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

// Notation implements [Notated].
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

// Notation implements [Notated].
func (f Host) Notation() Notation {
	return Notation{Kind: "host", Bounds: f.Allowed(), Shape: Shape{Type: StringType, MinLength: 1}}
}

const addressPattern = `^.*:[0-9]+$`

// Notation implements [Notated].
func (f Listen) Notation() Notation {
	return Notation{Kind: "address", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: addressPattern}}
}

// Notation implements [Notated].
func (f Admin) Notation() Notation {
	return Notation{Kind: "address", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: addressPattern + "|^off$"}}
}

// Notation implements [Notated].
func (f List) Notation() Notation {
	item := Shape{Type: scalarTypes}
	if len(f.Words) > 0 {
		item = Shape{Type: StringType, Enum: f.Words}
	}
	return Notation{Kind: "list", Bounds: strings.TrimPrefix(strings.TrimPrefix(f.What, "a list "), "of "), Shape: Shape{Type: JsonTypes{"array"}, Items: &item, MinItems: f.Least, MaxItems: f.Most}}
}

// Notation implements [Notated].
func (f URL) Notation() Notation {
	return Notation{Kind: "URL", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: `^(https?://|tcp://|unix:).`}}
}

// webPattern matches an http or https URL, and the empty string.
const webPattern = `^$|^https?://.`

// Notation implements [Notated].
func (f Proxy) Notation() Notation {
	return Notation{Kind: "URL", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: webPattern + "|^off$"}}
}

// Notation implements [Notated].
func (f CheckURL) Notation() Notation {
	return Notation{Kind: "URL", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: webPattern}}
}

// Notation implements [Notated].
func (f Link) Notation() Notation {
	return Notation{Kind: "URL", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: webPattern}}
}

// Notation implements [Notated].
func (f SecretText) Notation() Notation {
	return Notation{Kind: "secret", Bounds: f.What, Shape: Shape{Type: scalarTypes}}
}

// Notation implements [Notated].
func (f Key) Notation() Notation {
	s := Shape{Type: scalarTypes}
	if f.Least > 0 {
		s.Pattern = fmt.Sprintf(`^$|^env:.|^file:.|^.{%d,}$`, f.Least)
		return Notation{Kind: "secret", Bounds: f.Allowed(), Shape: s}
	}
	return Notation{Kind: "secret", Bounds: `the value, "env:NAME" or "file:/path"`, Shape: s}
}

// Notation implements [Notated].
func (f Time) Notation() Notation {
	return Notation{Kind: "date or time", Bounds: f.Allowed(), Shape: Shape{Type: StringType, Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}`}}
}

// Notation implements [Notated].
func (f Isolation) Notation() Notation {
	words := Shape{Type: StringType, Enum: []string{PerSession, PerPrincipal, SharedByAll}}
	return Notation{Kind: "word", Bounds: f.Allowed(), Shape: Shape{AnyOf: []Shape{words, {Type: StringType, Pattern: `^pool *\( *([1-9][0-9]{0,2}|1000) *\)$`}}}}
}
