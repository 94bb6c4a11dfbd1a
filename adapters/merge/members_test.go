package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/internal/testkit"
	"dragoman/policies/access"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// only returns the members of some names.
func (r *rig) only(names ...string) (some []Member) {
	for _, m := range r.opt.Members {
		if slices.Contains(names, m.Name) {
			some = append(some, m)
		}
	}
	return some
}

// listens opens a listen for changes of all lists, and of the given resources.
func (r *rig) listens(uris string) (ex *proxy.Exchange, next func() string) {
	r.t.Helper()
	return r.listensAs(proxy.Caller{}, uris)
}

// listensAs is listens for a caller.
func (r *rig) listensAs(caller proxy.Caller, uris string) (ex *proxy.Exchange, next func() string) {
	r.t.Helper()
	ex = exchange(r.t, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[`+uris+`]}`)
	ex.Caller = caller
	replies, err := r.Do(ex)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = replies.Close() })
	next = func() string {
		m, err := replies.Next(time.Time{})
		if err != nil {
			return err.Error()
		}
		return string(m.Append(nil))
	}
	if got := next(); !strings.Contains(got, "acknowledged") {
		r.t.Fatalf("acknowledged: %s", got)
	}
	return ex, next
}

// allChanged are the methods of the notices that follow when a server with all lists comes or goes.
var allChanged = []string{rules.ListChanged("prompts"), rules.ListChanged("resources"), rules.ListChanged("tools")}

// methods reads one notice of each list, and returns their methods.
func methods(t *testing.T, next func() string) (all []string) {
	t.Helper()
	for range allChanged {
		m, err := wire.Scan([]byte(next()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(m.Text(m.Method)))
	}
	slices.Sort(all)
	return all
}

// prefixes returns the servers whose tools are listed.
func prefixes(got reply) (all []string) {
	for _, name := range got.keysOf("tools", "name") {
		server, _, _ := strings.Cut(name, ".")
		all = append(all, server)
	}
	return slices.Compact(all)
}

// A member that goes is left out at once, one that comes is listed once it was asked, and all clients are told.
func TestMembersComeAndGo(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy")
	r.Start()
	r.settled()
	p := r.newPeer(true)
	_, next := r.listens("")
	pushed := func() string { return <-p.pushed }

	r.SetMembers(r.only("a"))
	for who, call := range map[string]func(string, string) reply{"modern": r.call, "legacy": p.call} {
		got := call("tools/list", "")
		if all := prefixes(got); !slices.Equal(all, []string{"a"}) || got.at("_meta", "io.dragoman/servers") != "" {
			t.Errorf("a %s client sees %v: %s", who, all, got.at("_meta"))
		}
		if got := call("tools/call", `"name":"b.echo","arguments":{"message":"hi"}`); got.err == nil || !strings.Contains(got.err.Error(), "Tool not found: b.echo") {
			t.Errorf("%s: a call at b: %v", who, got)
		}
	}
	for who, next := range map[string]func() string{"a listen": next, "a legacy client": pushed} {
		if got := methods(t, next); !slices.Equal(got, allChanged) {
			t.Errorf("%s was told of %v", who, got)
		}
	}
	if got := r.call("server/discover", ""); got.at("instructions") != "# a\n\nThis is a." {
		t.Errorf("server/discover: %v", got)
	}

	r.SetMembers(r.only("a", "b"))
	if got := prefixes(r.call("tools/list", "")); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("with b again: %v", got)
	}
	for who, next := range map[string]func() string{"a listen": next, "a legacy client": pushed} {
		if got := methods(t, next); !slices.Equal(got, allChanged) {
			t.Errorf("%s was told of %v", who, got)
		}
	}
	r.settled() // b was asked again
	if got := p.call("tools/call", `"name":"b.echo","arguments":{"message":"hi"}`); !strings.Contains(got.raw, "Echo: hi") {
		t.Errorf("a call at b: %v", got)
	}
}

// The sessions at a member that goes end, with the calls there; those at others stay.
func TestSessionsAtAMemberThatGoes(t *testing.T) {
	r, p, servers, sessions := talkers(t, true)
	running, done := make(chan struct{}), make(chan reply)
	servers[0].call = func(ex *proxy.Exchange) (proxy.Replies, error) {
		close(running)
		<-ex.Done()
		return nil, errors.New("the connection was closed")
	}
	go func() { done <- p.call("tools/call", `"name":"a.x","arguments":{}`) }()
	<-running
	r.SetMembers(r.only("b"))
	if got := <-done; !proxy.IsFault(got.err, proxy.Lost) || !strings.Contains(got.err.Error(), `the server "a" was removed from this endpoint`) {
		t.Errorf("a call that runs there: %v", got)
	}
	if sessions[0].State() != proxy.Closed || sessions[1].State() != proxy.Initialized || p.session.State() != proxy.Initialized {
		t.Errorf("the sessions at a and b are %v and %v, the client's is %v", sessions[0].State(), sessions[1].State(), p.session.State())
	}
	a := r.only("a")[0]
	a.Do = servers[0].do
	servers[0].call = nil
	r.SetMembers(append(r.only("b"), a))
	if got := p.call("tools/call", `"name":"a.x","arguments":{}`); got.err != nil || <-servers[0].opened == sessions[0] {
		t.Errorf("once it is back: %v", got)
	}
}

// A session that is being opened ends with the member, and its calls with it.
func TestSessionBeingOpenedAtAMemberThatGoes(t *testing.T) {
	opening := make(chan struct{})
	do := func(ex *proxy.Exchange) (proxy.Replies, error) {
		close(opening)
		<-ex.Done()
		return nil, errors.New("the connection was closed")
	}
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: do}}})
	p, done := r.newPeer(false), make(chan reply)
	go func() { done <- p.call("tools/call", `"name":"k.x","arguments":{}`) }()
	<-opening
	gone := r.now.Load().members["k"]
	r.SetMembers(nil)
	if got := <-done; !proxy.IsFault(got.err, proxy.Lost) || !strings.Contains(got.err.Error(), "was removed from this endpoint") {
		t.Errorf("the call: %v", got)
	}
	c := r.client(p.session)
	if _, err := c.seat(exchange(t, "tools/call", ""), gone); !proxy.IsFault(err, proxy.Lost) || len(c.all()) != 0 {
		t.Errorf("a call that comes late: %v, %d sessions", err, len(c.all()))
	}
	if _, err := r.member("k"); !proxy.IsFault(err, proxy.Lost) {
		t.Errorf("a name that was resolved before: %v", err)
	}
}

// A handshake that fails because the member goes says that, even if the member's upstream is the first to end.
func TestHandshakeAtAMemberThatGoes(t *testing.T) {
	var r *rig
	do := func(*proxy.Exchange) (proxy.Replies, error) {
		r.now.Load().members["k"].end(removed("k"))
		return nil, proxy.Errf(proxy.ShuttingDown, "closed")
	}
	r = newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: do}}})
	if got := r.newPeer(false).call("tools/call", `"name":"k.x","arguments":{}`); !proxy.IsFault(got.err, proxy.Lost) || !strings.Contains(got.err.Error(), "was removed from this endpoint") {
		t.Errorf("%v", got)
	}
}

// A listen names as many resources and tasks as may be, and no more.
func TestListensAreBounded(t *testing.T) {
	r := scriptRig(t, Options{}, modernTasker())
	for _, name := range []string{"resourceSubscriptions", "taskIds"} {
		for n, refused := range map[int]bool{maxSubscribed: false, maxSubscribed + 1: true} {
			var all []string
			for i := range n {
				all = append(all, fmt.Sprintf(`"dragoman+a://demo///%d"`, i))
			}
			ex := r.exchangeAs("ann", runsTasks, "subscriptions/listen", `"notifications":{"`+name+`":[`+strings.Join(all, ",")+`]}`)
			replies, err := r.Do(ex)
			if refused != proxy.IsFault(err, proxy.InvalidParams) || refused != (err != nil) {
				t.Errorf("%d %s: %v", n, name, err)
			}
			if err == nil {
				_ = replies.Close()
			}
		}
	}
}

// never answers for legacy members.

// A member that stays keeps its sessions, and serves later requests as it is then.
func TestMembersAreReplaced(t *testing.T) {
	r, p, servers, sessions := talkers(t, false)
	running, proceed, done := make(chan struct{}), make(chan struct{}), make(chan reply)
	servers[0].call = func(ex *proxy.Exchange) (proxy.Replies, error) {
		close(running)
		<-proceed
		return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte(`{"old":true}`))), nil
	}
	go func() { done <- p.call("tools/call", `"name":"a.x","arguments":{}`) }()
	<-running
	var in *proxy.Session
	next := r.only("a", "b")
	next[0].Do = func(ex *proxy.Exchange) (proxy.Replies, error) {
		in = ex.Session
		return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte(`{"new":true}`))), nil
	}
	r.SetMembers(next)
	if got := p.call("tools/call", `"name":"a.x","arguments":{}`); got.at("new") != "true" || in != sessions[0] {
		t.Errorf("a new call: %v, in another session: %v", got, in != sessions[0])
	}
	close(proceed)
	if got := <-done; got.at("old") != "true" {
		t.Errorf("the call that ran: %v", got)
	}
	if len(servers[0].opened)+len(servers[1].opened) != 0 {
		t.Error("a session was opened anew")
	}
}

// Members come, go and are replaced while clients of both eras call; calls at those that stay are not disturbed.
func TestMembersChangeUnderCalls(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy", "c modern", "d legacy")
	r.Start()
	r.settled()
	stop := make(chan struct{})
	var group sync.WaitGroup
	caller := func(what string, stays bool, call func(string, string) reply) {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				got := call("tools/call", `"name":"`+what+`.echo","arguments":{"message":"hi"}`)
				ok := strings.Contains(got.raw, "Echo: hi") || !stays && (proxy.IsFault(got.err, proxy.ToolUnknown, proxy.Lost) || strings.Contains(fmt.Sprint(got.err), "Tool not found"))
				if !ok {
					t.Errorf("call %d at %s: %v, %v", n, what, got, got.err)
					return
				}
			}
		})
	}
	caller("a", true, r.call)
	caller("b", true, r.newPeer(true).call)
	caller("c", false, r.call)
	p := r.newPeer(true)
	p.pushed = make(chan string, 10_000)
	caller("d", false, p.call)
	for i := range 100 {
		r.SetMembers(r.only([][]string{{"a", "b"}, {"a", "b", "c", "d"}, {"a", "b", "d"}}[i%3]...))
	}
	close(stop)
	group.Wait()
}

// The session of Dragoman's own at a server that goes ends, and it is asked anew if it comes again.
func TestRefreshersEndWithTheirMembers(t *testing.T) {
	k := newTalker()
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: k.do}}})
	r.catalogue.Keep(map[string]catalogue.Kept{"k": {Transport: "HTTP"}})
	r.Start()
	r.settled()
	first, ended := <-k.opened, make(chan struct{})
	first.OnEnd(func() { close(ended) })
	proceed := make(chan struct{})
	again := r.only("k")
	r.modern = func(context.Context, string) (bool, error) { <-proceed; return false, nil }
	r.SetMembers(nil)
	<-ended
	if s := r.catalogue.Snapshot().Server("k"); s != nil {
		t.Errorf("the catalogue still has %v", s)
	}
	r.SetMembers(again)
	if got := r.catalogue.Snapshot().Server("k").Presence; got != catalogue.Away {
		t.Errorf("before it was asked again it is %v", got)
	}
	close(proceed)
	r.settled()
	if second := <-k.opened; second == first || second.State() != proxy.Initialized {
		t.Errorf("the second session is %v", second.State())
	}
}

// The part of a listen at a member that goes ends, and a listen that waits for its acknowledgement waits no longer.
func TestListensAtAMemberThatGoes(t *testing.T) {
	for what, acknowledges := range map[string]bool{"acknowledged": true, "not acknowledged": false} {
		t.Run(what, func(t *testing.T) {
			began, ended := make(chan struct{}), make(chan struct{})
			do := func(ex *proxy.Exchange) (proxy.Replies, error) {
				close(began)
				if acknowledges {
					ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["demo://x"]}}}`
					return &lasting{ex: ex, first: ack, ended: ended}, nil
				}
				return &lasting{ex: ex, ended: ended}, nil
			}
			r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: do}}})
			r.catalogue.Keep(map[string]catalogue.Kept{"k": {Transport: "HTTP"}})
			r.catalogue.SetList("k", catalogue.Resources, catalogue.List{Items: []catalogue.Item{{Key: "demo://x", Raw: []byte(`{"uri":"demo://x"}`)}}})
			if acknowledges {
				r.listens(`"demo://x"`)
				r.SetMembers(nil)
			} else {
				go func() { <-began; r.SetMembers(nil) }()
				start := time.Now()
				r.listens(`"demo://x"`)
				if took := time.Since(start); took >= ackTime {
					t.Errorf("the listen has waited for %s", took)
				}
			}
			<-ended
		})
	}
}

// lasting are the replies of a listen that lasts until it is cancelled.
type lasting struct {
	ex    *proxy.Exchange
	first string
	ended chan struct{}
}

// Next implements proxy.Replies.
func (l *lasting) Next(time.Time) (*wire.Message, error) {
	if first := l.first; first != "" {
		l.first = ""
		return proxy.Scanned([]byte(first))
	}
	<-l.ex.Done()
	return nil, l.ex.Err()
}

// Close implements proxy.Replies.
func (l *lasting) Close() error { close(l.ended); return nil }

// Dismissed clients are told why, and listens end as with a drain.
func TestDismiss(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy")
	r.Start()
	r.settled()
	p := r.newPeer(false)
	replies, err := p.begin("tools/call", `"name":"b.slow","arguments":{"ms":600000}`)
	if err != nil {
		t.Fatal(err)
	}
	at := r.client(p.session).all()[0].session
	ex, next := r.listens("")
	why := proxy.Errf(proxy.SessionLost, "the configuration has changed")
	r.Dismiss(why)
	if got := drain(replies, nil); !errors.Is(got.err, why) {
		t.Errorf("the call ends with %v", got)
	}
	if p.session.State() != proxy.Closed || at.State() != proxy.Closed {
		t.Errorf("the client's session is %v, that at the member %v", p.session.State(), at.State())
	}
	if got := next(); ex.Err() != proxy.ErrDraining || got != proxy.ErrDraining.Error() {
		t.Errorf("the listen ends with %s, cancelled by %v", got, ex.Err())
	}
}

// Nothing is left of a closed Upstream: sessions at members end with their calls, and listens as with a drain. The clients' own sessions go
// on, at what takes its place.
func TestClose(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy")
	r.Start()
	r.settled()
	p, late := r.newPeer(false), r.newPeer(false)
	replies, err := p.begin("tools/call", `"name":"b.slow","arguments":{"ms":600000}`)
	if err != nil {
		t.Fatal(err)
	}
	at := r.client(p.session).all()[0].session
	ex, next := r.listens("")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if got := drain(replies, nil); !proxy.IsFault(got.err, proxy.ShuttingDown) {
		t.Errorf("the call ends with %v", got)
	}
	if at.State() != proxy.Closed || p.session.State() != proxy.Initialized {
		t.Errorf("the session at the member is %v, the client's %v", at.State(), p.session.State())
	}
	if got := next(); ex.Err() != proxy.ErrDraining || got != proxy.ErrDraining.Error() {
		t.Errorf("the listen ends with %s, cancelled by %v", got, ex.Err())
	}
	for _, p := range []*peer{p, late} {
		if got := p.call("tools/call", `"name":"b.echo","arguments":{"message":"hi"}`); !proxy.IsFault(got.err, proxy.ShuttingDown) || len(r.client(p.session).all()) != 0 {
			t.Errorf("a late call: %v, %d sessions", got, len(r.client(p.session).all()))
		}
	}
}

// Of the notices that wait for a client one is kept for each thing, the newest, and no more than a number.
func TestNoticesThatWait(t *testing.T) {
	l := &listen{id: []byte("7"), wake: make(chan struct{}, 1)}
	add := func(uri, more string) {
		t.Helper()
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"` + more + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		l.add(&m)
	}
	add("demo://a", "")
	add("demo://b", "")
	add("demo://a", `,"title":"A"`)
	if len(l.queue) != 2 || !strings.Contains(string(l.queue[0].Msg), `"title":"A"`) || !strings.Contains(string(l.queue[0].Msg), `subscriptionId":7`) {
		t.Errorf("waiting are %s", l.queue)
	}
	for i := range maxNotices {
		add(fmt.Sprint("demo://", i), "")
	}
	if len(l.queue) != maxNotices || !strings.Contains(string(l.queue[0].Msg), `"demo://0"`) || !strings.Contains(string(l.queue[maxNotices-1].Msg), fmt.Sprint("demo://", maxNotices-1)) {
		t.Errorf("%d wait, from %s", len(l.queue), l.queue[0].Msg)
	}
}

// Clients are told of the lists of which rules that were changed show them something else, and of no others.
func TestRulesThatChange(t *testing.T) {
	metric, err := access.NewFilterMetric(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{}, "a legacy", "b legacy")
	r.Start()
	r.settled()
	ruled := func(denied ...string) []Member {
		members := slices.Clone(r.opt.Members)
		filter := access.NewFilter(access.FilterOptions{Server: "a", Grants: map[string]access.Grant{"bob": {Tools: access.Names{Deny: denied}}, "*": {}}}, metric)
		members[0].Shown, members[0].Apart = filter.Policy(), true
		return members
	}
	r.SetMembers(ruled())
	told := map[string]func() string{}
	for _, who := range []string{"ann", "bob"} {
		caller := proxy.Caller{Principal: who}
		seated, p := r.newPeerOf(caller, true), r.newPeerOf(caller, true)
		seated.call("tools/call", `"name":"a.echo","arguments":{"message":"hi"}`)
		told[who+"'s client with a session at the member"] = func() string { return testkit.Receive(t, "a notice", seated.pushed) }
		told[who+"'s legacy client"] = func() string { return testkit.Receive(t, "a notice", p.pushed) }
		_, told[who+"'s listen"] = r.listensAs(caller, "")
	}
	for _, denied := range []string{"echo", "touch"} {
		r.SetMembers(ruled(denied))
		for who, next := range told {
			if strings.HasPrefix(who, "bob") {
				has(t, next(), rules.ListChanged("tools"))
			}
		}
		r.SetMembers(ruled(denied))
	}
	r.catalogue.SetList("b", catalogue.Prompts, catalogue.List{Items: []catalogue.Item{{Key: "new", Raw: []byte(`{"name":"new"}`)}}})
	for who, next := range told {
		if got := next(); !strings.Contains(got, rules.ListChanged("prompts")) {
			t.Errorf("%s was told %s", who, got)
		}
	}
}
