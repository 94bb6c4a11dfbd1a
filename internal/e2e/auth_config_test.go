package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/policies"
)

// A key file that others can read causes a warning, keys and secrets are printed nowhere, and the printed configuration can be loaded.
func TestAuthConfigIsPrinted(t *testing.T) {
	a := newAuthority(t)
	a.issue("listener", nothing)
	if err := os.Chmod(filepath.Join(a.dir, "listener.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	key := policies.NewKey()
	toml := "[security]\napi_keys_enabled = true\n[security.api_keys.\"a.b\"]\nhashes = [\"" + policies.HashKey(key) + "\"]\nexpires = 2027-01-31\n[tls]\ncert_file = \"" + a.dir +
		"/listener.pem\"\nkey_file = \"" + a.dir + "/listener.key\"\n[upstreams.a]\nurl = \"http://localhost:1\"\nscopes = { \"tool:a*\" = [\"file:read\"] }\noauth.token_url = \"https://t\"\noauth.client_id = \"x\"\noauth.client_secret = \"geheim\"\n"
	c, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "c.toml", toml)})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "chmod 600") {
		t.Errorf("warnings: %q", c.Warnings)
	}
	var out bytes.Buffer
	if err := c.PrintTOML(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "geheim") || strings.Contains(out.String(), key) {
		t.Errorf("a secret is printed:\n%s", &out)
	}
	again, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "again.toml", out.String())})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if k := again.Security.Auth.Keys; len(k) != 1 || k[0].Name != "a.b" || !k[0].Expires.Equal(c.Security.Auth.Keys[0].Expires) || again.Upstreams[0].Scopes[0].Scopes[0] != "file:read" {
		t.Errorf("read again: %+v\n%s", again, &out)
	}
}
