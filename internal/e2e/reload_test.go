//go:build unix

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// pid returns the process that answers a call of the tool "ok".
func pid(t *testing.T, res *response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`"pid":(\d+)`).FindStringSubmatch(res.body)
	if m == nil {
		t.Fatalf("%d %s", res.status, res.body)
	}
	return m[1]
}

func gone(pid string) bool {
	var n int
	_, _ = fmt.Sscan(pid, &n)
	return unix.Kill(n, 0) == unix.ESRCH
}

// Settings around an upstream change while it runs: its process and the clients' sessions stay.
func TestReloadOfPolicies(t *testing.T) {
	base := fallibleToml(t, "legacy", "/no/such/file", "")
	r := startRig(t, base, true)
	c := newCrashClient(r, "legacy")
	res, err := c.call(t.Context(), "1", "ok")
	before := pid(t, res, err)
	r.reload(app.ReloadUnchanged, base+"# a remark\n")
	r.reload(app.ReloadApplied, "tool_timeout = 7\n"+base+"[upstreams.default.access.\"*\"]\ndeny_tools = [\"hang\"]\n")
	if res, err = c.call(t.Context(), "2", "hang"); err != nil || !strings.Contains(res.body, "Tool not found") {
		t.Errorf("%v %+v", err, res)
	}
	res, err = c.call(t.Context(), "3", "ok")
	if now := pid(t, res, err); now != before {
		t.Errorf("the server was started again: %s, %s", before, now)
	}
	r.reload(app.ReloadApplied, base)
	if d := r.h.Targets.Named("default").Dialer; d.Stats().Starts > 4 {
		t.Errorf("%+v", d.Stats())
	}
	if n := r.sum("dragoman_config_reloads_total"); n != 3 {
		t.Errorf("%v reloads counted", n)
	}
	if n := r.sum("dragoman_requests_total"); n < 3 {
		t.Errorf("%v requests counted: a reload resets the counter", n)
	}
}

// A wrong configuration changes nothing and reports its mistakes.
func TestReloadRefused(t *testing.T) {
	base := fallibleToml(t, "legacy", "/no/such/file", "")
	r := startRig(t, base, true)
	c := newCrashClient(r, "legacy")
	res, err := c.call(t.Context(), "1", "ok")
	before := pid(t, res, err)
	for _, bad := range []string{"nonsense", "tool_timeout = 0\n" + base, "", "listen = \"0.0.0.0:8080\"\n" + base,
		base + "[upstreams.other]\nurl = \"https://example.invalid/mcp\"\nca_file = \"/no/such/file\"\n"} {
		r.reload(app.ReloadRefused, bad)
	}
	mentions(t, r.logs.String(), "the new configuration is refused; the previous one stays in force", "rig.toml", "tool_timeout", "no upstream is configured", "ca_file")
	if r.sum("dragoman_config_last_reload_successful") != 0 {
		t.Error("the metric reports success")
	}
	res, err = c.call(t.Context(), "2", "ok")
	if now := pid(t, res, err); now != before {
		t.Error("the server was started again")
	}
	r.reload(app.ReloadUnchanged, base)
	if r.sum("dragoman_config_last_reload_successful") != 1 {
		t.Error("the metric reports a failure")
	}
}

// Settings that need a restart are named, and the others take effect.
func TestReloadOfWhatStays(t *testing.T) {
	base := fallibleToml(t, "legacy", "/no/such/file", "")
	r := startRig(t, base, true)
	r.reload(app.ReloadApplied, "tool_timeout = 7\nlimits.header = \"32KiB\"\nquestions.rounds = 3\n"+base)
	if c := r.h.Cfg; c.Limits.Header != 64<<10 || c.Questions.Rounds != 10 || c.Timeouts.Tool != 7*time.Second {
		t.Errorf("%+v %+v %+v", c.Limits, c.Questions, c.Timeouts)
	}
	mentions(t, r.logs.String(), `"keys":["limits.header","questions"]`, "take effect after a restart")
	if n := r.sum("dragoman_config_restart_needed"); n != 2 {
		t.Errorf("%v", n)
	}
}

// A server with other settings is replaced: its running requests finish, new ones go to the new one, listens and legacy sessions end as the
// revisions require, and nothing of the old one is left.
func TestReloadOfAServer(t *testing.T) {
	for _, server := range []string{"legacy", "modern"} {
		t.Run(server, func(t *testing.T) {
			u := newUpstream(t, server+"-stdio")
			u.on("tools/list", func(c *call) {
				c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"slow","inputSchema":{"type":"object"}}]}`)
			})
			begun, release := make(chan *call, 4), make(chan struct{})
			u.on("tools/call", func(c *call) {
				if strings.Contains(c.body, `"slow"`) {
					begun <- c
					<-release
				}
				c.result(`{"resultType":"complete","content":[]}`)
			})
			base := u.toml("")
			r := startRig(t, base, true)
			legacy := newCrashClient(r, "legacy")
			answers := make(chan *response, 2)
			go callTo(t.Context(), &crashClient{r: r, era: "modern"}, "1", "slow", answers)
			go callTo(t.Context(), legacy, "1", "slow", answers)
			testkit.Receive(t, "a call at the server", begun)
			testkit.Receive(t, "a call at the server", begun)
			old := r.h.Targets.All[0].Upstream
			r.reload(app.ReloadApplied, strings.Replace(base, "stop_grace = \"500ms\"", "stop_grace = \"501ms\"", 1))
			if r.h.Targets.All[0].Upstream == old {
				t.Fatal("the same process")
			}
			res, err := (&crashClient{r: r, era: "modern"}).call(t.Context(), "2", "quick")
			if err != nil || !strings.Contains(res.body, `"content"`) {
				t.Errorf("a new call: %v %+v", err, res)
			}
			close(release)
			for range 2 {
				if res := testkit.Receive(t, "the answers of the old server", answers); res.status != 200 || !strings.Contains(res.body, `"content"`) {
					t.Errorf("%d %s", res.status, res.body)
				}
			}
			r.h.Retiring.Wait()
			res, err = legacy.call(t.Context(), "3", "quick")
			// Its session was at the old legacy server, or had listens at the old modern one.
			if err != nil || res.status != 404 {
				t.Errorf("a session of the old server: %v %+v", err, res)
			}
			legacy = newCrashClient(r, "legacy")
			res, err = legacy.call(t.Context(), "4", "quick")
			if err != nil || !strings.Contains(res.body, `"content"`) {
				t.Errorf("a legacy client afterwards: %v %+v", err, res)
			}
		})
	}
}

// Servers are added and removed. A removed one leaves no process, metric or path.
func TestReloadOfTheListOfServers(t *testing.T) {
	one := fallibleToml(t, "legacy", "/no/such/file", "")
	two := strings.Replace(one, "upstreams.default", "upstreams.second", 1)
	r := startRig(t, one, true)
	ask := func(server string) *response {
		return r.must("POST", "/servers/"+server+"/mcp", modernCall("1", "ok", ""), modernHeaders("tools/call", "ok")...)
	}
	if res := ask("second"); !strings.Contains(res.body, "no server \\\"second\\\"") {
		t.Errorf("%s", res.body)
	}
	r.reload(app.ReloadApplied, one+two)
	second := pid(t, ask("second"), nil)
	if !r.labelled("second") {
		t.Error("no metric of it")
	}
	r.reload(app.ReloadApplied, one)
	r.h.Retiring.Wait()
	testkit.Eventually(t, "its process is gone", func() bool { return gone(second) })
	if res := ask("second"); !strings.Contains(res.body, "no server \\\"second\\\"") {
		t.Errorf("%s", res.body)
	}
	if r.labelled("second") {
		t.Error("there are metrics of it")
	}
	r.reload(app.ReloadApplied, two)
	if res := ask("second"); pid(t, res, nil) == second {
		t.Error("it was not removed")
	}
	if n := r.sum("dragoman_requests_total", "server", "second"); n != 1 {
		t.Errorf("%v requests counted for the one that came back", n)
	}
}

// Cached results of one server are not used for another of the same name.
func TestReloadForgetsWhatIsCached(t *testing.T) {
	var ups []*upstream
	for _, name := range []string{"first", "second"} {
		u := newUpstream(t, "modern")
		u.on("tools/list", func(c *call) {
			c.result(`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"` + name + `","inputSchema":{"type":"object"}}]}`)
		})
		ups = append(ups, u)
	}
	text := func(u *upstream) string { return "cache.bytes = \"1MiB\"\n" + u.toml("") }
	r := startRig(t, text(ups[0]), true)
	list := func() string {
		return r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`, modernHeaders("tools/list", "")...).body
	}
	mentions(t, list(), `"first"`)
	ups[0].forget()
	mentions(t, list(), `"first"`)
	if n := len(ups[0].all("tools/list")); n != 0 {
		t.Fatalf("%d requests: it is not cached, and this tests nothing", n)
	}
	r.reload(app.ReloadApplied, text(ups[1]))
	mentions(t, list(), `"second"`)
}

// labelled reports whether a metric has the server's label.
func (r *rig) labelled(server string) bool {
	r.t.Helper()
	all, err := r.h.Metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "server" && l.GetValue() == server {
					return true
				}
			}
		}
	}
	return false
}

// Secrets in files are read again with the configuration: those sent to a server, and those of clients.
func TestReloadOfSecrets(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	secret := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	toml := u.toml("") + fmt.Sprintf("[upstreams.default.headers]\nAuthorization = \"file:%s\"\n", secret)
	r := startRig(t, toml, true)
	shown := func() string {
		t.Helper()
		u.forget()
		r.must("POST", "/mcp", modernCall("1", "x", ""), modernHeaders("tools/call", "x")...)
		return u.all("tools/call")[0].header.Get("Authorization")
	}
	if got := shown(); got != "first" {
		t.Fatal(got)
	}
	write("second")
	r.reload(app.ReloadApplied, toml)
	if got := shown(); got != "second" {
		t.Error(got)
	}
	if strings.Contains(r.logs.String(), "second") {
		t.Error("the secret is in the log")
	}
}

// A changed file and SIGHUP reload the configuration.
func TestReloadByItself(t *testing.T) {
	base := "reload.watch = \"500ms\"\n" + fallibleToml(t, "modern", "/no/such/file", "")
	r := startRig(t, base, true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.h.App.Run(ctx, r.srv, nil) }()
	defer func() {
		cancel()
		if err := testkit.Receive(t, "its end", ended); err != nil {
			t.Error(err)
		}
	}()
	file := r.h.Cfg.Loaded.File
	if err := os.WriteFile(file+".new", []byte("tool_timeout = 7\n"+base), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil { // as editors and kubelets write files
		t.Fatal(err)
	}
	testkit.Eventually(t, "the change is seen", func() bool { return r.h.App.Current.Load().Cfg.Timeouts.Tool == 7*time.Second })
	testkit.Eventually(t, "the log tells", func() bool { return strings.Contains(r.logs.String(), `"reason":"a file has changed"`) })
	if err := unix.Kill(os.Getpid(), unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is read again", func() bool { return strings.Contains(r.logs.String(), `"reason":"SIGHUP"`) })
}

// Under load, configurations of policies and servers change, and no request fails.
func TestReloadUnderLoad(t *testing.T) {
	slow := func(c *call) {
		time.Sleep(3 * time.Millisecond) // the tool's work
		c.result(`{"resultType":"complete","content":[]}`)
	}
	u, stays := newUpstream(t, "modern"), newUpstream(t, "legacy")
	for _, x := range []*upstream{u, stays} {
		x.on("tools/call", slow)
	}
	text := func(n int) string {
		return fmt.Sprintf("tool_timeout = %d\n", 10+n%7) + u.toml(fmt.Sprintf("connect_timeout = \"%ds\"", 1+n%5)) + strings.Replace(stays.toml(""), "default", "stays", 1)
	}
	r := startRig(t, text(0), true)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var count atomic.Int64
	for i := range 8 {
		clients.Go(func() {
			session := ""
			if i%2 == 1 {
				at := *r
				at.base += "/servers/stays"
				session = at.open("2025-11-25", "{}")
			}
			for n := 0; ctx.Err() == nil; n++ {
				var res *response
				var err error
				if session == "" {
					res, err = r.do(t.Context(), "POST", "/servers/default/mcp", modernCall(fmt.Sprint(n), "x", ""), modernHeaders("tools/call", "x")...)
				} else {
					res, err = r.do(t.Context(), "POST", "/servers/stays/mcp", legacyCall(fmt.Sprint(n+10), "x"), legacyHeaders(session)...)
				}
				if err != nil || res.status != 200 || !strings.Contains(res.body, `"content"`) {
					t.Errorf("client %d, request %d: %v %+v", i, n, err, res)
					return
				}
				count.Add(1)
			}
		})
	}
	for n := 1; n <= 25; n++ {
		at := count.Load()
		testkit.Eventually(t, "requests go on", func() bool { return t.Failed() || count.Load() > at+20 })
		r.reload(app.ReloadApplied, text(n))
	}
	cancel()
	clients.Wait()
	t.Logf("%d requests, 25 reloads", count.Load())
}
