package schema

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Fields of buf.validate.FieldRules, and of the rules in it, by their numbers (buf/validate/validate.proto 1.x). The rules of all kinds
// of numbers have the same.
const (
	rulesBool, rulesString, rulesBytes, rulesEnum, rulesList, rulesMap = 13, 14, 15, 16, 18, 19
	ruleRequired, ruleIgnore                                           = 25, 27

	numberConst, numberLt, numberLte, numberGt, numberGte, numberIn, numberNotIn, numberFinite = 1, 2, 3, 4, 5, 6, 7, 8
	enumConst, enumIn, enumNotIn                                                               = 1, 3, 4
	listMin, listMax, listUnique, listItems                                                    = 1, 2, 3, 4
	mapMin, mapMax, mapKeys, mapValues                                                         = 1, 2, 4, 5
	bytesLen, bytesMin, bytesMax                                                               = 13, 2, 3

	stringConst, stringLen, stringMin, stringMax, stringPattern = 1, 19, 2, 3, 6
	stringPrefix, stringSuffix, stringContains                  = 7, 8, 9
	stringIn, stringNotIn                                       = 10, 11

	oneofRequired = 1
)

// formats are the flags of buf.validate.StringRules that JSON Schema has a format for.
var formats = []struct {
	flag   protowire.Number
	format string
}{{12, "email"}, {13, "hostname"}, {15, "ipv4"}, {16, "ipv6"}, {17, "uri"}, {18, "uri-reference"}, {22, "uuid"}}

// fieldRules returns the buf.validate.FieldRules in the options of a field. A field whose rules do not count for its zero value has none
// here: a schema would have to say everything twice.
func fieldRules(opts encoded) encoded {
	rules := opts.message(validateOption)
	if rules.flag(ruleIgnore) {
		return nil
	}
	return rules
}

// constrain adds rules to the schema of one value of fd, and reports whether the type's zero value breaks them. Rules of wrappers are
// those of their values. Enums have their rules in enumNames.
func constrain(o *object, fd protoreflect.FieldDescriptor, rules encoded) bool {
	if len(rules) == 0 {
		return false
	}
	if md := fd.Message(); md != nil && wellKnown[md.FullName()].scalar {
		fd = md.Fields().ByNumber(1)
	}
	switch kind := fd.Kind(); kind {
	case protoreflect.MessageKind, protoreflect.GroupKind, protoreflect.EnumKind:
		return false
	case protoreflect.StringKind:
		return constrainString(o, rules.message(rulesString))
	case protoreflect.BytesKind:
		return constrainBytes(o, rules.message(rulesBytes))
	case protoreflect.BoolKind:
		want, ok := rules.message(rulesBool).number(1)
		if ok {
			o.set("const", strconv.AppendBool(nil, want != 0))
		}
		return ok && want != 0
	default:
		return constrainNumber(o, numerics[kind], rules.message(numerics[kind].rules))
	}
}

func constrainString(o *object, rules encoded) (zeroBroken bool) {
	if n, ok := rules.number(stringLen); ok {
		o.count("minLength", n).count("maxLength", n)
		zeroBroken = n > 0
	}
	if n, ok := rules.number(stringMin); ok {
		o.count("minLength", n)
		zeroBroken = zeroBroken || n > 0
	}
	if n, ok := rules.number(stringMax); ok {
		o.count("maxLength", n)
	}
	for _, f := range formats {
		if rules.flag(f.flag) {
			o.text("format", f.format)
			zeroBroken = zeroBroken || f.format != "uri-reference"
		}
	}
	if p := patternOf(rules); p != "" {
		o.text("pattern", p)
		matched, err := regexp.MatchString(p, "")
		zeroBroken = zeroBroken || err == nil && !matched
	}
	if v, ok := rules.text(stringConst); ok {
		o.text("const", v)
		zeroBroken = zeroBroken || v != ""
	}
	if in := rules.texts(stringIn); len(in) > 0 {
		o.texts("enum", in)
		zeroBroken = zeroBroken || !slices.Contains(in, "")
	}
	if out := rules.texts(stringNotIn); len(out) > 0 {
		o.object("not", (&object{}).texts("enum", out))
		zeroBroken = zeroBroken || slices.Contains(out, "")
	}
	return zeroBroken
}

// patternOf returns a pattern for the first of the rules that are one; empty if there is none.
func patternOf(rules encoded) string {
	if p, ok := rules.text(stringPattern); ok {
		if portable(p) {
			return p
		}
		return ""
	}
	if v, ok := rules.text(stringPrefix); ok {
		return "^" + regexp.QuoteMeta(v)
	}
	if v, ok := rules.text(stringSuffix); ok {
		return regexp.QuoteMeta(v) + "$"
	}
	if v, ok := rules.text(stringContains); ok {
		return regexp.QuoteMeta(v)
	}
	return ""
}

// maxPattern is the length from which a pattern is left to the server, in bytes.
const maxPattern = 1 << 10

var quantifier = regexp.MustCompile(`^\{[0-9]+(,[0-9]*)?\}`)

// portable reports whether RE2 and ECMA-262 with the flag u, which validators of JSON Schema use, read a pattern alike.
func portable(pattern string) bool {
	if _, err := regexp.Compile(pattern); err != nil || len(pattern) > maxPattern {
		return false
	}
	class := false
	for i := 0; i < len(pattern); i++ {
		switch rest := pattern[i:]; {
		case rest[0] == '\\':
			if len(rest) < 2 || !strings.ContainsRune(`^$\.*+?()[]{}|/dDwWbBnrtfv`, rune(rest[1])) && (!class || rest[1] != '-') {
				return false
			}
			i++
		case class:
			if strings.HasPrefix(rest, "[:") {
				return false
			}
			class = rest[0] != ']' || pattern[i-1] == '['
			if rest[0] == ']' && pattern[i-1] == '[' {
				return false // a literal ] in RE2, the end of an empty class in ECMA-262
			}
		case rest[0] == '[':
			class = true
			if strings.HasPrefix(rest, "[^]") {
				return false
			}
		case strings.HasPrefix(rest, "(?") && !strings.HasPrefix(rest, "(?:"):
			return false
		case rest[0] == '{':
			n := len(quantifier.FindString(rest))
			if n == 0 {
				return false
			}
			i += n - 1
		case rest[0] == '}' || rest[0] == ']':
			return false
		}
	}
	return true
}

// constrainBytes counts characters of base64 for bytes.
func constrainBytes(o *object, rules encoded) (zeroBroken bool) {
	characters := func(bytes uint64) uint64 { return (min(bytes, 1<<50) + 2) / 3 * 4 }
	atLeast := func(bytes uint64) uint64 { return (min(bytes, 1<<50)*8 + 5) / 6 } // without padding
	if n, ok := rules.number(bytesLen); ok {
		o.count("minLength", atLeast(n)).count("maxLength", characters(n))
		zeroBroken = n > 0
	}
	if n, ok := rules.number(bytesMin); ok {
		o.count("minLength", atLeast(n))
		zeroBroken = zeroBroken || n > 0
	}
	if n, ok := rules.number(bytesMax); ok {
		o.count("maxLength", characters(n))
	}
	return zeroBroken
}

func constrainNumber(o *object, as numeric, rules encoded) (zeroBroken bool) {
	last := func(number protowire.Number) string {
		all := rules.numbers(number, as.wire)
		if len(all) == 0 {
			return ""
		}
		return as.value(all[len(all)-1])
	}
	lt, lte, gt, gte := last(numberLt), last(numberLte), last(numberGt), last(numberGte)
	bounds := []struct {
		keyword, other, value string
		outside               bool // whether zero is
	}{
		{"minimum", "exclusiveMinimum", gte, positive(gte)},
		{"exclusiveMinimum", "minimum", gt, gt != "" && !strings.HasPrefix(gt, "-")},
		{"maximum", "exclusiveMaximum", lte, strings.HasPrefix(lte, "-")},
		{"exclusiveMaximum", "maximum", lt, lt != "" && !positive(lt)},
	}
	if lower, upper := gt+gte, lt+lte; lower != "" && upper != "" && !less(lower, upper) && (gte == "" || gte != lte) {
		bounds = nil // what is allowed lies outside of the two; JSON Schema would need two schemas
	}
	for _, b := range bounds {
		if b.value != "" {
			o.drop(b.other)
			o.set(b.keyword, []byte(b.value))
			zeroBroken = zeroBroken || b.outside
		}
	}
	if as.rules <= 2 && (zeroBroken || lt+lte+gt+gte != "" || rules.flag(numberFinite)) {
		o.text("type", "number").drop("pattern") // of floating point: NaN is within no bounds
	}
	in := rules.numbers(numberIn, as.wire)
	if all := rules.numbers(numberConst, as.wire); len(all) > 0 {
		in = all[len(all)-1:]
	}
	if allowed := as.literals(in); len(allowed) > 0 {
		o.list("enum", allowed)
		zeroBroken = zeroBroken || !slices.Contains(in, 0)
	}
	if out := rules.numbers(numberNotIn, as.wire); len(out) > 0 {
		o.object("not", (&object{}).list("enum", as.literals(out)))
		zeroBroken = zeroBroken || slices.Contains(out, 0)
	}
	return zeroBroken
}

// literals returns numbers as JSON: those of 64 bits in both notations.
func (n numeric) literals(all []uint64) (out [][]byte) {
	for _, bits := range all {
		v := n.value(bits)
		if v == "" {
			continue
		}
		if n.long {
			out = append(out, text(v))
		}
		out = append(out, []byte(v))
	}
	return out
}

func positive(number string) bool {
	f, err := strconv.ParseFloat(number, 64)
	return err == nil && f > 0
}

func less(a, b string) bool {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return x < y
}

// enumNames returns the names of an enum's values that rules allow. Without zero, those of the number 0 are left out.
func enumNames(ed protoreflect.EnumDescriptor, rules encoded, withoutZero bool) (names []string, zeroBroken bool) {
	of := rules.message(rulesEnum)
	in := of.numbers(enumIn, protowire.VarintType)
	if v, ok := of.number(enumConst); ok {
		in = []uint64{v}
	}
	out := of.numbers(enumNotIn, protowire.VarintType)
	zeroBroken = true
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		bits := uint64(int64(v.Number())) //nolint:gosec // the wire format of negative numbers
		if len(in) > 0 && !slices.Contains(in, bits) || slices.Contains(out, bits) || withoutZero && bits == 0 {
			continue
		}
		names = append(names, string(v.Name()))
		zeroBroken = zeroBroken && bits != 0
	}
	return names, zeroBroken && len(in)+len(out) > 0
}

// demand makes a schema refuse the zero value of a required field that has no presence, where protovalidate takes it for absent.
func demand(o *object, fd protoreflect.FieldDescriptor) {
	atLeastOne := func(keyword string) {
		if n := string(o.get(keyword)); n == "" || n == "0" {
			o.count(keyword, 1)
		}
	}
	switch kind := fd.Kind(); {
	case fd.IsMap():
		atLeastOne("minProperties")
	case fd.IsList():
		atLeastOne("minItems")
	case fd.HasPresence() || kind == protoreflect.EnumKind: // for enums see enumNames
	case kind == protoreflect.StringKind || kind == protoreflect.BytesKind:
		atLeastOne("minLength")
	case kind == protoreflect.BoolKind:
		o.yes("const")
	case o.index("not") < 0:
		o.object("not", (&object{}).list("enum", numerics[kind].literals([]uint64{0})))
	}
}
