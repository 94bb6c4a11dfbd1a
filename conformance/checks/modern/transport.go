package modern

import (
	"strings"
	"sync"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// transportChecks covers the use of HTTP in 2026-07-28.
func transportChecks() []*suite.Check {
	return append(leftoversChecks(),
		&suite.Check{
			ID: "transport.content-type", Title: "Answers requests with JSON or an event stream", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Sending Messages",
			Statement: "The response to a request must be application/json, a single object, or text/event-stream.",
			Why:       "Clients choose by the type how to read the body; of any other they read nothing.",
			Fix:       "Set Content-Type to application/json for a single object and to text/event-stream for a stream. That holds for errors with a JSON-RPC body too.",
			Run: func(t *suite.Trial) {
				for _, method := range []string{"server/discover", "dragoman/no-such-method"} {
					res := t.Send(peer.Request{Header: checkutil.ModernHead(method), Body: checkutil.ModernBody("1", method, nil, nil)})
					if res.Type != "application/json" && !res.Streams() {
						t.Fail("Content-Type application/json or text/event-stream", "%q for %s", res.Header.Get("Content-Type"), method)
					}
				}
			},
		},
		&suite.Check{
			ID: "transport.buffering", Title: "Asks proxies not to buffer its streams", Level: suite.Should, Faces: httpFace, Page: pageHTTP + "Receiving Messages",
			Statement: "Event streams should carry X-Accel-Buffering: no.",
			Why:       "Behind nginx and its like the events of a stream come all at once at its end, or never on one that stays open.",
			Fix:       "Set the header X-Accel-Buffering: no on every response of type text/event-stream. It does no harm where no proxy reads it.",
			Run: func(t *suite.Trial) {
				res := listenRaw(t)
				if got := res.Header.Get("X-Accel-Buffering"); got != "no" {
					t.Fail("X-Accel-Buffering: no", "%q", got)
				}
			},
		},
		&suite.Check{
			ID: "transport.stream-ends", Title: "Ends a stream with its response", Level: suite.Should, Faces: httpFace, Page: pageHTTP + "Receiving Messages",
			Statement: "The final response should end the stream.",
			Why:       "A stream left open costs a connection, and clients that wait for its end wait for nothing.",
			Fix:       "Close the response body after the event with the final response. Do not wait for the client to leave.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, call := range []*peer.Call{mustStart(t, c, "server/discover", nil), underWay(t, c, `"ends"`)} {
					if call == nil {
						continue
					}
					if _, err := call.Wait(); err != nil {
						t.Break("%v", err)
					}
					if !call.WaitEnd() {
						t.Fail("the end of the stream after the response", "it stays open after the response to %s", call.Method)
					}
				}
			},
		},
		&suite.Check{
			ID: "transport.events", Title: "Puts one message into each event", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Receiving Messages",
			Statement: "A stream carries JSON-RPC notifications and the final response, each the data of one event.",
			Why:       "Clients parse the data of each event as one message and stop at anything else.",
			Fix:       "Write one JSON object as the data of each event, without an event name or with \"message\". Use comment lines (\":\") to keep a stream alive.",
			Run: func(t *suite.Trial) {
				streams := []peer.Request{{Header: checkutil.ModernHead("subscriptions/listen"),
					Body: checkutil.ModernBody("1", "subscriptions/listen", peer.Object{"notifications": anyFilter(t)}, nil)}}
				if t.Offer.Tool(checkutil.ToolProgress) != nil {
					streams = append(streams, peer.Request{Header: checkutil.ModernHead("tools/call", peer.Field{Name: "Mcp-Name", Value: checkutil.ToolProgress}),
						Body: checkutil.ModernBody("2", "tools/call", peer.Object{"name": checkutil.ToolProgress, "arguments": peer.Object{}}, func(meta peer.Object) { meta["progressToken"] = "events" })})
				}
				for _, r := range streams {
					judgeEvents(t, t.Send(r))
				}
			},
		},
		&suite.Check{
			ID: "transport.clients-apart", Title: "Keeps clients apart that use the same ids", Level: suite.Must, Faces: httpFace, Page: "basic/index §Requests",
			Statement: "An id is unique among the requests of its sender alone; a response belongs to the HTTP request that it answers.",
			Why:       "All clients count from 1: a server that keeps requests by id alone gives one client's data to another.",
			Fix:       "Never use the JSON-RPC id as a key across connections. Keep what is needed for the answer with the HTTP request.",
			Run:       sameIDs,
		},
		&suite.Check{
			ID: "security.foreign-origin", Title: "Refuses requests of foreign web pages", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Security & Endpoint",
			Statement: "Servers must validate Origin and answer 403 if it is present and invalid.",
			Why:       "By DNS rebinding any web page that the user visits could call a server on the user's machine.",
			Fix:       "Compare Origin, where it is present, with a list of origins that you serve, and answer 403 otherwise. Without Origin the request does not come from a browser.",
			Run: func(t *suite.Trial) {
				res := t.Send(peer.Request{Header: checkutil.ModernHead("server/discover", peer.Field{Name: "Origin", Value: "https://evil.example"}),
					Body: checkutil.ModernBody("1", "server/discover", nil, nil)})
				if res.Status != 403 {
					t.Fail("status 403", "status %d for Origin https://evil.example", res.Status)
				}
			},
		})
}

// leftoversChecks are about features of earlier revisions over HTTP.
func leftoversChecks() []*suite.Check {
	const page = pageHTTP + "Earlier Streamable HTTP Revisions"
	verb := func(method string) *suite.Check {
		name := strings.ToLower(method)
		return &suite.Check{ID: "transport." + name, Title: "Answers " + method + " with 405", Level: suite.Should, Faces: httpFace, Page: page,
			Statement: "A server of this revision alone should answer " + method + " with 405; there are no sessions and no stream of GET.",
			Why:       "Clients of earlier revisions take anything else for a stream or a session that is not there.",
			Fix:       "Answer every method but POST with 405 and Allow: POST. Servers that speak earlier revisions too follow those.",
			Run: func(t *suite.Trial) {
				res := t.Send(peer.Request{Method: method, Header: peer.Fields{{Name: "Accept", Value: "text/event-stream"}, {Name: "MCP-Protocol-Version", Value: peer.R2607}}})
				if res.Status == 405 || res.Status >= 400 && res.Status < 500 && isDual(t) {
					return
				}
				t.Fail("status 405", "status %d", res.Status)
			}}
	}
	ignored := func(id, header, fix string) *suite.Check {
		return &suite.Check{ID: id, Title: "Ignores " + header, Level: suite.Should, Faces: httpFace, Page: page,
			Statement: header + " on a request should be ignored.",
			Why:       "A client that served an earlier revision a moment ago may still send it.",
			Fix:       fix,
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				k.accept(k.request("1", "server/discover", nil, nil, peer.Field{Name: header, Value: "4c5e7a0b-none"}), "a result, as without "+header)
			}}
	}
	return []*suite.Check{
		verb("GET"), verb("DELETE"),
		ignored("transport.session-id", "Mcp-Session-Id", "Do not look up sessions for requests with a modern _meta. Leave Mcp-Session-Id unread there."),
		ignored("transport.last-event-id", "Last-Event-ID", "Streams cannot be resumed in this revision. Leave Last-Event-ID unread."),
		{
			ID: "transport.no-session", Title: "Gives out no session id", Level: suite.Should, Faces: httpFace, Page: page,
			Statement: "Session ids should be neither minted nor echoed.",
			Why:       "Clients and load balancers that see one tie all that follows to this instance.",
			Fix:       "Do not set Mcp-Session-Id on responses to modern requests, also if the request carries one.",
			Run: func(t *suite.Trial) {
				for _, more := range [][]peer.Field{nil, {{Name: "Mcp-Session-Id", Value: "4c5e7a0b-none"}}} {
					res := t.Send(peer.Request{Header: checkutil.ModernHead("server/discover", more...), Body: checkutil.ModernBody("1", "server/discover", nil, nil)})
					if got := res.Header.Get("Mcp-Session-Id"); got != "" {
						t.Fail("no Mcp-Session-Id", "%q", got)
					}
				}
			},
		},
	}
}

// judgeEvents checks the events of a stream up to its response, of a subscription only the first.
func judgeEvents(t *suite.Trial, res *peer.Response) {
	for first := true; res.Streams(); first = false {
		e, err := res.Next()
		if err != nil {
			return
		}
		m, err := peer.ReadMessage(e.Data)
		switch {
		case !e.HasData:
			continue
		case err != nil || m.Kind() == peer.Neither || e.Name != "" && e.Name != "message":
			t.Fail("an event whose data is one JSON-RPC message", "%s", e)
		}
		if m.Kind() == peer.IsResponse || first && m.Method == "notifications/subscriptions/acknowledged" {
			return
		}
	}
}

// listenRaw opens a listen for changes of tools. The trial is skipped if the server does not answer with a stream.
func listenRaw(t *suite.Trial) *peer.Response {
	res := t.Send(peer.Request{Header: checkutil.ModernHead("subscriptions/listen"),
		Body: checkutil.ModernBody("1", "subscriptions/listen", peer.Object{"notifications": peer.Object{"toolsListChanged": true}}, nil)})
	if !res.Streams() {
		t.Skip("the server does not answer subscriptions/listen with a stream")
	}
	return res
}

// underWay begins a slow call with progress under a token; nil if there is no such tool.
func underWay(t *suite.Trial, c *peer.Conn, token string) *peer.Call {
	if t.Offer.Tool(checkutil.ToolProgress) == nil {
		return nil
	}
	return mustStart(t, c, "tools/call", withToken(checkutil.ToolProgress, token))
}

// withToken returns the params of a call with a progress token, which is JSON; "" for none.
func withToken(tool, token string) peer.Object {
	params := peer.Object{"name": tool, "arguments": peer.Object{}}
	if token != "" {
		v, _ := peer.Decode(token)
		params["_meta"] = peer.Object{"progressToken": v}
	}
	return params
}

// sameIDs sends several requests at a time, all with the id 1 and on different connections.
func sameIDs(t *suite.Trial) {
	asked := map[string]string{"server/discover": "supportedVersions"}
	for _, list := range []string{"tools", "prompts", "resources"} {
		if t.Offer.Capability(list) {
			asked[list+"/list"] = list
		}
	}
	var work sync.WaitGroup
	for range 3 {
		for method, member := range asked {
			c := t.Open(nil)
			work.Go(func() {
				call, err := c.StartAs("1", method, "")
				if err != nil {
					return
				}
				if m, err := call.Wait(); err == nil && !m.Failed() && peer.List(m.Result(), member) == nil {
					t.Fail("the result of "+method, "%s", m.Raw)
				}
			})
		}
	}
	work.Wait()
	if len(asked) == 1 {
		t.Skip("there is only one thing that can be asked for")
	}
}
