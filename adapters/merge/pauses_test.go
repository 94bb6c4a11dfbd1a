package merge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// clocked notes when a server receives each method, in seconds since the start of the test.
type clocked struct {
	do    proxy.Handler
	began time.Time

	mu       sync.Mutex
	received []string
}

func newClocked(do proxy.Handler) *clocked { return &clocked{do: do, began: time.Now()} }

func (k *clocked) serve(ex *proxy.Exchange) (proxy.Replies, error) {
	k.mu.Lock()
	k.received = append(k.received, fmt.Sprint(string(ex.Msg.Text(ex.Msg.Method)), " ", time.Since(k.began).Seconds()))
	k.mu.Unlock()
	return k.do(ex)
}

// at returns the seconds at which a method was received since the last look at any.
func (k *clocked) at(method string) string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for _, text := range k.received {
		if at, is := strings.CutPrefix(text, method+" "); is {
			all = append(all, at)
		}
	}
	k.received = nil
	return strings.Join(all, " ")
}

// A listen at a member that ends is opened again after 1, 2, 4 … 60 s, and after 1 s if it has lasted for longer than a minute.
func TestPausesOfListens(t *testing.T) {
	for lasts, want := range map[time.Duration]string{
		0:                         "0 1 3 7 15 31 63 123 183",
		time.Minute:               "0 1 3 7 75 91 123 183",
		time.Minute + time.Second: "0 1 3 7 69 71 75 83 99 131 191",
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts := 0
			k := newClocked(func(ex *proxy.Exchange) (proxy.Replies, error) {
				if attempts++; attempts == 4 { // the one at 7 s
					time.Sleep(lasts)
				}
				return nil, proxy.Errf(proxy.Lost, "down")
			})
			r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: k.serve}}})
			r.catalogue.Keep(map[string]catalogue.Kept{"k": {Transport: "HTTP"}})
			r.catalogue.SetList("k", catalogue.Resources, catalogue.List{Items: []catalogue.Item{{Key: "demo://x", Raw: []byte(`{"uri":"demo://x"}`)}}})
			ex, _ := r.listens(`"demo://x"`)
			time.Sleep(time.Until(k.began.Add(200 * time.Second)))
			if got := k.at("subscriptions/listen"); got != want {
				t.Errorf("a listen that lasts %v: at %s, want %s", lasts, got, want)
			}
			ex.Cancel(proxy.ErrCancelled)
			time.Sleep(5 * time.Minute)
			if got := k.at("subscriptions/listen"); got != "" {
				t.Errorf("after its end: %s", got)
			}
		})
	}
}

// subscriber is a legacy client in a bubble, at a talker k of which a test decides what it serves.
type subscriber struct {
	*peer
	server *clocked
	talker *talker
	fails  map[string]error // by method
}

func newSubscriber(t *testing.T) *subscriber {
	t.Helper()
	s := &subscriber{talker: newTalker(), fails: map[string]error{}}
	s.server = newClocked(func(ex *proxy.Exchange) (proxy.Replies, error) {
		if err := s.fails[string(ex.Msg.Text(ex.Msg.Method))]; err != nil {
			return nil, err
		}
		return s.talker.do(ex)
	})
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: s.server.serve}}})
	s.peer = r.newPeer(true)
	return s
}

// subscribe subscribes to a number of resources, and returns the session at the member.
func (s *subscriber) subscribe(n int) *proxy.Session {
	s.r.t.Helper()
	for i := range n {
		if got := s.call("resources/subscribe", fmt.Sprintf(`"uri":"dragoman+k://demo///%d"`, i)); got.err != nil {
			s.r.t.Fatal(got.err)
		}
	}
	return <-s.talker.opened
}

// A session with subscriptions that is lost is opened again after 1, 2, 4 … 60 s, and at once if it has lasted for longer than a minute.
func TestPausesOfSessions(t *testing.T) {
	for lasts, want := range map[time.Duration]string{
		30 * time.Second:          "31 33 37 45 61 93 153 213 273",
		time.Minute:               "61 63 67 75 91 123 183 243",
		time.Minute + time.Second: "61 63 67 75 91 123 183 243",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSubscriber(t)
			session := s.subscribe(1)
			time.Sleep(lasts)
			s.server.at("")
			s.fails["initialize"] = proxy.Errf(proxy.Unreachable, "down")
			session.EndFor(proxy.Closed, proxy.Errf(proxy.Lost, "killed"))
			time.Sleep(time.Until(s.server.began.Add(300 * time.Second)))
			if got := s.server.at("initialize"); got != want {
				t.Errorf("a session that has lasted %v is opened again at %s, want %s", lasts, got, want)
			}
			s.session.End(proxy.Closed)
			time.Sleep(5 * time.Minute)
			if got := s.server.at("initialize"); got != "" {
				t.Errorf("after the end of the client's: %s", got)
			}
		})
	}
}

// A client without subscriptions waits for nothing: its lost session is opened by its next request.
func TestLostSessionWithoutSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubscriber(t)
		session := s.subscribe(1)
		s.call("resources/unsubscribe", `"uri":"dragoman+k://demo///0"`)
		s.server.at("")
		session.EndFor(proxy.Closed, proxy.Errf(proxy.Lost, "killed"))
		time.Sleep(5 * time.Minute)
		if got := s.server.at("initialize"); got != "" {
			t.Errorf("opened at %s", got)
		}
		if s.call("tools/call", `"name":"k.x","arguments":{}`); s.server.at("initialize") != "300" {
			t.Error("a call does not open it")
		}
	})
}

// A subscription that fails is tried again: by the next session if the session ended, else in the same after a pause.
func TestSubscriptionsThatFail(t *testing.T) {
	for what, ends := range map[string]bool{"the session ends": true, "the session goes on": false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSubscriber(t)
			first := s.subscribe(1)
			s.server.at("")
			do, failed := s.server.do, false
			s.server.do = func(ex *proxy.Exchange) (proxy.Replies, error) {
				if !ex.Msg.Is("resources/subscribe") || failed {
					return do(ex)
				}
				if failed = true; ends {
					ex.Session.EndFor(proxy.Closed, proxy.Errf(proxy.Lost, "killed"))
				}
				return nil, errors.New("broken")
			}
			first.EndFor(proxy.Closed, proxy.Errf(proxy.Lost, "killed"))
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			got := strings.Join(s.server.received, ", ")
			want := "initialize 1, notifications/initialized 1, resources/subscribe 1, resources/subscribe 3"
			if ends {
				want = "initialize 1, notifications/initialized 1, resources/subscribe 1, initialize 2, notifications/initialized 2, resources/subscribe 2"
			}
			if got != want {
				t.Errorf("%s: %s\nwant %s", what, got, want)
			}
		})
	}
}

// Of more subscriptions at a member than are kept, those that are kept are made again.
func TestSubscriptionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubscriber(t)
		session := s.subscribe(maxSubscribed + 2)
		s.server.at("")
		s.peer.pushed = make(chan string, 2*maxSubscribed)
		session.EndFor(proxy.Closed, proxy.Errf(proxy.Lost, "killed"))
		time.Sleep(time.Minute)
		if n := len(strings.Fields(s.server.at("resources/subscribe"))); n != maxSubscribed {
			t.Errorf("%d subscriptions are made again", n)
		}
	})
}

// A listen for lists of the caller's own that was lost, and is opened again, has them read again: they may have changed meanwhile.
func TestListsOfACallerAfterALostListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k := vaultRig(t, true)
		ex, ann := r.listensAs(bearing("ann"), "")
		defer ex.Cancel(proxy.ErrCancelled)
		synctest.Wait()
		k.mu.Lock()
		k.more["ann"] = []string{"new"}
		for told, of := range k.listens {
			if of == "ann" {
				close(told)
			}
		}
		k.mu.Unlock()
		time.Sleep(time.Second)
		if synctest.Wait(); k.reads["ann"] != 2 {
			t.Fatalf("the lists were read %d times", k.reads["ann"])
		}
		if got := ann(); !strings.Contains(got, rules.ListChanged("tools")) {
			t.Errorf("told %s", got)
		}
	})
}

// A legacy client waits for the legacy side of a server of both eras, once it is looked for; a modern client does not.
func TestFirstListsOfAServerOfBothEras(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do := func(ex *proxy.Exchange) (proxy.Replies, error) {
			result, m := `{"capabilities":{"tools":{}},"protocolVersion":"2025-11-25","serverInfo":{"name":"k","version":"1"}}`, &ex.Msg
			switch {
			case m.Kind != wire.Request:
				return nil, nil
			case m.Is("tools/list"):
				result = `{"tools":[{"name":"` + map[proxy.Era]string{proxy.Modern: "modern", proxy.Legacy: "old"}[ex.Client.Era] + `"}]}`
			}
			return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(result))), nil
		}
		r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: do}}})
		r.modern = func(context.Context, string) (bool, error) { return true, nil }
		r.dual = func(context.Context) (bool, error) { time.Sleep(time.Second); return true, nil }
		r.Start()
		r.settled()
		began := time.Now()
		if got := fmt.Sprint(r.call("tools/list", "").keysOf("tools", "name")); got != "[k.modern]" || time.Since(began) != 0 {
			t.Errorf("a modern client sees %s after %v", got, time.Since(began))
		}
		if got := fmt.Sprint(r.newPeer(false).call("tools/list", "").keysOf("tools", "name")); got != "[k.old]" || time.Since(began) != time.Second {
			t.Errorf("a legacy client sees %s after %v", got, time.Since(began))
		}
	})
}

// A member that comes back is asked for nothing by a client that has no subscription there any more.
func TestReturnWithoutSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubscriber(t)
		s.subscribe(1)
		s.call("resources/unsubscribe", `"uri":"dragoman+k://demo///0"`)
		s.r.SetMembers(nil)
		s.server.at("")
		s.r.SetMembers(s.r.only("k"))
		time.Sleep(time.Minute)
		if got := s.server.at("initialize"); got != "" {
			t.Errorf("a session was opened at %s", got)
		}
	})
}
