package schema

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

var rounds = flag.Int("schema-messages", messages, "random messages of TestRoundTrip and TestMutations, each")

// subject is a tool under random test.
type subject struct {
	*Tool
	definition
	maker *maker
}

// subjects returns the tools of all services that are not validated, with a maker for each. Those of large types are there several times.
func subjects(t testing.TB) (all []subject) {
	t.Helper()
	for _, l := range []linked{link(t, setOf(real...)), testdata(t)} {
		var contents []protoreflect.MessageDescriptor
		for _, method := range l.methods {
			contents = append(contents, method.Input(), method.Output())
		}
		// A message of a well-known type that is empty in an Any is no JSON value, and rules say nothing about random messages.
		contents = slices.DeleteFunc(contents, func(md protoreflect.MessageDescriptor) bool { return md.FullName() == "google.protobuf.Any" })
		for i, name := range Names(l.methods) {
			tool, err := NewTool(l.methods[i], name, l.types)
			if err != nil || strings.HasPrefix(string(l.methods[i].FullName()), "ruled.") {
				continue
			}
			s := subject{tool, definitionOf(t, tool), &maker{rand.New(rand.NewPCG(27, uint64(i))), l.types, contents, false, 0}}
			for range min(1+(len(s.InputSchema)+len(s.OutputSchema))/1_000, 12) {
				all = append(all, s)
			}
		}
	}
	return all
}

// arguments returns a message as the arguments of the tool, written by protojson.
func (s subject) arguments(t testing.TB, m proto.Message) []byte {
	t.Helper()
	raw, err := protojson.MarshalOptions{Resolver: s.types, EmitDefaultValues: s.maker.IntN(2) == 0}.Marshal(m)
	if err != nil {
		t.Fatalf("%s: %v", s.Tool.Name, err)
	}
	if wraps(s.Method.Input()) {
		raw = (&object{}).set("value", raw).json()
	}
	return raw
}

// Random messages stay the same on their way from protobuf to JSON, to protobuf, and to JSON. The schemas accept the JSON.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	all, sizes := subjects(t), make([]int, 0, *rounds)
	for i := range *rounds {
		s := all[i%len(all)]
		if i/len(all)%2 == 0 {
			sizes = append(sizes, s.roundRequest(t, s.maker.start(s.Method.Input())))
		} else {
			newer := *s.maker
			newer.newer = true
			sizes = append(sizes, s.roundResponse(t, newer.start(s.Method.Output())))
		}
		if t.Failed() {
			t.Fatalf("after %d messages", i)
		}
	}
	slices.Sort(sizes)
	n := len(sizes)
	t.Logf("%d messages; bytes of JSON: half have %d, a tenth %d, the largest %d", n, sizes[n/2], sizes[n*9/10], sizes[n-1])
	if sizes[n*9/10] < 400 {
		t.Error("the messages are too small to show anything")
	}
}

func (s subject) roundRequest(t *testing.T, m *dynamicpb.Message) (size int) {
	t.Helper()
	json := s.arguments(t, m)
	if v := violation(t, s.InputSchema, json); v != nil {
		t.Errorf("%s: inputSchema refuses: %v\n%s", s.Tool.Name, v, clip(json))
	}
	raw, err := s.Request(json)
	if err != nil {
		t.Fatalf("%s: %v\n%s", s.Tool.Name, err, clip(json))
	}
	back := dynamicpb.NewMessage(s.Method.Input())
	if err := (proto.UnmarshalOptions{Resolver: s.types}).Unmarshal(raw, back); err != nil || !proto.Equal(m, back) {
		t.Errorf("%s: %v: another message came back\n%s", s.Tool.Name, err, clip(json))
	}
	return len(json)
}

func (s subject) roundResponse(t *testing.T, m *dynamicpb.Message) (size int) {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	json, err := s.Response(raw)
	if err != nil {
		t.Fatalf("%s: %v", s.Tool.Name, err)
	}
	result, inner := json, json
	switch {
	case s.Method.IsStreamingServer():
		result = Messages([][]byte{json, json})
	case wraps(s.Method.Output()):
		if inner, err = unwrap(json); err != nil {
			t.Fatal(err)
		}
	}
	if v := violation(t, s.OutputSchema, result); v != nil {
		t.Errorf("%s: outputSchema refuses: %v\n%s", s.Tool.Name, v, clip(result))
	}
	back := dynamicpb.NewMessage(s.Method.Output())
	if err := (protojson.UnmarshalOptions{Resolver: s.types}).Unmarshal(inner, back); err != nil || !proto.Equal(m, back) {
		t.Fatalf("%s: %v: another message came back\n%s", s.Tool.Name, err, clip(json))
	}
	again, err := proto.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := s.Response(again); err != nil || !bytes.Equal(second, json) {
		t.Errorf("%s: %v: other JSON came back\n%s\n%s", s.Tool.Name, err, clip(json), clip(second))
	}
	return len(json)
}
