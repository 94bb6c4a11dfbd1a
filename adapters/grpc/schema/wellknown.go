package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// known is a message that ProtoJSON writes in its own notation.
type known struct {
	shape  string         // what protojson relies on, as shape writes it
	schema func() *object // nil for wrappers, and for messages like any other
	// wraps is true if the JSON is no object, so that arguments and results need one around it.
	wraps bool
	// scalar is true for wrappers, whose schema is that of their field.
	scalar bool
}

// wellKnown is the table of these messages (google/protobuf/*.proto, ProtoJSON Format).
var wellKnown = map[protoreflect.FullName]known{
	"google.protobuf.Any":         {shape: "1 string,2 bytes", schema: anySchema},
	"google.protobuf.Empty":       {}, // like any message without fields
	"google.protobuf.Struct":      {shape: "1 map string google.protobuf.Value", schema: typed("object")},
	"google.protobuf.ListValue":   {shape: "1 list google.protobuf.Value", schema: typed("array"), wraps: true},
	"google.protobuf.Value":       {shape: "1 google.protobuf.NullValue kind,2 double kind,3 string kind,4 bool kind,5 google.protobuf.Struct kind,6 google.protobuf.ListValue kind", schema: valueSchema, wraps: true},
	"google.protobuf.Timestamp":   {shape: "1 int64,2 int32", schema: timestampSchema, wraps: true},
	"google.protobuf.Duration":    {shape: "1 int64,2 int32", schema: durationSchema, wraps: true},
	"google.protobuf.FieldMask":   {shape: "1 list string", schema: fieldMaskSchema, wraps: true},
	"google.protobuf.BoolValue":   {shape: "1 bool", wraps: true, scalar: true},
	"google.protobuf.Int32Value":  {shape: "1 int32", wraps: true, scalar: true},
	"google.protobuf.Int64Value":  {shape: "1 int64", wraps: true, scalar: true},
	"google.protobuf.UInt32Value": {shape: "1 uint32", wraps: true, scalar: true},
	"google.protobuf.UInt64Value": {shape: "1 uint64", wraps: true, scalar: true},
	"google.protobuf.FloatValue":  {shape: "1 float", wraps: true, scalar: true},
	"google.protobuf.DoubleValue": {shape: "1 double", wraps: true, scalar: true},
	"google.protobuf.StringValue": {shape: "1 string", wraps: true, scalar: true},
	"google.protobuf.BytesValue":  {shape: "1 bytes", wraps: true, scalar: true},
}

// nullValue is the enum whose only value is null in JSON.
const nullValue = protoreflect.FullName("google.protobuf.NullValue")

// Patterns of the notations that protojson writes. They are of the common part of RE2 and ECMA-262.
const (
	int32Pattern  = `^-?(0|[1-9][0-9]{0,9})$`
	uint32Pattern = `^(0|[1-9][0-9]{0,9})$`
	int64Pattern  = `^-?(0|[1-9][0-9]{0,18})$`
	uint64Pattern = `^(0|[1-9][0-9]{0,19})$`
	// base64Pattern runs in one pass, unlike one that counts characters. Texts may be long.
	base64Pattern = `^[A-Za-z0-9+/]*={0,2}$`
	timePattern   = `^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	spanPattern   = `^-?(0|[1-9][0-9]{0,11})(\.[0-9]{1,9})?s$`
	maskPattern   = `^([A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*(,[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*)*)?$`
)

func typed(name string) func() *object {
	return func() *object { return (&object{}).text("type", name) }
}

func anySchema() *object {
	url := (&object{}).text("type", "string").count("minLength", 1).note("URL of the message type, such as type.googleapis.com/google.protobuf.Duration")
	return (&object{}).text("type", "object").object("properties", (&object{}).object("@type", url)).
		object("if", (&object{}).count("minProperties", 1)).object("then", (&object{}).texts("required", []string{"@type"}))
}

func valueSchema() *object { return (&object{}).note("Any JSON value") }

func timestampSchema() *object {
	return (&object{}).text("type", "string").text("format", "date-time").text("pattern", timePattern)
}

func durationSchema() *object {
	return (&object{}).text("type", "string").text("pattern", spanPattern).note("Seconds, such as 1.5s")
}

func fieldMaskSchema() *object {
	return (&object{}).text("type", "string").text("pattern", maskPattern).note("Paths of fields, such as user.displayName,photo")
}

// wraps reports whether the JSON of a message is no object.
func wraps(md protoreflect.MessageDescriptor) bool { return wellKnown[md.FullName()].wraps }

// checkWellKnown compares the well-known types of a descriptor set with what protojson relies on: it would panic at others.
func checkWellKnown(files *protoregistry.Files) error {
	for name, want := range wellKnown {
		d, err := files.FindDescriptorByName(name)
		if err != nil {
			continue // not in the set
		}
		md, ok := d.(protoreflect.MessageDescriptor)
		if !ok || shape(md) != want.shape {
			return notWellKnown(name)
		}
	}
	if d, err := files.FindDescriptorByName(nullValue); err == nil {
		ed, ok := d.(protoreflect.EnumDescriptor)
		if !ok || ed.Values().Len() != 1 || ed.Values().Get(0).Number() != 0 {
			return notWellKnown(nullValue)
		}
	}
	return nil
}

func notWellKnown(name protoreflect.FullName) error {
	return fmt.Errorf("grpc: %s of the descriptor set is not the well-known type of this name; fix: take it from protobuf's own files", name)
}

// shape writes number, type and oneof of each field.
func shape(md protoreflect.MessageDescriptor) string {
	fields := make([]protoreflect.FieldDescriptor, md.Fields().Len())
	for i := range fields {
		fields[i] = md.Fields().Get(i)
	}
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	out := make([]string, len(fields))
	for i, fd := range fields {
		switch {
		case fd.IsMap():
			out[i] = fmt.Sprintf("%d map %s %s", fd.Number(), typeName(fd.MapKey()), typeName(fd.MapValue()))
		case fd.IsList():
			out[i] = fmt.Sprintf("%d list %s", fd.Number(), typeName(fd))
		case fd.ContainingOneof() != nil:
			out[i] = fmt.Sprintf("%d %s %s", fd.Number(), typeName(fd), fd.ContainingOneof().Name())
		default:
			out[i] = fmt.Sprintf("%d %s", fd.Number(), typeName(fd))
		}
	}
	return strings.Join(out, ",")
}

func typeName(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.Message() != nil:
		return string(fd.Message().FullName())
	case fd.Enum() != nil:
		return string(fd.Enum().FullName())
	}
	return fd.Kind().String()
}
