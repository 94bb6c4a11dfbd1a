package era

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/proxy"
)

// sealRig runs a test at a modern server that issues requestStates, over each kind of link.
func sealRig(t *testing.T, seal bool, f func(t *testing.T, r *serverRig)) {
	t.Helper()
	for _, process := range []bool{false, true} {
		t.Run(map[bool]string{false: "http", true: "stdio"}[process], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScriptedServer(`{"tools":{}}`)
				s.era = proxy.Modern
				r := newServerRig(t, s, process, func(o *Options) {
					o.SealState = seal
					o.Store, _ = input.NewStore(input.Options{TTL: time.Minute})
				})
				f(t, r)
				r.close()
			})
		})
	}
}

// asks makes the server answer with a question and the given state, raw JSON.
func (r *serverRig) asks(method, state string) {
	r.s.on[method] = func(c *scriptedCall) {
		c.result(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}},"requestState":` + state + `,"x":9007199254740993}`)
	}
}

// state returns the requestState of the only response received.
func (e *clientRequest) state(prefix, suffix string) string {
	e.t.Helper()
	e.ended("")
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.got) != 1 {
		e.t.Fatalf("received %q", e.got)
	}
	state, ok := strings.CutPrefix(e.got[0], prefix)
	state, ok2 := strings.CutSuffix(state, suffix)
	if !ok || !ok2 {
		e.t.Fatalf("received %s", e.got[0])
	}
	return state
}

const (
	askedHead = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}},"requestState":`
	askedTail = `,"x":9007199254740993}}`
)

// A modern server's state is sealed for the client and restored for the server: for the same principal, method and parameters only,
// and until it expires. Repeated use is left to the server.
func TestSealStateBinds(t *testing.T) {
	for _, own := range []string{`"a server's state"`, `"\u00fc\/ \"x\""`, `""`, `"` + strings.Repeat("z", 70000) + `"`, `{"odd":1.50}`} {
		sealRig(t, true, func(t *testing.T, r *serverRig) {
			alice := client{who: "alice", caps: `{"roots":{}}`}
			for _, c := range []struct{ method, params, other string }{
				{"tools/call", `"name":"w","arguments":{"x":1}`, `"name":"w","arguments":{"x":2}`},
				{"prompts/get", `"name":"w"`, `"name":"v"`},
				{"resources/read", `"uri":"u"`, `"uri":"v"`},
			} {
				r.asks(c.method, own)
				sealed := r.request(alice, "1", c.method, c.params).state(askedHead, askedTail)
				plain := strings.Trim(own, `"`)
				if !strings.HasPrefix(sealed, `"v1.`) || len(plain) > 1 && strings.Contains(sealed, plain) {
					t.Fatalf("given out: %s", sealed)
				}
				retry := func(who client, method, params, state string) *clientRequest {
					return r.request(who, "2", method, params+`,"inputResponses":{"a":{"roots":[]}},"requestState":`+state)
				}
				got := ""
				for _, method := range []string{"tools/call", "prompts/get", "resources/read", "tools/list"} {
					r.s.on[method] = func(c *scriptedCall) {
						got = string(c.msg.Of(c.msg.ReqState)) + string(c.msg.Of(c.msg.InputResponses))
						c.result(`{"resultType":"complete"}`)
					}
				}
				r.s.received()
				flipped := []byte(sealed)
				flipped[len(flipped)-4] ^= 1
				for _, e := range []*clientRequest{
					retry(client{who: "bob", caps: alice.caps}, c.method, c.params, sealed), retry(client{caps: alice.caps}, c.method, c.params, sealed),
					retry(alice, c.method, c.other, sealed), retry(alice, "tools/list", c.params, sealed), retry(alice, c.method, c.params, string(flipped)),
					retry(alice, c.method, c.params, own), retry(alice, c.method, c.params, `"v1."`), retry(alice, c.method, c.params, `null`), retry(alice, c.method, c.params, `7`),
				} {
					e.ended("request_state_invalid")
				}
				r.serverReceived()
				retry(alice, c.method, c.params, sealed).ended("")
				if got != own+`{"a":{"roots":[]}}` {
					t.Errorf("the server got %s", got)
				}
				retry(alice, c.method, c.params, sealed).ended("")
				time.Sleep(2 * time.Minute)
				retry(alice, c.method, c.params, sealed).ended("request_state_invalid")
			}
		})
	}
}

// Without a state from the server none is made; a second round has its own state.
func TestSealStateRounds(t *testing.T) {
	sealRig(t, true, func(_ *testing.T, r *serverRig) {
		r.s.answers("tools/call", `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}}}`)
		r.call(client{}, "1", "w").received(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}}}}`)
		r.asks("tools/call", `"S1"`)
		one := r.call(client{}, "1", "w").state(askedHead, askedTail)
		r.asks("tools/call", `"S2"`)
		two := r.request(client{}, "1", "tools/call", `"name":"w","arguments":{},"requestState":`+one).state(askedHead, askedTail)
		if one == two {
			r.t.Error("one state for two rounds")
		}
		r.s.received()
		r.s.answers("tools/call", `{"resultType":"complete","content":[]}`)
		r.request(client{}, "1", "tools/call", `"name":"w","arguments":{},"requestState":`+two).received(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`)
		if got := strings.Join(r.s.received(), "\n"); !strings.Contains(got, `"requestState":"S2"`) {
			r.t.Errorf("the server received %s", got)
		}
	})
}

// Without seal_state it passes unchanged both ways. A legacy client never receives it.
func TestSealStateOff(t *testing.T) {
	sealRig(t, false, func(_ *testing.T, r *serverRig) {
		r.asks("tools/call", `"\u0041\/ä"`)
		if got := r.call(client{who: "alice"}, "1", "w").state(askedHead, askedTail); got != `"\u0041\/ä"` {
			r.t.Errorf("given out: %s", got)
		}
		r.s.received()
		r.request(client{who: "bob"}, "1", "tools/call", `"name":"w","arguments":{},"requestState":"\u0041\/ä"`)
		if got := strings.Join(r.s.received(), "\n"); !strings.Contains(got, `"requestState":"\u0041\/ä"`) {
			r.t.Errorf("the server received %s", got)
		}
	})
	sealRig(t, true, func(_ *testing.T, r *serverRig) {
		r.asks("tools/call", `"S1"`)
		s := r.legacy(`{"roots":{}}`)
		e := r.ask(s, "1", "tools/call", `"name":"w","arguments":{}`)
		e.received(`{"jsonrpc":"2.0","id":"dragoman-1","method":"roots/list","params":{}}`)
		r.s.received()
		r.s.answers("tools/call", `{"resultType":"complete","content":[]}`)
		s.Answer(fakeserver.Scan(r.t, `{"jsonrpc":"2.0","id":"dragoman-1","result":{"roots":[]}}`))
		e.received(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		if got := strings.Join(r.s.received(), "\n"); !strings.Contains(got, `"requestState":"S1"`) {
			r.t.Errorf("the server received %s", got)
		}
	})
}
