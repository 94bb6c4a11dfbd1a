package config

import (
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// Seed 000, ServiceConfiguration: dependencies are the user's own table, of which Dragoman reads address and timeouts.
func TestDependencies(t *testing.T) {
	cfg, err := load(t, testkit.WriteFile(t, "d.toml", `
[monitoring]
health_check_interval = 10
[dependencies.memgraph]
host = "localhost"
port = 7687
user = "x"
pool.size = 3
[dependencies.api]
url = "https://example.com/health"
timeout = "250ms"
[dependencies.vague]
comment = "nothing to look at"
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Dependencies) != 3 || cfg.Monitoring.HealthCheckInterval != 10*time.Second {
		t.Fatalf("%+v", cfg.Dependencies)
	}
	got := map[string]Dependency{}
	for _, d := range cfg.Dependencies {
		got[d.Name] = *d
	}
	for _, want := range []Dependency{
		{Name: "memgraph", Host: "localhost", Port: 7687, Timeout: time.Second},
		{Name: "api", URL: "https://example.com/health", Timeout: 250 * time.Millisecond},
		{Name: "vague", Timeout: time.Second},
	} {
		if got[want.Name] != want {
			t.Errorf("%+v, want %+v", got[want.Name], want)
		}
	}
	m, v := got["memgraph"], got["vague"]
	if m.Address() != "localhost:7687" || v.Address() != "" {
		t.Errorf("%q %q", m.Address(), v.Address())
	}
	for text, want := range map[string]string{
		`port = 0`: "out of range", `port = "x"`: "fix: write 1 to 65535", `url = "ftp://x"`: "is not an http or https URL", `timeout = "1ms"`: "100ms to 1m", `host = ""`: "must not be empty",
	} {
		if _, err := load(t, testkit.WriteFile(t, "d.toml", "[dependencies.d]\n"+text), nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "dependencies.d.") || !strings.Contains(err.Error(), "fix: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
