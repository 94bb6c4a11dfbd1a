package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// fakeService is a service with answers of the test, and the Upstream in front of it.
type fakeService struct {
	t    *testing.T
	u    *Upstream
	url  string
	mu   sync.Mutex
	on   map[string]http.HandlerFunc // by verb and path
	seen []string                    // verb, path, Accept and body
}

// fixed answers with a status and a body.
func fixed(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const (
	toolsAnswer   = `{"service":"code-graph-rag","version":"0.0.24","tools":[]}`
	healthyAnswer = `{"status":"healthy","service":"code-graph-rag","version":"0.0.24","uptime_seconds":7200,"dependencies":{},"timestamp":"2025-12-09T14:30:00.000Z"}`
)

// hostOf returns the pool of a server, closed at the end of the test.
func hostOf(t testing.TB, url string) *httpclient.Host {
	t.Helper()
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: url, Proxy: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	return host
}

func newFakeService(t *testing.T, base string, on map[string]http.HandlerFunc) *fakeService {
	t.Helper()
	s := &fakeService{t: t, on: on}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.u, s.url = New(hostOf(t, srv.URL+base), base, httpcall.Limits{Body: 1 << 20, Event: 1 << 16}), srv.URL
	return s
}

// ServeHTTP implements http.Handler.
func (s *fakeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	handle := s.on[r.Method+" "+r.URL.RequestURI()]
	s.seen = append(s.seen, fmt.Sprintf("%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Accept"), body))
	s.mu.Unlock()
	if handle == nil {
		http.NotFound(w, r)
		return
	}
	handle(w, r)
}

// requests returns the requests so far.
func (s *fakeService) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// last returns the last request.
func (s *fakeService) last() string {
	all := s.requests()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// newExchange makes an exchange of a modern client.
func newExchange(t testing.TB, method, params string, with ...func(*proxy.Exchange)) *proxy.Exchange {
	t.Helper()
	if params == "" {
		params = "{}"
	}
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"q\u0031","method":"` + method + `","params":` + params + `}`))
	if err != nil {
		t.Fatal(err)
	}
	ex := &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Caps: []byte("{}")}}
	for _, f := range with {
		f(ex)
	}
	return ex
}

// call makes a call and returns all messages as text, the response last.
func (s *fakeService) call(method, params string, with ...func(*proxy.Exchange)) (out []string, err error) {
	s.t.Helper()
	replies, err := s.u.Call(newExchange(s.t, method, params, with...))
	if err != nil {
		return nil, err
	}
	defer func() { _ = replies.Close() }()
	for end := time.Now().Add(patience); ; {
		m, err := replies.Next(end)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, string(m.Append(nil)))
	}
}

// must returns the only message of a call.
func (s *fakeService) must(method, params string, with ...func(*proxy.Exchange)) string {
	s.t.Helper()
	out, err := s.call(method, params, with...)
	if err != nil || len(out) != 1 {
		s.t.Fatalf("%s: %v, %v", method, out, err)
	}
	return out[0]
}

func asking(caps string) func(*proxy.Exchange) {
	return func(ex *proxy.Exchange) { ex.Client.Caps = []byte(caps) }
}

func logging(level string) func(*proxy.Exchange) {
	return func(ex *proxy.Exchange) { ex.Client.LogLevel = level }
}

const patience = 10 * time.Second

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's clock for Date headers: one for the process, from the first answer on; it cannot be stopped
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

var uuid4 = regexp.MustCompile(`^(?i)[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
