package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field is the typed place of one setting in a Config.
type field interface {
	// Set checks the literal and stores it; on an error the place is as before.
	Set(v Literal) error
	// text is the value as a literal that TOML and JSON both understand.
	text() string
	// Allowed says what may be written, for errors and help.
	Allowed() string
}

// textField is a string that matches a pattern.
type textField struct {
	at      *string
	pattern *regexp.Regexp // nil: anything without control characters
	what    string         // for people
	most    int            // bytes; 0: 4096
	empty   bool           // "" is allowed
}

const defaultTextLength = 4096

func (f textField) Set(v Literal) error {
	text, ok := v.plainText()
	most := f.most
	if most == 0 {
		most = defaultTextLength
	}
	switch {
	case !ok:
		return problemf("must be text, not %s; quote it", v.Kind)
	case text == "" && f.empty:
	case text == "":
		return problemf("must not be empty")
	case len(text) > most:
		return problemf("is %d bytes long; at most %d are allowed", len(text), most)
	case HasControl(text), f.pattern != nil && !f.pattern.MatchString(text):
		return problemf("%s is not %s", v.show(), f.what)
	}
	*f.at = text
	return nil
}

func (f textField) text() string    { return Quote(*f.at) }
func (f textField) Allowed() string { return f.what }

// enumField is one of a few words.
type enumField struct {
	at     *string
	values []string
	same   map[string]string // further spellings
}

func (f enumField) Set(v Literal) error {
	text, ok := v.plainText()
	if !ok {
		return problemf("must be text, not %s", v.show())
	}
	if canonical, ok := f.same[text]; ok {
		text = canonical
	}
	if !slices.Contains(f.values, text) {
		if near := Nearest(text, f.values); near != "" {
			return &problem{what: fmt.Sprintf("%s is not known; did you mean %q?", v.show(), near), fix: "write " + f.Allowed()}
		}
		return problemf("%s is not known", v.show())
	}
	*f.at = text
	return nil
}

func (f enumField) text() string { return Quote(*f.at) }
func (f enumField) Allowed() string {
	words := make([]string, 0, len(f.values))
	for _, v := range f.values {
		if v == "" {
			v = `""`
		}
		words = append(words, v)
	}
	return OneOf(words)
}

// boolField is true or false.
type boolField struct{ at *bool }

func (f boolField) Set(v Literal) error {
	if v.Kind != booleanLiteral && v.Kind != wordLiteral || v.Text != "true" && v.Text != "false" {
		return problemf("must be true or false, not %s", v.show())
	}
	*f.at = v.Text == "true"
	return nil
}

func (f boolField) text() string    { return strconv.FormatBool(*f.at) }
func (f boolField) Allowed() string { return "true or false" }

// intField is an integer between bounds; zero allows 0 besides them.
type intField struct {
	at          *int
	least, most int
	zero        string // what 0 means; "": 0 is not special
}

func (f intField) Set(v Literal) error {
	n, ok := v.integer()
	switch {
	case !ok:
		return problemf("must be an integer, not %s", v.show())
	case n == 0 && f.zero != "":
	case n < int64(f.least), n > int64(f.most):
		return problemf("%s is out of range", v.Text)
	}
	*f.at = int(n)
	return nil
}

func (f intField) text() string { return strconv.Itoa(*f.at) }
func (f intField) Allowed() string {
	text := fmt.Sprintf("%d to %d", f.least, f.most)
	if f.least < f.most && f.most == math.MaxInt32 {
		text = fmt.Sprintf("%d or more", f.least)
	}
	if f.zero != "" {
		text += fmt.Sprintf(", or 0 for %s", f.zero)
	}
	return text
}

// durationField is a span of time between bounds.
type durationField struct {
	at          *time.Duration
	least, most time.Duration
	zero        string // what 0 means; "": 0 is not special
	seconds     bool   // a plain number counts seconds, as in the seeds of these keys
}

func (f durationField) Set(v Literal) error {
	d, err := f.parse(v)
	switch {
	case err != nil:
		return err
	case d == 0 && f.zero != "":
	case d < f.least, d > f.most:
		return problemf("%s is out of range", v.Text)
	}
	*f.at = d
	return nil
}

func (f durationField) parse(v Literal) (time.Duration, error) {
	if n, ok := v.integer(); ok && (f.seconds || n == 0) {
		if n > int64(math.MaxInt64/time.Second) || n < 0 {
			return 0, problemf("%s is out of range", v.Text)
		}
		return time.Duration(n) * time.Second, nil
	}
	if v.Kind == integerLiteral || v.Kind == floatLiteral {
		return 0, &problem{what: fmt.Sprintf("%s has no unit", v.show()), fix: fmt.Sprintf("write \"%ss\" for seconds (%s)", Shorten(v.Text), f.Allowed())}
	}
	text, ok := v.plainText()
	if !ok {
		return 0, problemf("must be a duration, not %s", v.show())
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, problemf("%s is not a duration", v.show())
	}
	return d, nil
}

func (f durationField) text() string {
	if f.seconds && *f.at%time.Second == 0 {
		return strconv.FormatInt(int64(*f.at/time.Second), 10)
	}
	return Quote(shortDuration(*f.at))
}

func (f durationField) Allowed() string {
	text := fmt.Sprintf("a duration such as \"30s\" or \"1h30m\", %s to %s", shortDuration(f.least), shortDuration(f.most))
	if f.seconds {
		text = fmt.Sprintf("a number of seconds or a duration, %s to %s", shortDuration(f.least), shortDuration(f.most))
	}
	if f.zero != "" {
		text += fmt.Sprintf(", or 0 for %s", f.zero)
	}
	return text
}

// shortDuration is d without the zero units at its end: "30m", not "30m0s".
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

// sizeField is a number of bytes between bounds.
type sizeField struct {
	at          *int
	least, most int
	unit        int    // of a plain number; 0: 1
	zero        string // what 0 means; "": 0 is not special
}

// The units of sizes: decimal as in SI, binary as in IEC 80000-13.
const (
	Kib = 1 << 10
	Mib = 1 << 20
	gib = 1 << 30
)

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", Kib}, {"MiB", Mib}, {"GiB", gib},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

func (f sizeField) Set(v Literal) error {
	n, ok := v.integer()
	if ok && f.unit > 1 {
		if n > int64(f.most/f.unit) {
			return problemf("%s is out of range", v.Text)
		}
		n *= int64(f.unit)
	}
	if !ok {
		text, isText := v.plainText()
		if !isText {
			return problemf("must be a size, not %s", v.show())
		}
		if n, ok = parseSize(text); !ok {
			return problemf("%s is not a size", v.show())
		}
	}
	if (n < int64(f.least) || n > int64(f.most)) && (n != 0 || f.zero == "") {
		return problemf("%s is out of range", v.Text)
	}
	*f.at = int(n)
	return nil
}

// parseSize reads "4MiB", "100 MB" or "4096".
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

func (f sizeField) text() string {
	if f.unit > 1 && *f.at%f.unit == 0 {
		return strconv.Itoa(*f.at / f.unit)
	}
	return sizeText(*f.at)
}

// sizeText is n with the largest binary unit that divides it.
func sizeText(n int) string {
	switch {
	case n > 0 && n%gib == 0:
		return Quote(strconv.Itoa(n/gib) + "GiB")
	case n > 0 && n%Mib == 0:
		return Quote(strconv.Itoa(n/Mib) + "MiB")
	case n > 0 && n%Kib == 0:
		return Quote(strconv.Itoa(n/Kib) + "KiB")
	default:
		return strconv.Itoa(n)
	}
}

func (f sizeField) Allowed() string {
	if f.unit == Mib {
		return fmt.Sprintf("a number of mebibytes, %d to %d", f.least/Mib, f.most/Mib)
	}
	text := fmt.Sprintf("a size such as \"4MiB\", \"100MB\" or a number of bytes, %s to %s",
		strings.Trim(sizeText(f.least), `"`), strings.Trim(sizeText(f.most), `"`))
	if f.zero != "" {
		text += fmt.Sprintf(", or 0 for %s", f.zero)
	}
	return text
}
