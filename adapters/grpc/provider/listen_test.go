package provider

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/providerpb/cloudeventspb"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// listening is a provider whose changes are of the test.
type listening struct {
	scripted
	changes chan *providerpb.WatchResponse
	emitted chan *cloudeventspb.CloudEvent
}

func (l *listening) Watch(_ *providerpb.WatchRequest, to grpc.ServerStreamingServer[providerpb.WatchResponse]) error {
	for {
		select {
		case m, more := <-l.changes:
			if !more {
				return nil
			}
			if err := to.Send(m); err != nil {
				return err
			}
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}

func (l *listening) Events(_ *providerpb.EventsRequest, to grpc.ServerStreamingServer[cloudeventspb.CloudEvent]) error {
	for {
		select {
		case e, more := <-l.emitted:
			if !more || e == nil {
				return status.Error(codes.Unavailable, "interrupted")
			}
			if err := to.Send(e); err != nil {
				return err
			}
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}

func newListening(t *testing.T, features ...providerpb.Feature) (*listening, *rig) {
	t.Helper()
	l := &listening{changes: make(chan *providerpb.WatchResponse), emitted: make(chan *cloudeventspb.CloudEvent)}
	l.list = &providerpb.ListCapabilitiesResponse{Features: features}
	r := newRig(t, l, asking)
	r.ask("server/discover", "")
	return l, r
}

// listen begins a listen; next returns what follows, without what all have.
func (r *rig) listen(params string) (next func() string, ex *proxy.Exchange, replies proxy.Replies) {
	r.t.Helper()
	ex = r.exchange("subscriptions/listen", `"notifications":{`+params+`},`, meta)
	replies, err := r.u.Call(ex)
	if err != nil {
		r.t.Fatal(err)
	}
	const tag = `"_meta":{"io.modelcontextprotocol/subscriptionId":"a\/1"}`
	return func() string {
		r.t.Helper()
		m, err := replies.Next(time.Now().Add(10 * time.Second))
		if err != nil {
			return failed(err)
		}
		raw := string(m.Append(nil))
		if !strings.Contains(raw, tag) {
			r.t.Errorf("without a tag: %s", raw)
		}
		raw = strings.NewReplacer(`{"jsonrpc":"2.0","method":"notifications/`, "", `"params":{`+tag, "{", ","+tag, "").Replace(raw)
		return strings.Replace(raw, "{,", "{", 1)
	}, ex, replies
}

func watching(of *providerpb.WatchRequest) *providerpb.WatchResponse {
	return &providerpb.WatchResponse{Message: &providerpb.WatchResponse_Watching{Watching: of}}
}

func changed(kind providerpb.Kind) *providerpb.WatchResponse {
	return &providerpb.WatchResponse{Message: &providerpb.WatchResponse_Changed{Changed: kind}}
}

func updated(uri string) *providerpb.WatchResponse {
	return &providerpb.WatchResponse{Message: &providerpb.WatchResponse_Updated{Updated: uri}}
}

// A listen acknowledges what the provider watches, and tells of that only.
func TestListen(t *testing.T) {
	l, r := newListening(t, providerpb.Feature_FEATURE_WATCH_LISTS)
	next, _, replies := r.listen(`"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:b","a:dir/"]`)
	l.changes <- watching(&providerpb.WatchRequest{Tools: true, Prompts: true, Uris: []string{"a:dir/", "other:"}})
	if got := next(); got != `subscriptions/acknowledged",{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:dir/"]}}}` {
		t.Error(got)
	}
	for _, m := range []*providerpb.WatchResponse{changed(providerpb.Kind_KIND_PROMPT), changed(providerpb.Kind_KIND_RESOURCE), updated("a:b"), {}, updated("a:dir/x"), changed(providerpb.Kind_KIND_TOOL)} {
		l.changes <- m
	}
	if got := next(); got != `resources/updated","params":{"uri":"a:dir/x"}}` {
		t.Error(got)
	}
	if got := next(); got != `tools/list_changed",{}}` {
		t.Error(got)
	}
	close(l.changes)
	if got := next(); !strings.Contains(got, `"id":"a\/1","result":{"resultType":"complete"`) {
		t.Error(got)
	}
	if err := replies.Close(); err != nil {
		t.Error(err)
	}
}

// What changes before the acknowledgement is told after it, once, if it is part of that.
func TestListenBeforeAcknowledgement(t *testing.T) {
	l, r := newListening(t, providerpb.Feature_FEATURE_WATCH_RESOURCES)
	next, ex, replies := r.listen(`"toolsListChanged":true,"resourceSubscriptions":["a:b"]`)
	for _, m := range []*providerpb.WatchResponse{changed(providerpb.Kind_KIND_TOOL), updated("a:c"), updated("a:b"), updated("a:b"), watching(&providerpb.WatchRequest{Uris: []string{"a:b"}})} {
		l.changes <- m
	}
	if got := next(); got != `subscriptions/acknowledged",{"notifications":{"resourceSubscriptions":["a:b"]}}}` {
		t.Error(got)
	}
	if got := next(); got != `resources/updated","params":{"uri":"a:b"}}` {
		t.Error(got)
	}
	if _, err := replies.Next(time.Now()); err != proxy.ErrNotYet {
		t.Error(err)
	}
	ex.Cancel(proxy.ErrCancelled)
	if got := next(); got != "["+proxy.ErrCancelled.Error()+"]" {
		t.Error(got)
	}
	if err := replies.Close(); err != nil {
		t.Error(err)
	}
}

func event(kind, subject string) *cloudeventspb.CloudEvent {
	attributes := map[string]*cloudeventspb.CloudEvent_CloudEventAttributeValue{"subject": {Attr: &cloudeventspb.CloudEvent_CloudEventAttributeValue_CeString{CeString: subject}}}
	return &cloudeventspb.CloudEvent{Id: "1", Source: "urn:x", SpecVersion: "1.0", Type: kind, Attributes: attributes}
}

// The provider's events tell of changes, also without Watch, make caches forget, and go on to whoever takes events. After an interruption
// everything may have changed.
func TestEventsTellOfChanges(t *testing.T) {
	l, r := newListening(t, providerpb.Feature_FEATURE_EVENTS)
	next, ex, replies := r.listen(`"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b"]`)
	if got := next(); got != `subscriptions/acknowledged",{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b"]}}}` {
		t.Error(got)
	}
	for _, e := range []*cloudeventspb.CloudEvent{event("x.y", ""), event("mcp.resources.changed", ""), event("mcp.resource.updated", ""), event("mcp.resource.updated", "a:c"), event("mcp.resource.updated", "a:b"), event("mcp.prompts.changed", "")} {
		l.emitted <- e
	}
	if got := next(); got != `resources/updated","params":{"uri":"a:b"}}` {
		t.Error(got)
	}
	if got := next(); got != `prompts/list_changed",{}}` {
		t.Error(got)
	}
	if !strings.Contains(r.noted(), "mcp.resource.updated needs the URI as its subject") {
		t.Error(r.noted())
	}
	told := func() []string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.told)
	}
	testkit.Eventually(t, "what caches are told", func() bool { return len(told()) == 4 })
	if got := strings.Join(told(), "\n"); got != `{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}
{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:c"}}
{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}
{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}` {
		t.Error(got)
	}
	r.mu.Lock()
	if got := strings.Join(r.sent, " "); got != "x.y mcp.resources.changed mcp.resource.updated mcp.resource.updated mcp.resource.updated mcp.prompts.changed" {
		t.Error(got)
	}
	r.mu.Unlock()
	if !strings.Contains(r.noted(), "an event of the provider is not passed on: events: the attribute time is missing") {
		t.Error(r.noted())
	}
	l.emitted <- nil // interrupted
	if got := next(); got != `tools/list_changed",{}}` {
		t.Error(got)
	}
	ex.Cancel(proxy.ErrCancelled)
	if got := next(); !strings.Contains(got, "cancelled") {
		t.Error(got)
	}
	_ = replies.Close()
}

// Notices wait in a bounded queue: of the same subject the newest counts, and beyond the bound the oldest are lost.
func TestNoticesAreBounded(t *testing.T) {
	l, r := newListening(t, providerpb.Feature_FEATURE_WATCH_RESOURCES)
	next, ex, replies := r.listen(`"resourceSubscriptions":["a:/"]`)
	l.changes <- watching(&providerpb.WatchRequest{Uris: []string{"a:/"}})
	if got := next(); !strings.HasPrefix(got, "subscriptions/acknowledged") {
		t.Error(got)
	}
	const more = 10
	for i := range maxNotices + more {
		l.changes <- updated(fmt.Sprintf("a:/%d", i))
	}
	l.changes <- updated("a:/end")
	testkit.Eventually(t, "the last notice", func() bool {
		of := replies.(*listen)
		of.mu.Lock()
		defer of.mu.Unlock()
		return len(of.queue) == maxNotices && strings.Contains(string(of.queue[maxNotices-1].Msg), "a:/end")
	})
	if got, want := next(), fmt.Sprintf(`resources/updated","params":{"uri":"a:/%d"}}`, more+1); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	ex.Cancel(proxy.ErrCancelled)
	_ = replies.Close()
}

// A listen without an end of its waiting waits for what comes.
func TestListenWaits(t *testing.T) {
	l, r := newListening(t, providerpb.Feature_FEATURE_WATCH_LISTS)
	_, ex, replies := r.listen(`"toolsListChanged":true`)
	go func() { l.changes <- watching(&providerpb.WatchRequest{Tools: true}) }()
	if m, err := replies.Next(time.Time{}); err != nil || !strings.Contains(string(m.Append(nil)), acknowledged) {
		t.Error(m, err)
	}
	ex.Cancel(proxy.ErrCancelled)
	_ = replies.Close()
}

// Once it has ended, an Upstream reads no events.
func TestEndedFeed(t *testing.T) {
	_, r := newListening(t)
	r.u.End()
	r.u.startFeed()
	if r.u.feed.running {
		t.Error("the provider's events are read after the end")
	}
}

// With events a listen tells of every kind of list that was asked for, and of no other.
func TestEventsTellOfEachList(t *testing.T) {
	_, r := newListening(t, providerpb.Feature_FEATURE_EVENTS)
	for _, list := range []string{"tools", "prompts", "resources"} {
		next, ex, replies := r.listen(`"` + list + `ListChanged":true`)
		if got := next(); got != `subscriptions/acknowledged",{"notifications":{"`+list+`ListChanged":true}}}` {
			t.Error(got)
		}
		ex.Cancel(proxy.ErrCancelled)
		_ = replies.Close()
	}
}

// A provider without Watch and events has no listens; wrong subscriptions are the client's fault.
func TestListenRefused(t *testing.T) {
	_, r := newListening(t)
	for params, want := range map[string]string{
		"":                            "[method_not_found] method subscriptions/listen is not offered: the provider reports no changes",
		`"resourceSubscriptions":[7]`: "[invalid_params] params.notifications.resourceSubscriptions must be an array of strings",
		`"resourceSubscriptions":[` + strings.Repeat(`"a:b",`, maxSubscribed) + `"a:b"]`: "[invalid_params] more than 1024 resourceSubscriptions in one listen",
	} {
		if got := r.ask("subscriptions/listen", `"notifications":{`+params+`},`); got != want {
			t.Errorf("%.60s: %s", params, got)
		}
	}
}
