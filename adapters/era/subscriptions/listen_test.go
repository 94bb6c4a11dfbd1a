package subscriptions

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/rules"
	"dragoman/proxy"
)

const ackAll = `ack {"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["u"]}`

// The acknowledgement names the part of the filter that the server can deliver. With nothing to deliver the listen ends at once.
func TestListenAcknowledgesWhatIsDelivered(t *testing.T) {
	const all = `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["u","u"]`
	for _, c := range []struct {
		caps, filter, ack string
		quiet, refused    bool
	}{
		{allCaps, all, ackAll, false, false},
		{allCaps, `"toolsListChanged":false,"promptsListChanged":1,"resourcesListChanged":true,"resourceSubscriptions":[]`, `ack {"resourcesListChanged":true}`, false, false},
		{someCaps, all, `ack {"toolsListChanged":true,"resourceSubscriptions":["u"]}`, false, false},
		{`{"prompts":{"listChanged":true},"resources":{}}`, all, `ack {"promptsListChanged":true}`, false, false},
		{allCaps, `"resourceSubscriptions":["u"]`, `ack {}`, false, true},
		{allCaps, all, `ack {}`, true, false},
		{`{"tools":{}}`, all, `ack {}`, false, false},
		{allCaps, ``, `ack {}`, false, false},
	} {
		listening(t, c.caps, 0, func(t *testing.T, r *listenRig) {
			r.s.set(func() { r.s.quiet, r.s.refuses["u"] = c.quiet, c.refused })
			l := r.listen(`"x"`, c.filter)
			if c.ack != "ack {}" {
				l.received(c.ack)
				l.close()
				return
			}
			if got, err := l.next(); err != io.EOF || strings.Join(got, ", ") != `ack {}, result "x"` {
				t.Errorf("%s at %s: %q, %v", c.filter, c.caps, got, err)
			}
			l.close()
		})
	}
}

// An invalid filter is refused before anything is sent to the server; a list of maxSubscribed resources is valid.
func TestListenRefusesFilter(t *testing.T) {
	uris := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"u%d"`, i)
		}
		return `{"notifications":{"resourceSubscriptions":[` + strings.Join(all, ",") + `]}}`
	}
	listening(t, someCaps, 0, func(t *testing.T, r *listenRig) {
		for _, params := range []string{`{}`, `{"notifications":1}`, `{"notifications":{"resourceSubscriptions":["u",1]}}`, uris(maxSubscribed + 1)} {
			replies, err := r.listens.Listen(r.exchange("1", "subscriptions/listen", params))
			if replies != nil || err == nil || proxy.AsError(err).Code != proxy.CodeInvalidParams {
				t.Errorf("%.60s: %v", params, err)
			}
		}
		if n := len(r.s.dialled()); n != 1 {
			t.Errorf("%d sessions were opened", n-1)
		}
		ex := r.exchange("1", "subscriptions/listen", uris(maxSubscribed))
		replies, err := r.listens.Listen(ex)
		if err != nil {
			t.Fatal(err)
		}
		_ = replies.Close()
	})
}

// Each listen receives the notices that match its filter, under its own tag. Notices that arrive while the session is being set up wait
// for the acknowledgement; those of a resource that the server then refuses are dropped.
func TestListenDelivers(t *testing.T) {
	listening(t, allCaps, 0, func(t *testing.T, r *listenRig) {
		r.s.set(func() { r.s.refuses["no"] = true })
		l := r.listen("7", `"toolsListChanged":true,"resourceSubscriptions":["u","no"]`)
		l.received(`ack {"toolsListChanged":true,"resourceSubscriptions":["u"]}`)
		if got := r.s.events(); got != "1 subscribe u; 1 subscribe no" {
			t.Error(got)
		}
		server := r.s.link(1)
		server.says(t, changedNotice("tools"))
		server.says(t, changedNotice("prompts"))
		server.says(t, updatedNotice("u"))
		server.says(t, updatedNotice("u/below"))
		server.says(t, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u2","_meta":{"x":1}}}`) // no listen names it
		l.received("notifications/tools/list_changed", "updated u", "updated u/below", "updated u2")
		m := r.listen("8", `"resourceSubscriptions":["u2"]`)
		m.received(`ack {"resourceSubscriptions":["u2"]}`)
		server.says(t, updatedNotice("u2"))
		server.says(t, changedNotice("tools"))
		l.received("notifications/tools/list_changed")
		m.received("updated u2")
		n := r.listen("9", `"promptsListChanged":true`)
		n.received(`ack {"promptsListChanged":true}`)
		server.says(t, updatedNotice("odd"))
		n.received()
		l.received("updated odd")
		m.received("updated odd")
		for _, x := range []*modernListen{l, m, n} {
			x.close()
		}
		if got := r.s.events(); got != "1 subscribe u2; 1 unsubscribe u; 1 unsubscribe u2" && got != "1 subscribe u2; 1 unsubscribe u2; 1 unsubscribe u" {
			t.Error(got)
		}
	})
	listening(t, allCaps, 0, func(t *testing.T, r *listenRig) {
		hold := make(chan struct{})
		r.s.set(func() { r.s.holds, r.s.refuses["no"] = hold, true })
		done := make(chan *modernListen)
		go func() { done <- r.listen("7", `"toolsListChanged":true,"resourceSubscriptions":["u","no"]`) }()
		synctest.Wait()
		r.s.link(1).says(t, updatedNotice("no"))
		r.s.link(1).says(t, changedNotice("tools"))
		r.s.link(1).says(t, changedNotice("prompts"))
		close(hold)
		l := <-done
		l.received(`ack {"toolsListChanged":true,"resourceSubscriptions":["u"]}`, "notifications/tools/list_changed")
		l.close()
	})
}

// A notice of another session of the client is delivered once, whichever session receives it first.
func TestListenDeduplicates(t *testing.T) {
	listening(t, allCaps, 0, func(t *testing.T, r *listenRig) {
		l := r.listen("7", `"toolsListChanged":true,"promptsListChanged":true`)
		l.received(`ack {"toolsListChanged":true,"promptsListChanged":true}`)
		own := r.s.link(1)
		_ = r.session() // takes the listen's session
		other := r.session()
		if other == own {
			t.Fatal("there is no second session")
		}
		const tools, prompts = "notifications/tools/list_changed", "notifications/prompts/list_changed"
		own.says(t, changedNotice("tools"))
		time.Sleep(dedupTime - 1)
		other.says(t, changedNotice("tools"))
		time.Sleep(time.Second)
		l.received(tools)
		other.says(t, changedNotice("tools"))
		l.received()
		time.Sleep(dedupTime - 1)
		own.says(t, changedNotice("tools"))
		l.received(tools)
		time.Sleep(time.Second)
		l.received()
		other.says(t, changedNotice("tools"))
		other.says(t, changedNotice("tools"))
		time.Sleep(time.Millisecond)
		other.says(t, changedNotice("prompts"))
		time.Sleep(dedupTime - 2*time.Millisecond)
		l.received()
		time.Sleep(2 * time.Millisecond)
		l.received(tools, prompts)
		own.says(t, changedNotice("tools"))
		l.received(tools)
		own.says(t, changedNotice("tools"))
		l.received(tools) // the server sends it twice
		time.Sleep(dedupTime)
		other.says(t, changedNotice("tools")) // later: another change
		time.Sleep(dedupTime)
		l.received(tools)
		other.says(t, changedNotice("tools"))
		time.Sleep(dedupTime)
		l.received(tools)
		// what is held is dropped with the listen
		other.says(t, changedNotice("tools"))
		l.close()
		time.Sleep(time.Second)
	})
}

// The records for that are bounded. When they are cleared, held notices are delivered at once.
func TestListenDeduplicationIsBounded(t *testing.T) {
	listening(t, allCaps, 0, func(t *testing.T, r *listenRig) {
		l := r.listen("7", `"toolsListChanged":true,"resourceSubscriptions":["u"]`)
		own := r.s.link(1)
		_ = r.session()
		other := r.session()
		for i := range 4 * maxNotices {
			own.says(t, updatedNotice(fmt.Sprint("u/", i)))
		}
		other.says(t, changedNotice("tools"))
		own.says(t, updatedNotice("u/x"))
		got, _ := l.next()
		if n := len(got); n < 3 || got[n-2] != "notifications/tools/list_changed" || got[n-1] != "updated u/x" {
			t.Errorf("received last %q", got[max(len(got)-3, 0):])
		}
		l.close()
	})
}

// For a client that does not read, equal notices count once and the oldest are dropped beyond the bounds.
func TestListenQueueIsBounded(t *testing.T) {
	listening(t, allCaps, 0, func(t *testing.T, r *listenRig) {
		l := r.listen("7", `"toolsListChanged":true,"resourceSubscriptions":["u"]`)
		server := r.s.link(1)
		for range 3 {
			server.says(t, changedNotice("tools"))
		}
		l.received(`ack {"toolsListChanged":true,"resourceSubscriptions":["u"]}`, "notifications/tools/list_changed")
		for i := range maxNotices + 2 {
			server.says(t, updatedNotice(fmt.Sprint("u/", i)))
		}
		got, _ := l.next()
		if len(got) != maxNotices || got[0] != "updated u/2" || got[maxNotices-1] != fmt.Sprint("updated u/", maxNotices+1) {
			t.Errorf("%d notices, from %s to %s", len(got), got[0], got[len(got)-1])
		}
		const tagged = len(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"","_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`)
		half := strings.Repeat("x", noticeBytes/2-tagged-len("u/0"))
		server.says(t, updatedNotice("u/0"+half))
		server.says(t, updatedNotice("u/1"+half))
		if got, _ = l.next(); len(got) != 2 { // noticeBytes to the byte
			t.Errorf("%d notices of half the bound", len(got))
		}
		for i := range 9 {
			server.says(t, updatedNotice(fmt.Sprint("u/", i, strings.Repeat("x", 1<<20))))
		}
		if got, _ = l.next(); len(got) != 7 || !strings.HasPrefix(got[0], "updated u/2") {
			t.Errorf("%d heavy notices", len(got))
		}
		l.close()
	})
}

// When the session is lost, another takes its place: the client receives notices that everything has changed, and no second
// acknowledgement. The first attempt is made at once, further ones with growing pauses until a session lasts.
func TestListenReopens(t *testing.T) {
	listening(t, allCaps, 0, func(t *testing.T, r *listenRig) {
		l := r.listen("7", `"toolsListChanged":true,"resourceSubscriptions":["u"]`)
		l.received(`ack {"toolsListChanged":true,"resourceSubscriptions":["u"]}`)
		lost := r.pool.Sessions()[0]
		r.s.link(1).die()
		l.received("notifications/tools/list_changed", "updated u")
		if uses, _, _ := lost.Usage(); uses != 0 {
			t.Errorf("the lost session has %d uses", uses)
		}
		if got := r.s.events(); got != "1 subscribe u; 2 subscribe u" {
			t.Error(got)
		}
		r.s.link(2).says(t, changedNotice("tools"))
		l.received("notifications/tools/list_changed")
		time.Sleep(steadyTime)
		time.AfterFunc(time.Second, r.s.link(2).die) // while the client waits
		if m, err := l.replies.Next(time.Now().Add(time.Minute)); err != nil || short(m, "7") != "notifications/tools/list_changed" {
			t.Errorf("%v, %v", m, err)
		}
		l.received("updated u")
		time.Sleep(steadyTime)
		r.s.set(func() { r.s.down, r.s.dials = true, nil })
		r.s.link(3).die()
		time.Sleep(5 * time.Minute)
		at := r.s.dialled()
		for i, least := range []time.Duration{0, backoffMin, 2 * backoffMin, 4 * backoffMin, 8 * backoffMin, 16 * backoffMin, 32 * backoffMin, backoffMax} {
			if i == 0 {
				continue
			}
			if d := at[i].Sub(at[i-1]); d < least || d > least+least/2 {
				t.Errorf("attempt %d after %s", i, d)
			}
		}
		r.s.set(func() { r.s.down = false })
		time.Sleep(2 * backoffMax)
		l.received("notifications/tools/list_changed", "updated u")
		l.close()
		n := len(r.s.dialled())
		time.Sleep(5 * time.Minute)
		if len(r.s.dialled()) != n {
			t.Error("a listen that was closed is reopened")
		}
	})
	listening(t, allCaps, 0, func(t *testing.T, r *listenRig) { // a session that is forgotten is noticed while subscribing
		r.s.set(func() { r.s.forgets = true })
		if _, err := r.listens.Listen(r.exchange("1", "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["u"]}}`)); err == nil {
			t.Error("the listen began in a session that is unknown")
		}
		if got := r.s.events(); got != "1 subscribe u; 2 subscribe u" {
			t.Error(got)
		}
	})
}

// A client may leave while no session is there, and the upstream may close: nothing is left.
func TestListenEnds(t *testing.T) {
	listening(t, allCaps, 0, func(t *testing.T, r *listenRig) {
		l := r.listen("7", `"toolsListChanged":true`)
		l.received(`ack {"toolsListChanged":true}`)
		r.s.set(func() { r.s.down = true })
		r.s.link(1).die()
		time.Sleep(time.Minute)
		time.AfterFunc(time.Second, func() { l.ex.Cancel(proxy.ErrCancelled) })
		if _, err := l.replies.Next(time.Time{}); err != proxy.ErrCancelled { // a client that waits is released
			t.Errorf("%v", err)
		}
		if n := r.pool.Listens(); n != 0 {
			t.Errorf("%d listens", n)
		}
		l.close()
		r.s.set(func() { r.s.down = false })
		l = r.listen("8", `"toolsListChanged":true`)
		l.received(`ack {"toolsListChanged":true}`)
		r.s.set(func() { r.s.down = true })
		r.s.link(2).die()
		synctest.Wait()
		r.group.Close()
		r.group.Cancel()
		l.ended(proxy.ShuttingDown.Name)
		l.close()
	})
	listening(t, allCaps, 0, func(t *testing.T, r *listenRig) {
		l := r.listen("7", `"toolsListChanged":true,"resourceSubscriptions":["u"]`)
		l.ex.Cancel(proxy.ErrCancelled)
		if got := r.s.events(); got != "1 subscribe u; 1 unsubscribe u" {
			t.Error(got)
		}
		if uses, _, _ := r.pool.Sessions()[0].Usage(); uses != 0 {
			t.Errorf("the session has %d uses", uses)
		}
		l.close()
		r.group.Close() // no session can be reopened any more
		l = r.listen("8", `"toolsListChanged":true`)
		l.received(`ack {"toolsListChanged":true}`)
		r.s.link(1).die()
		l.ended(proxy.ShuttingDown.Name)
		l.close()
	})
}

// A server without a stream for notices is polled: what differs makes a notice; what cannot be read, or differs in _meta and ttlMs
// alone, does not.
func TestListenPolls(t *testing.T) {
	const interval = 30 * time.Second
	listening(t, allCaps, interval, func(t *testing.T, r *listenRig) {
		content := func(key, result string) { r.s.set(func() { r.s.content[key] = result }) }
		r.s.set(func() { r.s.quiet, r.s.refuses["u"] = true, true })
		content("tools/list", `{"tools":[1],"nextCursor":"2"}`)
		content("tools/list 2", `{"tools":[2]}`)
		content("resources/read u", `{"contents":[]}`)
		l := r.listen("7", `"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["u"]`)
		l.received(`ack {"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["u"]}`)
		step := func(want ...string) {
			t.Helper()
			time.Sleep(interval)
			l.received(want...)
		}
		step()
		content("tools/list 2", `{"tools":[3]}`)
		content("prompts/list", `{"prompts":[]}`) // could not be read before
		step("notifications/tools/list_changed")
		content("prompts/list", `{"prompts":[1]}`)
		content("resources/read u", `{"contents":[],"_meta":{"a":1},"ttlMs":5}`)
		step("notifications/prompts/list_changed")
		content("resources/read u", `{"contents":[1]}`)
		if m, err := l.replies.Next(time.Time{}); err != nil || short(m, "7") != "updated u" { // a client that waits receives it at once
			t.Errorf("%v, %v", m, err)
		}
		r.s.set(func() { delete(r.s.content, "resources/read u") })
		step()
		content("resources/read u", `{"contents":[1]}`)
		step()
		content("tools/list", `{"tools":[1],"nextCursor":"1"}`)
		content("tools/list 1", `{"tools":[],"nextCursor":"1"}`) // the same cursor: it ends there
		step("notifications/tools/list_changed")
		r.s.set(func() {
			for i := range maxPages + 1 {
				r.s.content[fmt.Sprint("tools/list ", i)] = fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, i+1)
			}
		})
		r.s.set(func() { r.s.reads = 0 })
		step() // more pages than are read
		if r.s.readCount() != maxPages+2 {
			t.Errorf("%d requests", r.s.readCount())
		}
		if got := r.s.events(); got != "" {
			t.Errorf("a server that sends no notices received %s", got)
		}
		l.close()
		n := r.s.readCount()
		time.Sleep(5 * interval)
		if r.s.readCount() != n {
			t.Error("a listen that was closed polls")
		}
	})
}

// A server that refuses its stream only after a listen was opened is polled from then on; one that opens it is not.
func TestListenPollsAfterALateRefusal(t *testing.T) {
	const interval = 30 * time.Second
	for _, refuses := range []bool{true, false} {
		listening(t, allCaps, interval, func(t *testing.T, r *listenRig) {
			known := make(chan struct{})
			r.s.set(func() {
				r.s.quietly = known
				r.s.content["tools/list"] = `{"tools":[1]}`
			})
			l := r.listen("7", `"toolsListChanged":true,"resourceSubscriptions":["u"]`)
			l.received(`ack {"toolsListChanged":true,"resourceSubscriptions":["u"]}`)
			before := r.s.readCount() // the probe's
			time.Sleep(2 * interval)
			if n := r.s.readCount() - before; n != 0 {
				t.Errorf("%d requests before anything was known", n)
			}
			r.s.set(func() { r.s.quiet = refuses })
			close(known)
			time.Sleep(interval)
			r.s.set(func() { r.s.content["tools/list"] = `{"tools":[2]}` })
			time.Sleep(2 * interval)
			if refuses {
				l.received("notifications/tools/list_changed")
			} else if n := r.s.readCount() - before; n != 0 {
				t.Errorf("%d requests to a server that has a stream", n)
			}
			l.close()
		})
	}
}

// A poll request names the list, or the resource, that a notice is about.
func TestPollRequest(t *testing.T) {
	for key, want := range map[string]string{rules.ListChanged("tools"): "tools/list", rules.ListChanged("prompts"): "prompts/list", rules.ListChanged("resources"): "resources/list",
		rules.NoticeKey(fakeserver.Scan(t, updatedNotice("u"))): `resources/read "u"`} {
		method, params := pollRequest(key)
		if len(params) > 0 {
			method += " " + string(params[0].Value)
		}
		if method != want {
			t.Errorf("%s: %s, want %s", key, method, want)
		}
	}
}
