package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/conformance/everything"
	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

const greeted = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// greet opens a session over stdio.
func (p *pipes) greet() {
	p.t.Helper()
	p.send(stdioInit)
	p.receives(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25",…`)
	p.send(greeted)
}

// until returns the messages before the answer to the request with this id, and the answer.
func (p *pipes) until(id string) (before []string, answer string) {
	p.t.Helper()
	for {
		line := testkit.Receive(p.t, "the answer to "+id, p.lines)
		if strings.Contains(line, `"id":`+id+`,`) || strings.HasSuffix(line, `"id":`+id+`}`) {
			return before, line
		}
		before = append(before, line)
	}
}

// ask sends a request with these params.
func (p *pipes) ask(id, method, params string) {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
}

// deployment is the demo server in a legacy era, which can be redeployed.
type deployment struct {
	t    *testing.T
	addr string
	stop func()
}

func newDeployment(t *testing.T) *deployment {
	d := &deployment{t: t, addr: "127.0.0.1:0"}
	d.start()
	t.Cleanup(func() { d.stop() })
	return d
}

func (d *deployment) start() {
	d.t.Helper()
	cfg, err := config.LoadConfig(config.LoadOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	server := everything.New(everything.Options{})
	h, err := app.AssembleHandler(cfg, everything.Only("legacy", server.Do), server.Do, zerolog.Nop())
	if err != nil {
		d.t.Fatal(err)
	}
	face, err := h.ClientServer()
	if err != nil {
		d.t.Fatal(err)
	}
	ln, err := httpserver.Listen(d.addr)
	if err != nil {
		d.t.Fatal(err)
	}
	d.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- face.Serve(ln) }()
	d.stop = func() {
		h.Drain() // its streams end, and Shutdown need not wait for them
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = face.Shutdown(ctx)
		if err := testkit.Receive(d.t, "the end of the server", served); err != nil {
			d.t.Error(err)
		}
		h.Close()
		_ = server.Close()
	}
}

// A server is redeployed: a stdio client, which cannot know, goes on as before. Its log level and subscription are restored, and it is
// notified that the lists may have changed.
func TestRenewAfterDeploy(t *testing.T) {
	d := newDeployment(t)
	p := startStdio(t, fmt.Sprintf("[upstreams.default]\nurl = \"http://%s/mcp\"\n", d.addr))
	p.greet()
	p.ask("1", "logging/setLevel", `"level":"info"`)
	p.receives(`{…"id":1…"result":{…`)
	p.ask("2", "resources/subscribe", `"uri":"test://watched-resource"`)
	p.receives(`{…"id":2…"result":{…`)

	d.stop()
	d.start()
	p.ask("5", "tools/list", "")
	before, answer := p.until("5")
	if !strings.Contains(answer, `"result"`) {
		t.Fatalf("after the deployment: %s", answer)
	}
	for _, list := range []string{"tools", "prompts", "resources"} {
		if !strings.Contains(strings.Join(before, "\n"), `"notifications/`+list+`/list_changed"`) {
			t.Errorf("the client is not notified that its %s may have changed: %q", list, before)
		}
	}
	p.send(legacyCall("6", "test_tool_with_logging"))
	if before, answer := p.until("6"); !strings.Contains(answer, `"result"`) || len(before) != 3 { // without a level it logs nothing
		t.Errorf("level info: %q, %s", before, answer)
	}
	p.send(legacyCall("7", "test_trigger_resource_update"))
	before, answer = p.until("7")
	if !strings.Contains(answer, `"result"`) {
		t.Errorf("%s", answer)
	}
	if len(before) == 0 { // on another stream than the answer
		before = append(before, testkit.Receive(t, "the update", p.lines))
	}
	mentions(t, before[0], `"notifications/resources/updated"`, "test://watched-resource")
}

// loseAll makes a legacy server forget its sessions, and those that it opens from now on up to the given number.
func (u *upstream) loseAll(last int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range last {
		u.lost[fmt.Sprintf("up-%d", i+1)] = true
	}
}

// newest is the number of sessions so far, those of the probe included.
func (u *upstream) newest() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sessions
}

// renewable is a client in a session with a legacy server that answers calls and lists.
func renewable(t *testing.T) (*upstream, *pipes) {
	u := newUpstream(t, "legacy")
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	u.on("tools/list", func(c *call) { c.result(`{"tools":[]}`) })
	p := startStdio(t, u.toml(""))
	p.greet()
	p.send(legacyCall("0", "a"))
	p.receives(`{…"id":0…"result":{…`)
	return u, p
}

const lostAnswer = `…"error":{"code":-32603,"message":"…send initialize to open a new one","data":{"code":"upstream_session_lost","retryable":true}}…`

// Concurrent requests that find the session lost open one new session, and all are answered. Cancelled subscriptions are not restored.
func TestRenewOnce(t *testing.T) {
	u, p := renewable(t)
	for _, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
		u.on(method, func(c *call) { c.result("{}") })
	}
	for i, step := range []string{"subscribe a", "subscribe b", "unsubscribe b"} {
		method, uri, _ := strings.Cut(step, " ")
		p.ask(fmt.Sprint(10+i), "resources/"+method, fmt.Sprintf(`"uri":"test://%s"`, uri))
		p.until(fmt.Sprint(10 + i))
	}
	u.forget()
	arrived, both := make(chan struct{}, 8), make(chan struct{})
	old := fmt.Sprintf("up-%d", u.newest())
	u.mu.Lock()
	u.heard = func(s *seen, _ *stream) {
		if s.method != "tools/list" || s.header.Get("Mcp-Session-Id") != old {
			return
		}
		arrived <- struct{}{}
		select {
		case <-both:
		case <-time.After(testkit.Patient):
		}
	}
	u.mu.Unlock()
	u.loseAll(u.newest())
	p.ask("1", "tools/list", "")
	p.ask("2", "tools/list", "")
	testkit.Receive(t, "a request", arrived)
	testkit.Receive(t, "another", arrived)
	close(both)
	answers := map[string]bool{}
	for len(answers) < 2 {
		line := testkit.Receive(t, "the answers", p.lines)
		if strings.Contains(line, `"error"`) {
			t.Fatal(line)
		}
		for _, id := range []string{"1", "2"} {
			if matches(`{…"id":`+id+`,"result":{"tools":[]}}`, line) || matches(`{"id":`+id+`,…"result"…`, line) {
				answers[id] = true
			}
		}
	}
	if n := len(u.all("initialize")); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
	if n := len(u.all("notifications/initialized")); n != 1 {
		t.Errorf("%d ends of a handshake, want 1", n)
	}
	if again := u.all("resources/subscribe"); len(again) != 1 || !strings.Contains(again[0].body, `"test://a"`) {
		t.Errorf("%d subscriptions, want one to a", len(again))
	}
}

// A call that was interrupted by the loss may have run: it is not repeated. Neither is a list of which the client has received a part.
func TestRenewLeavesWhatMayHaveRun(t *testing.T) {
	for _, method := range []string{"tools/call", "tools/list"} {
		t.Run(method, func(t *testing.T) {
			u, p := renewable(t)
			u.forget()
			began := make(chan struct{}, 8)
			u.on(method, func(c *call) {
				if method == "tools/list" {
					c.event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"begun"}}`)
				}
				began <- struct{}{}
				select {
				case <-c.cancelled:
				case <-time.After(testkit.Patient):
				}
			})
			p.ask("1", method, `"name":"a"`)
			testkit.Receive(t, "the request", began)
			if method == "tools/list" {
				p.receives(`…"begun"…`)
			}
			u.loseAll(u.newest())
			p.ask("2", "ping", "")
			lines := map[bool]string{}
			for len(lines) < 2 {
				if line := testkit.Receive(t, "the answers", p.lines); strings.Contains(line, `"id":`) {
					lines[strings.Contains(line, `"id":2`)] = line
				}
			}
			if !matches(`{…"id":1,`+lostAnswer[len("…"):], lines[false]) || !matches(`{…"id":2…"result":{}…`, lines[true]) {
				t.Errorf("%v", lines)
			}
			if n := len(u.all(method)); n != 1 {
				t.Errorf("it was sent %d times", n)
			}
		})
	}
}

// A server that forgets every session causes no loop: one new session for each request, which then fails as before.
func TestRenewEndsInError(t *testing.T) {
	u, p := renewable(t)
	u.loseAll(100)
	for id := range 3 {
		u.forget()
		p.send(legacyCall(fmt.Sprint(id+1), "a"))
		p.receives(fmt.Sprintf(`{…"id":%d,`, id+1) + lostAnswer[len("…"):])
		if n := len(u.all("initialize")); n != 1 {
			t.Errorf("%d handshakes for a request, want 1", n)
		}
	}
}

// If the server now negotiates another revision, the client's requests fail as before until it negotiates the same again.
func TestRenewOtherRevision(t *testing.T) {
	u, p := renewable(t)
	older := func(c *call) {
		c.w.Header().Set("Mcp-Session-Id", "older")
		c.result(fmt.Sprintf(welcomed, "2025-06-18"))
	}
	u.on("initialize", older)
	u.loseAll(u.newest())
	u.forget()
	for id := range 2 {
		p.send(legacyCall(fmt.Sprint(id+1), "a"))
		p.receives(fmt.Sprintf(`{…"id":%d,`, id+1) + lostAnswer[len("…"):])
	}
	if n := len(u.all("initialize")); n != 2 {
		t.Errorf("%d handshakes for two requests", n)
	}
	testkit.Eventually(t, "the end of the sessions that are of no use", func() bool {
		n := 0
		for _, s := range u.all("DELETE") {
			if s.header.Get("Mcp-Session-Id") == "older" {
				n++
			}
		}
		return n == 2
	})
	u.on("initialize", u.welcome)
	p.send(legacyCall("3", "a"))
	if _, answer := p.until("3"); !strings.Contains(answer, `"result"`) {
		t.Errorf("%s", answer)
	}
}

// While a session is reopened, its client answers the server's questions in it and may cancel waiting requests.
func TestRenewedSessionAsksItsClient(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.getOpen = true
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	p := startStdio(t, u.toml(""))
	p.greet()
	p.ask("1", "logging/setLevel", `"level":"info"`)
	p.receives(`{…"id":1…"result":{}…`)
	answered, leveled := make(chan struct{}, 8), make(chan struct{}, 8)
	u.mu.Lock()
	u.heard = func(s *seen, _ *stream) {
		if s.method == "response" && strings.Contains(s.body, `"roots"`) {
			answered <- struct{}{}
		}
	}
	u.mu.Unlock()
	u.on("logging/setLevel", func(c *call) {
		u.mu.Lock()
		stream := u.streams["get-"+c.header.Get("Mcp-Session-Id")]
		u.mu.Unlock()
		if stream != nil {
			stream.send(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
		}
		leveled <- struct{}{}
		select {
		case <-answered:
			c.result("{}")
		case <-time.After(testkit.Patient):
		}
	})
	u.loseAll(u.newest())
	p.send(legacyCall("2", "gone"))
	p.receives(`{…"id":"q"…"roots/list"…`)
	testkit.Receive(t, "the level", leveled)
	p.send(legacyCall("3", "waits"))
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	p.send(`{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}`)
	if _, answer := p.until("2"); !strings.Contains(answer, `"result"`) {
		t.Errorf("%s", answer)
	}
	p.send(legacyCall("4", "last"))
	before, answer := p.until("4")
	if !strings.Contains(answer, `"result"`) || len(before) > 0 {
		t.Errorf("%q, %s", before, answer)
	}
	for _, s := range u.all("tools/call") {
		if strings.Contains(s.body, "waits") {
			t.Error("a call that was cancelled was made")
		}
	}
}

// A child that has exited ends its session, like a deployment: requests in flight fail, and the next request starts another child.
func TestRenewAfterCrash(t *testing.T) {
	u := newUpstream(t, "legacy-stdio")
	p := startStdio(t, u.toml(""))
	p.greet()
	started := hanging(u, 0)
	p.send(legacyCall("1", "a"))
	testkit.Receive(t, "the call", started).drop()
	p.receives(`{…"id":1…"upstream_lost"…`)
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	p.send(legacyCall("2", "a"))
	if _, answer := p.until("2"); !strings.Contains(answer, `"result"`) {
		t.Errorf("%s", answer)
	}
}

// A 404 that names the request is a lost session if its code says so, and otherwise the request's own error.
func TestRenewNamedRequest(t *testing.T) {
	u, p := renewable(t)
	u.forget()
	gone := func(c *call) { c.error(404, `{"code":-32001,"message":"Session not found"}`) }
	u.on("tools/call", gone, func(c *call) { c.result(`{"content":[]}`) })
	p.send(legacyCall("1", "a"))
	if _, answer := p.until("1"); !strings.Contains(answer, `"result"`) || len(u.all("initialize")) != 1 {
		t.Errorf("%d handshakes, %s", len(u.all("initialize")), answer)
	}
	u.forget()
	u.on("tools/call", func(c *call) { c.error(404, `{"code":-32601,"message":"no such tool"}`) })
	p.send(legacyCall("2", "a"))
	if _, answer := p.until("2"); !strings.Contains(answer, "no such tool") || len(u.all("initialize")) != 0 {
		t.Errorf("%d handshakes, %s", len(u.all("initialize")), answer)
	}
}
