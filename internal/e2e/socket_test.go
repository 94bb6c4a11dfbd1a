package e2e

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dragoman/conformance/everything"
	"dragoman/internal/app"
	"dragoman/internal/cli"
	"dragoman/internal/clitest"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// socketServer is the demo server behind a socket, with a stdio session for each connection. It can be stopped, and started again as a server of
// another era.
type socketServer struct {
	t                *testing.T
	network, address string

	mu    sync.Mutex
	ln    net.Listener
	h     *app.Generation
	real  *everything.Server
	conns map[net.Conn]struct{}
	count int // connections so far
	group sync.WaitGroup
}

func newSocketServer(t *testing.T, network, era string) *socketServer {
	t.Helper()
	p := &socketServer{t: t, network: network, address: "127.0.0.1:0", conns: map[net.Conn]struct{}{}}
	if network == "unix" {
		p.address = filepath.Join(t.TempDir(), "s")
	}
	p.start(era)
	t.Cleanup(p.kill)
	return p
}

// start makes the server listen.
func (p *socketServer) start(era string) {
	p.t.Helper()
	ln, err := net.Listen(p.network, p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	cfg, err := config.LoadConfig(config.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.real = everything.New(everything.Options{})
	h, err := app.AssembleHandler(cfg, everything.Only(era, p.real.Do), p.real.Do, zerolog.Nop())
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.ln, p.h, p.address = ln, h, ln.Addr().String()
	p.mu.Unlock()
	p.group.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.group.Go(func() { p.serve(h, conn) })
		}
	})
}

func (p *socketServer) serve(h *app.Generation, conn net.Conn) {
	p.mu.Lock()
	if p.h != h || p.ln == nil { // accepted just before the server was killed
		p.mu.Unlock()
		_ = conn.Close()
		return
	}
	p.conns[conn] = struct{}{}
	p.count++
	p.mu.Unlock()
	_ = h.ServeStdio(context.Background(), app.Streams{In: conn, Out: conn}) // ends with the connection
	_ = conn.Close()
	p.mu.Lock()
	delete(p.conns, conn)
	p.mu.Unlock()
}

// kill ends the server as a kill does, without closing anything in order.
func (p *socketServer) kill() {
	p.mu.Lock()
	ln, h := p.ln, p.h
	p.ln = nil
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	if ln == nil {
		return
	}
	_ = ln.Close()
	p.group.Wait()
	h.Close()
	_ = p.real.Close()
}

// connections returns how many connections are open, and how many there ever were.
func (p *socketServer) connections() (now, ever int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns), p.count
}

func (p *socketServer) url() string {
	if p.network == "unix" {
		return "unix:" + p.address
	}
	return "tcp://" + p.address
}

func (p *socketServer) toml(extra string) string {
	return fmt.Sprintf("[upstreams.default]\nurl = %q\n%s\n", p.url(), extra)
}

// eachSocket runs a test for both kinds of sockets and servers of some eras.
func eachSocket(t *testing.T, f func(t *testing.T, p *socketServer, era string), eras ...string) {
	for _, network := range []string{"unix", "tcp"} {
		for _, era := range eras {
			t.Run(network+"-"+era, func(t *testing.T) { f(t, newSocketServer(t, network, era), era) })
		}
	}
}

const takesSteps = `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"progress","arguments":{"steps":2,"delayMs":1},"_meta":{"progressToken":"t"%s}}}`

// restOfMeta is modernMeta, after another member of _meta.
var restOfMeta = "," + strings.TrimSuffix(strings.TrimPrefix(modernMeta, `"_meta":{`), "}")

// Clients of both eras reach servers of all eras behind sockets: calls, progress, two sessions at once.
func TestSocketServer(t *testing.T) {
	eachSocket(t, func(t *testing.T, p *socketServer, era string) {
		r := startRig(t, p.toml(""), true)
		f := newHTTPTestClient(r)
		defer f.group.Wait()
		f.begin("m", "POST", fmt.Sprintf(takesSteps, "1", restOfMeta), modernHeaders("tools/call", "progress"))
		for range 2 {
			wants(t, f, "m", `{"jsonrpc":"2.0","method":"notifications/progress","params":{…"progressToken":"t"…`)
		}
		wants(t, f, "m", `{"jsonrpc":"2.0","id":1,"result":{…`)

		one, two := r.open("2025-11-25", "{}"), r.open("2025-06-18", "{}")
		if one == two {
			t.Fatal("both clients have one session")
		}
		for session, version := range map[string]string{one: "2025-11-25", two: "2025-06-18"} {
			f.session = session
			f.send(version, fmt.Sprintf(takesSteps, `"p"`, ""))
			for range 2 {
				wants(t, f, version, `{"jsonrpc":"2.0","method":"notifications/progress","params":{…"progressToken":"t"…`)
			}
			wants(t, f, version, `{"jsonrpc":"2.0","id":"p","result":{…`)
			res := r.must("POST", "/mcp", legacyCall("1", "whoami"), legacyHeaders(session)...)
			want := version // a server that speaks the client's era sees the client's revision
			if era == "modern" {
				want = "2026-07-28"
			}
			if !strings.Contains(res.body, want) {
				t.Errorf("%s: %s", version, res.body)
			}
		}
		now, _ := p.connections()
		if want := map[string]int{"modern": 1, "legacy": 3, "dual": 3}[era]; now != want {
			t.Errorf("%d connections are open, want %d", now, want)
		}
		r.must("DELETE", "/mcp", "", legacyHeaders(one)...)
		if era != "modern" {
			testkit.Eventually(t, "the end of a session's connection", func() bool { n, _ := p.connections(); return n < now })
		}
	}, "modern", "legacy", "dual")
}

// A client that leaves or cancels cancels its call at the server.
func TestSocketCancel(t *testing.T) {
	eachSocket(t, func(t *testing.T, p *socketServer, _ string) {
		r := startRig(t, p.toml(""), true)
		f := newHTTPTestClient(r)
		defer f.group.Wait()
		f.session = r.open("2025-11-25", "{}")
		slow := `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"slow","arguments":{"ms":60000}%s}}`
		f.begin("m", "POST", fmt.Sprintf(slow, "7", ","+modernMeta), modernHeaders("tools/call", "slow"))
		f.send("l", fmt.Sprintf(slow, `"k"`, ""))
		bothRun(r)
		f.leave("m")
		f.send("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"k"}}`)
		testkit.Eventually(t, "both cancellations", func() bool { return strings.Contains(statsOf(r), `"cancelled":2`) })
	}, "modern", "legacy")
}

// statsOf returns the counts of the demo server.
func statsOf(r *rig) string {
	r.t.Helper()
	return r.must("POST", "/mcp", modernCall("1", "stats", ""), modernHeaders("tools/call", "stats")...).body
}

// bothRun waits until the demo server, which counts the questions after it too, has two calls more than these.
func bothRun(r *rig) {
	r.t.Helper()
	asked := 0
	testkit.Eventually(r.t, "both calls", func() bool {
		asked++
		return strings.Contains(statsOf(r), fmt.Sprintf(`"calls":%d}`, asked+2))
	})
}

// Questions reach clients of both eras, and their answers reach the server.
func TestSocketQuestion(t *testing.T) {
	eachSocket(t, func(t *testing.T, p *socketServer, _ string) {
		r := startRig(t, p.toml(""), true)
		call := `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"ask_user","arguments":{"question":"who?"}%s}}`
		res := r.must("POST", "/mcp", fmt.Sprintf(call, "1", ","+asksMeta), modernHeaders("tools/call", "ask_user")...)
		if !strings.Contains(res.body, `"resultType":"input_required"`) || !strings.Contains(res.body, "who?") {
			t.Fatalf("the modern client is not asked: %s", res.body)
		}
		_, rest, _ := strings.Cut(res.body, `"inputRequests":{"`)
		key, _, _ := strings.Cut(rest, `"`)
		retry := fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"name":"me"}}},`, key) + asksMeta
		if state := textAfter(res.body, `"requestState":"`); state != "" {
			retry += fmt.Sprintf(`,"requestState":%q`, state)
		}
		res = r.must("POST", "/mcp", fmt.Sprintf(call, "2", retry), modernHeaders("tools/call", "ask_user")...)
		if !strings.Contains(res.body, `"resultType":"complete"`) || !strings.Contains(res.body, "me") {
			t.Errorf("the modern client's answer is lost: %s", res.body)
		}

		f := newHTTPTestClient(r)
		defer f.group.Wait()
		f.session = r.open("2025-11-25", `{"elicitation":{"form":{}}}`)
		f.send("l", fmt.Sprintf(call, `"c"`, ""))
		asked := f.receives("l")
		if !matches(`{…"method":"elicitation/create"…who?…`, asked) {
			t.Fatalf("the legacy client is not asked: %s", asked)
		}
		f.send("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"me"}}}`, parseMessage(t, asked).ID))
		wants(t, f, "l", `{"jsonrpc":"2.0","id":"c","result":{…me…`)
	}, "modern", "legacy")
}

// A killed server fails requests in flight at once. Until it is back, calls get an error that names its address; then it may have another
// era.
func TestSocketServerRestarts(t *testing.T) {
	slow := `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"slow","arguments":{"ms":60000}%s}}`
	for _, next := range []string{"modern", "legacy"} {
		t.Run("then-"+next, func(t *testing.T) {
			eachSocket(t, func(t *testing.T, p *socketServer, _ string) {
				r := startRig(t, p.toml(""), true)
				f := newHTTPTestClient(r)
				defer f.group.Wait()
				f.session = r.open("2025-11-25", "{}")
				f.begin("m", "POST", fmt.Sprintf(slow, "7", ","+modernMeta), modernHeaders("tools/call", "slow"))
				f.send("l", fmt.Sprintf(slow, `"k"`, ""))
				bothRun(r)
				began := time.Now()
				p.kill()
				for label, id := range map[string]string{"m": "7", "l": `"k"`} {
					wants(t, f, label, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32603,"message":"…`+p.address+`…","data":{"code":"upstream_lost","retryable":false}}}`)
				}
				if d := time.Since(began); d > testkit.Patient/2 {
					t.Errorf("requests in flight ended after %s", d)
				}
				down := func() string {
					return r.must("POST", "/mcp", modernCall("1", "whoami", ""), modernHeaders("tools/call", "whoami")...).body
				}
				if got := down(); !matches(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"…`+p.url()+`…","data":{"code":"upstream_unreachable","retryable":true…`, got) {
					t.Errorf("while the server is away: %s", got)
				}
				p.start(next)
				testkit.Eventually(t, "it serves again", func() bool { return matches(`{"jsonrpc":"2.0","id":1,"result":…`, down()) })
				session := r.open("2025-11-25", "{}")
				res := r.must("POST", "/mcp", legacyCall("2", "whoami"), legacyHeaders(session)...)
				if !strings.Contains(res.body, next) {
					t.Errorf("a new session with the %s server: %s", next, res.body)
				}
			}, "modern", "legacy")
		})
	}
}

// An expired server profile is not used while no connection is open.
func TestSocketServerProfileExpires(t *testing.T) {
	p := newSocketServer(t, "unix", "legacy")
	r := startRig(t, p.toml("verdict_ttl = \"1s\"\nidle_exit = \"1s\""), true)
	v, err := r.h.Targets.All[0].Profile(t.Context())
	if err != nil || v.Modern {
		t.Fatalf("%v %v", v, err)
	}
	testkit.Eventually(t, "the end of the probe's connections", func() bool { n, _ := p.connections(); return n == 0 })
	p.kill()
	p.start("modern")
	testkit.Eventually(t, "a new verdict", func() bool {
		v, err := r.h.Targets.All[0].Profile(t.Context())
		return err == nil && v.Modern
	})
}

// The commands accept the address of a socket in place of a URL.
func TestSocketCommands(t *testing.T) {
	eachSocket(t, func(t *testing.T, p *socketServer, era string) {
		var out, errs testkit.LockedBuffer
		std := app.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
		if code := cli.Execute(t.Context(), []string{"probe", p.url()}, nil, std, cli.Assembled()); code != 0 {
			t.Fatalf("probe: %d %s", code, errs.String())
		}
		if !matches("server         "+p.url()+"\nspeaks         "+era+"\n…", out.String()) {
			t.Errorf("probe says\n%s", out.String())
		}
		s := startStdio(t, p.toml(""))
		s.send(modernCall("1", "whoami", ""))
		s.receives(`{"jsonrpc":"2.0","id":1,"result":{…`)
		for _, command := range []string{"serve", "stdio", "probe"} {
			r := clitest.Run(t, nil, command, p.url(), "--era", era)
			if r.Code != 0 || r.Command != command || r.Config.Upstreams[0].URL != p.url() {
				t.Errorf("%s: %d %s", command, r.Code, r.Errs)
			}
		}
		if r := clitest.Run(t, nil, "serve", p.url(), "--header", "A: hunter2"); r.Code != 2 || strings.Contains(r.Errs, "hunter2") ||
			!strings.Contains(r.Errs, "only concerns an upstream with an http or https url") {
			t.Errorf("a header: %d %s", r.Code, r.Errs)
		}
	}, "modern", "legacy")
}

// When the proxy ends, so do its connections.
func TestSocketClosesWithTheProxy(t *testing.T) {
	p := newSocketServer(t, "tcp", "dual")
	t.Run("proxy", func(t *testing.T) {
		r := startRig(t, p.toml(""), true)
		r.open("2025-11-25", "{}")
		r.must("POST", "/mcp", modernCall("1", "whoami", ""), modernHeaders("tools/call", "whoami")...)
		if now, _ := p.connections(); now < 2 {
			t.Errorf("%d connections", now)
		}
	})
	testkit.Eventually(t, "the end of all connections", func() bool { n, _ := p.connections(); return n == 0 })
}
