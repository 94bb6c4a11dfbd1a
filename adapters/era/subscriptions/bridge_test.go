package subscriptions

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Over HTTP the next listen is acknowledged before the previous one is closed; the client sees neither (vectors 46 to 48).
func TestBridgeMakesBeforeItBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps}
		r := newBridgeRig(t, srv, false, false)
		defer r.close()
		r.requests("resources/subscribe", "u1", "{}")
		r.requests("resources/subscribe", "u2", "{}")
		r.requests("resources/subscribe", "u2", "{}") // is there already
		time.Sleep(time.Second)
		logIs(t, srv, `open 1 {"toolsListChanged":true,"resourceSubscriptions":["u1"]}`, "acknowledge 1",
			`open 2 {"toolsListChanged":true,"resourceSubscriptions":["u1","u2"]}`, "acknowledge 2", "close 1")
		r.s.SetOutlet(r.out)
		l := srv.last()
		l.updated("u1/sub")
		l.raw(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u2","_meta":{"io.modelcontextprotocol/subscriptionId":1,"x":1}}}`)
		l.send("notifications/tools/list_changed", "")
		l.send("notifications/prompts/list_changed", "") // was not serverListen
		l.send("notifications/message", `"level":"error","data":"no"`)
		l.send("notifications/progress", `"progressToken":1,"progress":1`)
		r.received(updatedNotice("u1/sub"), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u2","_meta":{"x":1}}}`, taggedChange("tools"))
		if n := r.u.bridges.Count(); n != 1 {
			t.Errorf("%d listens", n)
		}
	})
}

// When one listen replaces another no notice is lost, and what both deliver is delivered once.
func TestBridgeOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps}
		r := newBridgeRig(t, srv, false, true)
		defer r.close()
		r.requests("resources/subscribe", "u1", "{}")
		first := srv.last()
		r.requests("resources/subscribe", "u2", "{}")
		second := srv.last()
		first.updated("u1") // sent before the acknowledgement, read after it
		second.send("notifications/tools/list_changed", "")
		synctest.Wait()
		first.send("notifications/tools/list_changed", "")
		time.Sleep(time.Second)
		r.received(updatedNotice("u1"), taggedChange("tools"))
	})
}

// A resource that is missing in the acknowledgement is not subscribed to, and nothing else changes (vector 46).
func TestBridgeNotSubscribable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: onlySubs, ackAll: func(uri string) bool { return !strings.HasPrefix(uri, "no") }}
		r := newBridgeRig(t, srv, false, true)
		defer r.close()
		r.requests("resources/subscribe", "no1", "-32602 invalid_params")
		time.Sleep(time.Second)
		logIs(t, srv, `open 1 {"resourceSubscriptions":["no1"]}`, "acknowledge 1", "close 1") // of no use to anybody
		r.requests("resources/subscribe", "u1", "{}")
		r.requests("resources/subscribe", "no2", "-32602 invalid_params")
		time.Sleep(time.Second)
		logIs(t, srv, `open 1 {"resourceSubscriptions":["no1"]}`, "acknowledge 1", "close 1",
			`open 2 {"resourceSubscriptions":["u1"]}`, "acknowledge 2",
			`open 3 {"resourceSubscriptions":["u1","no2"]}`, "acknowledge 3", "close 3")
		srv.listens[1].updated("u1")
		r.received(updatedNotice("u1"))
		one, two := r.subscribe("no3"), r.subscribe("u2")
		r.answered(one, "-32602 invalid_params")
		r.answered(two, "{}")
	})
}

// The wait for an acknowledgement is bounded, and affects neither other sessions nor the current listen.
func TestBridgeAcknowledgementDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps}
		r := newBridgeRig(t, srv, false, true)
		defer r.close()
		r.requests("resources/subscribe", "u1", "{}")
		time.Sleep(time.Second)
		srv.mu.Lock()
		srv.silent = true
		srv.mu.Unlock()
		before, old := time.Now(), srv.last()
		late := r.subscribe("u2")
		time.Sleep(gatherTime)
		_, other := r.request("tools/list", "")
		r.answered(other, `{"resultType":"complete"}`)
		if d := time.Since(before); d != gatherTime {
			t.Errorf("another request took %s", d)
		}
		old.updated("u1")
		r.received(updatedNotice("u1"))
		r.answered(late, "-32603 upstream_timeout")
		if d := time.Since(before); d != gatherTime+acknowledgeTime {
			t.Errorf("answered after %s", d)
		}
		old.updated("u1")
		r.received(updatedNotice("u1"))
		if said := srv.events(); !strings.HasSuffix(said, fmt.Sprint("close ", srv.count())) {
			t.Errorf("the listen that was not acknowledged stays:\n%s", said)
		}
	})
}

// Concurrent subscriptions share one listen; each is answered.
func TestBridgeGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: onlySubs}
		r := newBridgeRig(t, srv, false, true)
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
func TestBridgeCancelledMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: onlySubs, silent: true}
		r := newBridgeRig(t, srv, false, true)
		defer r.close()
		ex, done := r.request("resources/subscribe", `"uri":"u1"`)
		time.Sleep(gatherTime + time.Millisecond)
		ex.Cancel(proxy.ErrCancelled)
		r.answered(done, "-32603 cancelled")
		synctest.Wait()
		srv.last().send("notifications/subscriptions/acknowledged", `"notifications":{"resourceSubscriptions":["u1"]}`)
		logIs(t, srv, `open 1 {"resourceSubscriptions":["u1"]}`, "close 1")
		if n := r.u.bridges.Count(); n != 0 {
			t.Errorf("%d listens", n)
		}
	})
}

// For list changes alone no listen is opened until the client has a stream.
func TestBridgeWaitsForStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: allCaps}
		r := newBridgeRig(t, srv, false, false)
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
		r.received()
		r.s.SetOutlet(r.out)
		r.received(taggedChange("tools"))
		if srv.count() != 1 {
			t.Error("another listen")
		}
	})
}

// A broken listen is reopened after a delay, and everything is reported as changed (vector 49).
func TestBridgeComesBack(t *testing.T) {
	for name, process := range map[string]bool{"HTTP": false, "process": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &modernServer{caps: someCaps}
				r := newBridgeRig(t, srv, process, true)
				defer r.close()
				r.requests("resources/subscribe", "u1", "{}")
				r.requests("resources/subscribe", "u2", "{}")
				time.Sleep(time.Minute)
				r.out.Take()
				n, before := srv.count(), time.Now()
				if process {
					srv.links[len(srv.links)-1].die()
				} else {
					srv.last().lose()
				}
				synctest.Wait()
				if r.u.bridges.Count() != 0 || srv.count() != n {
					t.Error("there is a listen already")
				}
				r.requests("resources/subscribe", "u2", "{}") // still holds
				for srv.count() == n && time.Since(before) < time.Minute {
					time.Sleep(10 * time.Millisecond)
				}
				if d := time.Since(before); d < backoffMin || d > 2*backoffMin {
					t.Errorf("opened again after %s", d)
				}
				r.received(changedNotice("tools"), updatedNotice("u1"), updatedNotice("u2"))
				srv.last().updated("u1")
				r.received(updatedNotice("u1"))
				if process && len(srv.links) != 2 {
					t.Errorf("%d processes", len(srv.links))
				}
			})
		})
	}
}

// A server that ends or refuses every listen at once is retried with backoff.
func TestBridgeBacksOff(t *testing.T) {
	for name, srv := range map[string]*modernServer{
		"ends": {caps: someCaps, then: `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete"}}`},
		"refuses": {caps: someCaps, onListen: func(a *serverListen) {
			a.raw(`{"jsonrpc":"2.0","id":` + a.id + `,"error":{"code":-32601,"message":"no"}}`)
		}},
		"answers": {caps: someCaps, onListen: func(a *serverListen) { a.raw(`{"jsonrpc":"2.0","id":` + a.id + `,"result":{"resultType":"complete"}}`) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newBridgeRig(t, srv, false, true)
				defer r.close()
				time.Sleep(10 * time.Minute)
				if n := srv.count(); n < 12 || n > 22 {
					t.Errorf("%d listens in ten minutes", n)
				}
				want := map[string]string{"ends": "{}", "refuses": "-32601 method_not_found", "answers": "-32603 upstream_bad_answer"}
				r.requests("resources/subscribe", "u1", want[name])
			})
		})
	}
}

// Notices stop as soon as the client unsubscribes. The filter shrinks with the next listen, and the listen ends when nothing is left.
func TestBridgeUnsubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: onlySubs}
		r := newBridgeRig(t, srv, false, true)
		defer r.close()
		for _, uri := range []string{"file:///a", "file:///b"} {
			r.requests("resources/subscribe", uri, "{}")
			time.Sleep(time.Second)
		}
		r.requests("resources/unsubscribe", "file:///b", "{}")
		r.requests("resources/unsubscribe", "file:///never", "{}")
		l := srv.last()
		for _, uri := range []string{"file:///b", "file:///b/1", "file:///a/1", "file:///bb"} {
			l.updated(uri)
		}
		r.received(updatedNotice("file:///a/1"), updatedNotice("file:///bb")) // the server knows best
		r.requests("resources/subscribe", "file:///b", "{}")                  // the listen still has it
		if srv.count() != 2 {
			t.Errorf("%d listens", srv.count())
		}
		r.requests("resources/unsubscribe", "file:///b", "{}")
		r.requests("resources/subscribe", "file:///c", "{}")
		r.requests("resources/unsubscribe", "file:///a", "{}")
		r.requests("resources/unsubscribe", "file:///c", "{}")
		time.Sleep(time.Second)
		logIs(t, srv, `open 1 {"resourceSubscriptions":["file:///a"]}`, "acknowledge 1",
			`open 2 {"resourceSubscriptions":["file:///a","file:///b"]}`, "acknowledge 2", "close 1",
			`open 3 {"resourceSubscriptions":["file:///a","file:///c"]}`, "acknowledge 3", "close 2", "close 3")
		if r.u.bridges.Count() != 0 {
			t.Error("a listen for nothing")
		}
		late := r.subscribe("u1") // taken back before it is answered
		synctest.Wait()
		r.requests("resources/unsubscribe", "u1", "{}")
		r.answered(late, "{}")
		time.Sleep(time.Second)
		if r.u.bridges.Count() != 0 {
			t.Error("a listen for what was taken back")
		}
	})
}

// Subscriptions that the server does not support, or without a URI, are refused here.
func TestBridgeRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: `{"tools":{"listChanged":true},"resources":{}}`}
		r := newBridgeRig(t, srv, false, false)
		r.requests("resources/subscribe", "u1", "-32601 method_not_found")
		r.requests("resources/unsubscribe", "u1", "-32601 method_not_found")
		r.close()
		logIs(t, srv, "")

		srv = &modernServer{caps: onlySubs}
		r = newBridgeRig(t, srv, false, false)
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
		r.requests("resources/subscribe", strings.Repeat("x", subscribedBytes), "-32602 invalid_params")
	})
}

// A session or an upstream may end at any time: nothing is left behind, and pending requests are answered.
func TestBridgeEndsAnyTime(t *testing.T) {
	for name, process := range map[string]bool{"HTTP": false, "process": true} {
		for _, after := range []time.Duration{0, gatherTime / 2, gatherTime + time.Millisecond, acknowledgeTime, 3 * time.Second, 2 * time.Minute} {
			for _, whole := range []bool{false, true} {
				for _, silent := range []bool{false, true} {
					t.Run(fmt.Sprint(name, after, whole, silent), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							srv := &modernServer{caps: someCaps}
							r := newBridgeRig(t, srv, process, true)
							r.requests("resources/subscribe", "u1", "{}")
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
							if n := r.u.bridges.Count(); n != 0 {
								t.Errorf("%d listens", n)
							}
							if !whole && r.u.bridges.sessions() != 0 {
								t.Error("the session still has a bridge")
							}
							r.close()
							ends := map[bool]string{false: "close", true: "cancelled"}[process]
							if said := srv.events(); !(process && whole) && strings.Count(said, "open") != strings.Count(said, ends) {
								t.Errorf("listens are left:\n%s", said)
							}
						})
					})
				}
			}
		}
	}
}

// Every notice of a listen is reported, whether a session receives it or not.
func TestBridgeReportsNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps}
		r := newBridgeRig(t, srv, false, false)
		defer r.close()
		var got []string
		r.u.bridges.opt.Changed = func(m *wire.Message) { got = append(got, string(m.Text(m.Method))) }
		r.requests("resources/subscribe", "u1", "{}")
		srv.last().send("notifications/prompts/list_changed", "")
		srv.last().updated("u1")
		synctest.Wait()
		if want := "notifications/subscriptions/acknowledged notifications/prompts/list_changed notifications/resources/updated"; strings.Join(got, " ") != want {
			t.Errorf("reported %q", got)
		}
	})
}

// A listen has an id of its own, the session's client and caller, and the forwarded headers of the session's last request.
func TestBridgeListensForItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps}
		r := newBridgeRig(t, srv, false, false)
		defer r.close()
		r.requests("resources/subscribe", "u1", "{}")
		first := srv.last().ex
		ex, done := r.request("resources/subscribe", `"uri":"u1"`)
		r.answered(done, "{}")
		ex.Caller.Forwarded = new(proxy.Forwarded)
		r.u.bridges.Refresh(ex)
		r.u.bridges.Refresh(&proxy.Exchange{Session: r.s}) // has none: those before stay
		r.u.bridges.Refresh(&proxy.Exchange{Session: new(proxy.Session), Caller: ex.Caller})
		r.requests("resources/subscribe", "u2", "{}")
		second := srv.last().ex
		if first.Caller.Forwarded != nil || second.Caller.Forwarded != ex.Caller.Forwarded {
			t.Error("the headers are not those of the last request")
		}
		if first.Caller.Principal != "p" || first.Session != r.s || string(first.Msg.Of(first.Msg.Caps)) != `{"elicitation":{}}` || string(first.Msg.Of(first.Msg.Info)) != `{"name":"c","version":"1"}` {
			t.Errorf("%s for %q", first.Msg.Raw, first.Caller.Principal)
		}
		if string(first.Msg.Of(first.Msg.ID)) == string(second.Msg.Of(second.Msg.ID)) {
			t.Errorf("both listens are %s", first.Msg.Of(first.Msg.ID))
		}
	})
}

// A client may repeat its handshake: its session has one bridge.
func TestBridgeOfRepeatedHandshake(t *testing.T) {
	for _, process := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := &modernServer{caps: someCaps}
			r := newBridgeRig(t, srv, process, true)
			r.requests("resources/subscribe", "u1", "{}")
			r.initialize()
			time.Sleep(2 * backoffMin)
			r.out.Take()
			srv.last().updated("u1") // its subscriptions are those since the handshake
			srv.last().send("notifications/tools/list_changed", "")
			r.received(taggedChange("tools"))
			if n, listens := r.u.bridges.sessions(), r.u.bridges.Count(); n != 1 || listens != 1 {
				t.Errorf("%d bridges, %d listens", n, listens)
			}
			r.close()
			if n := r.u.bridges.sessions(); n != 0 {
				t.Errorf("%d bridges left", n)
			}
		})
	}
}

// A stream that is opened after the handshake stands for notifications/initialized; one that is opened before waits for it.
func TestBridgeReadyWithStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps}
		r := newBridgeRig(t, srv, false, false)
		defer r.close()
		for _, early := range []bool{false, true} {
			b := r.secondClient()
			b.s = proxy.NewSession("t", "streamable-http", "", proxy.Caller{Principal: "q"}, time.Now())
			if early {
				b.s.SetOutlet(b.out)
			}
			b.initialize()
			time.Sleep(time.Second)
			n := srv.count()
			if !early {
				b.s.SetOutlet(b.out)
			} else if _, err := b.u.Do(&proxy.Exchange{Msg: *fakeserver.Scan(t, rules.Initialized), Session: b.s, Client: b.s.Client()}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if srv.count() != n+1 {
				t.Errorf("early %v: %d listens, %d before", early, srv.count(), n)
			}
			b.s.End(proxy.Closed)
		}
	})
}

// A listen that has been replaced leaves nothing in the next: a subscription that was taken back is in no later filter.
func TestBridgeForgetsSettledSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: onlySubs}
		r := newBridgeRig(t, srv, false, true)
		defer r.close()
		r.requests("resources/subscribe", "u1", "{}")
		r.requests("resources/subscribe", "u2", "{}")
		r.requests("resources/unsubscribe", "u1", "{}")
		r.requests("resources/subscribe", "u3", "{}")
		time.Sleep(time.Second)
		logIs(t, srv, `open 1 {"resourceSubscriptions":["u1"]}`, "acknowledge 1", `open 2 {"resourceSubscriptions":["u1","u2"]}`, "acknowledge 2", "close 1",
			`open 3 {"resourceSubscriptions":["u2","u3"]}`, "acknowledge 3", "close 2")
		srv.last().updated("u1") // not related to anything that is in the filter
		r.received(updatedNotice("u1"))
	})
}

// Bounds and pauses are what the documentation says.
func TestBridgeBounds(t *testing.T) {
	if maxSubscribed != 1024 || subscribedBytes != 1<<20 || listenedBytes != 8<<20 || lateNotices != 1024 || maxPages != 100 {
		t.Error("bounds have changed: adapt docs/limits.md and docs/design/concurrency.md")
	}
	w := &bridge{}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 40, 40, 40, 40, 40, 40, 40} {
		before := time.Now()
		w.backOff(time.Time{})
		if d := w.retryAt.Sub(before); d < want*time.Second || d > want*time.Second*3/2+time.Second {
			t.Errorf("pause %d is %s", i, d)
		}
	}
	w.backOff(time.Now().Add(-steadyTime / 2))
	if w.failures != 14 {
		t.Errorf("a short listen resets the pauses: %d", w.failures)
	}
	w.backOff(time.Now().Add(-steadyTime))
	if w.failures != 1 {
		t.Errorf("a listen that lasted does not reset the pauses: %d", w.failures)
	}
}

// A listen that could not be opened leaves a gap only if there was none: the first one that is opened reports everything as changed.
func TestBridgeGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: someCaps}
		srv.onListen = func(l *serverListen) {
			l.raw(`{"jsonrpc":"2.0","id":` + l.id + `,"error":{"code":-32603,"message":"not now"}}`)
		}
		r := newBridgeRig(t, srv, false, true)
		defer r.close()
		srv.mu.Lock()
		srv.onListen = nil
		srv.mu.Unlock()
		time.Sleep(2 * backoffMin)
		r.received(changedNotice("tools"))
		srv.mu.Lock()
		srv.silent = true
		srv.mu.Unlock()
		r.requests("resources/subscribe", "u1", "-32603 upstream_timeout") // the listen for the lists stays
		srv.mu.Lock()
		srv.silent = false
		srv.mu.Unlock()
		r.requests("resources/subscribe", "u2", "{}")
		r.received()
		l := srv.last()
		l.acknowledge() // again: the first one counts
		l.updated("u2")
		r.received(updatedNotice("u2"))
	})
}

// Of a session's waiting subscriptions only the one that is taken back does not take effect. Those that arrive when the upstream has
// been closed are answered.
func TestBridgeTakesBackOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &modernServer{caps: onlySubs}
		r := newBridgeRig(t, srv, false, true)
		one, two := r.subscribe("u1"), r.subscribe("u2")
		synctest.Wait()
		r.requests("resources/unsubscribe", "u1", "{}")
		r.answered(one, "{}")
		r.answered(two, "{}")
		srv.last().updated("u1")
		srv.last().updated("u2")
		r.received(updatedNotice("u2"))
		r.requests("resources/unsubscribe", "u2", "{}")
		synctest.Wait()
		r.u.group.Close()
		r.requests("resources/subscribe", "u3", "-32603 shutting_down")
		r.close()
	})
}
