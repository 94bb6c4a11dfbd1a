package lists

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// twoSided returns a Refresher with a modern server "s" that lists the tool modern, and old on its legacy side. looks are the outcomes of
// searches for that: an error, or nil. sides counts what is read there.
func twoSided(t *testing.T, looks ...error) (r *Refresher, s *shelf, searches *int) {
	t.Helper()
	r, s = shelved(t)
	one, searches := r.readers["s"], new(int)
	server := *one.server.Load()
	server.Contextual = nil
	modern := server.Do
	server.Do = func(ex *proxy.Exchange) (proxy.Replies, error) {
		switch m := &ex.Msg; {
		case ex.Client.Era == proxy.Modern:
			return modern(ex)
		case m.Kind == wire.Notification:
			return nil, nil
		case m.Is("initialize"):
			return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{}},"serverInfo":{"name":"s","version":"1"}}`))), nil
		}
		return modern(ex)
	}
	server.Dual = func(context.Context) (bool, error) {
		*searches++
		return true, looks[min(*searches, len(looks))-1]
	}
	one.server.Store(&server)
	r.apart.Store(apart(r.readers))
	s.set(`{"tools":[{"name":"old"}],"ttlMs":1}`, nil)
	r.opt.Catalogue.Describe("s", catalogue.Description{Revision: rules.ModernVersion, Capabilities: []byte(`{"tools":{}}`)})
	r.opt.Catalogue.SetList("s", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "modern", Raw: []byte(`{"name":"modern"}`)}}})
	r.opt.Catalogue.SetPresence("s", catalogue.There)
	return r, s, searches
}

// shows returns what a client of an era is shown instead of the catalogue's.
func shows(r *Refresher, legacy bool) (text string) {
	for _, s := range r.Own([]string{"s"}, &Client{Legacy: legacy}) {
		text += s.Revision
		for _, item := range s.Lists[catalogue.Tools].Items {
			text += " " + item.Key
		}
	}
	return text
}

// awaitsLegacy has a legacy client wait for its lists.
func (r *Refresher) awaitsLegacy(t *testing.T) {
	t.Helper()
	if err := r.Await(t.Context(), []string{"s", "other"}, Client{Legacy: true}, catalogue.Tools); err != nil {
		t.Fatal(err)
	}
}

// The legacy side of a modern server is looked for once a legacy client comes, read once for all of them, and read again with the lists of
// the catalogue.
func TestLegacySides(t *testing.T) {
	r, s, searches := twoSided(t, nil)
	one := r.readers["s"]
	one.asked()
	if r.awaitsLegacy(t); *searches != 0 || shows(r, true) != "" {
		t.Errorf("before the server was met: %d searches, %s", *searches, shows(r, true))
	}
	one.met(true)
	if err := r.Await(t.Context(), []string{"s"}, Client{}, catalogue.Tools); err != nil || *searches != 0 {
		t.Errorf("for a modern client: %d searches, %v", *searches, err)
	}
	changed := r.OwnChanged()
	r.awaitsLegacy(t)
	<-changed // from the lists of the catalogue
	r.awaitsLegacy(t)
	if got := shows(r, true) + "," + shows(r, false); got != rules.LegacyVersion+" old," || *searches != 1 || s.reads.Load() != 1 {
		t.Errorf("%s; %d searches, read %d times", got, *searches, s.reads.Load())
	}
	if own := r.Own([]string{"s"}, &Client{Legacy: true})[0]; own.Lists[catalogue.Tools].Private || !strings.Contains(string(own.Capabilities), "tasks") {
		t.Errorf("%+v", own)
	}
	s.set(`{"tools":[{"name":"older"}]}`, nil)
	r.opt.Catalogue.SetList("s", catalogue.Tools, catalogue.List{})
	if r.awaitsLegacy(t); shows(r, true) != rules.LegacyVersion+" older" {
		t.Errorf("after the lists of the catalogue were read: %s", shows(r, true))
	}
	one.met(true) // it was connected again
	if r.awaitsLegacy(t); *searches != 2 || shows(r, true) != rules.LegacyVersion+" older" {
		t.Errorf("connected again: %d searches, %s", *searches, shows(r, true))
	}
	changed = r.OwnChanged()
	one.met(false)
	<-changed
	if r.awaitsLegacy(t); shows(r, true) != "" || r.apart.Load() != nil || r.unsided.Load() != 0 {
		t.Errorf("a legacy server has another side: %s, %d to look for", shows(r, true), r.unsided.Load())
	}
}

// Until its legacy side can be read, legacy clients are shown what the catalogue has of a server, and nobody waits a second time.
func TestLegacySidesThatCannotBeRead(t *testing.T) {
	down := errors.New("down")
	r, s, searches := twoSided(t, down, down, nil)
	one := r.readers["s"]
	one.asked()
	one.met(true)
	for range 3 {
		r.awaitsLegacy(t)
	}
	if *searches != 1 || shows(r, true) != "" {
		t.Errorf("%d searches, %s", *searches, shows(r, true))
	}
	for n := 2; n <= 3; n++ {
		r.sidesMu.Lock()
		one.look.failed = one.look.failed.Add(-pauseLate)
		r.sidesMu.Unlock()
		if wait := one.findSide(); wait != nil {
			t.Error("a client waits although the last search has failed")
		}
		r.sidesMu.Lock()
		done := one.look.done
		r.sidesMu.Unlock()
		if done != nil {
			<-done
		}
	}
	if *searches != 3 || !one.dual.Load() {
		t.Fatalf("%d searches, found: %v", *searches, one.dual.Load())
	}
	s.set("", down)
	who := Client{Legacy: true}
	r.awaitsLegacy(t)
	o := r.ownedBy([]string{"s"}, &who, true)[0]
	o.settled()
	if got := fmt.Sprint(len(r.Own([]string{"s"}, &who)), o.pause); got != "0 1s" {
		t.Errorf("%s", got)
	}
	s.set(`{"tools":[{"name":"old"}]}`, nil)
	r.opt.Catalogue.SetPresence("s", catalogue.Away)
	o.refresh(who.Caller)
	if o.settled(); shows(r, true) != "" {
		t.Errorf("within the pause: %s", shows(r, true))
	}
	r.opt.Catalogue.SetPresence("s", catalogue.There)
	changed := r.OwnChanged()
	r.Renew([]string{"s"}, who)
	<-changed
	if o.settled(); shows(r, true) != rules.LegacyVersion+" old" || o.due.Before(time.Now().Add(time.Hour)) {
		t.Errorf("it is back: %s, due %s", shows(r, true), o.due)
	}
}

// A modern server that lists less to clients without capabilities has lists for the clients of each set of capabilities, read at the first use and
// again with the catalogue's. While it lists the same to all nobody has.
func TestListsThatDependOnCapabilities(t *testing.T) {
	inBubble(t, Options{Poll: time.Hour}, func(b *bubble) {
		m := newMember("m", "modern")
		m.tools, m.bare = "t asks", "t"
		b.ask(m)
		synctest.Wait()
		able := Client{Caller: proxy.Caller{Principal: "ann"}, Caps: []byte(`{"sampling":{}}`)}
		sees := func(who Client) string {
			b.Helper()
			if err := b.Await(b.Context(), []string{"m"}, who, catalogue.Tools); err != nil {
				b.Fatal(err)
			}
			if own := b.Own([]string{"m"}, &who); len(own) > 0 {
				return shown(own[0])
			}
			return "catalogue " + b.shown("m")
		}
		for range 2 {
			for _, who := range []string{"ann", "bob"} {
				b.is(who, sees(Client{Caller: proxy.Caller{Principal: who}, Caps: []byte("{}")}), "there t")
			}
			b.is("able", sees(able), "there t asks")
			b.is("legacy", sees(Client{Legacy: true}), "catalogue there t asks")
		}
		b.is("read", m.at("bare tools/list"), "0 0")
		time.Sleep(ownTime)
		b.is("later", sees(able), "there t asks")
		b.is("not read again", m.at("tools/list"), "0 0")
		m.set(func() { m.tools, m.bare = "t asks more", "t more" })
		m.say(changedTools)
		synctest.Wait()
		b.is("changed", sees(Client{Caps: []byte("{}")}), "there t more")
		b.is("changed", sees(able), "there t asks more")
		changed := b.OwnChanged()
		m.serve("bare tools/list", fails(errors.New("down")))
		m.say(changedTools)
		synctest.Wait()
		b.is("not compared", sees(able), "there t asks more")
		m.serve("bare tools/list", nil)
		m.set(func() { m.bare = "" })
		m.say(changedTools)
		synctest.Wait()
		<-changed
		b.is("the same for all", sees(Client{Caps: []byte("{}")}), "catalogue there t asks more")
		b.is("the same for all", sees(able), "catalogue there t asks more")
	})
}

// The first list of a legacy client waits until the server is known, its legacy side looked for, and that read. A search that fails is made
// again after a minute, and nobody waits for it.
func TestSearchesForLegacySides(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "modern")
		m.Modern = func(context.Context) (bool, error) { time.Sleep(time.Second); return true, nil }
		var searches []string
		m.Dual = func(context.Context) (bool, error) {
			at := time.Since(b.began)
			searches = append(searches, fmt.Sprint(at))
			if time.Sleep(time.Second); at < time.Minute {
				return false, errors.New("down")
			}
			return true, nil
		}
		b.ask(m)
		for _, step := range []struct {
			at, takes time.Duration
			searches  string
		}{{0, 2 * time.Second, "[1s]"}, {2 * time.Second, 0, "[1s]"}, {62*time.Second - 1, 0, "[1s]"}, {62 * time.Second, 0, "[1s 1m2s]"}} {
			time.Sleep(time.Until(b.began.Add(step.at)))
			began := time.Now()
			if err := b.Await(b.Context(), []string{"m"}, Client{Legacy: true}, catalogue.Tools); err != nil {
				b.Fatal(err)
			}
			took := time.Since(began)
			if synctest.Wait(); took != step.takes || fmt.Sprint(searches) != step.searches || len(b.Own([]string{"m"}, &Client{Legacy: true})) != 0 {
				b.Errorf("at %v: it took %v, searched at %v", step.at, took, searches)
			}
		}
		time.Sleep(time.Second) // in which it is found
		synctest.Wait()
		if err := b.Await(b.Context(), []string{"m"}, Client{Legacy: true}, catalogue.Tools); err != nil {
			b.Fatal(err)
		}
		if own := b.Own([]string{"m"}, &Client{Legacy: true}); len(own) != 1 || shown(own[0]) != "there t" {
			b.Errorf("found: %v", own)
		}
	})
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "modern")
		m.Modern = func(context.Context) (bool, error) { time.Sleep(time.Second); return true, nil }
		m.Dual = func(context.Context) (bool, error) { time.Sleep(sideWait / 2); return true, nil }
		b.ask(m)
		if err := b.Await(b.Context(), []string{"m"}, Client{Legacy: true}, catalogue.Tools); err != nil || time.Since(b.began) != time.Second+sideWait/2 {
			b.Errorf("after %v: %v", time.Since(b.began), err)
		}
		if own := b.Own([]string{"m"}, &Client{Legacy: true}); len(own) != 1 || shown(own[0]) != "there t" {
			b.Errorf("at the first: %v", own)
		}
	})
	inBubble(t, Options{}, func(b *bubble) { // a child that starts slowly holds nobody up
		m := newMember("m", "modern")
		m.Dual = func(context.Context) (bool, error) { time.Sleep(3 * sideWait); return true, nil }
		b.ask(m)
		synctest.Wait()
		changed := b.OwnChanged()
		if err := b.Await(b.Context(), []string{"m"}, Client{Legacy: true}, catalogue.Tools); err != nil || time.Since(b.began) != sideWait {
			b.Errorf("after %v: %v", time.Since(b.began), err)
		}
		if own := b.Own([]string{"m"}, &Client{Legacy: true}); len(own) != 0 {
			b.Errorf("too early: %v", own)
		}
		<-changed
		if err := b.Await(b.Context(), []string{"m"}, Client{Legacy: true}, catalogue.Tools); err != nil || time.Since(b.began) != 3*sideWait {
			b.Errorf("found after %v: %v", time.Since(b.began), err)
		}
		if own := b.Own([]string{"m"}, &Client{Legacy: true}); len(own) != 1 || shown(own[0]) != "there t" {
			b.Errorf("once it is found: %v", own)
		}
	})
}

// A server that lists nothing to a client with all capabilities is not asked what it lists to others.
func TestEmptyListsAreNotCompared(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "modern")
		m.tools = ""
		b.ask(m)
		b.is("presence", b.shown("m"), "there")
		b.is("asked", m.at("bare tools/list"), "")
	})
}
