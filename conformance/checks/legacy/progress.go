package legacy

import (
	"time"

	"github.com/goccy/go-json"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// progressChecks is about progress and cancellation of a call.
func progressChecks() []*suite.Check {
	const page = "basic/utilities/progress"
	needs := []suite.Need{suite.NeedsTool(checkutil.ToolProgress)}
	return append([]*suite.Check{
		{
			ID: "legacy-progress.token", Title: "Names the token of the request in progress, in its type", Level: suite.Must, Faces: faces, Needs: needs, Page: page + " §Progress Flow",
			Statement: "notifications/progress has the progressToken of the request, a text or a whole number, as it was given.",
			Why:       "The client finds no request to the notification, and shows nothing.",
			Fix:       "Keep the token as JSON and write it back as it came.",
			Run:       progressToken,
		},
		{
			ID: "legacy-progress.increases", Title: "Reports progress that increases", Level: suite.Must, Faces: faces, Needs: needs, Page: page + " §Progress Flow",
			Statement: "progress increases with each notification, also where the total is not known.",
			Why:       "Bars jump back, and clients that look whether anything moves give up.",
			Fix:       "Send a notification only when the value is above the last one.",
			Run: func(t *suite.Trial) {
				// Messages on two streams, as some servers send them, have no order for a client.
				last := make(map[string]float64)
				for _, m := range progressOf(t, t.Open(nil), `"increasing"`) {
					n, ok := m.Params()["progress"].(json.Number)
					at, err := n.Float64()
					if before, later := last[m.Where]; !ok || err != nil || later && at <= before {
						t.Fail("a progress above the last one", "%s", m.Raw)
					}
					last[m.Where] = at
				}
			},
		},
		{
			ID: "legacy-progress.no-token", Title: "Reports no progress where none was asked for", Level: suite.Must, Faces: faces, Needs: needs, Page: page + " §Behavior Requirements",
			Statement: "Progress names only tokens that an active request has given.",
			Why:       "A notification without a token, or with a made-up one, is invalid; strict clients end the connection.",
			Fix:       "Send progress only if params._meta.progressToken is there.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				call := mustStart(t, c, "tools/call", toolCall(checkutil.ToolProgress, peer.Object{}, ""))
				_ = mustEnd(t, call)
				waitSettled(t, c)
				for _, m := range checkutil.OfMethod(all(c, call), "notifications/progress") {
					t.Fail("no notifications/progress", "%s", m.Raw)
				}
			},
		},
		{
			ID: "legacy-progress.ends", Title: "Reports no progress after the answer", Level: suite.Must, Faces: faces, Needs: needs, Page: page + " §Behavior Requirements",
			Statement: "Progress notifications stop when the request is completed.",
			Why:       "The token may be in use again: the progress is taken for that of another call.",
			Fix:       "Write the answer behind all progress, from one place, and forget the token then.",
			Run:       progressEnds,
		},
	}, cancelChecks()...)
}

func cancelChecks() []*suite.Check {
	const page = "basic/utilities/cancellation §Behavior Requirements"
	return []*suite.Check{
		{
			ID: "legacy-cancel.not-answered", Title: "Does not answer a call that was cancelled", Level: suite.Should, Faces: faces, Page: page,
			Statement: "The receiver of notifications/cancelled stops the work and sends no response for the request.",
			Why:       "Unwanted work continues, and clients report an answer without a request.",
			Fix:       "Give each call a context that the notification cancels, and look at it before you answer.",
			Needs:     []suite.Need{suite.NeedsTool(checkutil.ToolProgress)},
			Run:       cancelledNotAnswered,
		},
		{
			ID: "legacy-cancel.unknown", Title: "Ignores the cancellation of what is not there", Level: suite.Should, Faces: faces, Page: page,
			Statement: "Cancellations of unknown or completed requests, and malformed ones, are ignored.",
			Why:       "A cancellation that crosses its answer, as happens every day, ends the session.",
			Fix:       "Do nothing where the id is not among those that run.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				pings(t, c)
				for _, params := range []string{`{"requestId":2}`, `{"requestId":"dragoman-unknown","reason":"test"}`} {
					if status, err := c.Notify("notifications/cancelled", params); err != nil || status/100 > 2 {
						t.Fail("the notification taken", "status %d %v", status, err)
					}
				}
				mustResult(t, c, "ping", "", "an answer to the next request")
				waitSettled(t, c)
				for _, m := range checkutil.OfKind(c.Others(), peer.IsResponse) {
					t.Fail("no response to a notification", "%s", m.Raw)
				}
			},
		},
	}
}

// progressOf calls the fixture's tool with a token and returns its progress. Without progress, which a server may omit, it skips the trial.
func progressOf(t *suite.Trial, c *peer.Conn, token string) []peer.Message {
	call := mustStart(t, c, "tools/call", toolCall(checkutil.ToolProgress, peer.Object{}, token))
	_ = mustEnd(t, call)
	waitSettled(t, c)
	seen := checkutil.OfMethod(all(c, call), "notifications/progress")
	if len(seen) == 0 {
		t.Skip("the tool %s reports no progress", checkutil.ToolProgress)
	}
	return seen
}

func progressToken(t *suite.Trial) {
	for _, token := range []string{`"a-text"`, `4711`} {
		for _, m := range progressOf(t, t.Open(nil), token) {
			if got := peer.Encode(m.Params()["progressToken"]); got != token {
				t.Fail("progressToken "+token, "%s", m.Raw)
			}
		}
	}
}

// progressEnds uses the id of the call as token, so that the progress is kept with the call, in order, at any face.
func progressEnds(t *suite.Trial) {
	c := t.Open(nil)
	call, err := c.StartAs("4711", "tools/call", toolCall(checkutil.ToolProgress, peer.Object{}, `"4711"`))
	if err != nil {
		t.Break("%v", err)
	}
	_ = mustEnd(t, call)
	if t.Face == peer.LegacyHTTP {
		call.WaitEnd()
	}
	waitSettled(t, c)
	over := false
	for _, m := range call.Got() {
		if over && m.Method == "notifications/progress" {
			t.Fail("no progress behind the answer", "%s", m.Raw)
		}
		over = over || m.Kind() == peer.IsResponse
	}
}

// cancelledNotAnswered makes the same call again after the cancellation: when that ends, the first would have ended too. It tries several
// times: an answer may be in flight at the time of the cancellation.
func cancelledNotAnswered(t *suite.Trial) {
	c := t.Open(nil)
	got, quick := "", true
	for range checkutil.Attempts {
		began := time.Now()
		first := mustStart(t, c, "tools/call", toolCall(checkutil.ToolProgress, peer.Object{}, `"given-up"`))
		_ = mustRequest(t, c, "ping", "") // it has begun
		if _, err := c.Notify("notifications/cancelled", `{"requestId":`+first.ID+`,"reason":"test"}`); err != nil {
			t.Break("%v", err)
		}
		_ = mustEnd(t, mustStart(t, c, "tools/call", toolCall(checkutil.ToolProgress, peer.Object{}, `"behind"`)))
		quick = quick && time.Since(began) < checkutil.TakesTime
		waitSettled(t, c)
		checkutil.Pause(t, quietPeriod) // the two calls need not end in order
		responses := checkutil.OfKind(first.Got(), peer.IsResponse)
		if len(responses) == 0 {
			return
		}
		got = responses[0].Raw
	}
	if quick {
		t.Skip("the tool %s answers at once", checkutil.ToolProgress)
	}
	t.Fail("no response to the call that was cancelled", "%s", got)
}
