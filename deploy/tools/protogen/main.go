// Protogen generates the Go code of the .proto files of a folder, or with -check reports which generated files are not what it would write.
//
//	protogen [-check] [-gateway] FOLDER MODULE
//
// MODULE is the folder of the Go module into whose packages the code goes, after go_package. The files are compiled by protocompile, so that no
// protoc is needed, and given to the plugins protoc-gen-go and protoc-gen-go-grpc, whose versions go.mod has; with -gateway also to that of
// grpc-gateway, for methods without annotations.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// module is the path of the Go module.
const module = "dragoman"

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if a file would change")
	gateway := flag.Bool("gateway", false, "generate the code of grpc-gateway too")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), *check, *gateway); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// plugin is a plugin of protoc: its package, and what its parameter has besides the module.
type plugin struct{ path, parameter string }

func run(folder, root string, check, gateway bool) error {
	plugins := []plugin{{"google.golang.org/protobuf/cmd/protoc-gen-go", ""}, {"google.golang.org/grpc/cmd/protoc-gen-go-grpc", ""}}
	if gateway {
		plugins = append(plugins, plugin{"github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-grpc-gateway", ",generate_unbound_methods=true"})
	}
	request, err := compile(folder)
	if err != nil {
		return err
	}
	for _, p := range plugins {
		request.Parameter = proto.String("module=" + module + p.parameter)
		files, err := generate(p.path, request)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(p.path), err)
		}
		for _, f := range files {
			if err := put(filepath.Join(root, f.GetName()), []byte(f.GetContent()), check); err != nil {
				return err
			}
		}
	}
	return nil
}

// compile returns what a plugin is asked: the files of the folder, with all that they import.
func compile(folder string) (*pluginpb.CodeGeneratorRequest, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".proto") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c := protocompile.Compiler{SourceInfoMode: protocompile.SourceInfoStandard,
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}})}
	compiled, err := c.Compile(context.Background(), names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names}
	seen := map[string]bool{}
	for _, f := range compiled {
		request.ProtoFile = appendFile(request.ProtoFile, f, seen)
	}
	return request, nil
}

// appendFile appends a file, after those that it imports.
func appendFile(all []*descriptorpb.FileDescriptorProto, f protoreflect.FileDescriptor, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[f.Path()] {
		return all
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		all = appendFile(all, f.Imports().Get(i).FileDescriptor, seen)
	}
	if made, ok := f.(linker.Result); ok { // with the comments
		return append(all, made.FileDescriptorProto())
	}
	return append(all, protodesc.ToFileDescriptorProto(f))
}

// generate runs a plugin.
func generate(plugin string, request *pluginpb.CodeGeneratorRequest) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	c := exec.Command("go", "run", plugin) //nolint:gosec // one of those above
	c.Stdin, c.Stderr = bytes.NewReader(in), os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s", response.GetError())
	}
	return response.GetFile(), nil
}

// put writes a file, or compares it.
func put(path string, data []byte, check bool) error {
	if check {
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, data) { //nolint:gosec // in the folder that was given
			return fmt.Errorf("%s is not what the .proto files make; fix: make proto (%v)", path, err)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644) //nolint:gosec // source files
}
