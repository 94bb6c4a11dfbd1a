package era

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/proxy"
)

const logCaps = `{"tools":{},"logging":{}}`

func logOf(level string) string {
	return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":1}}`
}

func wanting(level string) client {
	if level == "" {
		return client{}
	}
	return client{extra: `,"io.modelcontextprotocol/logLevel":"` + level + `"`}
}

const doneResult = `"result":{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f","version":"1"}}}}`

// A request receives the log messages of its own stream from the level it asked for (vector 73). The level of a shared session only
// falls.
func TestLogsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newServerRig(t, newScriptedServer(logCaps), false, nil)
		for _, caps := range []string{`{}`, `{"roots":{}}`} {
			calls := r.s.hold("tools/call")
			as := func(level string) client { c := wanting(level); c.caps = caps; return c }
			quiet := r.call(as(""), "1", "t")
			one := <-calls
			strict := r.call(as("error"), "2", "t")
			two := <-calls
			loose := r.call(as("info"), "3", "t")
			three := <-calls
			strictAgain := r.call(as("critical"), "4", "t")
			four := <-calls
			for _, c := range []*scriptedCall{one, two, three, four} {
				for _, level := range []string{"debug", "info", "error", "emergency", "loud"} {
					c.send(logOf(level))
				}
			}
			quiet.received()
			strict.received(logOf("error"), logOf("emergency"))
			loose.received(logOf("info"), logOf("error"), logOf("emergency"))
			strictAgain.received(logOf("emergency"))
			for i, c := range []*scriptedCall{one, two, three, four} {
				c.result(`{"content":[]}`)
				[]*clientRequest{quiet, strict, loose, strictAgain}[i].received(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, i+1) + doneResult)
			}
		}
		r.close()
	})
}

// The level is sent to the server only if a client asks, only if it must fall, and only if the server has logging.
func TestLogsLevel(t *testing.T) {
	bothWires(t, logCaps, func(_ *testing.T, r *serverRig) {
		for _, level := range []string{"", "error", "critical", "error", "debug", "info", ""} {
			r.call(wanting(level), "1", "t").ended("")
		}
		r.serverReceivedBriefly("tools/call", "logging/setLevel error", "tools/call", "tools/call", "tools/call", "logging/setLevel debug", "tools/call", "tools/call", "tools/call")
		// a refusal is the server's choice
		r.s.answers("logging/setLevel", "-32603")
		e := r.call(client{who: "other", extra: wanting("info").extra}, "1", "t")
		e.received(`{"jsonrpc":"2.0","id":1,` + doneResult)
		r.serverReceivedBriefly("logging/setLevel info", "tools/call")
		// one that does not answer holds the call up for a while only
		r.s.hold("logging/setLevel")
		e = r.call(client{who: "third", extra: wanting("info").extra}, "1", "t")
		time.Sleep(time.Minute)
		e.received(`{"jsonrpc":"2.0","id":1,` + doneResult)
	})
	bothWires(t, `{"tools":{}}`, func(_ *testing.T, r *serverRig) {
		r.call(wanting("debug"), "1", "t").ended("")
		r.serverReceivedBriefly("tools/call")
	})
}

// A log message outside the stream of a call is delivered while only one call could have caused it.
func TestLogsOffStream(t *testing.T) {
	bothWires(t, logCaps, func(_ *testing.T, r *serverRig) {
		process := r.s.link(0).Mux != nil
		for _, caps := range []string{`{}`, `{"roots":{}}`} {
			calls := r.s.hold("tools/call")
			c := wanting("error")
			c.caps = caps
			e := r.call(c, "1", "t")
			one := <-calls
			one.l.away(logOf("info"))
			one.l.away(logOf("critical"))
			if process || caps != "{}" { // over HTTP, what comes elsewhere is a call's if it has leased the session
				e.received(logOf("critical"))
			}
			e.forget()
			one.result(`{"content":[]}`)
			e.received(`{"jsonrpc":"2.0","id":1,` + doneResult)
			one.l.away(logOf("critical"))
			e.received()
		}
		// two that want logs, in one session
		calls := r.s.hold("tools/call")
		a, b := r.call(wanting("debug"), "1", "t"), r.call(wanting("error"), "2", "t")
		one, two := <-calls, <-calls
		if one.l.n != two.l.n {
			r.t.Fatal("two sessions")
		}
		one.l.away(logOf("critical"))
		a.received()
		b.received()
		two.result(`{"content":[]}`)
		b.received(`{"jsonrpc":"2.0","id":2,` + doneResult)
		one.l.away(logOf("info"))
		if process {
			a.received(logOf("info"))
		}
		a.forget()
		one.result(`{"content":[]}`)
		a.received(`{"jsonrpc":"2.0","id":1,` + doneResult)
		// one that wants logs and one that does not: the message's call is unknown, but only one may see it
		a, b = r.call(wanting("debug"), "1", "t"), r.call(wanting(""), "2", "t")
		one, two = <-calls, <-calls
		one.l.away(logOf("info"))
		b.received()
		one.result(`{"content":[]}`)
		two.result(`{"content":[]}`)
		a.ended("")
		b.ended("")
	})
}

// Log messages of a modern process name no call: a single call that wants them receives them, two calls do not (vector 84). Over HTTP
// each call has its own stream.
func TestLogsOfModernServer(t *testing.T) {
	for _, process := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newScriptedServer(logCaps)
			s.era = proxy.Modern
			r := newServerRig(t, s, process, nil)
			calls := r.s.hold("tools/call")
			a := r.call(wanting("error"), "1", "t")
			one := <-calls
			one.send(logOf("error"))
			a.received(logOf("error"))
			b := r.call(wanting("debug"), "2", "t")
			two := <-calls
			two.send(logOf("error"))
			a.received()
			if process {
				b.received()
			} else {
				b.received(logOf("error"))
			}
			// a legacy client's session has its level put on each request
			l := r.legacy(`{}`)
			l.SetLogLevel("warning")
			two.result(`{"resultType":"complete","content":[]}`)
			b.ended("")
			one.result(`{"resultType":"complete","content":[]}`)
			a.ended("")
			e := r.ask(l, `"1"`, "tools/call", `"name":"t","arguments":{},"_meta":{"progressToken":"p"}`)
			three := <-calls
			if got := string(three.msg.Of(three.msg.LogLevel)); got != `"warning"` {
				t.Errorf("level %s", got)
			}
			three.send(logOf("error"))
			three.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":0.5,"total":9007199254740993}}`)
			three.result(`{"resultType":"complete","content":[]}`)
			e.received(logOf("error"), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":0.5,"total":9007199254740993}}`,
				`{"jsonrpc":"2.0","id":"1","result":{"content":[]}}`)
			r.close()
		})
	}
}

// Progress reaches the request that asked for it, under its own token and JSON type. Without a token there is none, and late progress or
// an unknown token is dropped.
func TestProgressTokens(t *testing.T) {
	bothWires(t, logCaps, func(_ *testing.T, r *serverRig) {
		process := r.s.link(0).Mux != nil
		for _, caps := range []string{`{}`, `{"roots":{}}`} {
			calls := r.s.hold("tools/call")
			tokens := []string{`7`, `"7"`, `""`}
			requests, all := make([]*clientRequest, len(tokens)), make([]*scriptedCall, len(tokens))
			seen := map[string]bool{}
			for i, token := range tokens {
				requests[i] = r.call(client{caps: caps, extra: `,"progressToken":` + token}, "1", "t")
				all[i] = <-calls
				key := fmt.Sprint(all[i].l.n, all[i].token)
				if seen[key] {
					r.t.Errorf("token %s twice in a session", all[i].token)
				}
				seen[key] = true
			}
			const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1,"message":"m"}}`
			for i, c := range all {
				c.send(progress)
				requests[i].received(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + tokens[i] + `,"progress":1,"message":"m"}}`)
			}
			for i, c := range all {
				c.result(`{"content":[]}`)
				requests[i].received(`{"jsonrpc":"2.0","id":1,` + doneResult)
				if process {
					c.send(progress)
				} else {
					c.l.away(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":2}}`, c.token))
				}
				requests[i].received()
			}
			e := r.call(client{caps: caps}, "1", "t")
			c := <-calls
			c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
			c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`)
			c.result(`{"content":[]}`)
			e.received(`{"jsonrpc":"2.0","id":1,` + doneResult)
		}
	})
}
