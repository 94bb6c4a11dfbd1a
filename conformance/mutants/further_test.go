package mutants

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"dragoman/conformance/checks"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// startGuarded starts a sound server that requires a token.
func startGuarded(t *testing.T, s *sound) *sound {
	t.Helper()
	target, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	const known = "/.well-known/oauth-protected-resource"
	pass := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target); p.Out.Header.Del("Authorization") }}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := "http://" + r.Host
		switch {
		case r.URL.Path == known+"/mcp":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"resource":"` + at + `/mcp","authorization_servers":["https://auth.example"]}`))
		case r.Header.Get("Authorization") != "Bearer sound":
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+at+known+`/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			body, _ := io.ReadAll(r.Body) // an answer may come before its end
			r.Body = io.NopCloser(bytes.NewReader(body))
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return &sound{base: srv.URL, offers: make(map[string][]*suite.Offer), always: peer.Fields{{Name: "Authorization", Value: "Bearer sound"}}}
}

// The sound server that requires a token passes the checks of tokens.
func TestSoundGuardedServerPasses(t *testing.T) {
	s := startGuarded(t, start(t))
	list := slices.DeleteFunc(checks.All(), func(c *suite.Check) bool { return c.Area() != "auth" })
	for _, face := range []peer.Face{peer.ModernHTTP, peer.LegacyHTTP} {
		target := s.target(t, face, nil)
		for _, f := range suite.Run(t.Context(), target, discover(t, target, face), suite.Options{Checks: list, Shape: suite.ServerShape}) {
			if f.Outcome != suite.Passed {
				t.Errorf("%s: %s %s", f.Key(), f.Outcome, describe(f))
			}
		}
	}
}

// authMutants are in front of the sound server that requires a token.
func authMutants() []mutant {
	web := []peer.Face{peer.ModernHTTP, peer.LegacyHTTP}
	challenge := func(field string) func(*exchange, *int, http.Header) {
		return func(_ *exchange, status *int, h http.Header) {
			if *status == http.StatusUnauthorized {
				h.Set("WWW-Authenticate", field)
			}
		}
	}
	all := []mutant{
		{name: "refuses strangers with 403", caught: "auth.missing", faces: web, head: statusOf(401, 403)},
		{name: "refuses bad tokens with 400", caught: "auth.invalid", faces: web, request: func(x *exchange) {
			if strings.Contains(x.Header.Get("Authorization"), "no-such-token") {
				x.reply(400, "", "")
			}
		}},
		{name: "believes session ids", caught: "auth.each-request", request: func(x *exchange) {
			if x.Header.Get("Mcp-Session-Id") != "" {
				x.Header.Set("Authorization", "Bearer sound")
			}
		}},
		{name: "does not say where tokens come from", caught: "auth.challenge", faces: web, at: peer.R2506, head: challenge("Bearer")},
		{name: "names metadata that are not there", caught: "auth.metadata", faces: web, head: challenge(`Bearer resource_metadata="http://127.0.0.1:1/x"`)},
	}
	for i := range all {
		all[i].guarded = true
	}
	all[3].faces = []peer.Face{peer.LegacyHTTP} // of 2025-06-18
	return all
}

// furtherMutants are in front of the demonstration server.
func furtherMutants() []mutant {
	const ack = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":"ends"}}}`
	return []mutant{
		{name: "reads markers without their case", caught: "request.name-marker", request: func(x *exchange) {
			if name, ok := strings.CutPrefix(x.Header.Get("Mcp-Name"), "=?BASE64?"); ok {
				x.Header.Set("Mcp-Name", "=?base64?"+name)
			}
		}},
		{name: "reads half of the markers", caught: "request.name-marker", request: func(x *exchange) {
			if name := x.Header.Get("Mcp-Name"); strings.HasPrefix(name, "=?base64?") && !strings.HasSuffix(name, "?=") {
				x.Header.Set("Mcp-Name", name+"?=")
			}
		}},
		{name: "has a code of earlier times", caught: "errors.earlier-codes", faces: modern, message: failures("tools/call", func(_, e peer.Object) { e["code"] = -32000 })},
		{name: "does not say what it speaks", caught: "discover.told-to-legacy", faces: modern, request: func(x *exchange) {
			if x.method == "initialize" {
				x.reply(400, "application/json", `{"jsonrpc":"2.0","id":`+string(x.asked.ID)+`,`+notFound+`}`)
			}
		}},
		{name: "cancels the client's requests", caught: "cancel.unsaid", faces: modernStdio, message: func(x *exchange, m peer.Message) []string {
			if x.method == "tools/list" {
				return []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(m.ID) + `}}`, m.Raw}
			}
			return []string{m.Raw}
		}},
		{name: "structures without text", caught: "tools.structured-text", faces: modern, message: results("tools/call", func(_ *exchange, r peer.Object) {
			if r["structuredContent"] != nil {
				r["content"] = []any{}
			}
		})},
		{name: "ends subscriptions without a word", caught: "subscriptions.ends-well", request: func(x *exchange) {
			if x.method == "subscriptions/listen" {
				x.reply(200, "text/event-stream", "data: "+ack+"\n\n")
			}
		}},
		{name: "ends subscriptions without their tag", caught: "subscriptions.ends-well", faces: modern, message: notices(acknowledged, func(m peer.Message) []string {
			return []string{m.Raw, `{"jsonrpc":"2.0","id":"ends","result":{"resultType":"complete"}}`}
		})},
		{name: "takes arguments for the protocol's", caught: "legacy-tools.arguments-result", faces: legacyFaces, message: instead("tools/call", invalid, noArguments)},
	}
}
