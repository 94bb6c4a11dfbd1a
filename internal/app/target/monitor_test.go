package target

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/era/sessions"
	"dragoman/adapters/service"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// A check asks by the protocol, or requests a URL until the protocol is known; the server's own credentials go to its own origin only.
func TestChecks(t *testing.T) {
	own, other := newServer(t), newServer(t)
	head := fmt.Sprintf("[upstreams.a]\nurl = \"%s/mcp\"\nheaders = { Authorization = \"Bearer x\" }\n", own.URL)
	for name, test := range map[string]struct {
		url        string
		own, other []string
	}{
		"protocol":     {"", []string{"/mcp server/discover Bearer x"}, nil},
		"same origin":  {own.URL + "/health", []string{"/health  Bearer x", "/mcp server/discover Bearer x"}, nil},
		"other origin": {other.URL + "/health", []string{"/mcp server/discover Bearer x"}, []string{"/health"}},
	} {
		toml := head
		if test.url != "" {
			toml += fmt.Sprintf("health_check_url = %q\n", test.url)
		}
		r := build(t, toml)
		a := r.Named("a")
		if err := a.Check(t.Context()); err != nil || !a.Ready() {
			t.Errorf("%s: %v, ready: %v", name, err, a.Ready())
		}
		if got, elsewhere := own.heard(), other.heard(); !slices.Equal(got, test.own) || !slices.Equal(elsewhere, test.other) {
			t.Errorf("%s: the server has received %q, another %q", name, got, elsewhere)
		}
		if err := a.Check(t.Context()); err != nil {
			t.Errorf("%s, again: %v", name, err)
		}
		if got := own.heard(); test.url != "" && slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "discover") }) {
			t.Errorf("%s: a server that is known is probed: %q", name, got)
		}
		other.heard()
	}
}

// The monitor checks the server from the activation on.
func TestChecksBeginOnActivation(t *testing.T) {
	s := newServer(t)
	r := build(t, fmt.Sprintf("[upstreams.a]\nurl = \"%s/mcp\"\n", s.URL))
	r.Named("a").Monitor.Recheck()
	testkit.Eventually(t, "a check", func() bool { return r.Named("a").State().Connected })
}

// A REST service is checked by its own health.
func TestChecksOfServices(t *testing.T) {
	for status, fails := range map[int]bool{200: false, 503: true} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"status":"healthy","tools":[]}`))
		}))
		defer s.Close()
		r := build(t, fmt.Sprintf("[upstreams.a]\nurl = %q\ntransport = \"rest\"\n", s.URL))
		if err := r.Named("a").Check(t.Context()); (err != nil) != fails {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// A URL that answers with a status from 300 on, or not at all, is a failed check.
func TestChecksThatFail(t *testing.T) {
	s := newServer(t)
	r := build(t, fmt.Sprintf("[upstreams.a]\nurl = \"%s/mcp\"\nhealth_check_url = \"%s/health\"\n", s.URL, s.URL))
	a := r.Named("a")
	for status, want := range map[int]proxy.Fault{204: {}, 299: {}, 300: proxy.HTTPStatus, 404: proxy.HTTPStatus, 503: proxy.HTTPStatus} {
		s.mu.Lock()
		s.status = status
		s.mu.Unlock()
		err := a.Check(t.Context())
		if want.Name == "" && err != nil || want.Name != "" && !proxy.IsFault(err, want) {
			t.Errorf("%d: %v", status, err)
		}
	}
	s.CloseClientConnections()
	s.Close()
	if err := a.Check(t.Context()); !proxy.IsFault(err, proxy.Unreachable, proxy.Lost) {
		t.Errorf("a server that is gone: %v", err)
	}
}

// fails has a number of probes fail, each of which began after the failure of the one before.
func (t *Target) fails(n int, err error) {
	for range n {
		t.Tried(time.Now().Add(time.Hour), err)
	}
}

// A server in error leaves its requests to its fallback; one without refuses them.
func TestFallback(t *testing.T) {
	down := proxy.Errf(proxy.Unreachable, "down")
	a, b := newServer(t), newServer(t)
	r := build(t, fmt.Sprintf("[upstreams.a]\nurl = \"%s/mcp\"\nfallback = \"b\"\n[upstreams.b]\nurl = \"%s/mcp\"\n", a.URL, b.URL))
	for _, name := range []string{"a", "b"} {
		if _, err := r.call(name, "t"); err != nil {
			t.Fatal(err)
		}
	}
	a.heard()
	b.heard()
	r.Named("a").fails(3, down)
	if _, err := r.call("a", "t"); err != nil || len(a.heard()) != 0 || len(b.heard()) == 0 {
		t.Errorf("the fallback: %v", err)
	}
	r.Named("b").fails(3, down)
	if _, err := r.call("b", "t"); !proxy.IsFault(err, proxy.UpstreamDown) {
		t.Errorf("without a fallback: %v", err)
	}
}

// The state of a server says whether it is connected, and if not why.
func TestStates(t *testing.T) {
	s := newServer(t)
	r := build(t, fmt.Sprintf("[upstreams.a]\nurl = \"%s/mcp\"\n", s.URL))
	a := r.Named("a")
	is := func(what string, want service.Dependency) {
		t.Helper()
		got := r.States()[0]
		if got.Name != "a" || got.State != want.State || got.Connected != want.Connected || !strings.Contains(got.Error, want.Error) || (got.Error == "") != (want.Error == "") || !strings.Contains(got.Warning, want.Warning) || (got.Warning == "") != (want.Warning == "") {
			t.Errorf("%s: %+v\nwant %+v", what, got, want)
		}
	}
	is("before", service.Dependency{State: "DISCONNECTED", Error: "not reached yet"})
	a.Trying()
	is("trying", service.Dependency{State: "CONNECTING", Error: "not reached yet"})
	if _, err := r.call("a", "t"); err != nil {
		t.Fatal(err)
	}
	is("reached", service.Dependency{State: "CONNECTED", Connected: true})
	lost := proxy.Errf(proxy.Unreachable, "no way: %w", errors.New("secret"))
	for n, want := range []service.Dependency{{State: "CONNECTED", Connected: true}, {State: "DEGRADED", Connected: true, Warning: "upstream_unreachable"}, {State: "ERROR", Error: "upstream_unreachable"}} {
		a.fails(1, lost)
		is(fmt.Sprint(n+1, " failures"), want)
	}
}

// A span names the server that it is about as its address says.
func TestPeer(t *testing.T) {
	for at, want := range map[string]telemetry.Peer{
		"":                        {Transport: "pipe"},
		"unix:/run/s":             {Transport: "unix", Address: "/run/s"},
		"tcp://h:7":               {Transport: "tcp", Address: "h", Port: 7},
		"http://h/mcp":            {Transport: "tcp", Address: "h", Port: 80, Protocol: "http"},
		"https://h/mcp":           {Transport: "tcp", Address: "h", Port: 443, Protocol: "http"},
		"https://[::1]:8443/mcp":  {Transport: "tcp", Address: "::1", Port: 8443, Protocol: "http"},
		"http://h:\x7f/mcp":       {Transport: "pipe"},
		"http://h/ of no command": {Transport: "tcp", Address: "h", Port: 80, Protocol: "http"},
	} {
		up := &config.Upstream{Name: "a", URL: at}
		if at == "" {
			up.Command, up.URL = []string{"x"}, "http://h"
		}
		want.Name = "a"
		if got := peer(up); got.Name != want.Name || got.Transport != want.Transport || got.Address != want.Address || got.Port != want.Port || got.Protocol != want.Protocol {
			t.Errorf("%q: %+v, want %+v", at, got, want)
		}
	}
	if clientSpan(nil, &config.Upstream{}, nil) != nil {
		t.Error("there is a span without tracing")
	}
}

// How a server is used follows from its configuration.
func TestSettings(t *testing.T) {
	c := load(t, `
[upstreams.http]
url = "http://127.0.0.1:1/mcp"
isolation = "principal"
declare = "all"
[upstreams.child]
command = ["x"]
max_processes = 7
isolation = "pool(3)"
tasks = "drive"
[upstreams.socket]
url = "tcp://127.0.0.1:1"
isolation = "shared"
`)
	for name, want := range map[string]struct {
		lines, all, drives bool
		processes          int
		isolation          sessions.Isolation
	}{
		"http":   {false, true, false, 0, sessions.Isolation{Sharing: sessions.ByPrincipal}},
		"child":  {true, false, true, 7, sessions.Isolation{Sharing: sessions.Pooled, Size: 3}},
		"socket": {true, false, false, 0, sessions.Isolation{Sharing: sessions.Shared}},
	} {
		s := ProfileSettings(c, name)
		if s.Stdio != want.lines || s.DeclareAll != want.all || s.DriveTasks != want.drives || s.Isolation != want.isolation || maxProcesses(c.Upstream(name)) != want.processes {
			t.Errorf("%s: %+v, %d processes", name, s, maxProcesses(c.Upstream(name)))
		}
	}
}
