package schema

import (
	"math"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// maker makes random messages of any type.
type maker struct {
	*rand.Rand
	types    *Types
	contents []protoreflect.MessageDescriptor // of Any
	newer    bool                             // enums may have numbers without a name
	left     int                              // messages that may still be made
}

// start makes a random message of md.
func (r *maker) start(md protoreflect.MessageDescriptor) *dynamicpb.Message {
	r.left = 1 + r.IntN(60)
	return r.message(md, 1+r.IntN(8))
}

// message makes a message with messages in it, up to depth levels.
func (r *maker) message(md protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(md)
	if r.wellKnown(m, depth) {
		return m
	}
	r.left--
	share := 0.3 + r.Float64() // of the fields that are set
	fields := append([]protoreflect.FieldDescriptor{}, r.types.extensions[md.FullName()]...)
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if od := fd.ContainingOneof(); od == nil || od.IsSynthetic() {
			fields = append(fields, fd)
		}
	}
	for i := range md.Oneofs().Len() {
		if od := md.Oneofs().Get(i); !od.IsSynthetic() {
			fields = append(fields, od.Fields().Get(r.IntN(od.Fields().Len())))
		}
	}
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	for _, fd := range fields {
		needed := fd.Cardinality() == protoreflect.Required
		if !needed && (r.Float64() > share || (depth <= 0 || r.left <= 0) && (fd.Message() != nil || fd.IsMap())) {
			continue
		}
		if fd.IsExtension() {
			fd = dynamicpb.NewExtensionType(fd).TypeDescriptor()
		}
		r.set(m, fd, depth)
	}
	return m
}

func (r *maker) set(m *dynamicpb.Message, fd protoreflect.FieldDescriptor, depth int) {
	switch {
	case fd.IsMap():
		all := m.Mutable(fd).Map()
		for range r.IntN(4) {
			all.Set(r.scalar(fd.MapKey()).MapKey(), r.value(fd.MapValue(), depth))
		}
	case fd.IsList():
		all := m.Mutable(fd).List()
		for range r.IntN(4) {
			all.Append(r.value(fd, depth))
		}
	default:
		m.Set(fd, r.value(fd, depth))
	}
}

func (r *maker) value(fd protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	if fd.Message() != nil {
		return protoreflect.ValueOfMessage(r.message(fd.Message(), depth-1))
	}
	return r.scalar(fd)
}

// bits are random bits, often few or many of them.
func (r *maker) bits() uint64 {
	switch r.IntN(6) {
	case 0:
		return 0
	case 1:
		return math.MaxUint64
	case 2:
		return 1 << r.IntN(64)
	default:
		return r.Uint64() >> r.IntN(64)
	}
}

func (r *maker) scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(r.bits()))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(r.bits()))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(r.bits()))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(r.bits())
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(r.real(math.MaxFloat32)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(r.real(math.MaxFloat64))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(r.text())
	case protoreflect.BytesKind:
		raw := make([]byte, r.IntN(9))
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		return protoreflect.ValueOfBytes(raw)
	default:
		if r.newer && r.IntN(4) == 0 && fd.Enum().FullName() != nullValue {
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(r.bits())))
		}
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(r.IntN(values.Len())).Number())
	}
}

func (r *maker) real(most float64) float64 {
	switch r.IntN(8) {
	case 0:
		return math.NaN()
	case 1:
		return math.Inf(1 - 2*r.IntN(2))
	case 2:
		return most
	case 3:
		return math.Copysign(0, -1)
	case 4:
		return float64(r.IntN(1000))
	default:
		return r.NormFloat64() * math.Pow(10, float64(r.IntN(30)-15))
	}
}

var pieces = []string{"a", "Z", "9", " ", "\"", "\\", "\n", "\x00", "\u2028", "é", "水", "😀", "</script>", "true", "null", "-1", "2024-01-01T00:00:00Z"}

func (r *maker) text() string {
	var b strings.Builder
	for range r.IntN(5) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// wellKnown fills messages whose fields have rules of their own.
func (r *maker) wellKnown(m *dynamicpb.Message, depth int) bool {
	number := func(n protowire.Number) protoreflect.FieldDescriptor { return m.Descriptor().Fields().ByNumber(n) }
	nanos := func() int32 { return []int32{0, 1, 500_000_000, 120_000, 999_999_999}[r.IntN(5)] }
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		m.Set(number(1), protoreflect.ValueOfInt64(r.Int64N(253402300799+62135596800)-62135596800))
		m.Set(number(2), protoreflect.ValueOfInt32(nanos()))
	case "google.protobuf.Duration":
		sign := int32(1 - 2*r.IntN(2))
		m.Set(number(1), protoreflect.ValueOfInt64(int64(sign)*r.Int64N(315576000000)>>r.IntN(40)))
		if m.Get(number(1)).Int() < 0 {
			sign = -1
		} else {
			sign = 1
		}
		m.Set(number(2), protoreflect.ValueOfInt32(sign*nanos()))
	case "google.protobuf.FieldMask":
		for range r.IntN(3) {
			m.Mutable(number(1)).List().Append(protoreflect.ValueOfString([]string{"a", "user.display_name", "x1.y_z.w"}[r.IntN(3)]))
		}
	case "google.protobuf.Value":
		r.anyValue(m, depth)
	case "google.protobuf.Any":
		if r.IntN(8) == 0 {
			return true // empty
		}
		content := r.message(r.contents[r.IntN(len(r.contents))], min(depth-1, 1))
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(content)
		if err != nil {
			panic(err)
		}
		m.Set(number(1), protoreflect.ValueOfString("type.googleapis.com/"+string(content.Descriptor().FullName())))
		m.Set(number(2), protoreflect.ValueOfBytes(raw))
	default:
		return false
	}
	return true
}

func (r *maker) anyValue(m *dynamicpb.Message, depth int) {
	kinds := m.Descriptor().Fields()
	fd := kinds.Get(r.IntN(kinds.Len()))
	if depth <= 0 {
		fd = kinds.ByNumber(1)
	}
	switch fd.Kind() {
	case protoreflect.DoubleKind:
		m.Set(fd, protoreflect.ValueOfFloat64(r.NormFloat64()))
	default:
		m.Set(fd, r.value(fd, depth))
	}
}
