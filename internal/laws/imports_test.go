package laws

import (
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// layers is the layer of each package. Imports go down: never up, and never to the same layer.
var layers = map[string]int{
	"proxy/wire":                       0,
	"proxy/redact":                     0,
	"proxy":                            1,
	"proxy/session":                    2,
	"adapters/eventstream":             2,
	"adapters/stdio/keeper":            0, // initialized before all others
	"adapters/stdio/launch":            0, // initialized before all others
	"adapters/stdio/reaper":            2,
	"adapters/stdio/lines":             2,
	"adapters/stdio/pipe":              2,
	"adapters/stdio/process":           3,
	"adapters/stdio/downstream":        5,
	"adapters/stdio/supervisor":        5,
	"adapters/stdio/socket":            5,
	"adapters/httpd/http1":             0, // standard library only
	"adapters/httpd/netpoll":           0,
	"adapters/httpd/httpclient":        2,
	"adapters/httpd/httpserver":        2,
	"adapters/rules":                   2, // the specification, without state
	"adapters/transport":               3, // what the adapters implement to reach servers
	"adapters/era/translate":           3,
	"adapters/era/seal":                2,
	"adapters/era/work":                4,
	"adapters/era/probe":               5,
	"adapters/era/internal/fakeserver": 5,
	"adapters/era/sessions":            6,
	"adapters/era/subscriptions":       7,
	"adapters/era/input":               7,
	"adapters/era/relay":               7,
	"adapters/era/tasks":               7,
	"adapters/catalogue":               1, // standard library only
	"adapters/catalogue/archive":       2,
	"adapters/catalogue/postgres":      2,
	"adapters/catalogue/sqlite":        2,
	"adapters/catalogue/storetest":     2, // of tests
	"adapters/merge/names":             0, // standard library only
	"adapters/merge/deceptive":         1,
	"adapters/skills":                  2,
	"adapters/merge/find":              5,
	"adapters/merge/skillset":          5,
	"adapters/merge/metatools":         2,
	"adapters/classification":          3,
	"adapters/classification/chat":     4,
	"adapters/search":                  3,
	"adapters/search/lexical":          1,
	"adapters/definitions":             3,
	"adapters/merge":                   6,
	"adapters/merge/lists":             5,
	"adapters/merge/view":              4,
	"adapters/merge/handles":           3,
	"adapters/mux":                     4,
	"adapters/era":                     9, // the four ways between the eras
	"adapters/events":                  2,
	"adapters/events/deadletter":       3,
	"adapters/events/jetstream":        3,
	"adapters/events/loadtest":         3, // of tests
	"adapters/events/natstest":         3, // of tests
	"adapters/events/webhook":          3,
	"adapters/service":                 3,
	"adapters/decision":                3,
	"adapters/oauth":                   3,
	"adapters/otlp":                    3,
	"adapters/rest/schema":             3,
	"adapters/rest/openapi":            3,
	"adapters/rest/envelope":           3,
	"adapters/rest/mcpcall":            4,
	"adapters/rest/catalog":            5,
	"adapters/httpcall":                4, // what modern and legacy HTTP share towards servers
	"adapters/mcphttp":                 4, // what modern and legacy HTTP share
	"adapters/modern":                  5,
	"adapters/legacy":                  5,
	"adapters/sse":                     5,
	"adapters/stdio/upstream":          3,
	"adapters/rest":                    6,
	"adapters/rest/upstream":           5,

	"adapters/grpc/channel":                  3,
	"adapters/grpc/provider":                 5,
	"adapters/grpc/providerpb":               1, // generated
	"adapters/grpc/providerpb/cloudeventspb": 0, // generated
	"adapters/grpc/reply":                    2,
	"adapters/grpc/schema":                   1,
	"adapters/grpc/services":                 4,

	"examples/provider-go":       3,
	"examples/provider-go/hello": 2,

	"adapters/admin":                    5,
	"adapters/aggregator":               5,
	"adapters/subregistry":              5,
	"policies/internal/policytest":      2,
	"policies":                          4, // shared by the packages below
	"policies/access":                   5,
	"policies/cache":                    5,
	"policies/health":                   5,
	"policies/hook":                     5,
	"policies/idempotency":              5,
	"policies/limits":                   5,
	"policies/resilience":               5,
	"policies/telemetry":                5,
	"bench/measure":                     0,
	"bench/reference":                   3,
	"bench/reference/special":           4,
	"bench/load/watch":                  4,
	"bench/load/drive":                  6,
	"bench/report":                      7,
	"bench/search":                      7,
	"conformance/everything":            5,
	"conformance/everything/alarm":      0,
	"conformance/everything/arguments":  3,
	"conformance/everything/calls":      4,
	"conformance/everything/changes":    4,
	"conformance/everything/content":    3,
	"conformance/shape":                 0, // knows messages only
	"conformance/peer":                  6, // uses only the framing of the adapters
	"conformance/suite":                 7,
	"conformance/checks/checkutil":      8,
	"conformance/checks/legacy":         9,
	"conformance/checks/modern":         9,
	"conformance/checks/rest":           9,
	"conformance/checks":                10,
	"conformance/report":                8,
	"conformance/mock":                  8,
	"conformance/official":              8,
	"conformance/intermediary":          9,
	"internal/testkit":                  0,
	"internal/testkit/database":         1,
	"internal/config/value":             2,
	"internal/config/command":           3,
	"internal/config/source":            3,
	"internal/config/field":             3,
	"internal/imported":                 4,
	"internal/imported/clients":         5,
	"internal/imported/registry":        5,
	"internal/imported/bundle":          5,
	"internal/scaffold":                 0, // standard library only
	"internal/setup":                    6,
	"internal/config":                   6,
	"internal/config/reference":         7,
	"internal/app/tuning":               0,
	"internal/app/tuning/heap":          0, // initialized before all others
	"internal/app/component":            2,
	"internal/app/logging":              7,
	"internal/app/sorting":              7,
	"internal/app/target":               10,
	"internal/app/registry":             11,
	"internal/app":                      12,
	"internal/generate/names":           0,
	"internal/generate/output":          0,
	"internal/generate/shape":           1,
	"internal/generate":                 2,
	"internal/generate/bash":            3,
	"internal/generate/command":         3,
	"internal/generate/command/program": 0, // generated code, which is tested here
	"internal/generate/python":          3,
	"internal/generate/typescript":      3,
	"internal/generate/template":        3,
	"internal/generate/source":          3,
	"internal/generate/targets":         4,
	"internal/cli/servers":              11,
	"internal/cli/clients":              13,
	"internal/cli":                      14,
	"internal/clitest":                  15,
	"internal/e2e":                      16, // tests only
	"internal/laws":                     16,
	".":                                 15,

	"adapters/search/embedding":           0, // standard library only
	"adapters/search/embedding/bert":      1,
	"adapters/search/embedding/endpoint":  3,
	"adapters/search/vectors":             0,
	"adapters/search/vectors/postgres":    1,
	"adapters/search/vectors/qdrant":      1,
	"adapters/search/vectors/sqlite":      1,
	"adapters/search/vectors/vectorstest": 1, // of tests
}

// owners lists the packages that may use a third-party dependency, and the reason why others may not.
var owners = map[string]struct {
	only   []string
	reason string
}{
	"github.com/valyala/fasthttp":                {[]string{"adapters/httpd/httpclient", "adapters/httpd/httpserver", "adapters/httpcall", "adapters/mcphttp", "adapters/modern", "adapters/legacy", "adapters/sse", "adapters/rest", "adapters/rest/upstream", "adapters/service", "adapters/oauth", "adapters/admin", "adapters/aggregator", "adapters/subregistry", "internal/app", "internal/app/registry", "internal/app/target", "internal/cli", "internal/cli/servers", "bench"}, "HTTP is spoken in the HTTP adapters"},
	"github.com/fasthttp/router":                 {[]string{"adapters/httpd/httpserver"}, "one package owns the listener"},
	"os/exec":                                    {[]string{"adapters/stdio/process", "adapters/stdio/reaper", "bench", "deploy", "internal/generate/template", "internal/testkit", "internal/testkit/database"}, "one folder owns child processes; Jinja2 is run for the length of one command"},
	"github.com/hashicorp/golang-lru":            {[]string{"proxy/session", "policies/cache", "policies/hook", "policies/limits", "policies/resilience", "adapters/definitions", "adapters/merge/lists", "adapters/search", "adapters/merge/view", "adapters/rest/catalog", "adapters/rest/schema", "adapters/oauth"}, "caches live with their owners"},
	"github.com/rs/zerolog":                      {[]string{"internal/app", "internal/app/logging", "internal/app/registry", "internal/app/sorting", "internal/app/target", "policies/access", "policies/telemetry"}, "errors are logged once, by audit"},
	"github.com/prometheus/client_golang":        {[]string{"policies", "adapters/admin", "internal/app", "internal/app/component", "internal/app/registry", "internal/app/sorting", "internal/app/target"}, "metrics are a policy"},
	"github.com/sony/gobreaker":                  {[]string{"adapters/stdio/supervisor", "policies/health"}, "a circuit belongs to what it protects"},
	"github.com/go-jose/go-jose":                 {[]string{"adapters/oauth"}, "signatures of tokens are checked in one place"},
	"github.com/jackc/pgx/v5":                    {[]string{"adapters/catalogue/postgres", "adapters/search/vectors/postgres", "internal/testkit/database"}, "each store of a database is one package"},
	"golang.org/x/term":                          {[]string{"internal/cli"}, "people are asked at one place"},
	"github.com/tailscale/hujson":                {[]string{"internal/imported/clients"}, "files of clients are read and edited in one place"},
	"modernc.org/sqlite":                         {[]string{"adapters/catalogue/sqlite", "adapters/search/vectors/sqlite"}, "each store of a file is one package"},
	"github.com/qdrant/go-client":                {[]string{"adapters/search/vectors/qdrant", "conformance/grpc/definitions"}, "it links gRPC, and each store of a database is one package"},
	"google.golang.org/grpc":                     {[]string{"adapters/grpc/channel", "adapters/grpc/providerpb", "adapters/grpc/services", "adapters/search/vectors/qdrant", "bench", "conformance/grpc/reflected", "conformance/grpc/definitions", "examples/provider-go", "examples/provider-go/hello"}, "gRPC is called from one package; providers, the services of tests, and what is measured beside Dragoman are programs of their own"},
	"google.golang.org/protobuf/types/dynamicpb": {[]string{"adapters/grpc/schema", "conformance/grpc/definitions"}, "messages of types that are known at run time are handled in one place"},
	"github.com/nats-io/nats.go":                 {[]string{"adapters/events/jetstream", "adapters/events/natstest"}, "NATS is spoken in one package"},
	"github.com/nats-io/nats-server":             {[]string{"adapters/events/natstest"}, "it is for tests"},
	"github.com/cloudevents/sdk-go":              {nil, "it is for tests: its JSON codec makes the binary a fifth larger"},
	"github.com/yuin/goldmark":                   {nil, "it is for tests: Markdown is written here, and never read"},
	"github.com/viterin/vek":                     {[]string{"adapters/search/embedding/bert", "adapters/search/vectors"}, "vectors are computed in two places"},
	"github.com/kljensen/snowball":               {[]string{"adapters/search/lexical"}, "words are stemmed in one place"},
	"golang.org/x/oauth2":                        {[]string{"adapters/oauth"}, "tokens for upstreams are got in one place"},
	"encoding/json":                              {[]string{"bench", "deploy", "examples/provider-go/hello", "internal/generate/command/program"}, "Dragoman decodes with goccy/go-json, and not on the hot path"},
	"net/http":                                   {[]string{"adapters/events/loadtest", "adapters/oauth", "adapters/otlp", "bench", "conformance/checks", "conformance/checks/legacy", "conformance/checks/modern", "conformance/checks/rest", "conformance/mock", "conformance/peer", "internal/generate/command/program", "internal/testkit"}, "HTTP is spoken through adapters/httpd; generated code has the standard library only; adapters/oauth only has the types of golang.org/x/oauth2 from it and sends through httpd; the sender of spans, load and tests of others are made of another's, which is wrong in other ways than ours"},
	"go.opentelemetry.io/otel":                   {[]string{"policies/telemetry", "adapters/otlp", "conformance/grpc/otlp"}, "spans are a policy; the receiver of the Collector has some of its own"},
	"go.opentelemetry.io/otel/sdk":               {[]string{"adapters/otlp"}, "spans are sent from one package"},
	"go.opentelemetry.io/otel/exporters":         {[]string{"adapters/otlp"}, "spans are sent from one package"},
}

func TestImportsGoDown(t *testing.T) {
	for dir, imports := range packages(t) {
		layer, known := layers[dir]
		if !known && !strings.HasPrefix(dir, "bench") && !strings.HasPrefix(dir, "conformance") && !strings.HasPrefix(dir, "deploy") {
			t.Errorf("%s is in no layer: add it to layers", dir)
			continue
		}
		for _, imp := range imports {
			below, own := strings.CutPrefix(imp, "dragoman/")
			if own && known {
				if f, ok := layers[below]; !ok || f >= layer {
					t.Errorf("%s (layer %d) imports %s (layer %d): imports go down", dir, layer, below, f)
				}
			}
		}
	}
}

func TestThirdPartyDependenciesHaveOwners(t *testing.T) {
	for dir, imports := range packages(t) {
		for _, imp := range imports {
			for dependency, owner := range owners {
				if imp != dependency && !strings.HasPrefix(imp, dependency+"/") {
					continue
				}
				top, _, _ := strings.Cut(dir, "/")
				if !slices.Contains(owner.only, dir) && !slices.Contains(owner.only, top) {
					t.Errorf("%s imports %s: %s", dir, imp, owner.reason)
				}
			}
		}
	}
}

func TestWireUsesTheStandardLibraryOnly(t *testing.T) {
	for _, imp := range packages(t)["proxy/wire"] {
		if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") || first == "dragoman" {
			t.Errorf("proxy/wire imports %s", imp)
		}
	}
}

// revision matches a protocol revision in code; comments are stripped before.
var revision = regexp.MustCompile(`"20\d\d-\d\d-\d\d"`)

// TestRevisionsAreComparedInRules finds revisions outside the package that may contain them.
func TestRevisionsAreComparedInRules(t *testing.T) {
	for dir := range packages(t) {
		if dir == "adapters/rules" || strings.HasPrefix(dir, "bench") || strings.HasPrefix(dir, "conformance") {
			continue
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for n, line := range strings.Split(string(raw), "\n") {
				code, _, _ := strings.Cut(line, "//")
				if revision.MatchString(code) {
					t.Errorf("%s:%d names a revision; adapters/rules is the place for that", file, n+1)
				}
			}
		}
	}
}

// packages lists the imports of every package, without tests.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != "." && (name[0] == '.' || name == "node_modules" || name == "testdata") {
			return filepath.SkipDir
		}
		p, err := build.ImportDir(path, 0)
		if err == nil {
			out[filepath.ToSlash(path)] = p.Imports
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
