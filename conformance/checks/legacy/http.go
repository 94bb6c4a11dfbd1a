package legacy

import (
	"net/url"
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
	"dragoman/proxy"
)

const pageSending = "basic/transports §Sending Messages to the Server"

// httpChecks covers streamable HTTP of the legacy revisions, without sessions and streams.
func httpChecks() []*suite.Check {
	return append([]*suite.Check{
		{
			ID: "legacy-http.notification-202", Title: "Takes a notification with 202 and no body", Level: suite.Must, Faces: httpFace, Page: pageSending,
			Statement: "A POST of notifications that is accepted is answered with 202 and an empty body.",
			Why:       "Clients try to read a message where there is none, and report a failure.",
			Fix:       "Answer POSTs without a request with 202 and nothing else.",
			Run: func(t *suite.Trial) {
				c := openInitialized(t, nil)
				accepted(t, t.Send(peer.Request{Header: checkutil.LegacyHead(c), Body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`}), false)
			},
		},
		{
			ID: "legacy-http.response-202", Title: "Takes a response with 202 and no body, or refuses it with an error status", Level: suite.Must, Faces: httpFace, Page: pageSending,
			Statement: "A POST of responses is answered with 202 and an empty body if it is accepted, with an HTTP error status if not.",
			Why:       "Clients try to read a message where there is none, and report a failure.",
			Fix:       "Answer POSTs without a request with 202 and nothing else, or with 400 where the response belongs to no question.",
			Run: func(t *suite.Trial) {
				accepted(t, t.Send(peer.Request{Header: checkutil.LegacyHead(t.Open(nil)), Body: `{"jsonrpc":"2.0","id":"dragoman-unasked","result":{}}`}), true)
			},
		},
		{
			ID: "legacy-http.content-type", Title: "Answers requests with JSON or an event stream", Level: suite.Must, Faces: httpFace, Page: pageSending,
			Statement: "A POST with a request is answered with Content-Type application/json or text/event-stream.",
			Why:       "Clients decide by the Content-Type how to read the answer, and give up at any other.",
			Fix:       "Set Content-Type on every answer to a request, errors too.",
			Run: func(t *suite.Trial) {
				const expected = "application/json or text/event-stream"
				c := t.Open(nil)
				for _, body := range []string{checkutil.Ping("71"), `{"jsonrpc":"2.0","id":72,"method":"tools/list"}`} {
					if res := t.Send(peer.Request{Header: checkutil.LegacyHead(c), Body: body}); res.Type != "application/json" && !res.Streams() {
						t.Fail(expected, "status %d with Content-Type %q", res.Status, res.Header.Get("Content-Type"))
					}
				}
			},
		},
		{
			ID: "legacy-http.get", Title: "Answers GET with an event stream or 405", Level: suite.Must, Faces: httpFace,
			Page:      "basic/transports §Listening for Messages from the Server",
			Statement: "GET with Accept: text/event-stream opens an event stream; a server that offers none there answers 405.",
			Why:       "Clients listen right after the handshake; at another answer many end the connection.",
			Fix:       "Answer GET with 405 if there is nothing to listen to.",
			Run: func(t *suite.Trial) {
				c := t.Open(func(s *peer.Settings) { s.NoListening = true })
				if res := listen(t, c); !(res.Status == 200 && res.Streams()) && res.Status != 405 {
					t.Fail("200 with text/event-stream, or 405", "status %d with Content-Type %q", res.Status, res.Header.Get("Content-Type"))
				}
			},
		},
		{
			ID: "legacy-http.bad-json", Title: "Refuses a body that is no JSON", Level: suite.Must, Faces: httpFace,
			Page:      "basic §Messages (JSON-RPC 2.0 §5.1); " + pageSending,
			Statement: "What cannot be read is not accepted: the answer has an HTTP error status, or is a JSON-RPC error.",
			Why:       "A client whose message was cut on its way believes that it has arrived.",
			Fix:       "Answer 400, with the JSON-RPC error -32700 as body if you like.",
			Run: func(t *suite.Trial) {
				res := t.Send(peer.Request{Header: checkutil.LegacyHead(t.Open(nil)), Body: `{"jsonrpc":"2.0","id":1,"method":"ping"`})
				if m := checkutil.Answer(t, res); res.Status/100 != 4 && (m == nil || !m.Failed()) {
					t.Fail("a status of 4xx, or a JSON-RPC error", "status %d", res.Status)
				}
			},
		},
	}, head2506Checks()...)
}

// head2506Checks covers the head of a request since 2025-06-18.
func head2506Checks() []*suite.Check {
	const page = "basic/transports §Protocol Version Header"
	return []*suite.Check{
		{
			ID: "legacy-http.version-unsupported", Title: "Refuses an unsupported MCP-Protocol-Version with 400", Level: suite.Must, Faces: httpFace,
			Revisions: suite.From(peer.R2506), Page: page,
			Statement: "A request with an invalid or unsupported MCP-Protocol-Version is answered with 400.",
			Why:       "Client and server read the same message by different rules, without notice.",
			Fix:       "Compare the header with the revisions that you speak, on every request after initialize.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, version := range []string{"1999-01-01", "nonsense"} {
					res := t.Send(peer.Request{Header: checkutil.LegacyHead(c, peer.Field{Name: "MCP-Protocol-Version", Value: version}), Body: checkutil.Ping("1")})
					checkutil.WantStatus(t, res, "status 400 for "+version, checkutil.IsStatus(400))
				}
			},
		},
		{
			ID: "legacy-http.version-absent", Title: "Serves requests without MCP-Protocol-Version", Level: suite.Should, Faces: httpFace,
			Revisions: suite.From(peer.R2506), Page: page,
			Statement: "Where the header is missing and the revision is not known otherwise, 2025-03-26 is assumed.",
			Why:       "Clients of 2025-03-26 do not know the header.",
			Fix:       "Take the revision that the session has agreed on where the header is missing.",
			Run: func(t *suite.Trial) {
				res := t.Send(peer.Request{Header: checkutil.LegacyHead(t.Open(nil), peer.Drop("MCP-Protocol-Version")), Body: checkutil.Ping("81")})
				if m := checkutil.Answer(t, res); m == nil || m.Failed() {
					t.Fail("the result of ping", "status %d", res.Status)
				}
			},
		},
		{
			ID: "legacy-http.origin", Title: "Refuses requests from foreign web pages", Level: suite.Must, Faces: webFaces,
			Page:      "basic/transports §Security Warning",
			Statement: "The Origin of every connection is validated; 2025-11-25 says that an invalid one is answered with 403.",
			Why:       "Any web page that a user opens can use the server on the user's machine, by DNS rebinding.",
			Fix:       "Refuse requests with an Origin that is not on your list with 403, before anything else; a missing Origin is fine.",
			Run:       foreignOrigin,
		},
	}
}

// accepted fails the trial unless the response is 202 without a body or, if refusable, an error status.
func accepted(t *suite.Trial, res *peer.Response, refusable bool) {
	expected := "202 without a body"
	if refusable {
		expected += ", or a status of 4xx"
	}
	text, _ := res.Text()
	switch {
	case refusable && checkutil.IsClientError(res.Status):
	case res.Status != 202:
		t.Fail(expected, "status %d", res.Status)
	case strings.TrimSpace(text) != "":
		t.Fail(expected, "a body: %s", text)
	}
}

// listen sends the GET of a session.
func listen(t *suite.Trial, c *peer.Conn, more ...peer.Field) *peer.Response {
	head := checkutil.LegacyHead(c, peer.Drop("Content-Type"), peer.Field{Name: "Accept", Value: "text/event-stream"})
	return t.Send(peer.Request{Method: "GET", Header: append(head, more...)})
}

// foreignOrigin runs only at servers of this machine: the allowed origins of others are unknown.
func foreignOrigin(t *suite.Trial) {
	u, err := url.Parse(t.Target.HTTP.URL)
	if err != nil || !proxy.IsLoopbackHost(u.Hostname()) {
		t.Skip("the server is not on this machine: which origins are foreign to it is not known")
	}
	stranger := peer.Field{Name: "Origin", Value: "http://stranger.example"}
	expected, right := "a status of 4xx", checkutil.IsClientError
	if t.Revision >= peer.R2511 && t.Face == peer.LegacyHTTP {
		expected, right = "status 403", checkutil.IsStatus(403)
	}
	if t.Face == peer.SSE {
		res := t.Send(peer.Request{Method: "GET", Header: peer.Fields{{Name: "Accept", Value: "text/event-stream"}, stranger}})
		checkutil.WantStatus(t, res, expected, right)
		return
	}
	c := t.Open(nil)
	res := t.Send(peer.Request{Header: checkutil.LegacyHead(c, stranger), Body: checkutil.Ping("1")})
	checkutil.WantStatus(t, res, expected, right)
}
