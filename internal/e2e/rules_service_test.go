package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/policies"
)

// Seed 000, ServiceConfiguration: its fields and validation rules, in configuration files.
func TestRulesService(t *testing.T) {
	given := func(t *testing.T, text string) *config.Config {
		t.Helper()
		c, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "service.yaml", text)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	bounds := func(t *testing.T, format, key, why string, good, bad []any) {
		t.Helper()
		for _, v := range good {
			given(t, fmt.Sprintf(format, v))
		}
		for _, v := range bad {
			_, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "service.yaml", fmt.Sprintf(format, v))})
			if err == nil || !strings.Contains(err.Error(), key+": ") || !strings.Contains(err.Error(), why) {
				t.Errorf("%s %v: %v", key, v, err)
			}
		}
	}
	t.Run("rule 4.1 service.name is who it says it is", func(t *testing.T) {
		if c := given(t, "service: {name: code-graph-rag}"); c.Service.Name != "code-graph-rag" {
			t.Error(c.Service.Name)
		}
		if c := given(t, "{}"); c.Service.Name != "dragoman" {
			t.Error(c.Service.Name)
		}
	})
	t.Run("rule 4.2 service.port is where it listens", func(t *testing.T) {
		if c := given(t, "service: {port: 8001}"); c.Listen() != "127.0.0.1:8001" {
			t.Error(c.Listen())
		}
		bounds(t, "service: {port: %v}", "service.port", "must be an integer", nil, []any{`"8001"`, "8001.5", "[8001]"})
	})
	t.Run("rule 4.3 service.host is where it listens", func(t *testing.T) {
		for _, host := range []string{"0.0.0.0", "127.0.0.1"} {
			if c := given(t, "service: {host: '"+host+"', port: 8001}"); c.Listen() != host+":8001" {
				t.Error(c.Listen())
			}
		}
	})
	t.Run("rule 4.4 monitoring.metrics_enabled serves the metrics", func(t *testing.T) { ruleMetrics(t) })
	t.Run("rule 4.5 monitoring.health_check_interval is in seconds", func(t *testing.T) {
		if c := given(t, "monitoring: {health_check_interval: 45}"); c.Monitoring.HealthCheckInterval != 45*time.Second {
			t.Error(c.Monitoring.HealthCheckInterval)
		}
	})
	t.Run("rule 4.6 security.api_keys_enabled asks callers for a key", func(t *testing.T) {
		u, key := newUpstream(t, "modern"), policies.NewKey()
		u.on("tools/list", func(c *call) { c.result(`{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`) })
		r := startRig(t, fmt.Sprintf("[security]\napi_keys_enabled = true\n[security.api_keys.ci]\nhashes = [%q]\n%s", policies.HashKey(key), u.toml("")), true)
		if res := r.must("GET", "/tools", "", "X-API-Key", key); res.status != 200 {
			t.Errorf("with the key: %d %s", res.status, res.body)
		}
		for _, headers := range [][]string{nil, {"X-API-Key", policies.NewKey()}} {
			if status, e := r.post("/call-tool", `{"tool":"a","arguments":{}}`, headers...); status != 401 || e.Code != "INVALID_ARGUMENTS" {
				t.Errorf("%v: %d %+v", headers, status, e)
			}
		}
	})
	t.Run("rule 4.7 security.rate_limit is per minute", func(t *testing.T) {
		if c := given(t, "security: {rate_limit: 1000}"); c.RateLimit.PerMinute != 1000 {
			t.Errorf("%+v", c.RateLimit)
		}
	})
	t.Run("rule 4.8 dependencies are the service's own table", func(t *testing.T) {
		c := given(t, "dependencies: {memgraph: {host: localhost, port: 7687, user: x}}")
		if len(c.Dependencies) != 1 || c.Dependencies[0].Name != "memgraph" || c.Dependencies[0].Address() != "localhost:7687" {
			t.Errorf("%+v", c.Dependencies)
		}
	})
	// The rule has 1024 to 65535. Lower ports are allowed too: the system decides who may use them.
	t.Run("rule 4.9 service.port is 1 to 65535", func(t *testing.T) {
		bounds(t, "service: {port: %v}", "service.port", "1 to 65535", []any{1024, 65535, 0, 1, 80, 1023}, []any{65536, -1})
	})
	t.Run("rule 4.10 service.name is lower-case letters, digits and hyphens, a letter first", func(t *testing.T) {
		bounds(t, "service: {name: %v}", "service.name", "lower-case letters, digits and hyphens", []any{"a", "code-graph-rag", "a1", "a-", "a--b"},
			[]any{`""`, `"1a"`, `"-a"`, "Code", "code_graph", "code.graph", `"a b"`, `"a\n"`, `"ä"`})
	})
	t.Run("rule 4.11 monitoring.health_check_interval is 10 seconds or more", func(t *testing.T) {
		bounds(t, "monitoring: {health_check_interval: %v}", "monitoring.health_check_interval", "", []any{10, 11, "10s"}, []any{9, 0, -10, 9.5, "9s"})
	})
	t.Run("rule 4.12 security.rate_limit is 10 or more", func(t *testing.T) {
		bounds(t, "security: {rate_limit: %v}", "security.rate_limit", "", []any{10, 1000}, []any{9, 0, -1})
	})
	t.Run("rule 4.18 the example", func(t *testing.T) {
		c, err := config.LoadConfig(config.LoadOptions{File: "internal/config/testdata/service.yaml"})
		if err != nil || c.Service.Name != "code-graph-rag" || c.Listen() != "0.0.0.0:8001" || c.Monitoring.MetricsEnabled || c.Monitoring.HealthCheckInterval != 30*time.Second ||
			c.Security.APIKeysEnabled || c.RateLimit.PerMinute != 1000 || len(c.Dependencies) != 1 || c.Dependencies[0].Address() != "localhost:7687" {
			t.Errorf("%v %+v", err, c)
		}
	})
}

// ruleMetrics requests the metrics of the admin listener.
func ruleMetrics(t *testing.T) {
	for _, on := range []bool{true, false} {
		h, _ := startApp(t, fmt.Sprintf("monitoring.metrics_enabled = %v\n[upstreams.default]\nurl = \"http://127.0.0.1:1/mcp\"\n", on))
		srv, err := h.AdminServer()
		if err != nil {
			t.Fatal(err)
		}
		addr := serve(t, srv, listen(t))
		client := &http.Client{Timeout: testkit.Patient, Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if (res.StatusCode == 200) != on {
			t.Errorf("metrics_enabled = %v: %d", on, res.StatusCode)
		}
	}
}

// Seed 000, ErrorCode, through the whole proxy: from a missing server, and from a service that limits its callers.
func TestRulesErrorCodeLive(t *testing.T) {
	t.Run("rule 2.7 SERVICE_UNAVAILABLE while no server is reached", func(t *testing.T) {
		r := startRig(t, "[upstreams.default]\nurl = \"http://127.0.0.1:1/mcp\"\n", false)
		if status, e := r.post("/call-tool", `{"tool":"a","arguments":{}}`); status != 503 || e.Code != "SERVICE_UNAVAILABLE" {
			t.Errorf("%d %+v", status, e)
		}
		if res := r.must("GET", "/health", ""); res.status != 503 || !strings.Contains(res.body, `"status":"unavailable"`) {
			t.Errorf("%d %s", res.status, res.body)
		}
	})
	t.Run("rule 2.6 RATE_LIMITED as the service behind says", func(t *testing.T) {
		r := startRig(t, startLimited(t), false)
		res := r.must("POST", "/call-tool", `{"tool":"query_callers","arguments":{"function_name":"f"}}`, "Content-Type", jsonType)
		if res.status != 429 || res.header.Get("Retry-After") != "7" || !strings.Contains(res.body, `"code":"RATE_LIMITED"`) || !strings.Contains(res.body, `"retryable":true,"retry_after":7`) {
			t.Errorf("%d %v %s", res.status, res.header, res.body)
		}
	})
}

// startLimited starts a service that is over its rate limit, and returns the configuration for it.
func startLimited(t *testing.T) string {
	t.Helper()
	say := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /tools", say(200, `{"service":"code-graph-rag","version":"0.0.24","tools":[{"name":"query_callers","description":"d","input_schema":{"type":"object","properties":{}}}]}`))
	mux.HandleFunc("POST /call-tool", say(429, `{"success":false,"error":"Too many requests","code":"RATE_LIMITED","request_id":"550e8400-e29b-41d4-a716-446655440001","timestamp":"2025-12-09T12:34:57.123Z"}`))
	srv := newTestServer(t, mux)
	return fmt.Sprintf("[upstreams.default]\nurl = %q\ntransport = \"rest\"\n", srv)
}
