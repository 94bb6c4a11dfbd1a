package view

import (
	"slices"
	"strings"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// twice returns what is seen of servers a and b that list the same resources, templates and apps, of which a is the first.
func twice(t *testing.T) *View {
	t.Helper()
	c := opened(t, "a", "b")
	for _, server := range []string{"a", "b"} {
		c.SetList(server, catalogue.Resources, of(catalogue.Resources, "demo://x", "ui://chart"))
		c.SetList(server, catalogue.Templates, of(catalogue.Templates, "demo://t/{id}"))
		c.SetList(server, catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "t", Raw: []byte(`{"name":"t","_meta":{"ui":{"resourceUri":"ui://chart"}}}`)}}})
	}
	return NewMaker(Options{Members: []Member{{Name: "a"}, {Name: "b"}}}).Of(c.Snapshot(), proxy.Caller{})
}

// A message is looked into only if it has a member that may hold a URI.
func TestMayHaveURIs(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"uri":"x"}`: true, `uri"`: true, `{"resourceUri":"x"}`: true, `rceUri"`: false, `{"openai/outputTemplate":"x"}`: true, `{"u":"user","uri":1}`: true, `uoutputTemplate"`: true,
		`{"user":"uris"}`: false, `{"u":"ur`: false, `{"Template":1}`: false, `{"u":"tputTemplat"}`: false, `{"resourceUr":1}`: false, `u`: false, ``: false,
	} {
		if got := MayHaveURIs([]byte(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// URIs in a result lead to the server that has given it; those that do already stay, and with them the message.
func TestResultURIs(t *testing.T) {
	v := twice(t)
	for server, want := range map[string]string{"a": `"uri":"demo://x"`, "b": `"uri":"dragoman+b://demo///x"`} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"demo://x"},{"uri":7}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		v.ResultURIs(&m, m.Result, server)
		if edits := len(m.Edits); !strings.Contains(string(m.Append(nil)), want) || (edits > 0) != (server == "b") {
			t.Errorf("%s: %s, %d edits", server, m.Append(nil), edits)
		}
	}
}

// Lists have the URIs and templates of the second server in their long form, and so have its tools the URIs of their apps.
func TestListedURIs(t *testing.T) {
	v := twice(t)
	for kind, want := range map[catalogue.Kind][]string{
		catalogue.Resources: {"demo://x", "ui://chart", "dragoman+b://demo///x", "ui://dragoman+b/chart"},
		catalogue.Templates: {"demo://t/{id}", "dragoman+b://demo///t/{id}"},
	} {
		if got, _ := keysOf(t, v, kind, nil); !slices.Equal(got, want) {
			t.Errorf("%s: %q", kind, got)
		}
	}
	page, err := pageOf(v, catalogue.Tools, nil, "")
	if got := string(page); err != nil || !strings.Contains(got, `{"name":"a.t","_meta":{"ui":{"resourceUri":"ui://chart"}}}`) || !strings.Contains(got, `{"name":"b.t","_meta":{"ui":{"resourceUri":"ui://dragoman+b/chart"}}}`) {
		t.Errorf("tools: %s, %v", got, err)
	}
}

// A client knows a resource by the URI with which it has asked, unless that leads to another server.
func TestKnownURI(t *testing.T) {
	v := twice(t)
	for _, test := range []struct{ server, uri, asked, want string }{
		{"b", "demo://x", "", "dragoman+b://demo///x"},
		{"a", "demo://x", "demo://x", "demo://x"},
		{"a", "demo://x", "dragoman+a://demo///x", "dragoman+a://demo///x"},
		{"b", "demo://x", "demo://x", "dragoman+b://demo///x"},
		{"b", "demo://gone", "demo://gone", "demo://gone"},
	} {
		if got := v.KnownURI(test.server, test.uri, test.asked); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// A destination is certain if nothing that is listed later can change it: the request, or a prefix, names the server.
func TestCertainDestinations(t *testing.T) {
	c := opened(t, "a", "b")
	c.SetList("a", catalogue.Tools, of(catalogue.Tools, "t"))
	v := NewMaker(Options{Members: []Member{{Name: "a"}, {Name: "b"}}}).Of(c.Snapshot(), proxy.Caller{})
	for params, want := range map[string]bool{`"name":"t"`: false, `"name":"a.t"`: true, `"name":"t","_meta":{"` + wire.MetaServer + `":"a"}`: true} {
		m := message(t, "tools/call", params)
		if d, err := v.Destination(m); err != nil || v.Certain(m, &d) != want || d.Server != "a" || d.Original != "t" {
			t.Errorf("%s: %+v, %v", params, d, err)
		}
	}
}
