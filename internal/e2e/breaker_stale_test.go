package e2e

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dragoman/internal/testkit"
	"dragoman/policies/health"
)

// glitch is a relay between the proxy and a server whose streams can go silent, like connections that a network has forgotten.
type glitch struct {
	ln    net.Listener
	to    string
	mu    sync.Mutex
	all   []*glitched
	group sync.WaitGroup
}

// glitched is one connection through it.
type glitched struct {
	near, far     net.Conn
	streams, dead atomic.Bool // the last request opened a stream; nothing is returned any more
}

func newGlitch(t *testing.T, to string) *glitch {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &glitch{ln: ln, to: to}
	g.group.Go(g.run)
	t.Cleanup(func() {
		_ = ln.Close()
		g.mu.Lock()
		for _, c := range g.all {
			_, _ = c.near.Close(), c.far.Close()
		}
		g.mu.Unlock()
		g.group.Wait()
	})
	return g
}

func (g *glitch) run() {
	for {
		near, err := g.ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", g.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		c := &glitched{near: near, far: far}
		g.mu.Lock()
		g.all = append(g.all, c)
		g.mu.Unlock()
		g.group.Go(c.ask)
		g.group.Go(c.answer)
	}
}

func (c *glitched) ask() {
	defer func() { _ = c.far.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := c.near.Read(buf)
		if n > 4 {
			c.streams.Store(string(buf[:4]) == "GET ")
		}
		if _, werr := c.far.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (c *glitched) answer() {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.far.Read(buf)
		if c.dead.Load() {
			n = 0
		} else if err != nil {
			_ = c.near.Close()
		}
		if _, werr := c.near.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// silence makes existing streams silent; new ones work.
func (g *glitch) silence() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.all {
		c.dead.Store(c.streams.Load())
	}
}

// A network failure leaves streams on which nothing arrives any more. It is detected, and clients open new sessions (seed 004, EC-010).
func TestStaleStream(t *testing.T) {
	m := newMortal(t, "sse")
	g := newGlitch(t, m.addr)
	m.url = "http://" + g.ln.Addr().String() + "/sse"
	r := startRig(t, "tool_timeout = 1\n"+m.toml("health_check_timeout = \"1s\"\n"), true)
	session := r.open("2025-11-25", "{}")
	n := 10
	ask := func() *response {
		n++ // a used id is a duplicate
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
		defer cancel()
		res, err := r.do(ctx, "POST", "/mcp", legacyCall(strconv.Itoa(n), "ok"), legacyHeaders(session)...)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := ask(); !strings.Contains(res.body, "content") {
		t.Fatal(res.body)
	}
	g.silence()
	last := &response{}
	for try := 0; last.status != 404 && try < 8; try++ {
		last = ask()
	}
	if last.status != 404 {
		t.Fatalf("the session goes on: %d %s", last.status, last.body)
	}
	session = r.open("2025-11-25", "{}")
	if res := ask(); !strings.Contains(res.body, "content") {
		t.Error(res.body)
	}
}

// A check of a legacy server is a ping, in an existing session or else in one that is opened once.
func TestCheckCost(t *testing.T) {
	m := newMortal(t, "legacy")
	r := startRig(t, m.toml(""), true)
	sessions := func() int {
		m.upstream.mu.Lock()
		defer m.upstream.mu.Unlock()
		return m.sessions
	}
	before := sessions()
	check := func(times int) {
		t.Helper()
		for range times {
			last := r.state("default").CheckedAt
			r.h.Target("default").Monitor.Recheck()
			testkit.Eventually(t, "the check", func() bool { return r.state("default").CheckedAt.After(last) })
		}
	}
	m.forget()
	check(3)
	if n := sessions() - before; n != 1 || len(m.all("ping")) != 3 {
		t.Errorf("%d sessions, %d pings", n, len(m.all("ping")))
	}
	m.upstream.mu.Lock()
	for i := range m.sessions {
		m.lost[fmt.Sprintf("up-%d", i+1)] = true
	}
	m.upstream.mu.Unlock()
	check(1) // the server has forgotten the session: another one is opened, and the check succeeds
	if s := r.state("default"); s.State != health.Connected || s.Failures != 0 || sessions() != before+2 {
		t.Errorf("%+v, %d sessions", s, sessions()-before)
	}
}
