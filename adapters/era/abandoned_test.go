package era

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/input"
)

// Dragoman gives up a call whose client does not answer, while another call of the client runs in the same session. A question that the
// server asks then belongs to the other call.
func TestQuestionBesideAnAbandonedCall(t *testing.T) {
	const ttl = time.Minute
	for _, process := range []bool{false, true} {
		t.Run(map[bool]string{false: "http", true: "stdio"}[process], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := input.NewStore(input.Options{TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				r := newServerRig(t, newScriptedServer("{}"), process, func(o *Options) { o.Store = store })
				defer r.close()
				came := r.s.hold("tools/call")
				c := client{who: "p", caps: `{"elicitation":{"form":{}}}`}
				asks := func(l *scriptedLink, e *clientRequest, id string) {
					t.Helper()
					l.away(`{"jsonrpc":"2.0","id":"` + id + `","method":"elicitation/create","params":{"message":"` + id + `","requestedSchema":{"type":"object","properties":{}}}}`)
					time.Sleep(100 * time.Millisecond)
					e.mu.Lock()
					defer e.mu.Unlock()
					if len(e.got) != 1 || !strings.Contains(e.got[0], `"input_required"`) || !strings.Contains(e.got[0], `"message":"`+id+`"`) {
						t.Errorf("%q: the client received %q", id, e.got)
					}
				}
				first := r.call(c, "1", "w")
				at := (<-came).l
				asks(at, first, "first")
				time.Sleep(ttl - 200*time.Millisecond)
				second := r.call(c, "2", "w")
				defer second.leave()
				if l := (<-came).l; l != at {
					t.Errorf("the second call runs in session %d, the first in %d", l.n, at.n)
				}
				r.s.received()
				time.Sleep(110 * time.Millisecond)
				if got := strings.Join(r.s.received(), "\n"); !strings.Contains(got, "notifications/cancelled") {
					t.Errorf("the first call was not given up: %s", got)
				}
				asks(at, second, "second")
				if got := strings.Join(r.s.received(), "\n"); strings.Contains(got, `"second"`) {
					t.Errorf("the server received %s", got)
				}
			})
		})
	}
}
