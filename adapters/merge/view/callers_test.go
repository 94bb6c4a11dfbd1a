package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/names"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// opened returns a catalogue with some servers, which are there.
func opened(t *testing.T, servers ...string) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Open(t.Context(), catalogue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]catalogue.Kept{}
	for _, name := range servers {
		kept[name] = catalogue.Kept{Transport: "HTTP"}
	}
	c.Keep(kept)
	for _, name := range servers {
		c.SetPresence(name, catalogue.There)
	}
	return c
}

// of returns a list with some keys.
func of(kind catalogue.Kind, keys ...string) (l catalogue.List) {
	for _, key := range keys {
		l.Items = append(l.Items, catalogue.Item{Key: key, Raw: wire.Object([]wire.Change{{Key: kind.Key(), Value: wire.AppendText(nil, key)}})})
	}
	return l
}

// hint returns a member of a page.
func hint(t *testing.T, v *View, kind catalogue.Kind, path ...string) string {
	t.Helper()
	page, err := pageOf(v, kind, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return string(wire.Path(page, wire.Whole(page), path...).Of(page))
}

// A list of several may be cached as the strictest of them may, and not at all unless all of it is up to date.
func TestHowListsMayBeCached(t *testing.T) {
	c := opened(t, "a", "b")
	maker := NewMaker(Options{Members: []Member{{Name: "a"}, {Name: "b"}}})
	check := func(what, ttl, scope string) {
		t.Helper()
		v := maker.Of(c.Snapshot(), proxy.Caller{})
		if got := hint(t, v, catalogue.Tools, "ttlMs") + " " + hint(t, v, catalogue.Tools, "cacheScope"); got != ttl+` "`+scope+`"` {
			t.Errorf("%s: %s", what, got)
		}
	}
	set := func(server string, ttl time.Duration, private bool) {
		l := of(catalogue.Tools, "x")
		l.TTL, l.Private = ttl, private
		c.SetList(server, catalogue.Tools, l)
	}
	check("never listed", "0", "public")
	set("a", 5*time.Second, false)
	check("one of two", "0", "public")
	for what, test := range map[string]struct {
		a, b    time.Duration
		private bool
		ttl     string
	}{"the first is less": {3 * time.Second, 5 * time.Second, false, "3000"}, "the second is less": {5 * time.Second, 3 * time.Second, true, "3000"}, "one is not cached": {5 * time.Second, 0, false, "0"}, "the first is not cached": {0, 5 * time.Second, false, "0"}} {
		set("a", test.a, false)
		set("b", test.b, test.private)
		check(what, test.ttl, map[bool]string{true: "private", false: "public"}[test.private])
	}
	set("b", 5*time.Second, false)
	c.SetPresence("b", catalogue.Away)
	check("one is away", "0", "public")
	if got := hint(t, maker.Of(c.Snapshot(), proxy.Caller{}), catalogue.Tools, "_meta", partsKey); !strings.Contains(got, `[{"name":"b","list":"last known","since":"`) {
		t.Errorf("away: %s", got)
	}
	c.SetPresence("b", catalogue.Out)
	check("one is out", "0", "public")
	if got := hint(t, maker.Of(c.Snapshot(), proxy.Caller{}), catalogue.Tools, "_meta", partsKey); !strings.Contains(got, `[{"name":"b","list":"left out","since":"`) {
		t.Errorf("out: %s", got)
	}
}

// Callers share a view unless a member shows them different lists; views are of one version of the catalogue, and bounded.
func TestViewsAreShared(t *testing.T) {
	c := opened(t, "a")
	ann, bob := proxy.Caller{Principal: "ann"}, proxy.Caller{Principal: "bob"}
	narrow := proxy.Caller{Principal: "ann", Rights: &proxy.Rights{Kind: "jwt", Name: "ann", Scopes: []string{"read"}}}
	all := NewMaker(Options{Members: []Member{{Name: "a"}}})
	if all.Of(c.Snapshot(), ann) != all.Of(c.Snapshot(), bob) {
		t.Error("two callers that see the same have two views")
	}
	apart := NewMaker(Options{Members: []Member{{Name: "a", Apart: true}}})
	first := apart.Of(c.Snapshot(), ann)
	if first != apart.Of(c.Snapshot(), ann) || first == apart.Of(c.Snapshot(), bob) || first == apart.Of(c.Snapshot(), narrow) {
		t.Error("views are shared by others than the caller, or not by the caller")
	}
	if first != apart.Of(c.Snapshot(), ann) {
		t.Error("a view is made anew because others have one")
	}
	for i := range maxViews {
		apart.Of(c.Snapshot(), proxy.Caller{Principal: fmt.Sprint(i)})
		if n := len(apart.each); n > maxViews {
			t.Errorf("%d views", n)
		}
	}
	first = apart.Of(c.Snapshot(), ann)
	c.SetList("a", catalogue.Tools, of(catalogue.Tools, "x"))
	if now := apart.Of(c.Snapshot(), ann); now == first || len(now.list(catalogue.Tools).entries) != 1 {
		t.Error("the view of a former version is shown")
	}
}

// A view with lists of a caller's own stays the same while these do, and what belongs to such a server is known by these alone.
func TestOwnViews(t *testing.T) {
	c := opened(t, "a", "b")
	c.SetList("a", catalogue.Resources, of(catalogue.Resources, "one://public", "two://x"))
	c.SetList("b", catalogue.Resources, of(catalogue.Resources, "one://x"))
	maker := NewMaker(Options{Members: []Member{{Name: "a"}, {Name: "b"}}})
	own := func(presence catalogue.Presence, keys ...string) []*catalogue.Server {
		s := *c.Snapshot().Server("a")
		l := of(catalogue.Resources, keys...)
		s.Presence, s.Lists[catalogue.Resources] = presence, &l
		return []*catalogue.Server{&s}
	}
	ann, lists := proxy.Caller{Principal: "ann"}, own(catalogue.There, "two://x", "one://own", "one://x")
	v := maker.Own(c.Snapshot(), ann, lists)
	narrow := proxy.Caller{Principal: "ann", Rights: &proxy.Rights{Kind: "jwt", Name: "ann"}}
	if v != maker.Own(c.Snapshot(), ann, lists) || v == maker.Own(c.Snapshot(), narrow, lists) || v == maker.Own(c.Snapshot(), ann, own(catalogue.There)) {
		t.Error("a view is not the same for the same, or is for others")
	}
	if hint(t, v, catalogue.Resources, "cacheScope") != `"private"` || v.Late(catalogue.Tools) == nil {
		t.Error("a list of a caller's own may be cached for others")
	}
	for uri, want := range map[string]string{
		"two://x":      "a",         // of the server that lists it to all, and to the caller
		"one://own":    "a",         // of the only server that lists it
		"one://x":      "b",         // of b for good, although a lists it to the caller
		"one://public": "",          // a lists it to others only: as any URI of a scheme of two
		"three://x":    "not found", // nobody's
	} {
		at, err := v.Locate(uri)
		if want == "" || want == "not found" {
			if err == nil || (want == "") != strings.Contains(err.Message, "may be of several servers") {
				t.Errorf("%s: %v, %v", uri, at, err)
			}
		} else if err != nil || at.Server != want {
			t.Errorf("%s: %v, %v", uri, at, err)
		}
	}
	if got := v.PublicURI("a", "one://x"); got != names.PublicURI("a", "one://x") {
		t.Errorf("one://x of a is %s", got)
	}
	c.SetList("b", catalogue.Tools, of(catalogue.Tools, "x"))
	if now := maker.Own(c.Snapshot(), ann, lists); now == v || len(now.list(catalogue.Tools).entries) != 1 {
		t.Error("the view of a former version is shown")
	}
	if got := maker.Own(c.Snapshot(), ann, own(catalogue.Out, "one://own")); len(got.list(catalogue.Resources).entries) != 1 || !slices.Equal(got.Late(catalogue.Resources), []string{"a"}) {
		t.Errorf("left out: %v, late are %v", got.list(catalogue.Resources).entries, got.Late(catalogue.Resources))
	}
}

// An error names twenty servers at most.
func TestCandidatesAreBounded(t *testing.T) {
	for n, want := range map[int]string{1: "x", maxCandidates: "x", maxCandidates + 1: "x and others"} {
		got := candidates(slices.Repeat([]string{"x"}, n))
		if strings.Count(got, "x") != min(n, maxCandidates) || !strings.HasSuffix(got, want) || strings.HasSuffix(got, "others") != (n > maxCandidates) {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// What differs between two views is said by list: new entries, changed ones, and those of another server.
func TestChangedLists(t *testing.T) {
	c := opened(t, "a", "b")
	maker := NewMaker(Options{Members: []Member{{Name: "a"}, {Name: "b"}}})
	see := func() *View { return maker.Of(c.Snapshot(), proxy.Caller{}) }
	before := see()
	check := func(what string, want ...string) {
		t.Helper()
		now := see()
		if got := now.Changed(before); !slices.Equal(got, want) {
			t.Errorf("%s: %v", what, got)
		}
		before = now
	}
	c.SetList("a", catalogue.Tools, of(catalogue.Tools, "x"))
	check("a tool", "tools")
	c.SetList("a", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "x", Raw: []byte(`{"name":"x","title":"X"}`)}}})
	check("another definition", "tools")
	c.SetList("a", catalogue.Templates, of(catalogue.Templates, "demo://{x}"))
	c.SetList("a", catalogue.Prompts, of(catalogue.Prompts, "p"))
	check("a template and a prompt", "prompts", "resources")
	c.SetList("a", catalogue.Prompts, of(catalogue.Prompts))
	c.SetList("b", catalogue.Prompts, of(catalogue.Prompts, "p"))
	check("the prompt of another", "prompts")
	check("nothing")
}

// keysOf returns the keys of the entries of a page, and its cursor.
func keysOf(t *testing.T, v *View, kind catalogue.Kind, cursor *string) (keys []string, next string) {
	t.Helper()
	page, err := pageOf(v, kind, cursor, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range wire.Items(page, wire.Get(page, wire.Whole(page), kind.Member())) {
		keys = append(keys, string(wire.Get(page, item, kind.Key()).Text(page)))
	}
	return keys, string(wire.Get(page, wire.Whole(page), "nextCursor").Text(page))
}

// A member's rules say what of its lists a caller sees; one that may not list sees nothing, as does one whose list the rules cannot judge.
func TestShown(t *testing.T) {
	c := opened(t, "a", "b")
	c.SetList("a", catalogue.Tools, of(catalogue.Tools, "one", "two", "three"))
	c.SetList("b", catalogue.Tools, of(catalogue.Tools, "b"))
	rules := func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			asked := ex.Msg.Is("tools/list")
			if ex.Server != "a" || ex.Target != "a" || !ex.Own || !asked && !ex.Msg.Is("server/discover") {
				t.Errorf("judged is %s at %q", ex.Msg.Raw, ex.Target)
			}
			switch ex.Caller.Principal {
			case "refused":
				if asked {
					return nil, proxy.Errf(proxy.InsufficientScope, "no")
				}
				return next(ex)
			case "failed":
				return proxy.Reply(proxy.ErrorMessage([]byte("0"), proxy.Errf(proxy.Internal, "no"))), nil
			case "some":
				return proxy.Reply(proxy.ResultMessage([]byte("0"), []byte(`{"tools":[{"name":"two"}]}`))), nil
			}
			return next(ex)
		}
	}
	maker := NewMaker(Options{Members: []Member{{Name: "a", Shown: rules, Apart: true}, {Name: "b"}}})
	for who, want := range map[string][]string{"all": {"a.one", "a.two", "a.three", "b.b"}, "some": {"a.two", "b.b"}, "refused": {"b.b"}, "failed": {"b.b"}} {
		if got, _ := keysOf(t, maker.Of(c.Snapshot(), proxy.Caller{Principal: who}), catalogue.Tools, nil); !slices.Equal(got, want) {
			t.Errorf("%s: %v", who, got)
		}
	}
}

// Pages follow each other without a gap, each of a size, or of one entry that is larger.
func TestPagesOfASize(t *testing.T) {
	c := opened(t, "a")
	long := strings.Repeat("x", 300)
	c.SetList("a", catalogue.Tools, of(catalogue.Tools, "one", "two", long, "three", "four", "five"))
	maker := NewMaker(Options{PageBytes: 60, Names: names.Style{When: names.Never, Budget: names.MaxBudget}, Members: []Member{{Name: "a"}}})
	v := maker.Of(c.Snapshot(), proxy.Caller{})
	var pages [][]string
	for cursor := (*string)(nil); ; {
		keys, next := keysOf(t, v, catalogue.Tools, cursor)
		if pages = append(pages, keys); next == "" {
			break
		}
		cursor = &next
	}
	sizes := make([]int, len(pages))
	for i, page := range pages {
		sizes[i] = len(page)
	}
	if all := slices.Concat(pages...); len(all) != 6 || all[0] != "one" || all[1] != "two" || all[3] != "three" || all[5] != "five" || !slices.Equal(sizes, []int{3, 3}) {
		t.Errorf("pages of %v: %v", sizes, pages)
	}
	bad := "none"
	if _, err := pageOf(v, catalogue.Tools, &bad, ""); err == nil {
		t.Error("a cursor that is none")
	}
}

// A template keeps its form at the server that listed it first. Elsewhere it has the long one, as has one that looks like it.
func TestTemplatesOfAll(t *testing.T) {
	c := opened(t, "a", "b")
	looks := names.PublicURI("b", "demo://{x}")
	c.SetList("a", catalogue.Templates, of(catalogue.Templates, "demo://{x}", looks))
	c.SetList("b", catalogue.Templates, of(catalogue.Templates, "demo://{x}"))
	v := NewMaker(Options{Members: []Member{{Name: "a"}, {Name: "b"}}}).Of(c.Snapshot(), proxy.Caller{})
	if got, _ := keysOf(t, v, catalogue.Templates, nil); !slices.Equal(got, []string{"demo://{x}", names.PublicURI("a", looks), names.PublicURI("b", "demo://{x}")}) {
		t.Errorf("%v", got)
	}
}

// Names of Dragoman's own tools are no other tool's; prompts may have them.
func TestOwnNames(t *testing.T) {
	c := opened(t, "a")
	c.SetList("a", catalogue.Tools, of(catalogue.Tools, "find"))
	c.SetList("a", catalogue.Prompts, of(catalogue.Prompts, "find"))
	v := NewMaker(Options{Own: []string{"find"}, Names: names.Style{When: names.OnConflict}, Members: []Member{{Name: "a"}}}).Of(c.Snapshot(), proxy.Caller{})
	tools, _ := keysOf(t, v, catalogue.Tools, nil)
	prompts, _ := keysOf(t, v, catalogue.Prompts, nil)
	if !slices.Equal(tools, []string{"a.find"}) || !slices.Equal(prompts, []string{"find"}) {
		t.Errorf("tools %v, prompts %v", tools, prompts)
	}
}
