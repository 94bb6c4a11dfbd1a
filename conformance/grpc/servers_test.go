package services

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	_ "google.golang.org/genproto/googleapis/api/annotations" // imported by etcd's files
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/examples/route_guide/routeguide"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// server is a running gRPC server with its descriptors.
type server struct {
	name, title string
	address     string
	set         *descriptorpb.FileDescriptorSet // nil: Dragoman asks the server
	more        string                          // of its table in the configuration
	made        int                             // calls of each method with requests that are made of its type
	ignored     func() int                      // counts the calls that the server has ignored, by its log; nil: it ignores none

	conn    *grpc.ClientConn
	types   *dynamicpb.Types
	methods []protoreflect.MethodDescriptor // all, by full name
}

// toml returns the table of an upstream.
func (s *server) toml(t *testing.T) string {
	t.Helper()
	text := fmt.Sprintf("[upstreams.%s]\nurl = \"grpc://%s\"\ngrpc.methods = [\"*\"]\n%s", s.name, s.address, s.more)
	for _, method := range s.methods {
		if full := method.FullName(); endless[string(full)] {
			for _, name := range []string{toolName(method), string(full)} { // it is either
				text += fmt.Sprintf("tools.%q.timeout = %q\n", name, toolTimeout)
			}
		}
	}
	if s.set == nil {
		return text
	}
	raw, err := proto.Marshal(s.set)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), s.name+".binpb")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return text + fmt.Sprintf("grpc.descriptors = %q\n", file)
}

// connect connects to a server and finds its methods: in its own descriptors, by reflection if it has them.
func (s *server) connect(t *testing.T) *server {
	t.Helper()
	var err error
	if s.conn, err = grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close() })
	set, offers := s.set, func(string) bool { return true }
	if set == nil {
		var listed []string
		set, listed = reflected(t, s.conn)
		offers = func(service string) bool { return slices.Contains(listed, service) }
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	s.types = dynamicpb.NewTypes(files)
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			of := f.Services().Get(i)
			for j := range of.Methods().Len() {
				if offers(string(of.FullName())) {
					s.methods = append(s.methods, of.Methods().Get(j))
				}
			}
		}
		return true
	})
	slices.SortFunc(s.methods, func(a, b protoreflect.MethodDescriptor) int {
		return slices.Compare([]byte(a.FullName()), []byte(b.FullName()))
	})
	return s
}

// reflected returns the services of a server and their files, as the server itself gives them. A file may have further services.
func reflected(t *testing.T, conn *grpc.ClientConn) (set *descriptorpb.FileDescriptorSet, services []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(q *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	set = &descriptorpb.FileDescriptorSet{}
	have := map[string]bool{}
	list := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	for _, service := range list.GetListServicesResponse().GetService() {
		services = append(services, service.GetName())
		answer := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service.GetName()}})
		for _, raw := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() { // with all that it imports, from grpc-go
			file := new(descriptorpb.FileDescriptorProto)
			if err := proto.Unmarshal(raw, file); err != nil {
				t.Fatal(err)
			}
			if !have[file.GetName()] {
				have[file.GetName()] = true
				set.File = append(set.File, file)
			}
		}
	}
	return set, services
}

// setOf returns files with their imports.
func setOf(files ...protoreflect.FileDescriptor) *descriptorpb.FileDescriptorSet {
	set, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i))
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	for _, file := range files {
		add(file)
	}
	return set
}

// program returns the path of a program that setup.sh has made.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(".bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startServers starts all servers. Without etcd, which setup.sh leaves out where there is no Debian, it is left out.
func startServers(t *testing.T) []*server {
	t.Helper()
	all := []*server{
		{name: "routes", title: "The route guide of grpc-go, by a descriptor set", set: setOf(routeguide.File_examples_route_guide_routeguide_route_guide_proto)},
		{name: "otlp", title: "The OTLP receiver of OpenTelemetry's Collector, by a descriptor set", set: setOf(logspb.File_opentelemetry_proto_collector_logs_v1_logs_service_proto,
			metricspb.File_opentelemetry_proto_collector_metrics_v1_metrics_service_proto, tracepb.File_opentelemetry_proto_collector_trace_v1_trace_service_proto)},
		{name: "reflected", title: "The interoperability tests, load reports, health and channelz of grpc-go, by reflection"},
		{name: "qdrant", title: "Qdrant's published definitions, by reflection; the answers are made", made: 10},
	}
	for i, name := range []string{"route_guide", "otlp", "reflected", "definitions"} {
		address, port := free(t)
		args := []string{address}
		if name == "route_guide" {
			args = []string{"-port", port}
		}
		all[i].address = address
		run(t, program(t, name), args...).listens(t, address)
	}
	if _, err := os.Stat(program(t, "debian/.ready")); err == nil {
		all = append(all, startEtcd(t))
	}
	for _, s := range all {
		s.connect(t)
	}
	return all
}

// startEtcd starts etcd as Debian has built it. Its descriptors are compiled from the sources of the same version, with their comments.
func startEtcd(t *testing.T) *server {
	t.Helper()
	client, _ := free(t)
	peer, _ := free(t)
	p := run(t, program(t, "debian/usr/bin/etcd"), "--data-dir", t.TempDir(), "--listen-client-urls", "http://"+client, "--advertise-client-urls", "http://"+client,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer, "--auth-token", "simple")
	p.listens(t, client)
	sources := program(t, "debian/usr/share/gocode/src")
	// google/api/annotations.proto is linked into this binary.
	linked := protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		file, err := protoregistry.GlobalFiles.FindFileByPath(path)
		return protocompile.SearchResult{Desc: file}, err
	})
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
			&protocompile.SourceResolver{ImportPaths: []string{filepath.Join(sources, "go.etcd.io"), filepath.Join(sources, "github.com/gogo/protobuf")}}, linked}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(t.Context(), "etcd/etcdserver/etcdserverpb/rpc.proto", "etcd/etcdserver/api/v3lock/v3lockpb/v3lock.proto",
		"etcd/etcdserver/api/v3election/v3electionpb/v3election.proto")
	if err != nil {
		t.Fatal(err)
	}
	all := []protoreflect.FileDescriptor{healthpb.File_grpc_health_v1_health_proto}
	for _, file := range files {
		all = append(all, file)
	}
	ignored := func() int { return strings.Count(p.log.String(), "ignoring conf change") }
	return &server{name: "etcd", title: "Debian's etcd 3.4.23, by a descriptor set", address: client, set: setOf(all...), more: "forward_headers = { Token = \"Token\" }\n", ignored: ignored}
}
