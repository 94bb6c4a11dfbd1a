package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

func TestMain(m *testing.M) {
	if file, child := os.LookupEnv(childKey); child {
		os.Exit(playChild(file))
	}
	goleak.VerifyTestMain(m)
}

// childKey makes the test binary a server on standard input and output. Its value is a file while which exists the server does not start.
const childKey = "TARGET_TEST_CHILD"

// playChild is a modern server with a tool t. The tool die ends it.
func playChild(file string) int {
	fmt.Fprintln(os.Stderr, "I am a child")
	if _, err := os.Stat(file); err == nil {
		return 7
	}
	in := json.NewDecoder(os.Stdin)
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			return 0
		}
		if m.Params.Name == "die" {
			return 3
		}
		if m.ID != nil {
			fmt.Printf("%s\n", m.answer())
		}
	}
}

// message is a request.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
}

// answer returns the response of a modern server with a tool t.
func (m *message) answer() []byte {
	result := `{"resultType":"complete","content":[]}`
	switch m.Method {
	case "server/discover":
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`
	case "tools/list":
		result = `{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}`
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

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
	r.Builder = Builder{Components: set, Touch: func() {}, Config: c, Log: zerolog.New(&r.logged), Self: []byte(`{"name":"dragoman","version":"1"}`), Pending: pending, Arrivals: httpclient.NewArrivals(c.Limits.ArrivingBytes),
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
	received []string      // "PATH METHOD AUTHORIZATION"
	status   int           // of requests that are no messages
	proceed  chan struct{} // the tool wait waits for it
	silent   bool          // it refuses all messages
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{status: http.StatusOK, proceed: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	var m message
	_ = json.NewDecoder(r.Body).Decode(&m)
	s.mu.Lock()
	s.received = append(s.received, strings.TrimSpace(r.URL.Path+" "+m.Method+" "+r.Header.Get("Authorization")))
	status, silent := s.status, s.silent
	s.mu.Unlock()
	if m.Method == "" || silent {
		w.WriteHeader(status)
		return
	}
	if m.Params.Name == "wait" {
		select {
		case <-s.proceed:
		case <-r.Context().Done():
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(m.answer())
}

// refuse makes the server refuse all messages, or none.
func (s *server) refuse(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = all
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
	return r.askFor(at, method, params, 20*time.Second)
}

// callFor is call, for a time at most.
func (r *rig) callFor(at, tool string, most time.Duration) error {
	r.t.Helper()
	_, err := r.askFor(at, "tools/call", fmt.Sprintf(`"name":%q,"arguments":{},`, tool), most)
	return err
}

func (r *rig) askFor(at, method, params string, most time.Duration) (string, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), most)
	defer cancel()
	m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params))
	if err != nil {
		r.t.Fatal(err)
	}
	ex := &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern, Version: "2026-07-28"}, Server: at}
	defer ex.Release()
	defer ex.Follow(ctx)()
	replies, err := r.Router.Do(ex)
	if err != nil {
		return "", err
	}
	answer, err := proxy.Response(replies, ex.GiveUp(most))
	return string(answer.Raw), err
}
