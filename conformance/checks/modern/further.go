package modern

import (
	"encoding/base64"
	"strings"
	"time"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// furtherChecks are checks of 2026-07-28 that belong to several areas.
func furtherChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "request.name-marker", Title: "Takes other markers than those of Base64 for text", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Value Encoding",
			Statement: "=?base64? and ?= are compared with their case, and mean something together alone: anything else in Mcp-Name is the name as it is.",
			Why:       "A gateway that reads the head and a server that reads it otherwise take one request for two.",
			Fix:       "Decode only what begins with =?base64? and ends with ?=, in small letters. Compare everything else as it came, and answer 400 and -32020 where it differs.",
			Run: func(t *suite.Trial) {
				x, k := harmlessTarget(t), newRawClient(t)
				plain := base64.StdEncoding.EncodeToString([]byte(x.name))
				for _, value := range []string{"=?BASE64?" + plain + "?=", "=?base64?" + plain} {
					k.refuse(k.request("1", x.method, x.params(), nil, peer.Field{Name: "Mcp-Name", Value: value}), 400, x.refusals()...)
				}
			},
		},
		{
			ID: "errors.earlier-codes", Title: "Uses no error codes of earlier revisions", Level: suite.Should, Faces: faces, Page: "basic/index §Error Codes",
			Statement: "-32000 to -32019 should no longer be used: they have no meaning.",
			Why:       "Clients can do nothing with the code, for each server has meant something else by it.",
			Fix:       "Use the codes of JSON-RPC and of the specification, and for errors of your own codes outside of -32768 to -32000.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, x := range []request{{"dragoman/no-such-method", nil}, {"tools/call", peer.Object{"name": "dragoman-conformance-no-such-tool"}},
					{"prompts/get", peer.Object{"name": "dragoman-conformance-no-such-prompt"}}, {"resources/read", peer.Object{"uri": missingURI}}} {
					_, m := mustRequest(t, c, x.method, x.params)
					if code, message, _ := m.Error(); code <= -32000 && code >= -32019 && code != -32002 { // errors.reserved-codes judges that one
						t.Fail("a code that means something", "the error %d for %s: %s", code, x.method, message)
					}
				}
			},
		},
		{
			ID: "discover.told-to-legacy", Title: "Tells legacy clients which revisions it speaks", Level: suite.Should, Faces: faces, Page: "basic/versioning §Compatibility Matrix",
			Statement: "A server that speaks modern revisions alone names them in its error to initialize.",
			Why:       "Users of older clients see that it does not work, and not why.",
			Fix:       "Answer initialize with -32022, whose data has supported, or name the revisions in the message.",
			Run:       toldToLegacy,
		},
		{
			ID: "cancel.unsaid", Title: "Does not cancel requests of the client", Level: suite.Must, Faces: faces, Page: "basic/patterns/cancellation",
			Statement: "Servers send notifications/cancelled to end a subscription, and for nothing else.",
			Why:       "The client gives up a call that is answered after all.",
			Fix:       "Answer with an error what cannot be done.",
			Run:       cancelsUnasked,
		},
		{
			ID: "tools.structured-text", Title: "Repeats structured content as text", Level: suite.Should, Faces: faces, Needs: []suite.Need{suite.NeedsATool}, Page: "server/tools §Structured Content",
			Statement: "A tool that answers structuredContent answers the same JSON in a text block too.",
			Why:       "Clients and models that read content alone see an empty answer.",
			Fix:       "Add a text block with the serialised JSON to content.",
			Run:       structuredText,
		},
		{
			ID: "subscriptions.ends-well", Title: "Ends a subscription, if at all, with its response", Level: suite.Should, Faces: faces, Page: pageListen + "Graceful Closure",
			Statement: "A subscription stays open until the client leaves; a server that ends it sends the response, with resultType \"complete\" and the tag, and over stdio notifications/cancelled as well.",
			Why:       "A stream that ends without a word is a broken connection to the client, which subscribes again and again.",
			Fix:       "Keep the stream open. When the server goes down answer the listen, and close then.",
			Run:       endsWell,
		},
	}
}

func cancelsUnasked(t *suite.Trial) {
	c, r := openRecorded(t, nil)
	for _, x := range plainRequests(t) {
		_, _ = mustRequest(t, c, x.method, x.params)
	}
	fence(t, c)
	for _, m := range r.of("notifications/cancelled") {
		t.Fail("no notifications/cancelled", "%s", m.Raw)
	}
}

func toldToLegacy(t *suite.Trial) {
	if isDual(t) {
		return // a dual server answers
	}
	k := newRawClient(t)
	r := k.send(checkutil.Initialize(peer.R2511), checkutil.LegacyHead(nil))
	if r.message == nil || !r.message.Failed() {
		t.Fatal("an error that names "+peer.R2607, "no error%s", statusText(r.status))
	}
	if !strings.Contains(r.message.Raw, peer.R2607) {
		t.Fail("an error that names "+peer.R2607, "%s", r.message.Raw)
	}
}

func structuredText(t *suite.Trial) {
	c, judged := t.Open(nil), false
	for _, tool := range t.Offer.Tools {
		if tool["outputSchema"] == nil || !checkutil.OnlyReads(t, tool) {
			continue
		}
		_, m := mustCallTool(t, c, peer.Object{"name": tool["name"], "arguments": checkutil.Sample(tool["inputSchema"])})
		want, there := m.Result()["structuredContent"]
		if !there || m.Result()["isError"] == true {
			continue
		}
		judged = true
		if !checkutil.HasText(m.Result(), want) {
			t.Fail("a text block with the JSON of structuredContent from "+peer.Text(tool, "name"), "%s", checkutil.Excerpt(m.Result()["content"]))
		}
	}
	if !judged {
		t.Skip("no tool with an outputSchema says that it only reads (readOnlyHint) and answered a call that was made up")
	}
}

// stays is the minimum time that a subscription must stay open.
const stays = 300 * time.Millisecond

func endsWell(t *suite.Trial) {
	c, r := openRecorded(t, nil)
	l := listens(t, c, r, `"ends"`, anyFilter(t))
	checkutil.Pause(t, stays)
	l.settle()
	var answer *peer.Message
	said := false
	for _, m := range append(r.messages(), l.call.Got()...) {
		if l.ends(m) {
			answer = &m
		}
		said = said || m.Method == "notifications/cancelled" && peer.Text(m.Params(), "requestId") == "ends"
	}
	const expected = `a response with resultType "complete" and the tag, before the end`
	switch {
	case answer == nil && (said || !t.Face.Stdio() && l.call.Over()):
		t.Fail(expected, "the end without a response")
	case answer != nil && (answer.Result()["resultType"] != "complete" || peer.Get(answer.Result(), "_meta", peer.MetaSubscription) != "ends"):
		t.Fail(expected, "%s", answer.Raw)
	case answer != nil && t.Face.Stdio() && !said:
		t.Fail("notifications/cancelled as well", "the response alone: %s", answer.Raw)
	}
}
