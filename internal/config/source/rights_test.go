//go:build unix

package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A warning names who else may change a file, or replace it.
func TestRights(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name            string
		file, dir, over os.FileMode
		owner           int
		want            string
	}{
		{"ours", 0o600, 0o755, 0o755, 0, ""},
		{"readable", 0o644, 0o755, 0o755, 0, ""},
		{"world-writable", 0o646, 0o755, 0o755, 0, "may be changed by everybody on this machine (mode 0646)"},
		{"group-writable", 0o664, 0o755, 0o755, 0, "may be changed by its group (mode 0664)"},
		{"open directory", 0o600, 0o777, 0o755, 0, "may be replaced by everybody on this machine (mode 0777), who may write to "},
		{"shared directory", 0o600, 0o775, 0o755, 0, "may be replaced by its group (mode 0775)"},
		{"sticky directory", 0o600, 0o777 | os.ModeSticky, 0o755, 0, ""},
		{"open directory above", 0o600, 0o755, 0o777, 0, "may be replaced by everybody on this machine (mode 0777)"},
		{"shared directory above", 0o600, 0o755, 0o775, 0, ""},
		{"other owner", 0o600, 0o755, 0o755, 12345, "may be changed by its owner, user 12345"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.owner != 0 && os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}
			over := filepath.Join(base, c.name)
			dir := filepath.Join(over, "d")
			file := filepath.Join(dir, "f")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			// A group that is not root's, whose members are root anyway.
			for path, mode := range map[string]os.FileMode{over: c.over, dir: c.dir, file: c.file} {
				if os.Geteuid() == 0 {
					if err := os.Chown(path, 0, 4321); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			if c.owner != 0 {
				if err := os.Chown(file, c.owner, 4321); err != nil {
					t.Fatal(err)
				}
			}
			link := filepath.Join(base, c.name+" link")
			if err := os.Symlink(file, link); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{file, link} {
				if got := Rights(path); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
					t.Errorf("%s: %q", path, got)
				}
			}
		})
	}
	if got := Rights(filepath.Join(base, "none")); got != "" {
		t.Error(got)
	}
}
