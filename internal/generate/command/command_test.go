package command

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/internal/generate"
)

const schema = `{"type":"object","properties":{"text":{"type":"string","description":"A text\nin lines"},"n":{"type":"integer"},"x":{"type":["number","null"]},"on":{"type":"boolean"},
	"tags":{"type":"array","items":{"type":"string"}},"filter":{"type":"object","properties":{"a":{"type":"string"}}},"state":{"enum":["open","closed","$(touch x)","a b"]},"list":{"type":"string"}},"required":["text"]}`

// build generates the program for a service and compiles it. It returns the path of the program.
func build(t *testing.T, s *generate.Service) string {
	t.Helper()
	s.Prepare()
	dir := t.TempDir()
	files, err := Files(s, "issue-tracker")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Path), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"vet", "./..."}, {"build", "-o", "issue-tracker", "."}} {
		c := exec.Command("go", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	return filepath.Join(dir, "issue-tracker")
}

// run runs the program.
func run(t *testing.T, program, stdin string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := exec.Command(program, args...)
	var out, err strings.Builder
	c.Stdin, c.Stdout, c.Stderr, c.Env = strings.NewReader(stdin), &out, &err, append(os.Environ(), env...)
	_ = c.Run() // its exit code says more
	return c.ProcessState.ExitCode(), out.String(), err.String()
}

func TestProgram(t *testing.T) {
	var last *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = r
		raw, _ := io.ReadAll(r.Body)
		var call struct {
			Tool      string
			Arguments struct{ Text string }
		}
		_ = json.Unmarshal(raw, &call)
		switch call.Arguments.Text {
		case "fail":
			w.WriteHeader(429)
			_, _ = w.Write([]byte(`{"success":false,"error":"too \u001bmany","code":"RATE_LIMITED"}`))
		case "isError":
			_, _ = w.Write([]byte(`{"success":true,"data":{"isError":true,"content":[{"type":"text","text":"by itself"}]}}`))
		case "ask":
			_, _ = w.Write([]byte(`{"success":true,"data":{"result_type":"input_required","input_requests":{"q":1}}}`))
		case "structured":
			_, _ = w.Write([]byte(`{"success":true,"data":{"structuredContent":{"a":[1]}}}`))
		case "html":
			_, _ = w.Write([]byte("<h1>"))
		case "moved":
			http.Redirect(w, r, "/x", http.StatusPermanentRedirect)
		default:
			echoed, _ := json.Marshal(string(raw))
			_, _ = fmt.Fprintf(w, `{"success":true,"data":{"content":[{"type":"text","text":%s},{"type":"image"}]},"request_id":"r"}`, echoed)
		}
	}))
	defer srv.Close()
	program := build(t, &generate.Service{Name: "one", Title: "Issues", URL: srv.URL + "/below/", Tools: []*generate.Tool{
		{Name: "create_issue", Description: "Creates `an` issue.\nSecond line", Input: json.RawMessage(schema)}, {Name: "list", Input: json.RawMessage(`{}`)}, {Name: "Create-Issue", Input: json.RawMessage(`{}`)}}})
	const sent = `{"arguments":%s,"tool":"create_issue"}` + "\n"
	create := Commands(&generate.Service{Tools: []*generate.Tool{{Name: "create_issue"}, {Name: "Create-Issue"}}})[0]
	for _, test := range []struct {
		name, args, stdin, want string
		code                    int
	}{
		{name: "kinds", args: create + `|--text|a "b" $HOME|--n|-12|--x=1.5e3|--on|--tags|a|--tags=b|--filter|{"a": "b"}|--state|open|--list|l`,
			want: fmt.Sprintf(sent, `{"filter":{"a":"b"},"list":"l","n":-12,"on":true,"state":"open","tags":["a","b"],"text":"a \"b\" $HOME","x":1.5e3}`)},
		{name: "the tool's own name", args: "create_issue|--text=a|--on=false", want: fmt.Sprintf(sent, `{"on":false,"text":"a"}`)},
		{name: "standard input", args: create + "|-", stdin: `{"text":"a"}`, want: fmt.Sprintf(sent, `{"text":"a"}`)},
		{name: "JSON", args: "--format|json|" + create + "|--text|structured", want: `{"structuredContent":{"a":[1]}}` + "\n"},
		{name: "structured", args: create + "|--text|structured", want: `{"a":[1]}` + "\n"},
		{name: "envelope", args: "--format=envelope|" + create + "|--text|structured", want: `{"success":true,"data":{"structuredContent":{"a":[1]}}}` + "\n"},
		{name: "a failure", args: create + "|--text|fail", want: "RATE_LIMITED: too \uFFFDmany", code: 1},
		{name: "of the tool", args: create + "|--text|isError", want: "EXECUTION_ERROR: by itself", code: 1},
		{name: "a question", args: create + "|--text|ask", want: `the server asks something, which this command cannot answer: {"q":1}`, code: 1},
		{name: "no JSON", args: create + "|--text|html", want: "the answer, with status 200, is no JSON", code: 1},
		{name: "a redirect", args: create + "|--text|moved", want: "with status 308", code: 1},
		{name: "nothing", args: create, want: "--text is missing", code: 2},
		{name: "twice", args: create + "|--text|a|--text|b", want: "--text is there twice", code: 2},
		{name: "unknown option", args: create + "|--nope", want: `unknown option "--nope"; fix: --help`, code: 2},
		{name: "no value", args: create + "|--text", want: "the value of --text is missing", code: 2},
		{name: "no integer", args: create + "|--text|a|--n|01", want: `--n takes integer, not "01"`, code: 2},
		{name: "no number", args: create + "|--text|a|--x|1.", want: `--x takes number, not "1."`, code: 2},
		{name: "no boolean", args: create + "|--text|a|--on=yes", want: `--on takes boolean`, code: 2},
		{name: "no JSON", args: create + "|--text|a|--filter|{", want: `--filter takes json`, code: 2},
		{name: "standard input is no JSON", args: create + "|-", stdin: "{", want: "standard input is no JSON", code: 2},
		{name: "unknown command", args: "nope", want: `unknown command "nope"; fix: issue-tracker list`, code: 2},
		{name: "unknown format", args: "--format|xml|list", want: "--format is text, json or envelope", code: 2},
		{name: "unknown shell", args: "completion|csh", want: "completion takes bash, zsh or fish", code: 2},
		{name: "no command", want: "Usage: issue-tracker [--format text|json|envelope] COMMAND"},
		{name: "help", args: "help", want: "MCP_URL_ONE replaces the address " + srv.URL + "/below, MCP_TOKEN_ONE is a bearer token."},
		{name: "help of a command", args: "help|" + create, want: "Creates `an` issue.\nSecond line\n\nOptions:\n  --text TEXT\n      A text\n      in lines\n      (required)\n"},
		{name: "--help", args: create + "|--text|--help", want: "  --on\n  --tags TEXT\n      (may be repeated)\n  --filter JSON\n"},
		{name: "list", args: "list", want: "Creates `an` issue.\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var args []string
			if test.args != "" {
				args = strings.Split(test.args, "|")
			}
			code, stdout, stderr := run(t, program, test.stdin, nil, args...)
			switch got := map[bool]string{true: stdout, false: stderr}[code == 0]; {
			case code != test.code:
				t.Fatalf("exit code %d, %q %q", code, stdout, stderr)
			case !strings.Contains(got, test.want):
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	if _, stdout, _ := run(t, program, "", nil, "list", "CREATE", "second"); !strings.Contains(stdout, "Creates") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("%q", stdout)
	}
	code, _, stderr := run(t, program, "", []string{"MCP_URL_ONE=" + srv.URL + "/other/", "MCP_TOKEN_ONE=secret"}, "create_issue", "--text", "a")
	if code != 0 || last.URL.Path != "/other/call-tool" || last.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("%d %q, %v %v", code, stderr, last.URL, last.Header)
	}
	if code, _, stderr := run(t, program, "", []string{"MCP_URL_ONE=http://127.0.0.1:1"}, "create_issue", "--text", "a"); code != 1 || !strings.Contains(stderr, "fix: start what serves http://127.0.0.1:1, or set MCP_URL_ONE") {
		t.Errorf("%d %q", code, stderr)
	}
	complete(t, program)
}

// complete asks a real bash what it completes.
func complete(t *testing.T, program string) {
	t.Helper()
	words := func(line ...string) string {
		script := fmt.Sprintf("PATH=%q:$PATH; source <(issue-tracker completion bash); COMP_WORDS=(%s); COMP_CWORD=%d; _issue_tracker; printf '%%s\\n' \"${COMPREPLY[@]}\"", filepath.Dir(program), strings.Join(line, " "), len(line)-1)
		out, err := exec.Command("bash", "-c", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.Join(strings.Fields(string(out)), " ")
	}
	for want, line := range map[string][]string{"completion": {"issue-tracker", "comp"}, "--tags --text": {"issue-tracker", "create_issue", "--t"}, "open closed": {"issue-tracker", "create_issue", "--state", `""`}, "--help": {"issue-tracker", "create_issue", "--text", "a", "--h"}} {
		if got := words(line...); got != want {
			sorted := strings.Fields(got)
			if len(sorted) != len(strings.Fields(want)) || !strings.Contains(want, sorted[0]) {
				t.Errorf("%q: %q, want %q", line, got, want)
			}
		}
	}
	for shell, part := range map[string]string{"zsh": "#compdef issue-tracker", "fish": "complete -c issue-tracker"} {
		if code, stdout, _ := run(t, program, "", nil, "completion", shell); code != 0 || !strings.Contains(stdout, part) {
			t.Errorf("%s: %q", shell, stdout)
		}
	}
}

// Whatever a server says, the data of the program is JSON, and no value that a shell would read as code is completed.
func FuzzTools(f *testing.F) {
	for _, s := range []string{"a", "$(x)", "`x`", "a b", "\n", "\x00", "-x", "é", "\xff", "${x}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, _ := json.Marshal(text)
		s := &generate.Service{Name: "one", Title: text, URL: "http://h", Tools: []*generate.Tool{{Name: text, Description: text, Input: json.RawMessage(fmt.Sprintf(`{"properties":{%[1]s:{"enum":[%[1]s,"ok"],"description":%[1]s}}}`, key))}}}
		s.Prepare()
		var got struct{ Tools []tool }
		raw, err := tools(s, "one")
		if err == nil {
			err = json.Unmarshal(raw, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range got.Tools[0].Options[0].Values {
			if strings.ContainsAny(v, "$`'\"\\ \n;&|<>(){}*?!~#") || v == "" || v[0] == '-' {
				t.Errorf("%q is completed", v)
			}
		}
		if name := got.Tools[0].Options[0].Name + got.Tools[0].Command; strings.ContainsAny(name, "$`'\"\\ \n;&|<>(){}*?!~#") {
			t.Errorf("%q", name)
		}
	})
}
