package modern

import (
	"context"
	"strings"
	"time"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// overStdioChecks are about the stdio transport.
func overStdioChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "modern-stdio.lines", Title: "Writes messages to its output, one a line, and nothing else", Level: suite.Must, Faces: stdioFace, Page: "basic/transports/stdio",
			Statement: "Nothing may be written to stdout that is not a message; messages are lines and hold no line ends.",
			Why:       "Clients stop at the first line that they cannot read.",
			Fix:       "Send logs and banners to stderr; look for print statements and for libraries that greet. Write each message as one line of JSON without indentation.",
			Run:       onlyMessages,
		},
		{
			ID: "modern-stdio.notification-unanswered", Title: "Does not answer notifications", Level: suite.Must, Faces: stdioFace, Page: "basic/index §Notifications",
			Statement: "The receiver of a notification must not send a response.",
			Why:       "The client finds no request for it and may end the connection.",
			Fix:       "Send nothing for messages without an id, also for those that you do not know or cannot read.",
			Run: func(t *suite.Trial) {
				c, _ := opened(t, nil)
				for _, method := range []string{"notifications/dragoman-unknown", "server/discover", "notifications/initialized"} {
					_, _ = c.Notify(method, "{}")
				}
				fence(t, c)
				for _, m := range c.Others() {
					if m.Kind() == peer.IsResponse {
						t.Fail("no response", "%s", m.Raw)
					}
				}
			},
		},
		{
			ID: "modern-stdio.interleaved", Title: "Serves requests while another runs", Level: suite.Should, Faces: stdioFace, Page: "basic/index §Statelessness",
			Needs:     []suite.Need{suite.NeedsTool(checkutil.ToolProgress)},
			Statement: "Servers should be prepared to handle requests of several tasks, interleaved on one connection.",
			Why:       "One slow tool stops everything else that the user does.",
			Fix:       "Read the next line while handlers run, each in a task of its own. Guard writing, so that lines do not mix.",
			Run:       interleaved,
		},
		{
			ID: "modern-stdio.garbage", Title: "Goes on after a line that it cannot read", Level: suite.Should, Faces: stdioFace, Page: "basic/index §Error Codes",
			Statement: "A line that is no JSON is a parse error (-32700), which ends nothing.",
			Why:       "One bad line takes all requests down that are under way.",
			Fix:       "Answer -32700 without an id, or nothing, and read the next line.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				_, _ = c.Say(`{"jsonrpc":"2.0","id":1,"method":`)
				_, _ = c.Say(`this is no JSON`)
				if _, err := c.Result("server/discover", ""); err != nil {
					t.Fail("an answer to the next request", "%v", err)
				}
				for _, m := range c.Others() {
					if code, message, _ := m.Error(); m.Failed() && code != checkutil.ParseError && code != checkutil.InvalidRequest {
						t.Fail("the error -32700, or none", "the error %d: %s", code, message)
					}
				}
			},
		},
		{
			ID: "modern-stdio.ends", Title: "Ends when its input ends", Level: suite.Should, Faces: stdioFace, Page: pageStdio + "Shutdown",
			Statement: "Servers should exit promptly when stdin is closed.",
			Why:       "Processes are left behind whenever a client ends.",
			Fix:       "Leave the main loop at the end of stdin, stop timers and handlers that keep the process alive, and exit.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				if _, err := c.Result("server/discover", ""); err != nil {
					t.Break("%v", err)
				}
				if end, forced := c.Close(); forced {
					t.Fail("the program ends by itself", "it had to be made to: %s", end)
				}
			},
		},
	}
}

// onlyMessages checks each line up to the last answer. The answers may come in any order.
func onlyMessages(t *suite.Trial) {
	k := newRawClient(t)
	open := map[string]bool{}
	ask := func(id, method string, params peer.Object, change func(peer.Object)) {
		if err := k.child.Write(checkutil.ModernBody(peer.Encode(id), method, params, change)); err != nil {
			t.Break("%v", err)
		}
		open[id] = true
	}
	ask("one", "server/discover", nil, nil)
	for _, name := range []string{checkutil.ToolProgress, checkutil.ToolLogging, "test_simple_text"} {
		if t.Offer.Tool(name) != nil {
			ask(name, "tools/call", peer.Object{"name": name, "arguments": peer.Object{}},
				func(meta peer.Object) { meta["progressToken"], meta[peer.MetaLogLevel] = "lines", "debug" })
		}
	}
	ask("last", "dragoman/no-such-method", nil, nil)
	ctx, cancel := context.WithTimeout(t.Context(), k.child.Patience(t.Target.Patience()))
	defer cancel()
	for len(open) > 0 {
		line, err := k.child.Next(ctx)
		if err != nil {
			t.Fatal("an answer to each request", "%v", err)
		}
		m, err := peer.ReadMessage(line)
		if err != nil || m.Kind() == peer.Neither || m.Object["jsonrpc"] != "2.0" {
			t.Fail("a message of JSON-RPC 2.0", "%q", line)
		}
		if m.Kind() == peer.IsResponse {
			delete(open, strings.Trim(string(m.ID), `"`))
		}
	}
}

// interleaved tries several times: on a busy machine the slow call may be the faster one.
func interleaved(t *suite.Trial) {
	c, r := openRecorded(t, nil)
	quick := true
	var slow *peer.Call
	for range checkutil.Attempts {
		began := time.Now()
		slow = mustStart(t, c, "tools/call", withToken(checkutil.ToolProgress, `"slow"`))
		discover := mustStart(t, c, "server/discover", nil)
		for _, call := range []*peer.Call{slow, discover} {
			if _, err := call.Wait(); err != nil {
				t.Fatal("an answer to each", "%v", err)
			}
		}
		for _, m := range r.messages() {
			if m.Kind() != peer.IsResponse {
				continue
			}
			if string(m.ID) == discover.ID {
				return
			}
			if string(m.ID) == slow.ID {
				break
			}
		}
		quick = quick && time.Since(began) < checkutil.TakesTime
	}
	if quick {
		t.Skip("the tool %s answers at once", checkutil.ToolProgress)
	}
	t.Fail("server/discover is answered while "+checkutil.ToolProgress+" runs", "it came after the response to %s, each time", slow)
}
