package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dragoman/adapters/aggregator"
	"dragoman/internal/testkit"
)

// measured returns the servers that have metrics.
func (a *aggregated) measured() (names []string) {
	a.t.Helper()
	for _, m := range regexp.MustCompile(`server="([^"]*)"`).FindAllStringSubmatch(a.send(a.admin+"/metrics", "", "GET", "", nil).body, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// testBody is the request to test the connection to a URL.
func testBody(url string) string {
	return `{"transport_type":"HTTP","connection_config":{"base_url":"` + url + `"}}`
}

// A connection is tested as if the server were registered, and nothing of it stays: no server, process or metric.
func TestConnectionIsTested(t *testing.T) {
	toml := strings.Replace(aggregatorToml(t, ""), "[aggregator]\n", "[aggregator]\ncommands = [\""+testkit.Executable(t)+"\"]\n", 1)
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", toml), "AGG_MODE=count", "AGG_BOOK="+filepath.Join(t.TempDir(), "book"))
	a.want(201, "POST", "/servers", registration("stays", toolsServer(t, "a"), true), nil)
	a.becomes("stays", "CONNECTED")
	running, measured := children(), a.measured()
	var got aggregator.Tested
	a.want(200, "POST", "/test", testBody(toolsServer(t, "a", "b\u200b")), &got)
	if !got.OK || got.Tools != 2 || got.Prompts != 0 || got.Error != "" || got.Revision == "" || got.Eras == "" || got.Server == nil || *got.Server != (aggregator.ServerInfo{Name: "sdk", Version: "1"}) {
		t.Errorf("a server: %+v", got)
	}
	if len(got.Warnings) == 0 || got.Warnings[0].List != "tools" || !strings.Contains(got.Warnings[0].Name, `\u200b`) || !strings.Contains(got.Warnings[0].What, "U+200B") {
		t.Errorf("hidden text: %+v", got.Warnings)
	}
	child := `{"name":"child","transport_type":"STDIO","connection_config":{"command":"` + testkit.Executable(t) + `","env":{"` + testkit.AsDragoman + `":"env:AGG_MODE","DRAGOMAN_TEST_BOOK":"env:AGG_BOOK"}}}`
	got = aggregator.Tested{}
	if a.want(200, "POST", "/test", child, &got); !got.OK || got.Tools != 1 || got.Server == nil || got.Server.Name != "count" {
		t.Errorf("a command: %+v", got)
	}
	failing := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		_, _ = w.Write([]byte("internal page"))
	}))
	for url, part := range map[string]string{"http://127.0.0.1:1/mcp": "refused", failing: "HTTP 500: a body that is not shown", "http://169.254.169.254/": "aggregator.networks", "http://[::ffff:10.1.2.3]/": "aggregator.networks"} {
		got = aggregator.Tested{}
		if res := a.want(200, "POST", "/test", testBody(url), &got); got.OK || !strings.Contains(got.Error, part) || strings.Contains(res.body, "internal page") {
			t.Errorf("%s: %s", url, res.body)
		}
	}
	unwell := strings.Replace(testBody(toolsServer(t, "a")), "{", `{"health_check_url":"`+failing+`/health",`, 1)
	if a.want(200, "POST", "/test", unwell, &got); got.OK || got.Tools != 1 || !strings.Contains(got.Error, "500") {
		t.Errorf("a health check that fails: %+v", got)
	}
	if now := children(); !slices.Equal(now, running) {
		t.Errorf("children before %v, now %v", running, now)
	}
	if now := a.measured(); !slices.Equal(now, measured) || !slices.Contains(now, "stays") {
		t.Errorf("metrics of %v, before of %v", now, measured)
	}
	var all []aggregator.Server
	if a.want(200, "GET", "/servers", "", &all); len(all) != 1 || all[0].Name != "stays" || all[0].ToolCount != 1 {
		t.Errorf("there are %+v", all)
	}
}

// A test lists what a server has now: also a process of the legacy era, which says so in its handshake, and where definitions need approval.
func TestConnectionIsTestedWhole(t *testing.T) {
	for _, definitions := range []string{"warn", "approve"} {
		toml := strings.Replace(aggregatorToml(t, ""), "[aggregator]\n", "catalogue.definitions = \""+definitions+"\"\ncatalogue.approve_first = true\n[aggregator]\ncommands = [\""+testkit.Executable(t)+"\"]\n", 1)
		a := startAggregator(t, testkit.WriteFile(t, "c.toml", toml), "AGG_MODE=main")
		var got aggregator.Tested
		if res := a.want(200, "POST", "/test", testBody(toolsServer(t, "a", "b")), &got); !got.OK || got.Tools != 2 {
			t.Errorf("%s: %s", definitions, res.body)
		}
		for _, kind := range []string{"legacy", "modern"} {
			child := `{"transport_type":"STDIO","connection_config":{"command":"` + testkit.Executable(t) + `","args":["demo","--era","` + kind + `","--log-level","error"],"env":{"` + testkit.AsDragoman + `":"env:AGG_MODE"}}}`
			got = aggregator.Tested{}
			if res := a.want(200, "POST", "/test", child, &got); !got.OK || got.Eras != kind || got.Revision == "" || got.Server == nil || got.Server.Name != "dragoman-demo" || got.Tools == 0 || got.Prompts == 0 {
				t.Errorf("%s, %s: %s", definitions, kind, res.body)
			}
		}
		if log := a.logs.String(); !strings.Contains(log, "a test of a connection was asked for") || strings.Contains(log, "a change of the registered servers") {
			t.Errorf("the log tells of\n%s", log)
		}
	}
}

// A test has the guards of a registration, and is an operator's.
func TestConnectionThatMayNotBeTested(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	for body, part := range map[string]string{
		`{"transport_type":"STDIO","connection_config":{"command":"bash"}}`:                                       "aggregator.commands",
		`{"transport_type":"SSE","connection_config":{"url":"http://127.0.0.1/","headers":{"A":"${HOME}"}}}`:      "aggregator.secrets",
		`{"transport_type":"SSE","connection_config":{"url":"http://127.0.0.1/","headers":{"A":"literal"}}}`:      "aggregator.seal_key",
		`{"transport_type":"HTTP","connection_config":{"url":"http://127.0.0.1/"}}`:                               "base_url",
		`{"transport_type":"HTTP","connection_config":{"base_url":"http://127.0.0.1/"},"auto_connect":true}`:      "auto_connect",
		`{"name":"Wrong","transport_type":"HTTP","connection_config":{"base_url":"http://127.0.0.1/"}}`:           `"name"`,
		`{"transport_type":"STDIO","connection_config":{"command":"npx","env":{"LD_PRELOAD":"env:AGG_MODE"}}}`:    "decides which code",
		`{"transport_type":"HTTP","connection_config":{"base_url":"http://x"},"health_check_url":"file:///etc/"}`: "health_check_url",
	} {
		if res := a.want(422, "POST", "/test", body, nil); !strings.Contains(res.body, part) {
			t.Errorf("%s: %s", body, res.body)
		}
	}
	strict := startAggregator(t, testkit.WriteFile(t, "c.toml", strings.Replace(aggregatorToml(t, ""), `networks = ["127.0.0.1"]`, "", 1)))
	for _, url := range []string{toolsServer(t, "a"), strict.base + "/mcp", strict.admin + "/"} {
		var got aggregator.Tested
		if strict.want(200, "POST", "/test", testBody(url), &got); got.OK || !strings.Contains(got.Error, "aggregator.networks") {
			t.Errorf("%s: %+v", url, got)
		}
	}
	var got aggregator.Tested
	if strict.want(200, "POST", "/test", testBody(strict.base+"/mcp"), &got); !strings.Contains(got.Error, "Dragoman itself") {
		t.Errorf("its own listener: %+v", got)
	}
	if res := a.ask(viewerKey, "POST", "/test", testBody("http://127.0.0.1:1/"), nil); res.status != 403 {
		t.Errorf("a viewer: %d %s", res.status, res.body)
	}
}

// At most 4 connections are tested at the same time, and tests that hang end with Dragoman.
func TestConnectionsThatHang(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	asked, free := make(chan struct{}, 64), make(chan struct{})
	hangs := newTestServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-free:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(free) })
	answers := make(chan *response, 4)
	for range 4 {
		go func() { answers <- a.ask(operatorKey, "POST", "/test", testBody(hangs), nil) }()
	}
	for range 4 {
		testkit.Receive(t, "a request of a test", asked)
	}
	if res := a.want(429, "POST", "/test", testBody(hangs), nil); res.header.Get("Retry-After") == "" || !strings.Contains(res.body, "4 connections") {
		t.Errorf("the fifth: %s", res.body)
	}
	a.stop()
	for range 4 {
		if res := testkit.Receive(t, "the end of a test", answers); res.status != 200 || !strings.Contains(res.body, "dragoman is ending") {
			t.Errorf("%d %s", res.status, res.body)
		}
	}
}
