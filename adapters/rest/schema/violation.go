package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// Violation is what is wrong with the arguments. Of several it is the deepest; the order is always the same.
type Violation struct {
	Path    string // JSON Pointer (RFC 6901) to the value; "" is the arguments themselves; about 500 bytes at most
	Rule    string // the keyword that is violated; "json", "duplicate", "depth" or "number" for what no schema can allow
	Message string // what is expected, in words; about 300 bytes at most
	More    int    // the number of other violations
}

// String returns path, message and rule in one line.
func (v *Violation) String() string {
	if v.More > 0 {
		return fmt.Sprintf("%s: %s (%s; and %d more)", v.where(), v.Message, v.Rule, v.More)
	}
	return fmt.Sprintf("%s: %s (%s)", v.where(), v.Message, v.Rule)
}

func (v *Violation) where() string {
	if v.Path == "" {
		return "at the top"
	}
	return v.Path
}

// under puts a token before the path of a violation.
func (v *Violation) under(token string) *Violation {
	v.Path = shorten("/"+pointerToken(token)+v.Path, 500)
	return v
}

func pointerToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

// leaf is one failure.
type leaf struct {
	at      []string
	rule    string
	message string
}

// report picks the violation to report.
func report(err *js.ValidationError) *Violation {
	found := leaves(nil, err)
	if len(found) == 0 {
		return nil
	}
	best := slices.MinFunc(found, compare)
	v := &Violation{Rule: best.rule, Message: shorten(best.message, 300), More: len(found) - 1}
	path := ""
	for _, token := range best.at {
		path += "/" + pointerToken(token)
	}
	v.Path = shorten(path, 500)
	return v
}

// compare orders by depth, the deepest first; then by place, and by rule.
func compare(a, b leaf) int {
	return cmp.Or(-cmp.Compare(len(a.at), len(b.at)), slices.CompareFunc(a.at, b.at, byIndex),
		cmp.Compare(rank(a.rule), rank(b.rule)), cmp.Compare(a.rule, b.rule), cmp.Compare(a.message, b.message))
}

func byIndex(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX == nil && errY == nil && x != y {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}

func rank(rule string) int {
	switch rule {
	case "type":
		return 0
	case "required":
		return 1
	}
	return 2
}

func quote(s string) string { return strconv.Quote(shorten(s, 80)) }

// shorten cuts s to about n bytes, at the boundary of a character.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
