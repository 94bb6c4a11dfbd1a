package laws

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"dragoman/internal/cli"
	"dragoman/internal/clitest"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// The checks of deploy/ that need only Go. Those that need Helm, the types of Kubernetes, systemd or buildah are in deploy/check: make
// deployed, make imaged, make released.

// accepted parses a command line of a deployment file, which begins with the program's name, with the paths of the target moved to a
// directory of the test. It returns the configuration that serve would use.
func accepted(t *testing.T, file string, environ []string, words []string) *config.Config {
	t.Helper()
	if len(words) == 0 || filepath.Base(words[0]) != "dragoman" {
		t.Errorf("%s: %q does not run dragoman", file, words)
		return nil
	}
	r := clitest.Run(t, environ, words[1:]...)
	health := len(words) > 1 && words[1] == "health" // no server is running
	if r.Code != cli.ExitOK && (!health || r.Code == cli.ExitUsage) {
		t.Errorf("%s: %s: code %d: %s", file, strings.Join(words, " "), r.Code, r.Errs)
		return nil
	}
	return r.Config
}

// jsonLine reads an instruction of a Containerfile in exec form.
func jsonLine(t *testing.T, text, instruction string) (words []string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if at := strings.Index(line, "["); at >= 0 && strings.HasPrefix(line, instruction+" ") {
			if err := json.Unmarshal([]byte(line[at:]), &words); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	return words
}

// The images: both Containerfiles make the same image, their commands are valid, and their versions are those pinned elsewhere.
func TestContainerfiles(t *testing.T) {
	const same = "# The same from here on"
	source, binary := testkit.ReadText(t, "deploy/image/Containerfile"), testkit.ReadText(t, "deploy/image/Containerfile.binary")
	_, one, ok := strings.Cut(source, same)
	_, two, _ := strings.Cut(binary, same)
	if !ok || one != two {
		t.Errorf("Containerfile and Containerfile.binary differ after %q", same)
	}
	config := testkit.WriteFile(t, "config.toml", "upstreams.a.url = \"http://a.example\"\n")
	for _, file := range []string{"Containerfile", "Containerfile.binary", "Containerfile.node"} {
		text := testkit.ReadText(t, "deploy/image/"+file)
		words := append(jsonLine(t, text, "ENTRYPOINT"), jsonLine(t, text, "CMD")...)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "/etc/dragoman/config.toml", config)
		}
		environ := []string{"DRAGOMAN_LISTEN=0.0.0.0:8080", "DRAGOMAN_SECURITY_ALLOW_ANONYMOUS=true"}
		accepted(t, file, environ, words)
		accepted(t, file, nil, jsonLine(t, text, "HEALTHCHECK"))
		if !strings.Contains(text, "\nUSER 65532:65532\n") {
			t.Errorf("%s: the user has no number, or is root", file)
		}
		if file == "Containerfile.node" && !strings.Contains(text, environ[0]+" "+environ[1]) {
			t.Errorf("%s: the environment differs from the test's", file)
		}
	}
	pinned := regexp.MustCompile(`"@modelcontextprotocol/server-everything": "([^"]+)"`).FindStringSubmatch(testkit.ReadText(t, "conformance/package.json"))
	node := testkit.ReadText(t, "deploy/image/Containerfile.node")
	if len(pinned) != 2 || !strings.Contains(node, "server-everything@"+pinned[1]+"\n") {
		t.Errorf("Containerfile.node has another server-everything than conformance/package.json: %q", pinned)
	}
	if uvx := strings.TrimSpace(testkit.ReadText(t, "conformance/servers/python/uvx.txt")); !strings.Contains(node, uvx+",") {
		t.Errorf("Containerfile.node has another version than %s", uvx)
	}
	release := regexp.MustCompile(`(?m)^go (1\.\d+)`).FindStringSubmatch(testkit.ReadText(t, "go.mod"))
	if len(release) != 2 || !strings.Contains(source, "ARG GO="+release[1]+"\n") {
		t.Errorf("Containerfile has another Go version than go.mod: %q", release)
	}
}

// pod is the part of a pod that the test reads.
type pod struct {
	TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	InitContainers []container `yaml:"initContainers"`
	Containers     []container
}

type container struct {
	Name           string
	Args           []string
	Env            []struct{ Name, Value string }
	StartupProbe   probeOf `yaml:"startupProbe"`
	ReadinessProbe probeOf `yaml:"readinessProbe"`
	LivenessProbe  probeOf `yaml:"livenessProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	SecurityContext struct {
		AllowPrivilegeEscalation *bool                   `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool                    `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string } `yaml:"capabilities"`
	} `yaml:"securityContext"`
}

type probeOf struct {
	Exec           struct{ Command []string }
	TimeoutSeconds int `yaml:"timeoutSeconds"`
}

// manifest is one document of a Kubernetes file.
type manifest struct {
	Kind       string
	Data       map[string]string
	StringData map[string]string `yaml:"stringData"`
	Spec       struct{ Template struct{ Spec pod } }
}

func manifests(t *testing.T, file string) (all []manifest) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(testkit.ReadText(t, file)))
	for {
		var m manifest
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, m)
	}
}

// The manifests: their configuration is valid with the secrets beside it, the probes use its addresses, the grace period covers draining,
// and the pod has no privileges.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("deploy/kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		dir := t.TempDir()
		all, seen := manifests(t, file), 0
		for _, m := range all {
			for name, text := range m.StringData {
				testkit.PutFile(t, filepath.Join(dir, "secrets", name), text)
			}
			for name, text := range m.Data {
				testkit.PutFile(t, filepath.Join(dir, "config", name), strings.ReplaceAll(text, "/etc/dragoman/", dir+"/"))
			}
		}
		for _, m := range all {
			if m.Kind == "Deployment" {
				seen++
				checkPod(t, file, dir, m.Spec.Template.Spec)
			}
		}
		if seen == 0 {
			t.Errorf("%s: there is no Deployment", file)
		}
	}
}

func checkPod(t *testing.T, file, dir string, p pod) {
	t.Helper()
	found, pause := 0, 0
	var cfg *config.Config
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		s := c.SecurityContext
		if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%s: container %s has rights that it does not need", file, c.Name)
		}
		pause += c.Lifecycle.PreStop.Sleep.Seconds
		if c.Name != "dragoman" {
			continue
		}
		found++
		var environ []string
		for _, e := range c.Env {
			environ = append(environ, e.Name+"="+e.Value)
		}
		args := []string{"dragoman"}
		for _, a := range c.Args {
			args = append(args, strings.ReplaceAll(a, "/etc/dragoman/", dir+"/"))
		}
		cfg = accepted(t, file, environ, args)
		for _, probe := range []probeOf{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			accepted(t, file, environ, probe.Exec.Command)
			if probe.TimeoutSeconds < 3 { // health gives up after 2 s and then says why
				t.Errorf("%s: a probe has %d s", file, probe.TimeoutSeconds)
			}
		}
		if slices.Contains(c.ReadinessProbe.Exec.Command, "--live") || !slices.Contains(c.LivenessProbe.Exec.Command, "--live") || !slices.Contains(c.StartupProbe.Exec.Command, "--live") {
			t.Errorf("%s: the probes run the wrong commands", file)
		}
		if len(p.InitContainers) > 0 && !strings.Contains(testkit.ReadText(t, file), "restartPolicy: Always") {
			t.Errorf("%s: an init container without restartPolicy Always", file)
		}
	}
	if found != 1 || !p.SecurityContext.RunAsNonRoot || p.SecurityContext.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("%s: %d dragomans, %+v", file, found, p.SecurityContext)
	}
	if cfg == nil {
		return
	}
	if !cfg.Authenticates() {
		t.Errorf("%s: no authentication is required", file)
	}
	if got, want := time.Duration(p.TerminationGracePeriodSeconds-pause)*time.Second, cfg.DrainTimeout; got <= want {
		t.Errorf("%s: %s are left of terminationGracePeriodSeconds for a drain of %s", file, got, want)
	}
}

// The unit's command is valid, and its timeouts cover a drain and the end of children.
func TestUnit(t *testing.T) {
	text := testkit.ReadText(t, "deploy/systemd/dragoman.service")
	config := testkit.WriteFile(t, "config.toml", "upstreams.a.url = \"http://a.example\"\n")
	value := func(key string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("there is no %s", key)
		}
		return strings.ReplaceAll(m[1], "/etc/dragoman/config.toml", config)
	}
	accepted(t, "ExecStartPre", nil, strings.Fields(value("ExecStartPre")))
	cfg := accepted(t, "ExecStart", nil, strings.Fields(value("ExecStart")))
	if cfg == nil {
		return
	}
	stop, err := time.ParseDuration(value("TimeoutStopSec"))
	if up := cfg.Upstreams[0]; err != nil || stop <= cfg.DrainTimeout+up.StopGrace+up.KillGrace {
		t.Errorf("TimeoutStopSec=%s, %v, for a drain of %s", stop, err, cfg.DrainTimeout)
	}
}

// The compose file: its commands are valid, and its ports are published to this machine only.
func TestCompose(t *testing.T) {
	type service struct {
		Entrypoint, Command, Ports []string
		Environment                map[string]string
		Healthcheck                struct{ Test []string }
		ReadOnly                   bool   `yaml:"read_only"`
		StopGracePeriod            string `yaml:"stop_grace_period"`
		User                       string
	}
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal([]byte(testkit.ReadText(t, "deploy/compose/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	token := testkit.WriteFile(t, "server_token", testkit.ReadText(t, "deploy/compose/server_token"))
	config := testkit.WriteFile(t, "config.toml", strings.ReplaceAll(testkit.ReadText(t, "deploy/compose/dragoman/config.toml"), "/run/secrets/server_token", token))
	if len(file.Services) != 2 {
		t.Errorf("%d services", len(file.Services))
	}
	for name, s := range file.Services {
		if len(s.Entrypoint) == 0 {
			s.Entrypoint = []string{"dragoman"}
		}
		var environ []string
		for k, v := range s.Environment {
			environ = append(environ, k+"="+v)
		}
		words := slices.Concat(s.Entrypoint, s.Command)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "/etc/dragoman/config.toml", config)
		}
		cfg := accepted(t, name, environ, words)
		if len(s.Healthcheck.Test) < 2 || s.Healthcheck.Test[0] != "CMD" {
			t.Errorf("%s: health check %q needs a shell", name, s.Healthcheck.Test)
			continue
		}
		accepted(t, name, environ, s.Healthcheck.Test[1:])
		grace, err := time.ParseDuration(s.StopGracePeriod)
		if cfg == nil || err != nil || grace <= cfg.DrainTimeout || !s.ReadOnly || s.User != "65532:65532" {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to others than this machine", name, p)
			}
		}
	}
}

// The chart's values: the schema accepts the defaults and the trial values, and refuses others.
func TestChartValues(t *testing.T) {
	c := jsonschema.NewCompiler()
	raw, err := jsonschema.UnmarshalJSON(strings.NewReader(testkit.ReadText(t, "deploy/helm/dragoman/values.schema.json")))
	if err == nil {
		err = c.AddResource("values.json", raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("values.json")
	if err != nil {
		t.Fatal(err)
	}
	judge := func(text string) error {
		t.Helper()
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	files, err := filepath.Glob("deploy/helm/dragoman/ci/*-values.yaml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "deploy/helm/dragoman/values.yaml") {
		if err := judge(testkit.ReadText(t, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, text := range []string{"mode: daemon", "replica: 2", "mode: sidecar\nserver: { image: \"\" }", "listen: { port: 80 }", "apiKeys: keys"} {
		if judge(text) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// The scripts parse, and archives depend only on the content of files.
func TestReleaseScripts(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	scripts, err := filepath.Glob("deploy/*.sh")
	for _, more := range []string{"deploy/check/*.sh", "deploy/linux/*.sh"} {
		found, _ := filepath.Glob(more) // no pattern of ours is invalid
		scripts = append(scripts, found...)
	}
	if err != nil || len(scripts) == 0 {
		t.Fatal(err)
	}
	for _, file := range scripts {
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", file, err, out)
		}
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	for _, kind := range []string{".tar.gz", ".zip"} {
		var packed [][]byte
		for run, mode := range []os.FileMode{0o600, 0o755} {
			dir := filepath.Join(t.TempDir(), "dragoman-v1")
			for _, name := range [][]string{{"README.md", "dragoman"}, {"dragoman", "README.md"}}[run] {
				testkit.PutFile(t, filepath.Join(dir, name), name)
				when := time.Unix(int64(1e9*(run+1)), 0)
				if err := errors.Join(os.Chmod(filepath.Join(dir, name), mode), os.Chtimes(filepath.Join(dir, name), when, when)); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(t.TempDir(), "a"+kind)
			c := exec.CommandContext(t.Context(), "python3", "deploy/archive.py", dir, out)
			c.Env = append(c.Environ(), "SOURCE_DATE_EPOCH=1700000000")
			if text, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			packed = append(packed, []byte(testkit.ReadText(t, out)))
		}
		if !bytes.Equal(packed[0], packed[1]) {
			t.Errorf("%s: two archives of the same files differ", kind)
		}
	}
}
