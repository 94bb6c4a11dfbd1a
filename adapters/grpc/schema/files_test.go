package schema

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/examples/route_guide/routeguide"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

type (
	fileProto    = descriptorpb.FileDescriptorProto
	messageProto = descriptorpb.DescriptorProto
	fieldProto   = descriptorpb.FieldDescriptorProto
	serviceProto = descriptorpb.ServiceDescriptorProto
)

// file returns a proto3 file with a message M and services that use it.
func file(name, pkg string, services ...*serviceProto) *fileProto {
	f := &fileProto{Name: &name, Package: &pkg, Syntax: proto.String("proto3"), MessageType: []*messageProto{message("M")}, Service: services}
	for _, s := range services {
		for _, m := range s.Method {
			m.InputType, m.OutputType = proto.String("."+pkg+".M"), proto.String("."+pkg+".M")
		}
	}
	return f
}

func setFile(name, pkg string, services ...*serviceProto) *descriptorpb.FileDescriptorSet {
	return set(file(name, pkg, services...))
}

func set(files ...*fileProto) *descriptorpb.FileDescriptorSet {
	return &descriptorpb.FileDescriptorSet{File: files}
}

func service(name string, methods ...string) *serviceProto {
	s := &serviceProto{Name: &name}
	for _, m := range methods {
		s.Method = append(s.Method, &descriptorpb.MethodDescriptorProto{Name: &m})
	}
	return s
}

func message(name string, fields ...*fieldProto) *messageProto {
	return &messageProto{Name: &name, Field: fields}
}

func field(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type) *fieldProto {
	return &fieldProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
}

func ofType(name string, number int32, of string) *fieldProto {
	f := field(name, number, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	f.TypeName = &of
	return f
}

func (l linked) first(t *testing.T) *Tool {
	t.Helper()
	return l.tool(t, string(l.methods[0].FullName()))
}

func TestFilesRefuses(t *testing.T) {
	importing := func(name string, imports ...string) *fileProto {
		f := file(name, "p"+name)
		f.Dependency = imports
		return f
	}
	using := importing("a", "gone.proto")
	using.MessageType[0].Field = []*fieldProto{ofType("x", 1, ".gone.Type")}
	deep := message("D")
	for range maxNested {
		deep = &messageProto{Name: proto.String("D"), NestedType: []*messageProto{deep}}
	}
	nested := file("deep.proto", "d")
	nested.MessageType = []*messageProto{deep}
	wide := file("wide.proto", "w")
	for i := range maxTypes {
		wide.MessageType = append(wide.MessageType, message(fmt.Sprint("T", i)))
	}
	fake := file("fake.proto", "google.protobuf")
	fake.MessageType = []*messageProto{message("Timestamp", field("seconds", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING))}
	twice := file("twice.proto", "t")
	twice.MessageType = append(twice.MessageType, message("M"))
	messageSet := file("set.proto", "s")
	messageSet.Syntax = proto.String("proto2")
	messageSet.MessageType[0].Options = &descriptorpb.MessageOptions{MessageSetWireFormat: proto.Bool(true)}
	for name, c := range map[string]struct {
		set  *descriptorpb.FileDescriptorSet
		want []string
	}{
		"nothing":           {set(), []string{"0 files"}},
		"missing import":    {set(using), []string{"gone.Type", "it lacks gone.proto", "--include_imports"}},
		"cycle":             {set(importing("a", "b"), importing("b", "a")), []string{"cycle"}},
		"file twice":        {set(importing("a"), importing("a")), []string{`"a"`}},
		"message twice":     {set(twice), []string{"t.M"}},
		"too deep":          {set(nested), []string{"deep.proto", "32 levels"}},
		"too many":          {set(wide), []string{"20001 types"}},
		"too many files":    {set(make([]*fileProto, maxFiles+1)...), []string{"2001 files"}},
		"false well-known":  {set(fake), []string{"google.protobuf.Timestamp"}},
		"message set":       {set(messageSet), []string{"s.M"}},
		"no name":           {set(&fileProto{}), []string{"path"}},
		"newer than we are": {set(&fileProto{Name: proto.String("n"), Syntax: proto.String("proto9")}), []string{"proto9"}},
	} {
		_, _, err := Files(c.set)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "grpc: ") {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// An import that only options need may be missing, and public imports keep their places.
func TestFilesWithoutUnusedImports(t *testing.T) {
	base := file("base.proto", "base")
	between := file("between.proto", "between")
	between.Dependency, between.PublicDependency = []string{"buf/validate/validate.proto", "base.proto"}, []int32{1}
	user := file("user.proto", "user", service("S", "Do"))
	user.Dependency = []string{"between.proto"}
	user.MessageType[0].Field = []*fieldProto{ofType("base", 1, ".base.M")}
	l := link(t, set(user, between, base)) // in no order
	if got := string(definitionOf(t, l.first(t)).InputSchema); got != `{"type":"object","properties":{"base":{"type":"object","additionalProperties":false}},"additionalProperties":false}` {
		t.Error(got)
	}
}

func TestNewToolRefuses(t *testing.T) {
	big := file("big.proto", "big", service("S", "Do"))
	for i := range 4_000 {
		big.MessageType[0].Field = append(big.MessageType[0].Field, field(fmt.Sprintf("field_with_a_long_name_of_about_sixty_bytes_%d", i), int32(i+1), descriptorpb.FieldDescriptorProto_TYPE_INT64))
	}
	same := file("same.proto", "same", service("S", "Do"))
	same.MessageType[0].Field = []*fieldProto{field("one", 1, descriptorpb.FieldDescriptorProto_TYPE_BOOL), field("two", 2, descriptorpb.FieldDescriptorProto_TYPE_BOOL)}
	same.MessageType[0].Field[0].JsonName, same.MessageType[0].Field[1].JsonName = proto.String("x"), proto.String("x")
	same.Syntax = proto.String("proto2")
	many := file("many.proto", "many", service("S", "Do"))
	for i := range maxClosure + 1 {
		many.MessageType = append(many.MessageType, message(fmt.Sprint("T", i)))
		many.MessageType[0].Field = append(many.MessageType[0].Field, ofType(fmt.Sprint("f", i), int32(i+1), fmt.Sprint(".many.T", i)))
	}
	named := file("named.proto", "named", service("S", "Do"))
	enum := &descriptorpb.EnumDescriptorProto{Name: proto.String("E")}
	for i := range 20_000 {
		enum.Value = append(enum.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(fmt.Sprint("V", i)), Number: proto.Int32(int32(i))})
	}
	named.EnumType = append(named.EnumType, enum)
	for i := range 3 {
		f := field(fmt.Sprint("f", i), int32(i+1), descriptorpb.FieldDescriptorProto_TYPE_ENUM)
		f.TypeName, f.Options = proto.String(".named.E"), &descriptorpb.FieldOptions{}
		f.Options.ProtoReflect().SetUnknown([]byte("\xba\x48\x06\x82\x01\x03\x22\x01\x05")) // (buf.validate.field).enum.not_in = 5
		named.MessageType[0].Field = append(named.MessageType[0].Field, f)
	}
	fixtures := testdata(t)
	tried := 0
	for name, c := range map[string]struct {
		in   linked
		want string
	}{
		"big.S.Do":              {link(t, set(big)), "bytes, 262144 are allowed; the largest of the 1 types in it is big.M with "},
		"many.S.Do":             {link(t, set(many)), "more than 2000 types"},
		"same.S.Do":             {link(t, set(same)), "two fields of same.M have the JSON name x"},
		"named.S.Do":            {link(t, set(named)), "more than 50000 fields and enum values"},
		"every.v1.Every.Upload": {fixtures, "takes a stream of messages"},
		"every.v1.Every.Chat":   {fixtures, "takes a stream of messages"},
	} {
		for _, m := range c.in.methods {
			if string(m.FullName()) != name {
				continue
			}
			tried++
			if _, err := NewTool(m, name, c.in.types); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "fix: ") {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
	}
	if tried != 6 {
		t.Errorf("%d methods were tried", tried)
	}
}

// FuzzFiles reads descriptor sets of others: whatever Files accepts makes tools whose schemas compile, and codecs that do not panic.
func FuzzFiles(f *testing.F) {
	all, err := compiled()
	if err != nil {
		f.Fatal(err)
	}
	for _, one := range all.File {
		if raw, err := proto.Marshal(set(one)); err == nil && len(raw) < 64<<10 {
			f.Add(raw, []byte(`{"a":[{"b":1}]}`))
		}
	}
	for _, s := range []*descriptorpb.FileDescriptorSet{setOf(routeguide.File_examples_route_guide_routeguide_route_guide_proto), setFile("a", "a", service("S", "M"))} {
		raw, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, []byte(`{"latitude":1}`))
	}
	f.Fuzz(func(t *testing.T, raw, json []byte) {
		s := &descriptorpb.FileDescriptorSet{}
		if len(raw) > 64<<10 || proto.Unmarshal(raw, s) != nil {
			return
		}
		files, types, err := Files(s)
		if err != nil {
			if strings.Contains(err.Error(), "library failed") {
				t.Log(err)
			}
			return
		}
		all := methods(files)
		for i, name := range Names(all) {
			tool, err := NewTool(all[i], name, types)
			if err != nil {
				continue
			}
			if !toolName.MatchString(name) {
				t.Errorf("name %q", name)
			}
			d := definitionOf(t, tool)
			if _, err := checker.Notes(d.OutputSchema); err != nil && !strings.Contains(err.Error(), "more than") {
				t.Errorf("%v: %s", err, d.OutputSchema)
			}
			v, err := checker.Check(d.InputSchema, json)
			message, bad := tool.Request(json)
			if err != nil || v != nil || bad != nil {
				continue
			}
			if _, err := tool.Response(message); err != nil && tool.Method.Input() == tool.Method.Output() && !strings.Contains(err.Error(), "required") {
				t.Errorf("what was read cannot be written: %v", err)
			}
		}
	})
}
