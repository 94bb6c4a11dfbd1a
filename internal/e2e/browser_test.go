package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const chromiumFile = "internal/e2e/testdata/chromium.json"

var withBrowser = flag.Bool("browser", false, "run TestChromium")

var updateChromium = flag.Bool("update-chromium", false, "record "+chromiumFile+" with the browser of TestChromium")

// browserRequest is one request as Chromium sends it: the fields that say where it comes from and what it carries. PAGE and
// TARGET stand for host and port of the page and of the listener.
type browserRequest struct {
	Page   string            `json:"page"` // where the page stands, see pageHosts
	Kind   string            `json:"kind"` // see browserScript
	Method string            `json:"method"`
	Header map[string]string `json:"header"`
}

// browserFields are the fields that are recorded.
var browserFields = []string{"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Content-Type", "Accept", "Referer", "Upgrade",
	"Access-Control-Request-Method", "Access-Control-Request-Headers"}

// pageHosts are the hosts of pages that call a listener at localhost. They stand at another port, except "own".
var pageHosts = map[string]string{"own": "", "other port": "localhost", "other host": "127.0.0.1", "sandboxed": "localhost"}

// browserScript sends a request of every kind to the paths below BASE, and then reports to /done.
const browserScript = `
const body = BODY;
const wait = (p) => Promise.race([p, new Promise((r) => setTimeout(r, 3000))]).catch(() => {});
const element = (tag, name, u) => new Promise((r) => {
  const e = document.createElement(tag);
  e.onload = e.onerror = r; e[name] = u; document.body.append(e);
});
const kinds = {
  "fetch json": (u) => fetch(u, { method: "POST", headers: { "Content-Type": "application/json" }, body }),
  "fetch text": (u) => fetch(u, { method: "POST", mode: "no-cors", body }),
  "fetch untyped": (u) => fetch(u, { method: "POST", mode: "no-cors", body: new Blob([body]) }),
  "fetch bytes": (u) => fetch(u, { method: "POST", mode: "no-cors", body: new TextEncoder().encode(body) }),
  "fetch form": (u) => fetch(u, { method: "POST", mode: "no-cors", body: new URLSearchParams({ a: body }) }),
  "fetch silent": (u) => fetch(u, { method: "POST", mode: "no-cors", referrerPolicy: "no-referrer", body: new Blob([body]) }),
  "beacon text": async (u) => navigator.sendBeacon(u, body),
  "beacon untyped": async (u) => navigator.sendBeacon(u, new Blob([body])),
  "form": (u) => new Promise((r) => {
    const f = document.createElement("form"), t = document.createElement("iframe"), i = document.createElement("input");
    t.name = "to"; f.target = "to"; f.action = u; f.method = "POST"; f.enctype = "text/plain";
    const at = body.lastIndexOf(":") - 1; i.name = body.slice(0, at); i.value = body.slice(at);
    t.onload = r; f.append(i); document.body.append(t, f); f.submit(); setTimeout(r, 1000);
  }),
  "get": (u) => fetch(u),
  "get no-cors": (u) => fetch(u, { mode: "no-cors" }),
  "image": (u) => element("img", "src", u),
  "script": (u) => element("script", "src", u),
  "frame": (u) => element("iframe", "src", u),
  "events": (u) => new Promise((r) => { const e = new EventSource(u); e.onopen = e.onerror = () => { e.close(); r(); }; }),
  "socket": (u) => new Promise((r) => { const s = new WebSocket(u.replace(/^http/, "ws")); s.onopen = s.onerror = s.onclose = r; }),
};
(async () => {
  for (const [kind, path] of PATHS) await wait(kinds[kind]("BASE" + path));
  await fetch("DONE", { method: "POST", mode: "no-cors" });
})();
`

// browserKinds are the kinds of requests of browserScript, those that carry a body first.
var browserKinds = []string{"fetch json", "fetch text", "fetch untyped", "fetch bytes", "fetch form", "fetch silent", "beacon text", "beacon untyped", "form",
	"get", "get no-cors", "image", "script", "frame", "events", "socket"}

func readsOnly(kind string) bool {
	return slices.Index(browserKinds, kind) >= slices.Index(browserKinds, "get")
}

// Requests as Chromium sends them for pages of other origins reach nothing; those of the listener's own pages do.
func TestPagesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(chromiumFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []browserRequest
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, "modern")
	r := startRig(t, u.toml(""), true)
	ops := r.admin()
	before := u.received()
	for _, q := range all {
		for _, to := range pathsOf(q.Kind) {
			at := r
			if strings.HasPrefix(to, "admin:") {
				at, to = ops, strings.TrimPrefix(to, "admin:")
			}
			target := strings.Replace(strings.TrimPrefix(at.base, "http://"), "127.0.0.1", "localhost", 1)
			headers := []string{"Host", target}
			for name, value := range q.Header {
				headers = append(headers, name, strings.NewReplacer("TARGET", target, "PAGE", "localhost:1").Replace(value))
			}
			if q.Page == "own" {
				continue
			}
			res := at.must(q.Method, to, pageBody, headers...)
			if res.status != 403 {
				t.Errorf("%s %s from %s at %s: %d %s", q.Kind, q.Method, q.Page, to, res.status, res.body)
			}
		}
	}
	if n := u.received(); n != before {
		t.Errorf("%d messages reached the server", n-before)
	}
	u.echoes(nil)
	for _, q := range all {
		if q.Page != "own" {
			continue
		}
		target := strings.Replace(strings.TrimPrefix(r.base, "http://"), "127.0.0.1", "localhost", 1)
		headers := []string{"Host", target}
		for name, value := range q.Header {
			headers = append(headers, name, strings.ReplaceAll(value, "TARGET", target))
		}
		path, want := "/tools/echo", 415
		switch {
		case readsOnly(q.Kind):
			path, want = "/docs", 200
		case q.Kind == "fetch json":
			want = 200
		case q.Header["Origin"] == "null":
			want = 403
		}
		if res := r.must(q.Method, path, "{}", headers...); res.status != want {
			t.Errorf("%s of the own page: %d %s, want %d", q.Kind, res.status, res.body, want)
		}
	}
}

// pageBody is what pages send: a call of a tool in each of the forms that endpoints read.
var pageBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","tool":"echo","name":"echo","params":{"name":"echo","arguments":{},` + modernMeta + `},"arguments":{"a":"b"}}`

// pathsOf returns where pages try a kind of request.
func pathsOf(kind string) []string {
	if readsOnly(kind) {
		return []string{"/mcp", "/sse", "/servers/up/sse", "/mcp/sse", "/tools", "/resources", "/prompts", "/openapi.json", "/docs", "/health",
			"admin:/metrics", "admin:/config", "admin:/healthz"}
	}
	return []string{"/mcp", "/servers/up/mcp", "/messages?sessionId=x", "/call-tool", "/tools/echo", "/mcp/tools/call", "/read-resource", "/get-prompt",
		"/complete", "admin:/loglevel", "admin:/debug/pprof/symbol"}
}

// browser runs Chromium on a page until the page has reported to done. The test is skipped where there is none.
func browser(t *testing.T, page string, done <-chan struct{}) {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if at, err := exec.LookPath(name); err == nil {
			program = at
			break
		}
	}
	if program == "" {
		t.Skip("NO BROWSER: neither chromium nor google-chrome is installed (apt-get install chromium); TestPagesOfOtherOrigins repeats what was recorded of one")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--user-data-dir="+t.TempDir(), page)
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stop(); _ = cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("the page has not finished in two minutes")
	}
}

// pageServer serves pages that run browserScript against a target, and closes done when one has finished.
func pageServer(t *testing.T) (host string, serve func(text string, sandboxed bool), done <-chan struct{}) {
	t.Helper()
	var mu sync.Mutex
	var page, frame string
	end := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch q.URL.Path {
		case "/done":
			select {
			case <-end:
			default:
				close(end)
			}
		case "/frame":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(frame))
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(page))
		}
	}))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://"), func(text string, sandboxed bool) {
		mu.Lock()
		defer mu.Unlock()
		page = "<!doctype html><body><script>" + text + "</script>"
		if sandboxed {
			frame, page = page, `<!doctype html><body><iframe sandbox="allow-scripts allow-forms" src="/frame"></iframe>`
		}
	}, end
}

// pageScript fills in browserScript.
func pageScript(base, done string, paths [][2]string) string {
	body, _ := json.Marshal(pageBody)
	list, _ := json.Marshal(paths)
	return strings.NewReplacer("BODY", string(body), "BASE", base, "DONE", done, "PATHS", string(list)).Replace(browserScript)
}

func portOf(hostport string) string { _, port, _ := net.SplitHostPort(hostport); return port }

// The same with a real browser (make browser). With -update-chromium it records what the browser sends.
func TestChromium(t *testing.T) {
	if !*withBrowser && !*updateChromium {
		t.Skip("make browser runs it")
	}
	if *updateChromium {
		recordChromium(t)
		return
	}
	for where, host := range pageHosts {
		t.Run(where, func(t *testing.T) {
			u := newUpstream(t, "modern")
			called := make(chan struct{}, 100)
			u.echoes(called)
			pages, show, done := pageServer(t)
			var paths [][2]string
			for _, kind := range browserKinds {
				for _, to := range pathsOf(kind) {
					if !strings.HasPrefix(to, "admin:") {
						paths = append(paths, [2]string{kind, to})
					}
				}
			}
			if where == "own" {
				front := newFront(t)
				extra := fmt.Sprintf("[security]\nallowed_origins = [%q]\n", "http://localhost:"+portOf(front.host))
				r := startRig(t, extra+u.toml(""), true)
				front.to(strings.TrimPrefix(r.base, "http://"), "<!doctype html><body><script>"+
					pageScript("http://localhost:"+portOf(front.host), "http://localhost:"+portOf(pages)+"/done", [][2]string{{"fetch json", "/tools/echo"}, {"get", "/openapi.json"}})+"</script>")
				browser(t, "http://localhost:"+portOf(front.host)+"/page", done)
				if len(called) != 1 {
					t.Errorf("the page behind the proxy made %d calls", len(called))
				}
				return
			}
			r := startRig(t, u.toml(""), true)
			before := u.received()
			show(pageScript("http://localhost:"+portOf(r.base[len("http://"):]), "http://"+host+":"+portOf(pages)+"/done", paths), where == "sandboxed")
			browser(t, "http://"+host+":"+portOf(pages)+"/", done)
			if n := u.received(); n != before {
				t.Errorf("%d messages reached the server", n-before)
			}
			if n := r.sum("dragoman_sessions"); n != 0 {
				t.Errorf("%v sessions were opened", n)
			}
		})
	}
}

// front is a reverse proxy in front of a rig, with one page of its own at /page.
type front struct {
	host  string
	mu    sync.Mutex
	proxy http.Handler
	page  string
}

func newFront(t *testing.T) *front {
	f := &front{}
	f.host = strings.TrimPrefix(newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		f.mu.Lock()
		next, page := f.proxy, f.page
		f.mu.Unlock()
		if q.URL.Path == "/page" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(page))
			return
		}
		next.ServeHTTP(w, q)
	})), "http://")
	return f
}

func (f *front) to(target, page string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.page = page
	f.proxy = &httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) { q.SetURL(&url.URL{Scheme: "http", Host: target}) }}
}

func recordChromium(t *testing.T) {
	var all []browserRequest
	for where, host := range pageHosts {
		pages, show, done := pageServer(t)
		var mu sync.Mutex
		at := ""
		note := func(q *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			one := browserRequest{Page: where, Kind: strings.ReplaceAll(strings.TrimPrefix(q.URL.Path, "/k/"), "_", " "), Method: q.Method, Header: map[string]string{}}
			for _, name := range browserFields {
				if v := q.Header.Get(name); v != "" {
					one.Header[name] = strings.NewReplacer("localhost:"+portOf(at), "TARGET", host+":"+portOf(pages), "PAGE").Replace(v)
				}
			}
			all = append(all, one)
		}
		var page string
		target := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			switch {
			case strings.HasPrefix(q.URL.Path, "/k/"):
				note(q)
				w.WriteHeader(403)
			case q.URL.Path == "/page":
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte(page))
			}
		}))
		at = strings.TrimPrefix(target, "http://")
		var paths [][2]string
		for _, kind := range browserKinds {
			paths = append(paths, [2]string{kind, "/k/" + strings.ReplaceAll(kind, " ", "_")})
		}
		from := "http://" + host + ":" + portOf(pages)
		if where == "own" {
			from = "http://localhost:" + portOf(pages)
		}
		text := pageScript("http://localhost:"+portOf(at), from+"/done", paths)
		start := from + "/"
		if where == "own" {
			page, start = "<!doctype html><body><script>"+text+"</script>", "http://localhost:"+portOf(at)+"/page"
		} else {
			show(text, where == "sandboxed")
		}
		browser(t, start, done)
	}
	slices.SortStableFunc(all, func(a, b browserRequest) int { return strings.Compare(a.Page+a.Kind, b.Page+b.Kind) })
	out, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(chromiumFile, append(out, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests recorded", len(all))
}

// echoes gives the server a tool that notes its calls in called, unless that is nil.
func (u *upstream) echoes(called chan<- struct{}) {
	u.on("tools/list", func(c *call) {
		c.result(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"public"}`)
	})
	u.on("tools/call", func(c *call) {
		if called != nil {
			called <- struct{}{}
		}
		c.result(`{"content":[],"resultType":"complete"}`)
	})
}

// received returns how many messages have arrived.
func (u *upstream) received() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.seen)
}
