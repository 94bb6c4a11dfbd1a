package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/oauth"
	"dragoman/internal/config/field"
	"dragoman/internal/config/source"
	"dragoman/internal/config/value"
	"dragoman/internal/testkit"
)

// load loads a file with variables and flags, given as KEY=VALUE.
func load(t *testing.T, file string, environ []string, flags ...string) (*Config, error) {
	t.Helper()
	opt := LoadOptions{File: file, Environ: environ}
	for _, f := range flags {
		key, value, _ := strings.Cut(f, "=")
		opt.Flags = append(opt.Flags, Assignment{Path: strings.Split(key, "."), Value: []string{value}, Name: "--" + key})
	}
	return LoadConfig(opt)
}

// errorLines returns the errors of a load, one a line, without the file's directory.
func errorLines(err error, file string) string {
	var es value.ConfigErrors
	if !errors.As(err, &es) {
		return fmt.Sprint(err)
	}
	lines := make([]string, 0, len(es))
	for _, e := range es {
		line := e.Error()
		if file != "" {
			line = strings.ReplaceAll(line, file, filepath.Base(file))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// withoutOrigin returns a configuration without the sources of its values.
func withoutOrigin(c *Config) *Config {
	bare := *c
	bare.Origin = Origin{Warnings: c.Warnings}
	return &bare
}

func TestDefaults(t *testing.T) {
	c, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	c = withoutOrigin(c)
	want := &Config{
		Service: ServiceConfig{Name: "dragoman", Host: "127.0.0.1", Port: 8080},
		Admin:   AdminConfig{Listen: "127.0.0.1:9090", Ready: ReadyAny},
		Profile: "development",
		Log:     LogConfig{Level: "info", Format: "auto", Access: "errors"},
		Audit: AuditConfig{Methods: []string{"tools/call"}, Arguments: "none", Redact: strings.Split(secretNames, ","),
			ValueBytes: 256, ArgumentBytes: 8 << 10, Queue: 4 << 20, OnFull: "drop"},
		Events:      EventsConfig{Types: []string{"*"}, Content: "none", DeadLetterBytes: 64 << 20, Queue: 16 << 20},
		Sessions:    SessionsConfig{IdleTTL: 30 * time.Minute, Max: 10000, MaxPerPrincipal: 1000},
		Eras:        []string{"modern", "legacy"},
		ErrorStatus: "strict",
		Questions: QuestionsConfig{TTL: 10 * time.Minute, MaxParked: 1000, MaxParkedPerPrincipal: 100, Rounds: 10,
			Settle: 8 * time.Millisecond, LeaseWait: 30 * time.Second},
		Resume:       ResumeConfig{Events: 256, Bytes: 1 << 20, Total: 256 << 20, Retry: time.Second},
		Idempotency:  IdempotencyConfig{Mode: "replay", Window: 5 * time.Minute, Max: 10000, Bytes: 16 << 20},
		Rest:         RestConfig{Enabled: true, ToolError: "error", Validate: true, ToolsTTL: 30 * time.Second, Capabilities: []string{"elicitation", "sampling"}},
		Subregistry:  SubregistryConfig{Enabled: true},
		DrainTimeout: 30 * time.Second,
		Keepalive:    15 * time.Second,
		KeepAwake:    true,
		Limits: LimitsConfig{
			RequestBody: 4 << 20, ResponseBody: 100 << 20, Line: 64 << 20, Event: 100 << 20, Header: 64 << 10,
			Streams: 10000, Listens: 10000, ListensPerPrincipal: 1000, RequestTime: 15 * time.Minute, ReadTime: 30 * time.Second, InFlight: 100, Queue: 1000, InFlightBytes: 100 << 20,
			AnswerBytes: 256 << 20, AnswerBytesPerPrincipal: 64 << 20, AnswerRate: 1 << 10, ArrivingBytes: 1 << 30,
		},
		Security: SecurityConfig{AllowedHosts: []string{}, AllowedOrigins: []string{}, TrustedProxies: []string{}, Auth: AuthConfig{Anonymous: "never",
			JWT: JWTConfig{Audience: []string{}, Algorithms: oauth.Algorithms(), Types: []string{"at+jwt", "jwt"}, Scopes: []string{}, PrincipalClaim: "sub",
				Leeway: 30 * time.Second, JWKSTTL: 10 * time.Minute, JWKSStale: time.Hour}}},
		TLS:    TLSConfig{ClientAuth: "none", ClientScopes: []string{}, MinVersion: "1.2"},
		Reload: ReloadConfig{Watch: 2 * time.Second},
		Merge:  "auto", Names: NamesConfig{Prefix: "always", Separator: ".", Length: 64}, Listing: ListingConfig{Grace: 5 * time.Minute, FirstWait: 5 * time.Second, Skills: "members"},
		Catalogue: CatalogueConfig{Definitions: "warn"}, Search: SearchConfig{Timeout: 2 * time.Second, Vectors: "file"}, ToolContext: ContextConfig{Mode: "all", Tools: 100, Bytes: 100 << 10, Always: []string{}},
		Classification: ClassificationConfig{Mode: "local", Timeout: 10 * time.Second, Fallback: true},
		Aggregator:     AggregatorConfig{Commands: []string{}, Networks: []string{}, Secrets: []string{}},
		Tracing:        TracingConfig{SampleRatio: 1, Timeout: 10 * time.Second, Queue: 2048, Batch: 512, Wait: 5 * time.Second},
		Monitoring:     MonitoringConfig{MetricsEnabled: true, ToolLabel: true, HealthCheckInterval: 30 * time.Second},
		Timeouts:       TimeoutsConfig{Tool: 30 * time.Second, Resource: 10 * time.Second, Prompt: 5 * time.Second},
		Cache:          CacheConfig{TTL: time.Hour},
		RateLimit:      RateLimitConfig{PerMinute: 100, Burst: 20, Mode: Auto},
		PolicyHook:     PolicyHookConfig{Methods: []string{"tools/call", "prompts/get", "resources/read"}, Arguments: "none", Timeout: time.Second, OnError: "deny", Cache: 1000},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("defaults:\n%+v\nwant\n%+v", c, want)
	}
}

func TestUpstreamDefaults(t *testing.T) {
	c, err := load(t, testkit.WriteFile(t, "c.toml", "[upstreams.a]\nurl = \"https://a.example/mcp\"\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Upstream{
		Name: "a", URL: "https://a.example/mcp", Transport: "auto",
		ProtocolConfig: ProtocolConfig{Era: "auto", Eras: []string{}, Tasks: "hide", Isolation: "session", VerdictTTL: 10 * time.Minute, MaxSessions: 100,
			Declare: "client", PollChanges: 30 * time.Second},
		HTTPConfig: HTTPConfig{ConnectTimeout: 10 * time.Second, OAuth: OAuthConfig{ClientAuth: "basic", Scopes: []string{}}},
		GRPCConfig: GRPCConfig{Methods: []string{}, Keepalive: 5 * time.Minute, KeepaliveTimeout: 20 * time.Second},
		ProcessConfig: ProcessConfig{StopGrace: 5 * time.Second, KillGrace: 2 * time.Second, EnvInherit: []string{}, MaxProcesses: 100, StartTimeout: time.Minute,
			CrashLimit: 5, CrashPause: 30 * time.Second, Stderr: "info"},
		PolicyConfig: PolicyConfig{Health: HealthConfig{CheckInterval: 30 * time.Second, CheckTimeout: 5 * time.Second, BreakerFailures: 20, BreakerTrials: 1,
			BreakerPause: 30 * time.Second, Retries: 2, RetryBackoff: 100 * time.Millisecond, RetryBudget: 20}},
	}
	if u := c.Upstream("a"); !reflect.DeepEqual(u, want) {
		t.Errorf("%+v, want %+v", u, want)
	}
	if http, stdio := want.ProbeWait(), (&Upstream{Command: []string{"x"}}).ProbeWait(); http != 5*time.Second || stdio != 10*time.Second {
		t.Errorf("probe waits: %v, %v", http, stdio)
	}
	if socket := (&Upstream{URL: "unix:/x.sock"}).ProbeWait(); socket != 10*time.Second {
		t.Errorf("probe wait of a socket: %v", socket)
	}
}

// The table of keys is consistent: every default is valid, and every field has its own key, flag and variable.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	once := func(kind, name string) {
		if name != "" && seen[kind+name] {
			t.Errorf("%s %s is duplicated", kind, name)
		}
		seen[kind+name] = true
	}
	for _, s := range new(Config).keys() {
		once("key", s.key)
		once("variable", s.env())
		once("variable", s.mcp)
		once("flag", s.flag)
		if s.field == nil {
			continue
		}
		if err := s.field.Set(value.Word(s.std)); err != nil && !s.alias() {
			t.Errorf("%s: the default %q: %v", s.key, s.std, err)
		}
		if s.doc == "" || field.Allowed(s.field) == "" {
			t.Errorf("%s is not explained", s.key)
		}
	}
	for _, s := range new(Upstream).keys() {
		once("upstream key", s.key)
		once("flag", s.flag)
		if s.field != nil && s.std != "" {
			if err := s.field.Set(value.Word(s.std)); err != nil {
				t.Errorf("%s: the default %q: %v", s.key, s.std, err)
			}
		}
	}
}

// The keys whose change needs a restart exist.
func TestFixedKeys(t *testing.T) {
	c := new(Config)
	for _, k := range c.fixedKeys() {
		if !slices.ContainsFunc(c.keys(), func(s setting) bool { return s.key == k.key || strings.HasPrefix(s.key, k.key+".") }) {
			t.Errorf("there is no key %s", k.key)
		}
	}
}

// config.toml loads to the defaults.
func TestConfigFile(t *testing.T) {
	c, err := load(t, "config.toml", nil)
	if err != nil {
		t.Fatal(err)
	}
	sources := c.sources
	plain, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, plain = withoutOrigin(c), withoutOrigin(plain)
	if !reflect.DeepEqual(c, plain) {
		t.Errorf("config.toml:\n%+v\ndefaults:\n%+v", c, plain)
	}
	for _, s := range c.keys() {
		if s.key != rateKey && len(s.writes) == 0 && s.open == nil && !s.null && s.key != hostKey && s.key != portKey && !sources[s.key].Set() {
			t.Errorf("config.toml does not set %s", s.key)
		}
	}
}

// configExamples returns the values of config.toml including those commented out, with the upstreams as one called NAME.
func configExamples(t *testing.T) map[string]value.Literal {
	t.Helper()
	data, err := os.ReadFile("config.toml")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile(`(?m)^# ?(?:# )?(\[[a-z_."*:/]+\]|[a-z_.]+ = .*)$`)
	entries, err := source.ParseTOML(example.ReplaceAll(data, []byte("$1")), userTable)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]value.Literal{}
	for _, e := range entries {
		key := value.KeyText(e.Path)
		for _, name := range []string{"upstreams.remote.", "upstreams.files."} {
			if rest, ok := strings.CutPrefix(key, name); ok {
				key = "upstreams.NAME." + rest
			}
		}
		values[key] = e.Value
	}
	return values
}

// examplesOf checks that config.toml shows every key of a table's entries with the right value.
func examplesOf(t *testing.T, of *table, values map[string]value.Literal, table string) {
	t.Helper()
	parts, err := of.parts("example")
	if err != nil {
		t.Fatalf("%s: %v", table, err)
	}
	for _, p := range parts {
		if p.open != nil { // its entries are the user's
			continue
		}
		shown := false
		for key, v := range values {
			if rest, ok := strings.CutPrefix(key, table+"."); ok && strings.HasSuffix(rest, "."+p.key) {
				shown = true
				if err := p.field.Set(v); err != nil && !p.secret {
					t.Errorf("config.toml: %s: %v", key, err)
				}
			}
		}
		if !shown {
			t.Errorf("config.toml does not mention %s.NAME.%s", table, p.key)
		}
	}
}

// config.toml names every key, also in comments, with the right value.
func TestConfigFileExamples(t *testing.T) {
	values := configExamples(t)
	for _, s := range new(Config).keys() {
		if s.open != nil && s.open.parts != nil {
			examplesOf(t, s.open, values, s.key)
			continue
		}
		v, ok := values[s.key]
		if !ok {
			if s.open == nil {
				t.Errorf("config.toml does not mention %s", s.key)
			}
			continue
		}
		if s.field == nil {
			continue
		}
		if err := s.field.Set(v); err != nil {
			t.Errorf("config.toml: %s: %v", s.key, err)
		}
	}
	standard := new(Upstream).keys()
	for i, s := range new(Upstream).keys() {
		v, ok := values["upstreams.NAME."+s.key]
		if s.open != nil && s.open.parts != nil {
			examplesOf(t, s.open, values, "upstreams.NAME."+s.key)
			continue
		}
		if !ok {
			t.Errorf("config.toml does not mention upstreams.NAME.%s", s.key)
			continue
		}
		if s.field == nil {
			continue
		}
		if err := s.field.Set(v); err != nil {
			t.Errorf("config.toml: upstreams.NAME.%s: %v", s.key, err)
		}
		if s.std != "" && standard[i].field.Set(value.Word(s.std)) == nil && s.field.Text() != standard[i].field.Text() {
			t.Errorf("config.toml: upstreams.NAME.%s is %s, the default is %s", s.key, v.Show(), s.std)
		}
	}
}

// The examples of the requirements load as they are.
func TestRequirementFiles(t *testing.T) {
	c, err := load(t, "internal/config/testdata/service.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Service.Name != "code-graph-rag" || c.Listen() != "0.0.0.0:8001" || c.Monitoring.MetricsEnabled || c.RateLimit.PerMinute != 1000 {
		t.Errorf("service.yaml: %+v", c)
	}
	if !c.RateLimited() {
		t.Error("service.yaml sets a rate without effect")
	}
	opt := c.Loaded
	opt.For = OnServe
	if _, err := LoadConfig(opt); err == nil || !strings.Contains(err.Error(), "service.yaml:5: listen: 0.0.0.0:8001 is not loopback") || !strings.Contains(err.Error(), "security.allow_anonymous = true") {
		t.Errorf("for serve: %v", err)
	}

	if c, err = load(t, "internal/config/testdata/scaffold.json", nil); err != nil {
		t.Fatal(err)
	}
	if c.Service.Name != "my-server" || c.Service.Version != "1.2.3" || c.Log.Level != "warn" || c.Listen() != "127.0.0.1:8003" ||
		c.Timeouts != (TimeoutsConfig{Tool: time.Minute, Resource: 20 * time.Second, Prompt: 7 * time.Second}) ||
		c.Limits.ResponseBody != 10<<20 || c.RateLimit != (RateLimitConfig{PerMinute: 5, Burst: 1, Mode: Auto}) {
		t.Errorf("scaffold.json: %+v", c)
	}
	if !c.RateLimited() {
		t.Error("scaffold.json sets a rate and production without effect")
	}
}

func TestPrecedence(t *testing.T) {
	file := testkit.WriteFile(t, "c.yaml", "service: {port: 2000}\nlog: {level: error}\nupstreams: {my-server: {url: 'http://file.example'}}\n")
	f := func(key, want, wantSource string, environ []string, flags ...string) {
		t.Helper()
		c, err := load(t, file, environ, flags...)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			return
		}
		for _, p := range c.printedValues() {
			if p.Key == key {
				got, from := string(p.Value), strings.ReplaceAll(p.from.String(), file, "c.yaml")
				if got != want || from != wantSource {
					t.Errorf("%s: %s from %s, want %s from %s", key, got, from, want, wantSource)
				}
				return
			}
		}
		t.Errorf("%s is not printed", key)
	}
	f("service.host", `"127.0.0.1"`, "default", nil)
	f("listen", `"127.0.0.1:2000"`, "c.yaml:1", nil)
	f("listen", `"127.0.0.1:3000"`, "MCP_HTTP_PORT", []string{"MCP_HTTP_PORT=3000"})
	f("listen", `"[::1]:4000"`, "DRAGOMAN_LISTEN", []string{"DRAGOMAN_LISTEN=[::1]:4000", "MCP_HTTP_PORT=3000", "MCP_HTTP_HOST=127.0.0.2"})
	f("service.port", `5000`, "--listen", []string{"DRAGOMAN_LISTEN=[::1]:4000"}, "listen=127.0.0.1:5000")
	f("log.level", `"error"`, "c.yaml:2", []string{"DRAGOMAN_LOG_LEVEL="})
	f("log.level", `"critical"`, "MCP_LOG_LEVEL", []string{"MCP_LOG_LEVEL=CRITICAL"})
	f("log.level", `"debug"`, "DRAGOMAN_LOG_LEVEL", []string{"MCP_LOG_LEVEL=CRITICAL", "DRAGOMAN_LOG_LEVEL=debug"})
	f("tool_timeout", `40`, "MCP_TOOL_TIMEOUT", []string{"MCP_TOOL_TIMEOUT=40"})
	f("tool_timeout", `60`, "DRAGOMAN_TOOL_TIMEOUT", []string{"MCP_TOOL_TIMEOUT=40", "DRAGOMAN_TOOL_TIMEOUT=1m"})
	f("tool_timeout", `30`, "default", []string{"MCP_TOOL_TIMEOUT=60000"}) // another program's milliseconds
	f("limits.response_body", `"7MiB"`, "MCP_MAX_RESPONSE_SIZE_MB", []string{"MCP_MAX_RESPONSE_SIZE_MB=7"})
	f("security.allowed_hosts", `["a", "b:1"]`, "DRAGOMAN_SECURITY_ALLOWED_HOSTS", []string{"DRAGOMAN_SECURITY_ALLOWED_HOSTS=a, b:1"})
	f("upstreams.my-server.url", `"http://file.example"`, "c.yaml:3", nil)
	f("upstreams.my-server.url", `"http://env.example"`, "DRAGOMAN_UPSTREAMS_MY_SERVER_URL", []string{"DRAGOMAN_UPSTREAMS_MY_SERVER_URL=http://env.example"})
	f("upstreams.my-server.connect_timeout", `"1s"`, "DRAGOMAN_UPSTREAMS_MY_SERVER_CONNECT_TIMEOUT", []string{"DRAGOMAN_UPSTREAMS_MY_SERVER_CONNECT_TIMEOUT=1s"})
	f("upstreams.other.command", `["npx", "-y", "a b"]`, "DRAGOMAN_UPSTREAMS_OTHER_COMMAND", []string{`DRAGOMAN_UPSTREAMS_OTHER_COMMAND=["npx", "-y", "a b"]`})
	f("service.port", `2000`, "c.yaml:1", []string{"KUBERNETES_SERVICE_HOST=10.0.0.1", "DRAGOMAN_SERVICE_HOST=10.0.0.2", "DRAGOMAN_SERVICE_PORT=80", "DRAGOMAN_PORT=tcp://10.0.0.2:80", "DRAGOMAN_PORT_80_TCP_ADDR=10.0.0.2", "DRAGOMAN_ADMIN_SERVICE_PORT_HTTP=9090"})
	f("service.port", `2000`, "c.yaml:1", []string{"MCP_UNKNOWN=1", "MCP_TIMEOUT=30000"})
}

func TestEnvironmentErrors(t *testing.T) {
	f := func(environ, want string) {
		t.Helper()
		_, err := load(t, "", []string{environ})
		if got := errorLines(err, ""); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", environ, got, want)
		}
	}
	f("DRAGOMAN_LISTN=x", "DRAGOMAN_LISTN: unknown variable; did you mean DRAGOMAN_LISTEN?")
	f("DRAGOMAN_SERVICE_PORT=8001", "DRAGOMAN_SERVICE_PORT: unknown variable; fix: the address is set by DRAGOMAN_LISTEN (HOST:PORT)")
	f("DRAGOMAN_UPSTREAMS_URL=http://a", "DRAGOMAN_UPSTREAMS_URL: unknown variable; fix: unset it; `dragoman config print` lists the keys")
	f("MCP_HTTP_PORT=65536", "MCP_HTTP_PORT: 65536 is out of range; fix: write 1 to 65535, or 0 for any free port")
	f("MCP_TOOL_TIMEOUT=301", "MCP_TOOL_TIMEOUT: 301 is out of range; fix: write a number of seconds or a duration, 1s to 5m")
	f("MCP_TRANSPORT_TYPE=stdio", `MCP_TRANSPORT_TYPE: "stdio" is not known; did you mean "STDIO"?; fix: write STDIO, HTTP or ""`)
	f("DRAGOMAN_UPSTREAMS_A_COMMAND=npx -y", `DRAGOMAN_UPSTREAMS_A_COMMAND: must be a JSON array of strings: commands are never split like a shell does; fix: write ["COMMAND", "ARGUMENT"]`)
	f("DRAGOMAN_SECURITY_ALLOW_ANONYMOUS=yes", `DRAGOMAN_SECURITY_ALLOW_ANONYMOUS: must be true or false, not "yes"; fix: write true or false`)
}

func TestMillisecondsOfOthers(t *testing.T) {
	c, err := load(t, "", []string{"MCP_TOOL_TIMEOUT=60000"})
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "milliseconds") {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestCheckServe(t *testing.T) {
	f := func(want string, flags ...string) {
		t.Helper()
		opt := LoadOptions{UpstreamFlags: []Assignment{{Path: []string{"url"}, Value: []string{"http://a"}, Name: "URL"}}}
		for _, flag := range flags {
			key, value, _ := strings.Cut(flag, "=")
			opt.Flags = append(opt.Flags, Assignment{Path: strings.Split(key, "."), Value: []string{value}, Name: "--" + key})
		}
		if _, err := LoadConfig(opt); err != nil {
			t.Errorf("%v: %v", flags, err)
			return
		}
		for _, use := range []Command{OnServe, OnConfig} {
			opt.For = use
			got := ""
			if _, err := LoadConfig(opt); err != nil {
				got = err.Error()
			}
			if want == "" && got != "" || !strings.Contains(got, want) {
				if use == OnConfig && want == "speaks HTTP" && got == "" {
					continue // such a configuration is for `dragoman stdio`
				}
				t.Errorf("%v for %d: %q, want %q", flags, use, got, want)
			}
		}
	}
	f("")
	f("", "listen=localhost:8080")
	f("", "listen=[::1]:8080")
	f("", "listen=127.8.0.1:8080")
	f("", "listen=[::ffff:127.0.0.1]:8080")
	f("", "listen=0.0.0.0:8080", "security.allow_anonymous=true")
	f("is not loopback", "listen=0.0.0.0:8080")
	f("is not loopback", "listen=[::]:8080")
	f("is not loopback", "listen=:8080")
	f("is not loopback", "listen=localhost.evil.example:8080")
	f("", "listen=127.0.0.1:0", "admin.listen=127.0.0.1:0")
	f("main listener, too", "listen=127.0.0.1:9090")
	f("main listener, too", "listen=127.0.0.1:8080", "admin.listen=:8080")
	f("main listener, too", "listen=0.0.0.0:8080", "security.allow_anonymous=true", "admin.listen=127.0.0.1:8080")
	f("main listener, too", "listen=localhost:8080", "admin.listen=127.0.0.1:8080")
	f("main listener, too", "listen=[::1]:8080", "admin.listen=localhost:8080")
	f("", "listen=[::1]:8080", "admin.listen=127.0.0.1:8080")
	f("speaks HTTP", "transport_type=STDIO")

	empty := testkit.WriteFile(t, "empty.toml", "")
	if _, err := LoadConfig(LoadOptions{File: empty, For: OnServe}); err == nil || !strings.Contains(err.Error(), "nothing to serve") {
		t.Errorf("no upstream: %v", err)
	}
	if c, err := LoadConfig(LoadOptions{File: empty, For: OnConfig}); err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "no upstream is configured") {
		t.Errorf("no upstream: %v", err)
	}
}

// The output of print loads to the same configuration.
func TestPrintRoundTrip(t *testing.T) {
	file := testkit.WriteFile(t, "c.toml", `listen = "127.0.0.1:2000"
security.allowed_origins = ["https://a.example"]
limits.line = 123456
keepalive = "1m1s"
[upstreams.a]
url = "https://a.example/mcp"
[upstreams.b-c]
command = ["npx", "-y", "a \"b\" \\ é <x>"]
isolation = "shared"
`)
	c, err := load(t, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := c.PrintTOML(&text); err != nil {
		t.Fatal(err)
	}
	again, err := load(t, testkit.WriteFile(t, "again.toml", text.String()), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	c, again = withoutOrigin(c), withoutOrigin(again)
	if !reflect.DeepEqual(c, again) {
		t.Errorf("%+v\nwant\n%+v\n%s", again, c, text.String())
	}
}

func TestKeyOrderIsStable(t *testing.T) {
	c, err := load(t, testkit.WriteFile(t, "c.json", `{"upstreams": {"z": {"url": "http://z"}, "a": {"url": "http://a"}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{c.Upstreams[0].Name, c.Upstreams[1].Name}
	if !slices.Equal(names, []string{"z", "a"}) {
		t.Errorf("order %v", names)
	}
}

// A configuration that others may change is taken, with a warning, and so is each file that it names.
func TestFilesThatOthersMayChange(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the rights to files are not in their modes")
	}
	env := testkit.WriteFile(t, "x.env", "A=b\n")
	file := testkit.WriteFile(t, "c.toml", fmt.Sprintf("[upstreams.a]\ncommand = [\"a\"]\nenv_file = %q\n", env))
	for _, open := range []string{"", file, env} {
		for _, path := range []string{file, env} {
			mode := os.FileMode(0o600)
			if path == open {
				mode = 0o666
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		c, err := LoadConfig(LoadOptions{File: file})
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(c.Warnings, "\n")
		if got := strings.Count(all, "may be changed by everybody on this machine (mode 0666)"); (got == 1) != (open != "") || open != "" && !strings.Contains(all, filepath.Base(open)) {
			t.Errorf("%q is open: %q", open, c.Warnings)
		}
	}
}
