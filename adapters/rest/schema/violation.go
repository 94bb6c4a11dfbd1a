package schema

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-json"
	js "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Violation describes an error in the arguments. Of several it is the deepest; the order is always the same.
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

// leaves appends the failures below err. Alternatives that all fail are one failure: that of the branch that was clearly meant, or
// that none holds.
func leaves(dst []leaf, err *js.ValidationError) []leaf {
	at := err.InstanceLocation
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		for _, cause := range err.Causes {
			dst = leaves(dst, cause)
		}
		return dst
	case *kind.AnyOf:
		return append(dst, alternatives(at, "anyOf", err.Causes)...)
	case *kind.OneOf:
		if len(k.Subschemas) == 2 {
			both := fmt.Sprintf("alternatives %d and %d both hold; exactly one may", k.Subschemas[0]+1, k.Subschemas[1]+1)
			return append(dst, leaf{at, "oneOf", both})
		}
		return append(dst, alternatives(at, "oneOf", err.Causes)...)
	case *kind.PropertyNames:
		message := "the name " + quote(k.Property) + " is not allowed"
		for _, cause := range err.Causes {
			if why := leaves(nil, cause); len(why) > 0 {
				message += ": " + why[0].message
				break
			}
		}
		return append(dst, leaf{at, "propertyNames", message})
	case nil:
		return dst
	}
	rule, message := describe(err.ErrorKind)
	return append(dst, leaf{at, rule, message})
}

// alternatives returns the failures of the branch that was meant, if that is clear: the only one that does not fail at the value
// itself, or at a constant directly below it, which is how variants are told apart.
func alternatives(at []string, rule string, branches []*js.ValidationError) []leaf {
	all := make([][]leaf, len(branches))
	var wanted []string
	for i, branch := range branches {
		all[i] = leaves(nil, branch)
		if k, ok := sole(branch).(*kind.Type); ok && len(all[i]) == 1 && len(all[i][0].at) == len(at) {
			wanted = append(wanted, k.Want...)
		}
	}
	for _, slack := range []int{0, 1} {
		var meant [][]leaf
		for _, found := range all {
			if !slices.ContainsFunc(found, func(l leaf) bool { return rulesOut(l, len(at), slack) }) {
				meant = append(meant, found)
			}
		}
		if len(meant) == 1 {
			return meant[0]
		}
	}
	message := fmt.Sprintf("none of the %d alternatives holds", len(branches))
	if len(wanted) > 0 && len(wanted) >= len(branches) {
		slices.Sort(wanted)
		message = "must be " + strings.Join(slices.Compact(wanted), " or ")
	}
	return []leaf{{at, rule, message}}
}

// sole returns the kind of the only cause of an error, or of the error itself if it has several.
func sole(err *js.ValidationError) js.ErrorKind {
	for len(err.Causes) == 1 {
		err = err.Causes[0]
	}
	return err.ErrorKind
}

// rulesOut reports whether a failure shows that another branch was meant.
func rulesOut(l leaf, depth, slack int) bool {
	switch l.rule {
	case "type", "const", "enum":
		return len(l.at) == depth || slack == 1 && len(l.at) == depth+1 && l.rule != "type"
	}
	return false
}

// describe returns the keyword and the message of a failure.
func describe(k js.ErrorKind) (rule, message string) {
	switch k := k.(type) {
	case *kind.Type:
		return "type", "must be " + strings.Join(k.Want, " or ") + ", is " + k.Got
	case *kind.Const:
		return "const", "must be " + show(k.Want)
	case *kind.Enum:
		return "enum", "must be one of " + list(k.Want, show)
	case *kind.Required:
		return "required", "property " + list(k.Missing, quote) + " is missing"
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		return "additionalProperties", "property " + list(k.Properties, quote) + " is not known"
	case *kind.DependentRequired:
		return "dependentRequired", "property " + list(k.Missing, quote) + " is missing, which " + quote(k.Prop) + " needs"
	case *kind.Dependency:
		return "dependencies", "property " + list(k.Missing, quote) + " is missing, which " + quote(k.Prop) + " needs"
	case *kind.Not:
		return "not", "must not be what the schema rules out"
	case *kind.FalseSchema:
		return "false", "nothing is allowed here"
	case *kind.UniqueItems:
		return "uniqueItems", fmt.Sprintf("elements %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		return "additionalItems", fmt.Sprintf("the last %d elements are not known", k.Count)
	case *kind.Contains:
		return "contains", "no element matches, and one must"
	case *kind.Pattern:
		return "pattern", "must match " + quote(k.Want)
	}
	return describeSize(k)
}

func describeSize(k js.ErrorKind) (rule, message string) {
	switch k := k.(type) {
	case *kind.MinContains:
		return "minContains", fmt.Sprintf("%d of the elements match, and at least %d must", len(k.Got), k.Want)
	case *kind.MaxContains:
		return "maxContains", fmt.Sprintf("%d of the elements match, and at most %d may", len(k.Got), k.Want)
	case *kind.MinLength:
		return "minLength", fmt.Sprintf("must have at least %d characters, has %d", k.Want, k.Got)
	case *kind.MaxLength:
		return "maxLength", fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got)
	case *kind.MinItems:
		return "minItems", fmt.Sprintf("must have at least %d elements, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		return "maxItems", fmt.Sprintf("must have at most %d elements, has %d", k.Want, k.Got)
	case *kind.MinProperties:
		return "minProperties", fmt.Sprintf("must have at least %d properties, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return "maxProperties", fmt.Sprintf("must have at most %d properties, has %d", k.Want, k.Got)
	case *kind.Minimum:
		return "minimum", "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "maximum", "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "exclusiveMinimum", "must be greater than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "exclusiveMaximum", "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "multipleOf", "must be a multiple of " + decimal(k.Want)
	}
	if path := k.KeywordPath(); len(path) > 0 {
		return path[0], "does not hold"
	}
	return "schema", "does not hold"
}

// decimal formats a number of the schema, exactly if that is short.
func decimal(r *big.Rat) string {
	if n, exact := r.FloatPrec(); exact {
		if text := r.FloatString(n); len(text) <= 30 {
			return text
		}
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}

func show(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case json.Number:
		return shorten(string(v), 80)
	case []any, map[string]any:
		return "what the schema says"
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}

// most is how many names or values a message lists.
const most = 8

func list[T any](values []T, show func(T) string) string {
	var texts []string
	for _, v := range values[:min(len(values), most)] {
		texts = append(texts, show(v))
	}
	if n := len(values) - len(texts); n > 0 {
		texts = append(texts, fmt.Sprintf("%d more", n))
	}
	return strings.Join(texts, ", ")
}
