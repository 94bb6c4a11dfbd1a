package cli

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// On a terminal the values that a server of a registry needs are asked for, secrets without showing what is typed.
func TestServersAddAsks(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s := serveAggregator(t, "commands = [\"npx\"]\nseal_key = \"0123456789abcdef0123456789abcdef\"\n")
	url := registryOf(t, map[string]string{"io.github.me/weather": serverJSON("io.github.me/weather", `"packages":[{"registryType":"npm","identifier":"weather","version":"1.0.0","transport":{"type":"stdio"},
		"environmentVariables":[{"name":"AGG_KEY","description":"the key","isRequired":true,"isSecret":true},{"name":"CITY","isRequired":true,"choices":["Bern","Kyiv"]},{"name":"UNITS","description":"of speed"}]}]`)})
	person, tty := terminal(t)
	shown := &testkit.LockedBuffer{}
	go func() { _, _ = io.Copy(shown, bufio.NewReader(person)) }() // ends when the terminal is closed
	for _, test := range []struct {
		answers []string
		code    int
		want    string
	}{
		{[]string{"env:AGG_TOKEN\n", "Bern\n", "y\n"}, ExitOK, "variable AGG_KEY from env:AGG_TOKEN\nvariable CITY with a value of the description or yours\nas       a\n"},
		{[]string{"env:AGG_TOKEN\n", "Bern\n", "n\n"}, ExitFailed, "nothing was sent"},
		{[]string{"hunter2\n"}, ExitFailed, "is a secret and is no reference"},
		{[]string{"\n"}, ExitFailed, "AGG_KEY has no value: nothing was sent"},
		{[]string{"env:AGG_TOKEN\n", "Rome\n"}, ExitFailed, "the value of CITY is none of its values; fix: write Bern or Kyiv"},
	} {
		errs := &testkit.LockedBuffer{}
		done := make(chan int, 1)
		go func() {
			done <- Execute(t.Context(), []string{"servers", "add", "io.github.me/weather", "--registry", url, "--as", "a", "--no-connect"}, s.environ, app.Streams{In: tty, Out: io.Discard, Err: errs}, Runners{})
		}()
		prompts := []string{"AGG_KEY (a secret): the key, as env:NAME or file:/path\nAGG_KEY=", "CITY (one of Bern, Kyiv)\nCITY=", "Use it from the machine of dragoman? [y/N] "}
		for i, answer := range test.answers {
			testkit.Eventually(t, prompts[i], func() bool { return strings.Contains(errs.String(), prompts[i]) })
			if i == 0 { // the terminal shows what is typed until then
				testkit.Eventually(t, "the terminal is silent", func() bool {
					mode, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
					return err == nil && mode.Lflag&unix.ECHO == 0
				})
			}
			if _, err := person.WriteString(answer); err != nil {
				t.Fatal(err)
			}
		}
		if code := testkit.Receive(t, "its end", done); code != test.code || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%q: %d %s; want %d %s", test.answers, code, errs, test.code, test.want)
		}
		if strings.Contains(errs.String(), "hunter2") {
			t.Errorf("a secret is shown: %s", errs)
		}
	}
	if !strings.Contains(shown.String(), "Bern") {
		t.Errorf("what is typed is not shown: %q", shown)
	}
	if strings.Contains(shown.String(), "AGG_TOKEN") {
		t.Errorf("what is typed of a secret is shown: %q", shown)
	}
}
