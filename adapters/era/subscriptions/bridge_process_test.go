package subscriptions

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
)

// At a process the previous listen ends first, since some servers support one per connection; the gap is made up for (vector 47,
// trace D).
func TestBridgeBreaksBeforeItMakesAtProcess(t *testing.T) {
	for name, answers := range map[string]bool{"the server answers what is cancelled": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &modernServer{caps: someCaps, answers: answers}
				r := newBridgeRig(t, srv, true, true)
				first := srv.last()
				before := time.Now()
				r.requests("resources/subscribe", "u1", "{}")
				want := gatherTime + giveUpTime
				if answers {
					want = gatherTime
				}
				if d := time.Since(before); d != want {
					t.Errorf("answered after %s", d)
				}
				r.received(changedNotice("tools")) // u1 was not subscribed to before
				time.Sleep(time.Second)
				r.requests("resources/subscribe", "u2", "{}")
				r.received(changedNotice("tools"), updatedNotice("u1"))
				first.updated("u1") // late, of a listen that has ended
				srv.last().updated("u2")
				srv.last().send("notifications/tools/list_changed", "")
				r.received(updatedNotice("u2"), taggedChange("tools"))
				r.close()
				logIs(t, srv, `open 1 {"toolsListChanged":true}`, "acknowledge 1",
					"cancelled 1", `open 2 {"toolsListChanged":true,"resourceSubscriptions":["u1"]}`, "acknowledge 2",
					"cancelled 2", `open 3 {"toolsListChanged":true,"resourceSubscriptions":["u1","u2"]}`, "acknowledge 3",
					"cancelled 3")
			})
		})
	}
}

// A process may end a listen with notifications/cancelled, with a result, or both, in any order.
func TestBridgeProcessEndsListen(t *testing.T) {
	const result, cancelled = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete"}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}`
	for _, ends := range [][]string{{result}, {cancelled}, {result, cancelled}, {cancelled, result}} {
		synctest.Test(t, func(t *testing.T) {
			srv := &modernServer{caps: someCaps}
			r := newBridgeRig(t, srv, true, true)
			time.Sleep(time.Minute)
			_ = srv.last().mux.Deliver([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"` + srv.last().id + `"}}`))
			_ = srv.last().mux.Deliver([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`))
			synctest.Wait()
			if r.u.bridges.Count() != 1 {
				t.Error("the end of something else")
			}
			for _, msg := range ends {
				_ = srv.last().mux.Deliver([]byte(strings.ReplaceAll(msg, "ID", srv.last().id)))
			}
			synctest.Wait()
			if r.u.bridges.Count() != 0 {
				t.Errorf("%v: unnoticed", ends)
			}
			time.Sleep(2 * backoffMin)
			r.received(changedNotice("tools"))
			r.close()
			logIs(t, srv, `open 1 {"toolsListChanged":true}`, "acknowledge 1", `open 2 {"toolsListChanged":true}`, "acknowledge 2", "cancelled 2")
		})
	}
}

// When a process dies, a pending subscription is answered, and earlier subscriptions are restored.
func TestBridgeProcessDiesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: onlySubs}
		r := newBridgeRig(t, srv, true, true)
		defer r.close()
		r.requests("resources/subscribe", "u1", "{}")
		srv.mu.Lock()
		srv.silent = true
		srv.mu.Unlock()
		done := r.subscribe("u2")
		time.Sleep(gatherTime + giveUpTime + time.Millisecond)
		srv.mu.Lock()
		srv.silent = false
		srv.mu.Unlock()
		srv.links[0].die()
		r.answered(done, "-32603 upstream_lost")
		time.Sleep(2 * backoffMin)
		r.received(updatedNotice("u1"))
		r.requests("resources/subscribe", "u2", "{}")
	})
}

// All sessions at a process share one listen, since some servers support one per connection; each session receives its own notices, and
// none that may be another caller's.
func TestBridgeShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps, ackAll: func(uri string) bool { return uri != "no" }}
		a := newBridgeRig(t, srv, true, true)
		b := a.another(srv)
		a.requests("resources/subscribe", "u1", "{}")
		a.received(changedNotice("tools"))
		b.received(changedNotice("tools"))
		late := a.secondClient() // which has not sent notifications/initialized
		late.initialize()
		srv.last().updated("else")
		srv.last().send("notifications/tools/list_changed", "")
		a.received(taggedChange("tools")) // what else changed may be the other caller's
		b.received(taggedChange("tools")) // has not subscribed to anything
		late.received()
		late.s.End(proxy.Closed)
		b.requests("resources/subscribe", "u1", "{}") // the listen has it
		b.requests("resources/subscribe", "u2", "{}")
		a.received(changedNotice("tools"), updatedNotice("u1"))
		b.received(changedNotice("tools"), updatedNotice("u1"))
		for _, uri := range []string{"u1", "u2/x", "else"} {
			srv.last().updated(uri)
		}
		srv.last().send("notifications/tools/list_changed", "")
		a.received(updatedNotice("u1"), taggedChange("tools"))
		b.received(updatedNotice("u1"), updatedNotice("u2/x"), taggedChange("tools"))
		if n := a.u.bridges.Count(); n != 1 {
			t.Errorf("%d listens", n)
		}
		a.s.End(proxy.Closed)
		srv.last().updated("u1")
		a.received()
		b.received(updatedNotice("u1"))
		b.close()
		logIs(t, srv, `open 1 {"toolsListChanged":true}`, "acknowledge 1",
			"cancelled 1", `open 2 {"toolsListChanged":true,"resourceSubscriptions":["u1"]}`, "acknowledge 2",
			"cancelled 2", `open 3 {"toolsListChanged":true,"resourceSubscriptions":["u1","u2"]}`, "acknowledge 3", "cancelled 3")
	})
}

// A refused subscription of one session costs the others only an immediate notice that everything has changed.
func TestBridgeSharedRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: onlySubs}
		a := newBridgeRig(t, srv, true, true)
		defer a.close()
		b := a.another(srv)
		a.requests("resources/subscribe", "u1", "{}")
		time.Sleep(time.Minute)
		srv.mu.Lock()
		srv.onListen = func(l *serverListen) {
			srv.mu.Lock()
			srv.onListen = nil
			srv.mu.Unlock()
			l.raw(`{"jsonrpc":"2.0","id":` + l.id + `,"error":{"code":-32602,"message":"no such resource"}}`)
		}
		srv.mu.Unlock()
		before := time.Now()
		b.requests("resources/subscribe", "no", "-32602 invalid_params")
		a.received(updatedNotice("u1"))
		if d := time.Since(before); d != gatherTime+giveUpTime {
			t.Errorf("after %s", d)
		}
		srv.last().updated("u1")
		a.received(updatedNotice("u1"))
		b.received()
		logIs(t, srv, `open 1 {"resourceSubscriptions":["u1"]}`, "acknowledge 1", "cancelled 1",
			`open 2 {"resourceSubscriptions":["u1","no"]}`, `open 3 {"resourceSubscriptions":["u1"]}`, "acknowledge 3") // what ended is not cancelled
	})
}

// The end of the last session while its listen is opened does not count as a failure: the next session is not delayed.
func TestBridgeSharedBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps, silent: true}
		a := newBridgeRig(t, srv, true, true)
		a.s.End(proxy.Closed)
		time.Sleep(giveUpTime)
		srv.mu.Lock()
		srv.silent = false
		srv.mu.Unlock()
		b := a.another(srv)
		logIs(t, srv, `open 1 {"toolsListChanged":true}`, "cancelled 1", `open 2 {"toolsListChanged":true}`, "acknowledge 2")
		b.close()
	})
}

// A later session may add lists that were not in the filter before.
func TestBridgeSharedWidens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps}
		a := newBridgeRig(t, srv, true, true)
		defer a.close()
		srv.mu.Lock()
		srv.caps = allCaps
		srv.mu.Unlock()
		b := a.another(srv)
		time.Sleep(time.Second)
		a.out.Take()
		b.out.Take()
		srv.last().send("notifications/prompts/list_changed", "")
		a.received()
		b.received(taggedChange("prompts"))
		b.s.End(proxy.Closed)
		time.Sleep(time.Hour)
		logIs(t, srv, `open 1 {"toolsListChanged":true}`, "acknowledge 1",
			"cancelled 1", `open 2 {"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`, "acknowledge 2")
	})
}

// All sessions of a process together may subscribe to listenedBytes of URIs.
func TestBridgeSharedBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: onlySubs}
		a := newBridgeRig(t, srv, true, true)
		defer a.close()
		uri := strings.Repeat("x", subscribedBytes)
		refused := 0
		for range listenedBytes/subscribedBytes + 2 {
			b := a.another(srv)
			defer b.s.End(proxy.Closed)
			_, done := b.request("resources/subscribe", `"uri":"`+uri+`"`)
			switch got := <-done; got {
			case "{}":
			case "-32603 upstream_overloaded":
				refused++
			default:
				t.Error(got)
			}
		}
		if refused != 2 {
			t.Errorf("%d were refused", refused)
		}
	})
}

// When a session ends, its own waiting subscriptions fail, and those of others go on.
func TestBridgeSharedSessionEndsMeanwhile(t *testing.T) {
	for _, after := range []time.Duration{gatherTime / 2, gatherTime + giveUpTime + time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			srv := &modernServer{caps: onlySubs, onListen: func(*serverListen) {}}
			a := newBridgeRig(t, srv, true, true)
			b := a.another(srv)
			one, two := a.subscribe("u1"), b.subscribe("u2")
			time.Sleep(after)
			a.s.End(proxy.Closed)
			a.s.End(proxy.Closed)
			a.answered(one, "-32603 shutting_down")
			synctest.Wait()
			if after < gatherTime {
				time.Sleep(gatherTime)
			}
			srv.last().send("notifications/subscriptions/acknowledged", `"notifications":{"resourceSubscriptions":["u1","u2"]}`)
			b.answered(two, "{}")
			srv.last().updated("u2")
			b.received(updatedNotice("u2"))
			if n := a.u.bridges.sessions(); n != 1 {
				t.Errorf("%d sessions", n)
			}
			b.close()
		})
	}
}

// With a process for each principal, the sessions of each principal share a listen of their own.
func TestBridgeByPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps}
		a := newBridgeRig(t, srv, true, true)
		a.u.keys = func(principal string) string { return principal }
		defer a.close()
		b, c := a.secondClient(), a.secondClient()
		c.s = proxy.NewSession("u", "stdio", "", proxy.Caller{Principal: "q"}, time.Now())
		c.s.SetOutlet(c.out)
		for _, r := range []*bridgeRig{b, c} {
			r.start(srv)
			time.Sleep(time.Second)
		}
		if n := a.u.bridges.Count(); n != 2 {
			t.Errorf("%d listens for two principals", n)
		}
		b.s.End(proxy.Closed)
		synctest.Wait()
		if n := a.u.bridges.Count(); n != 2 {
			t.Errorf("%d listens while a session of each is there", n)
		}
		c.s.End(proxy.Closed)
		synctest.Wait()
		if n := a.u.bridges.Count(); n != 1 {
			t.Errorf("%d listens after the last session of one", n)
		}
	})
}
