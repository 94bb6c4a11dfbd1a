package laws

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/internal/testkit"
)

// publishedNames returns the names in deploy/names.sh, under which a release is published.
func publishedNames(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^: "\$\{([A-Z_]+):=([^}]+)\}"`).FindAllStringSubmatch(testkit.ReadText(t, "deploy/names.sh"), -1) {
		names[m[1]] = m[2]
	}
	return names
}

// Documents name packages as deploy/names.sh does, and the README names each: what others publish under a wrong name is run by whoever copies it.
func TestPublishedNames(t *testing.T) {
	names := publishedNames(t)
	ours := []string{`@?[\w./-]*dragoman[\w./-]*`}
	for _, name := range []string{"NPM_NAME", "PYPI_NAME", "MODULE"} {
		ours = append(ours, regexp.QuoteMeta(names[name]))
	}
	installation := regexp.MustCompile(`\b(npx|npm install|uvx|pip install|uv tool install|go install)((?: +-[-\w]+)*) +(` + strings.Join(ours, "|") + `)(@\S+)?`)
	by := map[string]string{"npx": names["NPM_NAME"], "npm install": names["NPM_NAME"], "uvx": names["PYPI_NAME"], "pip install": names["PYPI_NAME"], "uv tool install": names["PYPI_NAME"], "go install": names["MODULE"]}
	if len(names) != 8 || slices.Contains([]string{by["npx"], by["uvx"], by["go install"]}, "") {
		t.Fatalf("deploy/names.sh has %q", names)
	}
	seen := map[string]bool{}
	for _, file := range testkit.Documents(t) {
		for _, m := range installation.FindAllStringSubmatch(testkit.ReadText(t, file), -1) {
			if m[3] != by[m[1]] && !strings.HasPrefix(m[3], "dist/") { // a file of ours
				t.Errorf("%s: %q; fix: write %s, as in deploy/names.sh", file, m[0], by[m[1]])
			}
			if file == "README.md" {
				seen[m[1]] = true
			}
		}
	}
	for _, how := range []string{"npx", "uvx", "go install"} {
		if !seen[how] {
			t.Errorf("README.md does not say how to install with %s", how)
		}
	}
	for _, name := range []string{"BUILDER_ID", "BUILD_TYPE", "HOMEPAGE"} {
		if !strings.HasPrefix(names[name], "https://") {
			t.Errorf("%s is %q, which is no URI", name, names[name])
		}
	}
}

// packed makes a package of a small tree in place of a release's, twice, and returns its file.
func packed(t *testing.T, semver string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	tree := t.TempDir()
	for _, name := range []string{"dragoman", "dragoman.exe", "LICENSE", "dragoman.cdx.json", "man/dragoman.1", "man/dragoman-serve.1", "completions/dragoman.bash", "completions/_dragoman", "completions/dragoman.fish"} {
		testkit.PutFile(t, filepath.Join(tree, name), name)
	}
	var files, texts []string
	for range 2 {
		out := t.TempDir()
		c := exec.CommandContext(t.Context(), "python3", slices.Concat([]string{"deploy/packages.py"}, args, []string{tree, out})...)
		c.Env = append(c.Environ(), "SEMVER="+semver, "SOURCE_DATE_EPOCH=1700000000", "TARGETS=linux/amd64 windows/arm64", "PYTHONDONTWRITEBYTECODE=1")
		for name, value := range publishedNames(t) {
			c.Env = append(c.Env, name+"="+value)
		}
		var said bytes.Buffer
		c.Stderr = &said
		name, err := c.Output()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, said.Bytes())
		}
		files = append(files, filepath.Join(out, strings.TrimSpace(string(name))))
		texts = append(texts, testkit.ReadText(t, files[len(files)-1]))
	}
	if texts[0] != texts[1] || filepath.Base(files[0]) != filepath.Base(files[1]) {
		t.Errorf("%q: the second package differs", args)
	}
	return files[0]
}

// A wheel has the binary among its scripts, the tags of its name, and the sums of its files. Its version is Python's.
func TestWheels(t *testing.T) {
	name := strings.ToLower(regexp.MustCompile(`[-_.]+`).ReplaceAllString(publishedNames(t)["PYPI_NAME"], "_"))
	for _, c := range []struct{ semver, system, arch, file, binary string }{
		{"1.2.3", "linux", "amd64", name + "-1.2.3-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl", "dragoman"},
		{"1.2.3-rc.1", "darwin", "arm64", name + "-1.2.3rc1-py3-none-macosx_12_0_arm64.whl", "dragoman"},
		{"1.2.3-beta2", "linux", "arm64", name + "-1.2.3b2-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl", "dragoman"},
		{"0.0.0-devel", "windows", "amd64", name + "-0.0.0.dev0+devel-py3-none-win_amd64.whl", "dragoman.exe"},
		{"1.2.3-next.4+Build-5", "windows", "arm64", name + "-1.2.3.dev0+next.4.build.5-py3-none-win_arm64.whl", "dragoman.exe"},
	} {
		path := packed(t, c.semver, "wheel", c.system, c.arch)
		if got := filepath.Base(path); got != c.file {
			t.Errorf("%s: %s, want %s", c.semver, got, c.file)
			continue
		}
		r, err := zip.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		stem := strings.Join(strings.Split(c.file, "-")[:2], "-")
		sums, record, tags, found := "", "", "", false
		for _, f := range r.File {
			text := readZip(t, f)
			switch {
			case f.Name == stem+".dist-info/RECORD":
				record = text
				continue
			case f.Name == stem+".dist-info/WHEEL":
				tags = text
			case f.Name == stem+".data/scripts/"+c.binary:
				found = f.Mode() == fs.FileMode(0o755) && text == c.binary
			}
			sum := sha256.Sum256([]byte(text))
			sums += fmt.Sprintf("%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if want := sums + stem + ".dist-info/RECORD,,\n"; !sameLines(record, want) || !found {
			t.Errorf("%s: an executable script %s: %v; RECORD is\n%s\nwant\n%s", c.file, c.binary, found, record, want)
		}
		for tag := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(c.file, stem+"-py3-none-"), ".whl"), ".") {
			if !strings.Contains(tags, "\nTag: py3-none-"+tag+"\n") {
				t.Errorf("%s: WHEEL lacks %s", c.file, tag)
			}
		}
	}
}

func sameLines(a, b string) bool {
	one, two := strings.Split(a, "\n"), strings.Split(b, "\n")
	slices.Sort(one)
	slices.Sort(two)
	return slices.Equal(one, two)
}

func readZip(t *testing.T, f *zip.File) string {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The npm packages: the launcher's depends on those of all systems, each of which is for its own only and has an executable binary.
func TestNpmPackages(t *testing.T) {
	name := publishedNames(t)["NPM_NAME"]
	launcher := packed(t, "1.2.3", "npm")
	about, files := readNpm(t, launcher)
	want := fmt.Sprintf("map[%s-linux-x64:1.2.3 %s-win32-arm64:1.2.3]", name, name)
	if got := fmt.Sprint(about["optionalDependencies"]); got != want || filepath.Base(launcher) != strings.NewReplacer("@", "", "/", "-").Replace(name)+"-1.2.3.tgz" || files["bin/dragoman.js"] != 0o755 {
		t.Errorf("%s depends on %s; its files are %v", launcher, got, files)
	}
	if got := fmt.Sprint(about["bin"], about["man"]); got != "map[dragoman:bin/dragoman.js] [./man/dragoman-serve.1 ./man/dragoman.1]" {
		t.Errorf("%s has %s", launcher, got)
	}
	for _, c := range []struct{ system, arch, name, binary, is string }{
		{"linux", "amd64", name + "-linux-x64", "bin/dragoman", "[linux] [x64]"},
		{"darwin", "arm64", name + "-darwin-arm64", "bin/dragoman", "[darwin] [arm64]"},
		{"windows", "amd64", name + "-win32-x64", "bin/dragoman.exe", "[win32] [x64]"},
	} {
		about, files := readNpm(t, packed(t, "1.2.3", "npm", c.system, c.arch))
		if got := fmt.Sprint(about["os"], " ", about["cpu"]); about["name"] != c.name || about["version"] != "1.2.3" || got != c.is || files[c.binary] != 0o755 || files["LICENSE"] != 0o644 {
			t.Errorf("%s/%s: %v, %v", c.system, c.arch, about, files)
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return
	}
	if out, err := exec.CommandContext(t.Context(), node, "--check", "deploy/npm/dragoman.js").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// readNpm returns the package.json of an npm package, and the modes of its files.
func readNpm(t *testing.T, path string) (about map[string]any, files map[string]fs.FileMode) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]fs.FileMode{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return about, files
		}
		if err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(h.Name, "package/")
		if !ok {
			t.Errorf("%s is not below package/", h.Name)
		}
		files[name] = h.FileInfo().Mode()
		if name == "package.json" {
			if err := json.NewDecoder(r).Decode(&about); err != nil {
				t.Fatal(err)
			}
		}
	}
}
