package reference

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-json"
	"github.com/pelletier/go-toml/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/internal/testkit"
)

// The generated files match the tables in the code.
func TestReferenceIsFresh(t *testing.T) {
	var text bytes.Buffer
	if err := WriteReference(&text); err != nil {
		t.Fatal(err)
	}
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]byte{"docs/configuration.md": text.Bytes(), "docs/config.schema.json": schema} {
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the code (%v); see the difference with: make docs && git diff docs", file, err)
		}
	}
}

// Every key has a description, variables and a flag, and every listed variable works.
func TestReferenceIsComplete(t *testing.T) {
	keys := config.DescribeConfig()
	var text strings.Builder
	if err := WriteReference(&text); err != nil {
		t.Fatal(err)
	}
	tables := map[string]bool{}
	for _, d := range keys {
		tables[tableOf(d)] = true
		for i := range d.Table {
			tables[strings.Join(d.Table[:i+1], ".")] = true
		}
		if d.Doc == "" || d.Kind == "" {
			t.Errorf("%s is not explained", strings.Join(d.Path(), "."))
		}
		for _, name := range []string{d.Env, d.Mcp, d.Flag} {
			if name != "" && d.Also == "" && !strings.Contains(text.String(), "`"+name+"`") {
				t.Errorf("%s is not in the reference", name)
			}
		}
		described(t, d)
	}
	for _, d := range keys {
		for _, own := range d.Path() {
			if own != config.AnyName && !strings.Contains(text.String(), own) {
				t.Errorf("%s is not in the reference", own)
			}
		}
	}
	for name := range tables {
		if Tables[strings.TrimSuffix(name, entryOfTable)].Doc == "" {
			t.Errorf("Tables lacks %s", name)
		}
	}
	for name := range Tables {
		if !tables[name] {
			t.Errorf("Tables has %q, which is no table", name)
		}
	}
}

// described checks that the variable of a key sets it.
func described(t *testing.T, d config.Described) {
	t.Helper()
	if d.Env == "" || d.Std == "" || d.Std == `""` || d.Std == "[]" {
		return
	}
	std := config.AsWritten(d.Std)
	var items []string
	for _, item := range std.Items {
		items = append(items, item.Text)
	}
	name := strings.Replace(d.Env, "_NAME_", "_A_", 1)
	environ := []string{name + "=" + std.Text + strings.Join(items, ",")}
	target := "https://a.example/mcp"
	file := testkit.WriteFile(t, "c.toml", "[upstreams.a]\nurl = \""+target+"\"\n")
	if d.Needs == config.CommandKey {
		file = testkit.WriteFile(t, "c.toml", "[upstreams.a]\ncommand = [\"cat\"]\n")
	}
	c, err := config.LoadConfig(config.LoadOptions{File: file, Environ: environ})
	if err != nil {
		if !strings.Contains(err.Error(), "is set, but") { // a key without effect by itself
			t.Errorf("%s: %v", environ, err)
		}
		return
	}
	key := strings.Replace(strings.Join(d.Path(), "."), config.AnyName, "a", 1)
	for _, cell := range []string{key, "service.host"} {
		if from := c.Source(cell); from.Kind == value.FromEnv && from.Name == name {
			return
		}
	}
	if c.Source(key).Name != name {
		t.Errorf("%s does not set %s", name, key)
	}
}

// AsJSON converts a value decoded from TOML for a validator of JSON Schema.
func asJSON(t *testing.T, text string) any {
	t.Helper()
	var v map[string]any
	if err := toml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, data)
}

func decoded(t *testing.T, data []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// compiled is a JSON Schema, ready to validate.
func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource("schema.json", decoded(t, text)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wholeSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("docs/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, text)
}

// The schema accepts valid files: the complete file, its comments included, and files of other tests.
func TestSchemaAcceptsValidFiles(t *testing.T) {
	schema := wholeSchema(t)
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	whole := read("config.toml")
	example := regexp.MustCompile(`(?m)^# ?(?:# )?(\[[a-z_."*:/]+\]|[a-z_.]+ = .*)$`)
	files := map[string]string{
		"config.toml":            whole,
		"config.toml, all of it": example.ReplaceAllString(whole, "$1"),
		"policies":               strings.ReplaceAll(read("conformance/policies/upstream.toml"), "NAME", "a"),
		"formats":                read("internal/config/testdata/formats.toml"),
		"nothing":                "",
		"odds": "drain_timeout = 0\nlimits.line = 4096\nlog.level = \"WARNING\"\ntool_timeout = \"1m30s\"\n[upstreams.a]\ncommand = [\"x\", 1, true]\n" +
			"isolation = \"pool(4)\"\nidle_exit = 0\nenv.PORT = 80\n[security.api_keys.\"a.b\"]\nhashes = [\"sha256:x\"]\nexpires = 2027-01-31\n",
	}
	for name, text := range files {
		if err := schema.Validate(asJSON(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := schema.Validate(decoded(t, []byte(read("internal/config/testdata/scaffold.json")))); err != nil {
		t.Errorf("scaffold.json: %v", err)
	}
	for _, text := range tomlOf(t, testkit.Manual...) {
		if err := schema.Validate(asJSON(t, text)); err != nil {
			t.Errorf("%v: in\n%s", err, text)
		}
	}
}

// tomlOf returns the configurations in documents.
func tomlOf(t *testing.T, patterns ...string) (texts []string) {
	t.Helper()
	for _, f := range testkit.FencesOf(t, patterns...) {
		if f.Kind == "toml" {
			texts = append(texts, f.Text)
		}
	}
	return texts
}

// The schema refuses the mistakes that Dragoman refuses.
func TestSchemaRefusesMistakes(t *testing.T) {
	schema := wholeSchema(t)
	for _, text := range []string{
		"listne = \"127.0.0.1:8080\"",
		"listen = 8080",
		"listen = \"localhost\"",
		"sessions.idle_tll = \"30m\"",
		"sessions = 3",
		"sessions.max = 0",
		"sessions.max = 1000001",
		"sessions.max = \"many\"",
		"sessions.max = 1.5",
		"sessions.idle_ttl = 30",
		"sessions.idle_ttl = \"30 minutes\"",
		"limits.header = 100",
		"limits.line = \"5 MiBs\"",
		"limits.in_flight = -1",
		"log.level = \"loud\"",
		"eras = [\"moderm\"]",
		"eras = []",
		"tool_timeout = 301",
		"rest.enabled = \"yes\"",
		"service.name = \"Bad\"",
		"service.port = 65536",
		"security.rate_limit = 9",
		"security.jwt.algorithms = [\"HS256\"]",
		"questions.state_key = \"short\"",
		"monitoring.health_check_interval = 9",
		"dependencies.memgraph.port = 70000",
		"upstreams.A.url = \"http://a\"",
		"upstreams.a.url = \"ftp://a\"",
		"upstreams.a.command = \"npx -y x\"",
		"upstreams.a.location = \"http://a\"",
		"upstreams.a.isolation = \"pool\"",
		"upstreams.a.isolation = \"pool(1001)\"",
		"upstreams.a.retries = 11",
		"upstreams.a.headers = { \"Bad Name\" = \"x\" }",
		"upstreams.a.headers.Authorization = [\"x\"]",
		"upstreams.a.scopes = { \"write\" = [\"x\"] }",
		"upstreams.a.tools.search.timeout = 301",
		"upstreams.a.tools.search.rate = 1",
		"upstreams.a.tools.\"a*b\".enabled = true",
		"upstreams.a.oauth.client_auth = \"digest\"",
		"security.api_keys.ci.hash = \"x\"",
	} {
		if schema.Validate(asJSON(t, text)) == nil {
			t.Errorf("the schema takes %s", text)
		}
		file := testkit.WriteFile(t, "c.toml", text)
		if _, err := config.LoadConfig(config.LoadOptions{File: file, Environ: nil}); err == nil {
			t.Errorf("dragoman takes %s", text)
		}
	}
}

// The schema accepts every value that a key accepts, so that editors mark no valid value, and refuses invalid numbers, words and booleans.
func TestSchemaAgreesWithTheCode(t *testing.T) {
	for _, d := range config.DescribeConfig() {
		if d.Kind == "table" || d.Field == nil {
			continue
		}
		text, err := json.Marshal(d.Shape)
		if err != nil {
			t.Fatal(err)
		}
		schema := compiled(t, text)
		exact := slices.Contains([]string{"integer", "word", "boolean"}, d.Kind)
		for value, v := range probes(d) {
			took := d.Field.Set(v) == nil
			fits := schema.Validate(decoded(t, []byte(value))) == nil
			if took && !fits || exact && fits && !took {
				t.Errorf("%s = %s: accepted %v, by the schema %v", strings.Join(d.Path(), "."), value, took, fits)
			}
		}
	}
}

// probes returns values, as JSON, that may or may not be valid for a key.
func probes(d config.Described) map[string]value.Literal {
	all := map[string]value.Literal{
		`true`: {Kind: value.BooleanLiteral, Text: "true"}, `1.5`: {Kind: value.FloatLiteral, Text: "1.5"}, `[]`: {Kind: value.ListLiteral},
		`["a"]`: {Kind: value.ListLiteral, Items: []value.Literal{{Kind: value.QuotedLiteral, Text: "a"}}}, `{}`: {Kind: value.TableLiteral},
	}
	numbers := []int64{-1, 0, 1, 2, 9, 10, 30, 100, 101, 300, 301, 1023, 1024, 4096, 65535, 65536, 1 << 30, 1<<30 + 1, 1<<31 - 1, 1 << 31}
	for _, s := range append(slices.Clone(d.Shape.AnyOf), d.Shape) {
		for _, edge := range []*int64{s.Minimum, s.Maximum} {
			if edge != nil {
				numbers = append(numbers, *edge-1, *edge, *edge+1)
			}
		}
	}
	for _, n := range numbers {
		all[fmt.Sprint(n)] = value.Literal{Kind: value.IntegerLiteral, Text: fmt.Sprint(n)}
	}
	words := []string{"", "x", "0", "30s", "1h30m", ".5s", "1.s", "500ms", "4MiB", "4 KiB", "4096", "127.0.0.1:8080", ":0", "off", "env:X", "file:/x", "1.2.3", "on", "auto",
		"https://a.example/x", "http://127.0.0.1:1", "unix:/x", "tcp://a:1", "shared", "pool(1000)", "pool( 7 )", "pool(1001)", "2027-01-31", "2027-01-31T12:00:00Z", strings.Repeat("k", 40)}
	for _, word := range append(words, d.Shape.Enum...) {
		all[value.Quote(word)] = value.Literal{Kind: value.QuotedLiteral, Text: word}
	}
	return all
}
