package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// rig is the proxy as serve assembles it, on a loopback port, in front of one upstream.
type rig struct {
	t    *testing.T
	h    *app.Generation
	base string // http://127.0.0.1:PORT
	http *http.Client
	logs *testkit.LockedBuffer
	srv  *httpserver.Server

	answer *response // see asks
}

// startApp assembles the proxy of a configuration text.
func startApp(t *testing.T, toml string) (*app.Generation, *testkit.LockedBuffer) {
	t.Helper()
	cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "rig.toml", toml)})
	if err != nil {
		t.Fatal(err)
	}
	logs := &testkit.LockedBuffer{}
	h, err := app.Assemble(cfg, cfg.Upstreams, zerolog.New(logs).Level(zerolog.DebugLevel))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		if t.Failed() && testing.Verbose() {
			t.Logf("log of the proxy:\n%s", logs)
		}
	})
	return h, logs
}

// startRig serves the configuration and, if probed, lets the upstream be probed in both eras first.
func startRig(t *testing.T, toml string, probed bool) *rig {
	t.Helper()
	h, logs := startApp(t, toml)
	srv, err := h.ClientServer()
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, srv, listen(t))
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	if probed {
		probeAll(t, h)
		readLists(t, h)
	}
	return &rig{t: t, h: h, base: "http://" + addr, logs: logs, srv: srv, http: &http.Client{Transport: transport}}
}

// listen opens a listener of the proxy on a free port.
func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := httpserver.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serve serves a listener of the proxy until the test ends, and returns its address.
func serve(t *testing.T, srv *httpserver.Server, ln net.Listener) (addr string) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("the proxy does not end: %v", err)
		}
		if err := testkit.Receive(t, "the end of Serve", served); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// probeAll probes the upstreams in both eras.
func probeAll(t *testing.T, h *app.Generation) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
	defer cancel()
	for _, u := range h.Targets.All {
		if _, err := u.Both(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// readLists has the lists of servers read of which several are one, and waits until they are.
func readLists(t *testing.T, h *app.Generation) {
	t.Helper()
	h.Targets.ReadLists()
	for c := h.Targets.Catalogue; c != nil; {
		now := c.Snapshot()
		if !slices.ContainsFunc(now.Servers, func(s *catalogue.Server) bool { return s.Presence != catalogue.There }) {
			return
		}
		select {
		case <-c.Changed(now.Version):
		case <-time.After(testkit.Patient):
			t.Fatal("the lists are not read")
		}
	}
}

// response is a whole HTTP answer.
type response struct {
	status int
	header http.Header
	body   string
}

// do sends a request and reads the whole answer. Headers are Name, value, Name, value.
func (r *rig) do(ctx context.Context, verb, path, body string, headers ...string) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, verb, r.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header[http.CanonicalHeaderKey(headers[i])] = append(req.Header[http.CanonicalHeaderKey(headers[i])], headers[i+1])
	}
	res, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	return &response{res.StatusCode, res.Header, string(raw)}, err
}

func (r *rig) must(verb, path, body string, headers ...string) *response {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), testkit.Patient)
	defer cancel()
	res, err := r.do(ctx, verb, path, body, headers...)
	if err != nil {
		r.t.Fatalf("%s %s: %v", verb, path, err)
	}
	return res
}

const (
	jsonType = "application/json"
	bothType = "application/json, text/event-stream"
	// modernMeta is the _meta of a client without capabilities.
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

// modernHeaders returns a modern client's headers for a method and, if not empty, a name.
func modernHeaders(method, name string) []string {
	h := []string{"Content-Type", jsonType, "Accept", bothType, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		h = append(h, "Mcp-Name", name)
	}
	return h
}

func legacyHeaders(session string) []string {
	h := []string{"Content-Type", jsonType, "Accept", bothType}
	if session != "" {
		h = append(h, "Mcp-Session-Id", session)
	}
	return h
}

// modernCall is the body of a modern tools/call.
func modernCall(id, name, extra string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{}%s,%s}}`, id, name, extra, modernMeta)
}

func legacyCall(id, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, name)
}

// open opens a legacy session and returns its id.
func (r *rig) open(version, caps string) string {
	r.t.Helper()
	res := r.must("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"c","version":"1"}}}`, version, caps), legacyHeaders("")...)
	id := res.header.Get("Mcp-Session-Id")
	if res.status != 200 || id == "" {
		r.t.Fatalf("initialize: %d %s", res.status, res.body)
	}
	if res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacyHeaders(id)...); res.status != 202 || res.body != "" {
		r.t.Fatalf("initialized: %d %q", res.status, res.body)
	}
	return id
}

// pipeMain makes this process a server that forwards: its standard input goes to the test, and the test's bytes go to its standard output.
// It exits when the test closes its side.
func pipeMain() {
	c, err := net.Dial("tcp", os.Getenv("DRAGOMAN_TEST_PIPE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, c)
	os.Exit(0)
}

// newTestServer serves until the test's end and returns its URL.
func newTestServer(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// sum adds up the series of a metric that have these labels: name, value, and so on.
func (r *rig) sum(metric string, labels ...string) (sum float64) {
	r.t.Helper()
	all, err := r.h.Metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range all {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			values := map[string]string{}
			for _, l := range m.GetLabel() {
				values[l.GetName()] = l.GetValue()
			}
			wanted := true
			for i := 0; i < len(labels); i += 2 {
				wanted = wanted && values[labels[i]] == labels[i+1]
			}
			if wanted {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// mentions fails unless text has all parts.
func mentions(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in: %s", part, text)
		}
	}
}

// reload writes a new configuration, reloads it, and continues with the new generation.
func (r *rig) reload(want, toml string) {
	r.t.Helper()
	if err := os.WriteFile(r.h.Cfg.Loaded.File, []byte(toml), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if got := r.h.App.Reload(r.t.Context(), r.srv, "a test"); got != want {
		r.t.Fatalf("%s, want %s; log: %s", got, want, r.logs)
	}
	r.h = r.h.App.Current.Load()
}
