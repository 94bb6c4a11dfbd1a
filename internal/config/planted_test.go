package config

import (
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// Every mistake of a file is told in one run, whatever its kind: none waits until the others are mended.
func TestAllMistakesAtOnce(t *testing.T) {
	none := t.TempDir() + "/none"
	garbage := testkit.WriteFile(t, "garbage", "no PEM")
	mistakes := []struct{ top, tables, want string }{
		{top: "listen = \"127.0.0.1:9090\"\nadmin.listen = \"127.0.0.1:9090\"\n", want: "admin.listen: is the address of the main listener"},
		{top: "keepalife = \"1s\"\n", want: "keepalife: unknown key"},
		{top: "drain_timeout = \"1x\"\n", want: "drain_timeout: "},
		{tables: "[tracing]\nendpoint = \"http://127.0.0.1:4318\"\nca_file = '" + garbage + "'\n", want: "tracing.ca_file: "},
		{tables: "[security.jwt]\nissuer = \"https://i\"\nresource = \"https://r\"\njwks_file = '" + none + "'\n", want: "security.jwt.jwks_file: "},
		{tables: "[tls]\ncert_file = '" + none + "'\nkey_file = '" + none + "'\n", want: "tls.cert_file: "},
		{tables: "[audit]\nenabled = true\nfile = '" + none + "/x/audit'\n", want: "audit.file: "},
		{tables: "[dependencies.d]\nport = 0\n", want: "dependencies.d.port: "},
		{tables: "[upstreams.both]\nurl = \"http://a\"\ncommand = [\"b\"]\n", want: "upstreams.both.command: excludes url"},
		{tables: "[upstreams.neither]\n", want: "upstreams.neither: has neither"},
		{tables: "[upstreams.cwd]\ncommand = [\"b\"]\ncwd = '" + none + "'\n", want: "upstreams.cwd.cwd: "},
		{tables: "[upstreams.env]\ncommand = [\"b\"]\nenv_file = '" + none + "'\n", want: "upstreams.env.env_file: "},
		{tables: "[upstreams.ca]\nurl = \"https://a\"\nca_file = '" + garbage + "'\n", want: "upstreams.ca.ca_file: "},
		{tables: "[upstreams.socket]\nurl = 'unix:" + garbage + "'\n", want: "upstreams.socket.url: "},
		{tables: "[upstreams.header]\nurl = \"https://a\"\nheaders.X = \"file:" + none + "\"\n", want: "upstreams.header.headers.X: "},
		{tables: "[upstreams.scheme]\nurl = \"ftp://a\"\n", want: "upstreams.scheme.url: "},
		{tables: "[upstreams.fall]\nurl = \"https://a\"\nfallback = \"nowhere\"\n", want: "upstreams.fall.fallback: "},
		{tables: "[upstreams.Upper]\nurl = \"https://a\"\n", want: "upstreams.Upper: "},
	}
	var top, tables strings.Builder
	for _, m := range mistakes {
		top.WriteString(m.top)
		tables.WriteString(m.tables)
	}
	_, err := LoadConfig(LoadOptions{File: testkit.WriteFile(t, "planted.toml", top.String()+tables.String()), For: OnConfig})
	if err == nil {
		t.Fatal("it is accepted")
	}
	for _, m := range mistakes {
		if !strings.Contains(err.Error(), m.want) {
			t.Errorf("not told: %s", m.want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

// Editors write the schema's name into a file.
func TestSchemaIsNoSetting(t *testing.T) {
	for name, text := range map[string]string{"c.json": `{"$schema": "./config.schema.json", "keepalive": "20s"}`, "c.yaml": "$schema: ./x\nkeepalive: 20s\n", "c.toml": "\"$schema\" = \"x\"\nkeepalive = \"20s\"\n"} {
		if _, err := LoadConfig(LoadOptions{File: testkit.WriteFile(t, name, text)}); err != nil {
			t.Error(err)
		}
	}
	if _, err := LoadConfig(LoadOptions{File: testkit.WriteFile(t, "c.json", `{"rest": {"$schema": "x"}}`)}); err == nil {
		t.Error("a table has no schema of its own")
	}
}

// A key that is written twice is reported in the file of API keys, too.
func TestKeysFileDuplicates(t *testing.T) {
	const hash = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	keys := testkit.WriteFile(t, "keys.yaml", "a: { hashes: ["+hash+"] }\nb: { scopes: [x] }\na: { hashes: ["+strings.Replace(hash, "00", "11", 1)+"] }\n")
	_, err := LoadConfig(LoadOptions{File: testkit.WriteFile(t, "c.toml", "[security]\napi_keys_enabled = true\napi_keys_file = '"+keys+"'\n")})
	if err == nil || !strings.Contains(err.Error(), "keys.yaml:3") || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%v", err)
	}
}
