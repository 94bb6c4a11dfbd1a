package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-json"
	"github.com/rs/zerolog"

	"dragoman/internal/config/source"
	"dragoman/internal/config/value"
	"dragoman/internal/testkit"
)

// sameConfig is one configuration in the three formats, each in its own style.
func sameConfig(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"c.toml": testkit.ReadText(t, "internal/config/testdata/formats.toml"),
		"c.yaml": `# a comment
listen: 127.0.0.1:2000
limits: {line: 1MiB, header: 8192}
sessions.idle_ttl: 45m
security:
  allowed_hosts:
    - a
    - b:1
  allow_anonymous: true
upstreams:
  a:
    command: [npx, -y, x, 10]
    env:
      PORT: 8080
      odd.name: "é"
  b:
    url: https://b.example/mcp
    headers: {X-A: 1}
`,
		"c.yml": "listen: '127.0.0.1:2000'\r\nlimits:\r\n  line: 1MiB\r\n  header: 0x2000\r\nsessions:\r\n  idle_ttl: 45m\r\nsecurity: {allowed_hosts: [a, 'b:1'], allow_anonymous: true}\r\n" +
			"upstreams: {a: {command: [npx, -y, x, 10], env: {PORT: 8080, odd.name: \"\\u00e9\"}}, b: {url: https://b.example/mcp, headers: {X-A: '1'}}}\r\n",
		"c.json": "\xef\xbb\xbf" + `{"listen": "127.0.0.1:2000", "limits": {"line": 1048576, "header": "8KiB"}, "sessions.idle_ttl": "45m",
"security": {"allowed_hosts": ["a", "b:1"], "allow_anonymous": true},
"upstreams": {"a": {"command": ["npx", "-y", "x", 10], "env": {"PORT": 8080, "odd.name": "\u00e9"}},
"b": {"url": "https:\/\/b.example/mcp", "headers": {"X-A": 1}}}}`,
	}
}

// The three formats give the same configuration.
func TestFormatsAgree(t *testing.T) {
	files := sameConfig(t)
	var want *Config
	for _, name := range []string{"c.toml", "c.yaml", "c.yml", "c.json"} {
		path := testkit.WriteFile(t, name, files[name])
		c, err := load(t, path, nil)
		if err != nil {
			t.Errorf("%s: %s", name, errorLines(err, path))
			continue
		}
		c = withoutOrigin(c)
		if want == nil {
			want = c
		}
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", name, c, want)
		}
	}
	if u := want.Upstream("a"); want.Limits.Header != 8192 || strings.Join(u.Environ(), "|") != "PORT=8080|odd.name=é" || u.Command[3] != "10" {
		t.Errorf("%+v %+v", want, u)
	}
}

// Errors name file, line, key and fix, and all of them are reported.
func TestFileErrors(t *testing.T) {
	f := func(name, text string, want ...string) {
		t.Helper()
		path := testkit.WriteFile(t, name, text)
		_, err := load(t, path, nil)
		if got := errorLines(err, path); got != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\ngives\n%s\nwant\n%s", name, text, got, strings.Join(want, "\n"))
		}
	}
	// All errors at once, in line order.
	f("c.toml", "listen = \"127.0.0.1:65536\"\n\n[sessions]\nidle_tll = \"30m\"\nmax = \"many\"\n[log]\nlevel = 3\n",
		`c.toml:1: listen: "127.0.0.1:65536": the port is out of range; fix: choose a port of 1 to 65535, or 0 for any free port`,
		`c.toml:4: sessions.idle_tll: unknown key; did you mean sessions.idle_ttl?`,
		`c.toml:5: sessions.max: must be an integer, not "many"; fix: write 1 to 1000000`,
		`c.toml:7: log.level: must be text, not 3; fix: write debug, info, warn, error or critical`)
	f("c.yaml", "sessions:\n  idle_ttl: 30\n  max: 0\nlimits:\n  line: 5 MiBs\n  header: 1KiB\n",
		`c.yaml:2: sessions.idle_ttl: 30 has no unit; fix: write "30s" for seconds (a duration such as "30s" or "1h30m", 1s to 168h)`,
		`c.yaml:3: sessions.max: 0 is out of range; fix: write 1 to 1000000`,
		`c.yaml:5: limits.line: "5 MiBs" is not a size; fix: write a size such as "4MiB", "100MB" or a number of bytes, 1KiB to 1GiB`,
		`c.yaml:6: limits.header: 1KiB is out of range; fix: write a size such as "4MiB", "100MB" or a number of bytes, 4KiB to 1MiB`)
	f("c.json", "{\n  \"tool_timeout\": 301,\n  \"service\": {\n    \"port\": \"8001\",\n    \"name\": \"Bad\"\n  }\n}",
		`c.json:2: tool_timeout: 301 is out of range; fix: write a number of seconds or a duration, 1s to 5m`,
		`c.json:4: service.port: must be an integer, not "8001"; fix: write 1 to 65535, or 0 for any free port`,
		`c.json:5: service.name: "Bad" is not a name of lower-case letters, digits and hyphens that begins with a letter; fix: write a name of lower-case letters, digits and hyphens that begins with a letter`)
	// Unknown keys.
	f("c.toml", "[sesions]\nidle_ttl = \"1m\"\nmax = 1\n", `c.toml:1: sesions: unknown key; did you mean sessions?`)
	f("c.toml", "idle_ttl = \"1m\"\n", `c.toml:1: idle_ttl: unknown key; did you mean sessions.idle_ttl?`)
	f("c.toml", "quite_different = 1\n", "c.toml:1: quite_different: unknown key; fix: remove it; `dragoman config print` lists the keys")
	f("c.toml", "[upstreams.a]\nurl = \"http://a.example\"\nallow_tools = [\"x\"]\n", `c.toml:3: upstreams.a.allow_tools: unknown key; fix: what a principal may use is upstreams.a.access.PRINCIPAL.tools; PRINCIPAL "*" is everybody`)
	f("c.toml", "Listen = \"127.0.0.1:8080\"\n", `c.toml:1: Listen: unknown key; did you mean listen?`)
	f("c.toml", "[upstream.a]\nurl = \"http://a\"\n", `c.toml:1: upstream.a: unknown key; did you mean upstreams?`)
	f("c.yaml", "upstreams:\n  a:\n    location: http://a\n    header: {A: b}\n",
		"c.yaml:3: upstreams.a.location: unknown key; fix: remove it; `dragoman config print` lists the keys",
		`c.yaml:4: upstreams.a.header: unknown key; did you mean upstreams.a.headers?`)
	f("c.json", "{\"\\u0000\\n\": 1}", "c.json:1: \"\\u0000\\n\": unknown key; fix: remove it; `dragoman config print` lists the keys")
	// Duplicates and contradictions.
	f("c.toml", "listen = \"127.0.0.1:2000\"\nlisten = \"127.0.0.1:2000\"\n", `c.toml:2: listen: is set twice, first on line 1; fix: remove one of the two`)
	f("c.toml", "[log]\nlevel = \"info\"\n[log]\nformat = \"json\"\n", `c.toml:3: log: is set twice, first on line 1; fix: remove one of the two`)
	f("c.yaml", "log:\n  level: info\nkeepalive: 1s\nlog:\n  format: json\n", `c.yaml:4: log: is set twice, first on line 1; fix: remove one of the two`)
	f("c.json", "{\"log\": {\"level\": \"info\",\n\"level\": \"debug\"}}", `c.json:2: log.level: is set twice, first on line 1; fix: remove one of the two`)
	f("c.yaml", "listen: 127.0.0.1:2000\nservice:\n  host: 127.0.0.1\n  port: 2001\n", `c.yaml:4: service.port: contradicts listen (c.yaml:1): both set service.port; fix: keep one of the two`)
	f("c.yaml", "log_level: INFO\nlog: {level: debug}\n", `c.yaml:2: log.level: contradicts log_level (c.yaml:1): both set log.level; fix: keep one of the two`)
	f("c.yaml", "upstreams:\n  a:\n    url: http://a\n    headers: {X-A: s3cret, x-a: s3cret}\n", `c.yaml:4: upstreams.a.headers.x-a: contradicts upstreams.a.headers.X-A (c.yaml:4): both set upstreams.a.headers.x-a; fix: keep one of the two`)
	// Kinds.
	f("c.toml", "log = \"debug\"\n", `c.toml:1: log: is a table, not a key; fix: write a key of it such as log.level`)
	f("c.toml", "[listen]\nhost = \"a\"\n", `c.toml:1: listen: must be HOST:PORT, not a table; fix: write HOST:PORT such as 127.0.0.1:8080, port 1 to 65535, or 0 for any free port`,
		"c.toml:2: listen.host: unknown key; fix: remove it; `dragoman config print` lists the keys")
	f("c.toml", "keepalive = 2020-01-01\n", `c.toml:1: keepalive: must be a duration, not 2020-01-01; fix: write a duration such as "30s" or "1h30m", 1s to 5m`)
	f("c.yaml", "listen:\n", `c.yaml:1: listen: has no value; fix: write HOST:PORT such as 127.0.0.1:8080, port 1 to 65535, or 0 for any free port, or remove the key`)
	f("c.yaml", "security: {api_keys_enabled: true}\n", "c.yaml:1: security.api_keys_enabled: is on, but there is no key: nobody could get in; fix: add what `dragoman key new NAME` prints")
	f("c.yaml", "security: {rate_limit: 9}\nmonitoring: {health_check_interval: 9}\n", `c.yaml:1: security.rate_limit: 9 is out of range; fix: write 10 or more`,
		`c.yaml:2: monitoring.health_check_interval: 9 is out of range; fix: write a number of seconds or a duration, 10s to 24h`)
	f("c.yaml", "security: {allowed_origins: ['*', 'https://a/']}\n", `c.yaml:1: security.allowed_origins: entry 1: "*" is not an origin; fix: write a list of scheme://host[:port]`)
}

func TestUpstreamErrors(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		path := testkit.WriteFile(t, "c.toml", text)
		_, err := load(t, path, nil)
		if got := errorLines(err, path); got != strings.Join(want, "\n") {
			t.Errorf("%s\ngives\n%s\nwant\n%s", text, got, strings.Join(want, "\n"))
		}
	}
	f("[upstreams.a]\n", `c.toml:1: upstreams.a: has neither url nor command; fix: write one of the two`)
	f("[upstreams.a]\nurl = \"http://a\"\ncommand = [\"a\"]\n", `c.toml:3: upstreams.a.command: excludes url (c.toml:2); fix: keep one of the two`)
	f("[upstreams.A_b]\nurl = \"http://a\"\n", `c.toml:1: upstreams.A_b: "A_b" is not a name for an upstream; fix: use at most 64 lower-case letters, digits, hyphens and underscores, a letter first`)
	f("[upstreams]\na = \"http://a\"\n", `c.toml:2: upstreams.a: must be a table, not text; fix: write upstreams.a.url or upstreams.a.command`)
	f("[[upstreams]]\nname = \"a\"\n[[upstreams]]\nname = \"b\"\n", `c.toml:1: upstreams: must be a table of upstreams by name, not a list; fix: write upstreams.NAME.url or upstreams.NAME.command`)
	f("[upstreams.a]\ncommand = \"npx -y x\"\n", `c.toml:2: upstreams.a.command: must be a list, not text; fix: write a list such as ["npx", "-y", "PACKAGE"]`)
	f("[upstreams.a]\ncommand = []\n", `c.toml:2: upstreams.a.command: names no program; fix: write a list such as ["npx", "-y", "PACKAGE"]`)
	f("[upstreams.a]\ncommand = [\"a\", {}]\n", `c.toml:2: upstreams.a.command: entry 2 must be text, not a table; fix: write a list such as ["npx", "-y", "PACKAGE"]`)
	f("[upstreams.a]\ncommand = [\"a\"]\ntransport = \"sse\"\nproxy = \"off\"\ncwd = \"/no/such/place\"\n",
		`c.toml:3: upstreams.a.transport: sse needs a url, not a command; fix: write auto or stdio, or remove it`,
		`c.toml:4: upstreams.a.proxy: only concerns an upstream with a url; fix: remove it`,
		`c.toml:5: upstreams.a.cwd: "/no/such/place" is not a directory; fix: create it, or remove the key`)
	f("[upstreams.a]\nurl = \"http://a\"\ntransport = \"stdio\"\nenv = { A = \"b\" }\nca_file = \"config.toml\"\n",
		`c.toml:3: upstreams.a.transport: stdio needs a command, not a url; fix: write auto, http, sse or rest`,
		`c.toml:4: upstreams.a.env: only concerns an upstream with a command; fix: remove it`,
		`c.toml:5: upstreams.a.ca_file: "config.toml" holds no PEM certificate; fix: write the roots as PEM (-----BEGIN CERTIFICATE-----)`)
	f("[upstreams.a]\nurl = \"ftp://a\"\n", `c.toml:2: upstreams.a.url: has the scheme "ftp"; only http, https, grpc, grpcs, dns, unix and tcp are spoken; fix: write an http or https URL such as https://example.com/mcp, "unix:/path/to.sock", "tcp://HOST:PORT" or "grpc://HOST:PORT"`)
	f("[upstreams.a]\nurl = \"http://\"\n", `c.toml:2: upstreams.a.url: has no host; fix: write an http or https URL such as https://example.com/mcp, "unix:/path/to.sock", "tcp://HOST:PORT" or "grpc://HOST:PORT"`)
	for url, want := range map[string]string{
		"grpc://a":              `has no port of 1 to 65535; fix: write "grpc://HOST:PORT"`,
		"grpcs://:1":            `has no host; fix: write "grpcs://HOST:PORT"`,
		"grpc://a:1/b":          `has something after the port, which gRPC has no place for; fix: write "grpc://HOST:PORT"`,
		"grpc://u:p@a:1":        `contains user information; fix: put the credentials into headers: Authorization = "env:NAME"`,
		"dns:///a":              `has no port of 1 to 65535; fix: write "dns:///NAME:PORT"`,
		"dns:a:1":               `has no port of 1 to 65535; fix: write "dns:///NAME:PORT"`,
		"dns://8.8.8.8/a:70000": `has no port of 1 to 65535; fix: write "dns:///NAME:PORT"`,
	} {
		f("[upstreams.a]\nurl = \""+url+"\"\n", "c.toml:2: upstreams.a.url: "+want)
	}
	f("[upstreams.a]\nurl = \"grpc://a:1\"\ntransport = \"sse\"\nera = \"legacy\"\nproxy = \"http://p:1\"\ngrpc.cert_file = \"config.toml\"\ngrpc.descriptors = \"/no/such/file\"\nmemory = \"1GiB\"\n",
		`c.toml:2: upstreams.a.url: is not reached by TLS, which ca_file and grpc.cert_file are for; fix: write grpcs://HOST:PORT`,
		`c.toml:3: upstreams.a.transport: sse needs an http or https url; fix: write auto, or remove it`,
		`c.toml:4: upstreams.a.era: excludes every modern revision, but gRPC services are spoken to as modern servers; fix: write auto or modern, or remove it`,
		`c.toml:5: upstreams.a.proxy: cannot be set for a gRPC service; fix: set HTTPS_PROXY, which gRPC uses, or write "off"`,
		`c.toml:6: upstreams.a.grpc.cert_file: and grpc.key_file need each other; fix: set both`,
		`c.toml:7: upstreams.a.grpc.descriptors: says nothing about a provider of mcp.provider.v1; fix: write which methods are tools: grpc.methods = ["PACKAGE.SERVICE/*"]`,
		`c.toml:7: upstreams.a.grpc.descriptors: "/no/such/file" cannot be read; fix: name a file that is there`,
		`c.toml:8: upstreams.a.memory: only concerns an upstream with a command; fix: remove it`)
	f("[upstreams.a]\nurl = \"https://a\"\ngrpc.methods = [\"*\"]\n", `c.toml:3: upstreams.a.grpc.methods: only concerns an upstream with a grpc:// or grpcs:// url; fix: remove it`)
	f("[upstreams.a]\nurl = \"grpcs://a:1\"\ngrpc.methods = [\"a b\"]\n", `c.toml:3: upstreams.a.grpc.methods: entry 1: "a b" is no pattern of methods; fix: write PACKAGE.SERVICE/METHOD, with * for any text, such as "routeguide.RouteGuide/*"`)
	f("[upstreams.a]\nurl = \"http://a\"\nera = \"2025\"\n", `c.toml:3: upstreams.a.era: "2025" is not known; fix: write auto, modern or legacy`)
	f("[upstreams.a]\nurl = \"http://a\"\nheaders.Host = \"b\"\nheaders.mcp-param-x = \"b\"\nheaders.\"a b\" = \"c\"\nheaders.A.B = \"c\"\n",
		`c.toml:3: upstreams.a.headers.Host: the header Host cannot be set: it is taken from url; fix: remove it`,
		`c.toml:4: upstreams.a.headers.mcp-param-x: the header mcp-param-x cannot be set: Dragoman mirrors it from the message; fix: remove it`,
		`c.toml:5: upstreams.a.headers."a b": "a b" is not a header name; fix: write a name such as Authorization (RFC 9110 §5.6.2)`,
		`c.toml:6: upstreams.a.headers.A.B: has a name of several parts; fix: quote the name: upstreams.a.headers."A.B"`)
}

// A syntax error names the line, and does not show the text.
func TestSyntaxErrors(t *testing.T) {
	const secret = "hunter2"
	f := func(name, text, want string) {
		t.Helper()
		path := testkit.WriteFile(t, name, text)
		_, err := load(t, path, nil)
		got := errorLines(err, path)
		if !strings.HasPrefix(got, want) || strings.Contains(got, "\n") || strings.Contains(got, secret) {
			t.Errorf("%s: %.60q gives\n%s\nwant\n%s", name, text, got, want)
		}
	}
	f("c.toml", "a = 1\nb = "+secret+"\n", "c.toml:2: is not TOML: ")
	f("c.toml", "a = 1\nb = \""+secret+"\n", "c.toml:2: is not TOML: ")
	f("c.toml", "keepalive = \"1s\"\nlisten = 2020-13-45\n", "c.toml:2: is not TOML: ")
	f("c.toml", "[service]\nname = \"a\"\n[service.name]\n", "c.toml:3: service.name: is set twice")
	f("c.toml", "a = [1,\n2,\n", "c.toml:")
	f("c.yaml", "a: [1\nb: "+secret+"\n", "c.yaml:2: is not YAML: ")
	f("c.yaml", "a:\n\tb: "+secret+"\n", "c.yaml:2: is not YAML: ")
	f("c.yaml", "- a\n- "+secret+"\n", "c.yaml:1: is not a YAML mapping")
	f("c.yaml", secret, "c.yaml:1: is not a YAML mapping")
	f("c.yaml", "a: 1\n---\nb: 2\n", "c.yaml:3: holds more than one document")
	f("c.yaml", "log: &x {level: info}\n", "c.yaml:1: uses a YAML Anchor, which is not supported; fix: write the value itself")
	f("c.yaml", "log:\n  <<: *x\n", "c.yaml:2: uses a merge key")
	f("c.yaml", "log: !!map {level: info}\n", "c.yaml:1: uses a YAML Tag")
	f("c.json", "{\n\"a\": 1,\n}", "c.json:3: is not JSON: ")
	f("c.json", "{\n\"a\": \""+secret+"\n}", "c.json:2: is not JSON: ")
	f("c.json", "{\"a\": {", "c.json:1: is not JSON: it ends too early")
	f("c.json", "{}\n{}", "c.json:2: is not JSON: something follows the object")
	f("c.json", "[]", "c.json:1: is not a JSON object")
	f("c.json", "{\"a\": 1} // "+secret, "c.json:1: is not JSON: something follows")
	f("c.ini", "a=1", `c.ini: the extension ".ini" tells no format; fix: name the file .toml, .json, .yaml or .yml`)
	for _, name := range []string{"c.toml", "c.yaml", "c.json"} {
		f(name, "# \n\x00", name+":2: is not UTF-8 text")
		f(name, "# \n\xff\xfe", name+":2: is not UTF-8 text")
		f(name, strings.Repeat(" ", source.MaxConfigFile+1), name+": is larger than 256 KiB")
	}
	f("c.toml", "a = "+strings.Repeat("[", 10000)+strings.Repeat("]", 10000), "c.toml:1: is nested more than 32 deep")
	f("c.toml", strings.Repeat("a = {", 100)+strings.Repeat("}", 100), "c.toml:1: is nested more than 32 deep")
	f("c.json", strings.Repeat(`{"a":`, 10000), "c.json:1: is nested more than 32 deep")
	f("c.json", `{"a":`+strings.Repeat("[", 10000), "c.json:1: is nested more than 32 deep")
	f("c.yaml", "a: "+strings.Repeat("[", 10000), "c.yaml:1: is nested more than 32 deep")
	f("c.yaml", "a: "+strings.Repeat("{a: ", 100)+strings.Repeat("}", 100), "c.yaml:1: is nested more than 32 deep")
	f("c.yaml", "a:\n"+strings.Repeat("- ", 10000)+"x\n", "c.yaml:2: is nested more than 32 deep")
}

func TestEmptyFiles(t *testing.T) {
	for _, name := range []string{"c.toml", "c.yaml", "c.json"} {
		for _, text := range []string{"", "\n", "\xef\xbb\xbf"} {
			if _, err := load(t, testkit.WriteFile(t, name, text), nil); err != nil {
				t.Errorf("%s %q: %v", name, text, err)
			}
		}
	}
	for _, text := range []string{"# only a comment\n", "---\n", "null\n", "upstreams:\ndependencies:\nlog:\n"} {
		if _, err := load(t, testkit.WriteFile(t, "c.yaml", text), nil); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDurationAndSizeTexts(t *testing.T) {
	f := func(key, given, want string) {
		t.Helper()
		c, err := load(t, "", nil, key+"="+given)
		if err != nil {
			t.Errorf("%s=%s: %v", key, given, err)
			return
		}
		for _, row := range c.keys() {
			if row.key == key && row.field.Text() != want {
				t.Errorf("%s=%s: %s, want %s", key, given, row.field.Text(), want)
			}
		}
	}
	f("keepalive", "60s", `"1m"`)
	f("keepalive", "1500ms", `"1.5s"`)
	f("sessions.idle_ttl", "3600s", `"1h"`)
	f("sessions.idle_ttl", "1h0m10s", `"1h0m10s"`)
	f("drain_timeout", "0", `"0s"`)
	f("tool_timeout", "2m", `120`)
	f("tool_timeout", "1500ms", `"1.5s"`)
	f("limits.line", "1GiB", `"1GiB"`)
	f("limits.line", "4MB", `4000000`)
	f("limits.line", "4096", `"4KiB"`)
	f("limits.line", "2048B", `"2KiB"`)
	f("limits.line", "100 MiB", `"100MiB"`)
	for _, bad := range []string{"keepalive=10", "keepalive=-1s", "keepalive=x", "limits.line=4M", "limits.line=1.5MiB", "limits.line=99999999999GiB", "limits.line=-1", "limits.line=", "tool_timeout=9223372036854775807"} {
		if _, err := load(t, "", nil, bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// A secret is sent to the server and shown nowhere.
func TestSecretsAreHidden(t *testing.T) {
	const secret = "hunter2"
	secretFile := testkit.WriteFile(t, "token", secret+"file\r\n")
	file := testkit.WriteFile(t, "c.toml", fmt.Sprintf(`[upstreams.a]
url = "https://a.example/mcp?key=%[1]squery&x=1"
health_check_url = "https://a.example/health?key=%[1]shealth"
proxy = "http://user:%[1]sproxy@proxy.example:3128"
headers = { A = "%[1]splain", B = "env:TOKEN", C = "file:%[2]s" }
[upstreams.b]
command = ["b"]
env = { K = "%[1]senv", DATABASE_URL = "file:./%[1]s.db" }
`, secret, secretFile))
	c, err := load(t, file, []string{"TOKEN=" + secret + "env"})
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Upstream("a"), c.Upstream("b")
	for i, want := range []string{"plain", "env", "file"} {
		if got := a.Headers[i].Value.Reveal(); got != secret+want {
			t.Errorf("header %s: %q", a.Headers[i].Name, got)
		}
	}
	if got := strings.Join(b.Environ(), "|"); got != "DATABASE_URL=file:./hunter2.db|K=hunter2env" && got != "K=hunter2env|DATABASE_URL=file:./hunter2.db" {
		t.Errorf("env: %s", got)
	}

	var shown bytes.Buffer
	if err := c.PrintTOML(&shown); err != nil {
		t.Fatal(err)
	}
	if err := c.PrintJSON(&shown); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		_, _ = fmt.Fprintf(&shown, format, a.Headers)
		_, _ = fmt.Fprintf(&shown, format, b.Env)
	}
	encoded, err := json.Marshal(b.Env)
	if err != nil {
		t.Fatal(err)
	}
	shown.Write(encoded)
	log := zerolog.New(&shown)
	log.Info().Interface("a", a.Headers).Stringer("b", b.Env[0].Value).Msg(a.Target() + b.Target())
	if strings.Contains(shown.String(), secret) || strings.Contains(shown.String(), fmt.Sprintf("%x", secret)) {
		t.Errorf("a secret is shown:\n%s", shown.String())
	}
	for _, want := range []string{
		"# upstreams.a.headers.A (set, hidden)", "# upstreams.b.env.K (set, hidden)",
		`# upstreams.a.url = "https://a.example/mcp?(hidden)"`, `# upstreams.a.health_check_url = "https://a.example/health?(hidden)"`, `# upstreams.a.proxy = "http://user:xxxxx@proxy.example:3128"`,
	} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("print lacks %q:\n%s", want, shown.String())
		}
	}
}

// No error about a secret shows it.
func TestSecretErrors(t *testing.T) {
	const secret = "hunter2"
	empty := testkit.WriteFile(t, "empty", "\n")
	f := func(rest, want string) {
		t.Helper()
		path := testkit.WriteFile(t, "c.toml", "[upstreams.a]\n"+rest+"\n")
		_, err := load(t, path, []string{"EMPTY="})
		got := errorLines(err, path)
		if strings.Contains(got, secret) || !strings.Contains(got, want) || !strings.HasPrefix(got, "c.toml:") {
			t.Errorf("%s gives %s; want %s", rest, got, want)
		}
	}
	const url = "url = \"http://a\"\n"
	f(url+`headers.A = "env:MISSING"`, `c.toml:3: upstreams.a.headers.A: the environment variable "MISSING" it refers to is not set`)
	f(url+`headers.A = "env:EMPTY"`, `"EMPTY" it refers to is not set`)
	f(url+`headers.A = "env:hunter2-token"`, `"env:" is not followed by the name of a variable`)
	f(url+`headers.A = "file:relative"`, "is not an absolute path")
	f(url+`headers.A = "file:/no/such/file"`, "cannot be read: open /no/such/file")
	f(url+`headers.A = "file:`+empty+`"`, "is empty")
	f(url+`headers.A = "hunter2\nX: y"`, "contains a control character")
	f(url+`headers.A = " hunter2"`, "begins or ends with white space")
	f(url+`headers.A = ["hunter2"]`, "must be text, not a list")
	f(url+`headers = "hunter2"`, "must be a table of names and values, not text")
	f(url+`header.A = "hunter2"`, "unknown key")
	f(`url = "http://user:hunter2@a"`, "contains user information; fix: put the credentials into headers")
	f(`url = "http://a b/hunter2"`, "is not a URL")
	f(`url = "http:?hunter2"`, "has no host")
	f(`url = "http:hunter2"`, "has no host")
	f(url+`proxy = "socks5://user:hunter2@p"`, "is not the URL of an HTTP proxy")
	f("command = [\"a\"]\nenv.A = [\"hunter2\"]", "must be text, not a list")
	f("command = [\"a\"]\nenv = \"hunter2\"", "must be a table of names and values")
	f("command = [\"a\", \"hunter2\\u0000\"]", "entry 2: contains a NUL byte")
}

func TestNearest(t *testing.T) {
	words := []string{"listen", "log.level", "sessions.idle_ttl", "era"}
	f := func(typed, want string) {
		t.Helper()
		if got := value.Nearest(typed, words); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
	f("lisetn", "listen")
	f("LISTEN", "listen")
	f("log.levle", "log.level")
	f("idle_ttl", "sessions.idle_ttl")
	f("ear", "era")
	f("x", "")
	f("something_else", "")
	f("", "")
	f(strings.Repeat("a", 10000), "")
}

// The parsers return entries or an error in bounded time for any input.
func FuzzConfigFile(f *testing.F) {
	for _, seed := range []string{
		"a: {b: [1, \"2\", {c: null}]}\n? x\n: y\n", "[a.b]\nc = {d = [1, 2.5, 2020-01-01]}\n[[e]]\nf='g'\n", `{"a": {"b": [1, {"c": null}], "d": true}}`,
		"a: |\n  x\nb: >-\n  y\n", "- - -", "\"\\u", "&a *a", "%YAML 1.2\n---\n", "a: !!x", "{,}", "? ? ?",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		if len(data) > 4096 || value.BadByte(data) >= 0 {
			return
		}
		_, _ = source.ParseTOML(data, userTable)
		_, _ = source.ParseJSON(data, userTable)
		_, _ = source.ParseYAML(data, userTable)
	})
}
