package source

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// gateway answers GET /v0.1/servers with its pages, one for each cursor, and every list of tools with the path that was asked for.
type gateway struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	pages  map[string]string
	tokens map[string]string // by path
}

// set changes the gateway.
func (g *gateway) set(status int, pages map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status, g.pages = status, pages
}

func startGateway(t *testing.T) *gateway {
	g := &gateway{tokens: map[string]string{}}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tokens[r.URL.Path] = r.Header.Get("Authorization")
		switch {
		case r.URL.Path == "/x/v0.1/servers" && r.URL.Query().Get("limit") == "100":
			if g.status != 200 {
				w.WriteHeader(g.status)
				return
			}
			_, _ = w.Write([]byte(g.pages[r.URL.Query().Get("cursor")]))
		case r.Method == "GET" && strings.HasSuffix(r.URL.Path, "/tools"):
			_, _ = fmt.Fprintf(w, `{"service":"Gate","tools":[{"name":%q,"input_schema":{}}]}`, r.URL.Path)
		default:
			w.WriteHeader(404)
		}
	}))
	t.Cleanup(g.Close)
	return g
}

// listed returns a page of a registry with servers of Dragoman's.
func listed(next string, names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf(`{"server":{"name":"com.example/%s","remotes":[{"type":"streamable-http","url":"https://elsewhere/x/servers/%[1]s/mcp"}]}}`, name))
	}
	return fmt.Sprintf(`{"servers":[%s],"metadata":{"count":%d,"nextCursor":%q}}`, strings.Join(all, ","), len(names), next)
}

// said asks, and returns what is found: the names of the services, their addresses below that of the gateway, and their tools; or the error.
func (g *gateway) said(t *testing.T, ask Asker) string {
	t.Helper()
	all, err := ask(t.Context())
	if err != nil {
		return err.Error()
	}
	var said []string
	for _, r := range all {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		said = append(said, fmt.Sprint(r.Name, " ", strings.TrimPrefix(r.Service.URL, g.URL), " ", r.Service.Tools[0].Name))
	}
	return strings.Join(said, ", ")
}

// The servers of a Dragoman are services at their paths, which the address that was given begins, whatever it calls itself. Servers come and go.
func TestGateway(t *testing.T) {
	t.Setenv("GATE", "secret")
	g := startGateway(t)
	ask, done := Gateway(Entry{URL: g.URL + "/x/", TokenEnv: "GATE"})
	defer done()
	for _, step := range []struct {
		pages map[string]string
		want  string
	}{
		{map[string]string{"": listed("a/b&c", "one"), "a/b&c": listed("", "two_b")}, "one /x/servers/one /x/servers/one/tools, two_b /x/servers/two_b /x/servers/two_b/tools"},
		{map[string]string{"": listed("", "one", "three")}, "one /x/servers/one /x/servers/one/tools, three /x/servers/three /x/servers/three/tools"},
		{map[string]string{"": listed("", "one", strings.Repeat("n", 128))}, "one /x/servers/one /x/servers/one/tools, " + strings.Repeat("n", 128) + " /x/servers/" + strings.Repeat("n", 128) + " /x/servers/" + strings.Repeat("n", 128) + "/tools"},
		{map[string]string{"": listed("", "three")}, "three /x/servers/three /x/servers/three/tools"},
	} {
		g.set(200, step.pages)
		if got := g.said(t, ask); got != step.want {
			t.Errorf("%s, want %s", got, step.want)
		}
	}
	for _, path := range []string{"/x/v0.1/servers", "/x/servers/one/tools", "/x/servers/three/tools"} {
		if g.tokens[path] != "Bearer secret" {
			t.Errorf("%s: %q", path, g.tokens[path])
		}
	}
	for status, want := range map[int]string{500: "/x/v0.1/servers answers 500", 429: "answers 429", 408: "answers 408", 302: "answers 302"} {
		g.set(status, nil)
		if got := g.said(t, ask); !strings.Contains(got, want) { // and what was generated stays
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

// What has no list of servers of its own, or one server, is one service.
func TestNoGateway(t *testing.T) {
	const one = "gate /x /x/tools"
	for _, c := range []struct {
		status int
		page   string
	}{
		{404, ""}, {405, ""}, {501, ""}, {401, ""}, {403, ""}, {400, ""},
		{200, listed("", "one")}, {200, listed("")}, {200, "[]"}, {200, "no JSON"}, {200, `{"success":true}`},
		{200, `{"servers":[{"server":{"name":"com.example/one"}},{"server":{"name":"com.example/two"}}]}`},
		{200, strings.ReplaceAll(listed("", "one", "two"), "/servers/two/mcp", "/mcp")},
		{200, listed("", "../one", "../two")}, {200, listed("", "groups/one", "groups/two")}, {200, listed("", "One", "Two")}, {200, listed("", "")}, {200, listed("", "one", strings.Repeat("n", 129))},
	} {
		g := startGateway(t)
		g.set(c.status, map[string]string{"": c.page})
		ask, done := Gateway(Entry{URL: g.URL + "/x"})
		if got := g.said(t, ask); got != one {
			t.Errorf("%d %s: %s", c.status, c.page, got)
		}
		done()
	}
}
