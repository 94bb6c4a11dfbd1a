package lists

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
)

// A server that cannot be reached is tried again after 1, 2, 4 and 8 s, then every minute, and the operator is told each time.
func TestPausesBetweenAttempts(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "legacy")
		m.serve("initialize", fails(proxy.Errf(proxy.Unreachable, "down")))
		b.ask(m)
		time.Sleep(200 * time.Second)
		b.is("attempts", m.at("initialize"), "0 1 3 7 15 75 135 195")
		if n := strings.Count(b.noted(), "down"); n != 8 {
			b.Errorf("%d notes", n)
		}
		b.Close()
		b.is("after the end", b.noted(), "")
	})
}

// A session that has lasted for longer than a minute makes the next pauses short again.
func TestPausesAfterALongSession(t *testing.T) {
	for lasts, want := range map[time.Duration]string{time.Minute: "63 67", time.Minute + time.Second: "63 65 69"} {
		inBubble(t, Options{Grace: time.Hour}, func(b *bubble) {
			m := newMember("m", "legacy")
			down := fails(proxy.Errf(proxy.Unreachable, "down"))
			m.serve("initialize", down)
			b.ask(m)
			b.is("first attempt", m.at("initialize"), "0")
			m.serve("initialize", nil)
			time.Sleep(time.Second + lasts)
			b.is("second attempt", b.shown("m"), "there t")
			m.forget()
			m.serve("initialize", down)
			m.lose()
			time.Sleep(8 * time.Second)
			b.is(lasts.String(), m.at("initialize"), want)
		})
	}
}

// The lists of a server that is lost are last known for the grace period, then left out, while the attempts go on. They are back with it.
func TestLostServersAreLeftOut(t *testing.T) {
	for _, grace := range []time.Duration{5 * time.Second, 15 * time.Second, 80 * time.Second} {
		inBubble(t, Options{Grace: grace}, func(b *bubble) {
			m := newMember("m", "legacy")
			b.ask(m)
			time.Sleep(10 * time.Second)
			b.is("read", b.shown("m"), "there t")
			m.serve("initialize", fails(proxy.Errf(proxy.Unreachable, "down")))
			m.forget()
			m.lose()
			b.is("lost", b.shown("m"), "away t")
			time.Sleep(grace - time.Millisecond)
			b.is("within the grace period", b.shown("m"), "away t")
			b.noted()
			time.Sleep(time.Millisecond)
			b.is("after the grace period", b.shown("m"), "out t")
			out := fmt.Sprint(10+int(grace.Seconds())) + " warn m: a server has been away for longer than the grace period"
			b.has(b.noted(), out)
			time.Sleep(time.Until(b.began.Add(91 * time.Second)))
			b.is("attempts", m.at("initialize"), "11 13 17 25 85")
			if text := b.noted(); strings.Contains(text, "grace") {
				b.Errorf("told twice: %s", text)
			}
			m.serve("initialize", nil)
			time.Sleep(time.Minute)
			b.is("back", b.shown("m"), "there t")
			m.lose()
			b.is("lost again", b.shown("m"), "away t")
		})
	}
}

// Health checks and calls find out that a server does not answer, or does again. It is then connected at once.
func TestServersThatAreSeen(t *testing.T) {
	for _, grace := range []time.Duration{time.Second / 2, time.Hour} { // both pauses
		inBubble(t, Options{Grace: grace}, func(b *bubble) {
			m := newMember("m", "legacy")
			b.ask(m)
			m.at("")
			b.Seen("unknown", true)
			b.Seen("unknown", false)
			b.Seen("m", true)
			time.Sleep(10 * time.Second)
			b.is("a server that is there", m.at("initialize"), "0")
			m.forget()
			b.Seen("m", false)
			b.is("does not answer", b.shown("m"), "away t")
			time.Sleep(time.Second / 4)
			b.Seen("m", true)
			b.is("answers", m.at("initialize"), "10.25")
			b.is("answers", b.shown("m"), "there t")
			if text := b.noted(); text != "" {
				b.Errorf("noted %s", text)
			}
			time.Sleep(time.Minute)
			b.is("once", m.at("initialize"), "10.25")
		})
	}
}

// Lists are read from time to time if the server does not say when they change, but a process that sleeps when it is idle is not woken.
func TestListsArePolled(t *testing.T) {
	for name, test := range map[string]struct {
		caps   string
		sleeps bool
		want   string
	}{
		"announced":     {`{"tools":{"listChanged":true}}`, false, "0"},
		"not announced": {`{"tools":{"listChanged":false}}`, false, "0 60 120"},
		"asleep":        {`{"tools":{}}`, true, "0"},
		"none":          {`{"prompts":{}}`, false, ""},
	} {
		inBubble(t, Options{Poll: time.Minute}, func(b *bubble) {
			m := newMember("m", "legacy")
			m.caps, m.Sleeps = test.caps, test.sleeps
			b.ask(m)
			time.Sleep(150 * time.Second)
			b.is(name, m.at("tools/list"), test.want)
		})
	}
}

// An empty list after a full one is asked for again after five seconds, and then believed; an empty one after an empty one at once.
func TestEmptyListsAreAskedForAgain(t *testing.T) {
	inBubble(t, Options{Poll: time.Hour}, func(b *bubble) {
		m := newMember("m", "modern")
		b.ask(m)
		says := func(tools string) {
			synctest.Wait()
			m.set(func() { m.tools = tools })
			m.say(changedTools)
		}
		says("")
		b.is("empty", b.shown("m"), "there t")
		time.Sleep(4 * time.Second)
		says("")
		b.is("said again within five seconds", b.shown("m"), "there t")
		time.Sleep(time.Second)
		b.is("read", m.at("tools/list"), "0 0 4 5")
		b.is("still empty", b.shown("m"), "there")
		b.is("noted", b.noted(), "5 warn m: the server has emptied its list of tools: <nil>")
		m.forget()
		says("")
		time.Sleep(10 * time.Second)
		b.is("empty before", m.at("tools/list"), "5")
		says("u")
		says("")
		time.Sleep(time.Second)
		says("u")
		time.Sleep(10 * time.Second)
		b.is("full again", b.shown("m"), "there u")
		b.is("full again", m.at("tools/list"), "5 15 15 16")
	})
}

// A list that the server refuses, or does not answer in time, stays as it was and hides no other. A session in which nothing is answered is lost.
func TestListsThatCannotBeRead(t *testing.T) {
	prompts := says(`{"jsonrpc":"2.0","id":$ID,"result":{"prompts":[{"name":"p"}]}}`)
	for name, test := range map[string]struct {
		tools, prompts proxy.Handler
		caps           string
		after          time.Duration
		want, note     string
		listed         int // prompts
	}{
		"refused":               {says(refused), prompts, `{"tools":{},"prompts":{}}`, 0, "there t", "0 warn m: a list of a server cannot be read; it stays as it was: upstream_bad_answer: the server answers tools/list with the error -32000 no", 1},
		"refused, the only one": {says(refused), nil, `{"tools":{}}`, 0, "there t", "a list of a server cannot be read", 0},
		"late":                  {says(), prompts, `{"tools":{},"prompts":{}}`, fetchTime, "there t", "10 warn m: a list of a server does not come in time; it stays as it was", 1},
		"late, the only one":    {says(), nil, `{"tools":{}}`, fetchTime, "away t", "10 warn m: the lists of a server cannot be refreshed", 0},
		"lost":                  {fails(proxy.Errf(proxy.Lost, "gone")), prompts, `{"tools":{},"prompts":{}}`, 0, "away t", "the lists of a server cannot be refreshed: upstream_lost: gone", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(b *bubble) {
				m := newMember("m", "legacy")
				m.caps = test.caps
				m.serve("tools/list", test.tools)
				m.serve("prompts/list", test.prompts)
				b.Catalogue().Keep(map[string]catalogue.Kept{"m": {Transport: "HTTP"}})
				b.Catalogue().SetList("m", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "t", Raw: []byte(`{"name":"t"}`)}}})
				b.ask(m)
				time.Sleep(test.after)
				b.is("shown", b.shown("m"), test.want)
				b.has(b.noted(), test.note)
				if l := b.Catalogue().Snapshot().Server("m").Lists[catalogue.Prompts]; l == nil && test.listed > 0 || l != nil && len(l.Items) != test.listed {
					b.Errorf("prompts %+v", l)
				}
			})
		})
	}
}

// A list that cannot be read later ends the session: it is opened again after a pause, and the lists are last known meanwhile.
func TestListsThatCannotBeReadAgain(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "legacy")
		b.ask(m)
		m.at("")
		m.serve("tools/list", fails(proxy.Errf(proxy.Lost, "gone")))
		m.say(changedTools)
		b.is("lost", b.shown("m"), "away t")
		b.has(b.noted(), "0 warn m: the lists of a server cannot be refreshed: upstream_lost: gone")
		m.serve("tools/list", nil)
		time.Sleep(time.Second)
		b.is("opened", m.at("initialize"), "0 1")
		b.is("opened", b.shown("m"), "there t")
	})
}

// A grace period that is made shorter, or longer, counts for servers that are away already.
func TestGraceChanges(t *testing.T) {
	for grace, want := range map[time.Duration]string{10 * time.Second: "out t", 2 * time.Hour: "away t"} {
		inBubble(t, Options{Grace: 90 * time.Second}, func(b *bubble) {
			m := newMember("m", "legacy")
			b.ask(m)
			synctest.Wait()
			m.serve("initialize", fails(proxy.Errf(proxy.Unreachable, "down")))
			m.lose()
			time.Sleep(12 * time.Second)
			b.is("lost", b.shown("m"), "away t")
			b.SetGrace(grace)
			time.Sleep(2 * time.Minute)
			b.is(grace.String(), b.shown("m"), want)
		})
	}
}

// Text that people do not see is noted once, for definitions that are new or have changed.
func TestDeceptiveDefinitions(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "legacy")
		m.tools = "a b\u200b"
		b.ask(m)
		synctest.Wait()
		b.is("first", b.noted(), `0 warn m: 1 new or changed tools of a server have text that people do not see: b\u200b, name: invisible character U+200B`)
		m.say(changedTools)
		synctest.Wait()
		b.is("unchanged", b.noted(), "")
		m.set(func() { m.tools = "a b\u200b c\u202e d\u202e" })
		m.say(changedTools)
		synctest.Wait()
		b.is("changed", b.noted(), `0 warn m: 2 new or changed tools of a server have text that people do not see: c\u202e, name: change of the direction of writing U+202E`)
	})
}
