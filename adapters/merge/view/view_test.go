package view

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/names"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A cursor leads on when what it stands at is gone.
func TestCursorsStay(t *testing.T) {
	l := &list{}
	for _, name := range []string{"a x", "a y", "b x", "b y", "b z", "d x"} {
		server, tool, _ := strings.Cut(name, " ")
		l.entries = append(l.entries, entry{Name: names.Name{Server: server, Original: tool}})
	}
	for i := range l.entries {
		if got, err := l.after(l.cursor(i)); err != nil || got != i+1 {
			t.Errorf("after %v: %d, %v", l.entries[i].Name, got, err)
		}
	}
	after := func(server string, place int, key string) int {
		t.Helper()
		other := &list{}
		for i := range place {
			other.entries = append(other.entries, entry{Name: names.Name{Server: server, Original: fmt.Sprint(i)}})
		}
		other.entries[place-1].Original = key
		got, err := l.after(other.cursor(place - 1))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, test := range []struct {
		server string
		place  int
		key    string
		want   int
	}{{"b", 2, "gone", 4}, {"b", 9, "gone", 5}, {"c", 3, "x", 5}, {"0", 1, "x", 0}, {"e", 1, "x", 6}, {"a", 1, "gone", 1}} {
		if got := after(test.server, test.place, test.key); got != test.want {
			t.Errorf("after %v: %d", test, got)
		}
	}
}

func TestUnion(t *testing.T) {
	for _, test := range []struct{ a, b, want string }{
		{`{}`, `{"tools":{}}`, `{"tools":{}}`},
		{`{"tools":{}}`, `{"tools":{"listChanged":true}}`, `{"tools":{"listChanged":true}}`},
		{`{"tools":{"listChanged":false}}`, `{"tools":{"listChanged":true}}`, `{"tools":{"listChanged":true}}`},
		{`{"tools":{"listChanged":true}}`, `{"tools":{"listChanged":false}}`, `{"tools":{"listChanged":true}}`},
		{`{"x":1}`, `{"x":2,"y":{"z":[]}}`, `{"x":1,"y":{"z":[]}}`},
		{`{"extensions":{"a":{}}}`, `{"extensions":{"b":{}},"logging":{}}`, `{"extensions":{"a":{},"b":{}},"logging":{}}`},
		{`{"extensions":{"a":{"x":false,"y":{"z":1}}}}`, `{"extensions":{"a":{"x":true,"y":{"z":2,"w":3},"v":4}}}`, `{"extensions":{"a":{"x":false,"y":{"z":1,"w":3},"v":4}}}`},
		{`{"experimental":{"a":false},"new":false}`, `{"experimental":{"a":true},"new":true}`, `{"experimental":{"a":false},"new":false}`},
	} {
		if got := string(union([]byte(test.a), []byte(test.b), 0, false)); got != test.want {
			t.Errorf("%s and %s: %s, want %s", test.a, test.b, got, test.want)
		}
	}
	many := []byte("{}")
	for i := range 200 {
		many = wire.With(many, wire.Change{Key: fmt.Sprint("k", i), Value: []byte("1")})
	}
	if got := wire.Count(union([]byte(`{"a":1}`), many, 0, false), wire.Whole(union([]byte(`{"a":1}`), many, 0, false))); got != 201 {
		t.Errorf("%d members", got)
	}
}

// A URI that is not listed goes by template, then by scheme, and never to all.
func TestUnlistedURIs(t *testing.T) {
	c, err := catalogue.Open(t.Context(), catalogue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "b": {Transport: "HTTP"}, "c": {Transport: "HTTP"}})
	set := func(server string, kind catalogue.Kind, keys ...string) {
		var items []catalogue.Item
		for _, key := range keys {
			items = append(items, catalogue.Item{Key: key, Raw: wire.Object([]wire.Change{{Key: "uri", Value: wire.AppendText(nil, key)}})})
		}
		c.SetList(server, kind, catalogue.List{Items: items})
	}
	set("a", catalogue.Resources, "one://x", "two://x")
	set("b", catalogue.Resources, "one://x", "two://y", "three://x")
	set("b", catalogue.Templates, "one://t/{id}", "two://t/{id}")
	set("c", catalogue.Templates, "two://t/{id}")
	v := NewMaker(Options{Members: []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}}).Of(c.Snapshot(), proxy.Caller{})
	for uri, want := range map[string]string{
		"one://x":                       "a one://x",
		"two://y":                       "b two://y",
		names.PublicURI("b", "one://x"): "b one://x",
		"one://t/7":                     "b one://t/7",
		"three://z":                     "b three://z",
		"THREE://z":                     "b THREE://z",
		"one://z":                       "may be of several servers; name one: dragoman+a://one///z, dragoman+b://one///z",
		"two://t/7":                     "name one: dragoman+b://two///t/7, dragoman+c://two///t/7",
		"four://x":                      "Resource not found: four://x",
		names.PublicURI("d", "one://x"): "Resource not found: dragoman+d",
	} {
		at, err := v.Locate(uri)
		if got := fmt.Sprint(err); err != nil && strings.Contains(got, want) {
			continue
		}
		if err != nil || at.Server+" "+at.Original != want {
			t.Errorf("%s: %v, %v; want %s", uri, at, err, want)
		}
	}
}

// Servers of the catalogue that are not behind the endpoint do not exist for it.
func TestOtherServers(t *testing.T) {
	c, err := catalogue.Open(t.Context(), catalogue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "b": {Transport: "HTTP"}})
	for _, server := range []string{"b", "a"} {
		for kind := range catalogue.Kinds {
			raw := wire.Object([]wire.Change{{Key: kind.Key(), Value: []byte(`"demo://x"`)}, {Key: "of", Value: wire.AppendText(nil, server)}})
			c.SetList(server, kind, catalogue.List{Items: []catalogue.Item{{Key: "demo://x", Raw: raw}}})
		}
		c.Describe(server, catalogue.Description{Instructions: "I am " + server, Capabilities: []byte(`{"` + server + `":{}}`)})
	}
	c.SetList("b", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "own", Raw: []byte(`{"name":"own"}`)}}})
	c.SetPresence("a", catalogue.There)
	v := NewMaker(Options{Members: []Member{{Name: "a"}}}).Of(c.Snapshot(), proxy.Caller{})
	if got := v.Instructions() + string(v.Capabilities("2025-11-25")); got != "# a\n\nI am a"+`{"a":{}}` {
		t.Errorf("described as %s", got)
	}
	for kind := range catalogue.Kinds {
		page, err := pageOf(v, kind, nil, "")
		if got := string(page); err != nil || strings.Count(got, `"of":"a"`) != 1 || strings.Contains(got, `"b"`) || strings.Contains(got, partsKey) {
			t.Errorf("%s: %s, %v", kind, got, err)
		}
		if late := v.Late(kind); late != nil {
			t.Errorf("%s: %v are late", kind, late)
		}
	}
	if at, err := v.Locate("demo://x"); err != nil || at.Server != "a" {
		t.Errorf("a URI that belongs to another server: %v, %v", at, err)
	}
	if at, err := v.Locate("demo://y"); err != nil || at.Server != "a" {
		t.Errorf("a scheme that another server has, too: %v, %v", at, err)
	}
	for request, want := range map[string]string{
		`"tools/call","params":{"name":"own"}`:                                                 "Tool not found: own",
		`"tools/call","params":{"name":"b.own"}`:                                               "Tool not found: b.own",
		`"tools/call","params":{"name":"own","_meta":{"` + wire.MetaServer + `":"b"}}`:         `no server "b" is behind this endpoint; there is a`,
		`"resources/read","params":{"uri":"` + names.PublicURI("b", "demo://x") + `"}`:         "Resource not found",
		`"resources/read","params":{"uri":"demo://x","_meta":{"` + wire.MetaServer + `":"b"}}`: `no server "b" is behind this endpoint; there is a`,
		`"resources/read","params":{"uri":"other://x"}`:                                        "Resource not found: other://x",
	} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":` + request + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Destination(&m); err == nil || !strings.Contains(err.Message, want) {
			t.Errorf("%s: %v, want %s", request, err, want)
		}
	}
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"demo://x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := v.Destination(&m); v.Certain(&m, &d) {
		t.Error("the owner of a URI is certain, and is another server")
	}
}

// pageOf returns the result of an answer.
func pageOf(v *View, kind catalogue.Kind, cursor *string, version string) ([]byte, *proxy.Error) {
	m, err := v.Answer([]byte("1"), kind, cursor, version)
	if err != nil {
		return nil, err
	}
	return m.AppendPart(nil, m.Result), nil
}
