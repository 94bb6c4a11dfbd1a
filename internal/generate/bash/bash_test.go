package bash

import (
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

// server answers calls with what it was sent.
func server(t *testing.T) (url string, last *http.Request) {
	last = new(http.Request)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last = *r
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "fail") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, last
}

// write generates the scripts of a service with one tool, and returns the path of its script.
func write(t *testing.T, url string, tool *generate.Tool) string {
	t.Helper()
	s := &generate.Service{Name: "one", URL: url, Tools: []*generate.Tool{tool}}
	s.Prepare()
	dir := t.TempDir()
	for _, f := range Files(s) {
		if err := os.WriteFile(filepath.Join(dir, f.Path), f.Data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, Scripts(s)[0])
}

// run runs a script.
func run(t *testing.T, script, stdin string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := exec.Command("bash", append([]string{script}, args...)...)
	var out, err strings.Builder
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &err
	c.Env = append(os.Environ(), env...)
	_ = c.Run() // its exit code says more
	return c.ProcessState.ExitCode(), out.String(), err.String()
}

const schema = `{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"},"x":{"type":["number","null"]},"on":{"type":"boolean"},
	"tags":{"type":"array","items":{"type":"string"}},"ids":{"type":"array","items":{"type":"integer"}},"filter":{"type":"object","properties":{"a":{"type":"string"}}},
	"state":{"enum":["open","closed"],"default":"open"},"maxDepth":{"type":"integer","minimum":1},"$(touch x)\n\"'":{"type":"string"},"help":{"type":"string"}},"required":["text"]}`

func TestScript(t *testing.T) {
	url, _ := server(t)
	script := write(t, url, &generate.Tool{Name: `create "issue"` + "\n$(x)", Description: "Creates `an` issue.\nUSAGE\n'quoted' $HOME \\", Input: json.RawMessage(schema)})
	odd := "a \"b\" \\ 'c' $HOME `id` & \n\t\r\x01\x1f\x7f é \u2028"
	for _, test := range []struct {
		name, stdin, args, want string
		code                    int
	}{
		{name: "texts", args: "--text|" + odd, want: `{"text":` + string(must(json.Marshal(odd))) + `}`},
		{name: "empty", args: "--text|", want: `{"text":""}`},
		{name: "an option for a value", args: "--text|--n", want: `{"text":"--n"}`},
		{name: "with =", args: "--text=a=b", want: `{"text":"a=b"}`},
		{name: "kinds", args: "--text|a|--n|-12|--x|1.5e3|--on|--max-depth|3", want: `{"text":"a","n":-12,"x":1.5e3,"on":true,"maxDepth":3}`},
		{name: "false", args: "--text|a|--on=false", want: `{"text":"a","on":false}`},
		{name: "lists", args: "--tags|a|--tags|b\"|--text|a|--ids|1|--ids|2", want: `{"text":"a","tags":["a","b\""],"ids":[1,2]}`},
		{name: "JSON", args: `--text|a|--filter|{"a":"b"}`, want: `{"text":"a","filter":{"a":"b"}}`},
		{name: "values", args: "--text|a|--state|closed", want: `{"text":"a","state":"closed"}`},
		{name: "odd member", args: "--text|a|--touch-x|y", want: `{"text":"a","$(touch x)\n\"'":"y"}`},
		{name: "help_ as a member", args: "--text|a|--help_|y", want: `{"text":"a","help":"y"}`},
		{name: "standard input", args: "-", stdin: `{"text": "a\u2028"}`, want: `{"text":"a\u2028"}`},
		{name: "none", want: "--text is missing; fix: ", code: 2},
		{name: "unknown", args: "--text|a|--nope|b", want: `unknown option "--nope"`, code: 2},
		{name: "no option", args: "a", want: `unexpected argument "a"`, code: 2},
		{name: "twice", args: "--text|a|--text|b", want: "--text is there twice", code: 2},
		{name: "no value", args: "--text", want: "the value of --text is missing", code: 2},
		{name: "no integer", args: "--text|a|--n|1.5", want: `--n takes an integer, not "1.5"`, code: 2},
		{name: "leading zero", args: "--text|a|--n|01", want: `--n takes an integer`, code: 2},
		{name: "no number", args: "--text|a|--x|1.", want: `--x takes a number`, code: 2},
		{name: "no list of integers", args: "--text|a|--ids|1,2", want: `--ids takes an integer`, code: 2},
		{name: "no boolean", args: "--text|a|--on=yes", want: "--on is true or false", code: 2},
		{name: "no JSON", args: "--text|a|--filter|b", want: `--filter takes JSON, not "b"`, code: 2},
		{name: "- and more", args: "--text|a|-", want: "- stands alone", code: 2},
		{name: "nothing on standard input", args: "-", want: "standard input is empty", code: 2},
		{name: "a failure", args: "--text|fail", want: `"text":"fail"`, code: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var args []string
			if test.args != "" {
				args = strings.Split(test.args, "|")
			}
			code, stdout, stderr := run(t, script, test.stdin, nil, args...)
			if code != test.code {
				t.Fatalf("exit code %d, %q %q", code, stdout, stderr)
			}
			if code != 0 {
				if !strings.Contains(stderr, test.want) || stdout != "" {
					t.Errorf("%q %q, want %q", stdout, stderr, test.want)
				}
				return
			}
			var got, want struct {
				Tool      string
				Arguments any
			}
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.Tool != "create \"issue\"\n$(x)" {
				t.Fatalf("%q, %v", stdout, err)
			}
			if err := json.Unmarshal([]byte(test.want), &want.Arguments); err != nil {
				t.Fatal(err)
			}
			if a, b := must(json.Marshal(got.Arguments)), must(json.Marshal(want.Arguments)); string(a) != string(b) {
				t.Errorf("%s, want %s", a, b)
			}
		})
	}
	for _, flag := range []string{"-h", "--help"} {
		code, stdout, _ := run(t, script, "", nil, flag)
		for _, part := range []string{"Creates `an` issue.\nUSAGE\n'quoted' $HOME \\\n", "  --text TEXT\n      (required)\n", "  --tags TEXT\n      (may be repeated)\n", "  --on\n", "  --filter JSON\n",
			`(one of "open", "closed"; default "open")`, "(minimum 1)", "  -h, --help\n"} {
			if code != 0 || !strings.Contains(stdout, part) {
				t.Errorf("%s: %d, %q has no %q", flag, code, stdout, part)
			}
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// The address can be replaced when a script runs, and a token is taken from the environment, and is not on a command line.
func TestEnvironment(t *testing.T) {
	url, last := server(t)
	script := write(t, "http://127.0.0.1:1/", &generate.Tool{Name: "x", Input: json.RawMessage(`{}`)})
	if code, _, stderr := run(t, script, "", nil); code != 1 || !strings.Contains(stderr, "no answer from http://127.0.0.1:1; fix: start what serves it, or set MCP_URL_ONE") {
		t.Errorf("%d %q", code, stderr)
	}
	seen := t.TempDir()

	real, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(seen, "curl"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >'"+seen+"/args'\nexec '"+real+"' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, script, "", []string{"PATH=" + seen + ":" + os.Getenv("PATH"), "MCP_URL_ONE=" + url + "/servers/one/", "MCP_TOKEN_ONE=secret \"token\""})
	if code != 0 || stdout != "{\"tool\":\"x\",\"arguments\":{}}\n" || last.URL.Path != "/servers/one/call-tool" || last.Header.Get("Authorization") != `Bearer secret "token"` {
		t.Errorf("%d %q %q, %v %v", code, stdout, stderr, last.URL, last.Header)
	}
	args, err := os.ReadFile(filepath.Join(seen, "args"))
	if err != nil || strings.Contains(string(args), "secret") || !strings.Contains(string(args), "call-tool") {
		t.Errorf("%s, %v", args, err)
	}
	if code, _, stderr := run(t, script, "", []string{"MCP_URL_ONE=" + url, "MCP_TOKEN_ONE=a\nX-Evil: b"}); code != 2 || !strings.Contains(stderr, "MCP_TOKEN_ONE is no token") || strings.Contains(stderr, "Evil") {
		t.Errorf("%d %q", code, stderr)
	}
}

// Nothing that a server says is run, wherever it stands, and shellcheck finds nothing to say.
func FuzzScript(f *testing.F) {
	for _, s := range []string{"a", "'", `"`, "\n", "\\", "$(exit 7)", "`exit 7`", "${x:?}", "USAGE\nexit 7\n", "USAGE", "a\x00b", "\xff", "'; exit 7; '", "--", "-h", "!", "a b", "\r", "\u202e", "#", "%s", "&", "é"} {
		f.Add(s)
	}
	shellcheck, _ := exec.LookPath("shellcheck")
	f.Fuzz(func(t *testing.T, text string) {
		key := string(must(json.Marshal(text)))
		tool := &generate.Tool{Name: text, Title: text, Description: text, Input: json.RawMessage(`{"type":"object","properties":{` + key + `:{"type":"string","description":` + key + `,"default":` + key + `,"enum":[` + key + `],"pattern":` + key + `}}}`)}
		script := write(t, "http://127.0.0.1:1/"+text, tool)
		code, stdout, stderr := run(t, script, "", nil, "--help")
		if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "Usage: ") || !strings.HasSuffix(stdout, "  -h, --help\n") {
			t.Fatalf("%q: %d, %q, %q", text, code, stdout, stderr)
		}
		if shellcheck == "" {
			return
		}
		if out, err := exec.Command(shellcheck, "-S", "style", script).CombinedOutput(); err != nil {
			source, _ := os.ReadFile(script)
			t.Fatalf("%q: %s\n%s", text, out, source)
		}
	})
}

// Of a word that is not plain all but letters, spaces, "_" and "-" is escaped, also digits, which an escape before them would take.
func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"": "''", "azAZ09 _-./:,=@%+": "'azAZ09 _-./:,=@%+'", "azAZ _-09;": `$'azAZ _-\060\071\073'`,
		"`": `$'\140'`, "{": `$'\173'`, "[": `$'\133'`, "'": `$'\047'`, `\`: `$'\134'`, "\n": `$'\012'`, "é": `$'\303\251'`, "@'": `$'\100\047'`, "./:'": `$'\056\057\072\047'`, "!": `$'\041'`, "~": `$'\176'`,
	} {
		if got := quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
