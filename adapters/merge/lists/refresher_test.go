package lists

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
)

// A server that stays keeps its session, and the next request uses its new upstream. One that was configured anew is connected anew, and one
// that is gone is left: its session ends.
func TestServersAreReplaced(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m, next := newMember("m", "legacy"), newMember("m", "legacy")
		next.tools = "next"
		b.ask(m)
		b.shown("m")
		b.ask(next)
		b.is("the same instance", b.shown("m"), "there t")
		m.say(changedTools)
		b.is("the same instance, changed", b.shown("m"), "there next")
		b.is("the same instance", next.at(""), "0 tools/list")
		again := newMember("m", "legacy")
		again.Instance, again.tools = 1, "again"
		b.ask(again)
		time.Sleep(time.Second) // the first attempt at a server whose lists are known is spread
		b.is("another instance", b.shown("m"), "there again")
		if m.session.State() != proxy.Closed {
			b.Errorf("the former session is %v", m.session.State())
		}
		b.ask()
		synctest.Wait()
		if again.session.State() != proxy.Closed || b.Catalogue().Snapshot().Server("m") != nil {
			b.Errorf("a server that is gone: the session is %v", again.session.State())
		}
	})
}

// The lists of a server are read again when an operator wants it, also those that it does not say have changed.
func TestReread(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "legacy")
		m.caps = `{"tools":{}}`
		b.ask(m)
		b.is("first", b.shown("m"), "there t")
		m.set(func() { m.tools = "u" })
		b.is("changed in silence", b.shown("m"), "there t")
		b.Reread("m")
		b.Reread("none")
		b.is("read again", b.shown("m"), "there u")
	})
}

// Nothing is sent to a server that was left, and its lists are not shown until it is no longer.
func TestServersThatAreLeft(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "legacy")
		b.ask(m)
		b.shown("m")
		left := newMember("m", "legacy")
		left.Instance, left.Left = 1, true
		b.ask(left)
		b.is("left", b.shown("m"), "out t")
		if m.session.State() != proxy.Closed || left.at("") != "" {
			b.Errorf("the former session is %v; sent %q", m.session.State(), left.at(""))
		}
		again := newMember("m", "legacy")
		again.Instance, again.tools = 2, "again"
		b.ask(again)
		time.Sleep(time.Second) // the first attempt at a server whose lists are known is spread
		b.is("no longer", b.shown("m"), "there again")
		never := newMember("n", "legacy")
		never.Left, never.ID = true, "7"
		b.ask(again, never)
		b.is("never asked", b.shown("n"), "out")
		if of := b.Catalogue().Snapshot().Server("n"); of == nil || of.ID != "7" || never.at("") != "" {
			b.Errorf("%+v; sent %q", of, never.at(""))
		}
	})
}

// A server that is configured anew is not asked before the former one was left, so that no late answer of that is kept.
func TestServersThatAreSlowToEnd(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m, next := newMember("m", "legacy"), newMember("m", "legacy")
		next.Instance = 1
		proceed := make(chan struct{})
		m.serve("initialize", func(*proxy.Exchange) (proxy.Replies, error) { <-proceed; return nil, errors.New("late") })
		b.ask(m)
		m.at("")
		b.ask(next)
		b.is("before", next.at(""), "")
		close(proceed)
		b.is("after", next.at("initialize"), "0")
		if text := b.noted(); text != "" {
			b.Errorf("noted %s", text)
		}
	})
}

// The first attempts at servers whose lists are known are spread over 10 ms for each, two seconds at most; the others are asked at once.
func TestFirstAttemptsAreSpread(t *testing.T) {
	for n, most := range map[int]float64{100: 1, 300: 2} {
		inBubble(t, Options{}, func(b *bubble) {
			kept, members := map[string]catalogue.Kept{}, []*member{}
			for i := range n {
				m := newMember(fmt.Sprint("m", i), "modern")
				m.serve("server/discover", fails(proxy.Errf(proxy.Unreachable, "down")))
				kept[m.Name] = catalogue.Kept{Transport: "HTTP"}
				members = append(members, m)
			}
			b.Catalogue().Keep(kept)
			for _, m := range members[1:] {
				for kind := range catalogue.Kinds {
					b.Catalogue().SetList(m.Name, kind, catalogue.List{})
				}
			}
			b.Catalogue().SetList("m0", catalogue.Tools, catalogue.List{}) // of whose prompts nothing is known
			b.ask(members...)
			time.Sleep(time.Until(b.began.Add(time.Duration(most * float64(time.Second)))))
			var first []float64
			for _, m := range members {
				var at float64
				if _, err := fmt.Sscan(m.at("server/discover"), &at); err != nil {
					b.Fatalf("%s was not asked within %v s", m.Name, most)
				}
				first = append(first, at)
			}
			b.is("of which not all is known", fmt.Sprint(first[0]), "0")
			if slices.Sort(first); first[n/4] < most/10 || first[n/4] > most*0.45 || first[3*n/4] < most*0.55 {
				b.Errorf("of %d servers a quarter is asked within %v s, three quarters within %v s", n, first[n/4], first[3*n/4])
			}
		})
	}
}

// The first list waits for servers of which it is not known, for five seconds or what is set. Nobody waits for others.
func TestAwait(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		slow, known := newMember("slow", "legacy"), newMember("known", "legacy")
		slow.serve("initialize", says())
		b.Catalogue().Keep(map[string]catalogue.Kept{"known": {Transport: "HTTP"}})
		b.Catalogue().SetList("known", catalogue.Tools, catalogue.List{})
		known.serve("initialize", says())
		b.ask(slow, known)
		awaits := func(want time.Duration, kind catalogue.Kind, servers ...string) {
			b.Helper()
			began := time.Now()
			err := b.Await(b.Context(), servers, Client{}, kind)
			if took := time.Since(began); err != nil || took != want {
				b.Errorf("%s of %v: waited %v, %v; want %v", kind, servers, took, err, want)
			}
		}
		awaits(0, catalogue.Tools, "known", "unknown")
		awaits(firstTime, catalogue.Prompts, "known")
		awaits(firstTime, catalogue.Tools, "slow", "known", "unknown")
		b.SetFirstWait(0)
		awaits(0, catalogue.Tools, "slow", "known")
		b.SetFirstWait(7 * time.Second)
		awaits(7*time.Second, catalogue.Tools, "slow", "known")
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		if err := b.Await(ctx, []string{"slow"}, Client{}, catalogue.Tools); !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("a request that ends: %v", err)
		}
		time.Sleep(openTime)
		awaits(0, catalogue.Prompts, "slow", "known") // each was tried
		began := time.Now()
		b.ask(newMember("quick", "legacy"))
		awaits(0, catalogue.Tools, "quick")
		b.is("quick", b.shown("quick"), "there t")
		if time.Since(began) != 0 {
			b.Error("it took time")
		}
	})
}

// Who has lists of its own waits for these, also while other servers were not asked yet; five seconds at most for all together.
func TestAwaitListsOfACaller(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		own := func(c proxy.Caller) bool { return c.Principal != "" }
		a, m, other := newMember("a", "legacy"), newMember("m", "legacy"), newMember("other", "legacy")
		a.Contextual, m.Contextual = own, own
		other.serve("initialize", says())
		b.ask(a, m, other)
		ann := as("ann")
		awaits := func(what string, want time.Duration) {
			b.Helper()
			began := time.Now()
			if err := b.Await(b.Context(), []string{"a", "m"}, ann, catalogue.Tools); err != nil || time.Since(began) != want {
				b.Errorf("%s: waited %v, %v; want %v", what, time.Since(began), err, want)
			}
		}
		sees := func() (text string) {
			synctest.Wait()
			for _, s := range b.Own([]string{"a", "m"}, &ann) {
				text += s.Name + " " + shown(s) + " "
			}
			return text
		}
		awaits("while another server was not asked", 0)
		b.is("read", sees(), "a there t m there t ")
		time.Sleep(openTime)
		for _, one := range []*member{a, m} {
			one.serve("tools/list", says())
			b.Changed(one.Name, ann)
		}
		awaits("both slow", ownWait)
		b.is("last known", sees(), "a away t m away t ")
		awaits("both slow still", 0)
	})
}
