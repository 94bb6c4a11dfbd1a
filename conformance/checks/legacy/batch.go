package legacy

import (
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// batchChecks is about arrays of messages: 2025-03-26 has them, no other revision.
func batchChecks() []*suite.Check {
	faces := []peer.Face{peer.LegacyHTTP, peer.LegacyStdio}
	old := []string{peer.R2503}
	return []*suite.Check{
		{
			ID: "batch.served", Title: "Answers each request of an array", Level: suite.Must, Faces: faces, Revisions: old, Page: "basic §Batching",
			Statement: "Arrays of requests and notifications are received; each request in them gets its response, together or one by one.",
			Why:       "Clients of 2025-03-26 may send arrays, and wait for each answer.",
			Fix:       "Take an array apart and serve what is in it like messages that come one by one.",
			Run: func(t *suite.Trial) {
				got := batch(t, t.Open(nil), `[`+checkutil.Ping(`"b1"`)+`,`+cancelsNothing+`,`+checkutil.Ping(`"b2"`)+`]`, 2)
				for _, id := range []string{`"b1"`, `"b2"`} {
					n := 0
					for _, m := range got {
						if string(m.ID) == id && !m.Failed() {
							n++
						}
					}
					if n != 1 {
						t.Fail("one result for "+id, "%d", n)
					}
				}
			},
		},
		{
			ID: "batch.notifications", Title: "Takes an array of notifications with 202 and no body", Level: suite.Must, Faces: httpFace, Revisions: old, Page: pageSending,
			Statement: "A POST whose array has no request is answered with 202 and an empty body.",
			Why:       "Clients try to read a message where there is none, and report a failure.",
			Fix:       "Decide by whether there is a request in the array, not by whether the body is an array.",
			Run: func(t *suite.Trial) {
				accepted(t, t.Send(peer.Request{Header: checkutil.LegacyHead(t.Open(nil)), Body: `[` + cancelsNothing + `,` + cancelsNothing + `]`}), false)
			},
		},
		{
			ID: "batch.refused", Title: "Refuses arrays from 2025-06-18 on", Level: suite.Should, Faces: faces,
			Revisions: []string{peer.R2506, peer.R2511},
			Page:      pageSending + "; changelog of 2025-06-18",
			Statement: "The body of a POST, and a line, is a single message: arrays were taken out of the protocol.",
			Why:       "What looks at each message, as proxies and policies do, is got round with an array.",
			Fix:       "Answer arrays with 400 and the error -32600 in sessions of 2025-06-18 and later.",
			Run: func(t *suite.Trial) {
				for _, m := range batch(t, t.Open(nil), `[`+checkutil.Ping(`"b1"`)+`]`, 0) {
					if m.Kind() == peer.IsResponse && !m.Failed() {
						t.Fail("no result", "%s", m.Raw)
					}
				}
			},
		},
	}
}

// cancelsNothing is a notification that every server knows and that changes nothing.
const cancelsNothing = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"dragoman-unknown"}}`

// batch sends an array and returns the messages in answer to it. Over stdio it waits for a number of responses; for 0 it returns those that
// come before the answers to later requests.
func batch(t *suite.Trial, c *peer.Conn, array string, number int) []peer.Message {
	if t.Face == peer.LegacyHTTP {
		res := t.Send(peer.Request{Header: checkutil.LegacyHead(c), Body: array})
		if !res.Streams() {
			text, _ := res.Text()
			return flat(text)
		}
		var out []peer.Message
		for {
			e, err := res.Next()
			if err != nil {
				return out
			}
			out = append(out, flat(e.Data)...)
		}
	}
	if _, err := c.Say(array); err != nil {
		t.Break("the array could not be sent: %v", err)
	}
	for range checkutil.Fences { // what comes at once for the array has come then; a program may end over it, which is no answer either
		_, _ = c.Request("ping", "")
	}
	var out []peer.Message
	if number == 0 {
		for _, m := range c.Others() {
			out = append(out, checkutil.OfKind(flat(m.Raw), peer.IsResponse)...)
		}
		return out
	}
	_, _ = c.WaitOther(func(m peer.Message) bool {
		out = append(out, checkutil.OfKind(flat(m.Raw), peer.IsResponse)...)
		return len(out) >= number
	})
	return out
}

// flat returns the message of a text, or the messages of an array.
func flat(text string) (out []peer.Message) {
	if !strings.HasPrefix(strings.TrimSpace(text), "[") {
		if m, err := peer.ReadMessage(text); err == nil {
			out = append(out, m)
		}
		return out
	}
	v, err := peer.Decode(text)
	if err != nil {
		return nil
	}
	list, _ := v.([]any)
	for _, x := range list {
		if m, err := peer.ReadMessage(peer.Encode(x)); err == nil {
			out = append(out, m)
		}
	}
	return out
}
