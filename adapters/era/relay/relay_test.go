package relay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

const v2511, v2506, v2503 = "2025-11-25", "2025-06-18", "2025-03-26"

const notYet = "internal" // the name of proxy.ErrNotYet, which is no *proxy.Error

// Messages pass unchanged both ways, each client over a link of its own.
func TestRelayPasses(t *testing.T) {
	relaying(t, 0, func(t *testing.T, r *rig) {
		a, b := r.connect("a", v2511), r.connect("b", v2506)
		if r.x.Len() != 2 || r.x.get(a.session.ID) == nil || r.x.get("nobody") != nil {
			t.Errorf("%d relays", r.x.Len())
		}
		r.is("the server received", r.s.link(1).received(), []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`})
		r.s.link(0).received()
		if got := a.call("tools/list", `{"a":1}`); got != `{"jsonrpc":"2.0","id":7,"result":{"link":0}}` {
			t.Error(got)
		}
		if got := b.call("x/y", `{}`); got != `{"jsonrpc":"2.0","id":7,"result":{"link":1}}` {
			t.Error(got)
		}
		a.sends(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		a.sends(`{"jsonrpc":"2.0","id":"q","result":{}}`)
		r.is("the server received", r.s.link(0).received(), []string{`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"a":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, `{"jsonrpc":"2.0","id":"q","result":{}}`})
		if got := a.call("server/discover", `{}`); got != proxy.MethodNotFound.Name {
			t.Error(got)
		}
		if got := a.call("tools/call", `{"name":"a"}`); !strings.Contains(got, "result") {
			t.Error(got)
		}
		r.is("the server received", r.s.link(0).received(), []string{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{}}}`})
		if _, ok, _ := r.x.Do(r.newClient("nobody", v2511).initialize()); ok {
			t.Error("a session without a relay has one")
		}
		a.session.End(proxy.Closed)
		synctest.Wait()
		if r.x.Len() != 1 || r.s.open() != 1 {
			t.Errorf("%d relays, %d links", r.x.Len(), r.s.open())
		}
	})
}

// A relay opens over HTTP+SSE if the server speaks that. An error of opening it becomes the error of initialize.
func TestRelayOpens(t *testing.T) {
	relaying(t, 0, func(t *testing.T, r *rig) {
		c := r.newClient("a", "2024-11-05")
		replies, err := r.x.Open(c.initialize(), r.x.server.Wires.SSE)
		if err != nil || !r.s.link(0).sse {
			t.Fatal(err, "no SSE")
		}
		_ = replies.Close() // the handshake has failed
		synctest.Wait()
		if r.x.Len() != 0 || r.s.open() != 0 {
			t.Errorf("%d relays, %d links", r.x.Len(), r.s.open())
		}
		r.s.down = &transport.StatusError{Status: 503}
		if _, err := r.x.Open(c.initialize(), r.x.server.Wires.Legacy); err == nil || proxy.AsError(err).Name != proxy.Overloaded.Name {
			t.Errorf("%v", err)
		}
		r.s.down = nil
		for _, c := range []struct {
			err  error
			want string
			bad  bool
		}{{proxy.Errf(proxy.Unreachable, "down"), proxy.Unreachable.Name, false}, {&transport.StatusError{Status: 404}, proxy.HTTPStatus.Name, false}} {
			r.s.fails["initialize"] = c.err
			client := r.newClient("b", v2511)
			if _, err := r.x.Open(client.initialize(), r.x.server.Wires.Legacy); err == nil || proxy.AsError(err).Name != c.want {
				t.Errorf("%v", err)
			}
			client.session.End(proxy.Closed)
		}
		delete(r.s.fails, "initialize")
		// a server that has become modern contradicts its profile
		for answer, want := range map[string]int{
			`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`: 1,
			`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32022,"message":"no","data":{"supported":["2199-01-01"]}}}`: 0,
			`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"no","data":{"supported":["2026-07-28"]}}}`: 0,
			"status": 1,
			"broken": 0,
		} {
			r.s.on["initialize"], r.forgot = []string{answer}, 0
			client := r.newClient("c", v2511)
			replies, err := r.x.Open(client.initialize(), r.x.server.Wires.Legacy)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = replies.Next(time.Time{})
			_ = replies.Close()
			if r.forgot != want {
				t.Errorf("%s: the profile was forgotten %d times, want %d", answer, r.forgot, want)
			}
			client.session.End(proxy.Closed)
		}
		r.group.Close()
		if _, err := r.x.Open(r.newClient("d", v2511).initialize(), r.x.server.Wires.Legacy); err == nil || proxy.AsError(err).Name != proxy.ShuttingDown.Name {
			t.Errorf("%v", err)
		}
	})
}

// What belongs to no call goes to the client's stream. Without one it waits, except for what may belong to a call on a shared channel.
func TestRelayOutsideCalls(t *testing.T) {
	const request, log, changed = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`
	for _, channel := range []bool{false, true} {
		relaying(t, 0, func(t *testing.T, r *rig) {
			r.s.channel = channel
			c := r.connect("a", v2511)
			l := r.s.link(0)
			l.received()
			takes := func(msg string, want bool) {
				t.Helper()
				if got := l.sink.Message(fakeserver.Scan(t, msg)); got != want {
					t.Errorf("channel %v, %d in flight: %s taken: %v", channel, r.s.busy, msg, got)
				}
			}
			takes(`{"jsonrpc":"2.0","id":"p","method":"ping"}`, true)
			r.is("the server received", l.received(), []string{`{"jsonrpc":"2.0","id":"p","result":{}}`})
			takes(request, true)
			r.s.set(func() { r.s.busy = 1 })
			for _, msg := range []string{request, log, cancelled} {
				takes(msg, !channel)
			}
			takes(changed, true)
			takes(changed, true)
			c.session.SetOutlet(c.out)
			want := []string{request, changed}
			if !channel {
				want = []string{request, request, log, cancelled, changed}
			}
			r.is("the client received", c.received(), want)
			for _, msg := range []string{request, log, changed} {
				takes(msg, true)
			}
			r.is("the client received", c.received(), []string{request, log, changed})
			r.is("the server received", l.received(), nil)
		})
	}
}

// The loss of the link ends the session: the client's next request would report it. The profile of a server that others run is
// forgotten, since another may take its place.
func TestRelayLost(t *testing.T) {
	for lost, want := range map[error]string{errors.New("x"): proxy.Lost.Name, proxy.Errf(proxy.SessionLost, "gone"): proxy.SessionLost.Name} {
		relaying(t, 0, func(t *testing.T, r *rig) {
			c := r.connect("a", v2511)
			ex, _, err := c.begin("tools/list", `{}`)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			if err := c.session.Begin(ex); err != nil {
				t.Fatal(err)
			}
			r.s.link(0).sink.Lost(lost)
			<-ex.Done()
			ended <- ex.Err()
			synctest.Wait()
			if err := <-ended; proxy.AsError(err).Name != want || c.session.State() != proxy.Closed || r.x.Len() != 0 || r.s.open() != 0 || r.forgot != 1 {
				t.Errorf("%v: the session is %v, %v; %d links, forgotten %d times", lost, c.session.State(), err, r.s.open(), r.forgot)
			}
			if len(r.noted) != 1 || !strings.HasPrefix(r.noted[0], "warn ") {
				t.Errorf("noted %q", r.noted)
			}
		})
	}
}

// A server that does not know the session any more ends the client's session, with an error that says what to do. The request was not
// processed, unless another one was refused while it ran.
func TestRelaySessionLost(t *testing.T) {
	for _, how := range []string{"call", "reply", "reply after another"} {
		relaying(t, 0, func(t *testing.T, r *rig) {
			c := r.connect("a", v2511)
			switch how {
			case "call":
				r.s.fails["tools/list"] = proxy.Errf(proxy.SessionLost, "unknown session")
			case "reply":
				r.s.on["tools/list"] = []string{"lost"}
			default:
				r.s.on["tools/list"] = nil // it runs
			}
			ex, replies, err := c.begin("tools/list", `{}`)
			if how == "reply after another" {
				ex.Cancel(proxy.Errf(proxy.SessionLost, "by another"))
			}
			if err == nil {
				_, err = replies.Next(time.Time{})
				_ = replies.Close()
			}
			var e *proxy.Error
			if !errors.As(err, &e) || e.Name != proxy.SessionLost.Name || strings.Count(e.Message, "send initialize to open a new one") != 1 || c.session.State() != proxy.Closed {
				t.Errorf("%s: %v; the session is %v", how, err, c.session.State())
			}
			if again := (&relay{session: c.session}).fault(err); again != err {
				t.Errorf("%v became %v", err, again)
			}
			if want := how != "reply after another"; ex.NotProcessed != want {
				t.Errorf("%s: not processed %v", how, ex.NotProcessed)
			}
		})
	}
	relaying(t, 0, func(t *testing.T, r *rig) { // other errors leave the session alone
		c := r.connect("a", v2511)
		r.s.fails["tools/list"] = &transport.StatusError{Status: 404}
		r.s.on["prompts/list"] = []string{"broken"}
		r.s.on["tools/call"] = []string{"status"}
		for method, want := range map[string]string{"tools/list": proxy.HTTPStatus.Name, "prompts/list": proxy.Lost.Name, "tools/call": proxy.HTTPStatus.Name} {
			ex, replies, err := c.begin(method, `{}`)
			if err == nil {
				_, err = replies.Next(time.Time{})
			}
			if proxy.AsError(err).Name != want || c.session.State() != proxy.Initialized || ex.NotProcessed || r.forgot != 0 {
				t.Errorf("%s: %v; the session is %v, forgotten %d times", method, err, c.session.State(), r.forgot)
			}
		}
	})
}

// A question on the stream of a call reaches the client, and its answer the server. If the call is cancelled the question is withdrawn,
// and a late answer is dropped: the server would take it for the user's.
func TestRelayQuestions(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
	const withdrawn = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"the request in which this was asked has ended"}}`
	const answer = `{"jsonrpc":"2.0","id":"q","error":{"code":-1,"message":"cancelled"}}`
	const result = `{"jsonrpc":"2.0","id":7,"result":{}}`
	asks := func(r *rig, c *client, more ...string) (*proxy.Exchange, proxy.Replies) {
		r.s.on["tools/call"] = append([]string{`{"jsonrpc":"2.0","id":"p","method":"ping"}`, question}, more...)
		ex, replies, err := c.begin("tools/call", `{"name":"a","arguments":{}}`)
		if err != nil {
			r.t.Fatal(err)
		}
		r.s.link(0).received()
		return ex, replies
	}
	relaying(t, 0, func(t *testing.T, r *rig) { // cancelled
		c := r.connect("a", v2511)
		ex, replies := asks(r, c)
		got, name := next(replies)
		r.is("the client received", got, []string{question})
		if name != notYet {
			t.Error(name)
		}
		r.is("the server received", r.s.link(0).received(), []string{`{"jsonrpc":"2.0","id":"p","result":{}}`})
		ex.Cancel(proxy.ErrCancelled)
		got, name = next(replies)
		r.is("the client received", got, []string{withdrawn})
		if name != "cancelled" {
			t.Error(name)
		}
		_ = replies.Close()
		c.sends(answer)
		r.is("the server received", r.s.link(0).received(), nil)
		c.sends(answer) // of another question with this id
		r.is("the server received", r.s.link(0).received(), []string{answer})
	})
	relaying(t, 0, func(t *testing.T, r *rig) { // closed without being read on
		c := r.connect("a", v2511)
		c.session.SetOutlet(c.out)
		ex, replies := asks(r, c)
		_, _ = next(replies)
		ex.Cancel(proxy.ErrCancelled)
		_ = replies.Close()
		r.is("the client received", c.received(), []string{withdrawn})
	})
	relaying(t, 0, func(t *testing.T, r *rig) { // answered, withdrawn by the server, or ended
		c := r.connect("a", v2511)
		c.session.SetOutlet(c.out)
		ex, replies := asks(r, c)
		_, _ = next(replies)
		c.sends(answer)
		r.is("the server received", r.s.link(0).received(), []string{`{"jsonrpc":"2.0","id":"p","result":{}}`, answer})
		ex.Cancel(proxy.ErrCancelled)
		_ = replies.Close()
		r.is("the client received", c.received(), nil)
		ex, replies = asks(r, c, withdrawn)
		got, _ := next(replies)
		r.is("the client received", got, []string{question, withdrawn})
		ex.Cancel(proxy.ErrCancelled)
		_ = replies.Close()
		r.is("the client received", c.received(), nil)
		_, replies = asks(r, c, result)
		got, _ = next(replies)
		r.is("the client received", got, []string{question, result})
		_ = replies.Close()
		r.is("the client received", c.received(), nil)
		c.sends(answer)
		r.is("the server received", r.s.link(0).received(), []string{`{"jsonrpc":"2.0","id":"p","result":{}}`, answer})
	})
	relaying(t, 0, func(t *testing.T, r *rig) { // on a channel the server can still withdraw it
		r.s.channel = true
		c := r.connect("a", v2511)
		ex, replies := asks(r, c)
		_, _ = next(replies)
		ex.Cancel(proxy.ErrCancelled)
		got, _ := next(replies)
		r.is("the client received", got, nil)
		_ = replies.Close()
		r.s.link(0).received()
		c.sends(answer)
		r.is("the server received", r.s.link(0).received(), []string{answer})
	})
	relaying(t, 0, func(t *testing.T, r *rig) { // questions of another call stay, and all is bounded
		c := r.connect("a", v2511)
		_, other := asks(r, c)
		_, _ = next(other)
		var many []string
		for i := range maxOpen + 5 {
			many = append(many, strings.Replace(question, `"q"`, fmt.Sprint(i), 1))
		}
		ex, replies := asks(r, c, many...)
		_, _ = next(replies)
		ex.Cancel(proxy.ErrCancelled)
		got, _ := next(replies)
		if len(got) != maxOpen {
			t.Errorf("%d questions were withdrawn", len(got))
		}
		_ = replies.Close()
		if n := len(r.x.get(c.session.ID).withdrawn); n != maxOpen {
			t.Errorf("%d withdrawn questions are known", n)
		}
		_ = other.Close()
		ex, replies = asks(r, c)
		_, _ = next(replies)
		ex.Cancel(proxy.ErrCancelled)
		if got, _ = next(replies); len(got) != 1 {
			t.Errorf("%q", got)
		}
		_ = replies.Close()
		if n := len(r.x.get(c.session.ID).withdrawn); n != maxOpen {
			t.Errorf("%d withdrawn questions are known", n)
		}
	})
}

// What the client's revision cannot express, or would misunderstand, is translated.
func TestRelayTranslates(t *testing.T) {
	const elicitations = `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"open it","data":{"elicitations":[{"mode":"url","url":"x:1"},{"url":7},{"url":"x:2"}]}}}`
	for _, c := range []struct{ version, answer, want string }{
		{v2511, elicitations, strings.Replace(elicitations, "$ID", "7", 1)},
		{v2506, elicitations, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"open it; open x:1; open x:2"`},
		{v2506, `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32041,"message":"m"}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32041,"message":"m"}}`},
		{v2511, `{"jsonrpc":"2.0","id":$ID,"result":{"a":1,"inputRequests":{},"requestState":"s","resultType":"input_required"}}`, `{"jsonrpc":"2.0","id":7,"result":{"a":1}}`},
		{v2511, `{"jsonrpc":"2.0","id":$ID,"result":{"a":1,"requestState":"s"}}`, `{"jsonrpc":"2.0","id":7,"result":{"a":1,"requestState":"s"}}`},
	} {
		relaying(t, 0, func(t *testing.T, r *rig) {
			client := r.connect("a", c.version)
			r.s.on["tools/call"] = []string{c.answer}
			if got := client.call("tools/call", `{"name":"a","arguments":{}}`); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: received %s, want %s", c.version, got, c.want)
			}
		})
	}
}

// Idle finds the session that has been idle for longest, of those that may be ended.
func TestIdle(t *testing.T) {
	relaying(t, 0, func(t *testing.T, r *rig) {
		idle := func(principal string, own bool, since time.Time, want *client) {
			t.Helper()
			got := r.x.Idle(principal, own, since)
			if want == nil && got != nil || want != nil && got != want.session {
				t.Errorf("found %v", got)
			}
		}
		idle("", false, time.Time{}, nil)
		a := r.connect("a", v2511)
		time.Sleep(time.Second)
		b := r.connect("b", v2511)
		idle("", false, time.Time{}, a)
		idle("b", true, time.Time{}, b)
		idle("c", true, time.Time{}, nil)
		last, _ := a.session.Idle()
		idle("", false, last, nil)
		idle("", false, last.Add(1), a)
		a.session.SetOutlet(a.out)
		idle("", false, time.Time{}, b)
		b.session.Touch(time.Now())
		ex := b.exchange(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
		if err := b.session.Begin(ex); err != nil {
			t.Fatal(err)
		}
		idle("", false, time.Time{}, nil)
		c := r.newClient("c", v2511) // its handshake is not over
		if _, err := r.x.Open(c.initialize(), r.x.server.Wires.Legacy); err != nil {
			t.Fatal(err)
		}
		idle("", false, time.Time{}, nil)
		n := 0
		r.x.Each(func(l transport.Link, lost func(error)) {
			n++
			if l == transport.Link(r.s.link(0)) {
				lost(errors.New("x"))
			}
		})
		if n != 2 || a.session.State() != proxy.Closed || b.session.State() != proxy.Initialized {
			t.Errorf("%d relays", n)
		}
	})
}
