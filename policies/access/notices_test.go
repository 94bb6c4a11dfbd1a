package access

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/rules"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

func updated(uri string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
}

// A notice about a resource that a caller may not use does not exist for it, and others have the client's URI.
func TestFilterNotices(t *testing.T) {
	metric, err := NewFilterMetric(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	grants := map[string]Grant{"ann": {Resources: Names{Deny: []string{"file:///srv/secret*"}}}}
	deny := NewFilter(FilterOptions{Server: "up", Grants: grants}, metric)
	both := NewFilter(FilterOptions{Server: "up", Grants: grants, Renamed: Renames{Resources: map[string]string{"file:///srv/*": "doc:///*"}}}, metric)
	const ack = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["file:///srv/a","x:y"]}}}`
	for _, c := range []struct {
		name   string
		filter *Filter
		who    string
		raw    string
		want   string // empty: it is dropped
	}{
		{"no filter", nil, "ann", updated("file:///srv/secret"), updated("file:///srv/secret")},
		{"denied", deny, "ann", updated("file:///srv/secret"), ""},
		{"denied, in another spelling", deny, "ann", updated("FILE:///srv/%73ecret"), ""},
		{"permitted", deny, "ann", updated("file:///srv/a"), updated("file:///srv/a")},
		{"another caller's", deny, "bob", updated("file:///srv/secret"), updated("file:///srv/secret")},
		{"renamed", both, "ann", updated("file:///srv/a"), updated("doc:///a")},
		{"renamed, but denied", both, "ann", updated("file:///srv/secret"), ""},
		{"not renamed", both, "ann", updated("x:y"), updated("x:y")},
		{"an acknowledgement", both, "ann", ack, strings.Replace(ack, "file:///srv/a", "doc:///a", 1)},
		{"an acknowledgement without names of its own", deny, "ann", ack, ack},
		{"another notice", both, "ann", policytest.Notification, policytest.Notification},
		{"no notice", deny, "ann", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///srv/secret"}}`, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///srv/secret"}}`},
	} {
		m := policytest.Scan(t, c.raw)
		passes := c.filter.Notice(proxy.Caller{Principal: c.who}, &m)
		if got := string(m.Append(nil)); passes != (c.want != "") || passes && got != c.want {
			t.Errorf("%s: passes %v, %s", c.name, passes, got)
		}
	}
}

// A notice about a resource that needs a scope reaches callers with that scope only, on a session's stream and among the replies of a call.
func TestScopeNotices(t *testing.T) {
	scopes, err := Scopes(ScopeOptions{Rules: map[string][]ScopeRule{"up": {{"resource:file:///s/*", []string{"secret"}}}, "plain": {{"tool:t", []string{"x"}}}}, Only: "up", Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	with, without := &proxy.Rights{Scopes: []string{"secret"}}, &proxy.Rights{}
	for _, c := range []struct {
		name, server, raw string
		rights            *proxy.Rights
		passes            bool
	}{
		{"with the scope", "up", updated("file:///s/a"), with, true},
		{"without", "up", updated("file:///s/a"), without, false},
		{"without, of the only server", "", updated("file:///s/a"), without, false},
		{"without authentication", "up", updated("file:///s/a"), nil, true},
		{"another resource", "up", updated("file:///t/a"), without, true},
		{"another server", "other", updated("file:///s/a"), without, true},
		{"a server with other rules", "plain", updated("file:///s/a"), without, true},
		{"another notice", "up", policytest.Notification, without, true},
		{"of an uncertain name", "up", updated("file:///t/../s/a"), without, false},
	} {
		m := policytest.Scan(t, c.raw)
		if scopes.Notice(c.server, proxy.Caller{Rights: c.rights}, &m) != c.passes {
			t.Errorf("%s: passes %v", c.name, !c.passes)
		}
	}
	m := policytest.Scan(t, updated("file:///s/a"))
	if !(*ScopePolicy)(nil).Notice("up", proxy.Caller{Rights: without}, &m) {
		t.Error("a notice is dropped without rules")
	}
	ex := &proxy.Exchange{Msg: policytest.Scan(t, policytest.Call), Caller: proxy.Caller{Rights: without}}
	replies, err := scopes.Policy()(func(*proxy.Exchange) (proxy.Replies, error) {
		return &policytest.Script{Messages: []string{updated("file:///s/a"), updated("file:///t/a"), updated("file:///s/b"), policytest.Result}, End: io.EOF}, nil
	})(ex)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{updated("file:///t/a"), policytest.Result} {
		if m, err := replies.Next(time.Time{}); err != nil || string(m.Append(nil)) != want {
			t.Errorf("%v, %v; want %s", m, err, want)
		}
	}
}

// A listener serves the revisions that it was told to: it refuses others, and asks servers for none of them.
func TestEras(t *testing.T) {
	all := rules.Allowed{}
	newest, oldest := all.Legacy()[0], all.Legacy()[len(all.Legacy())-1]
	only := func(entries ...string) rules.Allowed {
		a, err := rules.Allow(entries)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	asks := func(version string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `"}}`
	}
	settles := func(version string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"` + version + `"}}`
	}
	discover := `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`
	supports := func(versions ...string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["` + strings.Join(versions, `","`) + `"]}}`
	}
	for _, c := range []struct {
		name    string
		served  rules.Allowed
		era     proxy.Era
		version string
		request string
		seen    string
		reply   string
		got     string
		fails   string
	}{
		{"all", all, proxy.Legacy, oldest, asks(oldest), asks(oldest), settles("x"), settles("x"), ""},
		{"a revision that is served", only("legacy"), proxy.Legacy, oldest, asks(oldest), asks(oldest), settles(oldest), settles(oldest), ""},
		{"a revision that is not served", only(newest), proxy.Legacy, oldest, asks(oldest), asks(newest), settles(newest), settles(newest), ""},
		{"settled on one that is not served", only(newest), proxy.Legacy, newest, asks(newest), asks(newest), settles(oldest), "", "settled on revision " + oldest},
		{"settled on none", only(newest), proxy.Legacy, newest, asks(newest), asks(newest), policytest.Result, policytest.Result, ""},
		{"a handshake that fails", only(newest), proxy.Legacy, newest, asks(newest), asks(newest), policytest.Failure, policytest.Failure, ""},
		{"no handshake", only("modern"), proxy.Legacy, newest, asks(newest), "", "", "", "initialize is not served here"},
		{"a legacy call", only("modern"), proxy.Legacy, newest, policytest.Call, policytest.Call, settles(oldest), settles(oldest), ""},
		{"a modern call", only("modern"), proxy.Modern, rules.ModernVersion, policytest.Call, policytest.Call, policytest.Result, policytest.Result, ""},
		{"a modern call of another revision", only("modern"), proxy.Modern, "x", policytest.Call, "", "", "", "is not served here"},
		{"a modern call, legacy only", only("legacy"), proxy.Modern, rules.ModernVersion, policytest.Call, "", "", "", "send initialize"},
		{"discover", only("modern"), proxy.Modern, rules.ModernVersion, discover, discover, supports(rules.ModernVersion, oldest, "unknown"), supports(rules.ModernVersion, "unknown"), ""},
		{"a notification", only("legacy"), proxy.Modern, "x", policytest.Notification, policytest.Notification, policytest.Result, policytest.Result, ""},
	} {
		seen := ""
		ex := &proxy.Exchange{Msg: policytest.Scan(t, c.request), Client: proxy.Client{Era: c.era, Version: c.version}}
		replies, err := Eras(c.served)(func(ex *proxy.Exchange) (proxy.Replies, error) {
			seen = string(ex.Msg.Append(nil))
			return proxy.Reply(policytest.Scan(t, c.reply)), nil
		})(ex)
		got := ""
		if err == nil {
			m, failed := replies.Next(time.Time{})
			if err = failed; err == nil {
				got = string(m.Append(nil))
			}
		}
		if seen != c.seen || got != c.got || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: the server saw %q, the client got %q, %v", c.name, seen, got, err)
		}
	}
}
