package merge

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// talker is a legacy server that a test makes speak: outside of calls, in calls, and as it hears. It stands for servers that do what the
// demonstration server does not.
type talker struct {
	heard   chan string                                     // notifications and answers
	opened  chan *proxy.Session                             // by initialize
	refuses bool                                            // every initialize
	call    func(ex *proxy.Exchange) (proxy.Replies, error) // tools/call; nil: an empty result
}

func newTalker() *talker {
	return &talker{heard: make(chan string, 100), opened: make(chan *proxy.Session, 100)}
}

func (k *talker) do(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	result := "{}"
	switch {
	case m.Kind != wire.Request:
		k.heard <- string(m.Append(nil))
		return nil, nil
	case m.Is("initialize") && k.refuses:
		return proxy.Reply(proxy.ErrorMessage(m.Of(m.ID), proxy.Errf(proxy.InvalidRequest, "go away"))), nil
	case m.Is("initialize"):
		k.opened <- ex.Session
		result = `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"k","version":"1"}}`
	case m.Is("tools/call") && k.call != nil:
		return k.call(ex)
	}
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(result))), nil
}

// talkers merges talkers a and b, and returns a client's sessions at both.
func talkers(t *testing.T, stream bool) (r *rig, p *peer, servers [2]*talker, sessions [2]*proxy.Session) {
	t.Helper()
	var members []Member
	kept := map[string]catalogue.Kept{}
	for i, name := range []string{"a", "b"} {
		servers[i], kept[name] = newTalker(), catalogue.Kept{Transport: "HTTP"}
		members = append(members, Member{Member: view.Member{Name: name}, Do: servers[i].do})
	}
	r = newRig(t, Options{Members: members})
	r.catalogue.Keep(kept)
	p = r.newPeer(stream)
	for i, name := range []string{"a", "b"} {
		p.call("tools/call", `"name":"`+name+`.x","arguments":{}`)
		sessions[i] = <-servers[i].opened
		if got := <-servers[i].heard; !strings.Contains(got, "notifications/initialized") {
			t.Fatalf("%s has heard %s", name, got)
		}
	}
	return r, p, servers, sessions
}

// A notice that its endpoint keeps from a caller does not reach the caller's stream.
func TestNoticesAreJudged(t *testing.T) {
	r, p, _, sessions := talkers(t, true)
	members := r.only("a", "b")
	members[0].Notice = func(_ proxy.Caller, m *wire.Message) bool { return string(m.Text(m.URI)) != "demo://hidden" }
	r.SetMembers(members)
	for _, uri := range []string{"demo://hidden", "demo://shown"} {
		if err := sessions[0].Push([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`)); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-p.pushed; !strings.Contains(got, "shown") {
		t.Errorf("pushed %s", got)
	}
}

// What a member sends outside of calls reaches the client's stream, with names that tell members apart.
func TestMembersSpeakOutsideOfCalls(t *testing.T) {
	_, p, servers, sessions := talkers(t, true)
	push := func(i int, raw string) string {
		t.Helper()
		if err := sessions[i].Push([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		return <-p.pushed
	}
	if got := push(0, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`); got != `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1,"logger":"a"}}` {
		t.Errorf("log: %s", got)
	}
	if got := push(1, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"db","data":1}}`); !strings.Contains(got, `"logger":"b/db"`) {
		t.Errorf("log: %s", got)
	}
	if got := push(1, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"demo://x"}}`); !strings.Contains(got, `"uri":"dragoman+b://demo///x"`) {
		t.Errorf("update: %s", got)
	}
	ask := `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"_meta":{"progressToken":5}}}`
	var ids [2]string
	for i, server := range []string{"a", "b"} {
		got := push(i, ask)
		m, err := wire.Scan([]byte(got))
		if err != nil || !strings.Contains(got, `"progressToken":"`+server+`/5"`) {
			t.Fatalf("question of %s: %s, %v", server, got, err)
		}
		ids[i] = string(m.Of(m.ID))
		p.notify(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"` + server + `/5","progress":1}}`)
		if got := <-servers[i].heard; got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}` {
			t.Errorf("progress at %s: %s", server, got)
		}
	}
	if got := push(0, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); got != `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+ids[0]+`}}` {
		t.Errorf("withdrawn: %s", got)
	}
	p.notify(`{"jsonrpc":"2.0","id":` + ids[0] + `,"result":{}}`) // too late
	p.notify(`{"jsonrpc":"2.0","id":` + ids[1] + `,"error":{"code":-1,"message":"no"}}`)
	if got := <-servers[1].heard; got != `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}` {
		t.Errorf("answer at b: %s", got)
	}
	p.notify(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	for i := range servers {
		for got := ""; !strings.Contains(got, "roots/list_changed"); got = <-servers[i].heard {
			if strings.Contains(got, `"id":1,"result"`) {
				t.Errorf("a late answer has reached member %d: %s", i, got)
			}
		}
	}
	if err := sessions[0].Push([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)); err != nil || len(p.pushed) > 0 {
		t.Errorf("a withdrawal of nothing: %v, %d messages", err, len(p.pushed))
	}
}

// Without a stream of the client a member's message waits in its session, for the stream.
func TestMembersWaitForAStream(t *testing.T) {
	_, p, _, sessions := talkers(t, false)
	if err := sessions[0].Push([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)); err == nil {
		t.Error("there is no stream")
	}
	sessions[0].Keep("", []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":2}}`))
	p.session.SetOutlet(p)
	if got := <-p.pushed; !strings.Contains(got, `"data":2`) || !strings.Contains(got, `"logger":"a"`) {
		t.Errorf("pushed %s", got)
	}
}

// The questions of a member's session are withdrawn when that ends.
func TestQuestionsEndWithTheSession(t *testing.T) {
	_, p, _, sessions := talkers(t, true)
	if err := sessions[0].Push([]byte(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)); err != nil {
		t.Fatal(err)
	}
	m, err := wire.Scan([]byte(<-p.pushed))
	if err != nil {
		t.Fatal(err)
	}
	id := string(m.Of(m.ID))
	sessions[0].End(proxy.Closed)
	if got := <-p.pushed; !strings.HasPrefix(got, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`,`) || p.session.OpenQuestions() != 0 {
		t.Errorf("pushed %s; %d questions are open", got, p.session.OpenQuestions())
	}
}

// A client that answers nothing gets no more questions than its session may have; the member is told.
func TestQuestionsAreBounded(t *testing.T) {
	_, p, servers, sessions := talkers(t, true)
	p.pushed = make(chan string, 1000)
	for i := range 300 {
		if err := sessions[0].Push(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-servers[0].heard; len(p.pushed) != 256 || !strings.Contains(got, `"id":256,"error"`) {
		t.Errorf("%d questions reached the client; the member has heard %s", len(p.pushed), got)
	}
}

func TestMembersThatRefuseASession(t *testing.T) {
	k := newTalker()
	k.refuses = true
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: k.do}}})
	r.catalogue.Keep(map[string]catalogue.Kept{"k": {Transport: "HTTP"}})
	p := r.newPeer(false)
	for range 2 {
		if got := p.call("tools/call", `"name":"k.x","arguments":{}`); got.err == nil || !strings.Contains(got.err.Error(), `the server "k" refuses the session: go away`) {
			t.Errorf("%v", got)
		}
	}
	if n := len(r.client(p.session).all()); n != 0 || p.session.State() != proxy.Initialized {
		t.Errorf("%d sessions at members; the client's is %v", n, p.session.State())
	}
	k.refuses = false
	if got := p.call("tools/call", `"name":"k.x","arguments":{}`); got.err != nil {
		t.Errorf("afterwards: %v", got)
	}
}

// A request that a member has not processed, because it no longer knows the session, is sent once more in a new one.
func TestSessionThatTheMemberForgot(t *testing.T) {
	_, p, servers, sessions := talkers(t, false)
	calls := 0
	servers[0].call = func(ex *proxy.Exchange) (proxy.Replies, error) {
		if calls++; calls == 1 {
			gone := proxy.Errf(proxy.SessionLost, "who are you?")
			ex.NotProcessed = true
			ex.Session.EndFor(proxy.Closed, gone)
			return nil, gone
		}
		return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte(`{"content":[]}`))), nil
	}
	if got := p.call("tools/call", `"name":"a.x","arguments":{}`); got.err != nil || calls != 2 || <-servers[0].opened == sessions[0] {
		t.Errorf("%v after %d calls", got, calls)
	}
	servers[0].call = func(ex *proxy.Exchange) (proxy.Replies, error) {
		return nil, proxy.Errf(proxy.SessionLost, "who are you?")
	}
	if got := p.call("tools/call", `"name":"a.x","arguments":{}`); !proxy.IsFault(got.err, proxy.Lost) || !strings.Contains(got.err.Error(), "the next request opens another: who are you?") {
		t.Errorf("a call that may have run: %v", got)
	}
	if p.session.State() != proxy.Initialized {
		t.Errorf("the client's session is %v", p.session.State())
	}
}

// Callers that come while a session is being opened wait for that one.
func TestSessionIsOpenedOnce(t *testing.T) {
	k := newTalker()
	proceed := make(chan struct{})
	begun := make(chan struct{}, 10)
	do := func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Msg.Is("initialize") {
			begun <- struct{}{}
			<-proceed
		}
		return k.do(ex)
	}
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: do}}})
	r.catalogue.Keep(map[string]catalogue.Kept{"k": {Transport: "HTTP"}})
	p := r.newPeer(false)
	c, done := r.client(p.session), make(chan error, 3)
	for range 2 {
		own := exchange(t, "tools/list", "")
		go func() { _, err := c.seat(own, r.now.Load().members["k"]); done <- err }()
	}
	<-begun
	gone := exchange(t, "tools/list", "")
	gone.Cancel(proxy.ErrCancelled)
	if _, err := c.seat(gone, r.now.Load().members["k"]); err != proxy.ErrCancelled {
		t.Errorf("a caller that has left: %v", err)
	}
	close(proceed)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(begun) != 0 || len(k.opened) != 1 {
		t.Errorf("%d more handshakes", len(begun))
	}
	p.session.End(proxy.Closed)
	if _, err := c.seat(exchange(t, "tools/list", ""), r.now.Load().members["k"]); err != proxy.ErrCancelled {
		t.Errorf("after the end: %v", err)
	}
}

// A client that is subscribed to resources of a member stays so when its session there is lost, and learns that they may have changed.
func TestSubscriptionsOutliveASession(t *testing.T) {
	k, subscribed := newTalker(), make(chan string, 10)
	do := func(ex *proxy.Exchange) (proxy.Replies, error) {
		m := &ex.Msg
		switch {
		case m.Is("resources/subscribe"):
			subscribed <- "+" + string(m.Text(m.URI))
			if strings.HasSuffix(string(m.Text(m.URI)), "refused") && len(k.opened) > 0 {
				return proxy.Reply(proxy.ErrorMessage(m.Of(m.ID), proxy.Errf(proxy.InvalidParams, "no"))), nil
			}
		case m.Is("resources/unsubscribe"):
			subscribed <- "-" + string(m.Text(m.URI))
		}
		return k.do(ex)
	}
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: do}, {Member: view.Member{Name: "b"}, Do: newTalker().do}}})
	p := r.newPeer(true)
	var first *proxy.Session
	for _, uri := range []string{"demo://a", "demo://b", "demo://gone", "demo://refused"} {
		if got := p.call("resources/subscribe", `"uri":"dragoman+k://`+strings.Replace(uri, "://", "///", 1)+`"`); got.err != nil {
			t.Fatalf("%s: %v", uri, got)
		}
		if uri == "demo://a" {
			first = <-k.opened
		}
	}
	p.call("resources/unsubscribe", `"uri":"dragoman+k://demo///gone"`)
	for _, want := range []string{"+demo://a", "+demo://b", "+demo://gone", "+demo://refused", "-demo://gone"} {
		if got := <-subscribed; got != want {
			t.Errorf("at the member: %s, want %s", got, want)
		}
	}
	first.EndFor(proxy.Closed, proxy.Errf(proxy.Lost, "killed"))
	for _, want := range []string{"+demo://a", "+demo://b", "+demo://refused"} {
		if got := <-subscribed; got != want {
			t.Errorf("in the next session: %s, want %s", got, want)
		}
	}
	for _, want := range []string{"a", "b", "refused"} {
		if got := <-p.pushed; got != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"dragoman+k://demo///`+want+`"}}` {
			t.Errorf("pushed %s", got)
		}
	}
	if second := <-k.opened; second == first || second.State() != proxy.Initialized {
		t.Error("there is no second session")
	}
	c := r.client(p.session)
	c.mu.Lock()
	left := len(c.subscribed["k"])
	c.mu.Unlock()
	if left != 2 {
		t.Errorf("%d subscriptions are left", left)
	}
	r.SetMembers(r.only("b"))
	r.SetMembers(r.only("b"))
	if len(k.opened) != 0 || len(subscribed) != 0 {
		t.Errorf("at a member that has gone: %d sessions, %d subscriptions", len(k.opened), len(subscribed))
	}
	r.SetMembers(r.only("k", "b"))
	for _, want := range []string{"a", "b"} {
		if got := testkit.Receive(t, "a subscription", subscribed); got != "+demo://"+want {
			t.Errorf("at the member that is back: %s", got)
		}
		if got := testkit.Receive(t, "an update", p.pushed); !strings.Contains(got, rules.ResourceUpdated) || !strings.HasSuffix(got, "demo///"+want+`"}}`) {
			t.Errorf("pushed %s", got)
		}
	}
	r.SetMembers(r.only("k", "b"))
	if len(k.opened) != 1 || len(subscribed) != 0 {
		t.Errorf("at a member that stays: %d sessions, %d subscriptions", len(k.opened), len(subscribed))
	}
}

// No error of a member, or about the member that a request names, has the status at which clients drop their own session.
func TestErrorsOfMembersKeepTheSession(t *testing.T) {
	_, p, servers, _ := talkers(t, false)
	for _, row := range proxy.Faults() {
		servers[0].call = func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(row, "no") }
		got := p.call("tools/call", `"name":"a.x","arguments":{}`)
		var e *proxy.Error
		if !errors.As(got.err, &e) || e.Status == 404 || e.Name == proxy.SessionLost.Name || e.Name != row.Name && e.Name != proxy.Lost.Name {
			t.Errorf("%s: %v", row.Name, got.err)
		}
	}
	got := p.call("tools/call", `"name":"x","arguments":{},"_meta":{"io.dragoman/server":"none"}`)
	if !proxy.IsFault(got.err, proxy.InvalidParams) || !strings.Contains(got.err.Error(), `no server "none" is behind this endpoint; there is a, b`) {
		t.Errorf("a server that is none: %v", got)
	}
}
