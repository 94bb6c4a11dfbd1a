package e2e

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"dragoman/adapters/aggregator"
	"dragoman/internal/testkit"
)

// A server that is Dragoman itself, behind a proxy that changes nothing, is refused when it is tested and when it is connected. The proxy of
// another server is none.
func TestServerThatIsDragomanItself(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	var mu sync.Mutex
	var seen []string // Via fields, also of requests that Dragoman makes by itself meanwhile
	proxied := func(to string) string {
		at, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host})
		return newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen = append(seen, r.Header.Get("Via"))
			mu.Unlock()
			forward.ServeHTTP(w, r)
		})) + at.Path
	}
	var got aggregator.Tested
	if a.want(200, "POST", "/test", testBody(proxied(a.base+"/mcp")), &got); got.OK || !strings.Contains(got.Error, "leads back to it") {
		t.Errorf("tested: %+v", got)
	}
	a.want(201, "POST", "/servers", registration("me", proxied(a.base+"/mcp"), true), nil)
	if s := a.becomes("me", "ERROR"); !strings.Contains(s.LastError, "leads back to it") {
		t.Errorf("%+v", s)
	}
	a.want(201, "POST", "/servers", registration("other", proxied(toolsServer(t, "greet")), true), nil)
	a.becomes("other", "CONNECTED")
	if res := a.call("/servers/other/mcp", "greet"); !strings.Contains(res.body, "called greet") {
		t.Errorf("%d %s", res.status, res.body)
	}
	mu.Lock()
	for _, via := range seen {
		if !strings.HasPrefix(via, "1.1 dragoman-") || strings.Contains(via, ",") {
			t.Errorf("Via: %q", via)
		}
	}
	mu.Unlock()
	if res := a.send(a.base+"/mcp", "", "POST", modernCall("1", "other.greet", ""), nil, append(modernHeaders("tools/call", "other.greet"), "Via", "1.1 edge, 1.1 dragoman-0123456789abcdef")...); !strings.Contains(res.body, "called greet") {
		t.Errorf("with an intermediary before: %d %s", res.status, res.body)
	}
	mu.Lock()
	if !slices.Contains(seen, "1.1 dragoman-0123456789abcdef") {
		t.Errorf("Via does not go on: %q", seen)
	}
	mu.Unlock()
	if res := a.send(a.base+"/mcp", "", "POST", modernCall("1", "other.greet", ""), nil, append(modernHeaders("tools/call", "other.greet"), "Via", strings.Repeat("1.1 dragoman-0123456789abcdef, ", 31))...); res.status != 421 || !strings.Contains(res.body, "more than 30 Dragomans") {
		t.Errorf("a long way: %d %s", res.status, res.body)
	}
}

// Two Dragomans that are each other's servers: a call that would come back is refused, others pass.
func TestServersOfEachOther(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "a.toml", "merge = \"always\"\n"+aggregatorToml(t, "")))
	b := startAggregator(t, testkit.WriteFile(t, "b.toml", "merge = \"always\"\n"+aggregatorToml(t, "")))
	b.want(201, "POST", "/servers", registration("x", toolsServer(t, "greet"), true), nil)
	b.becomes("x", "CONNECTED")
	testkit.Eventually(t, "b lists x", func() bool { return strings.Contains(b.call("/mcp", "x.greet").body, "called greet") })
	a.want(201, "POST", "/servers", registration("b", b.base+"/mcp", true), nil)
	testkit.Eventually(t, "a lists b", func() bool { return strings.Contains(a.call("/servers/b/mcp", "x.greet").body, "called greet") })
	b.want(201, "POST", "/servers", registration("back", a.base+"/servers/b/mcp", true), nil)
	if s := b.becomes("back", "ERROR"); !strings.Contains(s.LastError, "leads back to it") {
		t.Errorf("a server that is b itself by way of a: %+v", s)
	}
	b.want(204, "DELETE", "/servers/back", "", nil)
	b.want(201, "POST", "/servers", registration("a", a.base+"/mcp", true), nil)
	b.becomes("a", "CONNECTED")
	testkit.Eventually(t, "a call that comes back is refused", func() bool { return strings.Contains(b.call("/servers/a/mcp", "b.x.greet").body, "leads back to it") })
	for tool, at := range map[string]*aggregated{"x.greet": b, "b.x.greet": a} {
		if res := at.call("/mcp", tool); !strings.Contains(res.body, "called greet") {
			t.Errorf("%s: %d %s", tool, res.status, res.body)
		}
	}
}
