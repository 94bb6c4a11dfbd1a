package schema

import (
	"encoding/base64"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// numeric is a kind of number.
type numeric struct {
	rules  protowire.Number // in buf.validate.FieldRules
	wire   protowire.Type
	value  func(bits uint64) string // as a JSON number; empty for what is none
	schema func(input bool) *object
	long   bool // of 64 bits, a string in JSON
}

// numerics is the table of them.
var numerics = map[protoreflect.Kind]numeric{
	protoreflect.FloatKind:    {1, protowire.Fixed32Type, floatOf, float, false},
	protoreflect.DoubleKind:   {2, protowire.Fixed64Type, doubleOf, double, false},
	protoreflect.Int32Kind:    {3, protowire.VarintType, int32Of, short, false},
	protoreflect.Int64Kind:    {4, protowire.VarintType, int64Of, long, true},
	protoreflect.Uint32Kind:   {5, protowire.VarintType, uintOf, unsignedShort, false},
	protoreflect.Uint64Kind:   {6, protowire.VarintType, uintOf, unsignedLong, true},
	protoreflect.Sint32Kind:   {7, protowire.VarintType, zigzagOf, short, false},
	protoreflect.Sint64Kind:   {8, protowire.VarintType, zigzagOf, long, true},
	protoreflect.Fixed32Kind:  {9, protowire.Fixed32Type, uintOf, unsignedShort, false},
	protoreflect.Fixed64Kind:  {10, protowire.Fixed64Type, uintOf, unsignedLong, true},
	protoreflect.Sfixed32Kind: {11, protowire.Fixed32Type, int32Of, short, false},
	protoreflect.Sfixed64Kind: {12, protowire.Fixed64Type, int64Of, long, true},
}

func uintOf(bits uint64) string   { return strconv.FormatUint(bits, 10) }
func zigzagOf(bits uint64) string { return strconv.FormatInt(protowire.DecodeZigZag(bits), 10) }
func int64Of(bits uint64) string  { return strconv.FormatInt(int64(bits), 10) }        //nolint:gosec // the wire format of negative numbers
func int32Of(bits uint64) string  { return strconv.FormatInt(int64(int32(bits)), 10) } //nolint:gosec // the wire format of negative numbers

func floatOf(bits uint64) string {
	return realOf(float64(math.Float32frombits(uint32(bits))), 32) //nolint:gosec // read as 32 bits
}

func doubleOf(bits uint64) string { return realOf(math.Float64frombits(bits), 64) }

func realOf(f float64, size int) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	}
	return strconv.FormatFloat(f, 'g', -1, size)
}

func integer() *object { return (&object{}).text("type", "integer") }

func short(bool) *object {
	return integer().set("minimum", []byte("-2147483648")).set("maximum", []byte("2147483647"))
}

func unsignedShort(bool) *object {
	return integer().count("minimum", 0).count("maximum", math.MaxUint32)
}

func long(input bool) *object {
	o := longText(input, int64Pattern)
	if input {
		o.set("minimum", []byte("-9223372036854775808")).set("maximum", []byte("9223372036854775807"))
	}
	return o
}

func unsignedLong(input bool) *object {
	o := longText(input, uint64Pattern)
	if input {
		o.count("minimum", 0).count("maximum", math.MaxUint64)
	}
	return o
}

func longText(input bool, pattern string) *object {
	o := (&object{}).text("type", "string")
	if input {
		o.texts("type", []string{"string", "integer"})
	}
	return o.text("pattern", pattern)
}

func double(bool) *object {
	return (&object{}).texts("type", []string{"number", "string"}).text("pattern", `^(NaN|-?Infinity)$`)
}

// float excludes what would be rounded to infinity: protojson refuses it.
func float(input bool) *object {
	const tooLarge = "3.4028235677973366e38" // the largest float, and half of its last place
	return double(input).set("exclusiveMinimum", []byte("-"+tooLarge)).set("exclusiveMaximum", []byte(tooLarge))
}

// scalar returns the schema of a scalar that is no enum.
func scalar(kind protoreflect.Kind, input bool) *object {
	switch kind {
	case protoreflect.BoolKind:
		return (&object{}).text("type", "boolean")
	case protoreflect.StringKind:
		return (&object{}).text("type", "string")
	case protoreflect.BytesKind:
		o := (&object{}).text("type", "string").text("contentEncoding", "base64")
		if input { // results are ours, and the pattern takes longer than all else where bytes are many
			o.text("pattern", base64Pattern)
		}
		return o
	default:
		return numerics[kind].schema(input)
	}
}

// keys returns the schema of the names of a map's members; nil if all are allowed.
func keys(kind protoreflect.Kind) *object {
	switch kind {
	case protoreflect.StringKind:
		return nil
	case protoreflect.BoolKind:
		return (&object{}).texts("enum", []string{"true", "false"})
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return (&object{}).text("pattern", int32Pattern)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return (&object{}).text("pattern", uint32Pattern)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return (&object{}).text("pattern", int64Pattern)
	default:
		return (&object{}).text("pattern", uint64Pattern)
	}
}

// defaultOf returns the default that proto2 and editions declare, as JSON; nil if a field has none.
func defaultOf(fd protoreflect.FieldDescriptor) []byte {
	if !fd.HasDefault() {
		return nil
	}
	v := fd.Default()
	switch fd.Kind() {
	case protoreflect.EnumKind:
		return text(string(fd.DefaultEnumValue().Name()))
	case protoreflect.StringKind:
		return text(v.String())
	case protoreflect.BytesKind:
		return text(base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.BoolKind:
		return strconv.AppendBool(nil, v.Bool())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if n := realOf(v.Float(), 64); n != "" {
			return []byte(n)
		}
		return nil
	default:
		if numerics[fd.Kind()].long {
			return text(v.String())
		}
		return []byte(v.String())
	}
}
