package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/internal/testkit"
	"dragoman/policies/health"
)

// restartable is a scripted server that can be killed and restarted at the same address.
type restartable struct {
	*upstream
	addr string
	srv  *http.Server
}

func newRestartable(t *testing.T, kind string) *restartable {
	t.Helper()
	m := &restartable{upstream: newUpstream(t, kind), addr: testkit.HeldAddress(t)}
	m.restart()
	m.url = "http://" + m.addr + map[bool]string{true: "/sse", false: "/mcp"}[kind == "sse"]
	t.Cleanup(func() { _ = m.srv.Close() })
	m.on("tools/list", func(c *call) {
		c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"ok","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}]}`)
	})
	m.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	return m
}

func (m *restartable) restart() {
	m.t.Helper()
	var ln net.Listener
	testkit.Eventually(m.t, "its address is free", func() bool {
		var err error
		ln, err = net.Listen("tcp", m.addr)
		return err == nil
	})
	m.srv = &http.Server{Handler: m.upstream, ReadHeaderTimeout: testkit.Patient}
	go func() { _ = m.srv.Serve(ln) }() // ends with Close
}

func (m *restartable) kill() { _ = m.srv.Close() }

// clientKinds are the kinds of clients, each with a whole conversation for one call; they return its result.
var clientKinds = map[string]func(r *rig, tool string) (status int, body string){
	"modern": func(r *rig, tool string) (int, string) {
		res := r.must("POST", "/mcp", modernCall("1", tool, ""), modernHeaders("tools/call", tool)...)
		return res.status, res.body
	},
	"legacy": func(r *rig, tool string) (int, string) {
		res := r.must("POST", "/mcp", anInitialize, legacyHeaders("")...)
		id := res.header.Get("Mcp-Session-Id")
		if !strings.Contains(res.body, `"result"`) {
			return res.status, res.body
		}
		_ = r.must("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacyHeaders(id)...)
		res = r.must("POST", "/mcp", legacyCall("2", tool), legacyHeaders(id)...)
		return res.status, res.body
	},
	"sse": func(r *rig, tool string) (int, string) {
		c := r.sse("/sse")
		defer func() { _ = c.res.Body.Close() }()
		c.send(anInitialize)
		if _, data := c.event(); !strings.Contains(data, `"result"`) {
			return 202, data
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.send(legacyCall("2", tool))
		_, data := c.event()
		return 202, data
	},
	"rest": func(r *rig, tool string) (int, string) {
		res := r.must("POST", "/call-tool", fmt.Sprintf(`{"tool":%q,"arguments":{}}`, tool), "Content-Type", jsonType)
		return res.status, res.body
	},
}

const anInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// state returns the state of the proxy's upstream.
func (r *rig) state(name string) health.Report { return r.h.Targets.Named(name).Monitor.Now() }

// becomes waits for a state of the only upstream.
func (r *rig) becomes(want health.State) {
	r.t.Helper()
	testkit.Eventually(r.t, "the upstream is "+string(want), func() bool { return r.state("default").State == want })
}

var changed = regexp.MustCompile(`"from":"([A-Z]+)","to":"([A-Z]+)","reason":"[^"]+"`)

// steps returns the state changes in the log above debug.
func (r *rig) steps() (all []string) {
	for line := range strings.SplitSeq(r.logs.String(), "\n") {
		if m := changed.FindStringSubmatch(line); m != nil && strings.Contains(line, "state of the upstream") && !strings.Contains(line, `"level":"debug"`) {
			all = append(all, m[2])
		}
	}
	return all
}

// A server dies and comes back: meanwhile every kind of client is refused at once with the server, the reason, the time and when to retry,
// and is served again without intervention (seed 004, BR-002, BR-006, EC-001).
func TestUpstreamDown(t *testing.T) {
	for kind, ask := range clientKinds {
		for _, server := range []string{"modern", "legacy", "sse"} {
			t.Run(kind+" client, "+server+" server", func(t *testing.T) {
				m := newRestartable(t, server)
				r := startRig(t, m.toml(""), true)
				if _, body := ask(r, "ok"); !strings.Contains(body, "content") {
					t.Fatal(body)
				}
				r.becomes(health.Connected)
				m.kill()
				var status int
				var body string
				testkit.Eventually(t, "the upstream in error", func() bool {
					status, body = ask(r, "ok")
					return strings.Contains(body, "upstream_down") || strings.Contains(body, "is down since")
				})
				mentions(t, body, `the upstream server \"default\" is down since 20`, "refused", "tried again", map[bool]string{true: `"retry_after":`, false: `"retryAfter":`}[kind == "rest"])
				if kind == "rest" {
					mentions(t, body, "SERVICE_UNAVAILABLE")
					if status != 503 {
						t.Errorf("HTTP %d", status)
					}
				} else {
					mentions(t, body, `"code":"upstream_down"`, `"retryable":true`)
				}
				report := r.must("GET", "/health", "")
				if report.status != 503 {
					t.Errorf("GET /health: %d", report.status)
				}
				mentions(t, report.body, `"state":"ERROR"`, `"consecutive_failures":3`, "refused")
				if c := r.h.Readiness().Checks[0]; c.Ready || c.State != "ERROR" || c.Why == "" {
					t.Errorf("readiness: %+v", c)
				}
				m.restart()
				testkit.Eventually(t, "it serves again", func() bool {
					_, body = ask(r, "ok")
					return strings.Contains(body, "content")
				})
				r.becomes(health.Connected)
				if got := strings.Join(r.steps(), " "); !strings.HasSuffix(got, "CONNECTED DEGRADED ERROR CONNECTED") {
					t.Errorf("steps %s", got)
				}
			})
		}
	}
}

// Requests in flight end at once when the connection is lost, with what was in progress (seed 004, EC-003).
func TestUpstreamLostInMidCall(t *testing.T) {
	for kind, ask := range clientKinds {
		for _, server := range []string{"modern", "legacy", "sse"} {
			t.Run(kind+" client, "+server+" server", func(t *testing.T) {
				m := newRestartable(t, server)
				r := startRig(t, m.toml(""), true)
				started := hanging(m.upstream, 0)
				type outcome struct {
					status int
					body   string
				}
				out := make(chan outcome, 1)
				go func() {
					status, body := ask(r, "hang")
					out <- outcome{status, body}
				}()
				testkit.Receive(t, "the call at the server", started)
				m.kill()
				got := testkit.Receive(t, "the answer", out)
				if kind == "sse" && server == "sse" && got.body == "EOF" {
					return // its session has ended, and with it the stream
				}
				mentions(t, got.body, "tools/call of hang had been under way for", "may have been carried out")
				if kind == "rest" && (got.status != 503 || !strings.Contains(got.body, "SERVICE_UNAVAILABLE")) {
					t.Errorf("%d %s", got.status, got.body)
				}
				if n := len(m.all("tools/call")); n != 1 {
					t.Errorf("called %d times", n)
				}
			})
		}
	}
}

// A server that hangs or answers with 5xx is degraded, and in error once a check fails too. A single tool that does so is not enough.
func TestUpstreamDegraded(t *testing.T) {
	const keys = "probe_timeout = \"500ms\"\nhealth_check_timeout = \"200ms\"\nretries = 0\nbreaker_failures = 0\n"
	for _, sick := range []string{"hangs", "fails"} {
		for _, server := range []string{"modern", "legacy"} {
			t.Run(server+" "+sick, func(t *testing.T) {
				t.Parallel()
				m := newRestartable(t, server)
				r := startRig(t, "tool_timeout = 1\n"+m.toml(keys), true)
				ill := func(c *call) {
					if sick == "fails" {
						c.raw(500, "text/plain", "oops")
						return
					}
					select {
					case <-c.cancelled:
					case <-time.After(testkit.Patient):
					}
				}
				m.on("tools/call", ill)
				ask := clientKinds["modern"]
				for r.state("default").State != health.Degraded {
					_, body := ask(r, "ok")
					mentions(t, body, map[string]string{"hangs": "tool_timeout", "fails": "HTTP 500"}[sick])
				}
				checked := r.state("default").CheckedAt
				_, _ = ask(r, "ok")
				testkit.Eventually(t, "a check", func() bool { return r.state("default").CheckedAt.After(checked) })
				r.becomes(health.Connected) // only the tool fails
				m.on("server/discover", ill)
				m.on("ping", ill)
				m.on("initialize", ill)
				r.h.Targets.Named("default").Monitor.Recheck()
				testkit.Eventually(t, "the failed check", func() bool { return r.state("default").Failures > 0 })
				for range 2 {
					_, _ = ask(r, "ok")
				}
				r.h.Targets.Named("default").Monitor.Recheck()
				testkit.Eventually(t, "the error", func() bool { return !r.h.Targets.Named("default").Monitor.Serves() })
				if _, body := ask(r, "ok"); !strings.Contains(body, "upstream_down") {
					t.Error(body)
				}
				m.upstream.mu.Lock()
				clear(m.answers)
				m.upstream.mu.Unlock()
				m.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
				testkit.Eventually(t, "it serves again", func() bool { _, body := ask(r, "ok"); return strings.Contains(body, "content") })
			})
		}
	}
}

// health_check_url shows the state of the server: a 4xx is a warning, a 5xx a failure (BR-006, EC-005). It gets the upstream's headers.
func TestHealthCheckURL(t *testing.T) {
	m := newRestartable(t, "modern")
	status, seenAuth := 404, make(chan string, 100)
	var mu sync.Mutex
	m.srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/well" {
			m.upstream.ServeHTTP(w, req)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		seenAuth <- req.Method + " " + req.Header.Get("X-Key")
		w.WriteHeader(status)
	})
	r := startRig(t, m.toml(fmt.Sprintf("health_check_url = \"http://%s/well\"\nheaders = { X-Key = \"k\" }", m.addr)), true)
	check := func(want int) {
		t.Helper()
		mu.Lock()
		status = want
		mu.Unlock()
		before := r.state("default").CheckedAt
		r.h.Targets.Named("default").Monitor.Recheck()
		testkit.Eventually(t, "the check", func() bool { return r.state("default").CheckedAt.After(before) })
	}
	check(404)
	if s := r.state("default"); s.State != health.Connected || !strings.Contains(s.Warning, "404") || s.Failures != 0 || testkit.Receive(t, "a check", seenAuth) != "GET k" {
		t.Errorf("%+v", s)
	}
	mentions(t, r.must("GET", "/health", "").body, `"state":"CONNECTED"`, `"warning":"the health check was answered with HTTP 404"`, `"response_time_ms":`, `"last_health_check":"20`)
	check(200)
	check(503)
	check(503)
	if s := r.state("default"); s.State != health.Degraded || s.Warning != "" || s.Failures != 2 {
		t.Errorf("%+v", s)
	}
	mentions(t, r.must("GET", "/health", "").body, `"status":"connected"`, `"state":"DEGRADED"`, `"consecutive_failures":2`, `"warning":`)
	if _, body := clientKinds["modern"](r, "ok"); !strings.Contains(body, "content") {
		t.Errorf("a degraded server does not serve: %s", body)
	}
}

// Health checks of every kind send the upstream's headers and token, and no header of a client. Another origin gets none of them.
func TestHealthChecksSendCredentials(t *testing.T) {
	var mu sync.Mutex
	var seen []string // of checks: where, and with what
	u := newUpstream(t, "modern")
	u.on("tools/list", func(c *call) { c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}`) })
	see := func(where string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			mu.Lock()
			seen = append(seen, strings.Join([]string{where, req.Header.Get("X-Key"), strings.TrimRight(req.Header.Get("Authorization"), "0123456789"), req.Header.Get("X-Tenant")}, "|"))
			mu.Unlock()
			if req.URL.Path != "/well" {
				u.ServeHTTP(w, req)
			}
		})
	}
	tokens, own, other := newTestServer(t, &tokenServer{}), newTestServer(t, see("own")), newTestServer(t, see("other"))
	u.url = own + "/mcp"
	for check, want := range map[string]string{"": "own|k|Bearer t|", own + "/well": "own|k|Bearer t|", other + "/well": "other|||"} {
		r := startRig(t, u.toml(fmt.Sprintf("health_check_url = %q\nheaders = { X-Key = \"k\" }\nforward_headers = { X-Tenant = \"X-Tenant\" }\n"+
			"oauth.token_url = %q\noauth.client_id = \"dragoman\"\noauth.client_secret = \"very/secret\"\n", check, tokens)), true)
		headers := append(modernHeaders("tools/list", ""), "X-Tenant", "a")
		if res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`, headers...); res.status != 200 {
			t.Fatal(res.body)
		}
		before := r.state("default").CheckedAt
		mu.Lock()
		seen = nil
		mu.Unlock()
		r.h.Targets.Named("default").Monitor.Recheck()
		testkit.Eventually(t, "the check", func() bool { return r.state("default").CheckedAt.After(before) })
		mu.Lock()
		if !slices.Contains(seen, want) || slices.ContainsFunc(seen, func(s string) bool { return strings.HasPrefix(s, "other") && s != want || strings.HasSuffix(s, "|a") }) {
			t.Errorf("%s: %q, want %q", check, seen, want)
		}
		mu.Unlock()
	}
}

// A server that answers only every second call opens the circuit breaker; after the pause one call shows that it has recovered.
func TestUpstreamBreaker(t *testing.T) {
	m := newRestartable(t, "modern")
	r := startRig(t, m.toml("breaker_failures = 3\nbreaker_pause = \"1s\"\nretries = 0\n"), true)
	good := func(c *call) { c.result(`{"resultType":"complete","content":[]}`) }
	bad := func(c *call) { c.drop() }
	m.on("tools/call", good, bad, good, bad, good, bad, good)
	ask := clientKinds["modern"]
	for range 6 {
		_, _ = ask(r, "ok")
	}
	if _, body := ask(r, "ok"); !strings.Contains(body, "upstream_down") {
		t.Fatal(body)
	} else {
		mentions(t, body, "half of the calls within", "upstreams.default.breaker_pause", `"retryAfter":1`)
	}
	if s := r.state("default"); s.State != health.Errored || s.Breaker != "open" {
		t.Errorf("%+v", s)
	}
	n := len(m.all("tools/call"))
	testkit.Eventually(t, "the circuit is half-open", func() bool { return r.state("default").Breaker == "half-open" })
	if _, body := ask(r, "ok"); !strings.Contains(body, "content") || len(m.all("tools/call")) != n+1 {
		t.Error(body)
	}
	if s := r.state("default"); s.State != health.Connected || s.Breaker != "closed" {
		t.Errorf("%+v", s)
	}
	// Off, it never opens.
	r = startRig(t, m.toml("breaker_failures = 0\nretries = 0\n"), true)
	m.on("tools/call", good, bad, good, bad, good, bad, good, bad, good, bad, good, bad, good)
	for range 13 {
		if _, body := ask(r, "ok"); strings.Contains(body, "upstream_down") {
			t.Fatal(body)
		}
	}
}

// demo is a real server: the built-in one as a process.
func demo(t *testing.T, addr string) (at string, kill func()) {
	t.Helper()
	c := testkit.Self(t, "main", "demo", "--http", addr)
	out, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(out)
	for at == "" {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(line, "listens at http://"); ok {
			at, _, _ = strings.Cut(rest, "/mcp")
		}
	}
	go func() { _, _ = io.Copy(io.Discard, br) }() // ends with the process
	var once sync.Once
	kill = func() { once.Do(func() { end(c) }) }
	t.Cleanup(kill)
	return at, kill
}

// end kills a process and waits for its end.
func end(c *exec.Cmd) {
	_ = c.Process.Kill()
	_ = c.Wait()
}

// The same with a real server that is killed and restarted: clients of a stream or session that it has forgotten open another, and clients
// without have nothing to do.
func TestDemoKilled(t *testing.T) {
	at, kill := demo(t, "127.0.0.1:0")
	r := startRig(t, fmt.Sprintf("[upstreams.default]\nurl = \"http://%s/mcp\"\n", at), true)
	session := r.open("2025-11-25", "{}")
	id := 0
	list := func() *response { // each with its own id: an old one would get the old answer
		id++
		return r.must("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id), legacyHeaders(session)...)
	}
	if res := list(); !strings.Contains(res.body, `"tools"`) {
		t.Fatal(res)
	}
	kill()
	testkit.Eventually(t, "the error", func() bool {
		_, body := clientKinds["modern"](r, "echo")
		return strings.Contains(body, "upstream_down")
	})
	_, again := demo(t, at)
	defer again()
	r.becomes(health.Connected)
	if res := list(); res.status != 404 {
		t.Errorf("in a session that the server has forgotten: %d %s", res.status, res.body)
	}
	session = r.open("2025-11-25", "{}")
	if res := list(); !strings.Contains(res.body, `"tools"`) {
		t.Error(res)
	}
	if res := r.must("GET", "/tools", ""); res.status != 200 {
		t.Errorf("%d %s", res.status, res.body)
	}
}
