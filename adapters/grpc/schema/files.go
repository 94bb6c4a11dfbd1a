package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"dragoman/proxy/wire"
)

// Bounds of a descriptor set. All of googleapis has 7,000 files, the API of one service some dozens.
const (
	maxFiles    = 2_000
	maxTypes    = 20_000  // messages and enums
	maxMembers  = 200_000 // fields, enum values, methods and extensions
	maxNested   = 32      // messages declared in messages
	maxSetBytes = 64 << 20
)

// Types resolves the messages and extensions of a descriptor set, for Any and for the fields of others. It is safe for concurrent use.
type Types struct {
	*dynamicpb.Types
	extensions map[protoreflect.FullName][]protoreflect.ExtensionDescriptor // by the message that they extend
	opaque     protoreflect.MessageDescriptor                               // see lenient
}

// Files links a descriptor set, such as server reflection or `protoc --include_imports --descriptor_set_out` gives. The set is not trusted:
// its size is bounded, and types of package google.protobuf must be what protojson takes them for. The order of the files does not matter.
// An import that the set lacks is an error if a type of it is used; options, such as those of buf.validate, do not need theirs.
func Files(set *descriptorpb.FileDescriptorSet) (files *protoregistry.Files, types *Types, err error) {
	defer rescue(&err)
	if err := bounded(set); err != nil {
		return nil, nil, err
	}
	whole, missing := withoutMissing(set)
	files, err = protodesc.NewFiles(whole)
	if err != nil {
		return nil, nil, explain(err, missing)
	}
	unknown, err := newOpaque()
	if err != nil {
		return nil, nil, err
	}
	types = &Types{dynamicpb.NewTypes(files), map[protoreflect.FullName][]protoreflect.ExtensionDescriptor{}, unknown}
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		types.add(file)
		return true
	})
	for _, of := range types.extensions {
		slices.SortFunc(of, func(a, b protoreflect.ExtensionDescriptor) int { return int(a.Number()) - int(b.Number()) })
	}
	if err := checkWellKnown(files); err != nil {
		return nil, nil, err
	}
	return files, types, nil
}

// declaring is a file or a message.
type declaring interface {
	Messages() protoreflect.MessageDescriptors
	Extensions() protoreflect.ExtensionDescriptors
}

// add notes the extensions that a file or message declares.
func (t *Types) add(in declaring) {
	for i := range in.Extensions().Len() {
		x := in.Extensions().Get(i)
		of := x.ContainingMessage().FullName()
		t.extensions[of] = append(t.extensions[of], x)
	}
	for i := range in.Messages().Len() {
		t.add(in.Messages().Get(i))
	}
}

// counter counts what a descriptor set declares.
type counter struct{ types, members int }

func bounded(set *descriptorpb.FileDescriptorSet) error {
	if n := len(set.GetFile()); n == 0 || n > maxFiles {
		return fmt.Errorf("grpc: the descriptor set has %d files, 1 to %d are allowed; fix: give the files of the services that are used, with their imports", n, maxFiles)
	}
	if n := proto.Size(set); n > maxSetBytes {
		return fmt.Errorf("grpc: the descriptor set has %d bytes, %d are allowed; fix: leave out files that no service needs, or source information", n, maxSetBytes)
	}
	var c counter
	for _, file := range set.GetFile() {
		if n := len(file.GetDependency()); n > maxFiles {
			return fmt.Errorf("grpc: %s imports %d files, %d are allowed", wire.Shown(file.GetName()), n, maxFiles)
		}
		c.types += len(file.GetEnumType())
		c.members += len(file.GetExtension()) + len(file.GetDependency())
		for _, service := range file.GetService() {
			c.members += len(service.GetMethod())
		}
		for _, enum := range file.GetEnumType() {
			c.members += len(enum.GetValue())
		}
		for _, m := range file.GetMessageType() {
			if !c.message(m, 1) {
				return fmt.Errorf("grpc: messages of %s are declared in each other more than %d levels deep", wire.Shown(file.GetName()), maxNested)
			}
		}
	}
	if c.types > maxTypes || c.members > maxMembers {
		return fmt.Errorf("grpc: the descriptor set declares %d types with %d fields and values, %d and %d are allowed; fix: leave out files that no service needs", c.types, c.members, maxTypes, maxMembers)
	}
	return nil
}

// message counts m, and reports whether its nesting is within bounds.
func (c *counter) message(m *descriptorpb.DescriptorProto, depth int) bool {
	c.types += 1 + len(m.GetEnumType())
	c.members += len(m.GetField()) + len(m.GetExtension())
	for _, enum := range m.GetEnumType() {
		c.members += len(enum.GetValue())
	}
	for _, nested := range m.GetNestedType() {
		if depth == maxNested || !c.message(nested, depth+1) {
			return false
		}
	}
	return true
}

// withoutMissing returns the set without imports of files that it lacks, and which they are. If a file uses a type of one, linking fails.
func withoutMissing(set *descriptorpb.FileDescriptorSet) (*descriptorpb.FileDescriptorSet, []string) {
	has := map[string]bool{}
	for _, file := range set.GetFile() {
		has[file.GetName()] = true
	}
	var missing []string
	lacks := func(name string) bool { return !has[name] }
	whole := &descriptorpb.FileDescriptorSet{}
	for _, file := range set.GetFile() {
		if slices.ContainsFunc(file.GetDependency(), lacks) {
			var gone []string
			file, gone = withoutImports(file, has)
			missing = append(missing, gone...)
		}
		whole.File = append(whole.File, file)
	}
	slices.Sort(missing)
	return whole, slices.Compact(missing)
}

// withoutImports returns file without imports that the set lacks. The rest is shared. A file of the same name in another folder takes the
// place of one: some Go modules, etcd's among them, were generated in a folder other than that which imports name.
func withoutImports(file *descriptorpb.FileDescriptorProto, has map[string]bool) (*descriptorpb.FileDescriptorProto, []string) {
	var gone []string
	out := &descriptorpb.FileDescriptorProto{}
	file.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch fd.Name() {
		case "dependency", "public_dependency", "weak_dependency":
		default:
			out.ProtoReflect().Set(fd, v)
		}
		return true
	})
	for i, name := range file.GetDependency() {
		if !has[name] {
			gone = append(gone, name)
			if name = standIn(name, has); name == "" || name == file.GetName() || slices.Contains(file.GetDependency(), name) || slices.Contains(out.Dependency, name) {
				continue
			}
		}
		if at := int32(len(out.Dependency)); slices.Contains(file.GetPublicDependency(), int32(i)) { //nolint:gosec // bounded by maxMembers
			out.PublicDependency = append(out.PublicDependency, at)
		}
		out.Dependency = append(out.Dependency, name)
	}
	return out, gone
}

// standIn returns the longest end of a path that the set has as a file; empty if it has none.
func standIn(path string, has map[string]bool) string {
	for rest := path; ; {
		_, after, ok := strings.Cut(rest, "/")
		if !ok {
			return ""
		}
		if rest = after; has[rest] {
			return rest
		}
	}
}

// explain returns an error of package protodesc with what fixes it.
func explain(err error, missing []string) error {
	why := withoutMark(err)
	switch {
	case len(missing) > 0 && (strings.Contains(why, "not found") || strings.Contains(why, "resolve")):
		return fmt.Errorf("grpc: the descriptor set cannot be linked: %s; it lacks %s; fix: include imports (protoc --include_imports)",
			wire.Shown(why), wire.Shown(strings.Join(missing, ", ")))
	default:
		return fmt.Errorf("grpc: the descriptor set cannot be linked: %s", wire.Shown(why))
	}
}

// withoutMark returns the text of an error of the protobuf module without its mark, whose space is one of two at random.
func withoutMark(err error) string {
	why := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimPrefix(why, "proto: ")
}

// rescue turns a panic of the protobuf module into an error: descriptors and messages of others must not end the process.
func rescue(err *error) {
	if r := recover(); r != nil {
		*err = errors.New("grpc: the protobuf library failed: " + wire.Shown(fmt.Sprint(r)))
	}
}
