package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// echoer stands before a server. In a mode it answers with what it was sent, in a place of a failure.
type echoer struct {
	next http.Handler
	mode atomic.Value // string; empty: next answers
}

// The modes, and what each stands for.
var echoModes = []string{"body", "long body", "credentials", "page", "redirect", "error", "error of HTTP 400", "error with escapes", "status line", "no JSON", "no envelope",
	"envelope", "envelope unavailable", "unhealthy", "revision"}

// ServeHTTP implements http.Handler.
func (e *echoer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mode, _ := e.mode.Load().(string)
	if mode == "" {
		e.next.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m struct{ ID json.RawMessage }
	_ = json.Unmarshal(body, &m)
	said := fmt.Sprintf("echo %v %s %s", r.Header, r.Header.Get("X-Static"), r.Header.Get("Authorization"))
	user, password, _ := r.BasicAuth()
	said += fmt.Sprint(user, password, string(body))
	quoted, _ := json.Marshal(said)
	answer := func(status int, format string, args ...any) {
		w.Header().Set("Content-Type", jsonType)
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, format, args...)
	}
	switch mode {
	case "body":
		http.Error(w, said, http.StatusInternalServerError)
	case "long body": // the cut falls into a secret, wherever that is
		i := len(r.Header.Get("X-Static"))
		http.Error(w, strings.Repeat("x", 199-i/2)+" "+r.Header.Get("X-Static")+strings.Repeat("y", 500), http.StatusInternalServerError)
	case "credentials":
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+strings.ReplaceAll(said, `"`, "'")+`"`)
		http.Error(w, said, http.StatusForbidden)
	case "page":
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<!doctype html><title>%s</title>", said)
	case "redirect":
		http.Redirect(w, r, "/at/"+r.Header.Get("X-Static")+"/"+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+"/"+r.Header.Get("X-User"), http.StatusTemporaryRedirect)
	case "error":
		answer(200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%s,"data":{"seen":[%s],%s:1}}}`, m.ID, quoted, quoted, quoted)
	case "error of HTTP 400":
		answer(400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%s}}`, m.ID, quoted)
	case "error with escapes":
		escaped := ""
		for _, c := range said {
			escaped += fmt.Sprintf(`\u%04x`, c)
		}
		answer(200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"%s","data":"%s"}}`, m.ID, escaped, escaped)
	case "status line", "no JSON":
		if mode == "no JSON" {
			answer(200, "%s", said)
			return
		}
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 5%s %s\r\n%s\r\n\r\n", r.Header.Get("X-Static"), said, said)
			_ = c.Close()
		}
	case "no envelope":
		answer(500, `{"oops":%s}`, quoted)
	case "envelope":
		answer(500, `{"success":false,"data":null,"error":%s,"code":%s}`, quoted, quoted)
	case "envelope unavailable":
		answer(503, `{"success":false,"data":null,"error":%s,"code":"SERVICE_UNAVAILABLE"}`, quoted)
	case "unhealthy":
		answer(503, `{"status":"unavailable","error":%s,"dependencies":{"db":{"status":"unavailable","error":%s}}}`, quoted, quoted)
	case "revision":
		answer(200, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","protocolVersion":%s,"supportedVersions":[%s],"capabilities":{},"serverInfo":{"name":%s,"version":%s}}}`, m.ID, quoted, quoted, quoted, quoted)
	}
}

// secrets of the rig of TestEchoedSecrets: configured ones, what a token endpoint gave, and alice's own.
var echoSecrets = []string{"static-5ecret", "client-5ecret", "Y2xpZW50LTVlY3JldA", "OmNsaWVudC01ZWNyZXQ", "token-5ecret", "alices-5ecret"}

// A server that shows in its failures what it was sent tells nobody the secrets among it: those of the configuration, the token that was got
// for it, and what a caller's own headers have. They are neither in answers, nor in the log, nor in states, spans and metrics.
func TestEchoedSecrets(t *testing.T) {
	for _, kind := range []string{"modern", "legacy", "sse", "rest", "token endpoint", "health_check_url"} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, before the probe %v", kind, early), func(t *testing.T) {
				t.Parallel()
				for _, mode := range echoModes {
					if kind == "sse" && !early && strings.Contains("page error error with escapes no JSON revision", mode) {
						continue // the answer to a POST says only that it was taken
					}
					echoes(t, kind, mode, early)
				}
			})
		}
	}
}

// echoes lets one server echo in one mode, from the beginning or after it was probed.
func echoes(t *testing.T, kind, mode string, early bool) {
	t.Helper()
	served := kind
	if kind == "token endpoint" || kind == "health_check_url" {
		served = "modern"
	}
	tokens := &echoer{next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"access_token":"token-5ecret","token_type":"Bearer","expires_in":3600}`)
	})}
	e := &echoer{}
	var where string
	if served == "rest" {
		where = "transport = \"rest\"\n"
		e.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			switch r.URL.Path {
			case "/health":
				_, _ = io.WriteString(w, `{"status":"healthy"}`)
			case "/tools":
				_, _ = io.WriteString(w, `{"success":true,"data":{"tools":[{"name":"a","input_schema":{"type":"object"}}],"service":"s","version":"1"},"error":null,"code":null}`)
			default:
				w.WriteHeader(404)
			}
		})
		where += fmt.Sprintf("url = %q\n", newTestServer(t, e)+"/")
	} else {
		u := newUpstream(t, served)
		u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
		e.next = u
		where = fmt.Sprintf("url = %q\n", newTestServer(t, e)+u.url[strings.LastIndexByte(u.url, '/'):])
	}
	checked := &echoer{next: http.NotFoundHandler()}
	if kind == "health_check_url" {
		where += fmt.Sprintf("health_check_url = %q\nhealth_check_interval = \"1h\"\n", newTestServer(t, checked)+"/up")
	}
	spans := newCollector(t)
	more, keys := keysToml("alice", "bob")
	toml := "[security]\napi_keys_enabled = true\n" + more + spans.toml("") + "[upstreams.default]\n" + where + "retries = 0\nprobe_timeout = \"2s\"\n" +
		"headers = { X-Static = \"static-5ecret\" }\nforward_headers = { X-Forwarded-User = \"X-User\" }\n" +
		fmt.Sprintf("oauth.token_url = %q\noauth.client_id = \"client\"\noauth.client_secret = \"client-5ecret\"\n", newTestServer(t, tokens))
	begin := func() {
		switch kind {
		case "token endpoint":
			tokens.mode.Store(mode)
		case "health_check_url":
			checked.mode.Store(mode)
		default:
			e.mode.Store(mode)
		}
	}
	if early {
		begin()
	}
	r := startRig(t, toml, !early)
	alice, bob := r.as(keys["alice"]).sending("X-Forwarded-User", "alices-5ecret"), r.as(keys["bob"]).sending("X-Forwarded-User", "bobs-name")
	session := ""
	open := func(r *rig) string {
		res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, legacyHeaders("")...)
		session = res.header.Get("Mcp-Session-Id")
		return fmt.Sprint(res.header, res.body)
	}
	var texts []string
	keep := func(what string, said any) {
		texts = append(texts, fmt.Sprintf("%s: %v", what, said))
	}
	if !early {
		open(alice)
		begin()
	}
	for range 3 {
		for who, one := range map[string]*rig{"alice": alice, "bob": bob} {
			res := one.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
			keep(who+", modern", *res)
			if early {
				keep(who+", opening", open(one))
			} else if who == "alice" {
				keep("alice, legacy", *one.callLegacy(session))
			}
			keep(who+", REST", *one.must("POST", "/call-tool", `{"tool":"a","arguments":{}}`, "Content-Type", jsonType))
			keep(who+", tools", *one.must("GET", "/tools", ""))
		}
	}
	if check := r.h.Targets.All[0].Check; check != nil {
		keep("check", check(t.Context()))
	}
	keep("health", *bob.must("GET", "/health", ""))
	keep("readiness", r.h.Readiness())
	families, err := r.h.Metrics.Gather()
	keep("metrics", fmt.Sprint(families, err))
	testkit.Eventually(t, "spans", func() bool { return len(spans.all()) > 3 })
	keep("spans", spans.all())
	if early {
		cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "probe.toml", strings.ReplaceAll(toml, "forward_headers", "#"))})
		if err != nil {
			t.Fatal(err)
		}
		var out, logs testkit.LockedBuffer
		err = app.RunProbe(t.Context(), cfg, app.Streams{Out: &out, Err: &logs}, false, testkit.Patient)
		keep("probe", fmt.Sprint(err, out.String(), logs.String()))
	}
	for line := range strings.Lines(r.logs.String()) {
		keep("log", line)
	}
	for _, text := range texts {
		if mode == "revision" && strings.Contains(text, `"result":`) && (!strings.HasPrefix(text, "bob") || !strings.Contains(text, "alices-")) {
			continue // results are the server's, for its caller
		}
		for _, secret := range echoSecrets {
			if strings.Contains(strings.ReplaceAll(text, "bobs-name", ""), secret[:max(len(secret)-4, 8)]) {
				t.Errorf("%s: %q in %s", mode, secret, text)
			}
		}
	}
}
