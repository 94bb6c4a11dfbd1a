package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/internal/testkit"
)

func TestIsolation(t *testing.T) {
	f := func(text, stored, kind string, n int) {
		t.Helper()
		var u Upstream
		if err := field.Isolation(&u.Isolation).Set(value.Word(text)); err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		if k, got := u.Isolated(); u.Isolation != stored || k != kind || got != n {
			t.Errorf("%s: %q is %s of %d, want %q, %s of %d", text, u.Isolation, k, got, stored, kind, n)
		}
	}
	f("session", "session", "session", 0)
	f("principal", "principal", "principal", 0)
	f("shared", "shared", "shared", 0)
	f("pool(1)", "pool(1)", "pool", 1)
	f("pool(1000)", "pool(1000)", "pool", 1000)
	f("pool ( 04 )", "pool(4)", "pool", 4)
}

// Every invalid setting of a child is refused with a message that names the fix.
func TestChildKeysAreChecked(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		path := testkit.WriteFile(t, "c.toml", "[upstreams.a]\ncommand = [\"a\"]\n"+line+"\n")
		_, err := load(t, path, nil)
		got := errorLines(err, path)
		if want = strings.TrimSuffix("c.toml:3: upstreams.a."+want, "; fix: "); got != want {
			t.Errorf("%s gives\n%s\nwant\n%s", line, got, want)
		}
	}
	const kinds = "session, principal, pool(N) with N from 1 to 1000, or shared"
	f(`isolation = "pool"`, `isolation: "pool" does not say how many; fix: write "pool(4)" for four`)
	f(`isolation = "pool()"`, `isolation: "pool()" does not say how many; fix: write "pool(4)" for four`)
	f(`isolation = "pool(x)"`, `isolation: "pool(x)" does not say how many; fix: write "pool(4)" for four`)
	f(`isolation = "pool(0)"`, `isolation: "pool(0)" is out of range; fix: write `+kinds)
	f(`isolation = "pool(1001)"`, `isolation: "pool(1001)" is out of range; fix: write `+kinds)
	f(`isolation = "pool(99999999999999999999)"`, `isolation: "pool(99999999999999999999)" is out of range; fix: write `+kinds)
	f(`isolation = "sesion"`, `isolation: "sesion" is not known; did you mean "session"?; fix: write `+kinds)
	f(`isolation = "thread"`, `isolation: "thread" is not known; fix: write `+kinds)
	f(`isolation = 4`, `isolation: must be text, not 4; fix: write `+kinds)
	f(`isolation = "pool(101)"`, `isolation: 101 children are more than upstreams.a.max_processes allows, 100; fix: change one of the two`)
	f(`spares = 101`, `spares: 101 is out of range; fix: write 0 to 100`)
	f("spares = 5\nmax_processes = 4", `spares: 5 children are more than upstreams.a.max_processes allows, 4; fix: change one of the two`)
	f(`max_processes = 0`, `max_processes: 0 is out of range; fix: write 1 to 100000`)
	f(`max_processes_per_principal = 101`, `max_processes_per_principal: 101 children are more than upstreams.a.max_processes allows, 100; fix: change one of the two`)
	f(`max_processes_per_principal = -1`, `max_processes_per_principal: -1 is out of range; fix: write 1 to 100000, or 0 for as many as max_processes`)
	f(`idle_exit = "500ms"`, `idle_exit: 500ms is out of range; fix: write a duration such as "30s" or "1h30m", 1s to 168h, or 0 for never`)
	f(`start_timeout = "16m"`, `start_timeout: 16m is out of range; fix: write a duration such as "30s" or "1h30m", 1s to 15m`)
	f(`start_timeout = 0`, `start_timeout: 0 is out of range; fix: write a duration such as "30s" or "1h30m", 1s to 15m`)
	f(`crash_limit = 0`, `crash_limit: 0 is out of range; fix: write 1 to 1000`)
	f(`crash_pause = "2h"`, `crash_pause: 2h is out of range; fix: write a duration such as "30s" or "1h30m", 1s to 1h`)
	f(`stderr = "error"`, `stderr: "error" is not known; fix: write off, debug, info or warn`)
	f(`user = "a b"`, `user: "a b" is not the name or number of a user; fix: write the name or number of a user`)
	f(`user = 1000`, `user: must be text, not an integer; quote it; fix: write the name or number of a user`)
	f(`group = "-1"`, `group: "-1" is not the name or number of a group; fix: write the name or number of a group`)
	f(`memory = "15MiB"`, `memory: 15MiB is out of range; fix: write a size such as "4MiB", "100MB" or a number of bytes, 16MiB to 1024GiB, or 0 for no limit`)
	f(`cpus = -1`, `cpus: -1 is out of range; fix: write 1 to 8192, or 0 for no limit`)
	f(`cpus = 0.5`, `cpus: must be an integer, not 0.5; fix: write 1 to 8192, or 0 for no limit`)
	f(`env_inherit = "PATH"`, `env_inherit: must be a list, not text; fix: write a list of names such as ["SSH_AUTH_SOCK", "AWS_*"]`)
	f(`env_inherit = ["A", "B C"]`, `env_inherit: entry 2: "B C" is not the name of a variable; fix: write a list of names such as ["SSH_AUTH_SOCK", "AWS_*"]`)
	f(`env_inherit = ["A*B"]`, `env_inherit: entry 1: "A*B" is not the name of a variable; fix: write a list of names such as ["SSH_AUTH_SOCK", "AWS_*"]`)
	f(`env_inherit = ["*"]`, `env_inherit: entry 1: "*" would hand over everything, Dragoman's own secrets too; fix: name the variables, or what they begin with: ["SSH_AUTH_SOCK", "AWS_*"]`)
	f(`env_inherit = ["KEY=hunter2"]`, `env_inherit: entry 1: has a "=" in it, but a name alone is wanted; fix: set variables below env: NAME = "VALUE"`)
}

// Settings that only Linux has are refused elsewhere, each by its name.
func TestOtherSystemsRefuseAccounts(t *testing.T) {
	f := func(line, system, want string) {
		t.Helper()
		cfg := &Config{}
		u := &Upstream{}
		u.User, u.Group, u.Memory, u.CPUs = line, line, len(line), len(line)
		l := &loader{cfg: cfg}
		upstreamCheck{l: l, u: u, table: "upstreams.a"}.checkSystem(system)
		var got []string
		for _, e := range l.errs {
			got = append(got, e.Error())
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: %q", system, got)
		}
	}
	f("x", "linux", "")
	f("", "darwin", "")
	const fix = ": needs Linux, and this is windows; fix: remove it"
	f("x", "windows", "upstreams.a.user"+fix+"\nupstreams.a.group"+fix+"\nupstreams.a.memory"+fix+"\nupstreams.a.cpus"+fix)
}

// Settings of children are refused for other servers, unless they have the default.
func TestMisplacedKeys(t *testing.T) {
	f := func(url, line, want string) {
		t.Helper()
		path := testkit.WriteFile(t, "c.toml", "[upstreams.a]\nurl = \""+url+"\"\n"+line+"\n")
		_, err := load(t, path, nil)
		if got := errorLines(err, path); want == "" && err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s, %s gives\n%s\nwant\n%s", url, line, got, want)
		}
	}
	const web, unix, tcp = "https://a.example/mcp", "unix:/run/a.sock", "tcp://127.0.0.1:9000"
	for _, row := range new(Upstream).keys() {
		value := map[string]string{"cwd": `"/"`, "env": `{A = "b"}`, "env_inherit": `["A"]`, "env_file": `"x"`, "spares": "1", "max_processes": "1",
			"max_processes_per_principal": "1", "start_timeout": `"5s"`, "crash_limit": "1", "crash_pause": `"5s"`, "stderr": `"off"`, "stderr_to_clients": "true",
			"user": `"a"`, "group": `"a"`, "memory": `"1GiB"`, "cpus": "1"}[row.key]
		if (row.needs == CommandKey) != (value != "") {
			t.Errorf("%s: needs %q, tried with %q", row.key, row.needs, value)
		}
		if value == "" {
			continue
		}
		for _, url := range []string{web, unix, tcp} {
			f(url, row.key+" = "+value, "c.toml:3: upstreams.a."+row.key+": only concerns an upstream with a command; fix: remove it")
		}
		if row.std != "" {
			f(web, row.key+" = "+strings.NewReplacer("0", "0", "60s", `"60s"`, "30s", `"30s"`, "info", `"info"`).Replace(row.std), "")
		}
	}
	for key, value := range map[string]string{"ca_file": `"x"`, "proxy": `"off"`, "headers": `{A = "b"}`} {
		for _, url := range []string{unix, tcp} {
			f(url, key+" = "+value, "c.toml:3: upstreams.a."+key+": only concerns an upstream with an http or https url; fix: remove it")
		}
	}
	f(unix, `transport = "sse"`, "c.toml:3: upstreams.a.transport: sse needs an http or https url: a socket is spoken to in lines; fix: write auto or stdio, or remove it")
	f(unix, `transport = "stdio"`, "")
	f(web, `transport = "stdio"`, "c.toml:3: upstreams.a.transport: stdio needs a command, not a url")
}

func TestSocketURLs(t *testing.T) {
	f := func(text, network, address string) {
		t.Helper()
		var u Upstream
		if err := field.URL(&u.URL).Set(value.Word(text)); err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		n, a, ok := u.Socket()
		if n != network || a != address || ok != (network != "") {
			t.Errorf("%s: %q %q %v, want %q %q", text, n, a, ok, network, address)
		}
		if network != "" && (u.Target() != text || field.Redacts(field.URL(&u.URL))) {
			t.Errorf("%s is shown as %s", text, u.Target())
		}
	}
	f("unix:/run/a.sock", "unix", "/run/a.sock")
	f("unix:///run/a.sock", "unix", "/run/a.sock")
	f("unix:/run/a b?c#d%20", "unix", "/run/a b?c#d%20")
	f("tcp://127.0.0.1:9000", "tcp", "127.0.0.1:9000")
	f("tcp://[::1]:9000", "tcp", "[::1]:9000")
	f("tcp://server.internal:1", "tcp", "server.internal:1")
	f("https://a.example/mcp", "", "")

	bad := func(text, want string) {
		t.Helper()
		u := Upstream{URL: "before"}
		err := field.URL(&u.URL).Set(value.Word(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || u.URL != "before" {
			t.Errorf("%s: %v, want %s (%s)", text, err, want, u.URL)
		}
	}
	bad("unix:", "is not followed by an absolute path")
	bad("unix:run/a.sock", "is not followed by an absolute path")
	bad("unix://host/a.sock", "is not followed by an absolute path")
	bad("unix:/a\x00b", "is not the path of a socket")
	bad("unix:/"+strings.Repeat("a", 107), "has a path of 108 bytes")
	bad("tcp://127.0.0.1", "has no port")
	bad("tcp://127.0.0.1:", "has no port")
	bad("tcp://127.0.0.1:0", "has no port")
	bad("tcp://127.0.0.1:65536", "has no port")
	bad("tcp://:9000", "has no host")
	bad("tcp:127.0.0.1:9000", "has no host")
	bad("tcp://me:hunter2@a:1", "contains user information")
	bad("tcp://a:1/mcp", "has something after the port")
	bad("tcp://a:1?x=hunter2", "has something after the port")
	bad("ws://a:1", `has the scheme "ws"`)
}

// The environment of a child comes from env_file first, and then from env.
func TestEnvFile(t *testing.T) {
	secret := testkit.WriteFile(t, "token", "from-file\n")
	vars := testkit.WriteFile(t, "vars.env", "\xef\xbb\xbf# a comment\r\nA=1\r\nexport B = two words # not this\nC='$A ${A} #1'\nD=pa$$A#word\nE=\"x\\ny $A\"\nF=\"several\nlines\"\nG=\nH=base64==\n\nA2=é")
	file := testkit.WriteFile(t, "c.yaml", fmt.Sprintf(`upstreams:
  a:
    command: [a]
    env_file: %s
    env_inherit: [SSH_AUTH_SOCK, "AWS_*"]
    env: {A: over, TOKEN: "file:%s", KEY: "env:OTHER", DATABASE_URL: "file:./x.db", DD_TAGS: "env:prod,region:eu"}
`, vars, secret))
	c, err := load(t, file, []string{"OTHER=other"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, pair := range c.Upstream("a").Environ() {
		name, value, _ := strings.Cut(pair, "=")
		got[name] = value
	}
	want := map[string]string{"A": "over", "A2": "é", "B": "two words", "C": "$A ${A} #1", "D": "pa$$A#word", "E": "x\ny $A", "F": "several\nlines",
		"G": "", "H": "base64==", "TOKEN": "from-file", "KEY": "other", "DATABASE_URL": "file:./x.db", "DD_TAGS": "env:prod,region:eu"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the environment is\n%q\nwant\n%q", got, want)
	}
	if inherit := c.Upstream("a").EnvInherit; !reflect.DeepEqual(inherit, []string{"SSH_AUTH_SOCK", "AWS_*"}) {
		t.Errorf("inherited: %q", inherit)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
	var shown bytes.Buffer
	if err := c.PrintTOML(&shown); err != nil {
		t.Fatal(err)
	}
	if err := c.PrintJSON(&shown); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(&shown, "%+v %#v", *c.Upstream("a"), *c.Upstream("a"))
	for _, value := range []string{"two words", "pa$", "several", "from-file", "other"} {
		if strings.Contains(shown.String(), value) {
			t.Errorf("%q is shown:\n%s", value, shown.String())
		}
	}
}

// Errors of env_file name the file and line, and never show its content.
func TestEnvFileErrors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		vars := testkit.WriteFile(t, "vars.env", text)
		file := testkit.WriteFile(t, "c.toml", fmt.Sprintf("[upstreams.a]\ncommand = [\"a\"]\nenv_file = %q\n", vars))
		_, err := load(t, file, nil)
		got := strings.ReplaceAll(errorLines(err, file), filepath.Dir(vars)+string(filepath.Separator), "")
		if strings.Contains(got, "hunter2") || got != "c.toml:3: upstreams.a.env_file: "+want {
			t.Errorf("%q gives\n%s\nwant\n%s", text[:min(len(text), 100)], got, want)
		}
	}
	const fix = " is not NAME=VALUE (the text is not shown); fix: write NAME=VALUE; quote a value of several lines"
	f("hunter2", `"vars.env", line 1:`+fix)
	f("A=1\nhunter2\n", `"vars.env", line 2:`+fix)
	f("A=1\n=hunter2\n", `"vars.env", line 2:`+fix)
	f("A=1\nB C=hunter2\n", `"vars.env", line 2:`+fix)
	f("A='1\n2'\n# x\n\nB=\"hunter2\nC=1\n", `"vars.env", line 5:`+fix)
	f("A=1\nB-hunter2\n", `"vars.env", line 2:`+fix)
	f("A=1\nB=hunter2\x00\n", `"vars.env", line 2: is not UTF-8 text; fix: save the file as UTF-8`)
	f("A="+strings.Repeat("x", 64<<10), `"vars.env" is larger than 64 KiB; fix: keep only variables in it`)

	file := testkit.WriteFile(t, "c.toml", "[upstreams.a]\ncommand = [\"a\"]\nenv_file = \"no/such.env\"\n")
	_, err := load(t, file, nil)
	if got := errorLines(err, file); !strings.HasPrefix(got, `c.toml:3: upstreams.a.env_file: "no/such.env" cannot be read: `) {
		t.Errorf("no file: %s", got)
	}
}

func TestReadableEnvFile(t *testing.T) {
	vars := testkit.WriteFile(t, "vars.env", "A=hunter2\n")
	if err := os.Chmod(vars, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, testkit.WriteFile(t, "c.toml", fmt.Sprintf("[upstreams.a]\ncommand = [\"a\"]\nenv_file = %q\n", vars)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(vars); info.Mode().Perm()&0o004 == 0 {
		t.Skip("this system has no such permissions")
	}
	if w := strings.Join(c.Warnings, "\n"); !strings.Contains(w, "can be read by everybody") || strings.Contains(w, "hunter2") {
		t.Errorf("warnings: %q", w)
	}
}

// The settings of a child can be given in every form, and print writes them so that they can be read again.
func TestChildKeysEverywhere(t *testing.T) {
	want := func(t *testing.T, u *Upstream) {
		t.Helper()
		kind, n := u.Isolated()
		if kind != "pool" || n != 3 || u.Spares != 2 || u.MaxProcesses != 9 || u.MaxProcessesPerPrincipal != 4 || u.IdleExit != time.Minute ||
			u.StartTimeout != 5*time.Second || u.CrashLimit != 7 || u.CrashPause != time.Second || u.Stderr != "off" || strings.Join(u.EnvInherit, " ") != "A B_*" {
			t.Errorf("%+v", u)
		}
	}
	json := `{"upstreams": {"a": {"command": ["a"], "isolation": "pool(3)", "spares": 2, "max_processes": 9, "max_processes_per_principal": 4, "idle_exit": "1m",
"start_timeout": "5s", "crash_limit": 7, "crash_pause": "1s", "stderr": "off", "env_inherit": ["A", "B_*"]}}}`
	c, err := load(t, testkit.WriteFile(t, "c.json", json), nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, c.Upstream("a"))

	var text strings.Builder
	if err := c.PrintTOML(&text); err != nil {
		t.Fatal(err)
	}
	again, err := load(t, testkit.WriteFile(t, "again.toml", text.String()), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	want(t, again.Upstream("a"))

	env := []string{`A_COMMAND=["a"]`, "A_ISOLATION=pool(3)", "A_SPARES=2", "A_MAX_PROCESSES=9", "A_MAX_PROCESSES_PER_PRINCIPAL=4", "A_IDLE_EXIT=1m",
		"A_START_TIMEOUT=5s", "A_CRASH_LIMIT=7", "A_CRASH_PAUSE=1s", "A_STDERR=off", "A_ENV_INHERIT=A, B_*"}
	for i := range env {
		env[i] = "DRAGOMAN_UPSTREAMS_" + env[i]
	}
	if c, err = load(t, "", env); err != nil {
		t.Fatal(err)
	}
	want(t, c.Upstream("a"))
}
