package lists

import (
	"context"
	"testing"
	"time"

	"dragoman/proxy"
)

// A server of either era is described as it describes itself, and its lists are read. Servers of the legacy era are told that the handshake
// is over.
func TestServersAreRead(t *testing.T) {
	for era, want := range map[string]string{
		"legacy": "0 initialize 0 notifications/initialized 0 tools/list",
		"modern": "0 server/discover 0 subscriptions/listen 0 tools/list 0 bare tools/list",
	} {
		inBubble(t, Options{}, func(b *bubble) {
			m := newMember("m", era)
			b.ask(m)
			b.is(era, m.at(""), want)
			b.is(era, b.shown("m"), "there t")
			d := b.Catalogue().Snapshot().Server("m").Description
			revision := map[string]string{"legacy": "2025-06-18", "modern": "2026-07-28"}[era]
			if d.Revision != revision || string(d.Info) != `{"name":"m","version":"2"}` || d.Instructions != "Ask." || string(d.Capabilities) != m.caps {
				b.Errorf("%s: %s %s %q %s", era, d.Revision, d.Info, d.Instructions, d.Capabilities)
			}
			b.Close()
			if m.session != nil && m.session.State() != proxy.Closed {
				b.Errorf("%s: after the end the session is %v", era, m.session.State())
			}
			b.is(era, b.noted(), "")
		})
	}
}

// An operator is told why a server cannot be read; it is not shown as there, and its session ends.
func TestServersThatCannotBeRead(t *testing.T) {
	lost := fails(proxy.Errf(proxy.Lost, "killed"))
	for name, test := range map[string]struct {
		era, method string
		by          proxy.Handler
		note        string
	}{
		"handshake refused":        {"legacy", "initialize", says(refused), "the server refuses the session: -32000 no"},
		"handshake lost":           {"legacy", "initialize", lost, "killed"},
		"handshake without answer": {"legacy", "initialize", says(), proxy.ErrNotYet.Error()},
		"list lost":                {"legacy", "tools/list", lost, "killed"},
		"description refused":      {"modern", "server/discover", says(refused), "the server refuses server/discover: -32000 no"},
		"description lost":         {"modern", "server/discover", lost, "killed"},
		"listen lost":              {"modern", "subscriptions/listen", lost, "killed"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(b *bubble) {
				m := newMember("m", test.era)
				m.serve(test.method, test.by)
				b.ask(m)
				if name == "handshake without answer" {
					time.Sleep(openTime)
				}
				b.has(b.noted(), "warn m: the lists of a server cannot be refreshed", test.note)
				b.is("presence", b.shown("m"), "away")
				if m.session != nil && m.session.State() != proxy.Closed {
					b.Errorf("the session is %v", m.session.State())
				}
			})
		})
	}
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "legacy")
		m.Modern = func(ctx context.Context) (bool, error) { <-ctx.Done(); return false, ctx.Err() }
		b.ask(m)
		b.is("at once", b.noted(), "")
		time.Sleep(openTime)
		b.has(b.noted(), "30 warn m: the lists of a server cannot be refreshed")
		b.is("received", m.at(""), "")
	})
}

// A change that a server announces makes the list concerned be read again, and no other.
func TestAnnouncedChanges(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		inBubble(t, Options{}, func(b *bubble) {
			m := newMember("m", era)
			m.caps = `{"tools":{"listChanged":true},"prompts":{"listChanged":true}}`
			b.ask(m)
			m.forget()
			time.Sleep(2 * time.Second)
			m.set(func() { m.tools = "t u" })
			m.say(changedTools)
			b.is(era, m.at(""), map[string]string{"legacy": "2 tools/list", "modern": "2 tools/list 2 bare tools/list"}[era])
			b.is(era, b.shown("m"), "there t u")
		})
	}
}

// The sessions that read on behalf of a caller are for that only: what the server announces there makes nobody read for the catalogue.
func TestSessionsForCallersAreShort(t *testing.T) {
	for era, want := range map[string]string{
		"legacy": "0 initialize 0 notifications/initialized 0 tools/list",
		"modern": "0 server/discover 0 tools/list",
	} {
		inBubble(t, Options{}, func(b *bubble) {
			m := newMember("m", era)
			m.Contextual = func(c proxy.Caller) bool { return c.Principal != "" }
			b.ask(m)
			m.forget()
			if era == "legacy" {
				m.serve("tools/list", says(changedTools, `{"jsonrpc":"2.0","id":$ID,"result":`+toolsResult("own")+`}`))
			}
			ann := as("ann")
			if err := b.Await(b.Context(), []string{"m"}, ann, 0); err != nil {
				b.Fatal(err)
			}
			b.is(era, m.at(""), want)
			if m.session != nil && m.session.State() != proxy.Closed {
				b.Errorf("the session is %v", m.session.State())
			}
		})
	}
}

// A question to Dragoman's own session is refused, in a call and outside of calls; a notification is answered with nothing.
func TestQuestionsAreRefused(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "legacy")
		m.serve("tools/list", says(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`,
			`{"jsonrpc":"2.0","id":$ID,"result":{"tools":[]}}`))
		b.ask(m)
		b.is("in a call", m.at(""), `0 initialize 0 notifications/initialized 0 tools/list 0 "q" -32601`)
		m.forget()
		m.say(`{"jsonrpc":"2.0","id":"later","method":"sampling/createMessage","params":{}}`)
		m.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
		m.say(`no message`)
		b.is("outside of calls", m.at(""), `0 "later" -32601`)
	})
}

// A modern server is listened to if it announces something and does not sleep when it is idle.
func TestListens(t *testing.T) {
	for name, test := range map[string]struct {
		caps   string
		sleeps bool
		want   string
	}{
		"announces":         {`{"tools":{"listChanged":true}}`, false, "0"},
		"announces nothing": {`{"tools":{}}`, false, ""},
		"sleeps":            {`{"tools":{"listChanged":true}}`, true, ""},
	} {
		inBubble(t, Options{}, func(b *bubble) {
			m := newMember("m", "modern")
			m.caps, m.Sleeps = test.caps, test.sleeps
			b.ask(m)
			b.is(name, m.at("subscriptions/listen"), test.want)
			b.is(name, b.shown("m"), "there t")
		})
	}
}

// A server that refuses the listen is asked for its lists from time to time. One whose listen ends later is connected again.
func TestListensThatEnd(t *testing.T) {
	acknowledged := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`
	for name, test := range map[string]struct {
		by              proxy.Handler
		discovers, read string // the seconds, of ninety
	}{
		"refused":              {says(refused), "0", "0 60"},
		"ended":                {says(`{"jsonrpc":"2.0","id":$ID,"result":{}}`), "0 1 3 7 15 75", "0 1 3 7 15 75"},
		"acknowledged, failed": {says(acknowledged, refused), "0 1 3 7 15 75", "0 1 3 7 15 75"},
	} {
		inBubble(t, Options{Poll: time.Minute}, func(b *bubble) {
			m := newMember("m", "modern")
			m.serve("subscriptions/listen", test.by)
			b.ask(m)
			time.Sleep(90 * time.Second)
			b.is(name, m.at("server/discover"), test.discovers)
			b.is(name, m.at("tools/list"), test.read)
		})
	}
}
