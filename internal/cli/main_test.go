package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"dragoman/adapters/stdio/reaper"
	"dragoman/internal/app"
	"dragoman/internal/app/logging"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) {
	if reaper.Called(os.Args) {
		os.Exit(reaper.Main())
	}
	switch os.Getenv(testkit.AsDragoman) {
	case "main":
		os.Exit(Main())
	case "wait":
		waitingMain()
	}
	testkit.Run(m)
}

// waitingMain serves until interrupted, then drains until stdin ends.
func waitingMain() {
	ctx, stop := interruptible(context.Background(), os.Exit)
	serve := func(ctx context.Context, _ *config.Config, std app.Streams) error {
		_, _ = fmt.Fprintln(std.Out, "serving")
		<-ctx.Done()
		_, _ = fmt.Fprintln(std.Out, "draining")
		_, _ = io.Copy(io.Discard, std.In)
		return ctx.Err()
	}
	code := Execute(ctx, os.Args[1:], nil, app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, Runners{Serve: serve})
	stop()
	os.Exit(code)
}

// The exit codes and usage errors of the program itself.
func TestUsage(t *testing.T) {
	file := testkit.WriteFile(t, "c.toml", "[upstreams.a]\nurl = \"http://a.example\"\n[upstreams.b]\nurl = \"http://b.example\"\n")
	bad := testkit.WriteFile(t, "bad.toml", "keepalife = \"1s\"\n")
	f := func(wantCode int, wantErr string, args ...string) {
		t.Helper()
		_, code, out, errs := runLine(t, nil, nil, args...)
		if code != wantCode || !strings.Contains(errs, wantErr) {
			t.Errorf("%q: code %d, stderr %q; want %d and %q", args, code, errs, wantCode, wantErr)
		}
		if strings.Contains(errs+out, "hunter2") {
			t.Errorf("%q: a secret is repeated: %s%s", args, errs, out)
		}
		if code != ExitOK && (!strings.HasPrefix(errs, "dragoman: ") || strings.Contains(errs+out, "Usage:")) {
			t.Errorf("%q: stderr %q, stdout %q", args, errs, out)
		}
	}
	f(2, "did you mean `dragoman serve`?", "srve")
	f(2, "did you mean `dragoman serve https://x.example/mcp`?", "https://x.example/mcp")
	f(2, "did you mean `dragoman config check`?", "config", "chek")
	f(2, "did you mean --listen?", "serve", "--lisen", "127.0.0.1:1")
	f(2, "come after --", "serve", "npx", "-y", "x")
	f(2, "to start a command `dragoman serve -- COMMAND`", "serve", "npx")
	f(2, "the argument is not", "serve", "user:hunter2@host")
	f(2, "a URL or a COMMAND is missing", "serve")
	f(2, "the COMMAND after -- is missing", "stdio", "--")
	f(2, "both a URL and a COMMAND", "probe", "http://a", "--", "b")
	f(2, `unexpected argument "http://b"`, "serve", "http://a", "http://b")
	f(2, "both --config and a URL", "serve", "--config", file, "http://a")
	f(2, "both --config and a COMMAND", "serve", "--config", file, "--", "a")
	f(2, "both --upstream and a URL", "stdio", "--upstream", "a", "http://a")
	f(2, "--listen: \"8080\" is not HOST:PORT; fix: write HOST:PORT", "serve", "http://a", "--listen", "8080")
	f(2, "choose a port of 1 to 65535", "serve", "http://a", "--listen", "127.0.0.1:65536")
	f(2, `did you mean "modern"?`, "serve", "--era", "modrn", "http://a")
	f(2, "fix: write auto, http, sse or rest", "serve", "--transport", "stdio", "http://a")
	f(2, "--header is not NAME: VALUE", "serve", "http://a", "--header", "hunter2")
	f(1, "cannot be read", "serve", "http://a", "--header", "@no-such-file")
	f(1, "line 2 is not NAME: VALUE", "serve", "http://a", "--header", "@"+testkit.WriteFile(t, "headers", "A: b\nhunter2\n"))
	f(2, "concerns one upstream, but 2 are configured", "serve", "--config", file, "--era", "modern")
	f(2, "add --upstream with a or b", "probe", "--config", file)
	f(2, "there is no upstream \"c\"; fix: choose a or b", "stdio", "--config", file, "--upstream", "c")
	f(2, "only concerns an upstream with a command", "serve", "http://a", "--cwd", "/")
	f(2, "only concerns an upstream with a url", "serve", "--header", "A: b", "--", "a")
	f(2, "is not loopback", "serve", "http://a", "--listen", ":8080")
	f(2, "flag needs an argument", "serve", "http://a", "--listen")
	f(2, "--era: \"old\" is not known; fix: write dual, modern or legacy", "demo", "--era", "old")
	f(2, "--http: \"x\" is not HOST:PORT", "demo", "--http", "x")
	f(2, `unexpected argument "x"`, "version", "x")
	f(1, "bad.toml:1: keepalife: unknown key; did you mean keepalive?", "serve", "--config", bad)
	f(1, "cannot be read: no such file", "serve", "--config", file+".toml")
	f(1, "no upstream is configured", "serve", "--config", testkit.WriteFile(t, "empty.toml", ""))
	f(1, "keepalife: unknown key", "config", "check", bad)
	f(0, "", "config", "check", file)
	f(0, "", "serve", "http://a")
	f(0, "", "version")
	f(0, "", "version", "--json")
	f(0, "", "completion", "bash")
}

func TestRunResult(t *testing.T) {
	f := func(run error, want int, wantErr string) {
		t.Helper()
		_, code, _, errs := runLine(t, nil, run, "serve", "http://a")
		if code != want || errs != wantErr {
			t.Errorf("%v: code %d, stderr %q; want %d, %q", run, code, errs, want, wantErr)
		}
	}
	f(nil, 0, "")
	f(errors.New("serve: the port is taken"), 1, "dragoman: serve: the port is taken\n")
	f(fmt.Errorf("x: %w", context.Canceled), 1, "dragoman: x: context canceled\n") // not interrupted

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	interrupted := func(context.Context, *config.Config, app.Streams) error { return context.Canceled }
	probe := func(context.Context, *config.Config, app.Streams, bool, time.Duration) error { return context.Canceled }
	var stderr bytes.Buffer
	std := app.Streams{Out: io.Discard, Err: &stderr}
	if code := Execute(ctx, []string{"stdio", "http://a"}, nil, std, Runners{Stdio: interrupted}); code != 0 {
		t.Errorf("interrupted: %d, %s", code, stderr.String())
	}
	if code := Execute(ctx, []string{"probe", "http://a"}, nil, std, Runners{Probe: probe}); code != 1 || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("interrupted probe: %d, %s", code, stderr.String())
	}
}

// Flags may come before and after the URL; everything after -- belongs to the child.
func TestTarget(t *testing.T) {
	f := func(check func(u *config.Upstream, c *config.Config) bool, args ...string) {
		t.Helper()
		rec, code, _, errs := runLine(t, nil, nil, args...)
		if code != 0 || rec.Command != args[0] {
			t.Fatalf("%q: %d %s", args, code, errs)
		}
		if len(rec.Cfg.Upstreams) != 1 || rec.Cfg.Upstreams[0].Name != "default" || !check(rec.Cfg.Upstreams[0], rec.Cfg) {
			t.Errorf("%q: %+v", args, rec.Cfg.Upstreams[0])
		}
	}
	f(func(u *config.Upstream, c *config.Config) bool {
		return u.URL == "http://a/mcp" && u.Era == "modern" && u.Transport == "http" && c.Listen() == "127.0.0.1:9000"
	}, "serve", "--era", "modern", "http://a/mcp", "--transport=http", "--listen", "127.0.0.1:9000")
	f(func(u *config.Upstream, _ *config.Config) bool {
		return strings.Join(u.Command, "|") == "npx|-y|x|--era|legacy|--|$HOME" && u.Era == "modern"
	}, "serve", "--era", "modern", "--", "npx", "-y", "x", "--era", "legacy", "--", "$HOME")
	f(func(u *config.Upstream, _ *config.Config) bool {
		return len(u.Headers) == 2 && u.Headers[0].Value.Reveal() == "Bearer a:b" && u.Headers[1].Name == "X-B"
	}, "stdio", "http://a", "--header", "Authorization: Bearer a:b", "--header", "X-B:1")
	token := testkit.WriteFile(t, "token", "Bearer c")
	f(func(u *config.Upstream, _ *config.Config) bool {
		return len(u.Headers) == 3 && u.Headers[0].Value.Reveal() == "Bearer c" && u.Headers[1].Value.Reveal() == "2" && u.Headers[2].Value.Reveal() == "Bearer c"
	}, "serve", "http://a", "--header", "@"+testkit.WriteFile(t, "headers", "# ours\n\nAuthorization: @"+token+"\r\nX-B: 2\n"), "--header", "X-C: @"+token)
	f(func(u *config.Upstream, _ *config.Config) bool {
		return len(u.Environ()) == 2 && u.Environ()[0] == "A=b=c" && u.Environ()[1] == "B=" && u.Cwd == "/"
	}, "probe", "--env", "A=b=c", "--env", "B=", "--cwd", "/", "--", "child")
	f(func(_ *config.Upstream, c *config.Config) bool {
		return c.Security.AllowAnonymous && strings.Join(c.Security.AllowedHosts, " ") == "a b:1" && c.Admin.Listen == field.Off
	}, "serve", "http://a", "--allow-anonymous", "--allow-host", "a", "--allow-host", "b:1", "--admin", "off", "--listen", "0.0.0.0:8080")

	rec, code, _, errs := runLine(t, []string{"DRAGOMAN_LOG_LEVEL=debug"}, nil, "demo", "--era", "legacy", "--http", "127.0.0.1:0", "--log-format", "json")
	if want := (DemoOptions{Era: "legacy", HTTP: "127.0.0.1:0", LogLevel: "debug", LogFormat: "json"}); code != 0 || rec.Demo != want {
		t.Errorf("demo: %+v, %s", rec.Demo, errs)
	}
	if rec, _, _, _ := runLine(t, nil, nil, "probe", "--json", "http://a"); !rec.AsJSON {
		t.Error("probe --json is lost")
	}
}

func TestConfigVariableAndPick(t *testing.T) {
	file := testkit.WriteFile(t, "c.toml", "[upstreams.a]\nurl = \"http://a.example\"\n[upstreams.b]\nurl = \"http://b.example\"\n")
	environ := []string{"DRAGOMAN_CONFIG=" + file}
	rec, code, _, errs := runLine(t, environ, nil, "stdio", "--upstream", "b", "--era", "legacy")
	if code != 0 || len(rec.Cfg.Upstreams) != 1 || rec.Cfg.Upstreams[0].Name != "b" || rec.Cfg.Upstreams[0].Era != "legacy" {
		t.Errorf("%d %s %+v", code, errs, rec.Cfg)
	}
	if _, code, _, errs = runLine(t, environ, nil, "serve", "http://a"); code != 2 || !strings.Contains(errs, "both DRAGOMAN_CONFIG and a URL") {
		t.Errorf("%d %s", code, errs)
	}
	if rec, _, _, _ = runLine(t, environ, nil, "serve"); rec.Cfg == nil || len(rec.Cfg.Upstreams) != 2 {
		t.Errorf("serve: %+v", rec.Cfg)
	}
}

// Every command has an example and a description.
func TestHelp(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		_, code, out, errs := runLine(t, nil, nil, args...)
		if code != 0 || errs != "" || !strings.Contains(out, "Examples:\n") || !strings.Contains(out, "Usage:\n  dragoman") {
			t.Errorf("%q: %d %s %s", args, code, errs, out)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&program{}))
	_, _, out, _ := runLine(t, nil, nil, "serve", "--help")
	for _, want := range []string{
		"--listen HOST:PORT", "(default 127.0.0.1:8080)", "--admin HOST:PORT|off", "(default 127.0.0.1:9090)",
		"--era auto|modern|legacy", "--transport auto|http|sse|rest", "--isolation", "--log-format auto|json|console", "--header 'NAME: VALUE'",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("serve --help lacks %q:\n%s", want, out)
		}
	}
	if _, code, out, _ := runLine(t, nil, nil); code != 0 || !strings.Contains(out, "\nServe:\n  serve ") || strings.Contains(out, "Additional Commands") {
		t.Errorf("no command: %d %s", code, out)
	}
}

func TestCompletion(t *testing.T) {
	if _, _, out, _ := runLine(t, nil, nil, "__complete", "serve", "--era", ""); !strings.Contains(out, "modern\n") {
		t.Errorf("completion of --era: %q", out)
	}
}

// The program as a process: exit codes as the shell sees them, nothing on
// stdout for an error, no colour in a pipe.
func TestBinary(t *testing.T) {
	f := func(want int, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		c := testkit.Self(t, "main", args...)
		c.Stdout, c.Stderr = &stdout, &stderr
		err := c.Run()
		var ee *exec.ExitError
		if err != nil && !errors.As(err, &ee) {
			t.Fatal(err)
		}
		if got := c.ProcessState.ExitCode(); got != want {
			t.Errorf("%q: exit code %d, want %d: %s", args, got, want, stderr.String())
		}
		if want != 0 && (stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "dragoman: ")) {
			t.Errorf("%q: stdout %q, stderr %q", args, stdout.String(), stderr.String())
		}
	}
	f(0, "version")
	f(0, "--version")
	f(0, "config", "check", "config.toml")
	f(0, "config", "check", "--allow-anonymous", "internal/config/testdata/service.yaml")
	f(1, "config", "check", "no-such-file.toml")
	f(2, "serve")
	f(2, "serve", "--no-such-flag")
	f(2, "no-such-command")
}

// The first interrupt drains and ends with 0, the second ends at once with 130.
func TestInterrupt(t *testing.T) {
	f := func(signal os.Signal, twice bool, want int) {
		t.Helper()
		c := testkit.Self(t, "wait", "serve", "http://a")
		c.Stderr = os.Stderr
		stdin, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(stdout)
		for _, wanted := range []string{"serving\n", "draining\n"} {
			if line, err := lines.ReadString('\n'); line != wanted {
				t.Fatalf("%q, %v; want %q", line, err, wanted)
			}
			if wanted == "serving\n" {
				if err := c.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
		}
		ended := make(chan struct{})
		go func() {
			_ = c.Wait()
			close(ended)
		}()
		if !twice {
			_ = stdin.Close()
		}
		for again := time.Tick(sameSignal / 5); twice; { // too early ones do not count
			select {
			case <-again:
				_ = c.Process.Signal(signal)
				continue
			case <-ended:
			}
			break
		}
		<-ended
		if got := c.ProcessState.ExitCode(); got != want {
			t.Errorf("%v twice=%v: exit code %d, want %d", signal, twice, got, want)
		}
	}
	f(syscall.SIGINT, false, 0)
	f(syscall.SIGTERM, false, 0)
	f(syscall.SIGINT, true, 130)
	f(syscall.SIGTERM, true, 130)
}

func TestWatchEndsItsGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	signals := make(chan os.Signal, 1)
	ctx, stop := watch(t.Context(), signals, func(int) { t.Error("exit after one signal") })
	signals <- os.Interrupt
	<-ctx.Done()
	stop()
}

// What launchers pass on counts once; a second interrupt of somebody who does not want to wait ends the process.
func TestRepeatedSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, code := make(chan os.Signal), make(chan int, 1)
		ctx, stop := watch(t.Context(), signals, func(c int) { code <- c })
		defer stop()
		signals <- syscall.SIGTERM
		<-ctx.Done()
		signals <- syscall.SIGTERM
		<-time.After(sameSignal - 1)
		signals <- os.Interrupt
		synctest.Wait()
		if len(code) != 0 {
			t.Fatal("the same signal has ended the process")
		}
		<-time.After(1)
		signals <- syscall.SIGTERM
		if c := <-code; c != exitInterrupted {
			t.Errorf("exit code %d", c)
		}
	})
}

func TestVersion(t *testing.T) {
	v := app.VersionInfo{Version: "v1.2.3", Revision: "0123456789abcdef", Modified: true, Go: "go1.26", Platform: "linux/amd64"}
	if got, want := v.String(), "dragoman v1.2.3 (0123456789ab, modified) go1.26 linux/amd64"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLogger(t *testing.T) {
	f := func(level, format, want string) {
		t.Helper()
		var buf bytes.Buffer
		log, err := logging.New(level, format, &buf)
		if err != nil {
			t.Fatal(err)
		}
		log.Info().Str("k", "v").Msg("hello")
		if !strings.Contains(buf.String(), want) || want == "" && buf.Len() > 0 || strings.Contains(buf.String(), "\x1b") {
			t.Errorf("%s %s: %q, want %q", level, format, buf.String(), want)
		}
	}
	f("info", "auto", `{"level":"info","k":"v","time":"20`) // a buffer is no terminal
	f("info", "json", `Z","message":"hello"}`)
	f("info", "console", "INF hello k=v")
	f("warn", "auto", "")
	for _, bad := range [][2]string{{"loud", "auto"}, {"info", "xml"}} {
		if _, err := logging.New(bad[0], bad[1], io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for level := range logging.Levels {
		if c, err := config.LoadConfig(config.LoadOptions{Flags: []config.Assignment{{Path: []string{"log", "level"}, Value: []string{level}}}}); err != nil || c.Log.Level != level {
			t.Errorf("%s is a level of the log, but not of the configuration: %v", level, err)
		}
	}
}

// Only command lines that start a child start the reaper first.
func TestStartsChild(t *testing.T) {
	for line, want := range map[string]bool{
		"serve -- npx server": true, "serve --listen :80 -- npx": true, "stdio -- npx": true, "probe -- npx": true,
		"": false, "serve https://example.com/mcp": false, "conformance -- npx": false, "-- serve": false,
	} {
		if got := startsChild(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
