package merge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// pages answers each request for a list with the next of some results, and the last one for ever.
type pages struct {
	results []string // a text that is no object is an error message
	asked   []string // cursors
}

func (p *pages) ask(_ context.Context, method string, params []wire.Change) (wire.Message, error) {
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

func (p *pages) close() {}

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
		"times that are none":   {[]string{`{"tools":[],"ttlMs":-5}`}, "", 0, false, ""},
		"a time without end":    {[]string{`{"tools":[],"ttlMs":99999999999999}`}, "", 0, false, ""},
		"private":               {[]string{`{"tools":[],"ttlMs":5000,"cacheScope":"private","nextCursor":"c"}`, `{"tools":[],"ttlMs":5000}`}, "", 5 * time.Second, true, ""},
		"private for no time":   {[]string{`{"tools":[],"ttlMs":0,"cacheScope":"private"}`}, "", 0, false, ""},
		"what is no tool":       {[]string{`{"tools":[1,{"name":2},{},{"name":"a"},null]}`}, "a", 0, false, ""},
		"no list":               {[]string{`{}`}, "", 0, false, ""},
		"the same cursor":       {[]string{`{"tools":[{"name":"a"}],"nextCursor":"c"}`, `{"tools":[{"name":"b"}],"nextCursor":"c"}`}, "a b", 0, false, ""},
		"a cursor that is none": {[]string{`{"tools":[{"name":"a"}],"nextCursor":7}`}, "a", 0, false, ""},
		"an error":              {[]string{`{"code":-32603,"message":"no"}`}, "", 0, false, "tools/list with the error -32603 no"},
		"lost":                  {[]string{`{"tools":[{"name":"a"}],"nextCursor":"c"}`, "gone"}, "", 0, false, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pages{results: test.results}
			l, err := fetch(t.Context(), p, catalogue.Tools)
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
		if _, err := fetch(t.Context(), test.c, catalogue.Tools); !errors.Is(err, errTooMuch) || test.c.asked > test.most {
			t.Errorf("%s: %v after %d pages", what, err, test.c.asked)
		}
	}
}

// counting makes each page anew.
type counting struct {
	next  func() string
	asked int
}

func (c *counting) ask(context.Context, string, []wire.Change) (wire.Message, error) {
	c.asked++
	return proxy.ResultMessage([]byte(`1`), []byte(c.next())), nil
}

func (c *counting) close() {}

func TestChangedKinds(t *testing.T) {
	for method, want := range map[string]string{rules.ListChanged("tools"): "[tools]", rules.ListChanged("prompts"): "[prompts]", rules.ListChanged("resources"): "[resources templates]", "notifications/message": "[]"} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"` + method + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(changedKinds(&m)); got != want {
			t.Errorf("%s: %s", method, got)
		}
	}
}

// A connection that is lost is opened again, and lists are last known meanwhile.
func TestLostConnections(t *testing.T) {
	k := newTalker()
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: k.do, Modern: func(context.Context) (bool, error) { return false, nil }}}})
	c := r.opt.Catalogue
	c.Keep(map[string]string{"k": "HTTP"})
	until := func(want catalogue.Presence) {
		t.Helper()
		for {
			now := c.Snapshot()
			if now.Server("k").Presence == want {
				return
			}
			<-c.Changed(now.Version)
		}
	}
	r.Start()
	first := <-k.opened
	until(catalogue.There)
	first.EndFor(proxy.Closed, proxy.Errf(proxy.Lost, "killed"))
	until(catalogue.Away)
	second := <-k.opened
	until(catalogue.There)
	if first == second || second.State() != proxy.Initialized {
		t.Errorf("the second session is %v", second.State())
	}
	if err := r.Close(); err != nil || second.State() != proxy.Closed {
		t.Errorf("after Close: %v, the session is %v", err, second.State())
	}
}

// The members are described as they describe themselves.
func TestDescriptions(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy")
	r.Start()
	r.settled()
	for name, revision := range map[string]string{"a": "2026-07-28", "b": "2025-11-25"} {
		s := r.opt.Catalogue.Snapshot().Server(name)
		if s.Revision != revision || !strings.Contains(string(s.Info), `"name":"`+name+`"`) || s.Instructions != "This is "+name+"." || !strings.Contains(string(s.Capabilities), `"completions"`) {
			t.Errorf("%s: %s %s %s %q", name, s.Revision, s.Info, s.Capabilities, s.Instructions)
		}
		for kind := range catalogue.Kinds {
			if l := s.Lists[kind]; l == nil || len(l.Items) == 0 {
				t.Errorf("%s has no %s", name, kind)
			}
		}
	}
}
