package e2e

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/stdio/downstream"
	"dragoman/internal/testkit"
)

// conformance/faults tests a bad network between Dragoman and a server. These are findings of it.

// A server of 2024-11-05 may do the work before it acknowledges the POST, or never acknowledge it: the answer on the stream counts.
func TestLateAcknowledgement(t *testing.T) {
	u := newUpstream(t, "sse")
	release := make(chan struct{})
	late := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			u.ServeHTTP(w, req)
			return
		}
		rec := httptest.NewRecorder()
		u.ServeHTTP(rec, req)
		if calls := u.all("tools/call"); len(calls) > 0 {
			select {
			case <-release:
			case <-req.Context().Done():
			}
		}
		w.WriteHeader(rec.Code)
	}))
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	r := startRig(t, "[upstreams.default]\nurl = \""+late+"/sse\"\n", true)
	began := time.Now()
	for range 2 {
		if res := r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...); !strings.Contains(res.body, `"content"`) {
			t.Fatal(res.body)
		}
	}
	if d := time.Since(began); d > testkit.Patient-time.Second {
		t.Errorf("two calls took %s", d)
	}
	close(release)
	if n := len(u.all("tools/call")); n != 2 {
		t.Errorf("%d calls received", n)
	}
}

// A legacy client over stdio whose session is lost can open another one in the same process.
func TestStdioClientOpensAnother(t *testing.T) {
	u := newUpstream(t, "sse")
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	r := startRig(t, u.toml(""), true)
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- (&downstream.Server{Handle: r.h.Handle, Store: r.h.Sessions(), In: theirs, Out: theirs, MaxLine: 1 << 20, Cap: testkit.Patient, InFlight: 4}).Serve(context.Background())
	}()
	lines := bufio.NewReader(ours)
	ask := func(text string) string {
		t.Helper()
		_ = ours.SetDeadline(time.Now().Add(testkit.Patient))
		if _, err := ours.Write([]byte(text + "\n")); err != nil {
			t.Fatal(err)
		}
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `"id":`) {
				return line
			}
		}
	}
	open := func() {
		t.Helper()
		if line := ask(stdioInit); !strings.Contains(line, `"result"`) {
			t.Fatal(line)
		}
		if _, err := ours.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")); err != nil {
			t.Fatal(err)
		}
		if line := ask(legacyCall("1", "a")); !strings.Contains(line, `"content"`) {
			t.Fatal(line)
		}
	}
	open()
	if line := ask(stdioInit); !strings.Contains(line, `"error"`) {
		t.Errorf("a session is open: %s", line)
	}
	u.on("initialize", func(c *call) { c.result(strings.Replace(welcomed, "%s", "2024-11-05", 1)) }) // otherwise another is opened automatically
	u.mu.Lock()
	for _, s := range u.streams {
		close(s.done)
	}
	u.mu.Unlock()
	var line string
	testkit.Eventually(t, "the session is lost", func() bool {
		line = ask(legacyCall("2", "a"))
		return strings.Contains(line, "upstream_session_lost")
	})
	mentions(t, line, "send initialize to open a new one")
	u.on("initialize", u.welcome)
	open()
	_ = ours.Close()
	if err := testkit.Receive(t, "the end of the client", served); err != nil {
		t.Error(err)
	}
}

// Requests in flight are answered before the client's stream ends when a session is lost, also if the answers are sent on that stream.
func TestSSEClientLearnsOfALostSession(t *testing.T) {
	for range 10 {
		u := newUpstream(t, "sse")
		began := make(chan struct{}, 1)
		u.on("tools/call", func(c *call) { began <- struct{}{}; <-c.cancelled })
		r := startRig(t, u.toml(""), true)
		c := r.sse("/sse")
		c.send(stdioInit)
		c.receives(`{"jsonrpc":"2.0","id":"i","result":…`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.send(legacyCall(`"7"`, "a"))
		testkit.Receive(t, "the call", began)
		u.mu.Lock()
		for _, s := range u.streams {
			close(s.done)
		}
		u.mu.Unlock()
		c.receives(`{"jsonrpc":"2.0","id":"7","error":{…"upstream_lost"…}`)
		if name, _ := c.event(); name != "" {
			t.Errorf("event %q", name)
		}
	}
}
