package modern

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// recorder keeps the messages of a connection in the order of arrival.
type recorder struct {
	mu   sync.Mutex
	all  []peer.Message
	more chan struct{} // closed when a message comes
}

func (r *recorder) add(m peer.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, m)
	close(r.more)
	r.more = make(chan struct{})
}

// wait waits for a message.
func (r *recorder) wait(ctx context.Context, wanted func(peer.Message) bool) (peer.Message, error) {
	for seen := 0; ; {
		r.mu.Lock()
		fresh, more := r.all[seen:], r.more
		r.mu.Unlock()
		for _, m := range fresh {
			if wanted(m) {
				return m, nil
			}
		}
		seen += len(fresh)
		select {
		case <-more:
		case <-ctx.Done():
			return peer.Message{}, errors.New("nothing of the kind came in time")
		}
	}
}

func (r *recorder) messages() []peer.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// of returns the messages with a method.
func (r *recorder) of(method string) []peer.Message { return checkutil.OfMethod(r.messages(), method) }

// openRecorded opens a connection whose messages are kept.
func openRecorded(t *suite.Trial, change func(*peer.Settings)) (*peer.Conn, *recorder) {
	r := &recorder{more: make(chan struct{})}
	c := t.Open(func(s *peer.Settings) {
		judge := s.Received
		s.Received = func(m peer.Message, answers string) {
			r.add(m)
			if judge != nil {
				judge(m, answers)
			}
		}
		if change != nil {
			change(s)
		}
	})
	return c, r
}

// settledCall waits until no more messages can come for a call.
func settledCall(t *suite.Trial, c *peer.Conn, call *peer.Call) {
	if _, err := call.Wait(); err != nil {
		t.Break("%v", err)
	}
	fence(t, c)
	if !t.Face.Stdio() {
		call.WaitEnd()
	}
}

func progressChecks() []*suite.Check {
	needs := []suite.Need{suite.NeedsTool(checkutil.ToolProgress)}
	run := func(tokens []string, look func(t *suite.Trial, token string, got []peer.Message)) func(*suite.Trial) {
		return func(t *suite.Trial) {
			for _, token := range tokens {
				c, r := openRecorded(t, nil)
				settledCall(t, c, mustStart(t, c, "tools/call", withToken(checkutil.ToolProgress, token)))
				look(t, token, r.messages())
			}
		}
	}
	return []*suite.Check{
		{
			ID: "progress.unasked", Title: "Reports no progress without a progressToken", Level: suite.Must, Faces: faces, Page: pageProgress + "Behavior Requirements", Needs: needs,
			Statement: "Progress may only be reported for tokens that were given in a request that runs.",
			Why:       "The client cannot tell to which call it belongs.",
			Fix:       "Send notifications/progress only if the request has _meta.progressToken. Do not make tokens up.",
			Run: run([]string{""}, func(t *suite.Trial, _ string, got []peer.Message) {
				for _, m := range checkutil.OfMethod(got, "notifications/progress") {
					t.Fail("no progress without a token", "%s", m.Raw)
				}
			}),
		},
		{
			ID: "progress.token", Title: "Gives the progress token back as it came", Level: suite.Must, Faces: faces, Page: pageProgress + "Progress Flow", Needs: needs,
			Statement: "Notifications carry the original token, a text or an integer.",
			Why:       "Clients find the call by the token; \"7\" and 7 are two tokens.",
			Fix:       "Keep the token as the JSON value that came and write that back. 0 and texts that look like numbers are tokens as well.",
			Run: run([]string{`"tok ü/1"`, `0`, `9007199254740991`, `"42"`}, func(t *suite.Trial, token string, got []peer.Message) {
				sent, _ := peer.Decode(token)
				for _, m := range checkutil.OfMethod(got, "notifications/progress") {
					if !checkutil.Equal(m.Params()["progressToken"], sent) {
						t.Fail("the token "+token, "%s", m.Raw)
					}
				}
			}),
		},
		{
			ID: "progress.increases", Title: "Reports progress that increases", Level: suite.Must, Faces: faces, Page: pageProgress + "Progress Flow", Needs: needs,
			Statement: "The progress value must increase with each notification.",
			Why:       "Clients drop what does not increase, and users see a bar that stands or jumps back.",
			Fix:       "Count up in progress and leave total as it is. Send nothing where nothing has moved.",
			Run: run([]string{`"up"`}, func(t *suite.Trial, _ string, got []peer.Message) {
				last, first := 0.0, true
				for _, m := range checkutil.OfMethod(got, "notifications/progress") {
					now := number(m.Params()["progress"])
					if !first && now <= last {
						t.Fail("more than before", "%v after %v", now, last)
					}
					last, first = now, false
				}
			}),
		},
		{
			ID: "progress.stops", Title: "Reports no progress after the response", Level: suite.Must, Faces: faces, Page: pageProgress + "Implementation Notes", Needs: needs,
			Statement: "Progress notifications must stop after completion.",
			Why:       "The token may be another call's by then.",
			Fix:       "Wait for pending notifications before the response is written, or drop them. Stop timers that report progress when the handler returns.",
			Run: run([]string{`"end"`}, func(t *suite.Trial, _ string, got []peer.Message) {
				answered := false
				for _, m := range got {
					if answered && m.Method == "notifications/progress" {
						t.Fail("no progress after the response", "%s", m.Raw)
					}
					answered = answered || m.Kind() == peer.IsResponse
				}
			}),
		},
		{
			ID: "progress.own-stream", Title: "Reports progress on the stream of its request alone", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Receiving Messages", Needs: needs,
			Statement: "Notifications on a response stream must relate to its request.",
			Why:       "Streams of two clients may be behind it: one would see what the other does.",
			Fix:       "Tie the sender of notifications to the request, not to the connection or the server.",
			Run:       ownStreams,
		},
	}
}

func ownStreams(t *suite.Trial) {
	one, other := t.Open(nil), t.Open(nil)
	calls := map[string]*peer.Call{"one": mustStart(t, one, "tools/call", withToken(checkutil.ToolProgress, `"one"`)), "other": mustStart(t, other, "tools/call", withToken(checkutil.ToolProgress, `"other"`))}
	for token, call := range calls {
		if _, err := call.Wait(); err != nil {
			t.Break("%v", err)
		}
		for _, m := range checkutil.OfMethod(call.Got(), "notifications/progress") {
			if m.Params()["progressToken"] != token {
				t.Fail("only progress of the token "+token+" on its stream", "%s", m.Raw)
			}
		}
	}
}

func loggingChecks() []*suite.Check {
	needs := []suite.Need{suite.NeedsTool(checkutil.ToolLogging)}
	const page = "server/utilities/logging §"
	plain := peer.Object{"name": checkutil.ToolLogging, "arguments": peer.Object{}}
	logged := func(t *suite.Trial, level string) (*peer.Conn, []peer.Message) {
		c, r := openRecorded(t, func(s *peer.Settings) { s.LogLevel = level })
		settledCall(t, c, mustStart(t, c, "tools/call", plain))
		return c, r.of("notifications/message")
	}
	silent := func(t *suite.Trial, got []peer.Message, expected string) {
		for _, m := range got {
			t.Fail(expected, "%s", m.Raw)
		}
	}
	return []*suite.Check{
		{
			ID: "logging.unasked", Title: "Sends no log messages without a logLevel", Level: suite.Must, Faces: faces, Page: page + "Per-request log level", Needs: needs,
			Statement: "notifications/message must not be sent for a request without logLevel.",
			Why:       "Clients that want none get a stream where they expect an object, and messages that they cannot place.",
			Fix:       "Look for _meta[\"io.modelcontextprotocol/logLevel\"] of the request before you send a log message. Without it write to stderr.",
			Run: func(t *suite.Trial) {
				_, got := logged(t, "")
				silent(t, got, "no log message without logLevel")
			},
		},
		{
			ID: "logging.level", Title: "Sends log messages of the level that was asked for", Level: suite.Must, Faces: faces, Page: page + "Per-request log level", Needs: needs,
			Statement: "Only messages at or above the requested level may be sent.",
			Why:       "A client that asks for errors alone drowns in debug output.",
			Fix:       "Compare by the order of syslog: debug, info, notice, warning, error, critical, alert, emergency. Send nothing below the level of the request.",
			Run: func(t *suite.Trial) {
				_, got := logged(t, "critical")
				for _, m := range got {
					if level := peer.Text(m.Params(), "level"); level != "critical" && level != "alert" && level != "emergency" {
						t.Fail("nothing below critical", "%s", m.Raw)
					}
				}
			},
		},
		{
			ID: "logging.delivered", Title: "Sends log messages to clients that ask for them", Level: suite.May, Faces: faces, Page: page + "Per-request log level", Needs: append(needs, suite.NeedsLogging),
			Statement: "A server that declares logging may send messages for a request with logLevel.",
			Why:       "Users see what the server does.",
			Fix:       "Send notifications/message on the response stream of the request, before its response. Over HTTP answer such a request with an event stream.",
			Run: func(t *suite.Trial) {
				for range 3 { // a gateway may withhold messages that may belong to another call
					if _, got := logged(t, "debug"); len(got) > 0 {
						return
					}
				}
				t.Fail("log messages of "+checkutil.ToolLogging, "none")
			},
		},
		{
			ID: "logging.per-request", Title: "Remembers no log level", Level: suite.Must, Faces: faces, Page: "basic/index §Statelessness", Needs: needs,
			Statement: "The level is that of each request; earlier requests do not count.",
			Why:       "Two users of one connection would set each other's level.",
			Fix:       "Read the level from the _meta of the request that is served, and keep it nowhere else.",
			Run: func(t *suite.Trial) {
				c, r := openRecorded(t, nil)
				first := mustStart(t, c, "tools/call", peer.Object{"name": checkutil.ToolLogging, "arguments": peer.Object{}, "_meta": peer.Object{peer.MetaLogLevel: "debug"}})
				settledCall(t, c, first)
				before := len(r.of("notifications/message"))
				settledCall(t, c, mustStart(t, c, "tools/call", plain))
				silent(t, r.of("notifications/message")[before:], "no log message for the second request, which has no logLevel")
			},
		},
		{
			ID: "logging.declared", Title: "Declares that it logs", Level: suite.Must, Faces: faces, Page: page + "Capabilities", Needs: needs,
			Statement: "Servers that send log messages must declare the capability logging.",
			Why:       "Clients offer a choice of levels only where it is declared.",
			Fix:       "Add \"logging\": {} to the capabilities of server/discover.",
			Run: func(t *suite.Trial) {
				c, got := logged(t, "debug")
				if len(got) > 0 && peer.Get(discovered(t, c), "capabilities", "logging") == nil {
					t.Fail("the capability logging is declared", "%s", got[0].Raw)
				}
			},
		},
		{
			ID: "logging.bad-level", Title: "Refuses an unknown log level", Level: suite.Should, Faces: faces, Page: page + "Error Handling", Needs: append(needs, suite.NeedsLogging),
			Statement: "An unknown logLevel should be refused with -32602.",
			Why:       "The client has a mistake that shows only as silence.",
			Fix:       "Check logLevel against the eight names and answer -32602 for any other.",
			Run: func(t *suite.Trial) {
				c := t.Open(func(s *peer.Settings) { s.LogLevel = "loud" })
				_, m := mustCallTool(t, c, plain)
				failsWith(t, m, "the log level loud", checkutil.InvalidParams)
			},
		},
	}
}

func cancelChecks() []*suite.Check {
	slow := []suite.Need{suite.NeedsTool("slow")}
	return []*suite.Check{
		{
			ID: "cancel.stops", Title: "Stops a call whose client has disconnected", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Cancellation",
			Needs:     append(slow, suite.NeedsTool("stats")),
			Statement: "Closing the response stream must be treated as cancellation of the request.",
			Why:       "There is no other way to cancel: the work continues without a client, and its effects come after the user has stopped it.",
			Fix:       "Watch for the end of the client's connection while a handler runs, and cancel its context. Read the request's body to its end first; some servers notice nothing before.",
			Run:       stops,
		},
		{
			ID: "cancel.notification-stops", Title: "Stops a call that is cancelled", Level: suite.Should, Faces: stdioFace, Page: pageStdio + "Cancellation",
			Needs:     append(slow, suite.NeedsTool("stats")),
			Statement: "Servers should stop work on a request for which notifications/cancelled came.",
			Why:       "The work continues without a client, and its effects come after the user has stopped it.",
			Fix:       "Keep the running requests by id, and cancel the handler's context when notifications/cancelled names one.",
			Run:       stops,
		},
		{
			ID: "cancel.silent", Title: "Does not answer a call that was cancelled", Level: suite.Should, Faces: stdioFace, Page: "basic/patterns/cancellation §Behavior Requirements", Needs: slow,
			Statement: "After notifications/cancelled nothing more should be sent for the request.",
			Why:       "The client has forgotten the id and may have given it to another request.",
			Fix:       "Drop the response of a request that was cancelled while it ran, errors too.",
			Run:       silent,
		},
		{
			ID: "cancel.unknown", Title: "Ignores the cancellation of an unknown request", Level: suite.Should, Faces: stdioFace, Page: "basic/patterns/cancellation §Error Handling",
			Statement: "Cancellations of unknown or finished requests, and malformed ones, should be ignored.",
			Why:       "They are normal: the answer and the cancellation meet on the way.",
			Fix:       "Do nothing if the id is not among the running requests. Never answer a notification.",
			Run: func(t *suite.Trial) {
				c, _ := opened(t, nil)
				for _, params := range []string{`{"requestId":"nobody"}`, `{"requestId":99999}`, `{}`} {
					_, _ = c.Notify("notifications/cancelled", params)
				}
				if _, err := c.Result("server/discover", ""); err != nil {
					t.Fail("the server goes on", "%v", err)
				} else {
					fence(t, c)
				}
				for _, m := range c.Others() {
					t.Fail("no answer to a notification", "%s", m.Raw)
				}
			},
		},
	}
}

// silent cancels a call and waits until it would have been answered. It tries several times: a cancellation may come before its call, or
// cross the answer.
func silent(t *suite.Trial) {
	c := t.Open(nil)
	got := ""
	for try := range checkutil.Attempts {
		call := mustStart(t, c, "tools/call", peer.Object{"name": "slow", "arguments": peer.Object{"ms": 250}})
		if try > 0 {
			checkutil.Pause(t, 40*time.Millisecond) // until the call has begun, which no message announces
		}
		call.Cancel()
		mustCallTool(t, c, peer.Object{"name": "slow", "arguments": peer.Object{"ms": 280}})
		fence(t, c)
		answers := call.Got()
		if len(answers) == 0 {
			return
		}
		got = answers[0].Raw
	}
	t.Fail("nothing for the cancelled request", "%s", got)
}

// stops cancels a long call and waits until the fixture counts it as cancelled. It tries again after longer waits, since a cancellation may
// come before its call.
func stops(t *suite.Trial) {
	c := t.Open(nil)
	count := func() float64 {
		_, m := mustCallTool(t, c, peer.Object{"name": "stats", "arguments": peer.Object{}})
		return number(peer.Get(m.Result(), "structuredContent", "cancelled"))
	}
	before := count()
	began := time.Now()
	for wait := 20 * time.Millisecond; time.Since(began) < t.Target.Patience(); wait *= 2 {
		call := mustStart(t, c, "tools/call", peer.Object{"name": "slow", "arguments": peer.Object{"ms": 30_000}})
		checkutil.Pause(t, wait) // until the call has begun, which no message announces
		call.Cancel()
		for try := time.Now(); time.Since(try) < 500*time.Millisecond; checkutil.Pause(t, 20*time.Millisecond) {
			if count() > before {
				return
			}
		}
	}
	t.Fail("the call is counted as cancelled", "after %s it is not", t.Target.Patience())
}

// number returns a JSON number; 0 for other values.
func number(v any) float64 {
	if n, ok := v.(interface{ Float64() (float64, error) }); ok {
		f, _ := n.Float64()
		return f
	}
	return 0
}
