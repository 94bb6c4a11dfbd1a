package imported

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func nothing(string) (string, bool) { return "", false }

// Names are those that configurations take, as near to the given ones as they can be, and unique.
func TestName(t *testing.T) {
	long := strings.Repeat("a", 80)
	for name, want := range map[string]string{
		"github": "github", "My Server!": "my-server", "io.github.me/the.server": "the-server", "9lives": "server-9lives", "": "server", "-_x_-": "server-x", "Ünïcode": "n-code", "a__b": "a__b", long: long[:64], "a  b": "a-b", "../../x": "x", "日本": "server",
	} {
		if got := Name(name, func(string) bool { return false }); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	var taken []string
	for range 12 {
		taken = append(taken, Name(long, func(n string) bool { return slices.Contains(taken, n) }))
	}
	if taken[0] != long[:64] || taken[1] != long[:62]+"-2" || taken[11] != long[:61]+"-12" {
		t.Errorf("%q", taken)
	}
	for name, want := range map[string]string{"api-key": "API_KEY", "": "_", "9x": "_9X", "a.b/c": "A_B_C", "OK_1": "OK_1"} {
		if got := VariableName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// Texts are filled from variables, then defaults; what has neither is named once and stays.
func TestFill(t *testing.T) {
	text := Text{{Literal: "a"}, {Variable: "X"}, {Variable: "Y", Default: "d", HasDefault: true}, {Variable: "X"}, {Variable: "Z", HasDefault: true}}
	got, missing := text.Fill(func(name string) (string, bool) { return "<" + name + ">", name == "Y" })
	if got != "a${X}<Y>${X}" || !slices.Equal(missing, []string{"X", "X"}) || text.String() != "a${X}${Y}${X}${Z}" || !slices.Equal(text.Variables(), []string{"X", "Y", "Z"}) {
		t.Errorf("%q %q %q %q", got, missing, text.String(), text.Variables())
	}
	if Literal("") != nil || len(Texts("", "x")[0]) != 1 {
		t.Error("empty texts")
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("content\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Server{Variables: []Variable{{Name: "D", Default: "std"}, {Name: "N"}}}
	lookup := s.Value(func(name string) (string, bool) { return "set", name == "S" })
	for name, want := range map[string]string{"S": "set", "D": "std", "N": "", "file:" + file: "content", "file:/none": ""} {
		if got, ok := lookup(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v", name, got, ok)
		}
	}
}

// A server's keys are in the order of configurations; times are within their bounds, and the last of two equal names counts.
func TestKeys(t *testing.T) {
	s := Server{Command: Texts("x", ""), Dir: Literal("/d"), EnvFile: Literal("/e"), Inherit: []string{"I"}, StartTimeout: time.Hour, ToolTimeout: 1500 * time.Millisecond,
		Env: []Setting{{Name: "A", Value: Literal("1")}, {Name: "A", Value: Literal("2")}}, Hidden: []string{"h", "", "bad*"}, Only: []string{"o"}}
	want := []Key{
		{Path: []string{"command"}, Texts: s.Command, List: true}, {Path: []string{"cwd"}, Texts: []Text{s.Dir}}, {Path: []string{"env_file"}, Texts: []Text{s.EnvFile}}, {Path: []string{"env_inherit"}, Texts: Texts("I"), List: true},
		{Path: []string{"start_timeout"}, Texts: Texts("15m0s")}, {Path: []string{"env", "A"}, Texts: Texts("2"), Refers: true}, {Path: []string{"tools", "*", "timeout"}, Texts: Texts("2s")},
		{Path: []string{"tools", "h", "enabled"}, Texts: Texts("false"), Bare: true}, {Path: []string{"access", "*", "tools"}, Texts: Texts("o"), List: true},
	}
	if got := s.Keys(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant\n%v", got, want)
	}
	u := Server{URL: Literal("https://x/"), SSE: true, StartTimeout: time.Second, ToolTimeout: time.Hour, Headers: []Setting{{Name: "H", Value: Literal("v")}}}
	var paths []string
	for _, k := range u.Keys() {
		paths = append(paths, strings.Join(k.Path, "."))
	}
	if strings.Join(paths, " ") != "url transport headers.H tools.*.timeout" || u.Keys()[3].Texts[0].String() != "5m0s" {
		t.Errorf("%q", paths)
	}
}

// Secrets are kept in the place of their values, by name, form or description; references and plain values are written.
func TestWriter(t *testing.T) {
	s := Server{Name: "s", From: "x:1", Command: append(Texts("x", "--token=hunter2-hunter2"), Text{{Variable: "ARG"}}), Env: []Setting{
		{Name: "PLAIN", Value: Literal("v")}, {Name: "API_KEY", Value: Literal("hunter2")}, {Name: "SAID", Value: Literal("hunter3"), Secret: true}, {Name: "REF", Value: Text{{Variable: "R"}}},
		{Name: "MIX", Value: Text{{Literal: "a-"}, {Variable: "SET"}}}, {Name: "DEF", Value: Text{{Variable: "D", Default: "std", HasDefault: true}}}, {Name: "LOOKS", Value: Literal("env:OTHER")},
		{Name: "BRACE", Value: Literal("${x}")}, {Name: "FILE", Value: Text{{Variable: "file:/none"}}}, {Name: "MIXFILE", Value: Text{{Literal: "b"}, {Variable: "file:/none"}}},
	}, Variables: []Variable{{Name: "R", Description: "the reference"}}}
	kept := map[string]string{}
	w := Writer{Lookup: func(name string) (string, bool) { return "val", name == "SET" || name == "ARG" }, Keep: func(server, name, secret string) (string, error) {
		kept[server+"/"+name] = secret
		return "file:/k", nil
	}}
	text, err := w.Servers([]Server{s, {Name: "s", From: "y", URL: Literal("https://u/")}, {Name: "off", Disabled: true, URL: Literal("https://u/")}, {Name: "empty", Lost: []string{"why"}}})
	want := `[upstreams.s] # x:1
command = ["x", "--token=hunter2-hunter2", "val"]
env.PLAIN = "v"
env.API_KEY = "file:/k"
env.SAID = "file:/k"
env.REF = "env:R"
env.MIX = "a-${SET}"
env.DEF = "std"
env.LOOKS = "file:/k"
env.BRACE = "file:/k"
env.FILE = "file:/none"
env.MIXFILE = "file:/k"

[upstreams.s-2] # y
url = "https://u/"
`
	if err != nil || text != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	if kept["s/env.API_KEY"] != "hunter2" || kept["s/env.SAID"] != "hunter3" || kept["s/env.LOOKS"] != "env:OTHER" || kept["s/env.BRACE"] != "${x}" || len(kept) != 5 {
		t.Errorf("%q", kept)
	}
	lines := strings.Join(w.Lines, "\n")
	for _, want := range []string{"env.REF needs the variable R, which is not set: set it before dragoman is started (the reference)", "command has the value that the variable ARG has now", "an argument holds a secret",
		"env.DEF has the default of the variable D", "env.MIXFILE lacks the value of file:/none", "s: is called s-2 here", "off: is switched off there", "empty: why"} {
		if !strings.Contains(lines, want) {
			t.Errorf("%q is missing in\n%s", want, lines)
		}
	}
	if strings.Contains(lines, "hunter") {
		t.Errorf("a secret is shown: %s", lines)
	}
	w = Writer{Lookup: nothing, Keep: func(string, string, string) (string, error) { return "", errors.New("full") }}
	if _, err := w.Servers([]Server{s}); err == nil || err.Error() != "full" {
		t.Error(err)
	}
	w = Writer{Lookup: nothing, Keep: func(string, string, string) (string, error) { return "file:/k", nil }}
	if text, err := w.Servers([]Server{s}); err != nil || !strings.Contains(text, `"${ARG}"]`) || !strings.Contains(strings.Join(w.Lines, "\n"), "command needs the variable ARG, which is not set") {
		t.Errorf("%v %s %q", err, text, w.Lines)
	}
}

// Secrets go into files of their own with safe names, or into variables that are unique.
func TestSecrets(t *testing.T) {
	s := Secrets{Dir: filepath.Join(t.TempDir(), "x", "secrets")}
	for _, c := range []struct{ server, name, secret, want string }{
		{"a", "env.KEY", "1", "a.KEY"}, {"a", "env.KEY", "1", "a.KEY"}, {"a", "headers.KEY", "2", "a.KEY-2"}, {"..", "env.../../b", "3", "_.._b"}, {"a", "env." + strings.Repeat("k", 200), "4", "a." + strings.Repeat("k", 98)},
	} {
		ref, err := s.Keep(c.server, c.name, c.secret)
		if err != nil || ref != "file:"+filepath.Join(s.Dir, c.want) {
			t.Errorf("%q: %q %v", c.name, ref, err)
		}
	}
	written, err := s.Write()
	if err != nil || len(written) != 4 {
		t.Fatalf("%q %v", written, err)
	}
	for _, path := range written {
		data, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil || string(data) != s.Files[path] || info.Mode() != 0o600 {
			t.Errorf("%s: %v %q", path, err, data)
		}
	}
	if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) != 4 {
		t.Errorf("%v %v", entries, err)
	}
	if err := WriteFile(filepath.Join(s.Dir, "none", "x"), nil, 0o600); err == nil {
		t.Error("a file was written into a directory that is not there")
	}
	v := Secrets{}
	for _, c := range []struct{ server, name, secret, want string }{
		{"a", "env.KEY", "1", "env:KEY"}, {"b", "env.KEY", "1", "env:KEY"}, {"b", "env.KEY", "2", "env:B_KEY"}, {"a", "headers.X-Key", "3", "env:A_X_KEY"}, {"a", "headers.x_key", "4", "env:A_HEADERS_X_KEY"}, {"a", "headers.x.key", "5", "env:A_X_KEY_2"},
	} {
		if ref, err := v.Keep(c.server, c.name, c.secret); err != nil || ref != c.want {
			t.Errorf("%s %s: %q %v, want %s", c.server, c.name, ref, err, c.want)
		}
	}
	if _, err := v.Write(); err != nil || v.Variables["KEY"] != "1" {
		t.Errorf("%v %q", err, v.Variables)
	}
}
