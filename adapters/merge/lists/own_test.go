package lists

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
)

// shelf is a modern server whose tools a test sets; how often they were listed, and on whose behalf, it counts.
type shelf struct {
	reads  atomic.Int64
	before func(reads int64) // called when the tools are listed

	mu    sync.Mutex
	tools string
	fails error
}

func (s *shelf) set(tools string, fails error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.fails = tools, fails
}

func (s *shelf) do(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if !m.Is("tools/list") {
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(`{"capabilities":{"tools":{}}}`))), nil
	}
	s.mu.Lock()
	tools, fails := s.tools, s.fails
	s.mu.Unlock()
	if n := s.reads.Add(1); s.before != nil {
		s.before(n)
	}
	if fails != nil {
		return nil, fails
	}
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(strings.ReplaceAll(tools, "WHO", ex.Caller.Principal)))), nil
}

// shelved returns a Refresher with a shelf "s", whose callers with a principal have lists of their own. Nobody reads for the catalogue.
func shelved(t *testing.T) (*Refresher, *shelf) {
	t.Helper()
	c, err := catalogue.Open(t.Context(), catalogue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep(map[string]catalogue.Kept{"s": {Transport: "HTTP"}})
	r, s := New(Options{Catalogue: c, NewID: func() string { return "id" }}), &shelf{tools: `{"tools":[{"name":"WHO"}]}`}
	t.Cleanup(r.Close)
	one := r.newReader(&Server{Name: "s", Do: s.do, Modern: func(context.Context) (bool, error) { return true, nil }, Contextual: func(c proxy.Caller) bool { return c.Principal != "" }})
	one.ctx, one.stop = context.WithCancel(r.work.Context())
	t.Cleanup(one.stop)
	r.readers["s"] = one
	r.apart.Store(apart(r.readers))
	return r, s
}

// as returns a modern client.
func as(who string) Client { return *asking(who) }

func asking(who string) *Client { return &Client{Caller: proxy.Caller{Principal: who}} }

// sees returns the tools that a caller is shown, and how true they are.
func sees(r *Refresher, who string) string {
	own := r.Own([]string{"s", "other"}, asking(who))
	if len(own) != 1 {
		return fmt.Sprint(len(own), " servers")
	}
	return shown(own[0])
}

// shown returns the presence of a server, and its tools.
func shown(s *catalogue.Server) string {
	text := [...]string{"away", "there", "out"}[s.Presence]
	if l := s.Lists[catalogue.Tools]; l != nil {
		for _, item := range l.Items {
			text += " " + item.Key
		}
	}
	return text
}

func (r *Refresher) awaits(t *testing.T, who string) {
	t.Helper()
	if err := r.AwaitOwn(t.Context(), []string{"s"}, as(who)); err != nil {
		t.Fatal(err)
	}
}

// ownOf returns what is kept of a caller.
func (r *Refresher) ownOf(who string) *owned {
	client := as(who)
	return r.ownedBy([]string{"s"}, &client, true)[0]
}

// again makes the lists of a caller due.
func (o *owned) again() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.due = time.Time{}
}

// Requests that come at once wait for one reading; later ones need none.
func TestOwnListsAreReadOnce(t *testing.T) {
	r, s := shelved(t)
	if got := sees(r, "ann"); got != "away" {
		t.Errorf("before: %s", got)
	}
	if got := sees(r, ""); got != "0 servers" {
		t.Errorf("a caller without lists of its own: %s", got)
	}
	proceed := make(chan struct{})
	s.before = func(int64) { <-proceed }
	var group sync.WaitGroup
	o := r.ownOf("ann")
	for range 10 {
		wait := o.refresh(proxy.Caller{Principal: "ann"})
		if wait == nil {
			t.Fatal("nothing to wait for")
		}
		group.Go(func() { <-wait })
	}
	close(proceed)
	group.Wait()
	r.awaits(t, "ann")
	if got := sees(r, "ann"); got != "there ann" || s.reads.Load() != 1 {
		t.Errorf("%s, read %d times", got, s.reads.Load())
	}
	known := r.opt.Catalogue.Snapshot().Server("s")
	for _, who := range []string{"ann", "unread"} {
		if own := r.Own([]string{"s"}, asking(who))[0]; own.ID != known.ID || own.Transport != known.Transport {
			t.Errorf("%s: %+v is not the server %+v", who, own, known)
		}
	}
	r.awaits(t, "bob")
	if ann, bob := sees(r, "ann"), sees(r, "bob"); ann != "there ann" || bob != "there bob" {
		t.Errorf("ann sees %s, bob %s", ann, bob)
	}
}

// Lists are believed for as long as the server allows, for five minutes at most.
func TestOwnListsGrowOld(t *testing.T) {
	for hints, want := range map[string]time.Duration{``: ownTime, `,"ttlMs":0`: ownTime, `,"ttlMs":2000`: 2 * time.Second, `,"ttlMs":3600000`: ownTime} {
		r, s := shelved(t)
		s.set(`{"tools":[{"name":"x"}]`+hints+`}`, nil)
		r.awaits(t, "ann")
		o := r.ownOf("ann")
		if got := o.due.Sub(o.began); got != want {
			t.Errorf("%q: %s", hints, got)
		}
		if own := r.Own([]string{"s"}, asking("ann"))[0]; !own.Lists[catalogue.Tools].Private || own.Lists[catalogue.Prompts] == nil || len(own.Lists[catalogue.Prompts].Items) != 0 {
			t.Errorf("%q: %+v", hints, own)
		}
		o.again()
		r.awaits(t, "ann")
		if s.reads.Load() != 2 {
			t.Errorf("%q: read %d times", hints, s.reads.Load())
		}
	}
}

// What was read again for the catalogue, as when a server says that a list has changed, is read again for callers.
func TestOwnListsFollowTheCatalogue(t *testing.T) {
	r, s := shelved(t)
	r.awaits(t, "ann")
	r.opt.Catalogue.SetList("s", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "x", Raw: []byte(`{"name":"x"}`)}}})
	r.awaits(t, "ann")
	r.awaits(t, "ann")
	if s.reads.Load() != 2 {
		t.Errorf("read %d times", s.reads.Load())
	}
}

// Lists of a server that was lost since they were read are read again.
func TestOwnListsOfALostServer(t *testing.T) {
	r, s := shelved(t)
	r.awaits(t, "ann")
	r.opt.Catalogue.SetPresence("s", catalogue.There)
	r.awaits(t, "ann")
	if s.reads.Load() != 1 {
		t.Errorf("read %d times while the server is there", s.reads.Load())
	}
	r.opt.Catalogue.SetPresence("s", catalogue.Away)
	r.awaits(t, "ann")
	r.awaits(t, "ann")
	if s.reads.Load() != 2 {
		t.Errorf("read %d times", s.reads.Load())
	}
}

// Lists that cannot be read for longer than the grace period are left out, and those that listen are told.
func TestOwnListsAreLeftOut(t *testing.T) {
	r, s := shelved(t)
	r.awaits(t, "ann")
	s.set("", errors.New("down"))
	o, ann := r.ownOf("ann"), proxy.Caller{Principal: "ann"}
	attempt := func(want string) {
		t.Helper()
		o.again()
		o.refresh(ann)
		if o.settled(); sees(r, "ann") != want {
			t.Errorf("%s, want %s", sees(r, "ann"), want)
		}
	}
	attempt("away ann")
	attempt("away ann")
	changed := r.OwnChanged()
	past := *o.shown.Load()
	past.Since = past.Since.Add(-graceTime)
	o.shown.Store(&past)
	attempt("out ann")
	<-changed
	changed = r.OwnChanged()
	s.set(`{"tools":[{"name":"ann"}]}`, nil)
	attempt("there ann")
	<-changed
}

// After a failure a caller is shown what it was shown last, and nobody waits for the server until it answers again.
func TestOwnListsThatCannotBeRead(t *testing.T) {
	r, s := shelved(t)
	r.awaits(t, "ann")
	s.set("", errors.New("down"))
	o := r.ownOf("ann")
	for n, want := range []time.Duration{time.Second, 2 * time.Second} {
		o.again()
		if wait := o.refresh(proxy.Caller{Principal: "ann"}); (wait != nil) != (n == 0) {
			t.Errorf("attempt %d is waited for: %v", n, wait != nil)
		}
		o.settled()
		if got := sees(r, "ann"); got != "away ann" || o.pause != want || time.Until(o.due) > want {
			t.Errorf("after failure %d: %s, the next attempt in %s, a pause of %s", n, got, time.Until(o.due), o.pause)
		}
		if r.awaits(t, "ann"); s.reads.Load() != int64(n)+2 {
			t.Errorf("read %d times within the pause", s.reads.Load())
		}
		r.Changed("s", as("ann"))
		if o.settled(); s.reads.Load() != int64(n)+2 {
			t.Errorf("a notice within the pause: read %d times", s.reads.Load())
		}
	}
	s.set(`{"tools":[{"name":"back"}]}`, nil)
	o.again()
	changed := r.OwnChanged()
	r.awaits(t, "ann")
	<-changed
	if o.settled(); sees(r, "ann") != "there back" || o.pause != 0 {
		t.Errorf("back: %s, a pause of %s", sees(r, "ann"), o.pause)
	}
	if got := sees(r, "bob"); got != "away" {
		t.Errorf("another caller sees %s", got)
	}
}

// Who has been shown nothing is told when a server has lists for it after all; the first reading itself is no change.
func TestOwnListsThatAreReadFirst(t *testing.T) {
	r, s := shelved(t)
	changed := r.OwnChanged()
	r.awaits(t, "ann")
	select {
	case <-changed:
		t.Error("the first reading is said to be a change")
	default:
	}
	s.set("", errors.New("down"))
	r.awaits(t, "bob")
	o := r.ownOf("bob")
	o.settled()
	if s := r.Own([]string{"s"}, asking("bob"))[0]; Unread(s) || s.Lists[catalogue.Tools] != nil {
		t.Errorf("%+v", s)
	}
	s.set(`{"tools":[{"name":"WHO"}]}`, nil)
	o.again()
	o.refresh(proxy.Caller{Principal: "bob"})
	<-changed
	if o.settled(); sees(r, "bob") != "there bob" {
		t.Errorf("%s", sees(r, "bob"))
	}
}

// settled waits until nobody reads.
func (o *owned) settled() {
	for {
		o.mu.Lock()
		now := o.reading
		o.mu.Unlock()
		if now == nil {
			return
		}
		<-now.done
	}
}

// A change that the server announces while its lists are being read is not lost.
func TestOwnListsThatChangeMeanwhile(t *testing.T) {
	r, s := shelved(t)
	ann := proxy.Caller{Principal: "ann"}
	s.before = func(n int64) {
		if n == 1 {
			s.set(`{"tools":[{"name":"new"}]}`, nil)
			r.Changed("s", Client{Caller: ann})
		}
	}
	r.awaits(t, "ann")
	if r.ownOf("ann").settled(); sees(r, "ann") != "there new" || s.reads.Load() != 2 {
		t.Errorf("%s, read %d times", sees(r, "ann"), s.reads.Load())
	}
	changed := r.OwnChanged()
	s.set(`{"tools":[{"name":"newer"}]}`, nil)
	r.Changed("s", Client{Caller: ann})
	<-changed
	if got := sees(r, "ann"); got != "there newer" {
		t.Errorf("%s", got)
	}
	changed = r.OwnChanged()
	r.Changed("s", Client{Caller: ann})
	r.ownOf("ann").settled()
	select {
	case <-changed:
		t.Error("lists that stay the same are said to have changed")
	default:
	}
}

// Lists that take long to read are the last known ones meanwhile.
func TestOwnListsThatComeLate(t *testing.T) {
	r, s := shelved(t)
	r.awaits(t, "ann")
	proceed := make(chan struct{})
	s.before = func(int64) { <-proceed }
	o := r.ownOf("ann")
	o.again()
	wait := o.refresh(proxy.Caller{Principal: "ann"})
	o.late()
	if got := sees(r, "ann"); got != "away ann" {
		t.Errorf("%s", got)
	}
	o.mu.Lock()
	o.reading.began = o.reading.began.Add(-ownWait)
	o.mu.Unlock()
	if again := o.refresh(proxy.Caller{Principal: "ann"}); again != nil {
		t.Error("a reading that takes too long is waited for")
	}
	close(proceed)
	<-wait
	if o.late(); sees(r, "ann") != "there ann" {
		t.Errorf("%s", sees(r, "ann"))
	}
}

// The callers that are remembered are bounded, in number and in bytes; what all are shown is kept once.
func TestOwnListsAreBounded(t *testing.T) {
	many, _ := shelved(t)
	for i := range maxOwn + 10 {
		many.awaits(t, fmt.Sprint("caller ", i))
	}
	own := many.readers["s"].own
	if got := sees(many, "caller 0"); got != "away" || own.Len() != maxOwn || !own.Contains(audience{caller: as("caller 10").Identity()}) {
		t.Errorf("a caller that is forgotten sees %s, and a look has made %d callers known", got, own.Len())
	}
	if own.Len() != maxOwn || own.Contains(audience{caller: as("caller 0").Identity()}) {
		t.Errorf("%d callers", own.Len())
	}
	r, s := shelved(t)
	r.opt.Catalogue.SetList("s", catalogue.Tools, catalogue.List{})
	tool := `{"name":"WHO","description":"` + strings.Repeat("x", 1000) + `"}`
	r.maxOwnBytes = 2 * len(strings.Replace(tool, "WHO", "a", 1))
	s.set(`{"tools":[`+tool+`]}`, nil)
	for _, who := range []string{"a", "b", "c"} {
		r.awaits(t, who)
	}
	if own := r.readers["s"].own; own.Len() != 2 || sees(r, "c") != "there c" {
		t.Errorf("%d callers; the newest sees %s", own.Len(), sees(r, "c"))
	}
	r.maxOwnBytes = 1
	if r.awaits(t, "d"); sees(r, "d") != "there d" {
		t.Errorf("a caller whose lists alone are too much sees %s", sees(r, "d"))
	}
	r, s = shelved(t)
	r.maxOwnBytes = 100
	raw := `{"name":"x","description":"` + strings.Repeat("x", 1000) + `"}`
	r.opt.Catalogue.SetList("s", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "x", Raw: []byte(raw)}}})
	s.set(`{"tools":[`+raw+`]}`, nil)
	for _, who := range []string{"a", "b", "c"} {
		r.awaits(t, who)
	}
	if own := r.readers["s"].own; own.Len() != 3 {
		t.Errorf("of what all are shown %d copies are kept", own.Len())
	}
}

// A list that the server refuses to a caller stays as it was; if it is the only one, none could be read.
func TestOwnListsThatAreRefused(t *testing.T) {
	for caps, want := range map[string]string{`{"tools":{}}`: "away ann", `{"tools":{},"prompts":{}}`: "there ann"} {
		inBubble(t, Options{}, func(b *bubble) {
			m := newMember("m", "legacy")
			m.caps, m.tools = caps, "ann"
			m.Contextual = func(proxy.Caller) bool { return true }
			b.ask(m)
			b.awaitsOwn("m")
			m.serve("tools/list", says(refused))
			b.Changed("m", Client{})
			b.is(caps, b.owns("m"), want)
		})
	}
}

// Lists that cannot be read are left out when the grace period ends, and not before.
func TestOwnListsThroughTheGracePeriod(t *testing.T) {
	for wait, want := range map[time.Duration]string{time.Minute - time.Millisecond: "away t", time.Minute: "out t"} {
		inBubble(t, Options{Grace: time.Minute}, func(b *bubble) {
			m := newMember("m", "legacy")
			m.Contextual = func(proxy.Caller) bool { return true }
			b.ask(m)
			b.awaitsOwn("m")
			m.serve("tools/list", fails(errors.New("down")))
			b.Changed("m", Client{})
			b.is("lost", b.owns("m"), "away t")
			time.Sleep(wait)
			b.awaitsOwn("m")
			b.is(wait.String(), b.owns("m"), want)
		})
	}
}
