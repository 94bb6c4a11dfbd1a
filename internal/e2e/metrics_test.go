package e2e

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var updateMetrics = flag.Bool("update-metrics", false, "write "+metricsFile)

// metricsFile lists every metric with its type and labels, for the tests of the dashboard and the alert rules.
const metricsFile = "deploy/prometheus/metrics.tsv"

// borrowed lists the metrics of Go and of the process that dashboards may use.
var borrowed = []string{"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "process_max_fds", "process_start_time_seconds",
	"go_goroutines", "go_memstats_heap_inuse_bytes", "go_gc_duration_seconds"}

// listedMetric is one of the list.
type listedMetric struct{ kind, labels, help string }

var descText = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*?)"(?:, unit: "[^"]*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// describedBy adds the metrics that a collector describes.
func describedBy(t *testing.T, all map[string]listedMetric, c prometheus.Collector) {
	t.Helper()
	kind := "gauge"
	switch c.(type) {
	case *prometheus.CounterVec:
		kind = "counter"
	case *prometheus.HistogramVec:
		kind = "histogram"
	case *prometheus.SummaryVec:
		kind = "summary"
	default:
		if kinds := collected(t, c); kinds != "" {
			kind = kinds
		}
	}
	descs := make(chan *prometheus.Desc, 1000)
	c.Describe(descs)
	close(descs)
	for d := range descs {
		m := descText.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot parse: %s", d)
		}
		labels := strings.FieldsFunc(m[4], func(r rune) bool { return r == ',' })
		for _, pair := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, pair[1])
		}
		slices.Sort(labels)
		one := listedMetric{kind, strings.Join(slices.Compact(labels), ","), m[2]}
		if _, shown := all[m[1]]; !shown { // what is shown, is so with all labels
			all[m[1]] = one
		}
	}
}

// collected is the type of what a collector returns now; empty if that is nothing.
func collected(t *testing.T, c prometheus.Collector) (kind string) {
	t.Helper()
	reg := prometheus.NewRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		kind = strings.ToLower(f.GetType().String())
	}
	return kind
}

// everythingOn is a configuration with everything on that has metrics.
func everythingOn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	jwks := filepath.Join(dir, "jwks.json")
	if err := os.WriteFile(jwks, []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","use":"sig","alg":"EdDSA","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`rate_limit_burst = 5
merge = "always"
search.embeddings.url = "http://127.0.0.1:1"
search.embeddings.model = "m"
catalogue.path = "memory"
cache.bytes = "1MiB"
limits.rate = 1000
security.address_rate_limit = 1000
security.rate_limiting = "on"
security.api_keys_enabled = true
tracing.endpoint = "http://127.0.0.1:1"
policy_hook.url = "http://127.0.0.1:1"
audit.enabled = true
audit.file = %q
[security.jwt]
issuer = "https://issuer.example"
resource = "https://mcp.example"
jwks_file = %q
[security.api_keys.ci]
hashes = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
[dependencies.d]
host = "127.0.0.1"
port = 1
[events.sinks.hook]
url = "http://127.0.0.1:1"
timeout = "100ms"
[upstreams.remote]
url = "http://127.0.0.1:1/mcp"
fallback = "child"
scopes = { "tool:x" = ["y"] }
forward_headers = { X-A = "X-B" }
oauth.token_url = "http://127.0.0.1:1/token"
oauth.client_id = "i"
oauth.client_secret = "s"
[upstreams.remote.access."*"]
deny_tools = ["z"]
[upstreams.child]
command = ["/bin/cat"]
spares = 1
`, filepath.Join(dir, "audit.log"), jwks)
}

// The list of metrics is that of a Dragoman with everything on.
func TestMetricsList(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the metrics of the process differ by system")
	}
	h, _ := startApp(t, everythingOn(t))
	all := map[string]listedMetric{}
	families, err := h.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		var labels []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
		}
		slices.Sort(labels)
		all[f.GetName()] = listedMetric{strings.ToLower(f.GetType().String()), strings.Join(slices.Compact(labels), ","), f.GetHelp()}
	}
	for _, c := range h.Collectors() {
		describedBy(t, all, c)
	}
	var b strings.Builder
	b.WriteString("# Every metric: name, type, labels, help. Made by: go test ./internal/e2e -run TestMetricsList -update-metrics\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if m := all[name]; strings.HasPrefix(name, "dragoman_") || slices.Contains(borrowed, name) {
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", name, m.kind, m.labels, m.help)
		}
	}
	for _, name := range borrowed {
		if _, ok := all[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
	if *updateMetrics {
		if err := os.WriteFile(metricsFile, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(metricsFile)
	if err != nil || string(want) != b.String() {
		t.Errorf("%s differs from the metrics (%v); see the difference with: go test ./internal/e2e -run TestMetricsList -update-metrics && git diff %s", metricsFile, err, metricsFile)
	}
}
