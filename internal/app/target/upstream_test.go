package target

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// child returns the configuration of a server that is a child process, which does not start while there is a file.
func child(t *testing.T, file, more string) string {
	t.Helper()
	return fmt.Sprintf("[upstreams.a]\ncommand = [%q]\nenv = { %s = %q, GORACE = \"atexit_sleep_ms=0\" }\n%s", testkit.Executable(t), childKey, file, more)
}

// Lines on the standard error of a child are logged at the level that is configured, or not at all.
func TestStandardError(t *testing.T) {
	for level, want := range map[string]string{"info": `"level":"info"`, "warn": `"level":"warn"`, "off": ""} {
		r := build(t, child(t, "none", fmt.Sprintf("stderr = %q\n", level)))
		if _, err := r.call("a", "t"); err != nil {
			t.Fatal(err)
		}
		line := func() string {
			for line := range strings.Lines(r.logged.String()) {
				if strings.Contains(line, "I am a child") {
					return line
				}
			}
			return ""
		}
		if want == "" {
			r.Components.Close()
			if got := line(); got != "" {
				t.Errorf("%s: logged %s", level, got)
			}
			continue
		}
		testkit.Eventually(t, "a line in the log", func() bool { return line() != "" })
		if got := line(); !strings.Contains(got, want) || strings.Contains(r.logged.String(), "too much") {
			t.Errorf("%s: logged %s", level, got)
		}
	}
}

// A child that cannot be started makes its server unavailable, with the reason, until the circuit of its starts lets one through.
func TestChildrenThatDoNotStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "down")
	r := build(t, child(t, file, "crash_limit = 1\ncrash_pause = \"3s\"\n"))
	a := r.Named("a")
	if _, err := r.call("a", "t"); err != nil || !a.State().Connected {
		t.Fatalf("%v, %+v", err, a.State())
	}
	if got := r.gauge("dragoman_upstream_circuit_open"); got != 0 {
		t.Errorf("the circuit is open: %v", got)
	}
	testkit.PutFile(t, file, "")
	_, _ = r.call("a", "die")
	testkit.Eventually(t, "the child is gone", func() bool { _, err := r.call("a", "t"); return err != nil })
	for a.Dialer.Health().State == "closed" {
		if _, err := r.call("a", "t"); err == nil {
			t.Fatal("a child was started")
		}
	}
	if s := a.State(); s.Connected || !strings.Contains(s.Error, "starts in a row failed") || s.State != "ERROR" || r.gauge("dragoman_upstream_circuit_open") != 1 {
		t.Errorf("open: %+v", s)
	}
	if !strings.Contains(r.logged.String(), "the circuit of the server's starts has changed") {
		t.Errorf("logged %s", &r.logged)
	}
	testkit.Eventually(t, "the end of the pause", func() bool { return a.Dialer.Health().State != "open" })
	if s := a.State(); !s.Connected || s.State != "CONNECTING" || s.Error != "" {
		t.Errorf("half-open: %+v", s)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := r.call("a", "t"); err != nil {
		t.Errorf("again: %v, %+v", err, a.State())
	}
	testkit.Eventually(t, "the server is connected again", func() bool { return a.State().State == "CONNECTED" })
}

// gauge returns the value of a metric; -1: there is none.
func (r *rig) gauge(name string) float64 {
	r.t.Helper()
	all, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// Only child processes have metrics of processes, and only servers with a token have one of tokens.
func TestMetrics(t *testing.T) {
	r := build(t, "[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"\n")
	for name, want := range map[string]float64{"dragoman_upstream_processes": -1, "dragoman_upstream_tokens": -1, "dragoman_upstream_ready": 0, "dragoman_upstream_sessions": 0} {
		if got := r.gauge(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := build(t, child(t, "none", "")).gauge("dragoman_upstream_processes"); got != 0 {
		t.Errorf("a child: %v", got)
	}
}

// An account that there is none of is an error of the configuration, which names the upstream.
func TestUnknownAccount(t *testing.T) {
	r := build(t, child(t, "none", ""))
	up := *r.Config.Upstreams[0]
	up.Name, up.User = "b", "no-such-user-here"
	if _, err := r.Build([]*config.Upstream{&up}); err == nil || !strings.Contains(err.Error(), "upstreams.b") {
		t.Errorf("%v", err)
	}
}

// A child of another user does not get the directories of Dragoman's.
func TestEnvironment(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/mine")
	up := &config.Upstream{ProcessConfig: config.ProcessConfig{EnvInherit: []string{"XDG_*"}}}
	if own := environment(up, nil); !slices.Contains(own, "XDG_DATA_HOME=/mine") {
		t.Errorf("of its own user: %q", own)
	}
	if other := environment(up, []string{"HOME=/theirs"}); slices.Contains(other, "XDG_DATA_HOME=/mine") || !slices.Contains(other, "HOME=/theirs") {
		t.Errorf("of another: %q", other)
	}
}

// A line of the log says how many lines before it were left out, if some were.
func TestRepeated(t *testing.T) {
	for left, want := range map[int]string{0: `{"message":"x"}`, 2: `{"repeated":2,"message":"x"}`} {
		var out strings.Builder
		log := zerolog.New(&out)
		if repeated(log.Log(), left).Msg("x"); strings.TrimSpace(out.String()) != want {
			t.Errorf("%d: %s", left, &out)
		}
	}
}

// A token is got with the credentials where the configuration says, sent to the server, and in no error.
func TestTokens(t *testing.T) {
	for auth, want := range map[string]string{"basic": "Basic aWQ6c2VjcmV0 ", "post": " secret"} {
		var asked string
		tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Header.Get("Authorization") + " " + r.FormValue("client_secret")
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token":"token-of-mine","token_type":"Bearer","expires_in":3600}`))
		}))
		defer tokens.Close()
		s := newServer(t)
		r := build(t, fmt.Sprintf("[upstreams.a]\nurl = \"%s/mcp\"\noauth = { token_url = \"%s/token\", client_id = \"id\", client_secret = \"secret\", client_auth = %q }\n", s.URL, tokens.URL, auth))
		if _, err := r.call("a", "t"); err != nil || asked != want || !slices.Contains(s.heard(), "/mcp tools/call Bearer token-of-mine") || r.gauge("dragoman_upstream_tokens") != 1 {
			t.Errorf("%s: asked with %q, %v", auth, asked, err)
		}
		if err := r.Named("a").Hide.Error(t.Context(), errors.New("it says token-of-mine")); strings.Contains(err.Error(), "token-of-mine") {
			t.Errorf("%s: %v", auth, err)
		}
	}
}

// A server's secrets are hidden in what it says; one that knows none is taken at its word.
func TestHiding(t *testing.T) {
	r := build(t, "[upstreams.none]\nurl = \"http://127.0.0.1:1/mcp\"\n[upstreams.header]\nurl = \"http://127.0.0.1:1/mcp\"\nheaders = { X-Key = \"the-secret-key\" }\n"+
		"[upstreams.forward]\nurl = \"http://127.0.0.1:1/mcp\"\nforward_headers = { X-Key = \"X-Key\" }\n"+strings.Replace(child(t, "none", ""), "GORACE", "KEY = \"the-secret-key\", GORACE", 1))
	for name, want := range map[string]bool{"none": false, "header": true, "forward": true, "a": true} {
		if hide := r.Named(name).Hide; (hide != nil) != want {
			t.Errorf("%s: something is hidden: %v", name, hide != nil)
		}
	}
	for _, name := range []string{"header", "a"} {
		if err := r.Named(name).Hide.Error(t.Context(), errors.New("it says the-secret-key")); strings.Contains(err.Error(), "the-secret-key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Limits of a tool are those of that tool only.
func TestLimitsOfTools(t *testing.T) {
	s := newServer(t)
	r := build(t, fmt.Sprintf("[upstreams.a]\nurl = \"%s/mcp\"\n[upstreams.a.tools.t]\nrate_limit = 1\n[upstreams.a.tools.wait]\nconcurrency = 1\n[upstreams.a.tools.u]\ntimeout = \"9s\"\n", s.URL))
	for n, want := range []bool{false, true} {
		if _, err := r.call("a", "t"); proxy.IsFault(err, proxy.TooFast) != want {
			t.Errorf("call %d: %v", n, err)
		}
	}
	for range 3 {
		if _, err := r.call("a", "u"); err != nil {
			t.Errorf("a tool without limits: %v", err)
		}
	}
	s.heard()
	done := make(chan error, 1)
	go func() { _, err := r.call("a", "wait"); done <- err }()
	testkit.Eventually(t, "the first call at the server", func() bool { return slices.Contains(s.heard(), "/mcp tools/call") })
	if err := r.callFor("a", "wait", 50*time.Millisecond); err == nil || len(s.heard()) != 0 {
		t.Errorf("a second call beside it: %v", err)
	}
	close(s.proceed)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A server whose transport is HTTP+SSE, or not known, is asked for its stream; one of streamable HTTP is not.
func TestTransports(t *testing.T) {
	for transport, want := range map[string][]string{"http": {"/mcp server/discover", "/mcp initialize"}, "sse": {"/mcp"}} {
		s := newServer(t)
		s.refuse(true)
		r := build(t, fmt.Sprintf("[upstreams.a]\nurl = \"%s/mcp\"\ntransport = %q\n", s.URL, transport))
		_, err := r.call("a", "t")
		heard := s.heard()
		if err == nil || slices.Contains(heard, "/mcp") != slices.Contains(want, "/mcp") || !slices.Contains(heard, want[0]) {
			t.Errorf("%s: %v, the server has received %q", transport, err, heard)
		}
	}
}

// What is no target any more refuses nothing, and tells of no resource.
func TestRulesOfARemovedTarget(t *testing.T) {
	var gone *Target
	if err := gone.Refuse(&proxy.Exchange{}); err != nil {
		t.Error(err)
	}
	for method, want := range map[string]bool{"notifications/resources/updated": false, "notifications/tools/list_changed": true} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"` + method + `","params":{"uri":"x"}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := gone.notice(proxy.Caller{}, &m); got != want {
			t.Errorf("%s: %v", method, got)
		}
	}
}
