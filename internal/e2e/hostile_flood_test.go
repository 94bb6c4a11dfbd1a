//go:build unix

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// Requests that arrive byte by byte, or stop, get an error within limits.read_time, and a well-behaved client is served meanwhile.
func TestSlowClients(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[limits]\nread_time = \"1s\"\n"+u.toml(""), true)
	begun := runtime.NumGoroutine()
	var all sync.WaitGroup
	for name, sent := range map[string]string{
		"head":             wireHead,
		"name":             wireHead + "X",
		"small body":       wireHead + "Content-Length: 1000\r\n\r\n{",
		"large body":       wireHead + "Content-Length: 4000000\r\n\r\n{",
		"chunks":           wireHead + inPieces + "\r\n1\r\n{\r\n",
		"a large chunk":    wireHead + inPieces + "\r\n3d0000\r\n{",
		"chunk extension":  wireHead + inPieces + "\r\n1;",
		"trailer":          wireHead + inPieces + "\r\n1\r\n{\r\n0\r\nX: ",
		"waits to be told": wireHead + "Expect: 100-continue\r\nContent-Length: 4000000\r\n\r\n",
	} {
		for _, drip := range []bool{false, true} {
			c := r.wire()
			all.Go(func() {
				began := time.Now()
				c.send(sent)
				ended := make(chan struct{})
				defer close(ended)
				if drip {
					all.Go(func() { trickle(c, ended) })
				}
				res, err := c.receive()
				if res != nil && res.status == 100 {
					res, err = c.receive()
				}
				_, over := c.rest(soonEnough)
				took := time.Since(began)
				if err != nil || res.status != 408 && res.status != 400 || !over || took > 1*time.Second+soonEnough {
					t.Errorf("%s, drip %v: %v %v, closed %v, after %v", name, drip, res, err, over, took)
				} else if !drip && !strings.Contains(res.body, "limits.read_time") {
					t.Errorf("%s: %s", name, res.body)
				}
			})
		}
	}
	r.good("many slow clients, while they are there")
	all.Wait()
	r.good("many slow clients")
	testkit.Eventually(t, "what served them has gone", func() bool { return runtime.NumGoroutine() <= begun+10 })
}

// trickle sends a byte at intervals.
func trickle(c *wireClient, until <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-until:
			return
		case <-tick.C:
		}
		if _, err := io.WriteString(c.Conn, "x"); err != nil {
			return
		}
	}
}

// Clients that close their side, or reset the connection, at every point.
func TestHalfOpenConnections(t *testing.T) {
	u := newUpstream(t, "modern")
	began, free := u.hold(t)
	r := startRig(t, u.toml(""), true)
	idle := runtime.NumGoroutine()
	call := modernCall("1", "slow", "")
	callHead := strings.Replace(wireHead, "Mcp-Method: server/discover", "Mcp-Method: tools/call\r\nMcp-Name: slow", 1)
	for name, sent := range map[string]string{
		"nothing": "", "part of a line": "POST /m", "a head": wireHead, "no body": wireHead + sized + "\r\n", "half a body": wireHead + sized + "\r\n{",
		"half a large body": wireHead + "Content-Length: 4000000\r\n\r\n{", "half a chunk": wireHead + inPieces + "\r\nff\r\n{",
		"a call that runs": callHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(call), call),
		"two requests":     wireHead + sized + "\r\n" + discoverBody + wireHead + sized + "\r\n" + discoverBody[:10],
	} {
		for _, how := range []string{"half", "close", "reset"} {
			c := r.wire()
			c.send(sent)
			if name == "a call that runs" {
				testkit.Receive(t, "the call", began)
			}
			switch tcp := c.Conn.(*net.TCPConn); how {
			case "half":
				_ = tcp.CloseWrite()
				if name != "a call that runs" {
					if more, ended := c.rest(soonEnough); !ended || len(more) > 2 {
						t.Errorf("%s: %d answers, closed %v", name, len(more), ended)
					}
				}
			case "reset":
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
		}
	}
	free()
	r.good("all that")
	testkit.Eventually(t, "what served them has gone", func() bool { return runtime.NumGoroutine() <= idle+10 })
}

// As many idle connections as there are descriptors, and more: what each costs, and whether others are still served. Idle ones give way.
func TestManyIdleConnections(t *testing.T) {
	const serverLimit = 2000 // descriptors of the server; this process has those of the clients
	u := newUpstream(t, "modern")
	file := testkit.WriteFile(t, "idle.toml", "listen = \"127.0.0.1:0\"\n[admin]\nlisten = \"off\"\n"+u.toml(""))
	for what, n := range map[string]int{"within the limit": idleConnections(t), "beyond the limit": serverLimit + 500} {
		t.Run(what, func(t *testing.T) {
			limit := 0
			if what == "beyond the limit" {
				limit = serverLimit
			}
			r, pid := startChild(t, file, limit)
			r.good("the start")
			before := resident(pid)
			var open []*wireClient
			defer func() {
				for _, c := range open {
					_ = c.Close()
				}
			}()
			for i := range n {
				c := r.wire()
				if i%2 == 0 && limit == 0 { // the other half has never sent anything
					c.send("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
					if res, err := c.receive(); err != nil || res.status != 404 {
						t.Fatalf("connection %d: %v %v", i, res, err)
					}
				}
				if open = append(open, c); i%500 == 0 {
					r.http.CloseIdleConnections() // a new client
					r.good(fmt.Sprintf("%d idle connections", i))
				}
			}
			r.http.CloseIdleConnections()
			r.good("all connections")
			if limit > 0 {
				if fds := descriptorsOf(pid); fds > limit*7/8 {
					t.Errorf("%d of %d descriptors are used: too few are left for the servers", fds, limit)
				}
				return
			}
			each := (resident(pid) - before) / n
			t.Logf("%d idle connections: %d bytes each", n, each)
			if most := 48 << 10; !raceDetector && before > 0 && each > most {
				t.Errorf("an idle connection takes %d bytes, more than %d", each, most)
			}
		})
	}
}

// idleConnections is how many connections a test may open.
func idleConnections(t *testing.T) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := 10000
	if testing.Short() || raceDetector {
		n = 2000
	}
	return min(n, int(limit.Cur)/4*3-100)
}

// startChild starts the program itself, with this many descriptors if not 0.
func startChild(t *testing.T, file string, descriptors int) (*rig, int) {
	t.Helper()
	self := testkit.Self(t, "main")
	args := []string{self.Path, "serve", "--config", file}
	if descriptors > 0 {
		args = append([]string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, descriptors)}, args...)
	}
	c := exec.Command(args[0], args[1:]...) // it ends with the test, not with the test's context
	c.Env = self.Env
	out, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skipf("the program cannot be started like that: %v", err)
	}
	addr := make(chan string, 1)
	logged := make(chan struct{})
	go func() { // ends with the process
		defer close(logged)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := regexp.MustCompile(`"mcp":"(http://[^"]*)/mcp"`).FindStringSubmatch(lines.Text()); m != nil {
				addr <- m[1]
			}
		}
	}()
	r := rig{t: t, http: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	t.Cleanup(func() {
		r.http.CloseIdleConnections()
		_ = c.Process.Signal(syscall.SIGTERM)
		<-logged
		if err := c.Wait(); err != nil {
			t.Errorf("the program ends with %v", err)
		}
	})
	r.base = testkit.Receive(t, "the address", addr)
	return &r, c.Process.Pid
}

// resident is the resident memory of a process in bytes; 0 if unknown.
func resident(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	m := regexp.MustCompile(`VmRSS:\s*(\d+) kB`).FindStringSubmatch(string(text))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n << 10
}

func descriptorsOf(pid int) int {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return len(all)
}

// Unlimited sessions of one principal evict its own sessions, and no other's.
func TestSessionsOfOnePrincipal(t *testing.T) {
	u := newUpstream(t, "legacy")
	toml, keys := keysToml("alice", "bob")
	r := startRig(t, "[sessions]\nmax = 20\nmax_per_principal = 5\n[security]\napi_keys_enabled = true\n"+toml+u.toml(""), true)
	alice, bob := r.as(keys["alice"]), r.as(keys["bob"])
	mine := bob.open("2025-11-25", "{}")
	var ids []string
	for range 50 {
		ids = append(ids, alice.open("2025-11-25", "{}"))
	}
	ping := func(r *rig, id string) int {
		return r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, legacyHeaders(id)...).status
	}
	for i, id := range ids {
		want := 404
		if i >= 45 {
			want = 200
		}
		if got := ping(alice, id); got != want {
			t.Errorf("session %d of 50: %d, want %d", i, got, want)
		}
	}
	if got := ping(bob, mine); got != 200 {
		t.Errorf("another's session has gone: %d", got)
	}
	if n := r.h.Sessions().Len(); n != 6 {
		t.Errorf("%d sessions, want 6", n)
	}
	testkit.Eventually(t, "the server is told of the ends", func() bool { return len(u.all("DELETE")) >= 45 })
}

// Unlimited listens of one principal, and more requests than may wait: the excess one gets an error with the key to raise, others are not
// affected, and everything is released afterwards.
func TestFloodsOfListensAndCalls(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("subscriptions/listen", func(c *call) {
		c.event(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$ID},"notifications":{"toolsListChanged":true}}}`)
		<-c.cancelled
	})
	toml, keys := keysToml("alice", "bob")
	r := startRig(t, "[limits]\nlistens = 30\nlistens_per_principal = 5\nin_flight = 2\nqueue = 3\n[security]\napi_keys_enabled = true\n"+toml+u.toml(""), true)
	alice, bob := newHTTPTestClient(r.as(keys["alice"])), newHTTPTestClient(r.as(keys["bob"]))
	for i := range 20 {
		id := fmt.Sprint(i)
		alice.send(id, listenBody(id, `"toolsListChanged":true`))
		heard := alice.receives(id)
		if i < 5 != strings.Contains(heard, "acknowledged") || i >= 5 && !strings.Contains(heard, "limits.listens_per_principal") {
			t.Errorf("listen %d: %s", i, heard)
		}
	}
	bob.send("1", listenBody("1", `"toolsListChanged":true`))
	if heard := bob.receives("1"); !strings.Contains(heard, "acknowledged") {
		t.Errorf("another's listen: %s", heard)
	}
	began, free := u.hold(t)
	statuses := make(chan string, 40)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			res := r.as(keys["alice"]).must("POST", "/mcp", modernCall(fmt.Sprint(i), "slow", ""), modernHeaders("tools/call", "slow")...)
			switch {
			case strings.Contains(res.body, `"result"`):
				statuses <- "served"
			case strings.Contains(res.body, "limits.queue") && strings.Contains(res.body, `"code":"too_busy","retryable":true,"retryAfter":1`):
				statuses <- "refused"
			default:
				statuses <- res.body
			}
		})
	}
	for range 2 {
		testkit.Receive(t, "a call that runs", began)
	}
	for range 35 {
		if got := testkit.Receive(t, "a refusal", statuses); got != "refused" {
			t.Errorf("%s", got)
		}
	}
	free()
	all.Wait()
	for range 5 {
		if got := testkit.Receive(t, "an answer", statuses); got != "served" {
			t.Errorf("%s", got)
		}
	}
	r.as(keys["bob"]).good("the flood")
	for i := range 5 {
		alice.leave(fmt.Sprint(i))
	}
	testkit.Eventually(t, "there is room for a listen again", func() bool {
		alice.send("again", listenBody(`"again"`, `"toolsListChanged":true`))
		return strings.Contains(alice.receives("again"), "acknowledged")
	})
	alice.leave("again")
	bob.leave("1")
}
