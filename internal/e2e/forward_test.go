package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/adapters/transport"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// userToken is the header that clients send; the server gets it as Authorization.
const userToken = "X-User-Token"

const forwarding = "forward_headers = { x-user-TOKEN = \"Authorization\", X-Tenant = \"X-Tenant\" }\n"

// guardedServer is a scripted server behind a guard that requires a token of every request, and records which token opened each session.
type guardedServer struct {
	*upstream
	t *testing.T

	mu       sync.Mutex
	refused  []string
	sessions map[string]string // the token that opened each
	open     func(r *http.Request) bool
}

// newGuardedServer starts one of a kind; valid tokens begin with "good".
func newGuardedServer(t *testing.T, kind string) *guardedServer {
	g := &guardedServer{upstream: newUpstream(t, kind), t: t, sessions: map[string]string{}}
	g.url = newTestServer(t, g) + g.url[strings.LastIndexByte(g.url, '/'):]
	if kind == "legacy" {
		g.on("initialize", func(c *call) {
			g.mu.Lock()
			id := fmt.Sprintf("up-%d", len(g.sessions)+1)
			g.sessions[id] = c.header.Get("Authorization")
			g.mu.Unlock()
			c.w.Header().Set("Mcp-Session-Id", id)
			version := "2025-11-25"
			if m := versionPattern.FindStringSubmatch(c.body); m != nil {
				version = m[1]
			}
			c.result(fmt.Sprintf(welcomed, version))
		})
	}
	g.on("tools/call", func(c *call) {
		c.result(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, c.header.Get("Authorization")+" "+c.header.Get("X-Tenant")))
	})
	g.on("tools/list", func(c *call) {
		c.result(fmt.Sprintf(`{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":[{"name":%q,"inputSchema":{"type":"object"}}]}`,
			"of-"+strings.TrimPrefix(c.header.Get("Authorization"), "Bearer ")))
	})
	return g
}

// ServeHTTP implements http.Handler.
func (g *guardedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer good") && (g.open == nil || !g.open(r)) {
		g.mu.Lock()
		g.refused = append(g.refused, r.Method+" "+r.Header.Get("Authorization"))
		g.mu.Unlock()
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	g.upstream.ServeHTTP(w, r)
}

func (g *guardedServer) refusals() int { g.mu.Lock(); defer g.mu.Unlock(); return len(g.refused) }

// foreignRequests counts requests in a session that another token has opened.
func (g *guardedServer) foreignRequests() (out []string) {
	g.upstream.mu.Lock()
	defer g.upstream.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.seen {
		if id := s.header.Get("Mcp-Session-Id"); id != "" && g.sessions[id] != s.header.Get("Authorization") {
			out = append(out, fmt.Sprintf("%s with %q in a session of %q", s.method, s.header.Get("Authorization"), g.sessions[id]))
		}
	}
	return out
}

// sending returns the same proxy for a client that always sends these headers: name, value, …
func (r *rig) sending(headers ...string) *rig {
	other := *r
	other.http = &http.Client{Transport: headerTransport{r.http.Transport, headers}}
	return &other
}

type headerTransport struct {
	http.RoundTripper
	headers []string
}

func (b headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for i := 0; i+1 < len(b.headers); i += 2 {
		req.Header.Add(b.headers[i], b.headers[i+1])
	}
	return b.RoundTripper.RoundTrip(req)
}

func (r *rig) callModern() *response {
	r.t.Helper()
	return r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
}

// callLegacy calls with an unused id.
func (r *rig) callLegacy(session string) *response {
	r.t.Helper()
	return r.must("POST", "/mcp", legacyCall(strconv.FormatUint(forwardIDs.Add(1), 10), "a"), legacyHeaders(session)...)
}

var forwardIDs atomic.Uint64

func (r *rig) said(what string, res *response, text string) {
	r.t.Helper()
	if res.status != 200 || !strings.Contains(res.body, text) || text == "" && strings.Contains(res.body, `"error"`) {
		r.t.Errorf("%s: %d %s; want %q", what, res.status, res.body, text)
	}
}

// Every request that is made for a client, over every transport and outside of its own requests too, has the forwarded headers under their
// configured names, and no other header of the client.
func TestForwardHeaders(t *testing.T) {
	for _, kind := range []string{"modern", "legacy", "sse"} {
		t.Run(kind, func(t *testing.T) {
			g := newGuardedServer(t, kind)
			g.getOpen = true
			r := startRig(t, g.toml(forwarding), false)
			alice := r.sending(userToken, "Bearer good-alice", "x-tenant", "a, b", "Authorization", "Bearer mine", "Cookie", "c=d", "X-Other", "o")
			alice.said("modern", alice.callModern(), "Bearer good-alice a, b")
			session := alice.open("2025-11-25", "{}")
			alice.said("legacy", alice.callLegacy(session), "Bearer good-alice a, b")
			listening, hangUp := context.WithCancel(t.Context())
			var stream sync.WaitGroup
			stream.Go(func() {
				_, _ = alice.do(listening, "GET", "/mcp", "", "Mcp-Session-Id", session, "Accept", "text/event-stream")
			})
			defer stream.Wait()
			defer hangUp()
			if kind == "modern" {
				testkit.Eventually(t, "the listen for a legacy session", func() bool { return len(g.all("subscriptions/listen")) > 0 })
			}
			started := hanging(g.upstream, 0)
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				_, err := alice.do(ctx, "POST", "/mcp", modernCall("2", "slow", ""), modernHeaders("tools/call", "slow")...)
				gone <- err
			}()
			c := testkit.Receive(t, "the call", started)
			leave()
			testkit.Receive(t, "the cancellation", c.cancelled)
			if err := testkit.Receive(t, "the client's end", gone); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if res := alice.must("DELETE", "/mcp", "", "Mcp-Session-Id", session); res.status != 200 && res.status != 204 {
				t.Errorf("DELETE: %d %s", res.status, res.body)
			}
			wanted := map[string][]string{"modern": {"server/discover", "tools/call", "subscriptions/listen"}, "sse": {"GET", "initialize", "notifications/initialized", "tools/call"},
				"legacy": {"initialize", "notifications/initialized", "ping", "GET", "tools/call", "DELETE"}}[kind]
			if kind != "modern" {
				wanted = append(wanted, "notifications/cancelled")
			}
			for _, method := range wanted {
				testkit.Eventually(t, method, func() bool { return len(g.all(method)) > 0 })
			}
			g.upstream.mu.Lock()
			defer g.upstream.mu.Unlock()
			for _, s := range g.seen {
				if s.header.Get("Authorization") != "Bearer good-alice" || s.header.Get("X-Tenant") != "a, b" ||
					s.header.Get("Cookie")+s.header.Get("X-Other")+s.header.Get(userToken) != "" {
					t.Errorf("%s came with %v", s.method, s.header)
				}
			}
			if strings.Contains(r.logs.String(), "good-alice") {
				t.Errorf("the token is in the log:\n%s", r.logs)
			}
		})
	}
}

// Callers that are known by their tokens only share nothing: no sessions, lists or answers.
func TestForwardKeepsApart(t *testing.T) {
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			g := newGuardedServer(t, kind)
			r := startRig(t, "[sessions]\nmax = 100\n"+g.toml(forwarding), false)
			var group sync.WaitGroup
			clients := make([]*rig, 6)
			for i := range clients {
				clients[i] = r.sending(userToken, fmt.Sprintf("Bearer good-%d", i))
				group.Go(func() {
					own := fmt.Sprintf("good-%d", i)
					for range 5 {
						clients[i].said("call", clients[i].callModern(), "Bearer "+own+" ")
						clients[i].said("list", clients[i].must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`, modernHeaders("tools/list", "")...), `"of-`+own+`"`)
						if res := clients[i].must("GET", "/tools", ""); !strings.Contains(res.body, `"of-`+own+`"`) {
							t.Errorf("REST: %d %s", res.status, res.body)
						}
						if res := clients[i].must("POST", "/mcp", modernCall("3", "a", ""), append(modernHeaders("tools/call", "a"), "Idempotency-Key", "same")...); !strings.Contains(res.body, "Bearer "+own+" ") {
							t.Errorf("with a key: %s", res.body)
						}
					}
				})
			}
			group.Wait()
			for _, s := range g.foreignRequests() {
				t.Error(s)
			}
			if kind == "legacy" && len(g.all("initialize")) < len(clients) {
				t.Errorf("%d sessions for %d callers", len(g.all("initialize")), len(clients))
			}
			session := clients[0].open("2025-11-25", "{}")
			if res := clients[1].callLegacy(session); res.status != 404 {
				t.Errorf("another's session: %d %s", res.status, res.body)
			}
			if res := r.callLegacy(session); res.status != 404 {
				t.Errorf("a session that was opened with a token, used without one: %d %s", res.status, res.body)
			}
			g.forget()
			if res := r.callModern(); !strings.Contains(res.body, "upstream_refused_credentials") || strings.Contains(res.body, "good-") {
				t.Errorf("no token: %d %s", res.status, res.body)
			}
			if n := len(g.all("tools/call")); n != 0 {
				t.Errorf("%d calls came with a token", n)
			}
		})
	}
}

// Of a caller with another credential, too, each token is a user: another one finds no session of the first, and its client opens its own,
// as after the end of a session. Pooled sessions are of one token each.
func TestForwardRotation(t *testing.T) {
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			g := newGuardedServer(t, kind)
			g.getOpen = true
			toml, keys := keysToml("gateway")
			r := startRig(t, "[security]\napi_keys_enabled = true\n"+toml+g.toml(forwarding), false).as(keys["gateway"])
			first, second := r.sending(userToken, "Bearer good-1"), r.sending(userToken, "Bearer good-2")
			session := first.open("2025-11-25", "{}")
			first.said("first", first.callLegacy(session), "Bearer good-1 ")
			for what, c := range map[string]*rig{"with another token": second, "without": r} {
				if res := c.callLegacy(session); res.status != 404 {
					t.Errorf("%s: %d %s", what, res.status, res.body)
				}
				if res := c.must("DELETE", "/mcp", "", "Mcp-Session-Id", session); res.status != 404 {
					t.Errorf("DELETE %s: %d", what, res.status)
				}
			}
			first.said("after that", first.callLegacy(session), "Bearer good-1 ")
			session = second.open("2025-11-25", "{}")
			second.said("second, in its own", second.callLegacy(session), "Bearer good-2 ")
			g.forget()
			if res := second.must("DELETE", "/mcp", "", "Mcp-Session-Id", session); res.status >= 300 {
				t.Errorf("DELETE: %d", res.status)
			}
			if kind == "legacy" {
				testkit.Eventually(t, "DELETE", func() bool { return len(g.all("DELETE")) == 1 })
				if got := g.all("DELETE")[0].header.Get("Authorization"); got != "Bearer good-2" {
					t.Errorf("the session ends with %q", got)
				}
			}
			g.forget()
			g.mu.Lock()
			clear(g.sessions)
			g.mu.Unlock()
			for range 3 {
				first.said("modern, first", first.callModern(), "Bearer good-1 ")
				second.said("modern, second", second.callModern(), "Bearer good-2 ")
				for i, c := range []*rig{first, second} {
					c.said("list", c.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`, modernHeaders("tools/list", "")...), fmt.Sprintf(`"of-good-%d"`, i+1))
					c.said("key", c.must("POST", "/mcp", modernCall("3", "a", ""), append(modernHeaders("tools/call", "a"), "Idempotency-Key", "same")...), fmt.Sprintf("Bearer good-%d ", i+1))
				}
			}
			for _, s := range g.foreignRequests() {
				t.Error(s)
			}
			for _, s := range g.all("tools/call") {
				if got := s.header.Values("Authorization"); len(got) != 1 || strings.Contains(got[0], keys["gateway"]) {
					t.Errorf("the server got %q", got)
				}
			}
		})
	}
}

// A server that answers nothing without a token is probed with the first accepted token. Refused tokens and probes without a caller neither
// mark it as down nor hide its era from others.
func TestForwardProbe(t *testing.T) {
	for _, kind := range []string{"modern", "legacy", "sse"} {
		t.Run(kind, func(t *testing.T) {
			g := newGuardedServer(t, kind)
			r := startRig(t, g.toml(forwarding), false)
			var e *proxy.Error
			began := time.Now()
			_, err := r.h.Targets.All[0].Profile(t.Context())
			if !errors.As(err, &e) || e.Name != proxy.Refused.Name || !strings.Contains(e.Message, "forward_headers") {
				t.Fatalf("a probe without a caller: %v", err)
			}
			check := checkOf(t, r)
			for range 5 {
				r.h.Targets.Named("default").Monitor.Tried(began, err)
				err := check(t.Context())
				var status *transport.StatusError
				if !errors.As(err, &status) || status.Status != 401 {
					t.Errorf("a health check: %v", err)
				}
			}
			if !r.h.Targets.All[0].Ready() {
				t.Error("a server that is up and requires a token is not ready")
			}
			good, bad := r.sending(userToken, "Bearer good"), r.sending(userToken, "Bearer bad")
			for range 8 {
				if res := bad.callModern(); !strings.Contains(res.body, "upstream_refused_credentials") {
					t.Errorf("a bad token: %d %s", res.status, res.body)
				}
			}
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() { bad.callModern() })
				group.Go(func() { _, _ = r.h.Targets.All[0].Profile(t.Context()) })
				group.Go(func() { good.said("a good one", good.callModern(), "Bearer good ") })
			}
			group.Wait()
			session := good.open("2025-11-25", "{}")
			good.said("legacy", good.callLegacy(session), "Bearer good ")
			v, err := r.h.Targets.All[0].Profile(t.Context())
			if err := checkOf(t, r)(t.Context()); kind == "modern" && err == nil {
				t.Error("a health check sent a caller's token")
			}
			if err != nil || v.Modern != (kind == "modern") {
				t.Fatalf("%+v, %v", v, err)
			}
			for range 8 {
				bad.callModern()
			}
			if now, err := r.h.Targets.All[0].Profile(t.Context()); err != nil || now != v {
				t.Errorf("after bad tokens it is %+v, %v", now, err)
			}
			good.said("after bad tokens", good.callModern(), "Bearer good ")
			if g.refusals() == 0 {
				t.Error("the guard has refused nothing")
			}
		})
	}
}

// A server that accepts initialize from everybody, and modern requests with a token only, is not taken for legacy by callers with a token.
func TestForwardHalfOpen(t *testing.T) {
	g := newGuardedServer(t, "modern")
	g.open = func(r *http.Request) bool { return r.Header.Get("Mcp-Method") == "" }
	welcome := func(c *call) { c.result(fmt.Sprintf(welcomed, "2025-11-25")) }
	g.on("initialize", welcome)
	g.on("ping", func(c *call) { c.result("{}") })
	r := startRig(t, g.toml(forwarding), false)
	v, err := r.h.Targets.All[0].Profile(t.Context())
	if err != nil || v.Modern {
		t.Fatalf("without a token: %+v, %v", v, err)
	}
	good := r.sending(userToken, "Bearer good")
	good.said("with one", good.callModern(), "Bearer good ")
	if v, err = r.h.Targets.All[0].Profile(t.Context()); err != nil || !v.Modern {
		t.Errorf("then: %+v, %v", v, err)
	}
}

// A value that cannot be one header field is refused before anything is sent. Tracing headers do not change a caller's identity.
func TestForwardHostile(t *testing.T) {
	g := newGuardedServer(t, "legacy")
	r := startRig(t, g.toml("forward_headers = { X-User-Token = \"Authorization\", traceparent = \"traceparent\" }\n"), false)
	good := r.sending(userToken, "Bearer good")
	good.said("good", good.callModern(), "Bearer good ")
	g.forget()
	for name, headers := range map[string][]string{
		"two lines":     {userToken, "Bearer good", userToken, "Bearer good2"},
		"two spellings": {"x-user-token", "Bearer good", "X-USER-TOKEN", "Bearer good2"},
		"too large":     {userToken, "Bearer good" + strings.Repeat("x", 9000)},
	} {
		res := r.sending(headers...).callModern()
		if res.status != 400 && res.status != 431 || strings.Contains(res.body, "good") || !strings.Contains(res.body, "forward_headers") {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
	}
	for name, line := range map[string]string{
		"folded":   "X-User-Token: Bearer good\r\n X-Tenant: evil\r\n",
		"bare LF":  "X-User-Token: Bearer good\nX-Tenant: evil\r\n",
		"bare CR":  "X-User-Token: Bearer good\rX-Tenant: evil\r\n",
		"NUL":      "X-User-Token: Bearer good\x00evil\r\n",
		"del":      "X-User-Token: Bearer good\x7fevil\r\n",
		"in name":  "X-User-Token : Bearer good\r\n",
		"to alone": "Authorization: Bearer good-own\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		body := modernCall("1", "a", "")
		_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: a\r\n%sContent-Length: %d\r\n\r\n%s", line, len(body), body)
		answer := make([]byte, 4096)
		n, _ := conn.Read(answer)
		_ = conn.Close()
		if strings.Contains(string(answer[:n]), "Bearer good") {
			t.Errorf("%s: %s", name, answer[:n])
		}
	}
	for _, s := range g.all("tools/call") {
		if len(s.header.Values("X-Tenant")) > 0 || strings.Contains(s.header.Get("Authorization"), "evil") || s.header.Get("Authorization") == "Bearer good-own" {
			t.Errorf("the server got %v", s.header)
		}
	}
	g.forget()
	for i := range 3 {
		with := r.sending(userToken, "Bearer good", "traceparent", fmt.Sprintf("00-%032d-0000000000000001-01", i+1))
		with.said("traced", with.callModern(), "Bearer good ")
		if calls := g.all("tools/call"); len(calls) != i+1 || !strings.Contains(calls[i].header.Get("traceparent"), fmt.Sprint(i+1)) {
			t.Errorf("the trace is lost: %v", calls[len(calls)-1].header)
		}
	}
	if n := len(g.all("initialize")); n != 0 {
		t.Errorf("%d sessions more for a caller who is the same", n)
	}
}

// Anonymous callers do not escape limits by making up tokens.
func TestForwardRate(t *testing.T) {
	g := newGuardedServer(t, "modern")
	r := startRig(t, "rate_limit_burst = 5\n[security]\nrate_limiting = \"on\"\nrate_limit = 10\n"+g.toml(forwarding), false)
	limited := false
	for i := range 10 {
		c := r.sending(userToken, fmt.Sprintf("Bearer good-%d", i))
		limited = limited || strings.Contains(c.callModern().body, "rate_limited")
	}
	if !limited {
		t.Error("a caller with a new token for each request is not limited")
	}
}

// Pages may send forwarded headers.
func TestForwardCORS(t *testing.T) {
	g := newGuardedServer(t, "modern")
	r := startRig(t, "[security]\nallowed_origins = [\"https://app.example\"]\n"+g.toml(forwarding), false)
	res := r.must("OPTIONS", "/mcp", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-user-token")
	if got := res.header.Get("Access-Control-Allow-Headers"); res.status != 204 || !strings.Contains(strings.ToLower(got), "x-user-token") || !strings.Contains(got, "X-Tenant") {
		t.Errorf("%d %q", res.status, got)
	}
}

// checkOf returns the check of the only upstream.
func checkOf(t *testing.T, r *rig) func(context.Context) error {
	t.Helper()
	return r.h.Targets.Named(r.h.Cfg.Upstreams[0].Name).Check
}
