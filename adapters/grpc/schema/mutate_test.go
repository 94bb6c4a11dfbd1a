package schema

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/goccy/go-json"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// exceptions are the documented cases in which schema and protojson differ: whether the schema accepts. protojson does the opposite.
var exceptions = map[string]bool{
	// protojson reads more than it writes.
	"null for an absent field":              false,
	"original name of a field":              false,
	"number in a string":                    false,
	"exponent of an integer in a string":    false,
	"number of an enum value":               false,
	"name of NullValue":                     false,
	"URL alphabet of base64":                false,
	"unusual spelling of a time or span":    false,
	"unusual spelling of an integer as key": false,
	// A schema cannot say it, or only in patterns that nobody reads.
	"as many digits as the largest integer": true,
	"span over 10,000 years":                true,
	"day that the month does not have":      true,
	"year 0":                                true,
	"impossible length of base64":           true,
	"number beyond the range of a double":   true,
	"content of Any":                        true,
}

// variant is a value to put in the place of another, which is an exception or not.
type variant struct {
	value     any
	exception string
}

func plain(values ...any) (out []variant) {
	for _, v := range values {
		out = append(out, variant{value: v})
	}
	return out
}

func number(text string) json.Number { return json.Number(text) }

var (
	object0 = map[string]any{}
	array0  = []any{}
)

// variants are what a value of a kind is replaced with. A plain one may be right or wrong: both have to say the same.
var variants = map[string][]variant{
	"bool": plain(true, "true", number("1"), object0, array0),
	"int32": append(plain(number("1.5"), number("3.0"), number("1e2"), number("-7"), number("2147483648"), number("-2147483649"), number("4294967296"), number("1e30"), "x", "", true, object0, array0),
		variant{"12", "number in a string"}),
	"uint32": append(plain(number("1.5"), number("3.0"), number("-1"), number("4294967296"), number("4294967295"), number("-0"), "x", true, object0),
		variant{"12", "number in a string"}),
	"int64": append(plain(number("5"), number("1.5"), number("9223372036854775808"), number("-9223372036854775808"), "-9223372036854775808", "1.5", "007", " 1", "", "92233720368547758080", true, object0),
		variant{"1e2", "exponent of an integer in a string"}, variant{"9223372036854775808", "as many digits as the largest integer"}),
	"uint64": append(plain(number("5"), number("-1"), "-1", "+1", "0", number("18446744073709551616"), "18446744073709551615", "184467440737095516150", false, array0),
		variant{"1.0", "exponent of an integer in a string"}, variant{"18446744073709551616", "as many digits as the largest integer"}),
	"float": append(plain("NaN", "-Infinity", "+Infinity", "nan", number("3.4028235e38"), number("3.5e38"), number("-3.5e38"), number("1e-390"), number("0.1"), true, object0),
		variant{"1.5", "number in a string"}),
	"double": append(plain("NaN", "Infinity", "inf", number("1e308"), number("-0"), true, object0, array0),
		variant{"1e5", "number in a string"}, variant{number("1e390"), "number beyond the range of a double"}),
	"string": plain("", "x\u0000y", number("1"), true, object0, array0),
	"bytes": append(plain("", "QUI=", "QQ", "!!!!", "QQ==QQ==", "Q Q=", number("1"), array0),
		variant{"a-_b", "URL alphabet of base64"}, variant{"Q", "impossible length of base64"}, variant{"QQ=", "impossible length of base64"}),
	"enum":    append(plain("NOPE", "", number("1.5"), true, object0, array0), variant{number("1"), "number of an enum value"}),
	"null":    append(plain(nil, "x", true, number("1.5"), object0), variant{"NULL_VALUE", "name of NullValue"}, variant{number("0"), "number of an enum value"}),
	"message": plain(array0, "x", number("1"), true, map[string]any{"": nil}),
	"list":    plain(object0, "x", number("1"), []any{nil}, []any{[]any{}}, []any{map[string]any{"nobody": "x"}}),
	"google.protobuf.Timestamp": append(plain("yesterday", "", "2024-02-29T23:59:59.123456789Z", "2024-13-01T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00", "2024-01-01T00:00:00+01:00",
		"2024-01-01t00:00:00z", "2024-01-01T00:00:00.1234567890Z", "2024-01-01", "10000-01-01T00:00:00Z", number("1"), object0),
		variant{"2024-02-30T00:00:00Z", "day that the month does not have"}, variant{"0000-06-01T00:00:00Z", "year 0"}, variant{"2024-01-01T00:00:00,5Z", "unusual spelling of a time or span"}),
	"google.protobuf.Duration": append(plain("1s", "-1.5s", "0s", "5", "5m", "1.1234567890s", "s", "", "1 s", "315576000000s", "1000000000000s", number("1"), object0),
		variant{"999999999999s", "span over 10,000 years"}, variant{".5s", "unusual spelling of a time or span"}, variant{"+1s", "unusual spelling of a time or span"}, variant{"1.s", "unusual spelling of a time or span"}),
	"google.protobuf.FieldMask": plain("", "a", "a.bC,d", "a_b", "a..b", "a,", ",", "1a", "a b", "é", number("1"), array0),
	"google.protobuf.Struct":    plain(object0, map[string]any{"x": nil, "": array0}, array0, "x", number("1")),
	"google.protobuf.ListValue": plain(array0, []any{nil, object0, number("1")}, object0, "x"),
	"google.protobuf.Value":     plain(nil, true, "x", number("1"), object0, array0, []any{nil}),
	"google.protobuf.Any": append(plain(object0, map[string]any{"x": true}, map[string]any{"@type": ""}, map[string]any{"@type": number("1")}, array0, "x"),
		variant{map[string]any{"@type": "type.googleapis.com/no.such.Type"}, "content of Any"}),
	"google.protobuf.Empty": plain(object0, map[string]any{"x": true}, array0, "x"),
}

var kinds = map[protoreflect.Kind]string{
	protoreflect.BoolKind: "bool", protoreflect.StringKind: "string", protoreflect.BytesKind: "bytes", protoreflect.FloatKind: "float", protoreflect.DoubleKind: "double",
	protoreflect.Int32Kind: "int32", protoreflect.Sint32Kind: "int32", protoreflect.Sfixed32Kind: "int32", protoreflect.Uint32Kind: "uint32", protoreflect.Fixed32Kind: "uint32",
	protoreflect.Int64Kind: "int64", protoreflect.Sint64Kind: "int64", protoreflect.Sfixed64Kind: "int64", protoreflect.Uint64Kind: "uint64", protoreflect.Fixed64Kind: "uint64",
}

// kindOf returns the key of variants for one value of a field.
func kindOf(fd protoreflect.FieldDescriptor) string {
	if md := fd.Message(); md != nil {
		switch k := wellKnown[md.FullName()]; {
		case k.scalar:
			return kinds[md.Fields().ByNumber(1).Kind()]
		case k.schema != nil || md.FullName() == "google.protobuf.Empty":
			return string(md.FullName())
		}
		return "message"
	}
	if ed := fd.Enum(); ed != nil {
		if ed.FullName() == nullValue {
			return "null"
		}
		return "enum"
	}
	return kinds[fd.Kind()]
}

// site is a place in arguments where something can be changed.
type site struct {
	change    func()
	exception string
	what      string
	value     any
}

func (s site) key() string { return fmt.Sprint(s.what, s.value) }

// sites collects the places of a tree of JSON that describes a message.
type sites struct {
	subject
	all []site
}

func (s *sites) add(what string, value any, exception string, change func()) {
	s.all = append(s.all, site{change, exception, what, value})
}

// replace adds the variants of a kind for one value.
func (s *sites) replace(kind string, set func(any)) {
	for _, v := range variants[kind] {
		s.add(kind, v.value, v.exception, func() { set(v.value) })
	}
}

func (s *sites) message(md protoreflect.MessageDescriptor, o map[string]any) {
	if k := wellKnown[md.FullName()]; k.schema != nil || k.scalar {
		return
	}
	s.add("unknown member", nil, "", func() { o["nobodyHasThisName"] = true })
	fields := map[string]protoreflect.FieldDescriptor{}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		fields[fd.JSONName()] = fd
		if fd.Cardinality() == protoreflect.Required {
			s.add("missing required field", nil, "", func() { delete(o, fd.JSONName()) })
		}
	}
	for _, x := range s.types.extensions[md.FullName()] {
		fields[x.JSONName()] = x
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		fd := fields[name]
		if fd == nil {
			continue
		}
		s.field(md, fd, o, name)
		if od := fd.ContainingOneof(); od != nil && !od.IsSynthetic() {
			for i := range od.Fields().Len() {
				if other := od.Fields().Get(i); other != fd && other.Kind() == protoreflect.StringKind {
					s.add("two members of a oneof", nil, "", func() { o[other.JSONName()] = "x" })
				}
			}
		}
	}
}

func (s *sites) field(md protoreflect.MessageDescriptor, fd protoreflect.FieldDescriptor, o map[string]any, name string) {
	set := func(v any) { o[name] = v }
	if kind := kindOf(fd); fd.IsList() || fd.IsMap() || kind != "google.protobuf.Value" && kind != "null" {
		exception := "null for an absent field"
		if fd.Cardinality() == protoreflect.Required {
			exception = "" // it is missing then
		}
		s.add("absent", nil, exception, func() { set(nil) })
	}
	if original := fd.TextName(); original != name && md.Fields().ByJSONName(original) == nil && fd.Cardinality() != protoreflect.Required {
		s.add("original name", nil, "original name of a field", func() {
			o[original] = o[name]
			delete(o, name)
		})
	}
	switch v := o[name].(type) {
	case map[string]any:
		if !fd.IsMap() {
			s.value(fd, v, set)
			return
		}
		s.replace("message", set) // an object is wanted; none of the variants is one with names that are keys
		for _, key := range slices.Sorted(maps.Keys(v)) {
			s.value(fd.MapValue(), v[key], func(x any) { v[key] = x })
			s.keys(fd, v, key)
		}
	case []any:
		if !fd.IsList() {
			s.value(fd, v, set)
			return
		}
		for _, other := range variants["list"] {
			if _, isList := other.value.([]any); !isList {
				s.add("list", other.value, "", func() { set(other.value) })
			}
		}
		for i := range v {
			s.value(fd, v[i], func(x any) { v[i] = x })
		}
	default:
		s.value(fd, v, set)
	}
}

// keys changes a key of a map.
func (s *sites) keys(fd protoreflect.FieldDescriptor, o map[string]any, key string) {
	rename := func(to, exception string) {
		if _, taken := o[to]; !taken {
			s.add("key", to, exception, func() { o[to] = o[key] })
		}
	}
	switch kind := kinds[fd.MapKey().Kind()]; kind {
	case "bool":
		rename("yes", "")
		rename("True", "")
	case "string":
		rename("anything", "")
	default:
		rename("x", "")
		rename("1.0", "")
		rename("", "")
		if kind[0] == 'i' {
			rename("+77", "unusual spelling of an integer as key")
		}
		rename("0077", "unusual spelling of an integer as key")
		rename(map[string]string{"int32": "2147483648", "uint32": "4294967296", "int64": "-9223372036854775809", "uint64": "18446744073709551616"}[kind], "as many digits as the largest integer")
	}
}

// value adds the changes of one value.
func (s *sites) value(fd protoreflect.FieldDescriptor, v any, set func(any)) {
	kind := kindOf(fd)
	if v == nil && kind != "google.protobuf.Value" && kind != "null" {
		return
	}
	s.replace(kind, set)
	if o, ok := v.(map[string]any); ok && kind == "message" {
		s.message(fd.Message(), o)
	}
}

// Changed arguments are accepted by schema and codec alike, or by neither, but for the exceptions.
func TestMutations(t *testing.T) {
	all := subjects(t)
	t.Parallel()
	accepted, tried, seen, made := 0, 0, map[string]int{}, map[string]int{}
	for i := range *rounds {
		s := all[i%len(all)]
		json := s.arguments(t, s.maker.start(s.Method.Input()))
		chosen, changed := s.mutate(t, json, made)
		if changed == nil {
			continue
		}
		exception := chosen.exception
		tried++
		_, err := s.Request(changed)
		v := violation(t, s.InputSchema, changed)
		if err == nil {
			accepted++
		}
		seen[exception]++
		if (v == nil) != (err == nil) != (exception != "") || exception != "" && (v == nil) != exceptions[exception] {
			t.Errorf("%s, %s %#v, exception %q:\nschema %v\ncodec %v\n%s", s.Tool.Name, chosen.what, chosen.value, exception, v, err, clip(changed))
		}
	}
	t.Logf("%d changed in %d ways, %d of them accepted by protojson; exceptions %v", tried, len(made), accepted, seen)
	for name := range exceptions {
		if seen[name] == 0 && *rounds >= messages {
			t.Errorf("exception %q occurred %d times", name, seen[name])
		}
	}
}

// mutate changes arguments in one place. made counts the changes of each kind.
func (s subject) mutate(t *testing.T, raw []byte, made map[string]int) (chosen site, changed []byte) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	found := &sites{subject: s}
	if md := s.Method.Input(); wraps(md) {
		kind := string(md.FullName())
		found.replace(kind, func(v any) { tree["value"] = v })
	} else {
		found.message(md, tree)
	}
	if len(found.all) == 0 {
		return site{}, nil
	}
	// The change that was made least often, so that rare ones are made, too.
	s.maker.Shuffle(len(found.all), func(i, j int) { found.all[i], found.all[j] = found.all[j], found.all[i] })
	chosen = slices.MinFunc(found.all, func(a, b site) int { return made[a.key()] - made[b.key()] })
	made[chosen.key()]++
	chosen.change()
	changed, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return chosen, changed
}
