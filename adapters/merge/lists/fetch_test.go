package lists

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// pages answers each request for a list with the next of some results, and the last one for ever.
type pages struct {
	results []string // a text that is no object is an error message
	asked   []string // cursors
}

func (p *pages) Ask(_ context.Context, method string, params []wire.Change) (wire.Message, error) {
	p.asked = append(p.asked, string(params[0].Value))
	result := p.results[0]
	if len(p.results) > 1 {
		p.results = p.results[1:]
	}
	if !strings.HasPrefix(result, "{") {
		return wire.Message{}, errors.New(result)
	}
	if strings.HasPrefix(result, `{"code"`) {
		return wire.Scan([]byte(`{"jsonrpc":"2.0","id":"x","error":` + result + `}`))
	}
	return proxy.ResultMessage([]byte(`"`+method+`"`), []byte(result)), nil
}

func TestFetch(t *testing.T) {
	for name, test := range map[string]struct {
		results []string
		keys    string
		ttl     time.Duration
		private bool
		err     string
	}{
		"one page":              {[]string{`{"tools":[{"name":"a"},{"name":"b"}]}`}, "a b", 0, false, ""},
		"two pages":             {[]string{`{"tools":[{"name":"a"}],"nextCursor":"c"}`, `{"tools":[{"name":"b"}]}`}, "a b", 0, false, ""},
		"the least time":        {[]string{`{"tools":[],"ttlMs":5000,"cacheScope":"public","nextCursor":"c"}`, `{"tools":[],"ttlMs":3000}`}, "", 3 * time.Second, false, ""},
		"no time on one page":   {[]string{`{"tools":[],"ttlMs":5000,"nextCursor":"c"}`, `{"tools":[]}`}, "", 0, false, ""},
		"no time on the first":  {[]string{`{"tools":[],"nextCursor":"c"}`, `{"tools":[],"ttlMs":5000}`}, "", 0, false, ""},
		"the longest time":      {[]string{`{"tools":[],"ttlMs":1099511627776}`}, "", 1 << 40 * time.Millisecond, false, ""},
		"times that are none":   {[]string{`{"tools":[],"ttlMs":-5}`}, "", 0, false, ""},
		"a time without end":    {[]string{`{"tools":[],"ttlMs":99999999999999}`}, "", 0, false, ""},
		"private":               {[]string{`{"tools":[],"ttlMs":5000,"cacheScope":"private","nextCursor":"c"}`, `{"tools":[],"ttlMs":5000}`}, "", 5 * time.Second, true, ""},
		"private for no time":   {[]string{`{"tools":[],"ttlMs":0,"cacheScope":"private"}`}, "", 0, false, ""},
		"what is no tool":       {[]string{`{"tools":[1,{"name":2},{},{"name":"a"},null]}`}, "a", 0, false, ""},
		"no list":               {[]string{`{}`}, "", 0, false, ""},
		"the same cursor":       {[]string{`{"tools":[{"name":"a"}],"nextCursor":"c"}`, `{"tools":[{"name":"b"}],"nextCursor":"c"}`}, "a b", 0, false, ""},
		"a cursor that is none": {[]string{`{"tools":[{"name":"a"}],"nextCursor":7}`}, "a", 0, false, ""},
		"an error":              {[]string{`{"code":-32603,"message":"no"}`}, "", 0, false, "tools/list with the error -32603 no"},
		"no such method":        {[]string{`{"code":-32601,"message":"no"}`}, "", 0, false, ""},
		"a page that is none":   {[]string{`{"tools":[{"name":"a"}],"nextCursor":"c"}`, `{"code":-32601,"message":"no"}`}, "", 0, false, "tools/list with the error -32601 no"},
		"lost":                  {[]string{`{"tools":[{"name":"a"}],"nextCursor":"c"}`, "gone"}, "", 0, false, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pages{results: test.results}
			l, err := Fetch(t.Context(), p, catalogue.Tools)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			var keys []string
			for _, item := range l.Items {
				keys = append(keys, item.Key)
			}
			if got := strings.Join(keys, " "); err != nil || got != test.keys || l.TTL != test.ttl || l.Private != test.private {
				t.Errorf("%s, for %s, private %v, error %v", got, l.TTL, l.Private, err)
			}
			for i, cursor := range p.asked {
				if want := map[bool]string{true: "", false: `"c"`}[i == 0]; cursor != want {
					t.Errorf("page %d was asked for by %s", i, cursor)
				}
			}
		})
	}
}

// A member that lists without end is stopped.
func TestFetchIsBounded(t *testing.T) {
	n := 0
	many := func(items int, size int) *counting {
		text := `","description":"` + strings.Repeat("x", size) + `"}`
		return &counting{func() string {
			n++
			var all []string
			for i := range items {
				all = append(all, `{"name":"`+strconv.Itoa(n)+"-"+strconv.Itoa(i)+text)
			}
			return `{"tools":[` + strings.Join(all, ",") + `],"nextCursor":"` + strconv.Itoa(n) + `"}`
		}, 0}
	}
	for what, test := range map[string]struct {
		c    *counting
		most int
	}{"pages": {many(0, 0), maxPages}, "items": {many(3000, 0), 4}, "bytes": {many(1, 9<<20), 8}} {
		if _, err := Fetch(t.Context(), test.c, catalogue.Tools); !errors.Is(err, errTooMuch) || test.c.asked > test.most {
			t.Errorf("%s: %v after %d pages", what, err, test.c.asked)
		}
	}
}

// A member may list as much as the bounds say.
func TestFetchUpToTheBounds(t *testing.T) {
	tools := func(n int, text string) string {
		return `{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"`+text+`"},`, n), ",") + `]}`
	}
	overhead := len(proxy.ResultMessage([]byte(`"tools/list"`), []byte(tools(1, ""))).Raw)
	for what, test := range map[string]struct {
		page string
		err  error
	}{
		"items": {tools(maxItems, "x"), nil}, "one more item": {tools(maxItems+1, "x"), errTooMuch},
		"bytes": {tools(1, strings.Repeat("x", maxBytes-overhead)), nil}, "one more byte": {tools(1, strings.Repeat("x", maxBytes-overhead+1)), errTooMuch},
	} {
		if _, err := Fetch(t.Context(), &pages{results: []string{test.page}}, catalogue.Tools); !errors.Is(err, test.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// counting makes each page anew.
type counting struct {
	next  func() string
	asked int
}

func (c *counting) Ask(context.Context, string, []wire.Change) (wire.Message, error) {
	c.asked++
	return proxy.ResultMessage([]byte(`1`), []byte(c.next())), nil
}

func TestChanged(t *testing.T) {
	for method, want := range map[string]string{rules.ListChanged("tools"): "[tools]", rules.ListChanged("prompts"): "[prompts]", rules.ListChanged("resources"): "[resources templates]", "notifications/message": "[]"} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"` + method + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(Changed(&m)); got != want {
			t.Errorf("%s: %s", method, got)
		}
	}
}

// An empty list after a full one is believed when it comes twice.
func TestEmptyLists(t *testing.T) {
	c, err := catalogue.Open(t.Context(), catalogue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}})
	notes := make(chan string, 1)
	note := func(level, server, msg string, _ error) { notes <- level + " " + server + ": " + msg }
	full := catalogue.List{Items: []catalogue.Item{{Key: "x", Raw: []byte(`{"name":"x"}`)}}}
	count := func() int { return len(c.Snapshot().Server("a").Lists[catalogue.Tools].Items) }
	of := New(Options{Catalogue: c, EmptyAgain: time.Hour, Poll: 24 * time.Hour, Note: note})
	defer of.Close()
	f := of.newReader(&Server{Name: "a"})
	announcing := &connection{caps: []byte(`{"tools":{"listChanged":true}}`)}
	due := func() time.Time { return f.due(announcing) }
	never := func(at time.Time) bool { return time.Until(at) > 2*time.Hour }
	f.set(catalogue.Tools, catalogue.List{})
	if count() != 0 || !never(due()) {
		t.Errorf("an empty list that was never full: %d tools, due %v", count(), due())
	}
	f.set(catalogue.Tools, full)
	f.set(catalogue.Tools, catalogue.List{})
	f.set(catalogue.Tools, catalogue.List{})
	if at := due(); count() != 1 || time.Until(at) < time.Minute || time.Until(at) > time.Hour {
		t.Errorf("at once: %d tools, due %v", count(), at)
	}
	f.empty[catalogue.Tools] = f.empty[catalogue.Tools].Add(-time.Hour)
	f.set(catalogue.Tools, catalogue.List{})
	if count() != 0 || !never(due()) {
		t.Errorf("later: %d tools, due %v", count(), due())
	}
	if note := <-notes; !strings.Contains(note, "warn a: the server has emptied its list of tools") {
		t.Errorf("noted %q", note)
	}
	f.set(catalogue.Tools, full)
	f.set(catalogue.Tools, catalogue.List{})
	f.set(catalogue.Tools, full)
	if count() != 1 || !never(due()) {
		t.Errorf("full again: %d tools, due %v", count(), due())
	}
}
