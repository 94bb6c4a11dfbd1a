package legacy

import (
	"time"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// furtherChecks are checks of 2025-11-25 that belong to several areas.
func furtherChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "legacy-tools.arguments-result", Title: "Tells in a result that arguments do not fit", Level: suite.Should, Faces: faces, Revisions: []string{peer.R2511}, Needs: []suite.Need{suite.NeedsATool},
			Page:      "server/tools §Error Handling",
			Statement: "Arguments that do not fit are an error of the tool, a result with isError, and not of the protocol.",
			Why:       "The model does not see its mistake, and cannot correct it.",
			Fix:       "Return isError with what is wrong with the arguments as text.",
			Run: func(t *suite.Trial) {
				name, m := callWithoutArguments(t, func(tool peer.Object) bool { return peer.Text(tool, "execution", "taskSupport") != "required" })
				if m.Result()["isError"] != true {
					t.Fail("a result with isError for "+name+" without its arguments", "%s", m.Raw)
				}
			},
		},
		{
			ID: "stream.retry", Title: "Says when to come back before it ends a stream early", Level: suite.Should, Faces: httpFace, Revisions: []string{peer.R2511}, Needs: []suite.Need{suite.NeedsTool(toolReconnects)}, Page: pageSending,
			Statement: "A server may end the stream of a POST before the answer, after an event with an id; it should send retry before.",
			Why:       "Clients come back at once, or after a time of their own, all of them together.",
			Fix:       "Write an event with an id and `retry:` in milliseconds before you close the stream.",
			Run: func(t *suite.Trial) {
				_, early := leftEarly(t)
				if early.retry < 0 {
					t.Fail("retry in an event before the end", "%d events without it", early.events)
				}
			},
		},
		{
			ID: "stream.reconnected", Title: "Answers a client that resumes with Last-Event-ID", Level: suite.Should, Faces: httpFace, Revisions: []string{peer.R2511}, Needs: []suite.Need{suite.NeedsTool(toolReconnects)}, Page: pageResume,
			Statement: "A stream that the server has ended before the answer goes on at a GET with the id of its last event.",
			Why:       "The answer never comes, though the server has asked the client to wait for it.",
			Fix:       "Keep what a stream has still to deliver, and send it to the client that resumes.",
			Run:       reconnected,
		},
	}
}

// toolReconnects ends its stream before it answers.
const toolReconnects = "test_reconnection"

// early is a stream that ended before its answer.
type early struct {
	last          string // event id
	retry, events int
}

// leftEarly calls that tool with a raw request.
func leftEarly(t *suite.Trial) (*peer.Conn, early) {
	c := t.Open(func(s *peer.Settings) { s.NoListening = true })
	res := t.Send(peer.Request{Header: checkutil.LegacyHead(c), Body: `{"jsonrpc":"2.0","id":"early","method":"tools/call","params":` + toolCall(toolReconnects, peer.Object{}, "") + `}`})
	out := early{retry: -1}
	for res.Streams() {
		e, err := res.Next()
		if err != nil {
			break
		}
		if m, err := peer.ReadMessage(e.Data); err == nil && m.Kind() == peer.IsResponse {
			t.Skip("the server ends no stream before its answer")
		}
		out.events++
		if e.ID != "" {
			out.last = e.ID
		}
		out.retry = max(out.retry, e.Retry)
	}
	if out.events == 0 {
		t.Skip("the server ends no stream before its answer")
	}
	if out.last == "" {
		t.Fatal("an event with an id before a stream that ends early", "%d events without one", out.events)
	}
	return c, out
}

// longestRetry is the maximum wait that a server may ask for, in milliseconds.
const longestRetry = 5000

func reconnected(t *suite.Trial) {
	c, left := leftEarly(t)
	const expected = "the response on the stream that is resumed"
	for range 20 { // it may be ended again
		checkutil.Pause(t, time.Duration(min(max(left.retry, 0), longestRetry))*time.Millisecond)
		back := listen(t, c, peer.Field{Name: "Last-Event-ID", Value: left.last})
		if back.Status != 200 || !back.Streams() {
			t.Fatal(expected, "status %d", back.Status)
		}
		for {
			e, err := back.Next()
			if err != nil {
				break
			}
			if e.ID != "" {
				left.last = e.ID
			}
			left.retry = max(left.retry, e.Retry)
			if m, err := peer.ReadMessage(e.Data); err == nil && m.Kind() == peer.IsResponse && string(m.ID) == `"early"` {
				return
			}
		}
	}
	t.Fail(expected, "none")
}
