package legacy

import (
	"encoding/base64"
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// resourcesChecks is about resources and subscriptions.
func resourcesChecks() []*suite.Check {
	return append([]*suite.Check{
		{
			ID: "legacy-resources.read", Title: "Reads a resource that it lists", Level: suite.Must, Faces: faces, Needs: []suite.Need{suite.NeedsAResource},
			Page:      "server/resources §Reading Resources",
			Statement: "resources/read answers contents, each with the uri and a text, or a blob in base64.",
			Why:       "What users choose from the list cannot be opened.",
			Fix:       "Answer contents with uri and text or blob for every URI that resources/list shows.",
			Run:       readable,
		},
		{
			ID: "legacy-resources.not-found", Title: "Says that a resource is not there", Level: suite.Should, Faces: faces, Needs: []suite.Need{suite.NeedsResources},
			Page:      "server/resources §Error Handling",
			Statement: "Reading what is not there is an error, -32002; -32602, as the later revision has it, is understood as well.",
			Why:       "The model reads nothing, and takes it for an empty file.",
			Fix:       "Answer the error -32002 with data.uri; do not answer empty contents.",
			Run: func(t *suite.Trial) {
				m := mustRequest(t, t.Open(nil), "resources/read", `{"uri":"dragoman://no/such/resource"}`)
				checkutil.FailedWith(t, m, "the error -32002 or -32602", -32002, -32602)
			},
		},
		{
			ID: "legacy-resources.template", Title: "Reads what a template stands for", Level: suite.Must, Faces: faces, Needs: []suite.Need{suite.NeedsResources},
			Page:      "server/resources §Resource Templates",
			Statement: "A URI made of a template can be read, with the values that were put in.",
			Why:       "The template is shown to users and leads nowhere.",
			Fix:       "Match URIs against the templates that you list, and decode the values (RFC 6570).",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				found := false
				if m := mustRequest(t, c, "resources/templates/list", ""); !m.Failed() {
					for _, x := range peer.List(m.Result(), "resourceTemplates") {
						found = found || peer.Text(x, "uriTemplate") == "test://template/{id}/data"
					}
				}
				if !found {
					t.Skip("the server has not the template test://template/{id}/data")
				}
				const expected = "contents in which the id 4711 stands"
				result := mustResult(t, c, "resources/read", `{"uri":"test://template/4711/data"}`, expected)
				if !strings.Contains(peer.Encode(result["contents"]), "4711") {
					t.Fail(expected, "%s", peer.Encode(result))
				}
			},
		},
	}, subscribeChecks()...)
}

func subscribeChecks() []*suite.Check {
	const page = "server/resources §Subscriptions"
	needs := []suite.Need{suite.NeedsSubscribe, suite.NeedsTool("test_trigger_resource_update")}
	return []*suite.Check{
		{
			ID: "legacy-subscribe.answered", Title: "Takes subscriptions, if it has declared them", Level: suite.Must, Faces: faces,
			Needs: []suite.Need{suite.NeedsSubscribe, suite.NeedsAResource}, Page: page,
			Statement: "resources/subscribe and resources/unsubscribe for a resource that is there are answered with an empty result.",
			Why:       "Clients that went by the capability show an error.",
			Fix:       "Serve both methods, or do not declare resources.subscribe.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				params := peer.Encode(peer.Object{"uri": peer.Text(t.Offer.Resources[0], "uri")})
				mustResult(t, c, "resources/subscribe", params, "a result")
				mustResult(t, c, "resources/unsubscribe", params, "a result")
			},
		},
		{
			ID: "legacy-subscribe.updated", Title: "Tells subscribers when a resource has changed", Level: suite.Should, Faces: faces, Needs: needs, Page: page,
			Statement: "When a resource changes that a client has subscribed to, it gets notifications/resources/updated with the uri.",
			Why:       "The client goes on with what it has read.",
			Fix:       "Keep the subscriptions by session, and send the notification on the stream that the session listens on.",
			Run: func(t *suite.Trial) {
				c := subscriber(t)
				update(t, c)
				if _, err := c.WaitOther(isUpdate); err != nil {
					t.Fail(updatedMethod+" with the uri "+watched, "%v", err)
				}
			},
		},
		{
			ID: "legacy-subscribe.only-subscribed", Title: "Sends updates only to subscribers", Level: suite.Should, Faces: faces, Needs: needs, Page: page + "; schema ResourceUpdatedNotification",
			Statement: "notifications/resources/updated goes to clients that have subscribed to the resource.",
			Why:       "Clients are woken for resources that they do not use, and learn what others work on.",
			Fix:       "Look up the session's own subscriptions before you send.",
			Run: func(t *suite.Trial) {
				c, other := subscriber(t), t.Open(nil)
				update(t, c)
				if _, err := c.WaitOther(isUpdate); err != nil {
					t.Skip("the subscriber was told nothing: %v", err)
				}
				settle(t, other, toolsMarker)
				for _, m := range checkutil.OfMethod(all(other), updatedMethod) {
					t.Fail("none to who has not subscribed", "%s", m.Raw)
				}
			},
		},
		{
			ID: "legacy-subscribe.unsubscribed", Title: "Tells nothing any more after unsubscribing", Level: suite.Should, Faces: faces, Needs: needs, Page: page,
			Statement: "After resources/unsubscribe the client gets no more updates of the resource.",
			Why:       "The client is woken for a resource that it has closed.",
			Fix:       "Take the resource out of the session's subscriptions before you answer.",
			Run:       unsubscribed,
		},
	}
}

func readable(t *suite.Trial) {
	c := t.Open(nil)
	var failed peer.Message
	for i, resource := range t.Offer.Resources {
		if i == 5 {
			break
		}
		uri := peer.Text(resource, "uri")
		m := mustRequest(t, c, "resources/read", peer.Encode(peer.Object{"uri": uri}))
		if m.Failed() {
			failed = m // it may be unavailable, or belong to another user
			continue
		}
		contents := peer.List(m.Result(), "contents")
		if contents == nil {
			t.Fail("contents of "+uri, "%s", m.Raw)
		}
		for _, x := range contents {
			_, text := peer.Get(x, "text").(string)
			blob, binary := peer.Get(x, "blob").(string)
			if _, err := base64.StdEncoding.DecodeString(blob); binary && err != nil {
				t.Fail("blob in base64", "%v", err)
			}
			if peer.Text(x, "uri") == "" || text == binary {
				t.Fail("contents of "+uri+" with uri, and text or blob", "%s", peer.Encode(x))
			}
		}
		return
	}
	t.Fail("a resource of the list that can be read", "%s", checkutil.Failure(failed))
}

// watched is the resource that a tool of the fixture changes.
const (
	watched       = "test://watched-resource"
	updatedMethod = "notifications/resources/updated"
)

func isUpdate(m peer.Message) bool {
	return m.Method == updatedMethod && peer.Text(m.Params(), "uri") == watched
}

func subscriber(t *suite.Trial) *peer.Conn {
	c := t.Open(nil)
	if t.Face == peer.LegacyHTTP && !c.Listens() {
		t.Skip("the server opens no GET stream")
	}
	if m := mustRequest(t, c, "resources/subscribe", peer.Encode(peer.Object{"uri": watched})); m.Failed() {
		t.Skip("%s cannot be subscribed to: %s", watched, checkutil.Failure(m))
	}
	return c
}

func update(t *suite.Trial, c *peer.Conn) {
	_ = mustRequest(t, c, "tools/call", toolCall("test_trigger_resource_update", peer.Object{}, ""))
}

// unsubscribed tries several times: an update of an earlier change, which another client may have made, may arrive late.
func unsubscribed(t *suite.Trial) {
	c := subscriber(t)
	params := peer.Encode(peer.Object{"uri": watched})
	mustResult(t, c, "resources/unsubscribe", params, "a result")
	const rounds = 3
	for range rounds {
		settle(t, c, toolsMarker)
		before := len(checkutil.OfMethod(c.Others(), updatedMethod))
		update(t, c)
		settle(t, c, toolsMarker)
		if len(checkutil.OfMethod(c.Others(), updatedMethod)) == before {
			return
		}
	}
	t.Fail("no update after unsubscribing", "one after each change")
}
