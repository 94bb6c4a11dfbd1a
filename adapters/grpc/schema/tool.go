package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// maxName is the length of a tool's name, which is of the characters A-Z a-z 0-9 _ . - (2026-07-28 tools, Tool Names). Names of protobuf are.
const maxName = 128

// Tool is a method as an MCP tool, and the codec of its calls. It is safe for concurrent use.
type Tool struct {
	Name       string
	Method     protoreflect.MethodDescriptor
	Definition []byte // JSON, as in the result of tools/list
	types      *Types
}

// Names returns a name for each method: the last part of its service's name and its own, as in RouteGuide.GetFeature. Methods that would
// have the same name get their full names. A name that would be too long ends with a hash of the whole.
func Names(methods []protoreflect.MethodDescriptor) []string {
	name := func(m protoreflect.MethodDescriptor) string {
		return string(m.Parent().Name()) + "." + string(m.Name())
	}
	count := map[string]int{}
	for _, m := range methods {
		count[name(m)]++
	}
	out := make([]string, len(methods))
	for i, m := range methods {
		if out[i] = name(m); count[out[i]] > 1 {
			out[i] = string(m.FullName())
		}
		if len(out[i]) > maxName {
			sum := sha256.Sum256([]byte(m.FullName()))
			tail := "-" + hex.EncodeToString(sum[:6])
			out[i] = out[i][:maxName-len(tail)] + tail
		}
	}
	return out
}

// NewTool makes the tool of a method under a name of Names. types are those that Files returned with the method. It fails for methods on
// which the client streams, for messages of which two fields have one JSON name, and for schemas of more than 256 KiB without comments.
func NewTool(method protoreflect.MethodDescriptor, name string, types *Types) (tool *Tool, err error) {
	defer rescue(&err)
	if method.IsStreamingClient() {
		return nil, fmt.Errorf("grpc: %s takes a stream of messages, a tool call is one request; fix: exclude the method, or offer one that takes a list", shown(method))
	}
	input, err := schemaOf(method.Input(), types, true, false)
	if err != nil {
		return nil, err
	}
	output, err := schemaOf(method.Output(), types, false, method.IsStreamingServer())
	if err != nil {
		return nil, err
	}
	o := (&object{}).text("name", name).text("title", words(string(method.Name()))).text("description", description(method)).
		set("inputSchema", input).set("outputSchema", output)
	if hints := annotations(method); len(hints.members) > 0 {
		o.object("annotations", hints)
	}
	return &Tool{Name: name, Method: method, Definition: o.json(), types: types}, nil
}

// description returns the comment of a method, or says what is called, and how the result of a stream looks.
func description(method protoreflect.MethodDescriptor) string {
	out := comment(method, maxDescription)
	if out == "" {
		out = fmt.Sprintf("Calls the gRPC method %s.", method.FullName())
	}
	if deprecated(method) {
		out = "Deprecated. " + out
	}
	if method.IsStreamingServer() {
		out += "\nThe server sends a stream of messages; the result lists them as \"messages\"."
	}
	return out
}

// Fields of google.api.HttpRule.
const (
	httpGet    = 2
	httpPut    = 3
	httpDelete = 5
)

// annotations returns the hints that idempotency_level and google.api.http allow. Of other methods nothing is known.
func annotations(method protoreflect.MethodDescriptor) *object {
	var readOnly, idempotent, destructive bool
	if o, ok := method.Options().(*descriptorpb.MethodOptions); ok {
		readOnly = o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
		idempotent = o.GetIdempotencyLevel() == descriptorpb.MethodOptions_IDEMPOTENT
	}
	for o := range options(method).message(httpOption).all() {
		switch o.number {
		case httpGet:
			readOnly = true
		case httpPut:
			idempotent = true
		case httpDelete:
			idempotent, destructive = true, true
		}
	}
	hints := &object{}
	if readOnly {
		return hints.yes("readOnlyHint")
	}
	if destructive {
		hints.yes("destructiveHint")
	}
	if idempotent {
		hints.yes("idempotentHint")
	}
	return hints
}
