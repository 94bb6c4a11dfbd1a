package merge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
)

func TestListsOfAll(t *testing.T) {
	r := newRig(t, Options{}, "b legacy", "a modern")
	r.Start()
	p := r.newPeer(false)
	for _, kind := range []struct{ method, list, key string }{
		{"tools/list", "tools", "name"}, {"prompts/list", "prompts", "name"}, {"resources/list", "resources", "uri"}, {"resources/templates/list", "resourceTemplates", "uriTemplate"},
	} {
		got := r.call(kind.method, "")
		all := got.keysOf(kind.list, kind.key)
		if got.err != nil || len(all) < 4 || len(all)%2 != 0 {
			t.Fatalf("%s: %v", kind.method, got)
		}
		for i, name := range all[:len(all)/2] {
			other := all[len(all)/2+i]
			named := name == "a."+strings.TrimPrefix(other, "b.") && strings.HasPrefix(other, "b.")
			plain := other == names.PublicURI("b", name) || name == names.PublicURI("a", other)
			if (kind.key == "name") != named || (kind.key != "name") != plain {
				t.Errorf("%s: %s of a, %s of b", kind.method, name, other)
			}
		}
		if got.at("_meta", "io.dragoman/servers") != "" || got.at("resultType") != "complete" || got.at("nextCursor") != "" || got.at("cacheScope") == "" {
			t.Errorf("%s: %s", kind.method, got.raw)
		}
		legacy := p.call(kind.method, "")
		if !slices.Equal(legacy.keysOf(kind.list, kind.key), all) || legacy.at("resultType") != "" || legacy.at("ttlMs") != "" || legacy.at("_meta") != "" {
			t.Errorf("%s of a legacy client: %v", kind.method, legacy)
		}
	}
}

func TestHandshakes(t *testing.T) {
	r := newRig(t, Options{}, "b legacy", "a modern")
	r.Start()
	r.call("tools/list", "") // the members have been asked
	want := "# a\n\nThis is a.\n\n# b\n\nThis is b."
	if got := r.call("server/discover", ""); got.at("instructions") != want || got.at("capabilities", "resources", "subscribe") != "true" || got.at("supportedVersions") != `["2026-07-28"]` {
		t.Errorf("server/discover: %v", got)
	}
	p := &peer{r: r, session: proxy.NewSession("s", "streamable-http", "", proxy.Caller{}, time.Now()), pushed: make(chan string, 1)}
	defer p.session.End(proxy.Closed)
	if got := p.call("tools/list", ""); got.err == nil {
		t.Errorf("before initialize: %v", got)
	}
	got := p.call("initialize", `"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}`)
	if got.at("instructions") != want || got.at("protocolVersion") != "2025-03-26" || got.at("serverInfo", "name") != "dragoman" || got.at("capabilities", "tools", "listChanged") != "true" {
		t.Errorf("initialize: %v", got)
	}
	if got := p.call("ping", ""); got.raw != `{"jsonrpc":"2.0","id":3,"result":{}}` {
		t.Errorf("ping: %v", got)
	}
}

// A handshake before the members were asked waits for them: a client asks for nothing that it was not offered.
func TestHandshakesWaitForMembers(t *testing.T) {
	for what, ask := range map[string]func(r *rig) reply{
		"modern": func(r *rig) reply { return r.call("server/discover", "") },
		"legacy": func(r *rig) reply {
			p := &peer{r: r, session: proxy.NewSession("s", "streamable-http", "", proxy.Caller{}, time.Now())}
			t.Cleanup(func() { p.session.End(proxy.Closed) })
			return p.call("initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}`)
		},
	} {
		r := newRig(t, Options{}, "b legacy", "a modern")
		r.Start()
		if got := ask(r); got.at("capabilities", "tools", "listChanged") != "true" || got.at("instructions") != "# a\n\nThis is a.\n\n# b\n\nThis is b." {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestCallsOfAll(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy", "c modern")
	r.Start()
	p := r.newPeer(false)
	for _, name := range []string{"a", "c"} { // everything.Only has no downgrade: modern clients reach modern members only
		if got := r.call("tools/call", `"name":"`+name+`.echo","arguments":{"message":"hi"}`); !strings.Contains(got.raw, "Echo: hi") {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := p.call("tools/call", `"name":"b.whoami","arguments":{}`); !strings.Contains(got.raw, "legacy") {
		t.Errorf("a legacy client at b: %v", got)
	}
	for _, test := range []struct{ method, params, want string }{
		{"tools/call", `"name":"echo","arguments":{}`, "a.echo, b.echo, c.echo"},
		{"tools/call", `"name":"none","arguments":{}`, "Tool not found: none"},
		{"tools/call", `"name":7`, "must be a string"},
		{"prompts/get", `"name":"none"`, "Prompt not found: none"},
		{"resources/read", `"uri":"none://x"`, "Resource not found: none://x"},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"none"}`, "Prompt not found: none"},
		{"logging/none", ``, "method logging/none is not offered"},
	} {
		for who, got := range map[string]reply{"modern": r.call(test.method, test.params), "legacy": p.call(test.method, test.params)} {
			if got.err == nil || !strings.Contains(got.err.Error(), test.want) {
				t.Errorf("%s %s of a %s client: %v, want %q", test.method, test.params, who, got, test.want)
			}
		}
	}
}

// A request may name its server; then the name is the server's own.
func TestExplicitServer(t *testing.T) {
	r := newRig(t, Options{}, "a legacy", "b legacy")
	r.Start()
	r.settled()
	p := r.newPeer(false)
	for server, want := range map[string]string{"a": "Echo: hi", "b": "Echo: hi", "c": `no server "c" is behind this endpoint; there is a, b`} {
		got := p.call("tools/call", `"name":"echo","arguments":{"message":"hi"},"_meta":{"io.dragoman/server":"`+server+`"}`)
		if text := got.raw + fmt.Sprint(got.err); !strings.Contains(text, want) {
			t.Errorf("%s: %v", server, got)
		}
	}
}

func TestResourcesOfAll(t *testing.T) {
	r := newRig(t, Options{}, "a legacy", "b legacy")
	r.Start()
	r.settled()
	p := r.newPeer(true)
	owner := map[string]string{"a": "b", "b": "a"}
	first := "a"
	uris := p.call("resources/list", "").keysOf("resources", "uri")
	if slices.Contains(uris, names.PublicURI("a", "demo://counter")) {
		first = "b"
	}
	second := owner[first]
	theirs := names.PublicURI(second, "demo://counter")
	p.call("tools/call", `"name":"`+second+`.touch","arguments":{}`)
	for uri, want := range map[string]string{"demo://counter": "0", theirs: "1"} {
		got := p.call("resources/read", `"uri":"`+uri+`"`)
		if !strings.Contains(got.raw, `"uri":"`+uri+`"`) || !strings.Contains(got.raw, `"text":"`+want+`"`) {
			t.Errorf("%s: %v, want %s", uri, got, want)
		}
	}
	if got := p.call("tools/call", `"name":"`+second+`.media","arguments":{}`); strings.Count(got.raw, `"uri":"dragoman+`+second+`://`) != strings.Count(got.raw, `"uri":`) || !strings.Contains(got.raw, `"uri":`) {
		t.Errorf("links: %v", got)
	}
	if got := p.call("tools/call", `"name":"`+first+`.media","arguments":{}`); strings.Contains(got.raw, `dragoman+`) || got.raw == "" {
		t.Errorf("links of the first: %v", got)
	}
	if got := p.call("resources/subscribe", `"uri":"`+theirs+`"`); got.err != nil || got.at() != "{}" {
		t.Fatalf("subscribe: %v", got)
	}
	p.call("tools/call", `"name":"`+first+`.touch","arguments":{}`)
	p.call("tools/call", `"name":"`+second+`.touch","arguments":{}`)
	if got := <-p.pushed; !strings.Contains(got, `"uri":"`+theirs+`"`) {
		t.Errorf("pushed %s", got)
	}
}

// A legacy client has one session at each member, opened at its first use.
func TestSessionsAtMembers(t *testing.T) {
	r := newRig(t, Options{}, "a legacy", "b legacy")
	r.Start()
	r.settled()
	p, other := r.newPeer(false), r.newPeer(false)
	c := r.client(p.session)
	if n := len(c.all()); n != 0 {
		t.Errorf("%d sessions before any call", n)
	}
	p.call("tools/call", `"name":"a.echo","arguments":{"message":"hi"}`)
	p.call("tools/call", `"name":"a.echo","arguments":{"message":"hi"}`)
	seats := c.all()
	if len(seats) != 1 || seats[0].member.Name != "a" || string(seats[0].session.Client().Info) != `{"name":"peer","version":"3"}` || seats[0].session.Client().Version != "2025-11-25" {
		t.Fatalf("sessions: %v", seats)
	}
	other.call("tools/call", `"name":"a.echo","arguments":{"message":"hi"}`)
	if theirs := r.client(other.session).all(); theirs[0].session == seats[0].session || theirs[0].session.ID == seats[0].session.ID {
		t.Error("two clients share a session")
	}
	seats[0].session.EndFor(proxy.Closed, proxy.Errf(proxy.Lost, "killed"))
	if len(c.all()) != 0 || p.session.State() != proxy.Initialized {
		t.Errorf("after its end: %v, the client's session is %v", c.all(), p.session.State())
	}
	if got := p.call("tools/call", `"name":"a.echo","arguments":{"message":"hi"}`); !strings.Contains(got.raw, "Echo: hi") {
		t.Errorf("after a loss: %v", got)
	}
	again := c.all()[0].session
	p.session.End(proxy.Closed)
	if again.State() != proxy.Closed {
		t.Errorf("the member's session is %v after the client's end", again.State())
	}
}

// Members that ask at the same moment use the same ids. Each answer goes to its own.
func TestQuestionsOfTwo(t *testing.T) {
	r := newRig(t, Options{}, "a legacy", "b legacy")
	r.Start()
	r.settled()
	p := r.newPeer(false)
	calls := map[string]proxy.Replies{}
	ids := map[string]string{}
	for _, server := range []string{"a", "b"} {
		replies, err := p.begin("tools/call", `"name":"`+server+`.ask_user","arguments":{"question":"at `+server+`?"}`)
		if err != nil {
			t.Fatal(err)
		}
		m, err := replies.Next(time.Time{})
		if err != nil || !m.Is("elicitation/create") || !strings.Contains(string(m.Append(nil)), "at "+server+"?") {
			t.Fatalf("%s: %v, %v", server, m, err)
		}
		edited, err := m.Clone()
		if err != nil {
			t.Fatal(err)
		}
		calls[server], ids[server] = replies, string(edited.Of(edited.ID))
	}
	if ids["a"] == ids["b"] {
		t.Fatalf("both questions have the id %s", ids["a"])
	}
	for _, server := range []string{"b", "a"} {
		p.notify(`{"jsonrpc":"2.0","id":` + ids[server] + `,"result":{"action":"accept","content":{"name":"for ` + server + `"}}}`)
		if got := drain(calls[server], nil); !strings.Contains(got.raw, "accept for "+server) {
			t.Errorf("%s: %v", server, got)
		}
	}
	if n := p.session.OpenQuestions(); n != 0 {
		t.Errorf("%d questions are open", n)
	}
}

// A modern client's questions are results. Their state leads back to the member, and to no other.
func TestStateOfAMember(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b modern")
	r.Start()
	asked := r.call("tools/call", `"name":"a.ask_rounds","arguments":{}`)
	state := asked.at("requestState")
	if asked.at("resultType") != "input_required" || state == "" {
		t.Fatalf("no question: %v", asked)
	}
	answers := `"inputResponses":{"user":{"action":"accept","content":{"name":"Ann"}}}`
	if got := r.call("tools/call", `"name":"a.ask_rounds","arguments":{},`+answers+`,"requestState":"`+state+`"`); got.at("resultType") != "input_required" || !strings.Contains(got.raw, "a poem") {
		t.Errorf("second round: %v", got)
	}
	for what, params := range map[string]string{
		"another member":    `"name":"b.ask_rounds","arguments":{},` + answers + `,"requestState":"` + state + `"`,
		"another request":   `"name":"a.ask_rounds","arguments":{"x":1},` + answers + `,"requestState":"` + state + `"`,
		"a changed state":   `"name":"a.ask_rounds","arguments":{},` + answers + `,"requestState":"` + state[:len(state)-2] + `AA"`,
		"a member's own":    `"name":"a.ask_rounds","arguments":{},` + answers + `,"requestState":"x"`,
		"a state no string": `"name":"a.ask_rounds","arguments":{},` + answers + `,"requestState":7`,
	} {
		if got := r.call("tools/call", params); got.err == nil || !strings.Contains(got.err.Error(), "requestState") {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestProgressAndLogs(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy")
	r.Start()
	p := r.newPeer(false)
	p.call("logging/setLevel", `"level":"info"`)
	check := func(server string, got reply) {
		t.Helper()
		if len(got.notices) != 3 || !strings.Contains(got.notices[0], `"logger":"`+server) {
			t.Errorf("%s: %v", server, got)
		}
	}
	check("a", r.call("tools/call", `"name":"a.log","arguments":{"count":3}`))
	check("b", p.call("tools/call", `"name":"b.log","arguments":{"count":3}`))
	if got := p.call("tools/call", `"name":"b.progress","arguments":{"steps":3,"delayMs":0},"_meta":{"progressToken":"t"}`); len(got.notices) < 3 || !strings.Contains(got.notices[0], `"progressToken":"t"`) {
		t.Errorf("progress: %v", got)
	}
	if got := p.call("logging/setLevel", `"level":"loud"`); got.err == nil || !strings.Contains(got.err.Error(), "params.level") {
		t.Errorf("a level that is none: %v", got)
	}
}

// The level counts at members that are used later, too, and at those that are used already.
func TestLevelAtAllMembers(t *testing.T) {
	r := newRig(t, Options{}, "a legacy", "b legacy")
	r.Start()
	r.settled()
	p := r.newPeer(false)
	p.call("tools/call", `"name":"a.echo","arguments":{"message":"hi"}`)
	p.call("logging/setLevel", `"level":"warning"`)
	p.call("tools/call", `"name":"b.echo","arguments":{"message":"hi"}`)
	for _, s := range r.client(p.session).all() {
		if got := s.session.Client().LogLevel; got != "warning" {
			t.Errorf("the level at %s is %q", s.member.Name, got)
		}
	}
}

func TestCancel(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy")
	r.Start()
	p := r.newPeer(false)
	ex := exchange(t, "tools/call", `"name":"a.slow","arguments":{"ms":600000}`)
	replies, err := r.Do(ex)
	if err != nil {
		t.Fatal(err)
	}
	ex.Cancel(proxy.ErrCancelled)
	if got := drain(replies, nil); got.err == nil {
		t.Errorf("modern: %v", got)
	}
	replies, err = p.begin("tools/call", `"name":"b.slow","arguments":{"ms":600000}`)
	if err != nil {
		t.Fatal(err)
	}
	p.notify(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, p.id))
	if got := drain(replies, nil); got.err == nil {
		t.Errorf("legacy: %v", got)
	}
	for server, call := range map[string]func(string, string) reply{"a": r.call, "b": p.call} {
		if got := call("tools/call", `"name":"`+server+`.stats","arguments":{}`); got.at("structuredContent", "cancelled") != "1" {
			t.Errorf("%s: %v", server, got)
		}
	}
}

func TestListen(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b modern")
	r.Start()
	r.call("tools/list", "")
	r.call("resources/list", "")
	first, second := "a", "b"
	if r.catalogue.Snapshot().Owner("demo://counter") == "b" {
		first, second = "b", "a"
	}
	theirs := names.PublicURI(second, "demo://counter")
	ex := exchange(t, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["demo://counter","`+theirs+`","none://x"]}`)
	replies, err := r.Do(ex)
	if err != nil {
		t.Fatal(err)
	}
	next := nextIn(t, replies)
	if got := next(); !strings.Contains(got, `notifications/subscriptions/acknowledged`) || !strings.Contains(got, `"resourceSubscriptions":["demo://counter","`+theirs+`"]`) || !strings.Contains(got, `"toolsListChanged":true`) {
		t.Errorf("acknowledged: %s", got)
	}
	for server, uri := range map[string]string{first: "demo://counter", second: theirs} {
		r.call("tools/call", `"name":"`+server+`.touch","arguments":{}`)
		if got := next(); !strings.Contains(got, rules.ResourceUpdated) || !strings.Contains(got, `"uri":"`+uri+`"`) || !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":7`) {
			t.Errorf("updated at %s: %s", server, got)
		}
	}
	r.catalogue.SetList("b", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "new", Raw: []byte(`{"name":"new"}`)}}})
	if got := next(); !strings.Contains(got, "notifications/tools/list_changed") || !strings.Contains(got, `subscriptionId":7`) {
		t.Errorf("changed: %s", got)
	}
	ex.Cancel(proxy.ErrCancelled)
	if got := drain(replies, nil); !errors.Is(got.err, proxy.ErrCancelled) {
		t.Errorf("at the end: %v", got)
	}
}

// What a member announces changes the lists of all.
func TestListsFollowTheMembers(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy")
	r.Start()
	p := r.newPeer(false)
	before := len(r.call("tools/list", "").keysOf("tools", "name"))
	for server, call := range map[string]func(string, string) reply{"a": r.call, "b": p.call} {
		if got := call("tools/call", `"name":"`+server+`.test_trigger_tool_change","arguments":{}`); got.raw == "" {
			t.Fatalf("%s: %v", server, got)
		}
		for now := 0; now != before+1; {
			changed := r.catalogue.Changed(r.catalogue.Snapshot().Version)
			if now = len(r.call("tools/list", "").keysOf("tools", "name")); now == before {
				<-changed
			} else if now != before+1 {
				t.Fatalf("%s: %d tools after %d", server, now, before)
			}
		}
		before++
	}
}

// A member that cannot be reached hides nothing of the others, and what is missing is said.
func TestPartsThatAreNotUpToDate(t *testing.T) {
	down := errors.New("down")
	failing := Member{Member: view.Member{Name: "x"}, Do: func(*proxy.Exchange) (proxy.Replies, error) { return nil, down }}
	r := newRig(t, Options{Members: []Member{failing}}, "a modern")
	c := r.catalogue
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "x": {Transport: "HTTP"}})
	r.Start()
	got := r.call("tools/list", "")
	if len(got.keysOf("tools", "name")) == 0 || got.at("_meta", "io.dragoman/servers") != `[{"name":"x","list":"not listed yet"}]` || got.at("ttlMs") != "0" {
		t.Errorf("never listed: %v", got)
	}
	c.SetList("x", catalogue.Tools, catalogue.List{TTL: time.Hour, Items: []catalogue.Item{{Key: "t", Raw: []byte(`{"name":"t"}`)}}})
	got = r.call("tools/list", "")
	since := c.Snapshot().Server("x").Lists[catalogue.Tools].Fetched.UTC().Format(time.RFC3339)
	if !slices.Contains(got.keysOf("tools", "name"), "x.t") || got.at("_meta", "io.dragoman/servers") != `[{"name":"x","list":"last known","since":"`+since+`"}]` || got.at("ttlMs") != "0" {
		t.Errorf("last known: %v", got)
	}
	c.SetPresence("x", catalogue.Out)
	got = r.call("tools/list", "")
	if slices.Contains(got.keysOf("tools", "name"), "x.t") || !strings.Contains(got.at("_meta", "io.dragoman/servers"), `"left out"`) {
		t.Errorf("left out: %v", got)
	}
	if note := <-r.notes; !strings.Contains(note, "warn x: the lists of a server cannot be refreshed: down") {
		t.Errorf("noted %q", note)
	}
}

func TestPages(t *testing.T) {
	r := newRig(t, Options{PageBytes: 1000}, "a legacy", "b legacy")
	r.Start()
	whole := newRig(t, Options{}, "a legacy", "b legacy")
	whole.Start()
	want := whole.call("tools/list", "").keysOf("tools", "name")
	var all []string
	cursor, pages := "", 0
	for {
		got := r.call("tools/list", cursor)
		all = append(all, got.keysOf("tools", "name")...)
		if pages++; got.at("nextCursor") == "" {
			break
		}
		cursor = `"cursor":"` + got.at("nextCursor") + `"`
	}
	if !slices.Equal(all, want) || pages < 4 {
		t.Errorf("%d pages with %v, want %v", pages, all, want)
	}
	for _, cursor := range []string{"x", "", "YQ", "YQAxeA"} {
		if got := r.call("tools/list", `"cursor":"`+cursor+`"`); got.err == nil || !strings.Contains(got.err.Error(), "params.cursor") {
			t.Errorf("cursor %q: %v", cursor, got)
		}
	}
}

// What a caller may not see does not exist for it.
func TestCallersSeeWhatTheyMay(t *testing.T) {
	hide := func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Caller.Principal == "ann" {
				return next(ex)
			}
			if ex.Caller.Principal == "bob" {
				return nil, proxy.Errf(proxy.InsufficientScope, "no")
			}
			return proxy.Reply(proxy.ResultMessage([]byte("0"), []byte(`{"tools":[{"name":"renamed"}],"resources":[],"prompts":[],"resourceTemplates":[]}`))), nil
		}
	}
	r := newRig(t, Options{}, "a modern")
	r.catalogue.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "s": {Transport: "HTTP"}})
	u := New(r.defaults(Options{Members: []Member{{Member: view.Member{Name: "s", Shown: hide, Apart: true}}}}, map[string]catalogue.Kept{"s": {Transport: "HTTP"}}))
	defer u.Close()
	r.catalogue.SetList("s", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "secret", Raw: []byte(`{"name":"secret"}`)}, {Key: "own", Raw: []byte(`{"name":"own"}`)}}})
	for who, want := range map[string][]string{"ann": {"s.secret", "s.own"}, "bob": nil, "": {"s.renamed"}} {
		ex := exchange(t, "tools/list", "")
		ex.Caller.Principal = who
		got := drain(u.Do(ex))
		if !slices.Equal(got.keysOf("tools", "name"), want) || got.at("cacheScope") != "private" {
			t.Errorf("%q sees %v", who, got)
		}
	}
}
