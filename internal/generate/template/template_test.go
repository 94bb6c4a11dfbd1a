package template

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/internal/generate"
	"dragoman/internal/testkit"
)

func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func nobody(string) bool { return false }

func TestLoad(t *testing.T) {
	s, err := Load(folder(t, "bash-script.sh.j2=x", "x.txt=y", "part/inner.j2=z", "python.py.j2=p"), nobody)
	if err != nil || len(s.Templates) != 2 || len(s.sources) != 4 {
		t.Fatalf("%+v, %v", s, err)
	}
	s, err = Load(folder(t, "templates.yaml=templates:\n- name: bash-script\n  template_path: t/bash-script.j2\n  output_extension: .sh\n", "t/bash-script.j2=x"), nobody)
	if err != nil || len(s.Templates) != 1 || s.Templates[0] != (Template{"bash-script", "t/bash-script.j2", ".sh"}) {
		t.Fatalf("%+v, %v", s, err)
	}
	listed := func(text string) string { return folder(t, "a.j2=x", "templates.yaml="+text) }
	outside := folder(t, "secret.j2=x")
	linked := listed("templates: [{name: a, template_path: link.j2, output_extension: .sh}]")
	if err := os.Symlink(filepath.Join(outside, "secret.j2"), filepath.Join(linked, "link.j2")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		folder(t, "x.txt=y"):     "there are no templates; fix: ",
		folder(t, "Bad.sh.j2=y"): `"Bad" is no name of a template; fix: `,
		folder(t, "a.j2=y"):      `a: "" is no extension of a file; fix: `,
		folder(t, "a.sh.j2=y", "big.txt="+strings.Repeat("x", maxFile+1)): "big.txt: the templates take more than",
		listed("x"):         "templates.yaml: ",
		listed("other: []"): "unknown field",
		listed("templates: [{name: a, template_path: ../a.j2, output_extension: .sh}]"):                                                    `there is no file "../a.j2"`,
		listed("templates: [{name: a, template_path: a.j2, output_extension: /../x}]"):                                                     "is no extension",
		listed("templates: [{name: ../a, template_path: a.j2, output_extension: .sh}]"):                                                    "is no name of a template",
		listed("templates: [{name: a, template_path: a.j2, output_extension: .sh},{name: a, template_path: a.j2, output_extension: .sh}]"): "template 2: the name a is taken",
		listed("templates: [{name: taken, template_path: a.j2, output_extension: .sh}]"):                                                   "the name taken is taken",
		linked:                       `there is no file "link.j2" in the folder; links do not count`,
		filepath.Join(outside, "no"): "no such file",
	} {
		if s, err := Load(dir, func(name string) bool { return name == "taken" }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", s, err, want)
		}
	}
}

// python returns a Python with Jinja2, in a folder that lasts as long as the repository's other tools.
func python(t *testing.T) string { return testkit.Python(t, "jinja2==3.1.6") }

func service() *generate.Service {
	s := &generate.Service{Name: "one", URL: "http://h/x", Tools: []*generate.Tool{
		{Name: "create \"issue\"", Description: "First\n'; rm -rf / #{{ 7 * 7 }}", Input: json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["b"]}`), Output: json.RawMessage(`{"type":"object"}`)},
		{Name: "other", Input: json.RawMessage(`{}`)}}}
	s.Prepare()
	return s
}

func TestFiles(t *testing.T) {
	program := python(t)
	s, err := Load(folder(t, "wrapper.sh.j2=#!/bin/sh\n{% include 'part/head.txt' %}{{ description | comment }}\n"+
		"{% for name, schema in arguments.items() %}{{ name }}:{{ schema.type }}{{ '!' if name in required }} {% endfor %}{{ service_url }} {{ tool_name | sh }} {{ tool_name | json }} {{ tool_name | py }} {{ output_schema is none }} {{ token_variable }}\n", "part/head.txt=# head\n"), nobody)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Files(t.Context(), &s.Templates[0], []*generate.Service{service(), {Name: "empty"}}, program)
	if err != nil || len(all) != 2 || len(all[0]) != 2 || len(all[1]) != 0 || all[0][0].Path != "create_issue.sh" || !all[0][0].Exec {
		t.Fatalf("%+v, %v", all, err)
	}
	want := "#!/bin/sh\n# head\n# First\n# '; rm -rf / #{{ 7 * 7 }}\nb:string! a:integer http://h/x 'create \"issue\"' \"create \\\"issue\\\"\" 'create \"issue\"' False MCP_TOKEN_ONE\n"
	if got := string(all[0][0].Data); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := string(all[0][1].Data); !strings.Contains(got, "\nhttp") || !strings.Contains(got, " True MCP_TOKEN_ONE") {
		t.Errorf("%s", got)
	}
}

// A template sees nothing but what it is given, and its mistakes are told with their place.
func TestMistakes(t *testing.T) {
	program := python(t)
	for source, want := range map[string]string{
		"x\n{% if %}":                                "wrapper.sh.j2:2: ",
		"{{ nothing }}":                              "'nothing' is undefined",
		"{{ 1 / 0 }}":                                "ZeroDivisionError",
		"{% include '/etc/hostname' %}":              "wrapper.sh.j2",
		"{% include '../secret' %}":                  "wrapper.sh.j2",
		"{{ ''.__class__.__mro__ }}":                 "unsafe",
		"{{ tool_name.__init__.__globals__ }}":       "unsafe",
		"{{ cycler.__init__.__globals__.os }}":       "unsafe",
		"{{ arguments.update({'x': 1}) }}":           "unsafe",
		"{{ lipsum.__globals__['os'].popen('id') }}": "unsafe",
	} {
		s, err := Load(folder(t, "wrapper.sh.j2="+source), nobody)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := s.Files(t.Context(), &s.Templates[0], []*generate.Service{service()}, program); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", source, all, err, want)
		}
	}
}

// Without Jinja2, or without Python, a user is told what to do.
func TestNoPython(t *testing.T) {
	s, err := Load(folder(t, "wrapper.sh.j2=x"), nobody)
	if err != nil {
		t.Fatal(err)
	}
	bare := testkit.Python(t)
	broken := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho '[' \n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{"no-such-python": "no-such-python is not there, which templates need; fix: ", bare: "has no Jinja2; fix: ", broken: "cannot be read", "false": "exit status 1"} {
		if _, err := s.Files(t.Context(), &s.Templates[0], []*generate.Service{service()}, program); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", program, err, want)
		}
	}
}
