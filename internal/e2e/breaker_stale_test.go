package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"dragoman/internal/testkit"
	"dragoman/policies/health"
)

// A network failure leaves streams on which nothing arrives any more. It is detected, and clients open new sessions (seed 004, EC-010).
func TestStaleStream(t *testing.T) {
	m := newRestartable(t, "sse")
	relay := startRelay(t, m.addr)
	m.url = "http://" + relay.addr + "/sse"
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
	relay.stall()
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
	m := newRestartable(t, "legacy")
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
			r.h.Targets.Named("default").Monitor.Recheck()
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
