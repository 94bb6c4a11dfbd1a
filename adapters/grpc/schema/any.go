package schema

import (
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/runtime/protoiface"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// lenient resolves types for results. A server may put a type into an Any that is not among its descriptors, as errors and operations do;
// the rest of its result should not be lost for that. Such an Any becomes {"@type": its URL, "value": its bytes as base64}.
type lenient struct{ *Types }

// FindMessageByURL implements protoregistry.MessageTypeResolver.
func (l lenient) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	known, err := l.Types.FindMessageByURL(url)
	if errors.Is(err, protoregistry.NotFound) {
		return opaqueType{l.opaque}, nil
	}
	return known, err
}

// newOpaque returns the descriptor of a message with one field, `bytes value = 1`.
func newOpaque() (protoreflect.MessageDescriptor, error) {
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("opaque.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Opaque"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("value"), Number: proto.Int32(1),
			Type: descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}},
	}, nil)
	if err != nil {
		return nil, err
	}
	return file.Messages().Get(0), nil
}

// opaqueType is a message type that any bytes are a message of.
type opaqueType struct {
	of protoreflect.MessageDescriptor
}

// New implements protoreflect.MessageType.
func (t opaqueType) New() protoreflect.Message { return opaque{dynamicpb.NewMessage(t.of)} }

// Zero implements protoreflect.MessageType.
func (t opaqueType) Zero() protoreflect.Message { return t.New() }

// Descriptor implements protoreflect.MessageType.
func (t opaqueType) Descriptor() protoreflect.MessageDescriptor { return t.of }

// opaque keeps the bytes that it is read from in its field.
type opaque struct{ protoreflect.Message }

// Interface implements protoreflect.Message.
func (o opaque) Interface() protoreflect.ProtoMessage { return o }

// ProtoReflect implements protoreflect.ProtoMessage.
func (o opaque) ProtoReflect() protoreflect.Message { return o }

// ProtoMethods implements protoreflect.Message: package proto calls what it returns in place of its own.
func (o opaque) ProtoMethods() *protoiface.Methods {
	return &protoiface.Methods{
		Unmarshal: func(in protoiface.UnmarshalInput) (protoiface.UnmarshalOutput, error) {
			o.Set(o.Descriptor().Fields().Get(0), protoreflect.ValueOfBytes(in.Buf))
			return protoiface.UnmarshalOutput{Flags: protoiface.UnmarshalInitialized}, nil
		},
	}
}
