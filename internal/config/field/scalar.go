// Package field has the types of the configuration's values: how each is read, checked and printed.
package field

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dragoman/internal/config/value"
)

// Field is the typed place of one setting in a Config.
type Field interface {
	// Set checks the literal and stores it. After an error the place is as before.
	Set(v value.Literal) error
	// Text returns the value as a literal that is valid in TOML and JSON.
	Text() string
	// Notation says what may be written.
	Notation() Notation
}

// Text is a field for a string that matches a pattern.
type Text struct {
	At      *string
	Pattern *regexp.Regexp // nil: anything without control characters
	What    string         // description of what is allowed
	Most    int            // bytes; 0: 4096
	Empty   bool           // "" is allowed

	Check func(text string) error // a further check, of text that is not empty; nil: none
}

const defaultTextLength = 4096

// Set implements [Field].
func (f Text) Set(v value.Literal) error {
	text, ok := v.PlainText()
	most := f.Most
	if most == 0 {
		most = defaultTextLength
	}
	switch {
	case !ok:
		return value.Problemf("must be text, not %s; quote it", v.Kind)
	case text == "" && f.Empty:
	case text == "":
		return value.Problemf("must not be empty")
	case len(text) > most:
		return value.Problemf("is %d bytes long; at most %d are allowed", len(text), most)
	case value.HasControl(text), f.Pattern != nil && !f.Pattern.MatchString(text):
		return value.Problemf("%s is not %s", v.Show(), f.What)
	}
	if f.Check != nil && text != "" {
		if err := f.Check(text); err != nil {
			return err
		}
	}
	*f.At = text
	return nil
}

// Text implements [Field].
func (f Text) Text() string { return value.Quote(*f.At) }

// Notation implements [Field].
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
	return Notation{Kind: "text", Bounds: strings.TrimPrefix(strings.TrimPrefix(bounds, "text"), ", "), Allowed: f.What, Shape: s}
}

// Enum is a field for one of a few words.
type Enum struct {
	At     *string
	Values []string
	Same   map[string]string // further spellings
}

// Set implements [Field].
func (f Enum) Set(v value.Literal) error {
	text, ok := v.PlainText()
	if !ok {
		return value.Problemf("must be text, not %s", v.Show())
	}
	if canonical, ok := f.Same[text]; ok {
		text = canonical
	}
	if !slices.Contains(f.Values, text) {
		if near := value.Nearest(text, f.Values); near != "" {
			return &value.Problem{What: fmt.Sprintf("%s is not known; did you mean %q?", v.Show(), near), Fix: "write " + f.words()}
		}
		return value.Problemf("%s is not known", v.Show())
	}
	*f.At = text
	return nil
}

// Text implements [Field].
func (f Enum) Text() string { return value.Quote(*f.At) }

func (f Enum) words() string {
	words := slices.Clone(f.Values)
	if empty := slices.Index(words, ""); empty >= 0 {
		words[empty] = `""`
	}
	return value.OneOf(words)
}

// Notation implements [Field].
func (f Enum) Notation() Notation {
	all := append(slices.Clone(f.Values), slices.Sorted(maps.Keys(f.Same))...)
	return Notation{Kind: "word", Bounds: f.words(), Shape: Shape{Type: StringType, Enum: all}}
}

// Bool is a field for true or false.
type Bool struct{ At *bool }

// Set implements [Field].
func (f Bool) Set(v value.Literal) error {
	if v.Kind != value.BooleanLiteral && v.Kind != value.WordLiteral || v.Text != "true" && v.Text != "false" {
		return value.Problemf("must be true or false, not %s", v.Show())
	}
	*f.At = v.Text == "true"
	return nil
}

// Text implements [Field].
func (f Bool) Text() string { return strconv.FormatBool(*f.At) }

// Notation implements [Field].
func (f Bool) Notation() Notation {
	return Notation{Kind: "boolean", Allowed: "true or false", Shape: Shape{Type: JsonTypes{"boolean"}}}
}

// Int is a field for an integer between bounds. If Zero is not empty, 0 is allowed as well.
type Int struct {
	At          *int
	Least, Most int
	Zero        string // what 0 means; "": 0 is not special
}

// Set implements [Field].
func (f Int) Set(v value.Literal) error {
	n, ok := v.Integer()
	switch {
	case !ok:
		return value.Problemf("must be an integer, not %s", v.Show())
	case n == 0 && f.Zero != "":
	case n < int64(f.Least), n > int64(f.Most):
		return value.Problemf("%s is out of range", v.Text)
	}
	*f.At = int(n)
	return nil
}

// Text implements [Field].
func (f Int) Text() string { return strconv.Itoa(*f.At) }

// Notation implements [Field].
func (f Int) Notation() Notation {
	bounds := fmt.Sprintf("%d to %d", f.Least, f.Most)
	if f.Least < f.Most && f.Most == math.MaxInt32 {
		bounds = fmt.Sprintf("%d or more", f.Least)
	}
	return Notation{Kind: "integer", Bounds: bounds + orZero(f.Zero), Shape: between(int64(f.Least), int64(f.Most), f.Zero != "")}
}

// orZero returns the end of the bounds of a field in which 0 has a meaning of its own; "" if zero is.
func orZero(zero string) string {
	if zero == "" {
		return ""
	}
	return ", or 0 for " + zero
}

// Duration is a field for a span of time between bounds.
type Duration struct {
	At          *time.Duration
	Least, Most time.Duration
	Zero        string // what 0 means; "": 0 is not special
	Seconds     bool   // a plain number is in seconds, as the seeds of these keys define it
}

// Set implements [Field].
func (f Duration) Set(v value.Literal) error {
	d, err := f.parse(v)
	switch {
	case err != nil:
		return err
	case d == 0 && f.Zero != "":
	case d < f.Least, d > f.Most:
		return value.Problemf("%s is out of range", v.Text)
	}
	*f.At = d
	return nil
}

func (f Duration) parse(v value.Literal) (time.Duration, error) {
	if n, ok := v.Integer(); ok && (f.Seconds || n == 0) {
		if n > int64(math.MaxInt64/time.Second) || n < 0 {
			return 0, value.Problemf("%s is out of range", v.Text)
		}
		return time.Duration(n) * time.Second, nil
	}
	if v.Kind == value.IntegerLiteral || v.Kind == value.FloatLiteral {
		return 0, &value.Problem{What: fmt.Sprintf("%s has no unit", v.Show()), Fix: fmt.Sprintf("write \"%ss\" for seconds (%s)", value.Shorten(v.Text), f.allowed())}
	}
	text, ok := v.PlainText()
	if !ok {
		return 0, value.Problemf("must be a duration, not %s", v.Show())
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, value.Problemf("%s is not a duration", v.Show())
	}
	return d, nil
}

// Text implements [Field].
func (f Duration) Text() string {
	if f.Seconds && *f.At%time.Second == 0 {
		return strconv.FormatInt(int64(*f.At/time.Second), 10)
	}
	return value.Quote(shortDuration(*f.At))
}

func (f Duration) bounds() string {
	return shortDuration(f.Least) + " to " + shortDuration(f.Most) + orZero(f.Zero)
}

func (f Duration) allowed() string {
	if f.Seconds {
		return "a number of seconds or a duration, " + f.bounds()
	}
	return `a duration such as "30s" or "1h30m", ` + f.bounds()
}

// durationPattern matches what time.ParseDuration accepts, without a sign.
const durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

// Notation implements [Field].
func (f Duration) Notation() Notation {
	n := Notation{Kind: "duration", Bounds: f.bounds(), Allowed: f.allowed(), Shape: Shape{Type: StringType, Pattern: durationPattern}}
	switch {
	case f.Seconds:
		n.Kind = "seconds, or duration"
		n.Shape = OrElse(between(int64(f.Least/time.Second), int64(f.Most/time.Second), f.Zero != ""), n.Shape)
	case f.Zero != "":
		n.Shape = OrElse(n.Shape, between(0, 0, false))
	}
	return n
}

// shortDuration returns d without the zero units at its end: "30m", not "30m0s".
func shortDuration(d time.Duration) string {
	text := d.String()
	for _, unit := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, unit) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Size is a field for a number of bytes between bounds.
type Size struct {
	At          *int
	Least, Most int
	Unit        int    // of a plain number; 0: 1
	Zero        string // what 0 means; "": 0 is not special
}

// The units of sizes: decimal as in SI, binary as in IEC 80000-13.
const (
	Kib = 1 << 10
	Mib = 1 << 20
	Gib = 1 << 30
)

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", Kib}, {"MiB", Mib}, {"GiB", Gib},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// Set implements [Field].
func (f Size) Set(v value.Literal) error {
	n, ok := v.Integer()
	if ok && f.Unit > 1 {
		if n > int64(f.Most/f.Unit) {
			return value.Problemf("%s is out of range", v.Text)
		}
		n *= int64(f.Unit)
	}
	if !ok {
		text, isText := v.PlainText()
		if !isText {
			return value.Problemf("must be a size, not %s", v.Show())
		}
		if n, ok = parseSize(text); !ok {
			return value.Problemf("%s is not a size", v.Show())
		}
	}
	if (n < int64(f.Least) || n > int64(f.Most)) && (n != 0 || f.Zero == "") {
		return value.Problemf("%s is out of range", v.Text)
	}
	*f.At = int(n)
	return nil
}

// parseSize parses "4MiB", "100 MB" or "4096".
func parseSize(text string) (int64, bool) {
	unit := int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// Text implements [Field].
func (f Size) Text() string {
	if f.Unit > 1 && *f.At%f.Unit == 0 {
		return strconv.Itoa(*f.At / f.Unit)
	}
	return sizeText(*f.At)
}

// sizeText returns n with the largest binary unit that divides it.
func sizeText(n int) string {
	switch {
	case n > 0 && n%Gib == 0:
		return value.Quote(strconv.Itoa(n/Gib) + "GiB")
	case n > 0 && n%Mib == 0:
		return value.Quote(strconv.Itoa(n/Mib) + "MiB")
	case n > 0 && n%Kib == 0:
		return value.Quote(strconv.Itoa(n/Kib) + "KiB")
	default:
		return strconv.Itoa(n)
	}
}

// Notation implements [Field].
func (f Size) Notation() Notation {
	unit := int64(max(f.Unit, 1))
	var suffixes []string
	for _, u := range sizeUnits {
		suffixes = append(suffixes, u.suffix)
	}
	text := Shape{Type: StringType, Pattern: `^[0-9]+ *(` + strings.Join(suffixes, "|") + `)?$`}
	n := Notation{Kind: "size", Shape: OrElse(between(int64(f.Least)/unit, int64(f.Most)/unit, f.Zero != ""), text)}
	if f.Unit == Mib {
		n.Kind, n.Bounds = "mebibytes, or size", fmt.Sprintf("%d to %d", f.Least/Mib, f.Most/Mib)
		n.Allowed = "a number of mebibytes, " + n.Bounds
		return n
	}
	n.Bounds = strings.ReplaceAll(sizeText(f.Least)+" to "+sizeText(f.Most), `"`, "") + orZero(f.Zero)
	n.Allowed = `a size such as "4MiB", "100MB" or a number of bytes, ` + n.Bounds
	return n
}

// Time is a field for a point in time.
type Time struct{ At *time.Time }

// Set implements [Field].
func (f Time) Set(v value.Literal) error {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, v.Text); err == nil {
			*f.At = t
			return nil
		}
	}
	return value.Problemf("%s is not a time", v.Show())
}

// Text implements [Field]. It returns "" for the zero time.
func (f Time) Text() string {
	if f.At.IsZero() {
		return `""`
	}
	return value.Quote(f.At.UTC().Format(time.RFC3339))
}

// Notation implements [Field].
func (f Time) Notation() Notation {
	return Notation{Kind: "date or time", Bounds: `a date such as 2027-01-31, or a time such as "2027-01-31T12:00:00Z"`,
		Shape: Shape{Type: StringType, Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}`}}
}

// Ratio is a field for a number from 0 to 1.
type Ratio struct{ At *float64 }

// Set implements [Field].
func (f Ratio) Set(v value.Literal) error {
	if v.Kind != value.FloatLiteral && v.Kind != value.IntegerLiteral && v.Kind != value.WordLiteral {
		return value.Problemf("must be a number, not %s", v.Show())
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64)
	switch {
	case err != nil:
		return value.Problemf("must be a number, not %s", v.Show())
	case !(n >= 0 && n <= 1):
		return value.Problemf("%s is out of range", v.Text)
	}
	*f.At = n
	return nil
}

// Text implements [Field].
func (f Ratio) Text() string { return strconv.FormatFloat(*f.At, 'g', -1, 64) }

// Notation implements [Field].
func (f Ratio) Notation() Notation {
	one := int64(1)
	return Notation{Kind: "number", Bounds: "0 to 1", Shape: Shape{Type: JsonTypes{"number"}, Minimum: new(int64), Maximum: &one}}
}
