package era

import (
	"testing"
	"testing/synctest"
	"time"
)

// Subscriptions are counted in a session: the first subscribes at the server, the last unsubscribes (vector 77).
func TestSubscriptionsAreCounted(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		a := r.listen(client{}, "1", `"resourceSubscriptions":["u","v"]`)
		r.serverReceived("1 resources/subscribe u", "1 resources/subscribe v")
		b := r.listen(client{}, "2", `"resourceSubscriptions":["u","w","u"]`)
		r.serverReceived("1 resources/subscribe w")
		b.received(ackOf("2", `"resourceSubscriptions":["u","w"]`))
		a.leave()
		r.serverReceived("1 resources/unsubscribe v")
		c := r.listen(client{}, "3", `"resourceSubscriptions":["u"]`)
		r.serverReceived()
		b.leave()
		r.serverReceived("1 resources/unsubscribe w")
		c.leave()
		r.serverReceived("1 resources/unsubscribe u")
		// released subscriptions are made again
		d := r.listen(client{}, "4", `"resourceSubscriptions":["u"]`)
		r.serverReceived("1 resources/subscribe u")
		d.leave()
		r.serverReceived("1 resources/unsubscribe u")
	})
}

// A failed unsubscribe still clears the count: the next listen subscribes at the server again.
func TestSubscriptionsAfterFailedUnsubscribe(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		r.s.on["resources/unsubscribe"] = func(*scriptedCall) {} // no answer at all
		a := r.listen(client{}, "1", `"resourceSubscriptions":["u"]`)
		a.leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.s.received()
		r.s.set(func() { delete(r.s.on, "resources/unsubscribe") })
		b := r.listen(client{}, "2", `"resourceSubscriptions":["u"]`)
		r.serverReceived("1 resources/subscribe u")
		b.received(ackOf("2", `"resourceSubscriptions":["u"]`))
		b.leave()
	})
}

// Each principal, and each of its clients, has its own subscriptions and notices.
func TestSubscriptionsOfOthers(t *testing.T) {
	bothWires(t, allCaps, func(_ *testing.T, r *serverRig) {
		const filter = `"toolsListChanged":true,"resourceSubscriptions":["u"]`
		const honoured = `"toolsListChanged":true,"resourceSubscriptions":["u"]`
		a := r.listen(client{who: "alice"}, "1", filter)
		b := r.listen(client{who: "bob"}, "1", filter)
		c := r.listen(client{who: "alice", name: "other"}, "1", filter)
		r.serverReceived("1 resources/subscribe u", "2 resources/subscribe u", "3 resources/subscribe u")
		for _, e := range []*clientRequest{a, b, c} {
			e.received(ackOf("1", honoured))
		}
		r.s.link(1).away(changedNotice("tools"))
		a.received(taggedList("1", "tools"))
		r.s.link(2).away(updatedNotice("u"))
		b.received(taggedUpdate("1", "u"))
		time.Sleep(time.Second)
		for _, e := range []*clientRequest{a, b, c} {
			e.received()
		}
		// an update that a session receives is delivered to its listens even if only another principal has subscribed to the resource
		d := r.listen(client{who: "bob"}, "2", `"resourceSubscriptions":["odd"]`)
		d.received(ackOf("2", `"resourceSubscriptions":["odd"]`))
		r.s.link(1).away(updatedNotice("odd"))
		a.received(taggedUpdate("1", "odd"))
		for _, e := range []*clientRequest{a, b, c, d} {
			e.leave()
		}
	})
}
