package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"dragoman/internal/testkit"
)

// ciAction is the part of the GitHub action that the test reads.
type ciAction struct {
	Name, Description string
	Inputs            map[string]struct {
		Description string
		Default     *string
	}
	Runs struct {
		Using string
		Steps []struct {
			Name, Shell, Run string
			Env              map[string]string
		}
	}
}

func readAction(t *testing.T) (a ciAction) {
	t.Helper()
	if err := yaml.UnmarshalWithOptions([]byte(testkit.ReadText(t, "deploy/ci/github/action.yml")), &a, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return a
}

// The parts of the GitHub action and the GitLab template, which must do the same.
func TestConformanceCIFiles(t *testing.T) {
	a := readAction(t)
	if a.Name == "" || a.Description == "" || a.Runs.Using != "composite" || len(a.Runs.Steps) != 2 {
		t.Fatalf("%+v", a)
	}
	used := map[string]bool{}
	for _, step := range a.Runs.Steps {
		if step.Name == "" || step.Shell != "bash" || strings.Contains(step.Run, "${{") {
			t.Errorf("%s: a step without a shell, or with an input in its script", step.Name)
		}
		for name, value := range step.Env {
			m := regexp.MustCompile(`^\$\{\{ inputs\.([a-z0-9-]+) \}\}$`).FindStringSubmatch(value)
			if m == nil || !strings.Contains(step.Run, name) {
				t.Errorf("%s: %s: %s", step.Name, name, value)
				continue
			}
			used[m[1]] = true
			if _, ok := a.Inputs[m[1]]; !ok {
				t.Errorf("there is no input %s", m[1])
			}
		}
	}
	for name, in := range a.Inputs {
		if !used[name] || in.Description == "" || in.Default == nil {
			t.Errorf("input %s: %+v", name, in)
		}
	}
	var gitlab map[string]struct {
		Stage        string
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		Artifacts    struct {
			When    string
			Paths   []string
			Reports struct{ JUnit string }
		}
	}
	if err := yaml.UnmarshalWithOptions([]byte(testkit.ReadText(t, "deploy/ci/gitlab/conformance.yml")), &gitlab, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	job, ok := gitlab[".mcp-conformance"]
	if !ok || len(gitlab) != 1 || job.Artifacts.When != "always" || job.Artifacts.Reports.JUnit != job.Variables["CONFORMANCE_JUNIT"] {
		t.Fatalf("%+v", gitlab)
	}
	if strings.Join(job.BeforeScript, "") != a.Runs.Steps[0].Run || strings.Join(job.Script, "") != a.Runs.Steps[1].Run {
		t.Error("the scripts of the template are not those of the action")
	}
	for _, step := range a.Runs.Steps {
		for name := range step.Env {
			if _, ok := job.Variables[name]; !ok {
				t.Errorf("the template has no variable %s", name)
			}
		}
	}
}

// The script of the action tests a server and exits as the suite does.
func TestConformanceCIRuns(t *testing.T) {
	script := readAction(t).Runs.Steps[1].Run
	sound, sloppy := demoServer(t), sloppyServer(t)
	self := testkit.Executable(t)
	f := func(code int, out string, env ...string) {
		t.Helper()
		dir := t.TempDir()
		testkit.PutFile(t, filepath.Join(dir, "known.txt"), "request.version-mismatch # known\n")
		words := fmt.Sprintf("#!/bin/sh\n%s=main GORACE=atexit_sleep_ms=0 exec '%s' \"$@\"\n", testkit.AsDragoman, self)
		if err := os.WriteFile(filepath.Join(dir, "dragoman"), []byte(words), 0o755); err != nil {
			t.Fatal(err)
		}
		env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "CONFORMANCE_URLS=", "CONFORMANCE_COMMAND=", "CONFORMANCE_EXPECTED=", "CONFORMANCE_JUNIT=out.xml",
			"CONFORMANCE_ARGS=--only request.version-mismatch --only *params-missing", "GITHUB_STEP_SUMMARY=" + filepath.Join(dir, "summary.md")}, env...)
		got, text := bashScript(t, dir, script, env)
		if got != code || !strings.Contains(text, out) {
			t.Errorf("%q: %d, %s; want %d and %q", env, got, text, code, out)
		}
		if code == ExitUsage {
			return
		}
		for file, begins := range map[string]string{"out.xml": "<?xml", "out.json": "{", "out.md": "# MCP conformance", "summary.md": "# MCP conformance"} {
			if !strings.HasPrefix(testkit.ReadText(t, filepath.Join(dir, file)), begins) {
				t.Errorf("%s is missing or differs", file)
			}
		}
	}
	f(ExitOK, " 0 failed,", "CONFORMANCE_URLS="+sound)
	f(ExitFailed, " 2 failed,", "CONFORMANCE_URLS="+sloppy)
	f(ExitFailed, " 1 failed, 0 warnings, 0 notes, 0 skipped, 0 broken, 1 expected", "CONFORMANCE_URLS="+sloppy, "CONFORMANCE_EXPECTED=known.txt")
	f(ExitOK, " 0 failed,", "CONFORMANCE_COMMAND=dragoman demo --log-level error")
	f(ExitUsage, "a URL or a COMMAND is missing")
}

// bashScript runs a script as the steps of the action are run.
func bashScript(t *testing.T, dir, script string, env []string) (code int, out string) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script)
	c.Dir, c.Env = dir, env
	text, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(text)
}

// The script that downloads a release accepts only an archive with the right checksum.
func TestConformanceCIDownloads(t *testing.T) {
	for _, program := range []string{"curl", "tar", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s", program)
		}
	}
	const version = "v1.2.3"
	name := fmt.Sprintf("dragoman-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH)
	archive := packed(t, name+"/dragoman", "#!/bin/sh\necho it is $1\n")
	sums := fmt.Sprintf("%x  other.tar.gz\n%x  %s.tar.gz\n", sha256.Sum256(nil), sha256.Sum256(archive), name)
	files := map[string][]byte{"/good/" + name + ".tar.gz": archive, "/good/SHA256SUMS": []byte(sums), "/bad/" + name + ".tar.gz": append([]byte{}, archive[:len(archive)-1]...),
		"/bad/SHA256SUMS": []byte(sums), "/none/" + name + ".tar.gz": archive, "/none/SHA256SUMS": []byte("\n")}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if files[r.URL.Path] == nil {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(files[r.URL.Path])
	}))
	defer s.Close()
	script := readAction(t).Runs.Steps[0].Run
	f := func(code int, out string, env ...string) {
		t.Helper()
		dir := t.TempDir()
		env = append([]string{"PATH=" + toolsWithout(t, "dragoman"), "TMPDIR=" + dir, "GITHUB_PATH=" + filepath.Join(dir, "path"), "CONFORMANCE_VERSION=" + version, "CONFORMANCE_RELEASE=", "CONFORMANCE_SHA256="}, env...)
		got, text := bashScript(t, dir, script, env)
		if got != code || !strings.Contains(text, out) {
			t.Errorf("%q: %d, %s; want %d and %q", env, got, text, code, out)
		}
		if code == 0 && !strings.HasSuffix(strings.TrimSpace(testkit.ReadText(t, filepath.Join(dir, "path"))), name) {
			t.Error("later steps do not find it")
		}
	}
	f(0, "it is version", "CONFORMANCE_RELEASE="+s.URL+"/good")
	f(0, "it is version", "CONFORMANCE_RELEASE="+s.URL+"/none/", fmt.Sprintf("CONFORMANCE_SHA256=%x", sha256.Sum256(archive)))
	f(1, "has the sum", "CONFORMANCE_RELEASE="+s.URL+"/bad")
	f(1, "has the sum", "CONFORMANCE_RELEASE="+s.URL+"/none")
	f(1, "has the sum", "CONFORMANCE_RELEASE="+s.URL+"/good", fmt.Sprintf("CONFORMANCE_SHA256=%x", sha256.Sum256(nil)))
	f(22, "404", "CONFORMANCE_RELEASE="+s.URL+"/elsewhere")
	f(1, "fix: put it there in a step before, or name a release")
}

// toolsWithout makes a PATH without a program.
func toolsWithout(t *testing.T, program string) string {
	t.Helper()
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

// packed makes an archive with one program.
func packed(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
