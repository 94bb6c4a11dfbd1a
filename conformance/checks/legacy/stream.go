package legacy

import (
	"strings"
	"time"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

const pageResume = "basic/transports §Resumability and Redelivery"

// streamChecks is about the event streams of streamable HTTP.
func streamChecks() []*suite.Check {
	return append([]*suite.Check{
		{
			ID: "stream.answer-on-own", Title: "Answers on the POST's own stream, never on that of GET", Level: suite.Must, Faces: httpFace,
			Page:      "basic/transports §Listening for Messages from the Server",
			Statement: "No response comes on a GET stream that resumes nothing.",
			Why:       "Clients wait at the POST for their answer, and drop what comes elsewhere.",
			Fix:       "Send a response on the stream of the request that it answers; the GET stream is for notifications and questions.",
			Run:       answerOnOwn,
		},
		{
			ID: "stream.ends", Title: "Ends the stream of a POST after its answer", Level: suite.Should, Faces: httpFace, Page: pageSending,
			Statement: "When all responses have been sent the server closes the stream.",
			Why:       "Connections pile up on both sides, and clients that read to the end never get there.",
			Fix:       "Close the response when the answer is written.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				call := streamed(t, c, `"a"`)
				_ = mustEnd(t, call)
				if !call.WaitEnd() {
					t.Fail("the end of the stream after the answer", "the stream stays open")
				}
			},
		},
		{
			ID: "stream.no-broadcast", Title: "Sends each message on one stream only", Level: suite.Must, Faces: httpFace,
			Page:      "basic/transports §Multiple Connections",
			Statement: "With several streams of a client open, a message goes to one of them; it is not broadcast.",
			Why:       "The client does everything twice: asks its user twice, lists twice.",
			Fix:       "Choose one of the open streams, or let the newest replace the others.",
			Needs:     []suite.Need{suite.NeedsTool("test_trigger_tool_change")},
			Run:       noBroadcast,
		},
		{
			ID: "stream.priming", Title: "Begins a stream with an event that has an id alone", Level: suite.Should, Faces: httpFace, Revisions: []string{peer.R2511}, Page: pageSending,
			Statement: "A server begins a stream with an event of an id and empty data, so that the client can resume it from the start.",
			Why:       "A client that loses the stream before the first message cannot ask for the rest.",
			Fix:       "Write `id:` and an empty `data:` as soon as the stream is open, in sessions of 2025-11-25, and keep what follows for a client that resumes with Last-Event-ID.",
			Run: func(t *suite.Trial) {
				events := eventsOf(t, t.Open(nil), `"a"`)
				if len(events) == 0 {
					t.Skip("the server answers without a stream")
				}
				if first := events[0]; !first.HasID || first.Data != "" {
					t.Fail("first an event with an id and empty data", "%s", first.String())
				}
			},
		},
	}, resumeChecks()...)
}

func resumeChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "stream.event-ids-unique", Title: "Gives no event id twice in a session", Level: suite.Must, Faces: httpFace, Page: pageResume,
			Statement: "Event ids, if given, are unique among all streams of the session.",
			Why:       "Last-Event-ID names two places, and the client gets the rest of another stream.",
			Fix:       "Put the stream into the id, as s1-7, or count over all streams of the session.",
			Run:       eventIDsUnique,
		},
		{
			ID: "stream.resume-own", Title: "Replays no events of other streams", Level: suite.Must, Faces: httpFace, Page: pageResume,
			Statement: "GET with Last-Event-ID brings the events that followed on that very stream; those of other streams are not replayed.",
			Why:       "The client gets answers twice, or those of calls that wait elsewhere.",
			Fix:       "Keep the events by stream, and find the stream by the id.",
			Run: func(t *suite.Trial) {
				_, other, got := resumed(t)
				for _, m := range got {
					if strings.Contains(m.Raw, other) {
						t.Fail("events of the stream that was lost", "%s", m.Raw)
					}
				}
			},
		},
		{
			ID: "stream.resume-answer", Title: "Brings the answer on the stream that is resumed", Level: suite.May, Faces: httpFace, Page: pageResume,
			Statement: "A server that gives event ids may replay what came after the last one, and go on from there.",
			Why:       "The answer is lost with the connection, and the client has to send the call again.",
			Fix:       "Keep the last events of each stream until the session is over, or give no event ids.",
			Run: func(t *suite.Trial) {
				id, _, got := resumed(t)
				for _, m := range checkutil.OfKind(got, peer.IsResponse) {
					if string(m.ID) == id {
						return
					}
				}
				t.Fail("the response with id "+id, "%d messages without it", len(got))
			},
		},
	}
}

// streamed begins a call that a server is likely to answer with a stream, of the fixture's tool with progress, or else a ping.
func streamed(t *suite.Trial, c *peer.Conn, token string) *peer.Call {
	if t.Offer.Tool(checkutil.ToolProgress) != nil {
		return mustStart(t, c, "tools/call", toolCall(checkutil.ToolProgress, peer.Object{}, token))
	}
	return mustStart(t, c, "ping", "")
}

// eventsOf returns all events of such a call.
func eventsOf(t *suite.Trial, c *peer.Conn, token string) (out []peer.Event) {
	res := posted(t, c, `"e`+strings.Trim(token, `"`)+`"`, token)
	for res.Streams() {
		e, err := res.Next()
		if err != nil {
			break
		}
		out = append(out, e)
	}
	return out
}

// posted sends such a call as a raw request.
func posted(t *suite.Trial, c *peer.Conn, id, token string) *peer.Response {
	body := checkutil.Ping(id)
	if t.Offer.Tool(checkutil.ToolProgress) != nil {
		body = `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":` + toolCall(checkutil.ToolProgress, peer.Object{}, token) + `}`
	}
	return t.Send(peer.Request{Header: checkutil.LegacyHead(c), Body: body})
}

func answerOnOwn(t *suite.Trial) {
	c := t.Open(nil)
	if !c.Listens() {
		t.Skip("the server opens no GET stream")
	}
	calls := []*peer.Call{mustStart(t, c, "ping", ""), streamed(t, c, `"a"`)}
	for _, call := range calls {
		_, _ = call.Wait()
	}
	waitSettled(t, c)
	for _, m := range checkutil.OfKind(all(c, calls...), peer.IsResponse) {
		if m.Where == "the GET stream" {
			t.Fail("no response on the GET stream", "%s", m.Raw)
		}
	}
}

// noBroadcast tries several times: a change that another client makes may come on the second stream.
func noBroadcast(t *suite.Trial) {
	for range 4 {
		if !broadcasts(t) {
			return
		}
	}
	t.Fail("each message on one of two streams", "notifications/tools/list_changed on both, each time")
}

// broadcasts makes two changes in a session with two streams and reports whether both streams brought both. It ends the session before it
// counts: what the server has sent comes before the end of the streams.
func broadcasts(t *suite.Trial) bool {
	c := t.Open(func(s *peer.Settings) { s.NoListening = true })
	if !declares(c, "tools", "listChanged") {
		t.Skip("the server does not declare tools.listChanged")
	}
	var streams []*followed
	for range 2 {
		res := listen(t, c)
		if res.Status != 200 || !res.Streams() {
			t.Skip("the server opens no second GET stream: status %d", res.Status)
		}
		streams = append(streams, follow(t, res))
	}
	const changes = 2 // an even number, so that all is as it was
	least := func() int64 { return min(streams[0].count.Load(), streams[1].count.Load()) }
	most := func() int64 { return max(streams[0].count.Load(), streams[1].count.Load()) }
	for n := range int64(changes) {
		_ = mustRequest(t, c, "tools/call", toolCall("test_trigger_tool_change", nil, ""))
		eventually(t, time.Second, func() bool { return most() > n })
		eventually(t, quietPeriod, func() bool { return least() > n })
	}
	_ = deleted(t, c)
	all := func() bool { return least() >= changes && least() == most() }
	eventually(t, time.Second, func() bool { return all() || streams[0].over() && streams[1].over() })
	return all()
}

func eventIDsUnique(t *suite.Trial) {
	c := t.Open(nil)
	seen := make(map[string]bool)
	for _, token := range []string{`"u1"`, `"u2"`, `"u3"`} {
		for _, e := range eventsOf(t, c, token) {
			if e.HasID && e.ID != "" && seen[e.ID] {
				t.Fail("another id for each event", "%q twice", e.ID)
			}
			seen[e.ID] = e.HasID
		}
	}
	delete(seen, "")
	if len(seen) == 0 {
		t.Skip("the server gives its events no ids")
	}
}

// resumed closes the stream of a call after its first event, makes another call, and resumes the stream. It returns the id of the first call,
// the progress token of the other, and the messages of the resumed stream.
func resumed(t *suite.Trial) (id, other string, got []peer.Message) {
	if t.Offer.Tool(checkutil.ToolProgress) == nil {
		t.Skip("the server has no tool %s", checkutil.ToolProgress)
	}
	id, other = `"lost"`, "dragoman-other"
	c := t.Open(func(s *peer.Settings) { s.NoListening = true })
	res := posted(t, c, id, `"dragoman-lost"`)
	last := ""
	for res.Streams() && last == "" {
		e, err := res.Next()
		if err != nil {
			break
		}
		last = e.ID
	}
	if last == "" {
		t.Skip("the server gives its events no ids")
	}
	res.Close()
	_ = eventsOf(t, c, `"`+other+`"`)
	back := listen(t, c, peer.Field{Name: "Last-Event-ID", Value: last})
	if back.Status != 200 || !back.Streams() {
		t.Skip("GET with Last-Event-ID was answered with %d", back.Status)
	}
	back.Patience = 3 * time.Second // nothing says when there is no more to come
	for {
		e, err := back.Next()
		if err != nil {
			return id, other, got
		}
		m, err := peer.ReadMessage(e.Data)
		if err != nil {
			continue
		}
		got = append(got, m)
		if m.Kind() == peer.IsResponse {
			return id, other, got
		}
	}
}
