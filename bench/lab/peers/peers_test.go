//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
	"dragoman/bench/reference"
)

// proxyWord makes this binary the bare proxy, on a loopback port, to an address: the simplest contender.
const proxyWord = "proxy"

// TestMain lets this binary be the child and the HTTP server, as the program does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == echoWord || os.Args[1] == serveWord) {
		if play(os.Args[1:], os.Stdin, os.Stdout) != nil {
			os.Exit(exitFailed)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == proxyWord {
		l, err := net.Listen("tcp", "127.0.0.1:"+os.Args[2])
		if err != nil || reference.ServeProxy(l, os.Args[3]) != nil {
			os.Exit(exitFailed)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestParseArgs(t *testing.T) {
	var said bytes.Buffer
	s, err := parseArgs([]string{"--short", "--sizes", "300,5000", "--only", "tbxark", "--steps", "rates"}, &said)
	if err != nil || s.rounds != 2 || !slices.Equal(s.steps, []string{stepRates}) || !s.wants("tbxark") || s.wants("tbxark-sse") ||
		!slices.Equal(s.sizes, []size{{300, 300}, {5000, 5000}}) {
		t.Errorf("%+v, %v", s, err)
	}
	f := func(want string, args ...string) {
		t.Helper()
		if _, err := parseArgs(args, &said); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	f("there is no", "--steps", "nothing")
	f("is not a number of bytes", "--sizes", "0")
	f("--rounds is 1 to", "--rounds", "-1")
	f("unexpected argument", "more")
	f("there is no kit", "--without", "nobody=because")
	f("want KIT=REASON", "--without", "mcpo=")
	if s, err = parseArgs([]string{"--without", "mcpo=no pip", "--only", "mcpo,tbxark"}, &said); err != nil {
		t.Fatal(err)
	}
	if b, err := newBench(s, &said); err != nil || len(b.field) != 1 || b.absent["mcpo"] != "no pip" {
		t.Errorf("without mcpo: %v", err)
	} else {
		b.close()
	}
	if _, err := newBench(settings{only: []string{"nobody"}}, &said); err == nil || !strings.Contains(err.Error(), "leaves no contender") {
		t.Errorf("no contender: %v", err)
	}
}

// testBench is a bench whose only contender is a shell that starts the child.
func testBench(t *testing.T) *bench {
	t.Helper()
	var said bytes.Buffer
	b, err := newBench(settings{}, &said)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// A contender's own processes and its children are counted separately, and what survives SIGTERM is found, counted and ended.
func TestTree(t *testing.T) {
	b := testBench(t)
	// The child reads from a pipe that is held by a process which ignores SIGTERM and leaves the group.
	script := `trap "" TERM; sleep 60 | "$@" >"$0" & wait`
	c := &contender{name: "shell", argv: func(p *place) ([]string, error) {
		return append([]string{"/bin/sh", "-c", script, filepath.Join(p.dir, "out")}, p.child...), nil
	}}
	r, err := b.start(context.Background(), c, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	var got census
	for end := time.Now().Add(10 * time.Second); ; <-time.After(5 * time.Millisecond) {
		if got, err = r.tree.read(); err != nil {
			t.Fatal(err)
		}
		if got.Children.Processes == 1 && got.Own.Processes == 2 && got.Own.PSS > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the tree is %+v", got)
		}
	}
	if got.Root.Processes != 1 || got.Root.PSS <= 0 || got.Root.PSS > got.Own.PSS || got.Children.PSS <= 0 {
		t.Errorf("the tree weighs %+v", got)
	}
	if left := r.tree.survivors(0); len(left) != 3 {
		t.Errorf("%d are alive: %v", len(left), left)
	}
	b.stop(r) // after measure's grace the group is killed
	if left := r.tree.survivors(goneLimit); len(left) != 0 {
		t.Errorf("left after the end: %v", left)
	}
}

func TestCPUBetween(t *testing.T) {
	before := census{Own: group{cpu: 10, reaped: 1}, Children: group{cpu: 5}}
	after := census{Own: group{cpu: 17, reaped: 7}, Children: group{cpu: 2}} // a child with 5 has ended, and its parent has reaped it
	if own, all := cpuBetween(before, after); own != 7 || all != 10 {
		t.Errorf("%d, %d", own, all)
	}
}

func TestStartChild(t *testing.T) {
	if took, err := testBench(t).startChild(t.Context()); err != nil || took <= 0 {
		t.Errorf("%v, %v", took, err)
	}
}

// rowOf is a row with these rates. A call costs its contender's proxy 1000 µs divided by the rate.
func rowOf(c *contender, kind faceKind, s size, rates ...float64) rateRow {
	row := rateRow{Contender: c.name, Face: kind, Size: s, contender: c}
	for _, r := range rates {
		row.Rounds = append(row.Rounds, rate{Requests: 1, PerSecond: r, Own: 1000 / r, All: 2000 / r, Generator: 1})
	}
	row.sum()
	return row
}

func TestVerdicts(t *testing.T) {
	b := testBench(t)
	all := contenders()
	ours, slow, fast := &all[0], &contender{name: "slow"}, &contender{name: "fast"}
	apart := &contender{name: "apart", isolates: true}
	small := size{300, 300}
	wrong := rowOf(&contender{name: "wrong"}, streamable, small, 9999)
	wrong.Errors = 1
	r := &report{Machine: map[string]string{}, Rates: []rateRow{
		rowOf(ours, streamable, small, 30, 60, 90), rowOf(slow, streamable, small, 10, 10, 10), rowOf(fast, streamable, small, 10, 20, 60),
		rowOf(apart, streamable, small, 1, 2, 3), rowOf(fast, httpSSE, small, 500), rowOf(fast, streamable, size{1, 1}, 500), wrong,
	}}
	r.finish(b.absent, b.leftover)
	if len(r.Verdicts) != 2 {
		t.Fatalf("%+v", r.Verdicts)
	}
	if like := r.Verdicts[1]; !like.Like || like.Best != "apart" || like.Rate.Median != 30 || !like.Met {
		t.Errorf("against peers with children alike: %+v", like)
	}
	v := r.Verdicts[0]
	if want := (measure.Spread{Median: 3, Min: 1.5, Max: 3, Rounds: 3}); v.Best != "fast" || v.Lean != "fast" || v.Rate != want || v.CPU.Median != 3 || math.Abs(v.Bound-(100+1)/(1000.0/60+1)) > 1e-9 {
		t.Errorf("%+v", v)
	}
	var text strings.Builder
	if err := r.document().Markdown(&text); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"| 300 B | streamable HTTP | dragoman | all | 3.0 (1.5–3.0) | ≥ 3 | met | 5.7 | fast |", "## Calls"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if err := r.failure(); err != nil {
		t.Error("a peer's wrong answers are no failure:", err)
	}
	r.Rates[0].Errors = 1
	if r.failure() == nil {
		t.Error("Dragoman's wrong answers are no failure")
	}
	names, err := r.write(t.TempDir())
	if err != nil || len(names) != 3 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestConfigurations(t *testing.T) {
	s := &settings{dragoman: "D", node: "N", npm: "M", tbxark: "T", python: "/P"}
	f := func(name string, idle time.Duration, want ...string) {
		t.Helper()
		for _, c := range contenders() {
			if c.name != name {
				continue
			}
			dir := t.TempDir()
			argv, err := c.argv(&place{settings: s, dir: dir, port: "4711", child: []string{"/x", "echo", "id"}, idleTTL: idle, extra: "more = 1"})
			text := strings.Join(argv, " ")
			files, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, file := range files {
				raw, _ := os.ReadFile(file)
				text += "\n" + string(raw)
			}
			for _, w := range append(want, "4711", "/x") {
				if err != nil || !strings.Contains(text, w) {
					t.Errorf("%s: %v, no %q in %s", name, err, w, text)
				}
			}
			return
		}
		t.Errorf("there is no %s", name)
	}
	f("dragoman", time.Second, "D serve --config", `idle_ttl = "1s"`, `isolation = "session"`, `command = ["/x","echo","id"]`, "more = 1")
	f("supergateway", 2*time.Second, "N M/supergateway/", "--stdio /x echo id", "--stateful --sessionTimeout 2000")
	f("mcp-proxy", time.Second, "--sessionIdleTimeout 1000 -- /x echo id")
	f("tbxark-sse", 0, "T --config", `"args":["echo","id"]`, `"type":"sse"`)
	f("mcp-proxy-py-stateless", 0, "/P/mcp-proxy-py/bin/mcp-proxy --host 127.0.0.1", "--stateless -- /x echo id")
	f("mcpo", 0, "/P/mcpo/bin/mcpo", "-- /x echo id")
	f("contextforge-translate", 0, "env --chdir=", "/P/contextforge/bin/python -m mcpgateway.translate --stdio /x echo id --expose-sse --expose-streamable-http")
	f("fastmcp", 0, "/P/fastmcp/bin/fastmcp run ", "config.json --transport http", `"args":["echo","id"]`)
}

// Contenders in front of an HTTP server get its URL, and not the child.
func TestConfigurationsOfHTTP(t *testing.T) {
	const url = "http://127.0.0.1:42/mcp"
	for _, c := range contenders() {
		if !c.upstream {
			continue
		}
		dir := t.TempDir()
		argv, err := c.argv(&place{settings: &settings{python: "P"}, dir: dir, port: "4711", child: []string{"/x"}, upstream: url})
		text := strings.Join(argv, " ")
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, file := range files {
			raw, _ := os.ReadFile(file)
			text += "\n" + string(raw)
		}
		if err != nil || !strings.Contains(text, "4711") || strings.Contains(text, "/x") || c.prepare == nil && !strings.Contains(text, url) {
			t.Errorf("%s: %v, %s", c.name, err, text)
		}
		if p := c.plan(toHTTP, "a", size{smallCall, smallCall}); p.Face != drive.LegacyHTTP || !strings.HasPrefix(p.Path, "/") {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// Contenders that make one server of several get all of them, and are called by the names that they give.
func TestConfigurationsOfMerges(t *testing.T) {
	for _, c := range merges() {
		dir := t.TempDir()
		argv, err := c.argv(&place{settings: &settings{python: "P"}, dir: dir, port: "4711", upstream: "http://127.0.0.1:42/mcp", merges: true})
		text := strings.Join(argv, " ")
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, file := range files {
			raw, _ := os.ReadFile(file)
			text += "\n" + string(raw)
		}
		if err != nil || c.prepare == nil && (!strings.Contains(text, "s00") || !strings.Contains(text, "s49") || strings.Count(text, "http://127.0.0.1:42/mcp") != mergedServers) {
			t.Errorf("%s: %v, %s", c.name, err, text)
		}
		if p := c.plan(toSeveral, "a", size{smallCall, smallCall}); p.Connections != mergedConnections || !strings.Contains(p.Calls[0].Params, `{"name":"`+c.tool+`","arguments"`) || !strings.HasPrefix(c.tool, "s00") {
			t.Errorf("%s: %+v", c.name, p)
		}
		if !slices.Equal(c.faces(), []faceKind{toSeveral}) || c.serves() != "200" {
			t.Errorf("%s: faces %v in front of a server of %s tools", c.name, c.faces(), c.serves())
		}
	}
}

// ContextForge is asked to register the servers that it does not list.
func TestRegisterAll(t *testing.T) {
	listed := map[string]bool{"s07": true}
	posted := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			for name := range listed {
				fmt.Fprintf(w, `{"name":"%s"},`, name)
			}
			return
		}
		var asked struct{ Name, URL string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.URL != "http://127.0.0.1:42/mcp?server="+asked.Name {
			t.Errorf("%v, %v", asked, err)
		}
		posted++
		listed[asked.Name] = true
	}))
	defer s.Close()
	if err := registerAll(t.Context(), s.Listener.Addr().String(), "http://127.0.0.1:42/mcp"); err == nil || posted != mergedServers-1 {
		t.Errorf("%v; %d registered", err, posted)
	}
	if err := registerAll(t.Context(), s.Listener.Addr().String(), "http://127.0.0.1:42/mcp"); err != nil || posted != mergedServers-1 {
		t.Errorf("%v; %d registered", err, posted)
	}
}

// A contender in front of the HTTP server is called, measured with its server as its child, and leaves nothing behind.
func TestUpstream(t *testing.T) {
	b := testBench(t)
	c := &contender{name: "bare", http: "/mcp", upstream: true, argv: func(p *place) ([]string, error) {
		addr, _, _ := strings.Cut(strings.TrimPrefix(p.upstream, "http://"), "/")
		return []string{b.self, proxyWord, p.port, addr}, nil
	}}
	prepared := 0
	c.prepare = func(context.Context, string, string) error {
		if prepared++; prepared == 1 {
			return errors.New("not yet")
		}
		return nil
	}
	r, err := b.launch(t.Context(), c, 0, "")
	if err != nil || prepared != 2 {
		t.Fatal(err, prepared)
	}
	row := &rateRow{Contender: c.name, Face: toHTTP, Size: size{smallCall, smallCall}, contender: c, running: r}
	b.settings.duration, b.settings.firstWarmup = 50*time.Millisecond, 5*time.Millisecond
	b.rateOnce(t.Context(), row)
	if len(row.Rounds) != 1 || row.Rounds[0].Errors != 0 || row.Rounds[0].Requests == 0 || row.Rounds[0].P50 <= 0 {
		t.Errorf("%+v", row)
	}
	o := open(t.Context(), r, toHTTP, 0, 5, false)
	if len(o.callers) != 5 || o.failed != 0 {
		t.Errorf("%d sessions, %v", len(o.callers), o.first)
	}
	o.leave()
	if now, err := r.tree.read(); err != nil || now.Own.Processes != 1 || now.Children.Processes != 1 {
		t.Errorf("%+v, %v", now, err)
	}
	b.stop(r)
	if len(b.leftover) != 0 {
		t.Errorf("%+v", b.leftover)
	}
	c.tool = "another" // the server ignores the name
	if text := c.plan(toHTTP, "a", size{smallCall, smallCall}).Calls[0].Params; !strings.Contains(text, `{"name":"another","arguments"`) {
		t.Errorf("%.100s", text)
	}
}

// A contender that should give session ids and does not is refused.
func TestSessionIsRequired(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, id, ok := strings.Cut(string(body), `"id":`)
		if !ok {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25"}}`, id[:10])
	}))
	defer s.Close()
	r := &running{contender: &contender{http: "/mcp"}, addr: s.Listener.Addr().String()}
	f := func(want string) {
		t.Helper()
		clients, err := drive.NewCallers(t.Context(), r.contender.plan(streamable, r.addr, size{smallCall, smallCall}))
		if err != nil {
			t.Fatal(err)
		}
		if err = r.answer(t.Context(), clients); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("without a session id")
	r.contender.sessionless = true
	f("not the expected text")
}

// ContextForge is asked to register its server until it has the tool.
func TestRegisterUpstream(t *testing.T) {
	var asked []string
	tools := "[]"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path)
		switch {
		case len(asked) == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, tools)
		case strings.Contains(string(body), `"url":"http://127.0.0.1:42/mcp"`):
			tools = `[{"name":"echo-echo"}]`
		}
	}))
	defer s.Close()
	for _, want := range []string{"503", "no tool yet", ""} {
		if err := registerUpstream(t.Context(), s.Listener.Addr().String(), "http://127.0.0.1:42/mcp"); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s.Close()
	if want := []string{"GET /tools", "GET /tools", "POST /gateways", "GET /tools"}; !slices.Equal(asked, want) {
		t.Errorf("%q", asked)
	}
}

func TestWheelVersion(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mcp_proxy-0.13.0.dist-info", "mcp-1.30.0.dist-info"} {
		if err := os.MkdirAll(filepath.Join(dir, kitMCPProxyPy, "lib/python3.13/site-packages", name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := wheelVersion(dir, kitMCPProxyPy, "mcp_proxy"); got != "0.13.0" {
		t.Errorf("%q", got)
	}
	if got := wheelVersion(dir, kitMCPO, "mcpo"); got != "" {
		t.Errorf("a missing package: %q", got)
	}
}

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		size size
		face faceKind
		want float64
	}{{size{300, 300}, streamable, 3}, {size{300, 300}, httpSSE, 2}, {size{300, 300}, restful, 3}, {size{10240, 10240}, httpSSE, 8}, {size{1 << 20, 1 << 20}, toHTTP, 15},
		{size{300, 1 << 20}, streamable, 0}} {
		if got := c.size.target(c.face); got != c.want {
			t.Errorf("%s, %s: %g", c.size, c.face, got)
		}
	}
}
