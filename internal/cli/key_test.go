package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/policies"
)

// The printed hash is that of the printed key, and each key is unique.
func TestKeyCommands(t *testing.T) {
	run := func(in string, args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		code = Execute(context.Background(), args, nil, app.Streams{In: strings.NewReader(in), Out: &o, Err: &e}, Runners{})
		return code, o.String(), e.String()
	}
	code, key, toml := run("", "key", "new", "ci")
	if code != 0 || !strings.HasPrefix(key, policies.KeyPrefix) || strings.Contains(toml, strings.TrimSpace(key)) {
		t.Fatalf("%d %q %q", code, key, toml)
	}
	c, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "c.toml", "security.api_keys_enabled = true\n"+toml)})
	if err != nil || c.Security.Auth.Keys[0].Name != "ci" {
		t.Fatalf("%v\n%s", err, toml)
	}
	if code, hash, _ := run(key, "key", "hash"); code != 0 || strings.TrimSpace(hash) != c.Security.Auth.Keys[0].Hashes[0] {
		t.Errorf("%d %q", code, hash)
	}
	code, key, toml = run("", "key", "new", "me", "--role", "operator")
	c, err = config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "a.toml", toml)})
	if code != 0 || err != nil || c.Aggregator.Keys[0].Name != "me" || c.Aggregator.Keys[0].Role != config.Operator || c.Aggregator.Keys[0].Hashes[0] != policies.HashKey(strings.TrimSpace(key)) {
		t.Errorf("%d %v\n%s", code, err, toml)
	}
	for in, args := range map[string][]string{"short\n": {"key", "hash"}, "": {"key", "hash"}, "a b " + key: {"key", "hash"}, key: {"key", "hash", "x"}, "x": {"key", "new", "a b"}, "y": {"key", "new", "a", "b"}, "z": {"key", "old"}, "r": {"key", "new", "a", "--role", "admin"}} {
		if code, out, errs := run(in, args...); code == 0 || out != "" || errs == "" {
			t.Errorf("%q %q: %d %q %q", args, in, code, out, errs)
		}
	}
}
