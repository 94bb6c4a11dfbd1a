//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// healthAnswer is the HealthResponse of seed 000.
type healthAnswer struct {
	Status, Service, Version, Timestamp string
	UptimeSeconds                       *int `json:"uptime_seconds"`
	Dependencies                        map[string]struct {
		Status, Error string
		Response      *int `json:"response_time_ms"`
	}
}

// Seed 000, State Transitions: from INITIALIZING over HEALTHY and DEGRADED to SHUTTING_DOWN and STOPPED, in GET /health and the metrics,
// with upstreams and configured dependencies.
func TestServiceHealth(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := closed.Addr().(*net.TCPAddr).Port
	_ = closed.Close()
	command := strings.TrimSpace(fallibleToml(t, "modern", "/no/such/file", ""))
	toml := fmt.Sprintf("service.name = \"code-graph-rag\"\nservice.version = \"0.0.24\"\n[dependencies.memgraph]\nhost = \"127.0.0.1\"\nport = %d\n[dependencies.vague]\nx = 1\n%s\n[upstreams.gone]\nurl = \"http://127.0.0.1:%d/mcp\"\n",
		ln.Addr().(*net.TCPAddr).Port, command, closedPort)
	r := startRig(t, toml, false)
	f := func(path string, status int, want string, dependencies ...string) {
		t.Helper()
		var got healthAnswer
		testkit.Eventually(t, path+" is "+want, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
			defer cancel()
			res, err := r.do(ctx, "GET", path, "")
			if err != nil {
				t.Fatal(err)
			}
			got = healthAnswer{}
			if err := json.Unmarshal([]byte(res.body), &got); err != nil {
				t.Fatalf("%v: %s", err, res.body)
			}
			return got.Status == want && res.status == status
		})
		if got.Service != "code-graph-rag" || got.Version != "0.0.24" || got.UptimeSeconds == nil || got.Timestamp == "" || len(got.Dependencies) != len(dependencies) {
			t.Errorf("%+v", got)
		}
		for _, d := range dependencies {
			name, state, _ := strings.Cut(d, " ")
			if have := got.Dependencies[name]; have.Status != state || (state == "connected") != (have.Error == "") {
				t.Errorf("%s: %+v, want %s", name, have, state)
			}
		}
	}
	state := func(want string) {
		t.Helper()
		all, err := r.h.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range all {
			for _, m := range family.GetMetric() {
				if family.GetName() == "dragoman_service_state" && (m.GetGauge().GetValue() == 1) != (m.GetLabel()[0].GetValue() == want) {
					t.Errorf("%s is %v, in %s", m.GetLabel()[0].GetValue(), m.GetGauge().GetValue(), want)
				}
			}
		}
	}
	testkit.Eventually(t, "the first look at memgraph", func() bool { return r.h.Dependencies()[0].Connected })
	f("/health", 503, "unavailable", "default unavailable", "gone unavailable", "memgraph connected")
	state("INITIALIZING")
	if _, err := r.h.Targets.All[0].Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
	f("/health", 200, "degraded", "default connected", "gone unavailable", "memgraph connected")
	state("DEGRADED")
	f("/servers/default/health", 200, "healthy", "default connected", "memgraph connected")
	f("/servers/gone/health", 503, "unavailable", "gone unavailable", "memgraph connected")
	res, err := r.do(t.Context(), "GET", "/servers/other/health", "")
	if err != nil || res.status != 404 || !strings.Contains(res.body, `"code":"TOOL_NOT_FOUND"`) {
		t.Errorf("%v %+v", err, res)
	}
	r.h.Service().ShutDown()
	f("/health", 503, "unavailable", "default connected", "gone unavailable", "memgraph connected")
	state("SHUTTING_DOWN")
	r.h.Service().Stop()
	state("STOPPED")
	if !strings.Contains(r.logs.String(), "dependencies.vague") {
		t.Error("a dependency without an address is not reported")
	}
}
