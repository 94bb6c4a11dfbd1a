package rest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// Seed 000, ToolsResponse and ToolSchema: bare, all pages merged, names unchanged, missing members filled in.
func TestToolsResponse(t *testing.T) {
	r := newRig(t, nil)
	pages := map[string]string{
		``: `{"tools":[{"name":"query_callers","description":"Find","inputSchema":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]},"outputSchema":{}},` +
			`{"name":"no-Python identifier","title":"A title"}],"nextCursor":""}`,
		`""`: `{"tools":[{"name":"c","description":"","inputSchema":{"required":["a"],"$defs":{}}},7,{"noname":1},{"name":"query_callers","description":"twice"}],"nextCursor":"x","ttlMs":60000}`,
		`"x"`: `{"tools":[{"name":"d","description":"D","inputSchema":{"type":"string","properties":[]}}],` +
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"0.0.24"}}}`,
	}
	r.s.set("tools/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
		return replied(ex, pages[string(ex.Msg.Of(ex.Msg.Cursor))]), nil
	})
	const tools = `"tools":[{"name":"query_callers","description":"Find","input_schema":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}},` +
		`{"name":"no-Python identifier","description":"A title","input_schema":{"type":"object","properties":{}}},` +
		`{"name":"c","description":"Tool c","input_schema":{"required":["a"],"$defs":{},"type":"object","properties":{}}},` +
		`{"name":"d","description":"D","input_schema":{"type":"object","properties":{}}}]}`
	r.want(200, `{"service":"code-graph-rag","version":"0.0.24",`+tools, "GET", "/tools", "")
	r.want(200, `{"service":"code-graph-rag","version":"0.0.24",`+tools, "GET", "/tools", "") // from the cache
	if n := len(r.s.all("tools/list")); n != 3 {
		t.Errorf("%d pages were asked for", n)
	}
	r.want(200, `{"service":"code-graph-rag","version":"0.0.24",`+tools, "GET", "/servers/a/tools", "")
	if all := r.s.all("tools/list"); len(all) != 6 || all[5].Server != "a" {
		t.Errorf("%d pages were asked for", len(all))
	}
}

// The OpenAPI document describes the current tools and names the base of its paths; the page shows it.
func TestDescription(t *testing.T) {
	r := newRig(t, nil)
	for _, base := range []string{"", "/servers/x"} {
		status, got := r.got("GET", base+"/openapi.json", "")
		url := base
		if base == "" {
			url = "/"
		}
		for _, part := range []string{`{"openapi":"3.1`, `"title":"code-graph-rag","version":"0.0.24"`, `"/tools/query_callers":{"post":`, `"servers":[{"url":"` + url + `"}]`} {
			if status != 200 || !strings.Contains(got, part) {
				t.Errorf("%d, no %s in\n%.300s", status, part, got)
			}
		}
		if status, got = r.got("GET", base+"/docs", ""); status != 200 || !strings.HasPrefix(got, "<!doctype html>") {
			t.Errorf("%d %.100s", status, got)
		}
	}
}

// Seed 000, ToolsResponse: version is semantic. It is the configured one, else the server's, from its list or server/discover.
func TestToolsVersion(t *testing.T) {
	f := func(configured, listed, discovered, want string) {
		t.Helper()
		r := newRig(t, func(o *Options) { o.Version = configured })
		r.s.result("tools/list", fmt.Sprintf(`{"tools":[],"_meta":{%s}}`, listed))
		if discovered != "" {
			r.s.result("server/discover", discovered)
		}
		r.want(200, `{"service":"code-graph-rag","version":"`+want+`","tools":[]}`, "GET", "/tools", "")
	}
	info := func(v string) string {
		return `"io.modelcontextprotocol/serverInfo":{"name":"up","version":"` + v + `"}`
	}
	f("2.0.0", info("1.2.3"), "", "2.0.0")
	f("", info("1.2.3-rc.1+5"), "", "1.2.3-rc.1+5")
	f("", info("v1"), "", "0.0.0")
	f("", "", `{"_meta":{`+info("3.2.1")+`}}`, "3.2.1")
	f("", "", `{}`, "0.0.0")
	f("", "", "", "0.0.0") // it does not know server/discover
}

// A server without the method has an empty list; a failure is an envelope.
func TestMissingLists(t *testing.T) {
	r := newRig(t, nil)
	r.s.on = map[string]func(*proxy.Exchange) (proxy.Replies, error){}
	r.want(200, `{"service":"code-graph-rag","version":"0.0.0","tools":[]}`, "GET", "/tools", "")
	r.want(200, `{"success":true,"data":{"resources":[],"resourceTemplates":[]},"request_id":"ID",$S}`, "GET", "/resources", "")
	r.want(200, `{"success":true,"data":{"prompts":[]},"request_id":"ID",$S}`, "GET", "/prompts", "")
	r.advance(time.Minute)
	for _, path := range []string{"/tools", "/resources", "/prompts"} {
		for _, method := range []string{"tools/list", "resources/list", "prompts/list"} {
			r.s.set(method, func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(proxy.Unreachable, "gone") })
		}
		if status, got := r.got("GET", path, ""); status != 503 || !strings.HasPrefix(got, `{"success":false,"error":"gone","code":"SERVICE_UNAVAILABLE"`) {
			t.Errorf("%d %s", status, got)
		}
	}
}

// Resources, prompts and completions: all pages, and the server's answers as data.
func TestOtherEndpoints(t *testing.T) {
	r := newRig(t, nil)
	two := func(key string) func(ex *proxy.Exchange) (proxy.Replies, error) {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Cursor.Present() {
				return replied(ex, `{"`+key+`":[{"b":2}]}`), nil
			}
			return replied(ex, `{"`+key+`":[{"a":1}],"nextCursor":"n"}`), nil
		}
	}
	r.s.set("resources/list", two("resources"))
	r.s.set("resources/templates/list", two("resourceTemplates"))
	r.s.set("prompts/list", two("prompts"))
	r.want(200, `{"success":true,"data":{"resources":[{"a":1},{"b":2}],"resourceTemplates":[{"a":1},{"b":2}]},"request_id":"ID",$S}`, "GET", "/resources", "")
	r.want(200, `{"success":true,"data":{"prompts":[{"a":1},{"b":2}]},"request_id":"ID",$S}`, "GET", "/prompts", "")
	call := func(path, body, method, params string) {
		t.Helper()
		r.s.result(method, `{"r":[1]}`)
		r.want(200, `{"success":true,"data":{"r":[1]},"request_id":"`+callerID+`",$S}`, "POST", path, body[:len(body)-1]+`,"request_id":"`+callerID+`"}`)
		all := r.s.all(method)
		if got := string(all[len(all)-1].Msg.Of(all[len(all)-1].Msg.Params)); !strings.HasPrefix(got, params+`,"_meta":{`) {
			t.Error(got)
		}
	}
	call("/read-resource", `{"uri":"a:b"}`, "resources/read", `{"uri":"a:b"`)
	call("/get-prompt", `{"name":"p"}`, "prompts/get", `{"name":"p"`)
	call("/get-prompt", `{"name":"p","arguments":{"x":"1"}}`, "prompts/get", `{"name":"p","arguments":{"x":"1"}`)
	call("/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}`, "completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}`)
	call("/complete", `{"argument":{},"ref":{},"context":{"arguments":{}}}`, "completion/complete", `{"ref":{},"argument":{},"context":{"arguments":{}}`)
	bad := func(path, body, want string) {
		t.Helper()
		if status, got := r.got("POST", path, body); status != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	bad("/read-resource", `{}`, `member \"uri\" is missing`)
	bad("/read-resource", `{"uri":1}`, `member \"uri\" must be a string`)
	bad("/get-prompt", `{}`, `member \"name\" is missing`)
	bad("/get-prompt", `{"name":[]}`, `member \"name\" must be a string`)
	bad("/get-prompt", `{"name":"p","arguments":"x"}`, `member \"arguments\" must be an object of strings`)
	bad("/complete", `{"argument":{}}`, `member \"ref\" is missing`)
	bad("/complete", `{"ref":{},"argument":{},"context":1}`, `member \"context\" must be an object`)
}

// A list is used as long as configured, or less if the server says so; one that may change at any time is shown once.
func TestToolsCached(t *testing.T) {
	f := func(ttl time.Duration, hint string, path string, pass time.Duration, want int) {
		t.Helper()
		r := newRig(t, func(o *Options) { o.TTL = ttl })
		r.s.result("tools/list", `{"tools":[{"name":"plain"}]`+hint+`,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"1"}}}`)
		r.s.result("tools/call", `{}`)
		for range 2 {
			if path == "/tools" {
				r.got("GET", path, "")
			} else {
				r.got("POST", path, `{}`)
			}
			r.advance(pass)
		}
		if n := len(r.s.all("tools/list")); n != want {
			t.Errorf("ttl %v, %s, %s after %v: %d lists, want %d", ttl, hint, path, pass, n, want)
		}
	}
	const s = time.Second
	f(30*s, ``, "/tools", 29*s, 1)
	f(30*s, ``, "/tools", 31*s, 2)
	f(30*s, `,"ttlMs":5000`, "/tools", 4*s, 1)
	f(30*s, `,"ttlMs":5000`, "/tools", 6*s, 2)
	f(30*s, `,"ttlMs":5000`, "/tools/plain", 6*s, 2)
	f(30*s, `,"ttlMs":500000`, "/tools", 31*s, 2)
	f(30*s, `,"ttlMs":0`, "/tools", 2*s, 2)
	f(30*s, `,"ttlMs":0`, "/tools/plain", 2*s, 1)
	f(30*s, `,"ttlMs":-1`, "/tools", 2*s, 1)
	f(0, ``, "/tools/plain", 0, 2)
}

// A large list that is stale at once is shown for ten times as long as it took to fetch, rest.tools_ttl at most, so that fetching it is
// a small part of the work; a small one is not.
func TestLargeListsRest(t *testing.T) {
	const s = time.Second
	for _, k := range []struct {
		tools           int
		ttl, took, pass time.Duration
		want            int
	}{
		{2000, 30 * s, s, 8 * s, 1}, {2000, 30 * s, s, 10 * s, 2}, {2000, 5 * s, s, 4 * s, 2}, {2000, 30 * s, 0, 0, 2}, {2, 30 * s, s, 0, 2}, {2000, 0, s, 0, 2},
	} {
		for _, path := range []string{"/tools", "/openapi.json"} {
			r := newRig(t, func(o *Options) { o.TTL = k.ttl })
			slowLists(r, k.tools, k.took)
			r.got("GET", path, "")
			r.advance(k.pass)
			r.got("GET", path, "")
			if n := len(r.s.all("tools/list")); n != k.want {
				t.Errorf("%s of %+v: %d lists", path, k, n)
			}
		}
	}
	for tools, want := range map[int]int{2: 3, 2000: 1} { // unknown names do not have it fetched all the time
		r := newRig(t, nil)
		slowLists(r, tools, s)
		for range 2 {
			if status, got := r.got("POST", "/tools/x", `{}`); status != 404 {
				t.Errorf("%d %s", status, got)
			}
			r.advance(7 * s)
		}
		if n := len(r.s.all("tools/list")); n != want {
			t.Errorf("%d tools: %d lists", tools, n)
		}
	}
}

// slowLists makes lists of the rig's server take some time.
func slowLists(r *rig, tools int, took time.Duration) {
	list := manyTools(tools)
	r.s.set("tools/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
		r.advance(took)
		return replied(ex, list), nil
	})
}

// While a list is fetched again, calls go by the outdated one.
func TestCallsDoNotWaitForAList(t *testing.T) {
	r := newRig(t, nil)
	r.s.result("tools/call", `{"content":[]}`)
	r.want(200, `{"success":true,"data":{"content":[]},"request_id":"ID",$S}`, "POST", "/tools/plain", `{}`)
	r.advance(time.Hour)
	began, release := make(chan struct{}), make(chan struct{})
	r.s.set("tools/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
		close(began)
		<-release
		return replied(ex, strings.Replace(demo, "plain", "new", 1)), nil
	})
	var group sync.WaitGroup
	group.Go(func() {
		if status, got := r.got("GET", "/tools", ""); status != 200 || !strings.Contains(got, `"new"`) {
			t.Errorf("%d %s", status, got)
		}
	})
	<-began
	for range 3 {
		if status, got := r.got("POST", "/tools/plain", `{}`); status != 200 {
			t.Errorf("%d %s", status, got)
		}
	}
	group.Go(func() { // it is refused by the new list only
		if status, got := r.got("POST", "/tools/new", `{}`); status != 200 {
			t.Errorf("%d %s", status, got)
		}
	})
	close(release)
	group.Wait()
	if status, got := r.got("POST", "/tools/plain", `{}`); status != 404 {
		t.Errorf("%d %s", status, got)
	}
}

// Concurrent requests share one fetch of a list; if the caller that fetches leaves, another one fetches.
func TestToolsFetchedOnce(t *testing.T) {
	var calls atomic.Int32
	r := newRig(t, func(o *Options) {
		o.Around = []proxy.Policy{func(next proxy.Handler) proxy.Handler {
			return func(ex *proxy.Exchange) (proxy.Replies, error) {
				if ex.Msg.Is("tools/call") {
					calls.Add(1)
				}
				return next(ex)
			}
		}}
	})
	r.s.result("tools/call", `{"content":[]}`)
	began, release := make(chan *proxy.Exchange, 100), make(chan struct{})
	r.s.set("tools/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
		began <- ex
		select {
		case <-release:
			return replied(ex, demo), nil
		case <-ex.Done():
			return nil, ex.Err()
		}
	})
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan struct{})
	go func() { // it fetches
		defer close(first)
		req, _ := newRequest(ctx, r.base+"/tools/plain")
		if res, err := r.http.Do(req); err == nil {
			_ = res.Body.Close()
			t.Error("it was answered")
		}
	}()
	<-began
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if status, got := r.got("POST", "/tools/plain", `{}`); status != 200 {
				t.Errorf("%d %s", status, got)
			}
		})
	}
	testkit.Eventually(t, "all are about to wait", func() bool { return calls.Load() == 9 })
	leave()
	<-first
	<-began
	close(release)
	group.Wait()
	if len(began) > 0 {
		t.Errorf("%d more fetches", len(began))
	}
}

// A fetch that panics also ends for those that wait for it.
func TestToolsFetchPanics(t *testing.T) {
	r := newRig(t, nil)
	r.s.set("tools/list", func(*proxy.Exchange) (proxy.Replies, error) { panic("a test") })
	if status, got := r.got("GET", "/tools", ""); status != 500 || !strings.Contains(got, "INTERNAL_ERROR") {
		t.Errorf("%d %s", status, got)
	}
	r.s.result("tools/list", demo)
	if status, got := r.got("GET", "/tools", ""); status != 200 {
		t.Errorf("%d %s", status, got)
	}
}

// An endless list is refused.
func TestEndlessList(t *testing.T) {
	r := newRig(t, nil)
	n := 0
	r.s.set("prompts/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
		n++
		return replied(ex, fmt.Sprintf(`{"prompts":[],"nextCursor":"%d"}`, n)), nil
	})
	if status, got := r.got("GET", "/prompts", ""); status != 500 || !strings.Contains(got, "more than 1000 pages") {
		t.Errorf("%d %s", status, got)
	}
	r.s.set("prompts/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
		return replied(ex, `{"prompts":[1],"nextCursor":"same"}`), nil
	})
	r.want(200, `{"success":true,"data":{"prompts":[1,1]},"request_id":"ID",$S}`, "GET", "/prompts", "")
}
