package lists

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Whoever must know what a server lists now waits while lists are read, after they were said to have changed and while the server is away.
func TestAwaitRead(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		inBubble(t, Options{}, func(b *bubble) {
			m := newMember("m", era)
			open := map[string]string{"legacy": "initialize", "modern": "server/discover"}[era]
			read, hold := 0, make(chan struct{})
			m.Read = func(context.Context) {
				read++
				<-hold
			}
			awaits := func(what string, want bool, took time.Duration) {
				b.Helper()
				began := time.Now()
				if got := b.AwaitRead(b.Context(), "m"); got != want || time.Since(began) != took {
					b.Errorf("%s, %s: %t after %v, want %t after %v", era, what, got, time.Since(began), want, took)
				}
			}
			awaits("no server", false, 0)
			m.serve(open, fails(proxy.Errf(proxy.Unreachable, "down")))
			b.ask(m)
			awaits("down", false, 5*time.Second)
			m.serve(open, nil)
			awaits("read, but nobody has taken note of it", false, 5*time.Second)
			close(hold)
			awaits("read", true, 0)
			m.serve("tools/list", says())
			m.say(changedTools)
			synctest.Wait()
			awaits("a list that has changed does not come", false, 5*time.Second)
			time.Sleep(6 * time.Second) // 10 s after it was asked for
			awaits("it did not come in time", false, 5*time.Second)
			m.serve("tools/list", nil)
			awaits("it is asked for again", true, 2*time.Second)
			began := read
			b.Heard("m", notice(t, changedTools))
			awaits("a client has heard of a change", true, 0)
			b.Heard("m", notice(t, `{"jsonrpc":"2.0","method":"notifications/message"}`))
			b.Heard("none", notice(t, changedTools))
			if synctest.Wait(); read != began+1 {
				b.Errorf("read %d times", read-began)
			}
			m.serve(open, fails(proxy.Errf(proxy.Unreachable, "down")))
			m.lose()
			synctest.Wait()
			awaits("lost", false, 5*time.Second)
			m.serve(open, nil)
			b.Seen("m", true)
			awaits("back", true, 0)
			ctx, cancel := context.WithCancel(b.Context())
			m.serve("tools/list", says())
			m.say(changedTools)
			synctest.Wait()
			cancel()
			if b.AwaitRead(ctx, "m") {
				b.Error("awaited by nobody")
			}
		})
	}
}

// A list that does not come in time beside others that do is asked for again after 8 s, and nobody takes what was known of it for true meanwhile.
func TestAwaitOverdueList(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "legacy")
		m.caps = `{"tools":{"listChanged":true},"prompts":{"listChanged":true}}`
		m.Read = func(context.Context) {}
		b.ask(m)
		synctest.Wait()
		m.forget()
		m.serve("tools/list", says())
		b.Reread("m")
		time.Sleep(11 * time.Second)
		if b.AwaitRead(b.Context(), "m") {
			b.Error("a list that did not come is known")
		}
		m.serve("tools/list", nil)
		began := time.Now()
		if !b.AwaitRead(b.Context(), "m") || time.Since(began) != 2*time.Second {
			b.Errorf("after %v", time.Since(began))
		}
		b.is("asked", m.at("tools/list"), "0 18")
	})
}

// A server whose lists somebody begins to take note of is read again, without another session.
func TestReadOfAKnownServer(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		m := newMember("m", "legacy")
		b.ask(m)
		synctest.Wait()
		m.forget()
		read := false
		m.Read = func(context.Context) { read = true }
		b.ask(m)
		if got := m.at(""); got != "0 tools/list" || !read {
			b.Errorf("asked %q, read %t", got, read)
		}
		b.ask(m)
		b.is("again", m.at(""), "0 tools/list")
	})
}

func notice(t *testing.T, raw string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// The log says what has changed of definitions, in one line for each reading, unless they are followed.
func TestChangedDefinitions(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		inBubble(t, Options{}, func(b *bubble) {
			m := newMember("m", "legacy")
			m.Quiet = quiet
			result := func(tools string) {
				m.serve("tools/list", says(`{"jsonrpc":"2.0","id":$ID,"result":{"tools":[`+tools+`]}}`))
				m.say(changedTools)
				synctest.Wait()
			}
			b.ask(m)
			synctest.Wait()
			result(`{"name":"a","description":"x"},{"name":"b","title":"x"},{"name":"c"}`)
			b.is("what is new", b.noted(), "")
			result(`{"name":"b","title":"y","inputSchema":{}},{"description":"y","name":"a"},{"name":"c","_meta":{}}`)
			want := "0 warn m: definitions of tools of a server have changed: b (title, inputSchema), a (description): <nil>"
			if quiet {
				want = ""
			}
			b.is("what has changed", b.noted(), want)
			result(`{"name":"b","title":"y","inputSchema":{}},{"description":"\u0079","name":"a"}`)
			b.is("what is the same", b.noted(), "")
			many, other := "", ""
			for i := range 12 {
				name := strings.Repeat("x", i+1)
				many += `{"name":"` + name + `","title":"1"},`
				other += `{"name":"` + name + `","title":"2"},`
			}
			result(many + `{"name":"\u001b\n"}`)
			b.noted()
			result(other + `{"name":"\u001b\n","title":"3"}`)
			if got, _, _ := strings.Cut(b.noted(), "\n"); !quiet && !strings.HasSuffix(got, "xxxxxxxxxx (title) and 3 more: <nil>") || strings.ContainsAny(got, "\x1b\n") {
				b.Errorf("many: %q", got)
			}
			m.serve("initialize", says(`{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-06-18","serverInfo":{},"instructions":"Other.","capabilities":{"tools":{}}}}`))
			m.lose()
			time.Sleep(time.Second)
			want = "the instructions of a server have changed"
			if got := b.noted(); strings.Contains(got, want) == quiet {
				b.Errorf("instructions: %q", got)
			}
		})
	}
}
