package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"dragoman/adapters/era/input"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/policies/access"
	"dragoman/policies/limits"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig holds the targets of a configuration, which are active.
type rig struct {
	*Set
	Builder
	t        *testing.T
	registry *prometheus.Registry
	logged   testkit.LockedBuffer
}

// load reads a configuration, whose catalogue is in memory unless it says otherwise.
func load(t *testing.T, toml string) *config.Config {
	t.Helper()
	if !strings.Contains(toml, "catalogue.path") {
		toml = "catalogue.path = \"memory\"\n" + toml
	}
	c, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "c.toml", toml)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// build makes the targets of a configuration, and activates them.
func build(t *testing.T, toml string) *rig {
	t.Helper()
	r := &rig{t: t, registry: prometheus.NewRegistry()}
	c := load(t, toml)
	q, others := c.Questions, prometheus.NewRegistry()
	pending, err := input.NewStore(input.Options{TTL: q.TTL, Settle: q.Settle, LeaseWait: q.LeaseWait, MaxParked: q.MaxParked, MaxPerPrincipal: q.MaxParkedPerPrincipal, Rounds: q.Rounds})
	if err != nil {
		t.Fatal(err)
	}
	rate, err := limits.NewRate(limits.RateOptions{}, others)
	if err != nil {
		t.Fatal(err)
	}
	filtered, err := access.NewFilterMetric(others)
	if err != nil {
		t.Fatal(err)
	}
	set := component.NewRegistry(r.registry).NewSet(nil)
	r.Builder = Builder{Components: set, Config: c, Log: zerolog.New(&r.logged), Self: []byte(`{"name":"dragoman","version":"1"}`), Pending: pending, Arrivals: httpclient.NewArrivals(c.Limits.ArrivingBytes),
		Rate: rate, Filtered: filtered, Current: func(name string) *Target { return r.Named(name) }, Router: proxy.NewRouter(proxy.NewTable(nil))}
	if r.Set, err = r.Build(c.Upstreams); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Activate(func() { r.Router.Swap(r.Table) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return r
}

// server is a modern server over HTTP with a tool t, which notes what it receives.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	received []string // "PATH METHOD AUTHORIZATION"
	status   int      // of requests that are no messages
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{status: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	s.mu.Lock()
	s.received = append(s.received, strings.TrimSpace(r.URL.Path+" "+m.Method+" "+r.Header.Get("Authorization")))
	status := s.status
	s.mu.Unlock()
	result := `{"resultType":"complete","content":[]}`
	switch m.Method {
	case "":
		w.WriteHeader(status)
		return
	case "server/discover":
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`
	case "tools/list":
		result = `{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// heard returns what the server has received since the last look, without repetitions.
func (s *server) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.received
	s.received = nil
	slices.Sort(all)
	return slices.Compact(all)
}

// call calls a tool of a server, or of an endpoint of several, and returns the response.
func (r *rig) call(at, tool string) (string, error) {
	r.t.Helper()
	return r.ask(at, "tools/call", fmt.Sprintf(`"name":%q,"arguments":{},`, tool))
}

// list lists the tools of a server, or of an endpoint of several.
func (r *rig) list(at string) (string, error) { r.t.Helper(); return r.ask(at, "tools/list", "") }

func (r *rig) ask(at, method, params string) (string, error) {
	r.t.Helper()
	m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params))
	if err != nil {
		r.t.Fatal(err)
	}
	ex := &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern, Version: "2026-07-28"}, Server: at}
	defer ex.Release()
	defer ex.Follow(context.WithoutCancel(r.t.Context()))()
	replies, err := r.Router.Do(ex)
	if err != nil {
		return "", err
	}
	answer, err := proxy.Response(replies, ex.GiveUp(20e9))
	return string(answer.Raw), err
}
