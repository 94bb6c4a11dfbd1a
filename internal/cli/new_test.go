package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/scaffold"
)

func runNew(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Execute(context.Background(), append([]string{"new"}, args...), nil, app.Streams{Out: &o, Err: &e}, Runners{})
	return code, o.String(), e.String()
}

// A project is written into the folder, and the next two commands are printed.
func TestNewServer(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, errs := runNew("server", "weather", "--lang", "python", "--description", "Says how it is outside.")
	if code != 0 || errs != "" || !strings.Contains(out, "  make -C weather check ") || !strings.Contains(out, "  make -C weather run ") {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	raw, err := os.ReadFile("weather/README.md")
	if err != nil || !strings.HasPrefix(string(raw), "# weather\n\nSays how it is outside.\n") {
		t.Errorf("%v %.60q", err, raw)
	}
	dir := filepath.Join(t.TempDir(), "it's here")
	code, out, _ = runNew("server", "weather", "--lang", "python", "--dir", dir)
	if code != 0 || !strings.Contains(out, "  make -C '"+strings.ReplaceAll(dir, "'", `'\''`)+"' check ") {
		t.Errorf("%d %q", code, out)
	}
}

// The configuration of the sidecar is one of Dragoman's.
func TestNewServerSidecar(t *testing.T) {
	for _, lang := range scaffold.Languages() {
		dir := filepath.Join(t.TempDir(), lang)
		if code, _, errs := runNew("server", "weather", "--lang", lang, "--dir", dir); code != 0 {
			t.Fatal(errs)
		}
		c, err := config.LoadConfig(config.LoadOptions{File: filepath.Join(dir, "deploy", "dragoman.toml"), Environ: []string{"MCP_API_KEY=0123456789abcdef", "DRAGOMAN_LISTEN=0.0.0.0:8080"}})
		if err != nil || len(c.Upstreams) != 1 || c.Upstreams[0].Name != "weather" {
			t.Errorf("%s: %v %+v", lang, err, c)
		}
	}
}

func TestNewServerErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("full/x", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"server"}, ExitUsage, "fix: write `dragoman new server weather --lang python`"},
		{[]string{"server", "a", "b", "--lang", "python"}, ExitUsage, `unexpected argument "b"`},
		{[]string{"server", "weather"}, ExitUsage, "fix: add --lang"},
		{[]string{"server", "weather", "--lang", "pyhton"}, ExitUsage, "did you mean python?"},
		{[]string{"server", "Weather", "--lang", "python"}, ExitUsage, "fix: write a to z first"},
		{[]string{"server", "json", "--lang", "python"}, ExitUsage, "such as json-server"},
		{[]string{"server", "weather", "--lang", "python", "--description", "a\nb"}, ExitUsage, "fix: write one line"},
		{[]string{"server", "weather", "--lang", "python", "--dir", "full"}, ExitFailed, "is not empty; fix: "},
		{[]string{"client", "weather"}, ExitUsage, "unknown command"},
	} {
		code, out, errs := runNew(c.args...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%q: %d %q %q", c.args, code, out, errs)
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil || len(entries) != 1 {
		t.Errorf("written: %v %v", entries, err)
	}
}
