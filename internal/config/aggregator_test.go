package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// aggregated returns a configuration with an aggregator that allows some of everything.
func aggregated(t *testing.T) *Config {
	t.Helper()
	secret := testkit.WriteFile(t, "token", "of a file\n")
	c, err := load(t, testkit.WriteFile(t, "c.toml", `
[aggregator]
commands = ["npx", "/bin/server"]
seal_key = "0123456789 0123456789 0123456789"
secrets = ["env:GIT_*", "env:ONE", "file:`+filepath.Dir(secret)+`/*"]
keys.me = { hashes = ["sha256:`+strings.Repeat("0", 64)+`"], role = "operator" }
[upstreams.own]
url = "http://127.0.0.1:1/mcp"
`), []string{"GIT_TOKEN=of git", "ONE=1", "OTHER=2", "GIT_TRICK=env:OTHER", "SECRET_FILE=" + secret})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A registered server is an upstream like those of the file, with its secrets.
func TestRegistered(t *testing.T) {
	c := aggregated(t)
	file := strings.TrimPrefix(c.Loaded.Environ[len(c.Loaded.Environ)-1], "SECRET_FILE=")
	next, left := c.With([]Registered{
		{ID: "3", Name: "z", Transport: "SSE", Connection: []byte(`{"url":"https://z.example/sse"}`), Disabled: []string{"t", "b*"}},
		{ID: "1", Name: "a", Transport: "HTTP", Wanted: true, HealthURL: "https://a.example/health",
			Connection: []byte(`{"base_url":"https://a.example/mcp","headers":{"Authorization":"Bearer ${GIT_TOKEN}, ${ONE}","X-A":"env:GIT_TRICK","X-B":"file:` + file + `"}}`)},
		{ID: "4", Name: "g", Transport: "GRPC", Connection: []byte(`{"url":"grpcs://g.example:443","headers":{"Authorization":"${ONE}"},"methods":["a.B/*","c.D/E"]}`)},
		{ID: "2", Name: "c", Transport: "STDIO", Wanted: true, Connection: []byte(`{"command":"npx","args":["-y","p@1.2.3"],"env":{"KEY":"${ONE}","PORT":"8080"}}`)},
	})
	if len(left) > 0 {
		t.Fatal(left)
	}
	var names []string
	for _, u := range next.Upstreams {
		names = append(names, u.Name)
	}
	if want := []string{"own", "a", "c", "g", "z"}; !slices.Equal(names, want) {
		t.Fatalf("servers %q, want %q", names, want)
	}
	a, child, g, z := next.Upstreams[1], next.Upstreams[2], next.Upstreams[3], next.Upstreams[4]
	if a.Registration != "1" || a.Disconnected || a.URL != "https://a.example/mcp" || a.Transport != "http" || a.Health.CheckURL != "https://a.example/health" || a.ConnectTimeout == 0 {
		t.Errorf("%+v", a)
	}
	for i, want := range []string{"Bearer of git, 1", "env:OTHER", "of a file"} { // what a secret refers to is not followed
		if got := a.Headers[i].Value.Reveal(); got != want {
			t.Errorf("header %s: %q, want %q", a.Headers[i].Name, got, want)
		}
	}
	if !slices.Equal(child.Command, []string{"npx", "-y", "p@1.2.3"}) || !slices.Equal(child.Environ(), []string{"KEY=1", "PORT=8080"}) {
		t.Errorf("%q, %q", child.Command, child.Environ())
	}
	if at, secure, ok := g.GRPC(); at != "dns:///g.example:443" || !secure || !ok || !slices.Equal(g.Methods, []string{"a.B/*", "c.D/E"}) || g.Headers[0].Value.Reveal() != "1" {
		t.Errorf("%+v", g)
	}
	if !z.Disconnected || z.Transport != "sse" || len(z.Tools) != 2 || z.Tools[0].Enabled || z.Tools[1].Name != "b*" || z.Tools[1].Enabled {
		t.Errorf("%+v", z)
	}
	if len(c.Upstreams) != 1 || c.Source("upstreams.a.url").Set() {
		t.Error("the configuration itself has changed")
	}
	if again, _ := c.With(nil); !again.Same(c) {
		t.Error("it differs without any registered")
	}
}

// Each mistake is said with its field, and all at once; the others are there.
func TestRegisteredWrongly(t *testing.T) {
	c := aggregated(t)
	for name, test := range map[string]struct {
		r    Registered
		want []string // beginnings of errors
	}{
		"the file's":        {Registered{Name: "own", Transport: "HTTP", Connection: []byte(`{"base_url":"http://x"}`)}, []string{"the configuration has a server of this name"}},
		"name":              {Registered{Name: "A b", Transport: "HTTP", Connection: []byte(`{}`)}, []string{`name: "A b" is no name`}},
		"no transport":      {Registered{Name: "x", Connection: []byte(`{}`)}, []string{`transport_type: "" is no transport`}},
		"no object":         {Registered{Name: "x", Transport: "HTTP", Connection: []byte(`[]`)}, []string{"connection_config: must be an object"}},
		"null":              {Registered{Name: "x", Transport: "HTTP", Connection: []byte(`null`)}, []string{"connection_config: must be an object"}},
		"no command":        {Registered{Name: "x", Transport: "STDIO", Connection: []byte(`{"args":[1],"env":[]}`)}, []string{"connection_config.command: is required", "connection_config.args: must be", "connection_config.env: must be"}},
		"no url":            {Registered{Name: "x", Transport: "SSE", Connection: []byte(`{"base_url":"http://x"}`)}, []string{"connection_config.url: is required", "connection_config.base_url: is no field"}},
		"no base_url":       {Registered{Name: "x", Transport: "HTTP", Connection: []byte(`{"base_url":null,"headers":{"a b":"x","Host":"x"}}`)}, []string{"connection_config.base_url: must be text", "connection_config.headers", "connection_config.headers.Host: the header Host cannot be set"}},
		"a url of none":     {Registered{Name: "x", Transport: "HTTP", Connection: []byte(`{"base_url":"ftp://x"}`)}, []string{"connection_config.base_url: is no http or https URL"}},
		"a socket":          {Registered{Name: "x", Transport: "SSE", Connection: []byte(`{"url":"unix:/var/run/docker.sock"}`)}, []string{"connection_config.url: is no http or https URL"}},
		"a password":        {Registered{Name: "x", Transport: "SSE", Connection: []byte(`{"url":"http://me:secret@x/"}`)}, []string{"connection_config.url: "}},
		"a program of none": {Registered{Name: "x", Transport: "STDIO", Connection: []byte(`{"command":"bash"}`)}, []string{`connection_config.command: "bash" may not be registered`}},
		"another npx":       {Registered{Name: "x", Transport: "STDIO", Connection: []byte(`{"command":"/tmp/npx"}`)}, []string{`connection_config.command: "/tmp/npx" may not`}},
		"what a program loads": {Registered{Name: "x", Transport: "STDIO", Connection: []byte(`{"command":"npx","env":{"path":"/x","LD_PRELOAD":"x","NODE_OPTIONS":"x","PYTHONPATH":"x"}}`)},
			[]string{"connection_config.env.LD_PRELOAD: decides", "connection_config.env.NODE_OPTIONS: decides", "connection_config.env.PYTHONPATH: decides", "connection_config.env.path: decides"}},
		"packages": {Registered{Name: "x", Transport: "STDIO", Connection: []byte(`{"command":"npx","args":["-y","@scope/server"]}`)}, []string{"connection_config.args: \"@scope/server\" has no fixed version: it could be another program at each start; fix: write `npx -y @scope/server@1.2.3`"}},
		"arguments": {Registered{Name: "x", Transport: "STDIO", Connection: []byte(`{"command":"npx","args":["p@1.2.3","--token=5ecret","--key","x","--api-key","5ecret"]}`)},
			[]string{"connection_config.args.1: holds a secret, the value of --token", "connection_config.args.5: holds a secret, the value of --api-key"}},
		"secrets": {Registered{Name: "x", Transport: "SSE", Connection: []byte(`{"url":"http://x","headers":{"A":"env:OTHER","B":"${OTHER}","C":"file:/etc/passwd","D":"${GIT_NONE}","E":"${}"}}`)},
			[]string{"connection_config.headers.A: refers to env:OTHER", "connection_config.headers.B: refers to env:OTHER", "connection_config.headers.C: refers to file:/etc/passwd", `connection_config.headers.D: the environment variable "GIT_NONE"`, "connection_config.headers.E: refers to env:"}},
		"health of a process": {Registered{Name: "x", Transport: "STDIO", HealthURL: "http://x/", Connection: []byte(`{"command":"npx"}`)}, []string{"health_check_url: is for servers with an address"}},
		"no gRPC service":     {Registered{Name: "x", Transport: "GRPC", Connection: []byte(`{"url":"https://x","base_url":"x","methods":"a"}`)}, []string{"connection_config.url: is no address of a gRPC service; fix: write one such as grpcs://", "connection_config.base_url: is no field of a GRPC connection; fix: write url, headers or methods", "connection_config.methods: must be a list of texts"}},
		"a gRPC service":      {Registered{Name: "x", Transport: "GRPC", Connection: []byte(`{"url":"grpc://me@x:1","headers":{"A":"x"},"methods":["a.B/C"]}`)}, []string{"connection_config.url: contains user information"}},
		"a DNS server":        {Registered{Name: "x", Transport: "GRPC", Connection: []byte(`{"url":"dns://169.254.169.254/x:1"}`)}, []string{"connection_config.url: is no address of a gRPC service"}},
		"no method":           {Registered{Name: "x", Transport: "GRPC", Connection: []byte(`{"url":"grpc://x:1","methods":["a b"]}`)}, []string{`connection_config.methods: entry 1: "a b" is no pattern of methods`}},
		"no health":           {Registered{Name: "x", Transport: "SSE", HealthURL: "ftp://x/", Connection: []byte(`{"url":"http://x"}`)}, []string{"health_check_url: "}},
	} {
		next, left := c.With([]Registered{test.r, {Name: "good", Transport: "SSE", Connection: []byte(`{"url":"https://x"}`)}})
		if next.Upstream("good") == nil || len(left) != 1 || left[test.r.Name] == nil || next.Source("upstreams.x.url").Set() {
			t.Errorf("%s: %v", name, left)
			continue
		}
		if strings.Contains(left[test.r.Name].Error(), "5ecret") {
			t.Errorf("%s: the error has a secret", name)
		}
		text := strings.Replace(left[test.r.Name].Error(), "the configuration has", "has", 1)
		if len(test.want) == 1 {
			text = left[test.r.Name].Error()
		}
		got := strings.Split(text, "\n  ")
		if len(test.want) > 1 {
			got = got[1:]
		}
		if len(got) != len(test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
			continue
		}
		for _, want := range test.want {
			if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}

// Packages without a fixed version may be registered if the configuration says so.
func TestUnpinned(t *testing.T) {
	c := aggregated(t)
	c.Aggregator.Unpinned = true
	if next, left := c.With([]Registered{{Name: "x", Transport: "STDIO", Connection: []byte(`{"command":"npx","args":["-y","@scope/server"]}`)}}); len(left) > 0 || next.Upstream("x") == nil {
		t.Error(left)
	}
}
