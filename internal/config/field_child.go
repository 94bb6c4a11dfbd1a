package config

import (
	"regexp"
	"strconv"
	"strings"
)

// maxPool is how many sessions or children a pool may have.
const maxPool = 1000

// Kinds of isolation, see [ParseIsolation].
const (
	perSession   = "session"
	PerPrincipal = "principal"
	Pooled       = "pool"
	SharedByAll  = "shared"
)

var poolForm = regexp.MustCompile(`^pool\s*\(\s*([0-9]+)\s*\)$`)

// parseIsolation reads "session", "principal", "pool(N)" or "shared". It knows
// no bounds of N; a number too large to count counts as 0.
func parseIsolation(text string) (kind string, n int, ok bool) {
	if m := poolForm.FindStringSubmatch(text); m != nil {
		n, _ = strconv.Atoi(m[1])
		return Pooled, n, true
	}
	switch text {
	case perSession, PerPrincipal, SharedByAll:
		return text, 0, true
	}
	return "", 0, false
}

// isolationField is who shares a session or child.
type isolationField struct{ at *string }

func (f isolationField) Set(v Literal) error {
	text, isText := v.plainText()
	if !isText {
		return problemf("must be text, not %s", v.show())
	}
	kind, n, ok := parseIsolation(text)
	switch {
	case !ok && strings.HasPrefix(text, Pooled):
		return &problem{what: v.show() + " does not say how many", fix: `write "pool(4)" for four`}
	case !ok:
		if near := Nearest(text, []string{perSession, PerPrincipal, Pooled, SharedByAll}); near != "" {
			return problemf("%s is not known; did you mean %q?", v.show(), near)
		}
		return problemf("%s is not known", v.show())
	case kind == Pooled && (n < 1 || n > maxPool):
		return problemf("%s is out of range", v.show())
	case kind == Pooled:
		text = Pooled + "(" + strconv.Itoa(n) + ")"
	}
	*f.at = text
	return nil
}

func (f isolationField) text() string { return Quote(*f.at) }
func (f isolationField) Allowed() string {
	return "session, principal, pool(N) with N from 1 to 1000, or shared"
}

// checkInherited accepts the name of a variable of our own. A lone star would
// hand over everything, Dragoman's own secrets too.
func checkInherited(item string) error {
	switch {
	case item == "*":
		return &problem{what: `"*" would hand over everything, Dragoman's own secrets too`, fix: `name the variables, or what they begin with: ["SSH_AUTH_SOCK", "AWS_*"]`}
	case strings.Contains(item, "="):
		return &problem{what: "has a \"=\" in it, but a name alone is wanted", fix: "set variables below env: NAME = \"VALUE\""} // not repeated: the value may be secret
	case !inheritable.MatchString(item):
		return problemf("%q is not the name of a variable", Shorten(item))
	}
	return nil
}
