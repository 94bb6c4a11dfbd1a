// Package fill makes messages of any type: every field has a value, of every oneof one member has.
package fill

import (
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// deepest is the level below which messages are left out, so that messages that contain themselves end.
const deepest = 5

// Message fills an empty message with what r chooses. All of it has a notation in protobuf's JSON. Messages of google.protobuf other than
// Timestamp stay unset.
func Message(m protoreflect.Message, r *rand.Rand) { fill(m, r, 0) }

func fill(m protoreflect.Message, r *rand.Rand, depth int) {
	d := m.Descriptor()
	if d.FullName() == "google.protobuf.Timestamp" {
		m.Set(d.Fields().ByName("seconds"), protoreflect.ValueOfInt64(r.Int64N(1<<37)))
		m.Set(d.Fields().ByName("nanos"), protoreflect.ValueOfInt32(r.Int32N(1e9)))
		return
	}
	chosen := map[protoreflect.FullName]protoreflect.FieldDescriptor{}
	for i := range d.Oneofs().Len() {
		of := d.Oneofs().Get(i)
		chosen[of.FullName()] = of.Fields().Get(r.IntN(of.Fields().Len()))
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if of := f.ContainingOneof(); of != nil && chosen[of.FullName()] != f {
			continue
		}
		switch {
		case f.IsMap():
			if left(f.MapValue(), depth) {
				continue
			}
			entries := m.Mutable(f).Map()
			for range r.IntN(3) {
				value := entries.NewValue()
				if f.MapValue().Message() != nil {
					fill(value.Message(), r, depth+1)
				} else {
					value = scalar(f.MapValue(), r)
				}
				entries.Set(scalar(f.MapKey(), r).MapKey(), value)
			}
		case left(f, depth):
		case f.IsList():
			items := m.Mutable(f).List()
			for range r.IntN(3) {
				if f.Message() != nil {
					fill(items.AppendMutable().Message(), r, depth+1)
				} else {
					items.Append(scalar(f, r))
				}
			}
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), r, depth+1)
		default:
			m.Set(f, scalar(f, r))
		}
	}
}

// left reports whether a field stays unset.
func left(f protoreflect.FieldDescriptor, depth int) bool {
	m := f.Message()
	return m != nil && (depth >= deepest || m.ParentFile().Package() == "google.protobuf" && m.Name() != "Timestamp")
}

var (
	texts  = []string{"", "a", "ä ☺ 𝄞", "\"\\\n\t\u2028</script>", "9007199254740993"}
	floats = []float64{0, -1.5, 3.0000000001, 1e30, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}
)

func scalar(f protoreflect.FieldDescriptor, r *rand.Rand) protoreflect.Value {
	whole := r.Uint64() >> r.IntN(64)
	if r.IntN(2) == 0 {
		whole = -whole
	}
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(whole%2 == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(r.IntN(f.Enum().Values().Len())).Number())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(whole)) //nolint:gosec // any value will do
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(whole)) //nolint:gosec // any value will do
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(whole)) //nolint:gosec // any value will do
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(whole)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(floats[r.IntN(len(floats))]))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(floats[r.IntN(len(floats))])
	case protoreflect.BytesKind:
		raw := make([]byte, r.IntN(5))
		for i := range raw {
			raw[i] = byte(r.IntN(256)) //nolint:gosec // it fits
		}
		return protoreflect.ValueOfBytes(raw)
	default:
		return protoreflect.ValueOfString(texts[r.IntN(len(texts))])
	}
}
