package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/sqlite"
	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// What one catalogue holds is brought into another one by a file or a pipe.
func TestCatalogueCommands(t *testing.T) {
	dir := t.TempDir()
	run := func(in string, args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		code = Execute(context.Background(), append([]string{"catalogue"}, args...), nil, app.Streams{In: strings.NewReader(in), Out: &o, Err: &e}, Runners{})
		return code, o.String(), e.String()
	}
	configured := func(name string) (file, path string) {
		path = filepath.Join(dir, name+".db")
		return testkit.WriteFile(t, name+".toml", fmt.Sprintf("catalogue.path = %q\n", path)), path
	}
	registered := func(path string) string {
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all, err := s.Registrations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(len(all), all)
	}
	old, oldPath := configured("old")
	s, err := sqlite.Open(t.Context(), oldPath)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), catalogue.Registration{ID: "1", Name: "one\x1b", Transport: "HTTP", Connection: []byte(`{"base_url":"https://x"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(dir, "backup.jsonl")
	if code, out, errs := run("", "export", "--config", old, "--output", backup); code != 0 || out != "" || !strings.Contains(errs, "exported 1 registered server") {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive has mode %v, %v", info.Mode(), err)
	}
	code, piped, _ := run("", "export", "--config", old)
	if code != 0 || piped != testkit.ReadText(t, backup) {
		t.Errorf("%d %q", code, piped)
	}
	for name, args := range map[string][]string{"file": {backup}, "pipe": nil} {
		to, path := configured(name)
		if code, out, errs := run(piped, append([]string{"import", "--config", to}, args...)...); code != 0 || out != "" || !strings.Contains(errs, "imported 1 registered server") {
			t.Errorf("%s: %d %q %q", name, code, out, errs)
		}
		if got := registered(path); got != registered(oldPath) {
			t.Errorf("%s: %s", name, got)
		}
		if code, _, errs := run(piped, append([]string{"import", "--config", to}, args...)...); code != 0 || !strings.Contains(errs, "left as they are: one") || strings.Contains(errs, "\x1b") || !strings.Contains(errs, "--replace") {
			t.Errorf("%s again: %d %q", name, code, errs)
		}
	}
	memory := testkit.WriteFile(t, "memory.toml", "catalogue.path = \"memory\"\n")
	for _, args := range [][]string{{"export", "x"}, {"import", "a", "b"}, {"export", "--config", old, "--output", backup}, {"import", "--config", old, filepath.Join(dir, "none")},
		{"import", "--config", old}, {"export", "--config", memory}, {"export", "--config", filepath.Join(dir, "none.toml")}, {"move"}} {
		if code, out, errs := run("no archive", args...); code == 0 || out != "" || !strings.HasPrefix(errs, "dragoman: ") {
			t.Errorf("%q: %d %q %q", args, code, out, errs)
		}
	}
}
