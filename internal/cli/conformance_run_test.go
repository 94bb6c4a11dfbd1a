package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"dragoman/conformance/checks"
	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// demoServer starts the built-in server over HTTP.
func demoServer(t *testing.T) (url string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var errs testkit.LockedBuffer
	ended := make(chan int, 1)
	std := app.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs}
	go func() {
		ended <- Execute(ctx, []string{"demo", "--http", "127.0.0.1:0", "--log-level", "error"}, nil, std, Assembled())
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != ExitOK {
			t.Errorf("demo: %d, %s", code, errs.String())
		}
	})
	at := regexp.MustCompile(`listens at (http://\S+)`)
	deadline := time.After(20 * time.Second)
	for {
		if m := at.FindStringSubmatch(errs.String()); m != nil {
			return m[1]
		}
		select {
		case code := <-ended:
			ended <- code
			t.Fatalf("demo: %d, %s", code, errs.String())
		case <-deadline:
			t.Fatalf("demo does not listen: %s", errs.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// sloppyServer answers server/discover however malformed the request, and repeats what it was sent.
func sloppyServer(t *testing.T) (url string) {
	t.Helper()
	answer := func(w http.ResponseWriter, r *http.Request) {
		var m struct{ ID json.RawMessage }
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil || json.Unmarshal(body, &m) != nil || r.Method != http.MethodPost || m.ID == nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		said := fmt.Sprintf("%s %s", r.Header.Get("Authorization"), r.URL.RawQuery)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],`+
			`"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":%q,"version":"1"}}}}`, m.ID, said)
	}
	s := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(s.Close)
	return s.URL + "/mcp?key=queried-secret"
}

// conformanceLine runs the real command.
func conformanceLine(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	environ := []string{"THE_TOKEN=Bearer s3cret-of-the-variable"}
	code = Execute(t.Context(), append([]string{"conformance"}, args...), environ, app.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, Assembled())
	return code, stdout.String(), stderr.String()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// A correct server passes, and every report says so in its own format.
func TestConformancePasses(t *testing.T) {
	url, dir := demoServer(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	code, out, errs := conformanceLine(t, url, url+"x", "--face", "modern-http", "--only", "request.version-mismatch,request.method-mismatch,request.name-*",
		"--skip", "request.name-bad*", "--jobs", "2", "--json="+file("r.json"), "--junit", file("r.xml"), "--sarif", file("r.sarif"), "--markdown", file("r.md"), "--badge", file("r.svg"))
	if code != ExitOK || errs != "" || !regexp.MustCompile(`^[2-9] passed, 0 failed, 0 warnings, 0 notes, 0 skipped, 0 broken$`).MatchString(lastLine(out)) {
		t.Fatalf("%d\n%s\n%s", code, out, errs)
	}
	if !strings.Contains(out, "modern-http  2026-07-28") || !strings.Contains(out, "dragoman-demo 1.0.0") || strings.Contains(out, "\x1b") {
		t.Errorf("%s", out)
	}
	var r struct {
		OK       bool
		Targets  []string
		Findings []struct{ Check, Face, Revision, Outcome string }
	}
	if err := json.Unmarshal([]byte(testkit.ReadText(t, file("r.json"))), &r); err != nil || !r.OK || len(r.Targets) != 2 || len(r.Findings) < 2 {
		t.Errorf("%v, %+v", err, r)
	}
	for _, f := range r.Findings {
		if f.Check == "request.name-bad-base64" || f.Outcome != "passed" || f.Revision != "2026-07-28" {
			t.Errorf("%+v", f)
		}
	}
	var junit struct {
		Suites []struct {
			Name  string `xml:"name,attr"`
			Tests int    `xml:"tests,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(testkit.ReadText(t, file("r.xml"))), &junit); err != nil || len(junit.Suites) != 1 || junit.Suites[0].Name != "modern-http@2026-07-28" || junit.Suites[0].Tests != len(r.Findings) {
		t.Errorf("%v, %+v", err, junit)
	}
	var sarif struct {
		Runs []struct{ Results []any }
	}
	if err := json.Unmarshal([]byte(testkit.ReadText(t, file("r.sarif"))), &sarif); err != nil || len(sarif.Runs) != 1 || sarif.Runs[0].Results == nil || len(sarif.Runs[0].Results) != 0 {
		t.Errorf("%v, %+v", err, sarif)
	}
	if text := testkit.ReadText(t, file("r.md")); !strings.Contains(text, "Kept: "+lastLine(out)) {
		t.Errorf("%s", text)
	}
	if text := testkit.ReadText(t, file("r.svg")); !strings.HasPrefix(text, "<svg ") {
		t.Errorf("%s", text)
	}
	// A command, and a report on standard output.
	self := testkit.Executable(t)
	code, out, errs = conformanceLine(t, "--only", "request.params-missing", "--json", "--", "env", testkit.AsDragoman+"=main", "GORACE=atexit_sleep_ms=0", self, "demo", "--log-level", "error")
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != ExitOK || len(r.Findings) != 1 || r.Findings[0].Face != "modern-stdio" || lastLine(errs) != "1 passed, 0 failed, 0 warnings, 0 notes, 0 skipped, 0 broken" {
		t.Errorf("%d, %v\n%s\n%s", code, err, out, errs)
	}
}

// A faulty server: what is shown, what is hidden, and how a list of expected failures counts.
func TestConformanceFails(t *testing.T) {
	url, dir := sloppyServer(t), t.TempDir()
	token := testkit.WriteFile(t, "token.txt", "Bearer s3cret-of-the-file\n")
	only := []string{"--only", "request.version-mismatch,request.method-mismatch", "--timeout", "5s", "--header", "Authorization: @" + token, "--header", "X-Other: env:THE_TOKEN", url}
	f := func(code int, last string, args ...string) (out, errs string) {
		t.Helper()
		got, out, errs := conformanceLine(t, append(args, only...)...)
		if got != code || lastLine(out) != last {
			t.Errorf("%q: %d\n%s\n%s\nwant %d and %q", args, got, out, errs, code, last)
		}
		return out, errs
	}
	const both = "0 passed, 2 failed, 0 warnings, 0 notes, 0 skipped, 0 broken"
	var files []string
	for _, name := range []string{"json", "junit", "sarif", "markdown", "html", "badge"} {
		files = append(files, "--"+name+"="+filepath.Join(dir, name))
	}
	out, errs := f(ExitFailed, both, append(files, "--verbose")...)
	for _, want := range []string{"FAIL  request.version-mismatch  MUST  modern-http@2026-07-28", "  required  ", "  page      ", "  expected  ", "  got       ", "  evidence  --> HTTP", "  fix       ", "/mcp?(hidden)", "Not found there:"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	texts := map[string]string{"stdout": out, "stderr": errs}
	for _, flag := range files {
		name, file, _ := strings.Cut(flag, "=")
		texts[name] = testkit.ReadText(t, file)
	}
	for name, text := range texts {
		if strings.Contains(text, "s3cret") || strings.Contains(text, "queried-secret") {
			t.Errorf("%s has a secret:\n%s", name, text)
		}
	}
	list := func(text string) []string {
		return []string{"--expected-failures", testkit.WriteFile(t, "known.txt", text)}
	}
	f(ExitOK, "0 passed, 0 failed, 0 warnings, 0 notes, 0 skipped, 0 broken, 2 expected",
		list("request.version-mismatch@modern-http # theirs\nrequest.method-mismatch\n\n# not asked for:\nrequest.method-missing\nrequest.params-missing@modern-stdio\n")...)
	f(ExitFailed, "0 passed, 1 failed, 0 warnings, 0 notes, 0 skipped, 0 broken, 1 expected", list("request.version-mismatch@modern-http@2026-07-28")...)
	out, _ = f(ExitFailed, "0 passed, 0 failed, 0 warnings, 0 notes, 0 skipped, 0 broken, 2 expected, 1 stale",
		list("request.version-mismatch\nrequest.method-mismatch\nrequest.method-mismtch\n")...)
	if !strings.Contains(out, "known.txt:3: request.method-mismtch: there is no such check; did you mean request.method-mismatch?") {
		t.Errorf("%s", out)
	}
	if code, _, errs := conformanceLine(t, append(list("request.version-mismatch@htp"), url)...); code != ExitFailed || !strings.Contains(errs, `known.txt:1: "htp" is no face`) {
		t.Errorf("%d %s", code, errs)
	}
}

// Two reports compared.
func TestConformanceDiff(t *testing.T) {
	sound, sloppy, dir := demoServer(t), sloppyServer(t), t.TempDir()
	before, after := filepath.Join(dir, "before.json"), filepath.Join(dir, "after.json")
	for file, url := range map[string]string{before: sound, after: sloppy} {
		_, out, errs := conformanceLine(t, "--only", "request.version-mismatch", "--json="+file, url)
		if errs != "" {
			t.Fatal(out, errs)
		}
	}
	f := func(code int, want string, args ...string) {
		t.Helper()
		got, out, errs := conformanceLine(t, append([]string{"--diff"}, args...)...)
		if got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%q: %d\n%s\n%s\nwant %d and %q", args, got, out, errs, code, want)
		}
	}
	f(ExitFailed, "\n1 newly failing, 0 newly passing, 0 changed, 0 new, 0 gone, 0 as before\n", before, after)
	f(ExitOK, "0 newly failing, 1 newly passing", after, before)
	f(ExitOK, "0 newly failing, 0 newly passing, 0 changed, 0 new, 0 gone, 1 as before", after, after)
	f(ExitFailed, `"newlyFailing": [`, before, after, "--json")
	f(ExitFailed, "## Newly failing", before, after, "--markdown", "-")
	f(ExitUsage, "--diff takes two reports, and 1 are given", before)
	f(ExitFailed, "none.json cannot be read: no such file", before, filepath.Join(dir, "none.json"))
	f(ExitFailed, "is no report that", before, "go.mod")
}

// No server, or no MCP server, has another exit code than a failure.
func TestConformanceWithoutAServer(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	f := func(code int, want string, args ...string) {
		t.Helper()
		got, out, errs := conformanceLine(t, append([]string{"--timeout", "2s"}, args...)...)
		if got != code || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: %d\n%s\n%s\nwant %d and %q", args, got, out, errs, code, want)
		}
	}
	f(exitNobody, "legacy-http: initialize: ", "http://"+testkit.HeldAddress(t)+"/mcp")
	f(exitNobody, "fix: is the server there, and is the path right", plain.URL)
	f(exitNobody, "status 404", plain.URL)
	f(exitNobody, "not found: install it", "--", "no-such-command-anywhere")
	f(exitNobody, "does the command run by itself", "--", "false")
	f(exitNobody, "/mcp/tools?(hidden)", "http://"+testkit.HeldAddress(t)+"/mcp?api_key=queried-secret")
	f(ExitFailed, "cannot be written: no such file", "--json="+filepath.Join(t.TempDir(), "none", "x.json"), plain.URL)
	f(ExitFailed, "known.txt cannot be read", "--expected-failures", "known.txt", plain.URL)
	f(ExitFailed, "--header Authorization: the environment variable \"NOT_SET\" it refers to is not set; fix: set the variable", "--header", "Authorization: env:NOT_SET", plain.URL)
	f(ExitFailed, "cannot be read", "--header", "Authorization: @no-such-file", plain.URL)
	f(ExitFailed, "holds no PEM certificate", "--ca-file", "go.mod", plain.URL)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	if code := Execute(ctx, []string{"conformance", plain.URL}, nil, app.Streams{Out: io.Discard, Err: &errs}, Assembled()); code != ExitFailed || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("%d %s", code, errs.String())
	}
}

// An interrupted run reports what it has done so far, and that it is incomplete.
func TestConformanceInterrupted(t *testing.T) {
	sloppy := sloppyServer(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "" {
			_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not noticed
			interrupt()                        // in the middle of a check
			<-r.Context().Done()
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, sloppy, r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return // the test is over
		}
		defer func() { _ = res.Body.Close() }()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "r.xml")
	var out, errs bytes.Buffer
	code := Execute(ctx, []string{"conformance", "--face", "modern-http", "--jobs", "1", "--only", "request.version-mismatch,request.method-missing,request.method-mismatch", "--junit", file, s.URL},
		nil, app.Streams{Out: &out, Err: &errs}, Assembled())
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code != ExitFailed || errs.Len() > 0 || !strings.Contains(out.String(), "The run was ended before its time: interrupted.") || !strings.Contains(lastLine(out.String()), " broken") {
		t.Errorf("%d\n%s\n%s", code, out.String(), errs.String())
	}
	if text := testkit.ReadText(t, file); !strings.Contains(text, "the run was ended before its time") || !strings.Contains(text, "request.version-mismatch") {
		t.Errorf("%s", text)
	}
}

// Usage errors.
func TestConformanceUsage(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		_, code, out, errs := runLine(t, nil, nil, append([]string{"conformance"}, args...)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, want) || strings.Contains(errs, "hunter2") {
			t.Errorf("%q: %d\n%s\n%s\nwant %q", args, code, out, errs, want)
		}
	}
	const url = "http://127.0.0.1:1/mcp"
	f("a URL or a COMMAND is missing")
	f("the COMMAND after -- is missing", "--")
	f("both a URL and a COMMAND are given", url, "--", "x")
	f("is not a URL; fix: write", "npx")
	f("is reached neither over http nor over https", "ftp://h/x")
	f("is not the path of a socket", "unix:/x\n")
	f("is not a URL of a server", "http:///mcp")
	f("is given twice", url, url)
	f(`--face: "htp" is not known`, "--face", "htp", url)
	f("did you mean sse?", "--face", "ss", url)
	f("did you mean 2025-11-25?", "--revision", "2025-11-26", url)
	f("did you mean request.version-mismatch?", "--only", "request.version-mismtch", url)
	f(`--skip: "nothing*" is not known; fix: run`, "--skip", "nothing*", url)
	f("no check is left", "--only", "request", "--skip", "*", url)
	f("no check is left", "--only", "request.version-mismatch", "--face", "sse", url)
	f("--jobs: 0 is out of bounds", "--jobs", "0", url)
	f("--timeout: 1ms is out of bounds", "--timeout", "1ms", url)
	f("--header is not NAME: VALUE", "--header", "hunter2", url)
	f("--header is for URLs", "--header", "A: hunter2", "--", "x")
	f("--ca-file is for URLs", "--ca-file", "x", "--", "x")
	f("fix: write --json=x.json", "--json", "x.json", url)
	f("both --json and --junit write to -", "--json", "--junit", "-", url)
	f("both --diff and --list", "--diff", "--list")
	f("--strict means nothing with --list", "--list", "--strict")
	f("--junit means nothing with --diff", "--diff", "a", "b", "--junit", "x")
	f("did you mean request.version-mismatch?", "--explain", "request.version-mismach")
	f("unexpected argument", "--list", url)
	f("come after --", "--versin", "npx")
	f("are run with --official alone", "--only", "official.x", url)
	f("--header is for URLs", "--header", "A: hunter2", "unix:/x.sock")
	f("is not followed by an absolute path", "unix:x.sock")
	f("has no port of 1 to 65535", "tcp://localhost")
	f("both --client and --intermediary", "--client", "--intermediary", "--", "x")
	f("the COMMAND to be tested is missing", "--client")
	f("the COMMAND to be tested is missing", "--intermediary", url)
	f("--header means nothing with --client", "--client", "--header", "A: b", "--", "x")
	f("--front is for --intermediary", "--front", "http://{listen}/", url)
	f("write {upstream} where its URL belongs", "--intermediary", "--", "x")
	f(`--only: "request.version-mismatch" is not known`, "--client", "--only", "request.version-mismatch", "--", "x")
}

// A client is tested by servers made for it, and an intermediary between a server and our clients.
func TestConformanceOfClientsAndProxies(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	curl := []string{"curl", "-s", "-o", "/dev/null", "-H", "Content-Type: application/json", "-d", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}
	known := testkit.WriteFile(t, "known.txt", "client.accept # curl\n")
	code, out, errs := conformanceLine(t, append([]string{"--client", "--only", "client.accept,client.ends", "--face", "modern-http", "--expected-failures", known, "--"}, curl...)...)
	if code != ExitOK || errs != "" || !strings.Contains(out, "EXPECTED  client.accept") || !strings.Contains(out, "modern-http@2026-07-28 (tools_call)") || !strings.Contains(lastLine(out), " 0 failed,") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	if code, _, errs = conformanceLine(t, "--client", "--", "no-such-command-anywhere"); code != exitNobody || !strings.Contains(errs, "not found: install it") {
		t.Errorf("%d\n%s", code, errs)
	}
	self := testkit.Executable(t)
	proxy := func(args ...string) (code int, out, errs string) {
		var stdout, stderr bytes.Buffer
		c := testkit.Self(t, "main", append([]string{"conformance", "--intermediary", "--face", "modern-http", "--only", "request.version-mismatch"}, args...)...)
		c.Stdout, c.Stderr = &stdout, &stderr
		_ = c.Run() // its exit code is checked
		return c.ProcessState.ExitCode(), stdout.String(), stderr.String()
	}
	code, out, errs = proxy("--", self, "serve", "--listen", "{listen}", "--admin", "off", "--log-level", "error", "{upstream}")
	if code != ExitOK || errs != "" || lastLine(out) != "2 passed, 0 failed, 0 warnings, 0 notes, 0 skipped, 0 broken" || !strings.Contains(out, "  legacy-http  ") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	if code, _, errs = proxy("--front", "http://{listen}/nowhere", "--", self, "serve", "--listen", "{listen}", "--admin", "off", "--log-level", "error", "{upstream}"); code != exitNobody || !strings.Contains(errs, "nothing of MCP answers in front") {
		t.Errorf("%d\n%s", code, errs)
	}
}

// The official suite's findings are merged with ours; over stdio it runs through a Dragoman.
func TestConformanceOfficial(t *testing.T) {
	script := testkit.WriteFile(t, "suite.sh", `set -eu
while [ $# -gt 0 ]; do
	case $1 in --url) url=$2 ;; --spec-version) revision=$2 ;; -o) dir=$2 ;; esac
	shift
done
case $url in http://localhost:*/mcp) ;; *) echo "what is $url" >&2; exit 1 ;; esac
at=$dir/server-tools-list-2026-11-22T10-11-12-131Z
mkdir -p "$at"
echo '[{"id":"lists","name":"Lists","description":"lists at '$revision'","status":"SUCCESS"},
	{"id":"names","name":"Names","description":"names","status":"FAILURE","errorMessage":"no name","specReferences":[{"id":"T","url":"https://example.com/t"}]}]' >"$at/checks.json"
`)
	official := []string{"--official", "--official-command", "sh " + script, "--only", "request.version-mismatch,request.params-missing,official.*", "--revision", "2026-07-28"}
	list := []string{"--expected-failures", testkit.WriteFile(t, "known.txt", "official.tools-list:names # theirs\n")}
	url := demoServer(t)
	const kept = "3 passed, 0 failed, 0 warnings, 0 notes, 0 skipped, 0 broken, 1 expected"
	code, out, errs := conformanceLine(t, append(append(official, list...), url)...)
	if code != ExitOK || errs != "" || lastLine(out) != kept || !strings.Contains(out, "https://example.com/t") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	if code, out, _ = conformanceLine(t, append(official, "--skip", "official.*:names", url)...); code != ExitOK || lastLine(out) != strings.TrimSuffix(kept, ", 1 expected") {
		t.Errorf("%d\n%s", code, out)
	}
	code, out, _ = conformanceLine(t, "--official", "--official-command", "no-such-suite", "--only", "official.*", "--revision", "2026-07-28", url)
	if code != ExitFailed || !strings.Contains(out, "BROKEN  official.suite") || !strings.Contains(out, "--official-command") {
		t.Errorf("%d\n%s", code, out)
	}
	self := testkit.Executable(t)
	c := testkit.Self(t, "main", append(append([]string{"conformance"}, official...), "--", self, "demo", "--log-level", "error")...)
	text, err := c.Output()
	if c.ProcessState.ExitCode() != ExitFailed || lastLine(string(text)) != "2 passed, 1 failed, 0 warnings, 0 notes, 0 skipped, 0 broken" || !strings.Contains(string(text), "FAIL  official.tools-list:names  MUST  modern-stdio@2026-07-28") {
		t.Errorf("%v\n%s", err, text)
	}
}

// The flags reach the run.
func TestConformanceOptions(t *testing.T) {
	rec, code, _, errs := runLine(t, nil, nil, "conformance", "--header", "Authorization: Bearer a:b", "--strict", "--verbose", "--timeout", "3s", "--jobs", "7",
		"--expected-failures", "known.txt", "--face", "sse,legacy-http", "http://h/sse", "http://h/mcp")
	o := rec.Conformance
	if code != ExitOK || o == nil || len(o.URLs) != 2 || !o.Strict || !o.Verbose || o.Timeout != 3*time.Second || o.Jobs != 7 || o.Expected != "known.txt" ||
		len(o.Headers) != 1 || o.Headers[0].Value != "Bearer a:b" || len(o.choice.faces) != 2 {
		t.Errorf("%d %s %+v", code, errs, o)
	}
	rec, _, _, _ = runLine(t, nil, nil, "conformance", "--only", "messages.shape", "--skip", "legacy*", "--", "npx", "-y", "x", "--only")
	o = rec.Conformance
	if strings.Join(o.Command, " ") != "npx -y x --only" || len(o.choice.checks) != 1 || len(o.choice.tried) < 50 || len(o.choice.tried) >= len(checks.All()) {
		t.Errorf("%+v", o.choice)
	}
}

func TestConformanceWildcard(t *testing.T) {
	f := func(pattern, text string, want bool) {
		t.Helper()
		if got := wildcard(pattern, text); got != want {
			t.Errorf("%q, %q: %v", pattern, text, got)
		}
	}
	f("a.b", "a.b", true)
	f("a.b", "a.bc", false)
	f("a.*", "a.bc", true)
	f("*", "", true)
	f("*.b*d", "a.bcd", true)
	f("a*a", "a", false)
	f("b*", "a.b", false)
	f("a*x*c", "abc", false)
}

// The lists of checks.
func TestConformanceLists(t *testing.T) {
	_, out, _ := conformanceLine(t, "--list")
	if lines := strings.Count(out, "\n"); lines != len(allChecks())+1 || !strings.Contains(out, "\nclient.") || !strings.Contains(out, "request.version-mismatch") {
		t.Errorf("%d lines:\n%s", lines, out)
	}
	_, out, _ = conformanceLine(t, "--list", "--only", "request", "--face", "modern-stdio", "--json")
	var list struct {
		Checks []struct{ ID, Level, Statement, URL string }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Checks) < 2 || len(list.Checks) >= len(allChecks()) {
		t.Fatal(err, out)
	}
	for _, c := range list.Checks {
		if !strings.HasPrefix(c.ID, "request.") || c.Level == "" || c.Statement == "" {
			t.Errorf("%+v", c)
		}
	}
	if code, out, _ := conformanceLine(t, "--explain", "request.version-mismatch"); code != ExitOK || !strings.Contains(out, "level     MUST") || !strings.Contains(out, "fix       ") {
		t.Errorf("%d %s", code, out)
	}
}
