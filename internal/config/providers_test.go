package config

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// The providers of a providers.yaml are upstreams (seed 002, Configuration Schema).
func TestProviders(t *testing.T) {
	path := testkit.WriteFile(t, "providers.yaml", `# the seed's example
providers:
  - name: hello-go
    type: grpc
    address: localhost:50051
    enabled: true
    metadata:
      version: "1.0.0"
      environment: development

  - name: hello-rs
    type: grpc
    address: "[::1]:50052"
  - name: off
    type: grpc
    address: localhost:1
    enabled: false
`)
	c, err := LoadConfig(LoadOptions{Providers: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range c.Upstreams {
		target, secure, ok := u.GRPC()
		got = append(got, fmt.Sprint(u.Name, " ", u.URL, " ", target, " ", secure, ok, " ", u.Metadata))
	}
	if want := "hello-go grpc://localhost:50051 dns:///localhost:50051 false true [environment=development version=1.0.0]\nhello-rs grpc://[::1]:50052 dns:///[::1]:50052 false true []"; strings.Join(got, "\n") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "provider off is switched off there, and left out") {
		t.Errorf("%q", c.Warnings)
	}
	if files := c.Files(); len(files) != 1 || files[0] != path {
		t.Errorf("a change of %q is not noticed", files)
	}
	if from := c.sources["upstreams.hello-rs.url"].String(); !strings.HasSuffix(from, "providers.yaml:11") {
		t.Error(from)
	}
	other := testkit.WriteFile(t, "c.toml", "[upstreams.hello-go]\nurl = \"http://a\"\n")
	_, err = LoadConfig(LoadOptions{File: other, Providers: []string{path}})
	if err == nil || !strings.Contains(err.Error(), "upstreams.hello-go.url: is set already, in "+other+":2; fix: rename the provider, or remove one of the two") {
		t.Error(err)
	}
	// The rest of an upstream's settings comes from the other layers.
	if c, err = LoadConfig(LoadOptions{Providers: []string{path}, Environ: []string{"DRAGOMAN_UPSTREAMS_HELLO_GO_GRPC_KEEPALIVE=10s"}}); err != nil || c.Upstream("hello-go").Keepalive.Seconds() != 10 {
		t.Error(err)
	}
}

// What breaks a rule of the seed is an error that names the line.
func TestProvidersErrors(t *testing.T) {
	entry := func(text string) string { return "providers:\n  - " + strings.ReplaceAll(text, ", ", "\n    ") + "\n" }
	for text, want := range map[string]string{
		entry("type: grpc, address: a:1"):                                                              "2: providers[0]: has no name; fix: write name: NAME",
		entry("name: a, address: a:1"):                                                                 "2: providers[0]: has no type; fix: write type: grpc",
		entry("name: a, type: rest, address: a:1"):                                                     `2: providers[0]: has the type "rest", which is not supported; fix: write type: grpc`,
		entry("name: a, type: grpc"):                                                                   "2: providers[0]: has no address; fix: write host:port, such as localhost:50051",
		entry("name: a, type: grpc, address: a"):                                                       `2: providers[0]: has the address "a", which is no host:port; fix: write host:port, such as localhost:50051`,
		entry("name: a, type: grpc, address: a:0"):                                                     `2: providers[0]: has the address "a:0", which is no host:port; fix: write host:port, such as localhost:50051`,
		entry("name: a, type: grpc, address: a:65536"):                                                 `2: providers[0]: has the address "a:65536", which is no host:port; fix: write host:port, such as localhost:50051`,
		entry("name: a, type: grpc, address: ':1'"):                                                    `2: providers[0]: has the address ":1", which is no host:port; fix: write host:port, such as localhost:50051`,
		entry("name: A b, type: grpc, address: a:1"):                                                   `2: upstreams."A b": "A b" is not a name for an upstream; fix: use at most 64 lower-case letters`,
		entry("name: a, type: grpc, address: a:1, place: a:2"):                                         "is not YAML: unknown field",
		entry("name: a, type: grpc, address: a:1") + "  - name: a\n    type: grpc\n    address: b:2\n": `5: providers[1]: has the name "a", as the entry in line 2; fix: rename one of the two`,
		"":                                       "has no list of providers; fix: write providers:, and below it entries with name, type and address",
		"providers: 7":                           "is not YAML",
		"providers: [":                           "is not YAML",
		"provider: []":                           "is not YAML: unknown field",
		"\xff":                                   "is not UTF-8 text",
		"providers: " + strings.Repeat("[", 600): "",
	} {
		path := testkit.WriteFile(t, "providers.yaml", text)
		if _, err := LoadConfig(LoadOptions{Providers: []string{path}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v\nwant %s", text, err, want)
		}
	}
	if _, err := LoadConfig(LoadOptions{Providers: []string{"/no/such/providers.yaml"}}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
}
