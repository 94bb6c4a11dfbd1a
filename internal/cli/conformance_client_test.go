package cli

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"dragoman/conformance/mock"
	"dragoman/internal/testkit"
)

// The guide lists the scenarios of clients, in the words of the code.
func TestScenariosAreDocumented(t *testing.T) {
	guide, err := os.ReadFile("docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range mock.Scenarios() {
		if row := regexp.MustCompile("(?m)^\\| `" + s.Name + "` \\| [^|]+ \\| " + regexp.QuoteMeta(s.Title) + " \\|$"); !row.Match(guide) {
			t.Errorf("docs/conformance.md has no row for %s: %s", s.Name, s.Title)
		}
	}
}

// A client that starts its server gets the words that start this program as the server.
func TestConformanceOfClientsOnStdio(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	client := func(script string, more ...string) (code int, out, errs string) {
		var stdout, stderr bytes.Buffer
		c := testkit.Self(t, "main", append(append([]string{"conformance", "--client", "--only", "client.lines,client.closes-input", "--revision", "2025-03-26", "--face", "legacy-stdio", "--", "sh", "-c", script}, more...), "{command}")...)
		c.Stdout, c.Stderr = &stdout, &stderr
		_ = c.Run() // its exit code is checked
		return c.ProcessState.ExitCode(), stdout.String(), stderr.String()
	}
	code, out, errs := client(`echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | "$0" "$@" | grep -q '"result":{}'`)
	if code != ExitOK || errs != "" || lastLine(out) != "2 passed, 0 failed, 0 warnings, 0 notes, 0 skipped, 0 broken" {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	code, out, _ = client(`echo 'hello' | "$@"`, "sh")
	if code != ExitFailed || !strings.Contains(out, "FAIL  client.lines") || !strings.Contains(out, "got       hello") {
		t.Errorf("%d\n%s", code, out)
	}
	code, out, errs = conformanceLine(t, "--client", "--face", "legacy-stdio", "--", "client", "{url}")
	if code != ExitUsage || !strings.Contains(errs, "write {command}") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	said, err := testkit.Self(t, "main", "conformance-mock", "/no/such/socket").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "dragoman conformance --client") {
		t.Errorf("%v\n%s", err, said)
	}
}
