// Package field has the types of the configuration's values: how each is read, checked and printed.
package field

import (
	"fmt"
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
	// Allowed says what may be written, for errors and help.
	Allowed() string
}

// Text is a field for a string that matches a pattern.
type Text struct {
	At      *string
	Pattern *regexp.Regexp // nil: anything without control characters
	What    string         // description of what is allowed
	Most    int            // bytes; 0: 4096
	Empty   bool           // "" is allowed
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
	*f.At = text
	return nil
}

// Text implements [Field].
func (f Text) Text() string { return value.Quote(*f.At) }

// Allowed implements [Field].
func (f Text) Allowed() string { return f.What }

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
			return &value.Problem{What: fmt.Sprintf("%s is not known; did you mean %q?", v.Show(), near), Fix: "write " + f.Allowed()}
		}
		return value.Problemf("%s is not known", v.Show())
	}
	*f.At = text
	return nil
}

// Text implements [Field].
func (f Enum) Text() string { return value.Quote(*f.At) }

// Allowed implements [Field].
func (f Enum) Allowed() string {
	words := make([]string, 0, len(f.Values))
	for _, v := range f.Values {
		if v == "" {
			v = `""`
		}
		words = append(words, v)
	}
	return value.OneOf(words)
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

// Allowed implements [Field].
func (f Bool) Allowed() string { return "true or false" }

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

// Allowed implements [Field].
func (f Int) Allowed() string {
	text := fmt.Sprintf("%d to %d", f.Least, f.Most)
	if f.Least < f.Most && f.Most == math.MaxInt32 {
		text = fmt.Sprintf("%d or more", f.Least)
	}
	if f.Zero != "" {
		text += fmt.Sprintf(", or 0 for %s", f.Zero)
	}
	return text
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
		return 0, &value.Problem{What: fmt.Sprintf("%s has no unit", v.Show()), Fix: fmt.Sprintf("write \"%ss\" for seconds (%s)", value.Shorten(v.Text), f.Allowed())}
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

// Allowed implements [Field].
func (f Duration) Allowed() string {
	text := fmt.Sprintf("a duration such as \"30s\" or \"1h30m\", %s to %s", shortDuration(f.Least), shortDuration(f.Most))
	if f.Seconds {
		text = fmt.Sprintf("a number of seconds or a duration, %s to %s", shortDuration(f.Least), shortDuration(f.Most))
	}
	if f.Zero != "" {
		text += fmt.Sprintf(", or 0 for %s", f.Zero)
	}
	return text
}

// shortDuration returns d without the zero units at its end: "30m", not "30m0s".
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
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

// Allowed implements [Field].
func (f Size) Allowed() string {
	if f.Unit == Mib {
		return fmt.Sprintf("a number of mebibytes, %d to %d", f.Least/Mib, f.Most/Mib)
	}
	text := fmt.Sprintf("a size such as \"4MiB\", \"100MB\" or a number of bytes, %s to %s",
		strings.Trim(sizeText(f.Least), `"`), strings.Trim(sizeText(f.Most), `"`))
	if f.Zero != "" {
		text += fmt.Sprintf(", or 0 for %s", f.Zero)
	}
	return text
}
