package era

import (
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A legacy session at a modern server receives its change notices over a listen that the upstream makes for it. The end of the server's
// process, or of the upstream, is noticed there.
func TestUpgradedSessionListens(t *testing.T) {
	for _, process := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newScriptedServer(someCaps)
			s.era = proxy.Modern
			listens := s.hold("subscriptions/listen")
			r := newServerRig(t, s, process, nil)
			out := &fakeserver.Outlet{}
			sess := r.legacy(`{}`)
			sess.SetOutlet(out)
			e := r.ask(sess, "1", "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
			e.ended("")
			if m := fakeserver.Scan(t, e.got[0]); string(wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw)) != someCaps {
				t.Errorf("the client received %s", m.Raw)
			}
			if _, err := r.u.Do(&proxy.Exchange{Msg: *fakeserver.Scan(t, rules.Initialized), Session: sess, Client: sess.Client()}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			c := <-listens
			if want := `{"toolsListChanged":true}`; string(c.msg.Of(c.msg.Notifications)) != want {
				t.Errorf("the filter is %s", c.msg.Of(c.msg.Notifications))
			}
			tag := `{"_meta":{"io.modelcontextprotocol/subscriptionId":` + c.id + `}}`
			c.send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + c.id + `},"notifications":{"toolsListChanged":true}}}`)
			c.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":` + tag + `}`)
			time.Sleep(time.Second)
			if got := out.Take(); len(got) != 1 || r.u.BridgeListens() != 1 {
				t.Errorf("the client received %q; %d listens", got, r.u.BridgeListens())
			}
			r.u.Dismiss(proxy.Errf(proxy.SessionLost, "replaced"))
			synctest.Wait()
			if sess.State() != proxy.Closed || r.u.BridgeListens() != 0 {
				t.Errorf("the session is %v; %d listens", sess.State(), r.u.BridgeListens())
			}
			r.close()
		})
	}
}
