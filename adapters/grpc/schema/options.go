package schema

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Numbers of options that are extensions. Options are read from their bytes, so that their files need neither be in the descriptor
// set nor in the binary.
const (
	validateOption  = 1159     // buf/validate/validate.proto: of fields, oneofs
	behaviourOption = 1052     // google/api/field_behavior.proto
	httpOption      = 72295728 // google/api/annotations.proto
)

// Values of google.api.FieldBehavior.
const (
	behaviourRequired   = 2
	behaviourOutputOnly = 3
	behaviourInputOnly  = 4
)

// encoded is a message in the protobuf wire format.
type encoded []byte

// option is one field of a message.
type option struct {
	number protowire.Number
	kind   protowire.Type
	bits   uint64 // a varint, or 32 or 64 fixed bits
	bytes  encoded
}

// options returns the options of a declaration.
func options(d protoreflect.Descriptor) encoded {
	raw, err := proto.MarshalOptions{AllowPartial: true}.Marshal(d.Options())
	if err != nil {
		return nil // options say how to check, not what to send
	}
	return raw
}

// all yields the fields up to the first that cannot be read.
func (e encoded) all() iter.Seq[option] {
	return func(yield func(option) bool) {
		for raw := []byte(e); len(raw) > 0; {
			number, kind, n := protowire.ConsumeTag(raw)
			if n < 0 {
				return
			}
			o := option{number: number, kind: kind}
			raw = raw[n:]
			switch o.kind {
			case protowire.VarintType:
				o.bits, n = protowire.ConsumeVarint(raw)
			case protowire.Fixed32Type:
				var bits uint32
				bits, n = protowire.ConsumeFixed32(raw)
				o.bits = uint64(bits)
			case protowire.Fixed64Type:
				o.bits, n = protowire.ConsumeFixed64(raw)
			case protowire.BytesType:
				o.bytes, n = protowire.ConsumeBytes(raw)
			default:
				n = protowire.ConsumeFieldValue(o.number, o.kind, raw)
			}
			if n < 0 || !yield(o) {
				return
			}
			raw = raw[n:]
		}
	}
}

// message returns an embedded message; nil if there is none. A message that occurs twice is merged, which is to join its bytes.
func (e encoded) message(number protowire.Number) (out encoded) {
	for o := range e.all() {
		if o.number == number && o.kind == protowire.BytesType {
			out = append(out, o.bytes...)
		}
	}
	return out
}

// numbers returns the values of a numeric field, packed or not. fixed is the type of packed values.
func (e encoded) numbers(number protowire.Number, fixed protowire.Type) (out []uint64) {
	for o := range e.all() {
		switch {
		case o.number != number:
		case o.kind != protowire.BytesType:
			out = append(out, o.bits)
		default:
			out = append(out, packed(o.bytes, fixed)...)
		}
	}
	return out
}

func packed(raw []byte, as protowire.Type) (out []uint64) {
	for len(raw) > 0 {
		var bits uint64
		var n int
		switch as {
		case protowire.Fixed32Type:
			var half uint32
			half, n = protowire.ConsumeFixed32(raw)
			bits = uint64(half)
		case protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(raw)
		default:
			bits, n = protowire.ConsumeVarint(raw)
		}
		if n < 0 {
			return out
		}
		out, raw = append(out, bits), raw[n:]
	}
	return out
}

// number returns the last value of a varint field, and whether there is one.
func (e encoded) number(number protowire.Number) (uint64, bool) {
	all := e.numbers(number, protowire.VarintType)
	if len(all) == 0 {
		return 0, false
	}
	return all[len(all)-1], true
}

func (e encoded) flag(number protowire.Number) bool {
	v, _ := e.number(number)
	return v != 0
}

// texts returns the values of a field of strings.
func (e encoded) texts(number protowire.Number) (out []string) {
	for o := range e.all() {
		if o.number == number && o.kind == protowire.BytesType {
			out = append(out, string(o.bytes))
		}
	}
	return out
}

// text returns the last value of a field of strings, and whether there is one.
func (e encoded) text(number protowire.Number) (string, bool) {
	all := e.texts(number)
	if len(all) == 0 {
		return "", false
	}
	return all[len(all)-1], true
}
