package merge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/find"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/search"
	"dragoman/proxy"
)

// searches makes all clients of a rig find their tools.
func (r *rig) searches(mode metatools.Mode, always ...string) *find.Counts {
	engine := search.New(search.Options{Catalogue: r.catalogue})
	r.t.Cleanup(engine.Close)
	counts := new(find.Counts)
	r.tools = find.New(find.Options{Catalogue: r.catalogue, Finder: engine, Counts: counts, Info: r.opt.Info})
	r.SetContext(&metatools.Rules{Rule: metatools.Rule{Mode: mode, Always: always, Tools: 10, Bytes: 1 << 20}})
	return counts
}

// found returns the public names that find_tools returns.
func (r reply) found() (all []string) { return r.keysOf2("structuredContent", "tools", "name") }

// keysOf2 is keysOf for a list within a member.
func (r reply) keysOf2(member, list, key string) []string {
	inner := reply{raw: `{"result":` + r.at(member) + `}`}
	return inner.keysOf(list, key)
}

func toolNamed(name, description string) catalogue.Item {
	return catalogue.Item{Key: name, Raw: fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)}
}

// A search returns tools of servers that serve calls, by the state that they have now (seed 004, Behavior by State); lists are not affected.
func TestSearchFollowsStates(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b modern")
	r.Start()
	r.settled()
	r.searches(metatools.Search, "a.echo")
	for state, want := range map[string]bool{"CONNECTED": true, "DEGRADED": true, "": true, "DISCONNECTED": true, "CONNECTING": false, "ERROR": false} {
		r.catalogue.SetStatus("a", catalogue.Status{State: state})
		got := r.call("tools/call", `"name":"find_tools","arguments":{"query":"echo a message","limit":50}`)
		if slices.Contains(got.found(), "a.echo") != want || !slices.Contains(got.found(), "b.echo") {
			t.Errorf("%q: %v", state, got.found())
		}
		if list := r.call("tools/list", ""); !slices.Contains(list.keysOf("tools", "name"), "a.echo") {
			t.Errorf("%q: not listed: %v", state, list)
		}
	}
	r.catalogue.SetStatus("a", catalogue.Status{State: "DISCONNECTED"})
	r.catalogue.SetPresence("a", catalogue.Away)
	if got := r.call("tools/call", `"name":"find_tools","arguments":{"query":"echo a message","limit":50}`).found(); slices.Contains(got, "a.echo") {
		t.Errorf("a server that is away is found: %v", got)
	}
}

// Each caller finds what it may use, of the lists that it is shown, and nothing that others are shown.
func TestSearchBelongsToItsCaller(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, _ *vault) {
		r.searches(metatools.Search)
		for _, token := range []string{"ann", "bob", "ann"} {
			for era, ask := range r.asks(bearing(token)) {
				ask("tools/list", "")
				got := ask("tools/call", `"name":"find_tools","arguments":{"query":"secret ann bob nobody shared","limit":50}`).found()
				slices.Sort(got)
				if want := []string{"b.shared", "k.common", "k.secret-" + token}; !slices.Equal(got, want) {
					t.Errorf("%s, %s: %v, want %v", token, era, got, want)
				}
			}
		}
	})
}

// A tool that the rules of its server hide from a caller is not found, described or counted.
func TestSearchKeepsToTheRules(t *testing.T) {
	hide := func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			replies, err := next(ex)
			if err != nil || !ex.Msg.Is("tools/list") || ex.Caller.Principal == "boss" {
				return replies, err
			}
			return proxy.Reply(proxy.ResultMessage([]byte("0"), []byte(`{"tools":[{"name":"open","description":"Opens the door"}]}`))), nil
		}
	}
	b := newTalker()
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "b", Shown: hide, Apart: true}, Do: b.do}}})
	r.Start()
	r.settled()
	r.searches(metatools.Search)
	r.catalogue.SetList("b", catalogue.Tools, catalogue.List{Items: []catalogue.Item{toolNamed("open", "Opens the door"), toolNamed("blow", "Blows up the door")}})
	for who, want := range map[string][]string{"boss": {"b.blow", "b.open"}, "other": {"b.open"}} {
		for era, ask := range r.asks(proxy.Caller{Principal: who}) {
			got := ask("tools/call", `"name":"find_tools","arguments":{"query":"door"}`).found()
			slices.Sort(got)
			described := ask("tools/call", `"name":"describe_tools","arguments":{"names":["b.blow"]}`)
			list := ask("tools/list", "")
			if !slices.Equal(got, want) || (len(described.found()) == 1) != (who == "boss") || strings.Contains(list.raw, fmt.Sprintf("the %d tool", 3-len(want))) {
				t.Errorf("%s, %s: %v, %v, %v", who, era, got, described, list)
			}
		}
	}
}

// Changes of a list are found by the next search.
func TestSearchFollowsLists(t *testing.T) {
	r := newRig(t, Options{}, "a modern")
	r.Start()
	r.settled()
	r.searches(metatools.Search)
	find := func() []string {
		return r.call("tools/call", `"name":"find_tools","arguments":{"query":"zebra","limit":1}`).found()
	}
	var items []catalogue.Item
	for i := range 50 {
		items = append(items, toolNamed(fmt.Sprint("zebra", i), "Finds a zebra"))
		r.catalogue.SetList("a", catalogue.Tools, catalogue.List{Items: items[len(items)-1:]})
		if got := find(); !slices.Equal(got, []string{fmt.Sprint("a.zebra", i)}) {
			t.Fatalf("%d: %v", i, got)
		}
	}
	r.catalogue.SetList("a", catalogue.Tools, catalogue.List{})
	got := r.call("tools/call", `"name":"find_tools","arguments":{"query":"zebra"}`)
	if len(got.found()) != 0 || !strings.Contains(got.raw, "nothing is near") {
		t.Errorf("%v", got)
	}
}

// A search that finds nothing with its filters says what is nearest without them, and what there is.
func TestSearchIsNotEmpty(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy")
	r.Start()
	r.settled()
	r.searches(metatools.Search)
	for _, filter := range []string{`"server":"none"`, `"category":"none"`} {
		got := r.call("tools/call", `"name":"find_tools","arguments":{"query":"echo a message",`+filter+`}`)
		if !slices.Contains(got.found(), "a.echo") || !strings.Contains(got.raw, "nothing is found with these filters") || !strings.Contains(got.raw, `"servers":[{"name":"a"`) {
			t.Errorf("%s: %v", filter, got)
		}
	}
	got := r.call("tools/call", `"name":"find_tools","arguments":{"query":"qqqqqqqq"}`)
	if len(got.found()) != 0 || !strings.Contains(got.raw, "in other words") || !strings.Contains(got.raw, `"servers":[{"name":"a"`) {
		t.Errorf("%v", got)
	}
	got = r.call("tools/call", `"name":"find_tools","arguments":{"query":"echo","read_only":true,"limit":50}`)
	if len(got.found()) == 0 || strings.Contains(got.raw, "nothing is found") {
		t.Errorf("read only: %v", got)
	}
}

// Auto lists all tools until there are too many.
func TestAutoContext(t *testing.T) {
	r := newRig(t, Options{}, "a modern")
	r.Start()
	r.settled()
	counts := r.searches(metatools.Auto)
	items := []catalogue.Item{}
	for i := range 11 {
		items = append(items, toolNamed(fmt.Sprint("t", i), "x"))
		r.catalogue.SetList("a", catalogue.Tools, catalogue.List{Items: items})
		list := r.call("tools/list", "").keysOf("tools", "name")
		if short := slices.Contains(list, "find_tools"); short != (len(items) > 10) {
			t.Errorf("%d tools: %v", len(items), list)
		}
	}
	if counts.Lists.Load() != 11 || counts.Bytes.Load() == 0 || counts.Searches.Load() != 0 {
		t.Errorf("%d lists, %d bytes, %d searches", counts.Lists.Load(), counts.Bytes.Load(), counts.Searches.Load())
	}
	r.SetContext(&metatools.Rules{Rule: metatools.Rule{Mode: metatools.Auto, Tools: 100, Bytes: 100}})
	if list := r.call("tools/list", "").keysOf("tools", "name"); !slices.Contains(list, "find_tools") {
		t.Errorf("too many bytes: %v", list)
	}
	if got := r.call("tools/call", `"name":"find_tools","arguments":{"query":"x"}`); len(got.found()) == 0 || counts.Searches.Load() != 1 {
		t.Errorf("%v", got)
	}
	r.SetContext(nil)
	if list := r.call("tools/list", "").keysOf("tools", "name"); slices.Contains(list, "find_tools") {
		t.Errorf("no context: %v", list)
	}
	if got := r.call("tools/call", `"name":"find_tools","arguments":{"query":"x"}`); got.err == nil {
		t.Errorf("find_tools of a client that is listed everything: %v", got)
	}
}

// What a list spares is said in its _meta; its pages are those of the short list.
func TestShortListTellsWhatItSpares(t *testing.T) {
	r := newRig(t, Options{Names: names.Style{When: names.Never}}, "a modern", "b modern")
	r.Start()
	r.settled()
	counts := r.searches(metatools.Search, "b.*")
	got := r.call("tools/list", "")
	all := got.keysOf("tools", "name")
	if !slices.Equal(all[:3], []string{"find_tools", "describe_tools", "call_tool"}) || got.at("_meta", "io.dragoman/context", "mode") != "search" {
		t.Errorf("%v: %s", all, got.at("_meta"))
	}
	if spared := got.at("_meta", "io.dragoman/context", "sparedBytes"); spared != fmt.Sprint(counts.Spared.Load()) {
		t.Errorf("spared %s, counted %d", spared, counts.Spared.Load())
	}
	if instructions := r.call("server/discover", "").at("instructions"); !strings.HasPrefix(instructions, "Most tools here are not listed.") {
		t.Errorf("instructions: %s", instructions)
	}
}
