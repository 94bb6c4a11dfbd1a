package schema

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/bufbuild/protocompile"
	"github.com/goccy/go-json"
	"github.com/qdrant/go-client/qdrant"
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/versionpb"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	apipb "google.golang.org/genproto/googleapis/api/annotations"
	confpb "google.golang.org/genproto/googleapis/api/expr/conformance/v1alpha1"
	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/examples/route_guide/routeguide"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	interoppb "google.golang.org/grpc/interop/grpc_testing"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	restschema "dragoman/adapters/rest/schema"
)

// real are files of services that were written by others.
var real = []protoreflect.FileDescriptor{
	etcdserverpb.File_rpc_proto, mvccpb.File_kv_proto, authpb.File_auth_proto, versionpb.File_version_proto, // it imports them by other paths
	qdrant.File_qdrant_proto, qdrant.File_collections_service_proto, qdrant.File_points_service_proto, qdrant.File_snapshots_service_proto,
	logspb.File_opentelemetry_proto_collector_logs_v1_logs_service_proto,
	metricspb.File_opentelemetry_proto_collector_metrics_v1_metrics_service_proto,
	tracepb.File_opentelemetry_proto_collector_trace_v1_trace_service_proto,
	interoppb.File_grpc_testing_test_proto, interoppb.File_grpc_testing_benchmark_service_proto,
	interoppb.File_grpc_testing_report_qps_scenario_service_proto, interoppb.File_grpc_testing_worker_service_proto,
	routeguide.File_examples_route_guide_routeguide_route_guide_proto,
	longrunningpb.File_google_longrunning_operations_proto,
	confpb.File_google_api_expr_conformance_v1alpha1_conformance_service_proto,
	channelzpb.File_grpc_channelz_v1_channelz_proto,
	healthpb.File_grpc_health_v1_health_proto,
	reflectionpb.File_grpc_reflection_v1_reflection_proto,
}

// setOf returns files with their imports, as server reflection gives them.
func setOf(files ...protoreflect.FileDescriptor) *descriptorpb.FileDescriptorSet {
	set, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] || file.IsPlaceholder() {
			return
		}
		seen[file.Path()] = true
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i))
		}
	}
	for _, file := range files {
		add(file)
	}
	return set
}

// compiled returns the files of testdata, with their comments.
var compiled = sync.OnceValues(func() (*descriptorpb.FileDescriptorSet, error) {
	sources, err := filepath.Glob("testdata/*.proto")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, source := range sources {
		names = append(names, filepath.Base(source))
	}
	// Imports are linked into this binary.
	_, _ = validate.File_buf_validate_validate_proto, apipb.File_google_api_field_behavior_proto
	linked := protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		file, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			return protocompile.SearchResult{}, err
		}
		return protocompile.SearchResult{Desc: file}, nil
	})
	c := protocompile.Compiler{
		Resolver:       protocompile.CompositeResolver{&protocompile.SourceResolver{ImportPaths: []string{"testdata"}}, linked},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), names...)
	if err != nil {
		return nil, err
	}
	var all []protoreflect.FileDescriptor
	for _, file := range files {
		all = append(all, file)
	}
	return setOf(all...), nil
})

// linked is a descriptor set after Files.
type linked struct {
	files   *protoregistry.Files
	types   *Types
	methods []protoreflect.MethodDescriptor
}

func link(t testing.TB, set *descriptorpb.FileDescriptorSet) linked {
	t.Helper()
	files, types, err := Files(set)
	if err != nil {
		t.Fatal(err)
	}
	return linked{files, types, methods(files)}
}

func testdata(t testing.TB) linked {
	t.Helper()
	set, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return link(t, set)
}

// methods returns all methods, in the order of their names.
func methods(files *protoregistry.Files) (all []protoreflect.MethodDescriptor) {
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				all = append(all, file.Services().Get(i).Methods().Get(j))
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b protoreflect.MethodDescriptor) int { return cmp.Compare(a.FullName(), b.FullName()) })
	return all
}

// tool returns the tool of a method, by its full name.
func (l linked) tool(t testing.TB, name string) *Tool {
	t.Helper()
	d, err := l.files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatal(err)
	}
	tool, err := NewTool(d.(protoreflect.MethodDescriptor), name, l.types)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// definition is what a client reads of a tool.
type definition struct {
	Name, Title, Description               string
	InputSchema, OutputSchema, Annotations json.RawMessage
}

func definitionOf(t testing.TB, tool *Tool) (d definition) {
	t.Helper()
	if err := json.Unmarshal(tool.Definition, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// checker judges JSON as Dragoman does before and after a call.
var checker = restschema.NewCache()

// violation returns what a schema refuses; nil if it accepts.
func violation(t testing.TB, schema, instance []byte) *restschema.Violation {
	t.Helper()
	v, err := checker.Check(schema, instance)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, clip(schema), clip(instance))
	}
	return v
}

func clip(b []byte) string {
	if len(b) > 4_000 {
		return string(b[:4_000]) + "…"
	}
	return string(b)
}

func rawObject(t testing.TB, raw []byte) (o map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatalf("%v: %s", err, clip(raw))
	}
	return o
}
