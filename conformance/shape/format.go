package shape

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-json"
)

// format is a constraint of a string.
type format struct {
	means string // "a URI: ..."
	holds func(string) bool
}

// formats are those that the schemas and their amendments name. They are lenient where the specification is not exact: a URI
// may have characters outside ASCII (they are IRIs then), a time may lack its zone.
var formats = map[string]format{
	"uri":          {"a URI with its scheme", isURI},
	"file-uri":     {"a URI that begins with file://", func(s string) bool { return isURI(s) && hasPrefixFold(s, "file://") }},
	"uri-template": {"a URI template (RFC 6570)", isTemplate},
	"byte":         {"base64 (RFC 4648 §4, with padding)", isBase64},
	"timestamp":    {"a time as in ISO 8601, such as 2026-07-28T12:00:00Z", isTime},
	"traceparent":  {"a traceparent as in W3C Trace Context: version-trace-parent-flags, in hexadecimal", func(s string) bool { return traceparent().MatchString(s) }},
}

// metaFormat is the format of an object whose names follow basic §_meta. The library's own way, propertyNames, loses the place.
const metaFormat = "meta-names"

// wrongName is a name that does not.
type wrongName string

func (wrongName) Error() string {
	return "a name of the form prefix/name: labels with dots between, then letters and digits with - _ . inside"
}

// metaNamesHold reports the first wrong name.
func metaNamesHold(v any) error {
	of, _ := v.(object)
	for _, name := range names(of) {
		if !metaKey().MatchString(name) {
			return wrongName(name)
		}
	}
	return nil
}

// scheme is RFC 3986 §3.1.
var scheme = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`) })

func isURI(s string) bool {
	return scheme().MatchString(s) && utf8.ValidString(s) && !blank(s)
}

// blank reports whether a string has white space or a control character.
func blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) >= 0
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// isTemplate looks at the braces: each is closed, none is within another, none is empty (RFC 6570 §2).
func isTemplate(s string) bool {
	for s != "" && !blank(s) {
		at := strings.IndexAny(s, "{}")
		if at < 0 {
			return true
		}
		if s[at] == '}' {
			return false
		}
		to := strings.IndexAny(s[at+1:], "{}")
		if to <= 0 || s[at+1+to] == '{' {
			return false
		}
		s = s[at+to+2:]
	}
	return s == ""
}

func isBase64(s string) bool {
	if strings.ContainsAny(s, "\r\n") {
		return false // the decoder would skip them
	}
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil
}

func isTime(s string) bool {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if _, err := time.Parse(layout, s); err == nil {
			return true
		}
	}
	return false
}

// traceparent is version, trace, parent and flags; later versions may have more behind these.
var traceparent = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[0-9a-e][0-9a-f]|f[0-9a-e])-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$`)
})

// metaKey is the grammar of basic §_meta: labels begin with a letter and end with a letter or digit; the name may be empty.
var metaKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(?:[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?/)?` +
		`(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?$`)
})

// whole judges the literal as JSON Schema does: 1, 1.0 and 10e-1 are integers, 1.5 is none. Nothing is calculated, so that
// 1e999999999 costs nothing.
func whole(n json.Number) bool {
	digits, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	before, after, _ := strings.Cut(strings.TrimPrefix(digits, "-"), ".")
	after = strings.TrimRight(after, "0")
	if strings.Trim(before+after, "0") == "" {
		return true // zero, whatever its exponent is
	}
	if len(exponent) > 9 {
		return !strings.HasPrefix(exponent, "-")
	}
	shift := 0
	if exponent != "" {
		shift, _ = strconv.Atoi(exponent) // the decoder has seen to its form
	}
	if after == "" {
		before = before[len(strings.TrimRight(before, "0")):]
		return shift >= -len(before)
	}
	return shift >= len(after)
}

// integerOf returns an integer that fits an int.
func integerOf(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok || !whole(n) {
		return 0, false
	}
	value, err := n.Float64()
	return int(value), err == nil && value > -1e15 && value < 1e15
}

// tame replaces a number that is too large or too small to calculate with by one that compares alike.
func tame(n json.Number) json.Number {
	_, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	if len(strings.TrimLeft(exponent, "+-0")) <= 3 && len(n) < 1000 {
		return n
	}
	sign := ""
	if strings.HasPrefix(string(n), "-") {
		sign = "-"
	}
	value, _ := n.Float64()
	switch {
	case !whole(n):
		if value > -1 && value < 1 {
			return json.Number(sign + "0.5")
		}
		return json.Number(sign+"1e9") + ".5"
	case value == 0:
		return "0"
	}
	return json.Number(sign + "1e300")
}

// step goes from a value to one of its members or elements.
func step(at *place, v any, token string) (*place, any) {
	if list, ok := v.([]any); ok {
		if i, err := strconv.Atoi(token); err == nil && i < len(list) {
			return at.item(i), list[i]
		}
	}
	of, _ := v.(object)
	return at.member(token), of[token]
}

// compareTokens orders elements by their numbers and members by their names.
func compareTokens(a, b string) int {
	m, err := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if err == nil && err2 == nil {
		return m - n
	}
	return strings.Compare(a, b)
}
