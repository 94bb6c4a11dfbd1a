package era

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
)

// A lost session is reopened with its subscriptions, and everything is reported as changed.
func TestListenSessionLost(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		a := r.listen(client{}, `"a"`, `"toolsListChanged":true,"resourceSubscriptions":["u","v"]`)
		b := r.listen(client{}, `"b"`, `"promptsListChanged":true,"resourceSubscriptions":["u"]`)
		a.received(ackOf(`"a"`, `"toolsListChanged":true,"resourceSubscriptions":["u","v"]`))
		b.received(ackOf(`"b"`, `"promptsListChanged":true,"resourceSubscriptions":["u"]`))
		r.s.received()
		r.s.link(1).die()
		a.received(taggedList(`"a"`, "tools"), taggedUpdate(`"a"`, "u"), taggedUpdate(`"a"`, "v"))
		b.received(taggedList(`"b"`, "prompts"), taggedUpdate(`"b"`, "u"))
		if got := strings.Join(r.s.received(), "\n"); strings.Count(got, "2 resources/subscribe u") != 1 || strings.Count(got, "2 resources/subscribe v") != 1 || strings.Count(got, "initialize {}") != 1 {
			r.t.Errorf("the server received\n%s", got)
		}
		r.s.link(2).away(changedNotice("tools"))
		a.received(taggedList(`"a"`, "tools"))
		a.leave()
		r.serverReceived("2 resources/unsubscribe v")
		b.leave()
		r.serverReceived("2 resources/unsubscribe u")
	})
}

// A server that stays away is retried with backoff. A client that leaves meanwhile leaves no session behind.
func TestListenBacksOff(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		a := r.listen(client{}, "1", `"toolsListChanged":true`)
		b := r.listen(client{who: "bob"}, "1", `"toolsListChanged":true`)
		b.leave()
		a.received(ackOf("1", `"toolsListChanged":true`))
		r.s.set(func() { r.s.down, r.s.times = true, nil })
		r.s.link(1).die()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(r.s.times); n < 12 || n > 40 {
			r.t.Errorf("tried %d times in ten minutes", n)
		}
		for i := 1; i < len(r.s.times); i++ {
			if d := r.s.times[i].Sub(r.s.times[i-1]); d < backoffLeast/2 || d > backoffMost*3/2 {
				r.t.Errorf("try %d after %s", i, d)
			}
		}
		a.received()
		r.s.set(func() { r.s.down = false })
		time.Sleep(2 * backoffMost)
		a.received(taggedList("1", "tools"))
		r.s.set(func() { r.s.down = true })
		n := len(r.s.links) - 1
		r.s.link(n).die()
		time.Sleep(time.Second)
		a.leave()
		a.ended("cancelled")
		if n := r.u.Listens(); n != 0 {
			r.t.Errorf("%d listens left", n)
		}
		r.s.set(func() { r.s.times = nil })
		time.Sleep(time.Hour)
		if n := len(r.s.times); n != 0 {
			r.t.Errorf("tried %d times without a client", n)
		}
	})
}

// A server that accepts a session and dies at once is retried with pauses.
func TestListenServerDiesAtOnce(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		a := r.listen(client{}, "1", `"toolsListChanged":true`)
		a.received(ackOf("1", `"toolsListChanged":true`))
		r.s.set(func() { r.s.brief, r.s.times = true, nil })
		r.s.link(1).die()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(r.s.times); n < 3 || n > 20 {
			r.t.Errorf("opened %d times in a minute", n)
		}
		r.s.set(func() { r.s.brief = false })
		time.Sleep(2 * backoffMost)
		synctest.Wait()
		a.mu.Lock()
		a.got = nil
		a.mu.Unlock()
		r.s.link(len(r.s.links) - 1).away(changedNotice("tools"))
		a.received(taggedList("1", "tools"))
		a.leave()
	})
}

// A session that the server no longer knows is detected while subscribing and replaced.
func TestListenSessionForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newServerRig(t, newScriptedServer(allCaps), false, nil)
		r.call(client{}, "1", "t").ended("")
		r.s.lose["resources/subscribe"] = true
		r.s.then = func(_ *scriptedLink, said string) {
			if said == "initialize" {
				r.s.set(func() { r.s.lose = map[string]bool{} })
			}
		}
		r.s.received()
		a := r.listen(client{}, "1", `"resourceSubscriptions":["u","v"]`)
		a.received(ackOf("1", `"resourceSubscriptions":["u","v"]`))
		got := strings.ReplaceAll(strings.Join(r.s.received(), "\n"), "1 end\n", "") // the first session ends at the same time
		if !strings.Contains(got, "2 resources/subscribe u\n2 resources/subscribe v") {
			t.Errorf("the server received\n%s", got)
		}
		a.leave()
		// no endless loop with a server that forgets at once
		r.s.set(func() { r.s.lose["resources/subscribe"], r.s.then, r.s.times = true, nil, nil })
		b := r.listen(client{}, "1", `"resourceSubscriptions":["u"]`)
		b.ended("upstream_session_lost")
		if n := len(r.s.times); n > 2 {
			t.Errorf("%d sessions tried", n)
		}
		r.close()
	})
}

// Shutdown of the proxy ends a listen with its final response; the end of the upstream ends it with an error.
func TestListenDrain(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		a := r.listen(client{}, "1", `"toolsListChanged":true,"resourceSubscriptions":["u"]`)
		a.received(ackOf("1", `"toolsListChanged":true,"resourceSubscriptions":["u"]`))
		a.ex.Cancel(proxy.ErrDraining)
		a.ended("shutting_down")
		r.serverReceived("1 resources/subscribe u", "1 resources/unsubscribe u")
		b := r.listen(client{}, "2", `"toolsListChanged":true`)
		b.received(ackOf("2", `"toolsListChanged":true`))
		if err := r.u.Close(); err != nil {
			r.t.Error(err)
		}
		b.ended("shutting_down")
		r.listen(client{}, "3", `"toolsListChanged":true`).ended("shutting_down")
	})
}

// A client that leaves at any moment, even while its session is being opened, leaves nothing behind.
func TestListenLeaves(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		var cancelled string
		for _, method := range []string{"initialize", "resources/subscribe"} {
			held := r.s.hold(method)
			a := r.listen(client{who: method}, "1", `"toolsListChanged":true,"resourceSubscriptions":["u"]`)
			c := <-held
			cancelled = c.id
			a.leave()
			a.ended("cancelled")
			if n := r.u.Listens(); n != 0 {
				r.t.Errorf("%s: %d listens left", method, n)
			}
			r.s.set(func() { delete(r.s.on, method) })
			if method == "initialize" {
				c.result(`{"protocolVersion":"2025-11-25","capabilities":` + allCaps + `,"serverInfo":{"name":"f","version":"1"}}`)
			}
			b := r.listen(client{who: method}, "2", `"resourceSubscriptions":["u"]`)
			b.received(ackOf("2", `"resourceSubscriptions":["u"]`))
			b.leave()
		}
		r.serverReceived("1 resources/subscribe u", "1 resources/unsubscribe u", "2 resources/subscribe u", "2 notifications/cancelled "+cancelled,
			"2 resources/subscribe u", "2 resources/unsubscribe u")
	})
}
