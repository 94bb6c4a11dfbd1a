package modern

import (
	"context"
	"slices"
	"strings"
	"time"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

const (
	toolsChange   = "test_trigger_tool_change"
	promptsChange = "test_trigger_prompt_change"
	watchedChange = "test_trigger_resource_update"
	watchedURI    = "test://watched-resource"

	toolsChanged = "notifications/tools/list_changed"
)

// listening is a subscriptions/listen that has been acknowledged.
type listening struct {
	t    *suite.Trial
	c    *peer.Conn
	call *peer.Call
	all  *recorder
	ack  peer.Message
}

// listens opens a subscription with an id, which is JSON.
func listens(t *suite.Trial, c *peer.Conn, r *recorder, id string, filter peer.Object) *listening {
	call, err := c.StartAs(id, "subscriptions/listen", peer.Encode(peer.Object{"notifications": filter}))
	if err != nil {
		t.Break("%v", err)
	}
	l := &listening{t: t, c: c, call: call, all: r}
	l.ack = l.await("the acknowledgement", func(m peer.Message) bool {
		return m.Method == "notifications/subscriptions/acknowledged" && l.receives(m) || l.ends(m)
	})
	if l.ack.Failed() {
		code, message, _ := l.ack.Error()
		if code == checkutil.MethodNotFound {
			t.Skip("the server has no subscriptions/listen")
		}
		t.Fatal("notifications/subscriptions/acknowledged", "the error %d: %s", code, message)
	}
	return l
}

// owns reports whether a message is tagged with this subscription.
func (l *listening) owns(m peer.Message) bool {
	id, _ := peer.Decode(l.call.ID)
	tag := peer.Get(m.Object, "params", "_meta", peer.MetaSubscription)
	return tag != nil && checkutil.Equal(tag, id)
}

// receives reports whether a message that wait sees belongs to the subscription: over HTTP all on its stream do, over stdio those with
// its tag.
func (l *listening) receives(m peer.Message) bool { return !l.t.Face.Stdio() || l.owns(m) }

// ends reports whether a message is the response, which ends the subscription.
func (l *listening) ends(m peer.Message) bool {
	return m.Kind() == peer.IsResponse && string(m.ID) == l.call.ID
}

// await waits for a message on the subscription's stream. The trial ends without one.
func (l *listening) await(what string, wanted func(peer.Message) bool) peer.Message {
	m, err := l.wait(wanted)
	if err != nil {
		l.t.Fatal(what, "%v", err)
	}
	return m
}

func (l *listening) wait(wanted func(peer.Message) bool) (peer.Message, error) {
	if l.t.Face.Stdio() {
		ctx, cancel := context.WithTimeout(l.t.Context(), l.c.Child().Patience(l.t.Target.Patience()))
		defer cancel()
		return l.all.wait(ctx, wanted)
	}
	return l.call.WaitFor(wanted)
}

// got returns what has come for the subscription so far; over stdio, what is tagged with it.
func (l *listening) got() (out []peer.Message) {
	if !l.t.Face.Stdio() {
		return l.call.Got()
	}
	for _, m := range l.all.messages() {
		if l.owns(m) {
			out = append(out, m)
		}
	}
	return out
}

// settle waits until what the server has sent to the subscription by now has arrived. A stream keeps its order, so the notification of a
// change made now follows all of it. settle makes two changes, the second after the notification of the first: that may be the
// notification of an earlier change, which another client has made. Without notifications settle waits for unorderedTime.
func (l *listening) settle() {
	notified := l.t.Offer.Tool(toolsChange) != nil && peer.Get(l.ack.Params(), "notifications", "toolsListChanged") == true
	for round := 0; notified && round < 2; round++ {
		notified = l.changeTools()
	}
	if !notified {
		checkutil.Pause(l.t, unorderedTime)
	}
}

// unorderedTime is the wait for messages that no later message is known to follow.
const unorderedTime = 100 * time.Millisecond

// changeTools changes the list of tools and waits for the notification or the end of the subscription. It returns false if neither came.
func (l *listening) changeTools() bool {
	before, n := len(checkutil.OfMethod(l.got(), toolsChanged)), 0
	trigger(l.t, l.c, toolsChange)
	_, err := l.wait(func(m peer.Message) bool {
		if m.Method == toolsChanged && l.receives(m) {
			n++
		}
		return n > before || l.ends(m)
	})
	return err == nil
}

func is(method string) func(peer.Message) bool {
	return func(m peer.Message) bool { return m.Method == method }
}

// trigger calls a tool of the fixture that changes something.
func trigger(t *suite.Trial, c *peer.Conn, tool string) {
	if _, m := mustCallTool(t, c, peer.Object{"name": tool, "arguments": peer.Object{}}); m.Failed() {
		t.Break("%s fails: %s", tool, m.Raw)
	}
}

// anyFilter returns a filter for changes that the server declares. The trial is skipped if it declares none.
func anyFilter(t *suite.Trial) peer.Object {
	for _, list := range []string{"tools", "prompts", "resources"} {
		if t.Offer.Capability(list + ".listChanged") {
			return peer.Object{list + "ListChanged": true}
		}
	}
	if t.Offer.Capability("resources.subscribe") && len(t.Offer.Resources) > 0 {
		return peer.Object{"resourceSubscriptions": []any{t.Offer.Resources[0]["uri"]}}
	}
	t.Skip("the server declares neither listChanged nor resources.subscribe")
	return nil
}

func acknowledgedChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "subscriptions.acknowledged", Title: "Acknowledges a subscription before anything else", Level: suite.Must, Faces: faces, Page: pageListen + "Acknowledgment",
			Statement: "The first message of a subscription must be notifications/subscriptions/acknowledged.",
			Why:       "Until then a client does not know which changes will reach it.",
			Fix:       "Write the acknowledgement as soon as the subscription is registered, before any change. Flush it: clients wait for it.",
			Run: func(t *suite.Trial) {
				filter := anyFilter(t)
				c, r := openRecorded(t, nil)
				l := listens(t, c, r, `"sub"`, filter)
				if first := l.got(); len(first) == 0 || first[0].Method != "notifications/subscriptions/acknowledged" {
					t.Fail("notifications/subscriptions/acknowledged first", "%s", l.ack.Raw)
				}
				if _, ok := l.ack.Params()["notifications"].(peer.Object); !ok {
					t.Fail("the honoured filter in params.notifications", "%s", l.ack.Raw)
				}
			},
		},
		{
			ID: "subscriptions.tagged", Title: "Tags its notifications with the subscription's id", Level: suite.Must, Faces: faces, Page: pageListen + "Receiving Notifications",
			Statement: "Every message of a subscription carries subscriptionId in _meta: the id of the listen request, of the same type.",
			Why:       "Over stdio all subscriptions share one channel; clients tell them apart by nothing else.",
			Fix:       "Put the listen request's id, as the JSON value that came, into params._meta[\"io.modelcontextprotocol/subscriptionId\"]: of the acknowledgement, of changes, of the final result.",
			Run:       tagged,
		},
		{
			ID: "subscriptions.subset", Title: "Acknowledges no more than was asked for", Level: suite.Must, Faces: faces, Page: pageListen + "Opening a Stream",
			Statement: "The acknowledged filter is a subset of the requested one; types that were not asked for must not be sent.",
			Why:       "Clients get notifications for which they have no handler.",
			Fix:       "Start from the request's filter and take away what you do not support. Do not echo your capabilities.",
			Run: func(t *suite.Trial) {
				filter := anyFilter(t)
				c, r := openRecorded(t, nil)
				l := listens(t, c, r, "71", filter)
				honoured, _ := l.ack.Params()["notifications"].(peer.Object)
				for name, v := range honoured {
					if filter[name] == nil && v != false && len(peer.List(honoured, name)) == 0 && !strings.Contains(name, "taskIds") {
						t.Fail("no more than "+checkutil.Excerpt(filter), "%s", l.ack.Raw)
					}
				}
			},
		},
		{
			ID: "subscriptions.honoured", Title: "Honours what its capabilities promise", Level: suite.Must, Faces: faces, Page: "server/tools §Capabilities",
			Statement: "listChanged and resources.subscribe say that the server notifies; a subscription to them is honoured.",
			Why:       "Clients trust the declaration and never poll.",
			Fix:       "Acknowledge each type whose capability you declare, or do not declare it.",
			Run:       honours,
		},
		{
			ID: "subscriptions.missing-filter", Title: "Refuses a subscription without a filter", Level: suite.Should, Faces: faces, Page: pageListen + "Opening a Stream",
			Statement: "params.notifications is required; without it the request is invalid.",
			Why:       "A client with this mistake waits for notifications that never come.",
			Fix:       "Answer -32602 if params.notifications is no object. Do so before the stream begins.",
			Run: func(t *suite.Trial) {
				anyFilter(t)
				k := newRawClient(t)
				k.refuse(k.request("1", "subscriptions/listen", nil, nil), 0, checkutil.InvalidParams)
			},
		},
	}
}

func tagged(t *suite.Trial) {
	filter := anyFilter(t)
	for _, id := range []string{`"a subscription"`, `4711`} {
		c, r := openRecorded(t, nil)
		call, err := c.StartAs(id, "subscriptions/listen", peer.Encode(peer.Object{"notifications": filter}))
		if err != nil {
			t.Break("%v", err)
		}
		l := &listening{t: t, c: c, call: call, all: r}
		l.ack = l.await("the acknowledgement", is("notifications/subscriptions/acknowledged"))
		if !l.owns(l.ack) {
			t.Fail("subscriptionId "+id+" in the acknowledgement", "%s", l.ack.Raw)
		}
		if filter["toolsListChanged"] == nil || t.Offer.Tool(toolsChange) == nil {
			continue
		}
		trigger(t, c, toolsChange)
		if m, err := l.wait(is(toolsChanged)); err == nil && !l.owns(m) {
			t.Fail("subscriptionId "+id+" in the notification", "%s", m.Raw)
		}
	}
}

func honours(t *suite.Trial) {
	asked := peer.Object{}
	for _, list := range []string{"tools", "prompts", "resources"} {
		if t.Offer.Capability(list + ".listChanged") {
			asked[list+"ListChanged"] = true
		}
	}
	if t.Offer.Capability("resources.subscribe") && len(t.Offer.Resources) > 0 {
		asked["resourceSubscriptions"] = []any{t.Offer.Resources[0]["uri"]}
	}
	anyFilter(t)
	c, r := openRecorded(t, nil)
	l := listens(t, c, r, `"all"`, asked)
	for name, v := range asked {
		got := peer.Get(l.ack.Params(), "notifications", name)
		if list, ok := v.([]any); ok {
			if !slices.Contains(peer.List(l.ack.Params(), "notifications", name), list[0]) {
				t.Fail(name+" is acknowledged with "+checkutil.Excerpt(v), "%s", l.ack.Raw)
			}
		} else if got != true {
			t.Fail(name+" is acknowledged", "%s", l.ack.Raw)
		}
	}
}

func deliveredChecks() []*suite.Check {
	tool := []suite.Need{suite.NeedsTool(toolsChange)}
	return []*suite.Check{
		{
			ID: "subscriptions.list-changed", Title: "Tells subscribers that a list has changed", Level: suite.Should, Faces: faces, Page: "server/tools §List Changed Notification", Needs: tool,
			Statement: "A server that declares listChanged should notify when the list changes.",
			Why:       "Clients go on with the old list.",
			Fix:       "Send the notification to every subscription whose filter has it, as soon as the list has changed.",
			Run: func(t *suite.Trial) {
				if !t.Offer.Capability("tools.listChanged") {
					t.Skip("the server does not declare tools.listChanged")
				}
				c, r := openRecorded(t, nil)
				l := listens(t, c, r, `"lists"`, peer.Object{"toolsListChanged": true})
				for range 2 { // the second time undoes the first
					trigger(t, c, toolsChange)
				}
				l.await(toolsChanged, is(toolsChanged))
			},
		},
		{
			ID: "subscriptions.several", Title: "Serves several subscriptions at a time", Level: suite.Must, Faces: faces, Page: pageListen + "Multiple Concurrent Subscriptions", Needs: tool,
			Statement: "A client may have several subscriptions; each gets its own notifications under its own id.",
			Why:       "Clients open one for each thing that they show; only the last would be alive.",
			Fix:       "Keep subscriptions by their request, not one for the connection. Send each its own copy, tagged with its id.",
			Run: func(t *suite.Trial) {
				if !t.Offer.Capability("tools.listChanged") {
					t.Skip("the server does not declare tools.listChanged")
				}
				c, r := openRecorded(t, nil)
				both := []*listening{listens(t, c, r, `"s1"`, peer.Object{"toolsListChanged": true}), listens(t, c, r, `"s2"`, peer.Object{"toolsListChanged": true})}
				trigger(t, c, toolsChange)
				for _, l := range both {
					l.await(toolsChanged+" for the subscription "+l.call.ID, func(m peer.Message) bool { return m.Method == toolsChanged && l.owns(m) })
				}
				trigger(t, c, toolsChange)
			},
		},
		{
			ID: "subscriptions.updated", Title: "Tells subscribers that a resource has changed", Level: suite.Must, Faces: faces, Page: "server/resources §Subscriptions",
			Needs:     []suite.Need{suite.NeedsTool(watchedChange), suite.NeedsSubscribe},
			Statement: "notifications/resources/updated is sent whenever a watched resource changes.",
			Why:       "Clients that watch a resource show an old version.",
			Fix:       "Send notifications/resources/updated with the URI to each subscription whose resourceSubscriptions has it.",
			Run: func(t *suite.Trial) {
				c, r := openRecorded(t, nil)
				l := listens(t, c, r, `"watch"`, peer.Object{"resourceSubscriptions": []any{watchedURI}})
				trigger(t, c, watchedChange)
				m := l.await("notifications/resources/updated", is("notifications/resources/updated"))
				if uri := peer.Text(m.Params(), "uri"); !strings.HasPrefix(uri, watchedURI) {
					t.Fail("the URI "+watchedURI, "%s", m.Raw)
				}
			},
		},
		{
			ID: "subscriptions.cancelled", Title: "Sends nothing for a subscription that was cancelled", Level: suite.Must, Faces: stdioFace, Page: pageStdio + "Cancellation", Needs: tool,
			Statement: "After notifications/cancelled nothing more must be sent for the request; a subscription ends by it.",
			Why:       "The client has forgotten the id and may have given it to another request.",
			Fix:       "Remove the subscription when notifications/cancelled names its id, before the next change is sent.",
			Run: func(t *suite.Trial) {
				c, r := openRecorded(t, nil)
				l := listens(t, c, r, `"gone"`, peer.Object{"toolsListChanged": true})
				l.call.Cancel()
				kept := listens(t, c, r, `"kept"`, peer.Object{"toolsListChanged": true})
				before := len(l.got())
				for range 2 {
					trigger(t, c, toolsChange)
				}
				kept.settle() // each change goes to all subscriptions: that of the cancelled one comes before that of the next change
				fence(t, c)
				for _, m := range l.got()[before:] {
					t.Fail("nothing for the cancelled subscription", "%s", m.Raw)
				}
			},
		},
	}
}

func filtersChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "subscriptions.only-asked", Title: "Sends only the kinds of changes that were asked for", Level: suite.Must, Faces: faces, Page: pageListen + "Opening a Stream",
			Needs:     []suite.Need{suite.NeedsTool(toolsChange), suite.NeedsTool(promptsChange)},
			Statement: "Notification types that the client has not requested must not be sent.",
			Why:       "Clients get notifications for which they have no handler, and fetch lists that they do not use.",
			Fix:       "Check the filter of each subscription before each notification.",
			Run: func(t *suite.Trial) {
				if !t.Offer.Capability("tools.listChanged") {
					t.Skip("the server does not declare tools.listChanged")
				}
				c, r := openRecorded(t, nil)
				l := listens(t, c, r, `"tools"`, peer.Object{"toolsListChanged": true})
				for _, tool := range []string{promptsChange, promptsChange, toolsChange, toolsChange} {
					trigger(t, c, tool)
				}
				l.settle()
				for _, m := range append(l.got(), r.of("notifications/prompts/list_changed")...) {
					if m.Method != toolsChanged && m.Method != "notifications/subscriptions/acknowledged" && m.Kind() == peer.IsNotification {
						t.Fail("nothing but "+toolsChanged, "%s", m.Raw)
					}
				}
			},
		},
		{
			ID: "subscriptions.uris", Title: "Reports only the resources that are watched", Level: suite.Must, Faces: faces, Page: pageListen + "Notification Filter",
			Needs:     []suite.Need{suite.NeedsTool(watchedChange), suite.NeedsSubscribe},
			Statement: "notifications/resources/updated is for the URIs of resourceSubscriptions.",
			Why:       "Clients read again what has not changed, and learn of resources that are not theirs.",
			Fix:       "Compare the URI, or what it is a part of, with resourceSubscriptions of each subscription before the notification.",
			Run: func(t *suite.Trial) {
				other := slices.IndexFunc(t.Offer.Resources, func(r peer.Object) bool { return !strings.HasPrefix(watchedURI, peer.Text(r, "uri")) })
				if other < 0 {
					t.Skip("the server has no other resource")
				}
				c, r := openRecorded(t, nil)
				l := listens(t, c, r, `"others"`, peer.Object{"resourceSubscriptions": []any{t.Offer.Resources[other]["uri"]}, "toolsListChanged": true})
				watch := listens(t, c, r, `"watched"`, peer.Object{"resourceSubscriptions": []any{watchedURI}})
				for range 3 {
					trigger(t, c, watchedChange)
				}
				_, _ = watch.wait(func(m peer.Message) bool { return m.Method == "notifications/resources/updated" && watch.owns(m) })
				l.settle()
				for _, m := range l.got() {
					if strings.HasPrefix(peer.Text(m.Params(), "uri"), watchedURI) {
						t.Fail("nothing of "+watchedURI, "%s", m.Raw)
					}
				}
			},
		},
		{
			ID: "subscriptions.unasked", Title: "Sends no change notifications without a subscription", Level: suite.Must, Faces: faces, Page: pageListen + "Opening a Stream",
			Needs:     []suite.Need{suite.NeedsTool(toolsChange)},
			Statement: "Change notifications are sent to subscriptions alone, never on another request's stream.",
			Why:       "Clients that have not subscribed cannot place them.",
			Fix:       "Send list_changed and updated on listen streams only. Remove what broadcasts them to every connection, as earlier revisions had it.",
			Run: func(t *suite.Trial) {
				c, r := openRecorded(t, nil)
				for range 2 {
					settledCall(t, c, mustStart(t, c, "tools/call", peer.Object{"name": toolsChange, "arguments": peer.Object{}}))
				}
				for _, m := range r.messages() {
					if m.Kind() == peer.IsNotification {
						t.Fail("no notification", "%s", m.Raw)
					}
				}
			},
		},
		{
			ID: "subscriptions.only-changes", Title: "Keeps progress and log messages off subscriptions", Level: suite.Must, Faces: httpFace, Page: pageHTTP + "Receiving Messages",
			Needs:     []suite.Need{suite.NeedsTool(checkutil.ToolLogging)},
			Statement: "notifications/progress and notifications/message must not be sent on a listen stream.",
			Why:       "They belong to one request; a subscription may be another user's.",
			Fix:       "Send them on the response stream of their request alone.",
			Run: func(t *suite.Trial) {
				filter := anyFilter(t)
				c, r := openRecorded(t, func(s *peer.Settings) { s.LogLevel = "debug" })
				l := listens(t, c, r, `"quiet"`, filter)
				mustCallTool(t, c, withToken(checkutil.ToolLogging, `"quiet-1"`))
				if call := underWay(t, c, `"quiet-2"`); call != nil {
					_, _ = call.Wait()
				}
				l.settle()
				for _, m := range l.got() {
					if m.Method == "notifications/progress" || m.Method == "notifications/message" {
						t.Fail("neither progress nor log messages", "%s", m.Raw)
					}
				}
			},
		},
	}
}
