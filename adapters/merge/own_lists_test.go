package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/view"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// scripted is a legacy server whose tools differ between sessions. It stands for servers that show more after a login, which the
// demonstration server does not.
type scripted struct {
	fails error // of tools/list
	tools map[*proxy.Session][]string
}

func (s *scripted) do(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	result := "{}"
	switch {
	case m.Kind != wire.Request:
		return nil, nil
	case ex.Client.Era == proxy.Modern:
		return nil, proxy.Errf(proxy.MethodNotFound, "legacy only")
	case m.Is("initialize"):
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}`
	case m.Is("tools/list") && s.fails != nil:
		return nil, s.fails
	case m.Is("tools/list"):
		var all []string
		for _, name := range append([]string{"login"}, s.tools[ex.Session]...) {
			all = append(all, `{"name":"`+name+`"}`)
		}
		result = `{"tools":[` + strings.Join(all, ",") + `]}`
	case m.Is("tools/call"):
		s.tools[ex.Session] = append(s.tools[ex.Session], "secret")
		_ = ex.Session.Push([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
		result = `{"content":[]}`
	}
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(result))), nil
}

// A list that differs in a client's session belongs to that client.
func TestListsOfOneSession(t *testing.T) {
	s := &scripted{tools: map[*proxy.Session][]string{}}
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "s"}, Do: s.do}}}, "a modern")
	r.catalogue.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "s": {Transport: "HTTP"}})
	r.Start()
	r.settled()
	p, other := r.newPeer(true), r.newPeer(true)
	p.call("tools/call", `"name":"s.login","arguments":{}`)
	if got := <-p.pushed; !strings.Contains(got, "notifications/tools/list_changed") {
		t.Errorf("pushed %s", got)
	}
	for who, want := range map[*peer]bool{p: true, other: false} {
		got := who.call("tools/list", "").keysOf("tools", "name")
		if slices.Contains(got, "s.secret") != want || !slices.Contains(got, "s.login") || !slices.Contains(got, "a.echo") {
			t.Errorf("the client that has signed in: %v; it sees %v", want, got)
		}
	}
	if got := r.call("tools/list", "").keysOf("tools", "name"); slices.Contains(got, "s.secret") {
		t.Errorf("a modern client sees %v", got)
	}
	c := r.client(p.session)
	if first := c.view(proxy.Caller{}); first != c.view(proxy.Caller{}) || first == r.viewOf(&lists.Client{}) {
		t.Error("the client's view is made anew each time, or is that of all")
	}
	if got := p.call("tools/call", `"name":"secret","arguments":{}`); got.err != nil || got.raw == "" {
		t.Errorf("the client's own tool by its plain name: %v", got)
	}
	if got := other.call("tools/call", `"name":"secret","arguments":{}`); got.err == nil || !strings.Contains(got.err.Error(), "Tool not found: secret") {
		t.Errorf("another client's: %v", got)
	}
}

// A list of a client's own that cannot be read is noted, stays as it was, and is read with the next request for it.
func TestListsOfOneSessionThatFail(t *testing.T) {
	s := &scripted{tools: map[*proxy.Session][]string{}}
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "s"}, Do: s.do}}})
	r.Start()
	r.settled()
	p := r.newPeer(true)
	p.call("tools/call", `"name":"s.login","arguments":{}`)
	<-p.pushed
	for _, step := range []struct {
		fails error
		want  string
	}{{errors.New("down"), "[s.login]"}, {errors.New("down"), "[s.login]"}, {nil, "[s.login s.secret]"}} {
		s.fails = step.fails
		if got := fmt.Sprint(p.call("tools/list", "").keysOf("tools", "name")); got != step.want {
			t.Errorf("%v: the client sees %s, want %s", step.fails, got, step.want)
		}
	}
	if got := <-r.notes; got != "debug s: a list of a client's own could not be read: down" {
		t.Errorf("noted %s", got)
	}
}

// A legacy client learns of changes at members at which it has no session.
func TestChangesReachLegacyClients(t *testing.T) {
	r := newRig(t, Options{}, "a legacy", "b legacy")
	r.Start()
	r.settled()
	p, late := r.newPeer(true), r.newPeer(false)
	set := func(server string, kind catalogue.Kind, key string) {
		r.catalogue.SetList(server, kind, catalogue.List{Items: []catalogue.Item{{Key: key, Raw: []byte(`{"name":"` + key + `"}`)}}})
	}
	set("b", catalogue.Prompts, "new")
	if got := <-p.pushed; got != `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}` {
		t.Errorf("pushed %s", got)
	}
	late.session.SetOutlet(late)
	if got := <-late.pushed; got != `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}` {
		t.Errorf("kept for a stream: %s", got)
	}
	p.call("tools/call", `"name":"a.echo","arguments":{"message":"hi"}`)
	set("a", catalogue.Prompts, "newer") // the session at a would tell
	set("b", catalogue.Prompts, "new")   // as before
	set("b", catalogue.Templates, "demo://{x}")
	if got := <-p.pushed; got != `{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}` {
		t.Errorf("pushed %s", got)
	}
}

// A member that stays away is left out, and shown again when it is back.
func TestGrace(t *testing.T) {
	up := make(chan bool, 1)
	s := &scripted{tools: map[*proxy.Session][]string{}}
	r := newRigOf(t, lists.Options{Grace: time.Nanosecond}, Options{Members: []Member{{Member: view.Member{Name: "s"}, Do: s.do}}}, "a modern")
	r.modern = func(_ context.Context, server string) (bool, error) {
		if server == "s" && !<-up {
			return false, errors.New("down")
		}
		return server == "a", nil
	}
	c := r.catalogue
	c.Keep(map[string]catalogue.Kept{"a": {Transport: "HTTP"}, "s": {Transport: "HTTP"}})
	c.SetList("s", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "old", Raw: []byte(`{"name":"old"}`)}}})
	until := func(want catalogue.Presence) {
		t.Helper()
		for {
			now := c.Snapshot()
			if now.Server("s").Presence == want {
				return
			}
			<-c.Changed(now.Version)
		}
	}
	r.Start()
	up <- false
	until(catalogue.Out)
	if got := r.call("tools/list", "").keysOf("tools", "name"); slices.Contains(got, "s.old") {
		t.Errorf("left out, and shown: %v", got)
	}
	up <- true
	until(catalogue.There)
	if got := r.call("tools/list", "").keysOf("tools", "name"); !slices.Contains(got, "s.login") {
		t.Errorf("back, and not shown: %v", got)
	}
}

func TestStrict(t *testing.T) {
	r := newRig(t, Options{Strict: true}, "a modern")
	r.catalogue.SetList("a", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "x", Raw: []byte(`{"name":"x"}`)}}})
	if got := r.call("tools/list", ""); got.err == nil || !strings.Contains(got.err.Error(), "not up to date: a") {
		t.Errorf("away: %v", got)
	}
	r.catalogue.SetPresence("a", catalogue.There)
	if got := r.call("tools/list", ""); got.err != nil {
		t.Errorf("there: %v", got)
	}
	if got := r.call("prompts/list", ""); got.err == nil {
		t.Errorf("never listed: %v", got)
	}
}

// A list that is the same in a client's session does not belong to the client: it shares what others see.
func TestListsThatAreTheSameInASession(t *testing.T) {
	r, p, _, sessions := talkers(t, true)
	r.catalogue.SetList("a", catalogue.Tools, catalogue.List{})
	for _, differs := range []bool{true, false} {
		if differs {
			r.catalogue.SetList("a", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "x", Raw: []byte(`{"name":"x"}`)}}})
		} else {
			r.catalogue.SetList("a", catalogue.Tools, catalogue.List{})
		}
		if err := sessions[0].Push([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)); err != nil {
			t.Fatal(err)
		}
		if got := p.call("tools/list", ""); got.err != nil || len(got.keysOf("tools", "name")) != 0 {
			t.Errorf("the client sees %v", got)
		}
		if own := r.client(p.session).view(proxy.Caller{}) != r.viewOf(&lists.Client{}); own != differs {
			t.Errorf("the client has a view of its own: %v, want %v", own, differs)
		}
	}
}
