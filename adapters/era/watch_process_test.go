package era

import (
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
)

// At a process the listen before is given up first, since some servers know one for each connection; the gap is made up
// for (vector 47, trace D).
func TestWatchBreaksBeforeItMakesAtProcess(t *testing.T) {
	for name, answers := range map[string]bool{"the server answers what is cancelled": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &announcer{caps: someCaps, answers: answers}
				r := newWatchRig(t, srv, true, true)
				first := srv.last()
				before := time.Now()
				r.is("resources/subscribe", "u1", "{}")
				want := gatherTime + partTime
				if answers {
					want = gatherTime
				}
				if d := time.Since(before); d != want {
					t.Errorf("answered after %s", d)
				}
				r.sees(changedNotice("tools")) // u1 was not subscribed to before
				time.Sleep(time.Second)
				r.is("resources/subscribe", "u2", "{}")
				r.sees(changedNotice("tools"), updatedNotice("u1"))
				first.updated("u1") // late, of a listen that has ended
				srv.last().updated("u2")
				srv.last().send("notifications/tools/list_changed", "")
				r.sees(updatedNotice("u2"), taggedChange("tools"))
				r.close()
				logIs(t, srv, `open 1 {"toolsListChanged":true}`, "acknowledge 1",
					"cancelled 3", `open 2 {"toolsListChanged":true,"resourceSubscriptions":["u1"]}`, "acknowledge 2",
					"cancelled 4", `open 3 {"toolsListChanged":true,"resourceSubscriptions":["u1","u2"]}`, "acknowledge 3",
					"cancelled 5")
			})
		})
	}
}

// A process may end a listen with notifications/cancelled, with a result, or both, in any order.
func TestWatchProcessEndsListen(t *testing.T) {
	const result, cancelled = `{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete"}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`
	for _, ends := range [][]string{{result}, {cancelled}, {result, cancelled}, {cancelled, result}} {
		synctest.Test(t, func(t *testing.T) {
			srv := &announcer{caps: someCaps}
			r := newWatchRig(t, srv, true, true)
			time.Sleep(time.Minute)
			_ = srv.last().mux.Deliver([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"3"}}`))
			_ = srv.last().mux.Deliver([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`))
			synctest.Wait()
			if r.u.Watches() != 1 {
				t.Error("the end of something else")
			}
			for _, msg := range ends {
				_ = srv.last().mux.Deliver([]byte(msg))
			}
			synctest.Wait()
			if r.u.Watches() != 0 {
				t.Errorf("%v: unnoticed", ends)
			}
			time.Sleep(2 * backoffLeast)
			r.sees(changedNotice("tools"))
			r.close()
			logIs(t, srv, `open 1 {"toolsListChanged":true}`, "acknowledge 1", `open 2 {"toolsListChanged":true}`, "acknowledge 2", "cancelled 4")
		})
	}
}

// A process that dies while a subscription waits: it is answered, and made good for what was subscribed to before.
func TestWatchProcessDiesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: onlySubs}
		r := newWatchRig(t, srv, true, true)
		defer r.close()
		r.is("resources/subscribe", "u1", "{}")
		srv.mu.Lock()
		srv.silent = true
		srv.mu.Unlock()
		done := r.subscribe("u2")
		time.Sleep(gatherTime + partTime + time.Millisecond)
		srv.mu.Lock()
		srv.silent = false
		srv.mu.Unlock()
		srv.links[0].Fail(proxy.Errf(proxy.Lost, "died"))
		modernSink{r.u}.Lost(proxy.Errf(proxy.Lost, "died"))
		r.answered(done, "-32603 upstream_lost")
		time.Sleep(2 * backoffLeast)
		r.sees(updatedNotice("u1"))
		r.is("resources/subscribe", "u2", "{}")
	})
}
