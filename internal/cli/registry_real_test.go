//go:build unix

package cli

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"dragoman/internal/config/value"
	"dragoman/internal/imported/registry"
	"dragoman/internal/testkit"
	"dragoman/internal/testkit/database"
)

var (
	registryPath   = flag.String("registry", "", "the official registry, for TestOfficialRegistry; an absolute path")
	registrySource = flag.String("registry-source", "", "the directory of its source, with examples and schemas")
)

// officialRegistry starts the official registry with its own example data, at a PostgreSQL, and returns its URL and that of the database.
func officialRegistry(t *testing.T) (base, data string) {
	t.Helper()
	data = database.Start(t).Database(t)
	ln := testkit.Listen(t)
	address := ln.Addr().String()
	_ = ln.Close()
	var said testkit.LockedBuffer
	c := exec.CommandContext(t.Context(), *registryPath)
	c.Dir = t.TempDir()
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "MCP_REGISTRY_SERVER_ADDRESS=" + address, "MCP_REGISTRY_DATABASE_URL=" + data, "MCP_REGISTRY_DATABASE_MIN_CONNECTIONS=1", "MCP_REGISTRY_DATABASE_MAX_CONNECTIONS=8",
		"MCP_REGISTRY_SEED_FROM=" + filepath.Join(*registrySource, "data", "seed.json"), "MCP_REGISTRY_ENABLE_REGISTRY_VALIDATION=false", "MCP_REGISTRY_JWT_PRIVATE_KEY=" + strings.Repeat("ab", 32), "MCP_REGISTRY_GITHUB_CLIENT_ID=x", "MCP_REGISTRY_GITHUB_CLIENT_SECRET=x"}
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("log of the registry:\n%s", said.String())
		}
	})
	base = "http://" + address
	testkit.Until(t, "the registry has its example data", time.Minute, func() bool {
		res, err := http.Get(base + "/v0.1/servers?limit=1") //nolint:noctx // it ends with the test
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return strings.Contains(string(text), `"name"`)
	})
	return base, data
}

// made are 10,000 servers, some of them hostile: names that are nearly another one, states, names and arguments that no registry takes, which a
// dishonest one could serve.
const made = `
INSERT INTO servers (server_name, version, status, status_changed_at, published_at, updated_at, is_latest, value)
SELECT name, '1.0.' || v, CASE WHEN n % 97 = 0 THEN 'deleted' WHEN n % 89 = 0 THEN 'deprecated' ELSE 'active' END, now(), now() - interval '2 days', now() - interval '1 day' - n * interval '1 second', v = 1,
	jsonb_build_object('$schema', 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json', 'name', name, 'description', 'Made server ' || n, 'version', '1.0.' || v,
		'packages', jsonb_build_array(jsonb_build_object('registryType', 'npm', 'identifier', '@made/server-' || n, 'version', '1.0.' || v, 'transport', jsonb_build_object('type', 'stdio'))))
FROM (SELECT n, v, 'io.github.made-' || (n % 100) || '/server-' || n AS name FROM generate_series(1, 5000) n, generate_series(0, 1) v) made;
INSERT INTO servers (server_name, version, status, status_changed_at, published_at, updated_at, is_latest, value)
SELECT name, '1.0.0', 'active', now(), now(), now() - interval '1 day', true, jsonb_build_object('name', name, 'description', text, 'version', '1.0.0', 'packages', packages::jsonb)
FROM (VALUES
	('io.github.modelcontextprotocol/everything', 'Exercises all features', '[{"registryType":"npm","identifier":"@modelcontextprotocol/server-everything","version":"EVERYTHING","transport":{"type":"stdio"}}]'),
	('io.github.modelcontextprotocoI/everything', 'A capital i', '[{"registryType":"npm","identifier":"evil","version":"1.0.0","transport":{"type":"stdio"}}]'),
	('io.github.modelcontext-protocol/everything', 'A hyphen', '[{"registryType":"npm","identifier":"evil","version":"1.0.0","transport":{"type":"stdio"}}]'),
	('io.github.hostile/path', 'A path', '[{"registryType":"npm","identifier":"../../etc","version":"1.0.0","transport":{"type":"stdio"}}]'),
	('io.github.hostile/call', 'A shell', '[{"registryType":"npm","identifier":"x","version":"1.0.0","transport":{"type":"stdio"},"runtimeArguments":[{"type":"named","name":"--call","value":"sh"}]}]'),
	('io.github.hostile/direction', 'Backwards ' || U&'\202e' || 'txt', '[{"registryType":"npm","identifier":"x","version":"latest","transport":{"type":"stdio"}}]')
) AS hostile (name, text, packages);`

// The official registry, with its own example data and 10,000 made versions: search, paging, changes, states, and a real server that is added from it.
func TestOfficialRegistry(t *testing.T) {
	if *registryPath == "" || *registrySource == "" {
		t.Skip("make registries runs it")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	base, data := officialRegistry(t)
	everything := regexp.MustCompile(`"@modelcontextprotocol/server-everything": "([^"]+)"`).FindStringSubmatch(testkit.ReadText(t, "conformance/package.json"))[1]
	database.Exec(t, data, strings.ReplaceAll(made, "EVERYTHING", everything))
	s := serveAggregator(t, "commands = [\"npx\"]\nseal_key = \"0123456789abcdef0123456789abcdef\"\n")
	s.environ = append(s.environ, "DRAGOMAN_REGISTRY="+base)

	c, err := registry.New(base, value.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all := map[string]int{}
	began := time.Now()
	if err := c.All(t.Context(), registry.Query{}, func(p *registry.Page) error {
		for _, e := range p.Entries {
			all[e.Server.Name+"@"+e.Server.Version]++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d versions in %v", len(all), time.Since(began).Round(time.Millisecond))
	if len(all) < 9_900 || slices.ContainsFunc(slices.Collect(func(yield func(int) bool) {
		for _, n := range all {
			if !yield(n) {
				return
			}
		}
	}), func(n int) bool { return n != 1 }) {
		t.Errorf("%d versions, or one twice", len(all))
	}

	// Search, and what changes.
	began = time.Now()
	s.want(ExitOK, "io.github.made-42/server-1042  1.0.1", "search", "server-1042")
	t.Logf("first search, with the whole list: %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	s.want(ExitOK, "io.github.made-42/server-1042", "search", "server-1042")
	t.Logf("second search: %v", time.Since(began).Round(time.Millisecond))
	s.want(ExitOK, "nothing was found", "search", "made-97/server-97")
	s.want(ExitOK, `Backwards \u202etxt`, "search", "hostile/direction")
	s.want(ExitOK, "airtable", "search", "airtable") // of its own example data
	s.want(ExitOK, "deprecated; Made server 89", "search", "server-89", "--limit", "1")

	// States and names.
	for _, test := range []struct{ name, want string }{
		{"io.github.made-97/server-97", "was deleted from the registry"},
		{"io.github.made-42/server-1042@9.9.9", "has no version 9.9.9 of io.github.made-42/server-1042; fix: its newest one is 1.0.1"},
		{"io.github.modelcontextprotocol/everythin", "only similar: io.github.modelcontextprotocol/everything"},
		{"io.github.hostile/path", "with a fixed version"},
		{"io.github.hostile/call", `hands "--call=sh" to npx`},
		{"io.github.hostile/direction", "no fixed version"},
		{"IO.github.made-42/server-1042", "has no server"},
	} {
		s.want(ExitFailed, test.want, "add", test.name)
	}
	s.mirrors(c, data)
	s.examples()

	// A real server, and this Dragoman's own list of it.
	began = time.Now()
	s.want(ExitOK, "everything is registered and connected", "add", "io.github.modelcontextprotocol/everything", "--wait", "2m", "--timeout", "3m")
	t.Logf("a server of npm: %v", time.Since(began).Round(time.Millisecond))
	s.listed(base)
}

// mirrors checks that changes arrive, one of them a deletion.
func (s *served) mirrors(c *registry.Client, data string) {
	s.t.Helper()
	now := time.Now()
	m := &registry.Mirror{Client: c, Path: registry.Path(s.t.TempDir(), c.Base()), Now: func() time.Time { return now }}
	whole, err := m.List(s.t.Context(), false)
	if err != nil {
		s.t.Fatal(err)
	}
	database.Exec(s.t, data, `UPDATE servers SET status = 'deleted', updated_at = now() WHERE server_name = 'io.github.made-1/server-1';
		UPDATE servers SET status = 'deprecated', updated_at = now() WHERE server_name = 'io.github.made-2/server-2'`)
	now = now.Add(61 * time.Minute)
	began := time.Now()
	changed, err := m.List(s.t.Context(), false)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("changes of %d servers: %v", len(whole.Servers), time.Since(began).Round(time.Millisecond))
	status := func(l *registry.List, name string) string {
		at := slices.IndexFunc(l.Servers, func(one registry.Listed) bool { return one.Name == name })
		if at < 0 {
			return "none"
		}
		return l.Servers[at].Status
	}
	for _, name := range []string{"io.github.made-1/server-1", "io.github.made-2/server-2", "io.github.made-3/server-3"} {
		want := map[string]string{"io.github.made-1/server-1": "active none", "io.github.made-2/server-2": "active deprecated", "io.github.made-3/server-3": "active active"}[name]
		if got := status(whole, name) + " " + status(changed, name); got != want {
			s.t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	if len(changed.Servers) != len(whole.Servers)-1 {
		s.t.Errorf("%d servers, then %d", len(whole.Servers), len(changed.Servers))
	}
}

// examples reads all server.json of the registry's documents: each is read, and each of its packages and remotes can be used or says why not.
func (s *served) examples() {
	s.t.Helper()
	text := testkit.ReadText(s.t, filepath.Join(*registrySource, "docs/reference/server-json/generic-server-json.md"))
	read, used := 0, 0
	for _, m := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], `"description"`) || !strings.Contains(m[1], `"version"`) {
			continue
		}
		one, err := registry.Parse([]byte(m[1]))
		if err != nil {
			s.t.Errorf("%v: %s", err, m[1])
			continue
		}
		read++
		for _, o := range one.Offers("") {
			if o.Problem == nil {
				used++
			} else {
				s.t.Logf("%s: %s: %v", one.Name, o.Title, o.Problem)
			}
		}
	}
	if s.t.Logf("%d examples, of which %d packages and remotes can be used", read, used); read < 10 || used < 10 {
		s.t.Error("too few examples were read")
	}
}

// connected finds the status in what `servers show` prints; DISCONNECTED is another.
var connected = regexp.MustCompile(`\bCONNECTED\b`)

// listed checks the list of this Dragoman: by the official schema, by the official registry's own validation, and by our own client.
func (s *served) listed(base string) {
	s.t.Helper()
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(testkit.ReadText(s.t, filepath.Join(*registrySource, "internal/validators/schemas/2025-12-11.json"))))
	if err != nil {
		s.t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("server.json", schema); err != nil {
		s.t.Fatal(err)
	}
	rules, err := compiler.Compile("server.json")
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.Get(s.base + "/v0.1/servers/" + url.PathEscape("local.dragoman/everything") + "/versions/latest") //nolint:noctx // it ends with the test
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	var entry struct {
		Server json.RawMessage `json:"server"`
	}
	raw, _ := io.ReadAll(res.Body)
	if json.Unmarshal(raw, &entry) != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%d %s", res.StatusCode, raw)
	}
	one, err := jsonschema.UnmarshalJSON(strings.NewReader(string(entry.Server)))
	if err == nil {
		err = rules.Validate(one)
	}
	if err != nil {
		s.t.Errorf("%s: %v", entry.Server, err)
	}
	public := strings.Replace(string(entry.Server), s.base, "https://dragoman.example.com", 1)     // the official registry takes public addresses only
	answer, err := http.Post(base+"/v0.1/validate", "application/json", strings.NewReader(public)) //nolint:noctx // it ends with the test
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK || !strings.Contains(string(said), `"valid":true`) {
		s.t.Errorf("the official registry says of %s: %d %s", public, answer.StatusCode, said)
	}
	other := serveAggregator(s.t, "")
	other.want(ExitOK, "everything is registered and being connected", "add", "local.dragoman/everything", "--registry", s.base, "--wait", "0s")
	testkit.Until(s.t, "the connection", time.Minute, func() bool { // not at the first try if the server of npm starts slowly
		_, shown, _ := other.run("show", "everything")
		return connected.MatchString(shown)
	})
	s.want(ExitOK, fmt.Sprintf("%s  ", "local.dragoman/everything"), "search", "everything", "--registry", s.base)
}

// helloServer is a small server on Node.js without packages.
const helloServer = `const lines = require('node:readline').createInterface({ input: process.stdin })
const results = {
  initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'hello', version: '1.0.0' } },
  'tools/list': { tools: [{ name: process.argv[2].replace('--greeting=', 'say-') + '-' + (process.env.KEY || '').length, inputSchema: { type: 'object' } }] },
  ping: {},
}
lines.on('line', (line) => {
  const m = JSON.parse(line)
  if (m.id === undefined) return
  const result = results[m.method]
  console.log(JSON.stringify(result ? { jsonrpc: '2.0', id: m.id, result } : { jsonrpc: '2.0', id: m.id, error: { code: -32601, message: 'no such method' } }))
})
`

const helloManifest = `{"manifest_version":"0.3","name":"hello","version":"1.0.0","description":"Says hello","author":{"name":"Me"},
 "server":{"type":"node","entry_point":"server/index.js","mcp_config":{"command":"node","args":["${__dirname}/server/index.js","--greeting=${user_config.greeting}"],"env":{"KEY":"${user_config.key}"}}},
 "user_config":{"greeting":{"type":"string","title":"Greeting","description":"what is said","default":"hello"},"key":{"type":"string","title":"Key","description":"a key","sensitive":true,"required":true}}}`

// packer is the official tool that makes bundles.
const packer = "@anthropic-ai/mcpb@2.1.2"

// A bundle that the official tool has packed and signed is added, and its server runs with its values.
func TestOfficialBundle(t *testing.T) {
	if *registryPath == "" {
		t.Skip("make registries runs it")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "hello.mcpb")
	if err := os.MkdirAll(filepath.Join(dir, "hello", "server"), 0o700); err != nil {
		t.Fatal(err)
	}
	testkit.PutFile(t, filepath.Join(dir, "hello", "manifest.json"), helloManifest)
	testkit.PutFile(t, filepath.Join(dir, "hello", "server", "index.js"), helloServer)
	for _, args := range [][]string{{"pack", filepath.Join(dir, "hello"), file}, {"sign", file, "--self-signed"}} {
		c := exec.CommandContext(t.Context(), "npx", append([]string{"-y", packer}, args...)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	s := serveAggregator(t, "commands = [\"node\"]\n")
	below := filepath.Join(dir, "bundles")
	code, out, errs := s.run("add", "hello", "--bundle", file, "--bundles", below, "--var", "key=env:AGG_TOKEN", "--wait", "1m")
	if code != ExitOK || !strings.Contains(out, "hello is registered and connected, with 1 tool") || !strings.Contains(errs, "its signature is not checked") {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	s.want(ExitOK, fmt.Sprintf("hello.say-hello-%d", len("5ecret-of-env")), "tools", "hello")
}
