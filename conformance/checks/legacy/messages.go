package legacy

import (
	"slices"
	"strings"
	"time"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// messagesChecks covers every request and answer of a legacy session.
func messagesChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "legacy.id-echoed", Title: "Answers with the id of the request, in its type", Level: suite.Must, Faces: faces,
			Page:      "basic §Messages, §Responses",
			Statement: "A response has the id of its request: a text stays a text and a number a number.",
			Why:       "Clients find no request to the answer and wait until their timeout.",
			Fix:       "Keep the id as JSON and write it back as it came; do not turn \"7\" into 7, nor take 0 for no id.",
			Run: func(t *suite.Trial) {
				echoedIDs(t, `"dragoman-text"`, `"7"`, `0`, `7`, `9007199254740991`, `""`)
			},
		},
		{
			ID: "legacy.id-large", Title: "Keeps the digits of ids beyond 2^53", Level: suite.Should, Faces: faces,
			Page:      "basic §Responses (RFC 8259 §6 on large numbers)",
			Statement: "A response has the same id as its request, also where an integer does not fit a floating-point number.",
			Why:       "Clients that count in 64 bits, from a clock for example, find no request to the answer.",
			Fix:       "Do not decode ids into a floating-point number: keep their text (json.RawMessage, a big integer, or what your parser has).",
			Run:       func(t *suite.Trial) { echoedIDs(t, `9223372036854775807`) },
		},
		{
			ID: "legacy.one-answer", Title: "Answers each request once", Level: suite.Must, Faces: faces,
			Page:      "basic §Messages; basic/transports",
			Statement: "A request gets one response, a result or an error.",
			Why:       "A second answer is taken for that of another request, or ends the client's connection.",
			Fix:       "Send the response in one place, and only there; do not add an error to a result that was sent.",
			Run:       oneAnswer,
		},
		{
			ID: "legacy.parallel", Title: "Keeps the answers of requests apart that run at the same time", Level: suite.Must, Faces: faces,
			Page:      "basic §Responses",
			Statement: "Of several requests at a time each gets the answer that belongs to it, in any order.",
			Why:       "A client gets the answer to another request, or to another client.",
			Fix:       "Keep the id with the work that answers it, not in a variable of the connection.",
			Run:       parallel,
		},
		{
			ID: "legacy.unicode", Title: "Keeps every character of a text", Level: suite.Must, Faces: faces,
			Page:      "basic/transports (messages are UTF-8)",
			Statement: "Messages are UTF-8; what an argument holds comes through unchanged, with characters beyond the basic plane and line separators.",
			Why:       "Names and texts of users who do not write English are garbled.",
			Fix:       "Read and write UTF-8 and nothing else; decode only when all bytes of a message are there, so that no character is cut in two.",
			Needs:     []suite.Need{suite.NeedsTool("echo")},
			Run:       unicode,
		},
		{
			ID: "legacy.unanswered-notification", Title: "Does not answer notifications", Level: suite.Must, Faces: faces,
			Page:      "basic §Notifications",
			Statement: "The receiver of a notification sends no response, also if it does not know the notification.",
			Why:       "An answer without an id belongs to nothing; clients end their connection over it.",
			Fix:       "Look whether the message has an id before you answer anything, errors too.",
			Run:       unansweredNotification,
		},
		{
			ID: "legacy.slow-does-not-block", Title: "Answers a ping while a call is running", Level: suite.Must, Faces: faces,
			Page:      "basic/utilities/ping §Behavior Requirements",
			Statement: "A ping is answered promptly, whatever else is going on.",
			Why:       "One slow tool makes the server look dead, and cancellation cannot reach it.",
			Fix:       "Do not run tools where messages are read: start them and go on reading.",
			Needs:     []suite.Need{suite.NeedsTool(checkutil.ToolProgress)},
			Run:       slowDoesNotBlock,
		},
	}
}

// echoedIDs pings with each id. An answer with a wrong id is found on the stream of the call, or among the messages of no call.
func echoedIDs(t *suite.Trial, ids ...string) {
	c := t.Open(nil)
	for _, id := range ids {
		call, err := c.StartAs(id, "ping", "")
		if err != nil {
			t.Fail("an answer with the id "+id, "%v", err)
			continue
		}
		m, err := call.Wait()
		switch {
		case err != nil:
			got := err.Error()
			for _, m := range checkutil.OfKind(c.Others(), peer.IsResponse) {
				got += "; but " + m.Raw
			}
			t.Fatal("an answer with the id "+id, "%s", got)
		case strings.TrimSpace(string(m.ID)) != id:
			t.Fail("an answer with the id "+id, "%s", m.Raw)
		}
	}
}

func oneAnswer(t *suite.Trial) {
	c := t.Open(nil)
	call := streamed(t, c, `"once"`)
	_ = mustEnd(t, call)
	if t.Face == peer.LegacyHTTP {
		call.WaitEnd()
	}
	waitSettled(t, c)
	got := checkutil.OfKind(call.Got(), peer.IsResponse)
	for _, m := range checkutil.OfKind(c.Others(), peer.IsResponse) {
		if string(m.ID) == call.ID {
			got = append(got, m)
		}
	}
	if len(got) != 1 {
		t.Fail("one response", "%d", len(got))
	}
}

// parallel sends overlapping requests of two kinds: pings, and requests of an unknown method.
func parallel(t *suite.Trial) {
	c := t.Open(nil)
	var calls []*peer.Call
	for i := range 12 {
		method := "ping"
		if i%2 == 1 {
			method = "dragoman/no-such-method"
		}
		calls = append(calls, mustStart(t, c, method, ""))
	}
	for _, call := range calls {
		expected := "the answer to " + call.String()
		m, err := call.Wait()
		switch {
		case err != nil && call.Method != "ping":
			// It was refused without a message: lifecycle.unknown-method judges that.
		case err != nil:
			t.Fail(expected, "%v", err)
		case string(m.ID) != call.ID && m.ID != nil, m.Failed() != (call.Method != "ping"):
			t.Fail(expected, "%s", m.Raw)
		}
	}
}

func unicode(t *suite.Trial) {
	const text = "Grüße, 你好, مرحبا, 🐉\u2028\u0000\t\"\\ 👩‍👩‍👧"
	c := t.Open(nil)
	result := mustResult(t, c, "tools/call", toolCall("echo", peer.Object{"message": text}, ""), "a result")
	if result["isError"] == true {
		t.Skip("the tool echo refuses a message: %s", peer.Encode(result))
	}
	texts := peer.List(result, "content")
	if !slices.ContainsFunc(texts, func(block any) bool { return strings.Contains(peer.Text(block, "text"), text) }) {
		t.Fail("a text block with "+peer.Encode(text), "%s", peer.Encode(texts))
	}
}

func unansweredNotification(t *suite.Trial) {
	const expected = "no response to a notification"
	c := t.Open(nil)
	if t.Face == peer.LegacyHTTP {
		res := t.Send(peer.Request{Header: checkutil.LegacyHead(c), Body: `{"jsonrpc":"2.0","method":"notifications/dragoman-unknown"}`})
		// It may be refused with an error, but not be answered with a result.
		if m := checkutil.Answer(t, res); m != nil && (checkutil.IsSuccess(res.Status) || !m.Failed()) {
			t.Fail(expected, "status %d: %s", res.Status, m.Raw)
		}
	} else if _, err := c.Notify("notifications/dragoman-unknown", ""); err != nil {
		t.Break("the notification could not be sent: %v", err)
	}
	waitSettled(t, c)
	for _, m := range checkutil.OfKind(c.Others(), peer.IsResponse) {
		t.Fail(expected, "%s", m.Raw)
	}
}

func slowDoesNotBlock(t *suite.Trial) {
	c := t.Open(nil)
	quick := true
	for range checkutil.Attempts {
		began := time.Now()
		slow := mustStart(t, c, "tools/call", toolCall(checkutil.ToolProgress, peer.Object{}, `"slow"`)) // with a token: some are only slow if they report progress
		_ = mustRequest(t, c, "ping", "")
		blocked := len(checkutil.OfKind(slow.Got(), peer.IsResponse)) > 0
		_ = mustEnd(t, slow)
		if !blocked {
			return
		}
		quick = quick && time.Since(began) < checkutil.TakesTime
	}
	if quick {
		t.Skip("the tool %s answers at once", checkutil.ToolProgress)
	}
	t.Fail("the answer to the ping before that of the call that takes longer", "the other way round, each time")
}
