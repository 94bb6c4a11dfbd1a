package merge

import (
	"strings"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/view"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A connection that is lost is opened again, and lists are last known meanwhile.
func TestLostConnections(t *testing.T) {
	k := newTalker()
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: k.do}}})
	c := r.catalogue
	c.Keep(map[string]catalogue.Kept{"k": {Transport: "HTTP"}})
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
	r.lists.Close()
	if second.State() != proxy.Closed {
		t.Errorf("after Close the session is %v", second.State())
	}
}

// The members are described as they describe themselves.
func TestDescriptions(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b legacy")
	r.Start()
	r.settled()
	for name, revision := range map[string]string{"a": "2026-07-28", "b": "2025-11-25"} {
		s := r.catalogue.Snapshot().Server(name)
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

// Servers that list a tool only to clients that can be asked list it here, too. Dragoman's own session refuses their questions.
func TestQuestionsToDragoman(t *testing.T) {
	for name, test := range map[string]struct {
		modern bool
		params []string // up to the capabilities
	}{"legacy": {false, []string{"params", "capabilities"}}, "modern": {true, []string{"params", "_meta", "io.modelcontextprotocol/clientCapabilities"}}} {
		s := newScript(test.modern, `{"tools":{}}`)
		if !test.modern {
			s.set("tools/list", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`, "wait", `{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"t"}]}}`)
		}
		scriptRig(t, Options{}, s)
		s.mu.Lock()
		asked := []byte(s.last[map[bool]string{true: "server/discover", false: "initialize"}[test.modern]])
		s.mu.Unlock()
		caps := string(wire.Path(asked, wire.Whole(asked), test.params...).Of(asked))
		has(t, name+caps, `"roots":{`, `"sampling":{`, `"elicitation":{`, `"io.modelcontextprotocol/ui"`)
		if test.modern {
			continue
		}
		has(t, s.hears(t, ""), `"id":"q"`, `"error":{"code":-32601`)
		s.say(t, `{"jsonrpc":"2.0","id":"later","method":"sampling/createMessage","params":{}}`)
		has(t, s.hears(t, ""), `"id":"later"`, `"error":{"code":-32601`)
	}
}
