package legacy

import (
	"context"
	"net/url"
	"strings"
	"time"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

const pageSSE = "2024-11-05 basic/transports §HTTP with SSE"

// sseChecks are about HTTP+SSE: a stream for messages of the server, and an endpoint for those of the client.
func sseChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "sse.endpoint-first", Title: "Begins its stream with an event named endpoint", Level: suite.Must, Faces: sseFace, Page: pageSSE,
			Statement: "When a client connects, the server sends an endpoint event with a URI for the client's messages.",
			Why:       "A client does not know where to send anything, or takes the first message for the address.",
			Fix:       "Write `event: endpoint` and `data:` with the URI before anything else, and flush it at once.",
			Run: func(t *suite.Trial) {
				const expected = "first an event named endpoint, with a URI"
				_, e := sseStream(t)
				if e.Name != "endpoint" || e.Data == "" {
					t.Fatal(expected, "%s", e.String())
				}
				if _, err := url.Parse(e.Data); err != nil {
					t.Fail(expected, "%v", err)
				}
			},
		},
		{
			ID: "sse.same-origin", Title: "Names an endpoint of its own origin", Level: suite.Should, Faces: sseFace, Page: pageSSE + "; §Security Warning",
			Statement: "The endpoint is at the origin of the stream; clients refuse to send messages and credentials elsewhere.",
			Why:       "Clients end the connection: an endpoint elsewhere would get their tokens.",
			Fix:       "Send a relative URI, as /messages?sessionId=…; behind a proxy it is right as well.",
			Run: func(t *suite.Trial) {
				post := sseEndpoint(t)
				base, err := url.Parse(t.Target.HTTP.URL)
				if err != nil {
					t.Break("%v", err)
				}
				if post.Scheme != base.Scheme || post.Host != base.Host {
					t.Fail("an endpoint at "+base.Scheme+"://"+base.Host, "%s", post)
				}
			},
		},
		{
			ID: "sse.post-accepted", Title: "Accepts messages at the endpoint", Level: suite.Must, Faces: sseFace, Page: pageSSE,
			Statement: "Clients send all their messages as POSTs to the endpoint, and the server takes them; 202 is the usual answer.",
			Why:       "Clients take any status but 2xx for a failure, whatever then comes on the stream.",
			Fix:       "Answer 202 as soon as the message is read; the answer itself goes to the stream.",
			Run: func(t *suite.Trial) {
				post := sseEndpoint(t).String()
				for _, body := range []string{checkutil.Initialize(t.Revision), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, checkutil.Ping("2")} {
					checkutil.WantStatus(t, ssePost(t, post, body), "a status of 2xx", checkutil.IsSuccess)
				}
			},
		},
		{
			ID: "sse.answer-on-stream", Title: "Answers on the stream, in events named message", Level: suite.Must, Faces: sseFace, Page: pageSSE,
			Statement: "Messages of the server go to the stream as events named message, with the JSON as data.",
			Why:       "Clients listen for events of that name on that stream, and for nothing else.",
			Fix:       "Write `event: message` and the JSON in one `data:` line to the stream from which the session came.",
			Run:       answersOnStream,
		},
		{
			ID: "sse.unknown-session", Title: "Refuses messages for a session that is not there", Level: suite.Should, Faces: sseFace, Page: pageSSE,
			Statement: "A POST to an endpoint that belongs to no open stream cannot be answered, and is refused.",
			Why:       "After a restart of the server clients wait for answers that cannot come.",
			Fix:       "Answer 404 where the session in the URI has no open stream.",
			Run: func(t *suite.Trial) {
				res, e := sseStream(t)
				post := endpointOf(t, e)
				defer res.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				// Some servers do not answer.
				refused, err := t.Target.HTTP.Send(ctx, peer.Request{URL: elsewhere(post), Header: peer.Fields{{Name: "Content-Type", Value: "application/json"}}, Body: checkutil.Ping("3")}, t.Watch)
				if err != nil {
					t.Fatal("a status of 4xx", "no answer: %v", err)
				}
				defer refused.Close()
				checkutil.WantStatus(t, refused, "a status of 4xx", checkutil.IsClientError)
			},
		},
	}
}

func answersOnStream(t *suite.Trial) {
	const expected = "the answer to initialize on the stream, in an event named message"
	res, e := sseStream(t)
	post := endpointOf(t, e)
	body, _ := ssePost(t, post.String(), checkutil.Initialize(t.Revision)).Text()
	if m, err := peer.ReadMessage(body); err == nil && m.Kind() == peer.IsResponse {
		t.Fatal(expected, "the answer to the POST: %s", body)
	}
	for {
		e, err := res.Next()
		if err != nil {
			t.Fatal(expected, "%v", err)
		}
		m, err := peer.ReadMessage(e.Data)
		if err != nil || m.Kind() != peer.IsResponse {
			continue
		}
		if e.Name != "message" && e.Name != "" {
			t.Fail(expected, "an event named %q", e.Name)
		}
		return
	}
}

// sseStream opens a stream and returns its first event.
func sseStream(t *suite.Trial) (*peer.Response, peer.Event) {
	res := t.Send(peer.Request{Method: "GET", Header: peer.Fields{{Name: "Accept", Value: "text/event-stream"}}})
	if res.Status != 200 || !res.Streams() {
		t.Fatal("an event stream", "status %d with Content-Type %q", res.Status, res.Header.Get("Content-Type"))
	}
	e, err := res.Next()
	if err != nil {
		t.Fatal("an event", "%v", err)
	}
	return res, e
}

func sseEndpoint(t *suite.Trial) *url.URL { _, e := sseStream(t); return endpointOf(t, e) }

// endpointOf resolves the endpoint against the stream's address.
func endpointOf(t *suite.Trial, e peer.Event) *url.URL {
	base, err := url.Parse(t.Target.HTTP.URL)
	if err == nil {
		base, err = base.Parse(e.Data)
	}
	if err != nil || e.Name != "endpoint" {
		t.Break("no endpoint came first: %s", e.String())
	}
	return base
}

// elsewhere returns the endpoint of another session: it changes the last characters of the query or the path.
func elsewhere(post *url.URL) string {
	changed := *post
	change := func(s string) string {
		n := max(0, len(s)-4)
		if strings.HasSuffix(s, "0000") {
			return s[:n] + "1111"
		}
		return s[:n] + "0000"
	}
	if changed.RawQuery != "" {
		changed.RawQuery = change(changed.RawQuery)
	} else {
		changed.Path, changed.RawPath = change(changed.Path), ""
	}
	return changed.String()
}

func ssePost(t *suite.Trial, post, body string) *peer.Response {
	return t.Send(peer.Request{URL: post, Header: peer.Fields{{Name: "Content-Type", Value: "application/json"}}, Body: body})
}
