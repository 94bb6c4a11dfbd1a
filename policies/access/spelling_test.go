package access

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

func reading(uri string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + uri + `"}}`
}

// What a rule allows is reached in its own spelling, which goes on as it is; what it denies in none. A spelling that
// servers read differently is refused with the reason, by every rule about resources, and by none about other things.
func TestAccessOfSpelledResources(t *testing.T) {
	p := newAccess(t, FilterOptions{Grants: map[string]Grant{
		"allowed": {Resources: Names{Allow: []string{"demo://Pub/*", "demo://one"}}},
		"denied":  {Resources: Names{Deny: []string{"demo://secret/{id}", "demo://x"}}},
		"tools":   {Tools: Names{Deny: []string{"x"}}},
	}, Renamed: Renames{}})
	for _, c := range []struct{ who, uri, fails string }{
		{"allowed", "demo://Pub/a%2fb c", ""}, {"allowed", "DEMO://Pub/a", ""}, {"allowed", "demo://one", ""}, {"allowed", "demo://Pub/%7Ea", ""},
		{"allowed", "demo://pub/a", "not found"}, {"allowed", "demo://one/", "not found"}, {"allowed", "demo://Pub@other/a", "not found"},
		{"allowed", "demo://Pub/../a", `a segment "." or ".."`}, {"allowed", " demo://one", "white space at an end"},
		{"denied", "demo://secrets", ""}, {"denied", "demo://secret/1", "not found"}, {"denied", "demo://SECRET/%31", "not found"}, {"denied", "demo://x/.", "a segment"},
		{"denied", "x", "no scheme"}, {"denied", "demo://y\\t", "a control character"}, {"denied", "demo://" + strings.Repeat("y", 64<<10), "more than 65536 bytes"},
		{"tools", "demo://y/../x", ""}, {"other", "demo://y/../x", ""},
	} {
		seen, _, err := through(t, p, c.who, reading(c.uri), okResult)
		if c.fails == "" && (err != nil || seen != reading(c.uri)) {
			t.Errorf("%s reads %s: the server saw %q, %v", c.who, c.uri, seen, err)
		}
		if c.fails == "" {
			continue
		}
		var e *proxy.Error
		if !errors.As(err, &e) || e.Code != proxy.CodeInvalidParams || !strings.Contains(e.Message, c.fails) || seen != "" {
			t.Errorf("%s reads %s: the server saw %q, %v; want %q", c.who, c.uri, seen, err, c.fails)
		}
	}
	seen, _, err := through(t, p, "denied", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["demo://y","DEMO:/X",7,"demo://z/../x"]}}}`, okResult)
	if err != nil || !strings.Contains(seen, `"resourceSubscriptions":["demo://y"]`) {
		t.Errorf("a listen: %s, %v", seen, err)
	}
	_, got, err := through(t, p, "denied", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"demo://Y"},{"uri":"DEMO://X/"},{"uri":"demo://a/../b"}]}}`)
	if err != nil || !strings.Contains(got, `"resources":[{"uri":"demo://Y"}]`) {
		t.Errorf("a list: %s, %v", got, err)
	}
	_, got, err = through(t, p, "denied", `{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"resourceTemplates":[{"uriTemplate":"demo://secret/{x}"},{"uriTemplate":"demo://{x}"}]}}`)
	if err != nil || !strings.Contains(got, `"resourceTemplates":[{"uriTemplate":"demo://{x}"}]`) {
		t.Errorf("templates: %s, %v", got, err)
	}
}

// What changed of a resource that a client may not use is kept from it. What a tool's result links to is not: the server
// has decided to show that.
func TestAccessWithholdsUpdates(t *testing.T) {
	p := newAccess(t, FilterOptions{Grants: map[string]Grant{"*": {Resources: Names{Deny: []string{"demo://x"}}}}})
	updated := func(uri string) string {
		return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
	}
	link := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","uri":"demo://x"}]}}`
	replies, err := p(func(*proxy.Exchange) (proxy.Replies, error) {
		return &policytest.Script{Messages: []string{updated("DEMO://x"), updated("demo://y"), updated("demo://x"), link}, End: io.EOF}, nil
	})(policytest.Request(t, policytest.Call))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{updated("demo://y"), link} {
		if m, err := replies.Next(time.Time{}); err != nil || string(m.Append(nil)) != want {
			t.Errorf("%v %v, want %s", m, err, want)
		}
	}
}

// A renamed thing is not reached by the server's own name, in any spelling, unless another has been given that name.
func TestAccessOfSpelledRenames(t *testing.T) {
	p := newAccess(t, FilterOptions{Renamed: Renames{Tools: map[string]string{"a": "b", "b": "a", "old": "new"}, Resources: map[string]string{"demo://a": "demo://b", "demo://b": "demo://a", "demo://old/*": "demo://new/*"}}})
	for request, want := range map[string]string{
		policytest.CallOf("a"): policytest.CallOf("b"), policytest.CallOf("new"): policytest.CallOf("old"), policytest.CallOf("Old"): "", policytest.CallOf("old "): "",
		reading("demo://a"): reading("demo://b"), reading("demo://new/%41"): reading("demo://old/%41"), reading("demo://OLD/x"): "", reading("demo://new/../x"): "",
	} {
		seen, _, err := through(t, p, "", request, okResult)
		if seen != want || (err == nil) != (want != "") {
			t.Errorf("%s: the server saw %q, %v; want %q", request, seen, err, want)
		}
	}
}

// Refuse decides and records as the policy does.
func TestAccessRefusesForOthers(t *testing.T) {
	reg := prometheus.NewRegistry()
	metric, err := NewFilterMetric(reg)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFilter(FilterOptions{Server: "up", Grants: map[string]Grant{"*": {Tools: Names{Deny: []string{"x"}}}}}, metric)
	denied, allowed := policytest.Request(t, policytest.CallOf("x")), policytest.Request(t, policytest.CallOf("y"))
	if err := f.Refuse(denied); !proxy.IsFault(err, proxy.ToolUnknown) || denied.RefusedBy != "access" {
		t.Errorf("%v, refused by %q", err, denied.RefusedBy)
	}
	if err := f.Refuse(allowed); err != nil || allowed.RefusedBy != "" {
		t.Errorf("%v, refused by %q", err, allowed.RefusedBy)
	}
	if n := policytest.Labels(t, reg, "dragoman_access_total", "what")["refused"]; n != 1 {
		t.Errorf("%v refusals", n)
	}
	if err := (*Filter)(nil).Refuse(denied); err != nil {
		t.Error(err)
	}
}
