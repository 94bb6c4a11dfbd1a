package service

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Seed 000, State Transitions and HealthResponse: the state follows the dependencies, the status what the service can do.
func TestStates(t *testing.T) {
	var up []Dependency
	var seen []State
	s := New(Options{Upstreams: func() []Dependency { return slices.Clone(up) }, Changed: func(from, to State) { seen = append(seen, from, to) }})
	f := func(state State, status Status, connected ...bool) {
		t.Helper()
		up = nil
		for i, c := range connected {
			up = append(up, Dependency{Name: "up" + strconv.Itoa(i), Connected: c, Upstream: i < 2})
		}
		if h := s.Health(); h.State != state || h.Status != status || h.Uptime < 0 || len(h.Dependencies) != len(connected) {
			t.Errorf("%v: %+v, want %s %s", connected, h, state, status)
		}
	}
	f(Initializing, StatusUnavailable)
	f(Initializing, StatusUnavailable, false, false, true)
	f(Degraded, StatusDegraded, true, false, true)
	f(Healthy, StatusHealthy, true, true, true)
	f(Degraded, StatusDegraded, true, true, false)
	f(Healthy, StatusHealthy, true, true, true)
	f(Degraded, StatusUnavailable, false, false, true) // no server is left, but the service is not initializing again
	f(Degraded, StatusDegraded, true, false, true)
	for name, want := range map[string]Status{"up0": StatusHealthy, "up1": StatusUnavailable, "up9": StatusUnavailable} {
		if h := s.Health().Only([]string{name}); h.Status != want || h.State != Degraded || len(h.Dependencies) != 2 && name != "up9" {
			t.Errorf("%s alone: %+v", name, h)
		}
	}
	f(Healthy, StatusHealthy, true)
	s.Stop() // too early
	f(Healthy, StatusHealthy, true)
	s.ShutDown()
	f(ShuttingDown, StatusUnavailable, true)
	s.Stop()
	s.ShutDown()
	f(Stopped, StatusUnavailable, true)
	want := []State{Initializing, Degraded, Degraded, Healthy, Healthy, Degraded, Degraded, Healthy, Healthy, Degraded, Degraded, Healthy, Healthy, ShuttingDown, ShuttingDown, Stopped}
	if !slices.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
}

// Dependencies are checked regularly, by connection or by request, and errors are in words.
func TestChecks(t *testing.T) {
	var status atomic.Int32
	status.Store(200)
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := int(status.Load()); n > 0 {
			w.WriteHeader(n)
			return
		}
		<-release
	}))
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := closed.Addr().String()
	_ = closed.Close()
	at := srv.Listener.Addr().String()
	c, err := StartChecks([]Check{
		{Name: "http", URL: "http://" + at + "/health", Timeout: 200 * time.Millisecond},
		{Name: "tcp", Address: at, Timeout: time.Second},
		{Name: "gone", Address: gone, Timeout: time.Second},
	}, 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f := func(i int, connected bool, text string) {
		t.Helper()
		testkit.Eventually(t, text, func() bool {
			d := c.Last()[i]
			return d.Connected == connected && strings.HasPrefix(d.Error, text) && (text != "") == (d.Error != "") && d.Took > 0 && !d.Upstream
		})
	}
	f(0, true, "")
	f(1, true, "")
	f(2, false, "Connection refused")
	status.Store(503)
	f(0, false, "HTTP status 503")
	status.Store(0)
	f(0, false, "Connection timeout after 200ms")
	status.Store(204)
	close(release)
	f(0, true, "")
	srv.Close()
	f(0, false, "Connection refused")
	f(1, false, "Connection refused")
	if _, err := StartChecks([]Check{{Name: "x", URL: "ftp://x"}}, time.Second); err == nil || !strings.Contains(err.Error(), "dependencies.x") {
		t.Error(err)
	}
}

// Before the first check has ended a dependency is not "connected"; Close does not wait for an answer.
func TestChecksUnknown(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := StartChecks([]Check{{Name: "silent", URL: "http://" + ln.Addr().String(), Timeout: time.Hour}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if d := c.Last()[0]; d.Connected || d.Error == "" {
		t.Errorf("%+v", d)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	closed := make(chan struct{})
	go func() { c.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for an answer")
	}
}
