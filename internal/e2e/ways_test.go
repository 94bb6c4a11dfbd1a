package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// way is a way into the proxy: ask sends a request, whose params are members without braces, and returns the answer.
type way struct {
	name string
	ask  func(method, params string) string
}

// mirrored returns the value that mirrors a request's name or URI in a header, if it has one.
func mirrored(method, params string) string {
	var p struct{ Name, URI any }
	_ = json.Unmarshal([]byte("{"+params+"}"), &p)
	value, ok := p.Name.(string)
	if method == "resources/read" {
		value, ok = p.URI.(string)
	}
	if !ok || method != "resources/read" && method != "tools/call" && method != "prompts/get" {
		return ""
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// modernBody and legacyBody are a request of either era.
func modernBody(id int, method, params string) string {
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}}`, id, method, params, modernMeta)
}

func legacyBody(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params)
}

// modernWay is the way of modern clients into a proxy that listens.
func (r *rig) modernWay() way {
	id := 100
	return way{"modern", func(method, params string) string {
		id++
		return r.must("POST", "/mcp", modernBody(id, method, params), modernHeaders(method, mirrored(method, params))...).body
	}}
}

// waysIn are the ways into a proxy that listens.
func (r *rig) waysIn() []way {
	r.t.Helper()
	id := 100
	session := r.open("2025-11-25", "{}")
	return []way{
		r.modernWay(),
		{"legacy", func(method, params string) string {
			id++
			return r.must("POST", "/mcp", legacyBody(id, method, params), legacyHeaders(session)...).body
		}},
		{"sse", r.sseWay()},
		{"rest", func(method, params string) string {
			return r.must("POST", "/mcp/"+method, "{"+params+"}", "Content-Type", jsonType).body
		}},
	}
}

// sseWay opens a session over HTTP+SSE.
func (r *rig) sseWay() func(method, params string) string {
	c := r.sse("/sse")
	id := 100
	ask := func(body string) string {
		c.send(body)
		for {
			if _, data := c.event(); strings.Contains(data, fmt.Sprintf(`"id":%d`, id)) || strings.Contains(data, `"id":"i"`) || !strings.HasPrefix(data, "{") {
				return data
			}
		}
	}
	ask(stdioInit)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return func(method, params string) string {
		id++
		return ask(legacyBody(id, method, params))
	}
}

// waysIn are the two ways into a proxy on standard input.
func (p *pipes) waysIn() []way {
	p.t.Helper()
	id := 100
	ask := func(body string) string {
		p.send(body)
		for {
			if line := testkit.Receive(p.t, "the answer to "+body, p.lines); strings.Contains(line, fmt.Sprintf(`"id":%d`, id)) || strings.Contains(line, `"id":"i"`) {
				return line
			}
		}
	}
	ask(stdioInit)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return []way{
		{"stdio modern", func(method, params string) string { id++; return ask(modernBody(id, method, params)) }},
		{"stdio legacy", func(method, params string) string { id++; return ask(legacyBody(id, method, params)) }},
	}
}

// everyWay runs a test for each way into a proxy of a configuration, at a server of each era.
func everyWay(t *testing.T, config string, f func(t *testing.T, u *upstream, w way)) {
	t.Helper()
	for _, kind := range []string{"modern", "legacy"} {
		u := newUpstream(t, kind)
		toml := u.toml("") + config
		for _, w := range append(startRig(t, toml, true).waysIn(), startStdio(t, toml).waysIn()...) {
			u.forget()
			t.Run(kind+" "+w.name, func(t *testing.T) { f(t, u, w) })
		}
	}
}
