package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/adapters/aggregator"
	"dragoman/internal/testkit"
)

// changeLine is a line of the audit trail about a request for a change of the registered servers.
type changeLine struct {
	Principal, User, Role, Address, Action, Server, Category, Decision, Policy, Status, Outcome, Verb, Path string
	StartedAt, FinishedAt                                                                                   string
	HTTPStatus                                                                                              int `json:"httpStatus"`
	Error                                                                                                   *struct{ Message string }
}

// changeLines returns the lines of an audit trail.
func changeLines(t *testing.T, file string) (all []changeLine) {
	t.Helper()
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var one changeLine
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, one)
	}
	return all
}

// Each request for a change of the registered servers has one line in the audit trail, whether it is done, refused or not allowed; one that
// only reads has a line if its caller may not.
func TestChangesOfServersAreAudited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	toml := strings.Replace(aggregatorToml(t, ""), "[aggregator]\n", "audit.enabled = true\naudit.file = \""+file+"\"\n[aggregator]\nseal_key = \"0123456789 0123456789 0123456789\"\n", 1)
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", toml))
	withSecret := `{"name":"two","transport_type":"SSE","connection_config":{"url":"http://127.0.0.1:9/","headers":{"X":"5ecret"}}}`
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}} // one connection: nothing of a request is in the line of the next one
	t.Cleanup(client.CloseIdleConnections)
	var before int
	for _, c := range []struct {
		key, verb, path, body string
		want                  *changeLine // nil: it has no line
	}{
		{operatorKey, "POST", "/servers", registration("one", "http://127.0.0.1:9/mcp", false), &changeLine{User: "op", Role: "operator", Action: "register", Server: "one", Outcome: "ok", HTTPStatus: 201}},
		{operatorKey, "POST", "/servers", withSecret, &changeLine{User: "op", Role: "operator", Action: "register", Server: "two", Outcome: "ok", HTTPStatus: 201}},
		{operatorKey, "POST", "/servers", registration("one", "http://127.0.0.1:9/mcp", false), &changeLine{User: "op", Role: "operator", Action: "register", Server: "one", Outcome: "refused", HTTPStatus: 409}},
		{operatorKey, "POST", "/servers", "{", &changeLine{User: "op", Role: "operator", Action: "register", Outcome: "refused", HTTPStatus: 422}},
		{operatorKey, "PATCH", "/servers/one", `{"description":"new"}`, &changeLine{User: "op", Role: "operator", Action: "update", Server: "one", Outcome: "ok", HTTPStatus: 200}},
		{operatorKey, "POST", "/servers/one/connect", "", &changeLine{User: "op", Role: "operator", Action: "connect", Server: "one", Outcome: "ok", HTTPStatus: 200}},
		{operatorKey, "POST", "/servers/one/refresh", "", &changeLine{User: "op", Role: "operator", Action: "refresh", Server: "one", Outcome: "ok", HTTPStatus: 200}},
		{operatorKey, "POST", "/servers/one/disconnect", `{"force":true}`, &changeLine{User: "op", Role: "operator", Action: "disconnect", Server: "one", Outcome: "ok", HTTPStatus: 200}},
		{operatorKey, "POST", "/test", testBody("http://127.0.0.1:1/mcp"), &changeLine{User: "op", Role: "operator", Action: "test", Server: "test", Outcome: "ok", HTTPStatus: 200}},
		{viewerKey, "POST", "/test", "{}", &changeLine{Role: "viewer", Action: "test", Outcome: "insufficient_scope", Verb: "POST", Path: "/test"}},
		{operatorKey, "DELETE", "/servers/one", "", &changeLine{User: "op", Role: "operator", Action: "remove", Server: "one", Outcome: "ok", HTTPStatus: 204}},
		{operatorKey, "DELETE", "/servers/one", "", &changeLine{User: "op", Role: "operator", Action: "remove", Server: "one", Outcome: "refused", HTTPStatus: 404}},
		{viewerKey, "DELETE", "/servers/two", "", &changeLine{Role: "viewer", Action: "remove", Server: "two", Outcome: "insufficient_scope", Verb: "DELETE", Path: "/servers/two"}},
		{operatorKey, "PUT", "/categories/music", "{}", &changeLine{User: "op", Role: "operator", Action: "put_category", Category: "music", Outcome: "ok", HTTPStatus: 200}},
		{operatorKey, "DELETE", "/categories/none", "", &changeLine{User: "op", Role: "operator", Action: "remove_category", Category: "none", Outcome: "refused", HTTPStatus: 404}},
		{operatorKey, "POST", "/servers/two/classify", `{"tool":"x","skill_ids":[]}`, &changeLine{User: "op", Role: "operator", Action: "classify", Server: "two", Outcome: "refused", HTTPStatus: 404}},
		{operatorKey, "POST", "/reclassify", `{"server":"two"}`, &changeLine{User: "op", Role: "operator", Action: "reclassify", Server: "two", Outcome: "refused", HTTPStatus: 404}},
		{viewerKey, "GET", "/servers", "", nil},
		{operatorKey, "GET", "/servers/two", "", nil},
		{operatorKey, "GET", "/servers/none", "", nil},
		{"", "GET", "/servers", "", &changeLine{Outcome: "unauthenticated", Verb: "GET", Path: "/servers"}},
		{"", "POST", "/servers", "{}", &changeLine{Outcome: "unauthenticated", Verb: "POST", Path: "/servers"}},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.verb, a.admin+aggregator.Path+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.key != "" {
			req.Header.Set("X-API-Key", c.key)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if c.want == nil {
			continue
		}
		var all []changeLine
		testkit.Eventually(t, c.verb+" "+c.path+": a line", func() bool { all = changeLines(t, file); return len(all) > before })
		got, want := all[len(all)-1], *c.want
		if len(all) != before+1 || got.Error != nil != (want.Outcome != "ok") || got.Address != "127.0.0.1" || got.FinishedAt == "" {
			t.Errorf("%s %s: %d new lines, the last one %+v", c.verb, c.path, len(all)-before, got)
		}
		before = len(all)
		got.Address, got.Principal, got.StartedAt, got.FinishedAt, got.Error = "", "", "", "", nil
		if want.Verb == "" {
			want.Status, want.Decision = "ok", "allowed"
			if want.HTTPStatus >= 400 {
				want.Status, want.Decision, want.Policy = "error", "denied", "registrations"
			}
		} else {
			want.Status, want.Decision, want.Policy, want.Path = "error", "denied", map[bool]string{true: "scopes", false: "auth"}[want.Role != ""], aggregator.Path+want.Path
		}
		if got != want {
			t.Errorf("%s %s:\n%+v, want\n%+v", c.verb, c.path, got, want)
		}
	}
	if text := testkit.ReadText(t, file); strings.Contains(text, "5ecret") || strings.Contains(text, operatorKey) {
		t.Error("the trail has a secret")
	}
}
