package laws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"dragoman/internal/cli"
	"dragoman/internal/clitest"
	"dragoman/internal/testkit"
)

// Long documents lose their readers: text beyond the limit belongs on a page of docs.
func TestDocumentSizes(t *testing.T) {
	for file, limit := range map[string]int{"README.md": 250, "ARCHITECTURE.md": 300} {
		if lines := strings.Count(testkit.ReadText(t, file), "\n"); lines > limit {
			t.Errorf("%s has %d lines, %d allowed; move the rest to docs", file, lines, limit)
		}
	}
	_, glossary, found := strings.Cut(testkit.ReadText(t, "ARCHITECTURE.md"), "| word | meaning |\n|---|---|\n")
	var words []string
	for line := range strings.SplitSeq(glossary, "\n") {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		words = append(words, strings.Split(cell, ", ")...)
	}
	if !found || len(words) == 0 || len(words) > 25 {
		t.Errorf("the glossary has %d words, 25 allowed: %q; use a word of HTTP, Go or MCP instead of a new one", len(words), words)
	}
}

// The Dragoman commands in documents are valid, and so are the configurations of clients that start it.
func TestDocumentedCommands(t *testing.T) {
	seen := 0
	for _, f := range testkit.FencesOf(t, testkit.Manual...) {
		switch f.Kind {
		case "json":
			seen += clientConfig(t, f)
		case "", "sh", "console":
			for _, line := range commandsOf(f.Text) {
				if words := testkit.ShellWords(line); len(words) > 0 && words[0] == "dragoman" && !strings.ContainsAny(line, "|<>") {
					seen++
					typed(t, f.File, words[1:])
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d commands were found", seen)
	}
}

// commandsOf returns the commands of a block, with continued lines joined.
func commandsOf(text string) (lines []string) {
	console := strings.HasPrefix(strings.TrimSpace(text), "$ ")
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		line, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if line != "" && (prompt || !console) {
			lines = append(lines, line)
		}
	}
	return lines
}

// clientConfig checks the servers of a client's configuration, and counts them.
func clientConfig(t *testing.T, f testkit.Fence) int {
	t.Helper()
	type server struct {
		Command, URL string
		Args         []string
	}
	var config struct{ Servers, MCPServers map[string]server }
	if err := json.Unmarshal([]byte(f.Text), &config); err != nil {
		t.Errorf("%s: %v in\n%s", f.File, err, f.Text)
		return 0
	}
	n := 0
	for _, servers := range []map[string]server{config.Servers, config.MCPServers} {
		for _, s := range servers {
			if filepath.Base(s.Command) == "dragoman" {
				n++
				typed(t, f.File, s.Args)
			}
		}
	}
	return n
}

// Links of documents to our files and headings resolve.
func TestDocumentedLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, file := range testkit.Documents(t) {
		text := testkit.Fences.ReplaceAllString(testkit.ReadText(t, file), "")
		for _, m := range link.FindAllStringSubmatch(testkit.CodeSpan.ReplaceAllString(text, ""), -1) {
			path, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, ":") {
				continue
			}
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: broken link %s", file, m[1])
				continue
			}
			if heading != "" && !slices.Contains(headings(t, target), heading) {
				t.Errorf("%s: %s: no such heading", file, m[1])
			}
		}
	}
}

// headings returns the anchors of a document, as GitHub makes them.
func headings(t *testing.T, file string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(data), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 0x7f && r != '…' && r != '’':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		all = append(all, anchor)
	}
	return all
}

// guide is a document whose commands are run in one directory, with the files that its blocks name in their first line, and on free ports.
type guide struct {
	dir   string
	env   []string
	ports *strings.Replacer
	vars  string // assignments so far
}

// The commands of the guides print what the guides show. Blocks of kind console are run in order; a command that ends with "&" goes on
// running. In the output … matches anything. Commands that would download something or need a missing program are skipped.
func TestGuidesRun(t *testing.T) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here", program)
		}
	}
	var files []string
	for _, f := range testkit.FencesOf(t, testkit.Manual...) {
		if !slices.Contains(files, f.File) {
			files = append(files, f.File)
		}
	}
	for _, file := range files {
		blocks := testkit.FencesOf(t, file)
		if !slices.ContainsFunc(blocks, func(f testkit.Fence) bool { return f.Kind == "console" }) {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := newGuide(t)
			for _, f := range blocks {
				g.keep(t, f)
				if f.Kind == "console" {
					g.console(t, f.Text)
				}
			}
		})
	}
}

func newGuide(t *testing.T) *guide {
	t.Helper()
	// Below conformance, where Node finds the SDKs; Go finds them in the module.
	if err := os.MkdirAll("conformance/.tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("conformance/.tmp", "guide.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	self := testkit.Executable(t)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=main GORACE=atexit_sleep_ms=0 exec '%s' \"$@\"\n", testkit.AsDragoman, self)
	if err := os.WriteFile(filepath.Join(bin, "dragoman"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	venvs, err := filepath.Abs("conformance/servers/.venv")
	if err != nil {
		t.Fatal(err)
	}
	// Python has one environment for each version of the SDK.
	script = fmt.Sprintf("#!/bin/sh\ncase $1 in *1.py) v=1 ;; *) v=2 ;; esac\nexec '%s'/$v/bin/python \"$@\"\n", venvs)
	if err := os.WriteFile(filepath.Join(bin, "python"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for _, port := range []string{"8080", "8081", "8082", "8083", "9090"} {
		pairs = append(pairs, port, freePort(t, pairs))
	}
	path := strings.Join([]string{bin, os.Getenv("PATH")}, string(os.PathListSeparator))
	ports := strings.NewReplacer(pairs...)
	env := append(os.Environ(), "PATH="+path, "NO_COLOR=1", "DRAGOMAN_LISTEN="+ports.Replace("127.0.0.1:8080"), "DRAGOMAN_ADMIN_LISTEN=off")
	return &guide{dir: dir, env: env, ports: ports}
}

// freePort returns a free port below the ephemeral range, so that it is not taken before the guide uses it.
func freePort(t *testing.T, taken []string) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(10000))
		ln, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		if err := ln.Close(); err == nil && !slices.Contains(taken, port) {
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

var namedBlock = regexp.MustCompile(`^(?:#|//) ([a-z0-9_-]+\.[a-z]+)\n`)

// keep writes a block that begins with the name of a file.
func (g *guide) keep(t *testing.T, f testkit.Fence) {
	t.Helper()
	if m := namedBlock.FindStringSubmatch(f.Text); m != nil {
		if err := os.WriteFile(filepath.Join(g.dir, m[1]), []byte(g.ports.Replace(f.Text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	assignment = regexp.MustCompile(`^(export )?[A-Z_]+=\S*$`)
	elsewhere  = regexp.MustCompile(`^(npm|npx|pip|uv|uvx|docker|kubectl|helm|sudo|claude|code|go get)\b`)
)

// console runs the commands of a block.
func (g *guide) console(t *testing.T, text string) {
	t.Helper()
	text = strings.ReplaceAll("\n"+g.ports.Replace(text), "\\\n", "\x00")
	for _, part := range strings.Split(text, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		command = strings.ReplaceAll(command, "\x00", " ")
		background, goesOn := strings.CutSuffix(command, " &")
		switch {
		case assignment.MatchString(command):
			g.vars += command + "\n"
		case elsewhere.MatchString(command), !g.possible(command):
			t.Logf("not run: %s", command)
		case goesOn:
			g.start(t, background)
		default:
			g.run(t, command, want)
		}
	}
}

// possible reports whether the programs of a command are installed.
func (g *guide) possible(command string) bool {
	needs := map[string]string{"node ": "conformance/node_modules/@modelcontextprotocol/client", "python ": "conformance/servers/.venv/2/bin/python"}
	for begins, file := range needs {
		if strings.HasPrefix(command, begins) {
			_, err := os.Stat(file)
			return err == nil
		}
	}
	return true
}

func (g *guide) command(ctx context.Context, line string) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "-c", g.vars+line)
	c.Dir, c.Env, c.WaitDelay = g.dir, g.env, 10*time.Second
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	return c
}

// run runs a command to its end and compares its output.
func (g *guide) run(t *testing.T, line, want string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	out, err := g.command(ctx, line).CombinedOutput()
	out = bytes.ReplaceAll(out, []byte("\r\n"), []byte("\n"))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", line, err)
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", `.*?`)
	if pattern == "" && err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	if !regexp.MustCompile(`(?s)^`+pattern+`$`).MatchString(strings.TrimSpace(string(out))) && pattern != "" {
		t.Errorf("%s\nprints\n%s\nwant\n%s", line, out, want)
	}
}

// start runs a server until the guide ends, and waits until it prints that it is ready.
func (g *guide) start(t *testing.T, line string) {
	t.Helper()
	var out testkit.LockedBuffer
	c := g.command(t.Context(), "exec "+line)
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = c.Process.Kill()
			t.Errorf("%s does not end:\n%s", line, out.String())
		}
	})
	deadline := time.After(20 * time.Second)
	for {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s: %v\n%s", line, err, out.String())
		case <-deadline:
			t.Fatalf("%s did not start:\n%s", line, out.String())
		case <-time.After(20 * time.Millisecond):
			if strings.Contains(out.String(), "listening") || strings.Contains(out.String(), "listens at") {
				return
			}
		}
	}
}

// typed checks that a command line is valid; its files may be missing.
func typed(t *testing.T, file string, args []string) {
	t.Helper()
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "&" || a == "…" })
	if at := slices.Index(args, "#"); at >= 0 {
		args = args[:at]
	}
	if len(args) > 0 && args[0] == "new" { // it writes
		args = append(args, "--dir", filepath.Join(t.TempDir(), "project"))
	}
	if r := clitest.Run(t, []string{"EXAMPLE_TOKEN=x", "TOKEN=x", "DRAGOMAN_AGGREGATOR_KEY=x"}, args...); r.Code == cli.ExitUsage {
		t.Errorf("%s: dragoman %s: %s", file, strings.Join(args, " "), r.Errs)
	}
}
