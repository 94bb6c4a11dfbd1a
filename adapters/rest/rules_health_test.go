package rest

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/service"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// healthRig is a rig whose service has upstreams that the test switches, and real dependencies.
type healthRig struct {
	*rig
	s       *service.Service
	checks  *service.Checks
	mu      sync.Mutex
	up      []service.Dependency
	changed []service.State
}

func newHealthRig(t *testing.T, checks ...service.Check) *healthRig {
	t.Helper()
	w := &healthRig{}
	var err error
	if w.checks, err = service.StartChecks(checks, 2*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.checks.Close)
	w.s = service.New(service.Options{Upstreams: func() []service.Dependency {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(w.up)
	}, Others: w.checks.Last, Changed: func(_, to service.State) { w.changed = append(w.changed, to) }})
	w.rig = newRig(t, func(o *Options) {
		o.Health = ServeHealth(HealthOptions{Service: "code-graph-rag", Version: func(string) string { return "0.0.24" }, Now: func() time.Time { return clock },
			Health: func(string) (service.Health, *proxy.Error) { return w.s.Health(), nil }})
	})
	return w
}

// reach switches the upstreams: up0, up1 …
func (w *healthRig) reach(connected ...bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = nil
	for i, ok := range connected {
		d := service.Dependency{Name: "up" + string(rune('0'+i)), Connected: ok, Upstream: true}
		if !ok {
			d.Error = "not reached yet"
		}
		w.up = append(w.up, d)
	}
}

// is waits until GET /health has a status, and returns the answer.
func (w *healthRig) is(status string, code int) (a *answered) {
	w.t.Helper()
	testkit.Eventually(w.t, status, func() bool {
		a = w.ask("GET", "/health", "")
		got, _ := a.text("status")
		return got == status && a.status == code
	})
	return a
}

// dependencyShown is a dependency of an answer.
type dependencyShown struct {
	Status   string           `json:"status"`
	Error    *string          `json:"error"`
	Response *json.RawMessage `json:"response_time_ms"`
}

func (a *answered) dependencies(t *testing.T) map[string]dependencyShown {
	t.Helper()
	var all map[string]dependencyShown
	if err := json.Unmarshal(a.m["dependencies"], &all); err != nil || all == nil {
		t.Fatal(err, a.body)
	}
	return all
}

// listens returns a listener at an address that a test can close and open again.
func listens(t *testing.T, at string) net.Listener {
	t.Helper()
	var ln net.Listener
	testkit.Eventually(t, "a listener at "+at, func() bool { // old connections may still exist
		var err error
		ln, err = net.Listen("tcp", at)
		return err == nil
	})
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// Seed 000, HealthResponse: its fields and validation rules, with a real listener and dependencies that come and go.
func TestRulesHealth(t *testing.T) {
	db := listens(t, "127.0.0.1:0")
	at := db.Addr().String()
	w := newHealthRig(t, service.Check{Name: "memgraph", Address: at, Timeout: time.Second})
	w.reach(false, false)
	unavailable := w.is("unavailable", 503)
	w.reach(true, true)
	healthy := w.is("healthy", 200)
	_ = db.Close()
	degraded := w.is("degraded", 200)
	all := []*answered{healthy, degraded, unavailable}
	each := func(rule string, holds func(a *answered) bool) {
		t.Helper()
		t.Run(rule, func(t *testing.T) {
			for _, a := range all {
				if !holds(a) {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	text := func(a *answered, key string) string { s, _ := a.text(key); return s }
	each("rule 7.0 it is bare, with its members and no others", func(a *answered) bool {
		return slices.Equal(a.keys, []string{"status", "service", "version", "uptime_seconds", "dependencies", "timestamp"})
	})
	each("rule 7.1 status is one of three", func(a *answered) bool {
		return slices.Contains([]string{"healthy", "degraded", "unavailable"}, text(a, "status"))
	})
	each("rule 7.2 service is the configured name", func(a *answered) bool { return text(a, "service") == "code-graph-rag" })
	each("rule 7.3 version is that of the service", func(a *answered) bool { return text(a, "version") == "0.0.24" })
	each("rule 7.4 uptime_seconds is an integer", func(a *answered) bool { return notNegative.Match(a.m["uptime_seconds"]) })
	each("rule 7.6 timestamp is ISO 8601", func(a *answered) bool { return isoMillis.MatchString(text(a, "timestamp")) })
	t.Run("rule 7.5 dependencies have names, a status, and an error where they are missing", func(t *testing.T) {
		for _, a := range all {
			ds := a.dependencies(t)
			if len(ds) != 3 {
				t.Error(a.body)
			}
			for name, d := range ds {
				if d.Status != "connected" && d.Status != "unavailable" || (d.Status == "connected") != (d.Error == nil) {
					t.Errorf("%s: %+v", name, d)
				}
			}
		}
	})
	t.Run("rule 7.7 healthy is when all are connected", func(t *testing.T) { ruleStatus(t, healthy, "connected", "connected", "connected") })
	t.Run("rule 7.8 degraded is when some are not and it serves", func(t *testing.T) { ruleStatus(t, degraded, "unavailable", "connected", "connected") })
	t.Run("rule 7.9 unavailable is when nothing can be served", func(t *testing.T) {
		w.reach(false, false)
		ruleStatus(t, w.is("unavailable", 503), "unavailable", "unavailable", "unavailable")
	})
	t.Run("rule 7.11 a status goes with each", func(t *testing.T) { // w.is has compared them
		for i, want := range []int{200, 200, 503} {
			if all[i].status != want {
				t.Error(all[i].status, all[i].body)
			}
		}
	})
	t.Run("rule 7.12 response_time_ms of what was asked", func(t *testing.T) {
		for name, d := range healthy.dependencies(t) {
			if (d.Response != nil) != (name == "memgraph") || d.Response != nil && !notNegative.Match(*d.Response) {
				t.Errorf("%s: %s", name, healthy.body)
			}
		}
	})
	t.Run("rule 4.15 DEGRADED to HEALTHY when all are back", func(t *testing.T) {
		w.reach(true, true)
		w.is("degraded", 200)
		listens(t, at)
		w.is("healthy", 200)
	})
	t.Run("rule 7.13 of one name there is one dependency", func(t *testing.T) { ruleOneName(t) })
}

// ruleStatus compares the dependencies memgraph, up0 and up1 of an answer.
func ruleStatus(t *testing.T, a *answered, want ...string) {
	t.Helper()
	ds := a.dependencies(t)
	if got := []string{ds["memgraph"].Status, ds["up0"].Status, ds["up1"].Status}; !slices.Equal(got, want) {
		t.Errorf("%v: %s", got, a.body)
	}
}

// An upstream and a dependency may have the same name; the one that is missing is shown.
func ruleOneName(t *testing.T) {
	silent := listens(t, "127.0.0.1:0")
	w := newHealthRig(t, service.Check{Name: "up0", Address: silent.Addr().String(), Timeout: time.Second}, service.Check{Name: "up1", Address: "127.0.0.1:1", Timeout: time.Second})
	w.reach(true, true)
	testkit.Eventually(t, "a look at up0", func() bool { return w.checks.Last()[0].Connected })
	testkit.Eventually(t, "a look at up1", func() bool { return w.checks.Last()[1].Took > 0 })
	for _, up := range []bool{true, false} {
		w.reach(up, true)
		a := w.ask("GET", "/health", "")
		ds := a.dependencies(t)
		if len(ds) != 2 || (ds["up0"].Status == "connected") != up || ds["up1"].Status != "unavailable" || (ds["up0"].Error == nil) != up {
			t.Error(a.body)
		}
		var m struct{ Dependencies json.RawMessage }
		if err := json.Unmarshal([]byte(a.body), &m); err != nil {
			t.Fatal(err)
		}
		inner := &answered{what: "dependencies", body: string(m.Dependencies)}
		inner.take(t) // fails for a repeated name
	}
}

// Seed 000, HealthResponse: uptime_seconds counts from the start, and never below zero.
func TestRulesUptime(t *testing.T) {
	t.Run("rule 7.10 uptime_seconds is not negative", func(t *testing.T) {
		for up, want := range map[time.Duration]string{-time.Hour: "0", 0: "0", 999 * time.Millisecond: "0", 7200*time.Second + 1: "7200"} {
			r := newRig(t, func(o *Options) {
				o.Health = ServeHealth(HealthOptions{Service: "s", Version: func(string) string { return "1.0.0" },
					Health: func(string) (service.Health, *proxy.Error) {
						return service.Health{Status: service.StatusHealthy, Uptime: up}, nil
					}})
			})
			if a := r.ask("GET", "/health", ""); string(a.m["uptime_seconds"]) != want {
				t.Errorf("%v: %s", up, a.body)
			}
		}
	})
}

// Seed 000, State Transitions: as GET /health shows them, and their order.
func TestRulesStates(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	w := newHealthRig(t, service.Check{Name: "db", Address: srv.Listener.Addr().String(), Timeout: time.Second})
	testkit.Eventually(t, "a look at db", func() bool { return w.checks.Last()[0].Connected })
	step := func(rule, status string, code int, want service.State, change func()) {
		t.Helper()
		t.Run(rule, func(t *testing.T) {
			change()
			w.is(status, code)
			if got := w.s.Health().State; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
	step("rule 4.13 it begins in INITIALIZING", "unavailable", 503, service.Initializing, func() { w.reach(false, false) })
	step("rule 4.13 INITIALIZING to HEALTHY when everything is there", "healthy", 200, service.Healthy, func() { w.reach(true, true) })
	step("rule 4.14 HEALTHY to DEGRADED when something is missing", "degraded", 200, service.Degraded, func() { w.reach(true, false) })
	step("rule 4.15 DEGRADED to HEALTHY", "healthy", 200, service.Healthy, func() { w.reach(true, true) })
	step("rule 4.16 any to SHUTTING_DOWN", "unavailable", 503, service.ShuttingDown, w.s.ShutDown)
	step("rule 4.16 nothing leads back", "unavailable", 503, service.ShuttingDown, func() { w.reach(true, true) })
	step("rule 4.17 SHUTTING_DOWN to STOPPED", "unavailable", 503, service.Stopped, w.s.Stop)
	want := []service.State{service.Healthy, service.Degraded, service.Healthy, service.ShuttingDown, service.Stopped}
	if !slices.Equal(w.changed, want) {
		t.Errorf("%v, want %v", w.changed, want)
	}
	for _, from := range []service.State{service.Initializing, service.Degraded} {
		t.Run("rule 4.16 "+string(from)+" to SHUTTING_DOWN", func(t *testing.T) {
			s := service.New(service.Options{Upstreams: func() []service.Dependency {
				return []service.Dependency{{Name: "a", Upstream: true, Connected: from == service.Degraded}, {Name: "b"}}
			}})
			if got := s.Health().State; got != from {
				t.Fatal(got)
			}
			s.ShutDown()
			if got := s.Health().State; got != service.ShuttingDown {
				t.Error(got)
			}
		})
	}
}
