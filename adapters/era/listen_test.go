package era

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/rules"
)

// The acknowledgement names the part of the filter that the server can deliver, under the id as it was written (vectors 74, 75). With
// nothing to deliver the listen ends at once.
func TestListenAcknowledges(t *testing.T) {
	const everything = `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///a","u\"2"]`
	for _, c := range []struct{ caps, id, filter, honoured string }{
		{allCaps, `"L"`, everything, everything},
		{allCaps, `1`, `"resourcesListChanged":true,"toolsListChanged":true`, `"toolsListChanged":true,"resourcesListChanged":true`},
		{someCaps, `"1"`, everything, `"toolsListChanged":true,"resourceSubscriptions":["file:///a","u\"2"]`},
		{someCaps, `-0`, `"toolsListChanged":false,"promptsListChanged":true`, ``},
		{allCaps, `7`, ``, ``},
		{allCaps, `7`, `"resourceSubscriptions":[]`, ``},
		{allCaps, `7`, `"toolsListChanged":"true","unknown":[1]`, ``},
		{`{"tools":{},"resources":{"listChanged":true}}`, `7`, everything, `"resourcesListChanged":true`},
		{`{}`, `7`, everything, ``},
	} {
		bothWires(t, c.caps, func(_ *testing.T, r *serverRig) {
			e := r.listen(client{}, c.id, c.filter)
			if c.honoured == "" {
				e.received(ackOf(c.id, ""), endOf(c.id))
				e.ended("")
				return
			}
			e.received(ackOf(c.id, c.honoured))
			e.leave()
			e.ended("cancelled")
		})
	}
}

// An invalid filter is refused before anything is sent to the server.
func TestListenRefuses(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		uris := make([]string, maxSubscribed+1)
		for i := range uris {
			uris[i] = fmt.Sprintf(`"u%d"`, i)
		}
		for _, params := range []string{`"x":1`, `"notifications":[]`, `"notifications":null`, `"notifications":{"resourceSubscriptions":[1]}`,
			`"notifications":{"resourceSubscriptions":["u",null]}`, `"notifications":{"resourceSubscriptions":[` + strings.Join(uris, ",") + `]}`} {
			r.request(client{}, "1", "subscriptions/listen", params).ended("invalid_params")
		}
		r.serverReceived()
		e := r.listen(client{}, "1", `"resourceSubscriptions":[`+strings.Join(uris[1:], ",")+`]`)
		e.received(ackOf("1", `"resourceSubscriptions":[`+strings.Join(uris[1:], ",")+`]`))
		e.leave()
	})
}

// A resource that the server refuses is neither acknowledged nor reported.
func TestListenResourceRefused(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		r.s.no = func(uri string) bool { return uri == "no" }
		// what comes before the acknowledgement waits for it
		r.s.then = func(l *scriptedLink, said string) {
			if said == "resources/subscribe" {
				l.away(updatedNotice("yes"))
				l.away(updatedNotice("no/1"))
			}
		}
		e := r.listen(client{}, "1", `"resourceSubscriptions":["no","yes"]`)
		r.s.set(func() { r.s.then = nil })
		e.received(ackOf("1", `"resourceSubscriptions":["yes"]`), taggedUpdate("1", "yes"))
		r.s.link(1).away(updatedNotice("yes/2"))
		e.received(taggedUpdate("1", "yes/2"))
		e.leave()
		r.serverReceived("1 resources/subscribe no", "1 resources/subscribe yes", "1 resources/unsubscribe yes")
		// nothing at all is left
		f := r.listen(client{}, "2", `"resourceSubscriptions":["no"]`)
		f.received(ackOf("2", ""), endOf("2"))
		f.ended("")
		r.serverReceived("1 resources/subscribe no")
	})
}

// A server without a notice stream offers no notices, neither in server/discover nor in the acknowledgement.
func TestListenWithoutStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScriptedServer(allCaps)
		s.quiet = true
		r := newServerRig(t, s, false, nil)
		r.request(client{}, "1", "server/discover", `"x":1`).received(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],` +
			`"capabilities":{"tools":{},"prompts":{},"resources":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}}}`)
		e := r.listen(client{}, `"L"`, `"toolsListChanged":true,"resourceSubscriptions":["u"]`)
		e.received(ackOf(`"L"`, ""), endOf(`"L"`))
		e.ended("")
		r.serverReceived()
		r.close()
	})
}

// Notices arrive tagged, whichever stream carries them, and each listen receives its own.
func TestListenNotices(t *testing.T) {
	bothWires(t, someCaps, func(_ *testing.T, r *serverRig) {
		calls := r.s.hold("tools/call")
		a := r.listen(client{}, `"a"`, `"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["file:///a"]`)
		b := r.listen(client{}, `2`, `"toolsListChanged":true`)
		c := r.listen(client{}, `3`, `"resourceSubscriptions":["file:///b","dir/"]`)
		a.received(ackOf(`"a"`, `"toolsListChanged":true,"resourceSubscriptions":["file:///a"]`))
		b.received(ackOf(`2`, `"toolsListChanged":true`))
		c.received(ackOf(`3`, `"resourceSubscriptions":["file:///b","dir/"]`))
		up := r.s.link(1)
		up.away(changedNotice("tools"))
		up.away(changedNotice("prompts")) // not announced by the server, so not acknowledged
		up.away(changedNotice("resources"))
		a.received(taggedList(`"a"`, "tools"))
		b.received(taggedList(`2`, "tools"))
		up.away(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"vendor/x":1}}}`)
		a.received(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"vendor/x":1,"io.modelcontextprotocol/subscriptionId":"a"}}}`)
		b.received(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"vendor/x":1,"io.modelcontextprotocol/subscriptionId":2}}}`)
		c.received()
		// a sub-resource; one that no client named, which only the server can explain; one with a similar name
		up.away(updatedNotice("file:///a/sub"))
		a.received(taggedUpdate(`"a"`, "file:///a/sub"))
		c.received()
		up.away(updatedNotice("odd:1"))
		a.received(taggedUpdate(`"a"`, "odd:1"))
		b.received()
		c.received(taggedUpdate(`3`, "odd:1"))
		up.away(updatedNotice("dir/x"))
		c.received(taggedUpdate(`3`, "dir/x"))
		// on the stream of a call
		k := r.call(client{}, "9", "t")
		call := <-calls
		call.send(changedNotice("tools"))
		a.received(taggedList(`"a"`, "tools"))
		b.received(taggedList(`2`, "tools"))
		call.result(`{"content":[]}`)
		k.received(`{"jsonrpc":"2.0","id":9,"result":{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}}}`)
		// progress and logs are not for listens
		up.away(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}`)
		up.away(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e"}}`)
		for _, e := range []*clientRequest{a, b, c} {
			e.received()
			e.leave()
		}
	})
}

// A notice in another session of the same client is delivered too, and once only if both sessions receive it.
func TestListenOtherSession(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		calls := r.s.hold("tools/call")
		a := r.listen(client{}, "1", `"toolsListChanged":true,"resourceSubscriptions":["u"]`)
		a.received(ackOf("1", `"toolsListChanged":true,"resourceSubscriptions":["u"]`))
		k := r.call(client{caps: `{"experimental":{"x":{}}}`}, "2", "t")
		call := <-calls
		if call.l.n != 2 {
			r.t.Fatalf("the call runs in session %d", call.l.n)
		}
		call.send(changedNotice("tools"))
		a.received() // the other may receive it too
		time.Sleep(dedupTime)
		a.received(taggedList("1", "tools"))
		for _, first := range []int{1, 2} {
			time.Sleep(time.Second)
			r.s.link(first).away(changedNotice("tools"))
			time.Sleep(dedupTime / 2)
			synctest.Wait()
			r.s.link(3 - first).away(changedNotice("tools"))
			time.Sleep(time.Second)
			a.received(taggedList("1", "tools"))
		}
		call.l.away(updatedNotice("u/1"))
		time.Sleep(dedupTime)
		a.received(taggedUpdate("1", "u/1"))
		call.l.away(changedNotice("tools")) // and the listen ends before it is given out
		a.leave()
		call.result(`{"content":[]}`)
		k.ended("")
		time.Sleep(time.Second)
		a.received()
	})
}

// A call of a client that listens runs in the session of the listen, where it can.
func TestListenSharesSession(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		for range 2 { // two sessions, of which the second is the one used last
			calls := r.s.hold("tools/call")
			one, two := r.call(client{caps: `{"roots":{}}`}, "1", "t"), r.call(client{caps: `{"roots":{}}`}, "2", "t")
			(<-calls).result(`{"content":[]}`)
			(<-calls).result(`{"content":[]}`)
			one.ended("")
			two.ended("")
		}
		a := r.listen(client{caps: `{"roots":{}}`}, "1", `"toolsListChanged":true`)
		r.s.received()
		calls := r.s.hold("tools/call")
		listening := 0
		for n := 1; n <= 2; n++ {
			r.s.link(n).away(changedNotice("tools"))
			synctest.Wait()
			a.mu.Lock()
			if listening == 0 && len(a.got) == 2 {
				listening = n
			}
			a.mu.Unlock()
		}
		k := r.call(client{caps: `{"roots":{}}`}, "3", "t")
		call := <-calls
		if call.l.n != listening {
			r.t.Errorf("the call runs in session %d, the listen in %d", call.l.n, listening)
		}
		call.result(`{"content":[]}`)
		k.ended("")
		a.leave()
	})
}

// A client of the same name with other capabilities has its own session; the listen stays with its own client's calls.
func TestListenBesideANamesake(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		own, namesake := client{caps: `{"experimental":{"own":{}}}`}, client{caps: `{"experimental":{"other":{}}}`}
		run := func(c client, id string) int {
			time.Sleep(time.Second) // so that one is the last
			calls := r.s.hold("tools/call")
			k := r.call(c, id, "t")
			call := <-calls
			call.result(`{"content":[]}`)
			k.ended("")
			return call.l.n
		}
		mine := run(own, "1")
		if other := run(namesake, "2"); other == mine {
			r.t.Fatal("they share a session")
		}
		a := r.listen(own, "3", `"resourceSubscriptions":["u"]`)
		a.received(ackOf("3", `"resourceSubscriptions":["u"]`))
		if now := run(own, "4"); now != mine {
			r.t.Errorf("the call runs in session %d", now)
		}
		if got, want := strings.Join(r.s.received(), "\n"), fmt.Sprintf("%d resources/subscribe u", mine); !strings.Contains(got, want) {
			r.t.Errorf("%s, want %s", got, want)
		}
		a.leave()
	})
}

// For a client that does not read, equal notices are merged and the queue is bounded.
func TestListenSlowClient(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		uris, honoured := make([]string, maxSubscribed), []string{}
		for i := range uris {
			uris[i] = fmt.Sprintf("u%d", i)
			honoured = append(honoured, `"`+uris[i]+`"`)
		}
		filter := `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[` + strings.Join(honoured, ",") + `]`
		e := &clientRequest{t: r.t, ex: r.exchange(client{}, "1", "subscriptions/listen", `"notifications":{`+filter+`}`), stop: make(chan struct{}), read: make(chan struct{})}
		go e.run(r.u)
		e.read <- struct{}{}
		e.received(ackOf("1", filter))
		var want []string
		for range 3 {
			for _, list := range rules.NoticeLists {
				r.s.link(1).away(changedNotice(list))
			}
			for _, uri := range uris {
				r.s.link(1).away(updatedNotice(uri))
			}
		}
		for _, list := range rules.NoticeLists {
			want = append(want, taggedList("1", list))
		}
		for _, uri := range uris {
			want = append(want, taggedUpdate("1", uri))
		}
		for range want {
			e.read <- struct{}{}
		}
		e.received(want...)
		// what was read may come again
		r.s.link(1).away(changedNotice("tools"))
		e.read <- struct{}{}
		e.received(taggedList("1", "tools"))
		// beyond the bounds the oldest is dropped, and the listen goes on
		for i := range 3 * maxNotices {
			r.s.link(1).away(updatedNotice(fmt.Sprintf("u1/%d", i)))
		}
		close(e.read)
		synctest.Wait()
		e.mu.Lock()
		if n := len(e.got); n < maxSubscribed || n > maxNotices || e.got[n-1] != taggedUpdate("1", fmt.Sprintf("u1/%d", 3*maxNotices-1)) {
			r.t.Errorf("%d notices, the last %s", n, e.got[n-1])
		}
		e.got = nil
		e.mu.Unlock()
		e.leave()
	})
}

// Queued notices are bounded in bytes too.
func TestListenHeavyNotices(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		e := &clientRequest{t: r.t, ex: r.exchange(client{}, "1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["u"]}`), stop: make(chan struct{}), read: make(chan struct{})}
		go e.run(r.u)
		e.read <- struct{}{}
		e.received(ackOf("1", `"resourceSubscriptions":["u"]`))
		pad := strings.Repeat("x", 1<<20)
		for i := range 64 {
			r.s.link(1).away(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u/%d","x":"%s"}}`, i, pad))
		}
		close(e.read)
		synctest.Wait()
		e.mu.Lock()
		if n := len(e.got); n == 0 || n > 16 || !strings.Contains(e.got[n-1], `"u/63"`) {
			r.t.Errorf("%d notices of a megabyte waited", n)
		}
		e.got = nil
		e.mu.Unlock()
		e.leave()
	})
}

// A server without a notice stream is polled while a client listens: a difference makes a notice, a failed read does not.
func TestListenPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScriptedServer(allCaps)
		s.quiet, s.tools = true, `{"name":"a"}`
		content := "1"
		s.on["resources/read"] = func(c *scriptedCall) {
			if content == "" {
				c.send(`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32002,"message":"gone"}}`)
				return
			}
			c.result(`{"contents":[{"uri":"u","text":"` + content + `"}],"_meta":{"x":` + c.id + `}}`)
		}
		r := newServerRig(t, s, false, func(o *Options) { o.Subscriptions.Poll = 30 * time.Second })
		e := r.listen(client{}, "1", `"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["u"]`)
		e.received(ackOf("1", `"toolsListChanged":true,"resourceSubscriptions":["u"]`))
		r.serverReceived("1 tools/list", "1 resources/read u")
		time.Sleep(10 * time.Minute)
		e.received()
		s.set(func() { s.tools = `{"name":"b"}` })
		time.Sleep(31 * time.Second)
		e.received(taggedList("1", "tools"))
		for _, now := range []string{"", "1", "2"} { // removed for a while; then another
			s.set(func() { content = now })
			time.Sleep(31 * time.Second)
		}
		e.received(taggedUpdate("1", "u"))
		s.received()
		s.link(1).die() // while nothing could be read
		e.received(taggedList("1", "tools"), taggedUpdate("1", "u"))
		s.set(func() { content = "3" })
		time.Sleep(31 * time.Second)
		e.received(taggedUpdate("1", "u"))
		e.leave()
		s.received()
		time.Sleep(10 * time.Minute)
		r.serverReceived()
		r.close()
	})
}
