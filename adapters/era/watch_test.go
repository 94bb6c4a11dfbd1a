package era

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
)

// Over HTTP the next listen is acknowledged before the previous one is closed; the client sees neither (vectors 46 to 48).
func TestWatchMakesBeforeItBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: someCaps}
		r := newWatchRig(t, srv, false, false)
		defer r.close()
		r.is("resources/subscribe", "u1", "{}")
		r.is("resources/subscribe", "u2", "{}")
		r.is("resources/subscribe", "u2", "{}") // is there already
		time.Sleep(time.Second)
		logIs(t, srv, `open 1 {"toolsListChanged":true,"resourceSubscriptions":["u1"]}`, "acknowledge 1",
			`open 2 {"toolsListChanged":true,"resourceSubscriptions":["u1","u2"]}`, "acknowledge 2", "close 1")
		r.s.SetOutlet(r.out)
		l := srv.last()
		l.updated("u1/sub")
		l.raw(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u2","_meta":{"io.modelcontextprotocol/subscriptionId":1,"x":1}}}`)
		l.send("notifications/tools/list_changed", "")
		l.send("notifications/prompts/list_changed", "") // was not announced
		l.send("notifications/message", `"level":"error","data":"no"`)
		l.send("notifications/progress", `"progressToken":1,"progress":1`)
		r.sees(updatedNotice("u1/sub"), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u2","_meta":{"x":1}}}`, taggedChange("tools"))
		if n := r.u.Watches(); n != 1 {
			t.Errorf("%d watches", n)
		}
	})
}

// When one listen replaces another no notice is lost, and what both deliver is delivered once.
func TestWatchOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: someCaps}
		r := newWatchRig(t, srv, false, true)
		defer r.close()
		r.is("resources/subscribe", "u1", "{}")
		first := srv.last()
		r.is("resources/subscribe", "u2", "{}")
		second := srv.last()
		first.updated("u1") // sent before the acknowledgement, read after it
		second.send("notifications/tools/list_changed", "")
		synctest.Wait()
		first.send("notifications/tools/list_changed", "")
		time.Sleep(time.Second)
		r.sees(updatedNotice("u1"), taggedChange("tools"))
	})
}

// A resource that is missing in the acknowledgement is not subscribed to, and nothing else changes (vector 46).
func TestWatchNotSubscribable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: onlySubs, ackAll: func(uri string) bool { return !strings.HasPrefix(uri, "no") }}
		r := newWatchRig(t, srv, false, true)
		defer r.close()
		r.is("resources/subscribe", "no1", "-32602 invalid_params")
		time.Sleep(time.Second)
		logIs(t, srv, `open 1 {"resourceSubscriptions":["no1"]}`, "acknowledge 1", "close 1") // of no use to anybody
		r.is("resources/subscribe", "u1", "{}")
		r.is("resources/subscribe", "no2", "-32602 invalid_params")
		time.Sleep(time.Second)
		logIs(t, srv, `open 1 {"resourceSubscriptions":["no1"]}`, "acknowledge 1", "close 1",
			`open 2 {"resourceSubscriptions":["u1"]}`, "acknowledge 2",
			`open 3 {"resourceSubscriptions":["u1","no2"]}`, "acknowledge 3", "close 3")
		srv.listens[1].updated("u1")
		r.sees(updatedNotice("u1"))
		one, two := r.subscribe("no3"), r.subscribe("u2")
		r.answered(one, "-32602 invalid_params")
		r.answered(two, "{}")
	})
}

// The wait for an acknowledgement is bounded, and affects neither other sessions nor the current listen.
func TestWatchAcknowledgementDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: someCaps}
		r := newWatchRig(t, srv, false, true)
		defer r.close()
		r.is("resources/subscribe", "u1", "{}")
		time.Sleep(time.Second)
		srv.mu.Lock()
		srv.silent = true
		srv.mu.Unlock()
		before, old := time.Now(), srv.last()
		late := r.subscribe("u2")
		time.Sleep(gatherTime)
		_, other := r.request("tools/list", "")
		r.answered(other, "{}")
		if d := time.Since(before); d != gatherTime {
			t.Errorf("another request took %s", d)
		}
		old.updated("u1")
		r.sees(updatedNotice("u1"))
		r.answered(late, "-32603 upstream_timeout")
		if d := time.Since(before); d != gatherTime+probeTime {
			t.Errorf("answered after %s", d)
		}
		old.updated("u1")
		r.sees(updatedNotice("u1"))
		if said := srv.said(); !strings.HasSuffix(said, fmt.Sprint("close ", srv.count())) {
			t.Errorf("the listen that was not acknowledged stays:\n%s", said)
		}
	})
}

// Concurrent subscriptions share one listen; each is answered.
func TestWatchGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: onlySubs}
		r := newWatchRig(t, srv, false, true)
		defer r.close()
		var all []chan string
		for i := range 4 {
			all = append(all, r.subscribe(fmt.Sprint("u", i)))
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		again := r.subscribe("u3")
		ex, left := r.request("resources/subscribe", `"uri":"u9"`)
		synctest.Wait()
		ex.Cancel(proxy.ErrCancelled)
		for _, done := range append(all, again) {
			r.answered(done, "{}")
		}
		r.answered(left, "-32603 cancelled")
		logIs(t, srv, `open 1 {"resourceSubscriptions":["u0","u1","u2","u3"]}`, "acknowledge 1")
	})
}

// A subscription that is cancelled before the acknowledgement does not take effect.
func TestWatchCancelledMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: onlySubs, silent: true}
		r := newWatchRig(t, srv, false, true)
		defer r.close()
		ex, done := r.request("resources/subscribe", `"uri":"u1"`)
		time.Sleep(gatherTime + time.Millisecond)
		ex.Cancel(proxy.ErrCancelled)
		r.answered(done, "-32603 cancelled")
		synctest.Wait()
		srv.last().send("notifications/subscriptions/acknowledged", `"notifications":{"resourceSubscriptions":["u1"]}`)
		logIs(t, srv, `open 1 {"resourceSubscriptions":["u1"]}`, "close 1")
		if n := r.u.Watches(); n != 0 {
			t.Errorf("%d watches", n)
		}
	})
}

// For list changes alone no listen is opened until the client has a stream.
func TestWatchWaitsForStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: allCaps}
		r := newWatchRig(t, srv, false, false)
		defer r.close()
		time.Sleep(time.Hour)
		if srv.count() != 0 {
			t.Error("a listen without a stream")
		}
		r.s.SetOutlet(r.out)
		logIs(t, srv, `open 1 {"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`, "acknowledge 1")
		r.s.ClearOutlet(r.out)
		for range 5 { // vector 50
			srv.last().send("notifications/tools/list_changed", "")
		}
		r.sees()
		r.s.SetOutlet(r.out)
		r.sees(taggedChange("tools"))
		if srv.count() != 1 {
			t.Error("another listen")
		}
	})
}

// A broken listen is reopened after a delay, and everything is reported as changed (vector 49).
func TestWatchComesBack(t *testing.T) {
	for name, process := range map[string]bool{"HTTP": false, "process": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &announcer{caps: someCaps}
				r := newWatchRig(t, srv, process, true)
				defer r.close()
				r.is("resources/subscribe", "u1", "{}")
				r.is("resources/subscribe", "u2", "{}")
				time.Sleep(time.Minute)
				r.out.take()
				n, before := srv.count(), time.Now()
				if process {
					srv.links[len(srv.links)-1].die()
				} else {
					srv.last().lose()
				}
				synctest.Wait()
				if r.u.Watches() != 0 || srv.count() != n {
					t.Error("there is a listen already")
				}
				r.is("resources/subscribe", "u2", "{}") // still holds
				for srv.count() == n && time.Since(before) < time.Minute {
					time.Sleep(10 * time.Millisecond)
				}
				if d := time.Since(before); d < backoffLeast || d > 2*backoffLeast {
					t.Errorf("opened again after %s", d)
				}
				r.sees(changedNotice("tools"), updatedNotice("u1"), updatedNotice("u2"))
				srv.last().updated("u1")
				r.sees(updatedNotice("u1"))
				if process && len(srv.links) != 2 {
					t.Errorf("%d processes", len(srv.links))
				}
			})
		})
	}
}

// A server that ends or refuses every listen at once is retried with backoff.
func TestWatchBacksOff(t *testing.T) {
	for name, srv := range map[string]*announcer{
		"ends": {caps: someCaps, then: `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete"}}`},
		"refuses": {caps: someCaps, meet: func(a *announced) {
			a.raw(`{"jsonrpc":"2.0","id":` + a.id + `,"error":{"code":-32601,"message":"no"}}`)
		}},
		"answers": {caps: someCaps, meet: func(a *announced) { a.raw(`{"jsonrpc":"2.0","id":` + a.id + `,"result":{"resultType":"complete"}}`) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newWatchRig(t, srv, false, true)
				defer r.close()
				time.Sleep(10 * time.Minute)
				if n := srv.count(); n < 12 || n > 22 {
					t.Errorf("%d listens in ten minutes", n)
				}
				want := map[string]string{"ends": "{}", "refuses": "-32601 method_not_found", "answers": "-32603 upstream_bad_answer"}
				r.is("resources/subscribe", "u1", want[name])
			})
		})
	}
}

// Notices stop as soon as the client unsubscribes. The filter shrinks with the next listen, and the listen ends when nothing is left.
func TestWatchUnsubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: onlySubs}
		r := newWatchRig(t, srv, false, true)
		defer r.close()
		for _, uri := range []string{"file:///a", "file:///b"} {
			r.is("resources/subscribe", uri, "{}")
			time.Sleep(time.Second)
		}
		r.is("resources/unsubscribe", "file:///b", "{}")
		r.is("resources/unsubscribe", "file:///never", "{}")
		l := srv.last()
		for _, uri := range []string{"file:///b", "file:///b/1", "file:///a/1", "file:///bb"} {
			l.updated(uri)
		}
		r.sees(updatedNotice("file:///a/1"), updatedNotice("file:///bb")) // the server knows best
		r.is("resources/subscribe", "file:///b", "{}")                    // the listen still has it
		if srv.count() != 2 {
			t.Errorf("%d listens", srv.count())
		}
		r.is("resources/unsubscribe", "file:///b", "{}")
		r.is("resources/subscribe", "file:///c", "{}")
		r.is("resources/unsubscribe", "file:///a", "{}")
		r.is("resources/unsubscribe", "file:///c", "{}")
		time.Sleep(time.Second)
		logIs(t, srv, `open 1 {"resourceSubscriptions":["file:///a"]}`, "acknowledge 1",
			`open 2 {"resourceSubscriptions":["file:///a","file:///b"]}`, "acknowledge 2", "close 1",
			`open 3 {"resourceSubscriptions":["file:///a","file:///c"]}`, "acknowledge 3", "close 2", "close 3")
		if r.u.Watches() != 0 {
			t.Error("a listen for nothing")
		}
		late := r.subscribe("u1") // taken back before it is answered
		synctest.Wait()
		r.is("resources/unsubscribe", "u1", "{}")
		r.answered(late, "{}")
		time.Sleep(time.Second)
		if r.u.Watches() != 0 {
			t.Error("a listen for what was taken back")
		}
	})
}

// Subscriptions that the server does not support, or without a URI, are refused here.
func TestWatchRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &announcer{caps: `{"tools":{"listChanged":true},"resources":{}}`}
		r := newWatchRig(t, srv, false, false)
		r.is("resources/subscribe", "u1", "-32601 method_not_found")
		r.is("resources/unsubscribe", "u1", "-32601 method_not_found")
		r.close()
		logIs(t, srv, "")

		srv = &announcer{caps: onlySubs}
		r = newWatchRig(t, srv, false, false)
		defer r.close()
		for _, params := range []string{"", `"uri":7`, `"uri":""`} {
			_, done := r.request("resources/subscribe", params)
			r.answered(done, "-32602 invalid_params")
		}
		var all []chan string
		for i := range maxSubscribed + 1 {
			all = append(all, r.subscribe(fmt.Sprint("u", i)))
		}
		refused := 0
		for _, done := range all {
			if got := <-done; got != "{}" {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d were refused", refused)
		}
		r.is("resources/subscribe", strings.Repeat("x", subscribedBytes), "-32602 invalid_params")
	})
}

// A session or an upstream may end at any time: nothing is left behind, and pending requests are answered.
func TestWatchEndsAnyTime(t *testing.T) {
	for name, process := range map[string]bool{"HTTP": false, "process": true} {
		for _, after := range []time.Duration{0, gatherTime / 2, gatherTime + time.Millisecond, probeTime, 3 * time.Second, 2 * time.Minute} {
			for _, whole := range []bool{false, true} {
				for _, silent := range []bool{false, true} {
					t.Run(fmt.Sprint(name, after, whole, silent), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							srv := &announcer{caps: someCaps}
							r := newWatchRig(t, srv, process, true)
							r.is("resources/subscribe", "u1", "{}")
							srv.mu.Lock()
							srv.silent = silent
							srv.mu.Unlock()
							done := r.subscribe("u2")
							time.Sleep(after)
							if whole {
								if err := r.u.Close(); err != nil {
									t.Error(err)
								}
							} else {
								r.s.End(proxy.Closed)
							}
							<-done
							synctest.Wait()
							if n := r.u.Watches(); n != 0 {
								t.Errorf("%d watches", n)
							}
							if !whole && r.u.bridges.Sessions() != 0 {
								t.Error("the session still has a watch")
							}
							r.close()
							ends := map[bool]string{false: "close", true: "cancelled"}[process]
							if said := srv.said(); !(process && whole) && strings.Count(said, "open") != strings.Count(said, ends) {
								t.Errorf("listens are left:\n%s", said)
							}
						})
					})
				}
			}
		}
	}
}
