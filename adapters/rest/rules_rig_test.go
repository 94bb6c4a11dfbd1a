package rest

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// The tests of the files rules_*_test.go name the rules of the seeds as RULES.md numbers them.

// answered is one answer and its members.
type answered struct {
	what   string // the request
	status int
	header http.Header
	body   string
	keys   []string
	m      map[string]json.RawMessage
}

// ask sends a request and parses the answer, which must be one JSON object without repeated members.
func (r *rig) ask(verb, path, body string, headers ...string) *answered {
	r.t.Helper()
	res := r.send(verb, path, body, headers...)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := &answered{what: fmt.Sprintf("%s %s %.80s", verb, path, body), status: res.StatusCode, header: res.Header, body: string(raw)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		_, last, _ := strings.Cut(a.body, "event: result\ndata: ")
		a.body = strings.TrimSpace(last)
	}
	a.take(r.t)
	return a
}

func (a *answered) take(t *testing.T) {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":0,"result":` + a.body + `}`))
	if err != nil || !m.Result.IsObject(m.Raw) || json.Unmarshal([]byte(a.body), &a.m) != nil {
		t.Fatalf("%s: %v: no object: %d %s", a.what, err, a.status, a.body)
	}
	for k := range wire.Members(m.Raw, m.Result) {
		a.keys = append(a.keys, string(k.Text(m.Raw)))
	}
	if len(slices.Compact(slices.Sorted(slices.Values(a.keys)))) != len(a.keys) {
		t.Errorf("%s: a member twice: %s", a.what, a.body)
	}
}

// text returns a member that is a string; ok is false for others.
func (a *answered) text(key string) (s string, ok bool) {
	return s, a.m[key] != nil && json.Unmarshal(a.m[key], &s) == nil && a.m[key][0] == '"'
}

// null reports whether a member is absent or null.
func (a *answered) null(key string) bool { return a.m[key] == nil || string(a.m[key]) == "null" }

// meta returns a member of meta; nil if it is absent.
func (a *answered) meta(key string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(a.m["meta"], &m) != nil {
		return nil
	}
	return m[key]
}

var (
	uuid4       = regexp.MustCompile(`^(?i)[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	isoMillis   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	notNegative = regexp.MustCompile(`^(0|[1-9]\d*)$`)
)

// goodRequests are requests (method, path and body) to each endpoint that answers with a successful envelope.
var goodRequests = [][3]string{
	{"GET", "/resources", ""}, {"GET", "/prompts", ""},
	{"POST", "/call-tool", `{"tool":"plain","arguments":{}}`}, {"POST", "/call-tool", `{"tool":"asks","arguments":{}}`}, {"POST", "/tools/plain", `{}`},
	{"POST", "/read-resource", `{"uri":"a:b"}`}, {"POST", "/get-prompt", `{"name":"p"}`}, {"POST", "/complete", `{"ref":{},"argument":{}}`},
}

// badRequests are requests to each endpoint, and for each place that refuses, whose answer is an envelope without success.
var badRequests = [][3]string{
	{"POST", "/call-tool", `{"tool":"none","arguments":{}}`}, {"POST", "/call-tool", `{"tool":"fails","arguments":{}}`}, {"POST", "/call-tool", `{"tool":"errs","arguments":{}}`},
	{"POST", "/call-tool", `{"tool":"own","arguments":{}}`}, {"POST", "/call-tool", `{"tool":"odd","arguments":{}}`}, {"POST", "/call-tool", `{"tool":"query_callers","arguments":{}}`},
	{"POST", "/call-tool", `{`}, {"POST", "/call-tool", `[]`}, {"POST", "/call-tool", ``}, {"POST", "/tools/none", `{}`}, {"POST", "/tools/fails", `{}`},
	{"POST", "/read-resource", `{}`}, {"POST", "/get-prompt", `{}`}, {"POST", "/complete", `{}`}, {"POST", "/mcp/no/such", `{}`}, {"POST", "/mcp/tools/call", `{"name":"own"}`},
	{"GET", "/servers/gone/tools", ""}, {"GET", "/servers/gone/openapi.json", ""}, {"GET", "/servers/gone/resources", ""}, {"GET", "/servers/gone/prompts", ""},
	{"GET", "/call-tool", ""}, {"DELETE", "/tools", ""}, {"GET", "/tools/a/b/c", ""}, {"GET", "/health/x", ""}, {"POST", "/call-tool", strings.Repeat(" ", 5000)},
}

// scripted prepares the rig's server for goodRequests and badRequests.
func (r *rig) scripted() {
	r.s.set("tools/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Server == "gone" {
			return nil, proxy.Errf(proxy.ServerUnknown, "no server is called gone")
		}
		return replied(ex, strings.Replace(demo, `{"name":"plain"}`, `{"name":"plain"},{"name":"asks"},{"name":"fails"},{"name":"errs"},{"name":"own"},{"name":"odd"}`, 1)), nil
	})
	for _, method := range []string{"resources/list", "resources/templates/list", "prompts/list"} {
		r.s.set(method, func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Server == "gone" {
				return nil, proxy.Errf(proxy.Unreachable, "gone")
			}
			return replied(ex, `{"resources":[{}],"resourceTemplates":[],"prompts":[{}]}`), nil
		})
	}
	for _, method := range []string{"resources/read", "prompts/get", "completion/complete"} {
		r.s.result(method, `{"x":1}`)
	}
	r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) {
		switch string(wire.Get(ex.Msg.Raw, ex.Msg.Params, "name").Text(ex.Msg.Raw)) {
		case "asks":
			return replied(ex, `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`), nil
		case "fails":
			return replied(ex, `{"content":[],"isError":true}`), nil
		case "errs":
			return failed(ex, `{"code":-32000,"message":""}`), nil
		case "own":
			return nil, proxy.Errf(proxy.Overloaded, "busy")
		case "odd":
			return replied(ex, `null`), nil
		}
		return replied(ex, `{"content":[]}`), nil
	})
}

// answers returns the answers to the requests.
func (r *rig) answers(requests [][3]string) (all []*answered) {
	r.t.Helper()
	for _, q := range requests {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			all = append(all, r.ask(q[0], q[1], q[2], "Accept", accept))
		}
	}
	return all
}
