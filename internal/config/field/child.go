package field

import (
	"regexp"
	"strconv"
	"strings"

	"dragoman/internal/config/value"
)

// maxPool bounds the sessions or children of a pool.
const maxPool = 1000

// Kinds of isolation, see [ParseIsolation].
const (
	PerSession   = "session"
	PerPrincipal = "principal"
	Pooled       = "pool"
	SharedByAll  = "shared"
)

var poolForm = regexp.MustCompile(`^pool\s*\(\s*([0-9]+)\s*\)$`)

// ParseIsolation parses "session", "principal", "pool(N)" or "shared". It does not check the bounds of N; a number that
// overflows counts as 0.
func ParseIsolation(text string) (kind string, n int, ok bool) {
	if m := poolForm.FindStringSubmatch(text); m != nil {
		n, _ = strconv.Atoi(m[1])
		return Pooled, n, true
	}
	switch text {
	case PerSession, PerPrincipal, SharedByAll:
		return text, 0, true
	}
	return "", 0, false
}

// Isolation returns the field of who shares a session or child.
func Isolation(at *string) Field {
	words := Shape{Type: StringType, Enum: []string{PerSession, PerPrincipal, SharedByAll}}
	return parsed{at: at, parse: parseIsolation, notation: Notation{Kind: "word", Bounds: "session, principal, pool(N) with N from 1 to 1000, or shared",
		Shape: OrElse(words, Shape{Type: StringType, Pattern: `^pool *\( *([1-9][0-9]{0,2}|1000) *\)$`})}}
}

func parseIsolation(v value.Literal) (string, error) {
	text, isText := v.PlainText()
	if !isText {
		return "", value.Problemf("must be text, not %s", v.Show())
	}
	kind, n, ok := ParseIsolation(text)
	switch {
	case !ok && strings.HasPrefix(text, Pooled):
		return "", &value.Problem{What: v.Show() + " does not say how many", Fix: `write "pool(4)" for four`}
	case !ok:
		if near := value.Nearest(text, []string{PerSession, PerPrincipal, Pooled, SharedByAll}); near != "" {
			return "", value.Problemf("%s is not known; did you mean %q?", v.Show(), near)
		}
		return "", value.Problemf("%s is not known", v.Show())
	case kind == Pooled && (n < 1 || n > maxPool):
		return "", value.Problemf("%s is out of range", v.Show())
	case kind == Pooled:
		text = Pooled + "(" + strconv.Itoa(n) + ")"
	}
	return text, nil
}

// CheckInherited accepts the name of a variable of our own, or the beginning of one with a star. A lone star would pass
// on everything, Dragoman's own secrets included.
func CheckInherited(item string) error {
	switch {
	case item == "*":
		return &value.Problem{What: `"*" would hand over everything, Dragoman's own secrets too`, Fix: `name the variables, or what they begin with: ["SSH_AUTH_SOCK", "AWS_*"]`}
	case strings.Contains(item, "="):
		return &value.Problem{What: "has a \"=\" in it, but a name alone is wanted", Fix: "set variables below env: NAME = \"VALUE\""} // not repeated: the value may be secret
	case !value.Inheritable.MatchString(item):
		return value.Problemf("%q is not the name of a variable", value.Shorten(item))
	}
	return nil
}
