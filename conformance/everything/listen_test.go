package everything

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/conformance/everything/changes"
	"dragoman/proxy"
)

const (
	toolsChanged     = "notifications/tools/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
)

// received reads the pending messages of a listen: methods, with the URIs of updates. All must be tagged with the listen's id.
func received(t *testing.T, r proxy.Replies) (out []string) {
	t.Helper()
	for {
		m, err := r.Next(time.Now().Add(-time.Second))
		if errors.Is(err, proxy.ErrNotYet) {
			return out
		}
		if err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		if string(m.Of(m.Subscription)) != `"q1"` {
			t.Errorf("not tagged: %s", m.Raw)
		}
		out = append(out, strings.TrimSuffix(string(m.Text(m.Method))+" "+string(m.Text(m.URI)), " "))
	}
}

// opened opens a listen and compares its acknowledgement.
func opened(t *testing.T, s *Server, filter, acknowledged string) (*proxy.Exchange, proxy.Replies) {
	t.Helper()
	ex := exchange(t, "subscriptions/listen", `"notifications":`+filter, "")
	r := begin(t, s, ex)
	m, err := r.Next(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "acknowledgement of "+filter, m.Raw, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":`+
		acknowledged+`,"_meta":{"io.modelcontextprotocol/subscriptionId":"q1"}}}`)
	return ex, r
}

// change changes every list and resource once.
func change(t *testing.T, s *Server) {
	t.Helper()
	for _, tool := range []string{"test_trigger_tool_change", "test_trigger_prompt_change", "test_trigger_resource_change",
		"test_trigger_resource_update", "touch"} {
		ask(t, s, "tools/call", `"name":"`+tool+`"`)
	}
}

func TestListen(t *testing.T) {
	s := newServer(t, Options{})
	f := func(filter, acknowledged string, want ...string) {
		t.Helper()
		_, r := opened(t, s, filter, acknowledged)
		change(t, s)
		if got := received(t, r); !slices.Equal(got, want) {
			t.Errorf("%s: %q; want %q", filter, got, want)
		}
		_ = r.Close()
	}
	f(`{}`, `{}`)
	f(`{"toolsListChanged":false,"unheardOf":true}`, `{}`)
	f(`{"toolsListChanged":true}`, `{"toolsListChanged":true}`, toolsChanged)
	f(`{"promptsListChanged":true}`, `{"promptsListChanged":true}`, promptsChanged)
	f(`{"resourcesListChanged":true}`, `{"resourcesListChanged":true}`, resourcesChanged)
	f(`{"resourceSubscriptions":[]}`, `{}`)
	f(`{"resourceSubscriptions":["demo://nope"]}`, `{}`)
	f(`{"resourceSubscriptions":["demo://counter","demo://nope","demo://counter","demo://item/1"]}`,
		`{"resourceSubscriptions":["demo://counter","demo://item/1"]}`, "notifications/resources/updated demo://counter")
	f(`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["test://watched-resource"]}`,
		`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["test://watched-resource"]}`,
		toolsChanged, promptsChanged, resourcesChanged, "notifications/resources/updated test://watched-resource")
}

// Lists and resources have changed when the notification comes.
func TestChanges(t *testing.T) {
	s := newServer(t, Options{})
	f := func(list, key, trigger, word string) {
		t.Helper()
		for _, want := range []bool{false, true, false} {
			if got := strings.Contains(string(ask(t, s, list, "")[key]), word); got != want {
				t.Errorf("%s has %s: %v", list, word, got)
			}
			ask(t, s, "tools/call", `"name":"`+trigger+`"`)
		}
	}
	f("tools/list", "tools", "test_trigger_tool_change", `"name":"test_sometimes"`)
	f("prompts/list", "prompts", "test_trigger_prompt_change", `"name":"test_sometimes"`)
	f("resources/list", "resources", "test_trigger_resource_change", `"uri":"test://sometimes"`)
	// Shown by now: each was flipped three times.
	toolCase(t, s, "test_sometimes", "", asText(`"Here I am."`))
	ask(t, s, "prompts/get", `"name":"test_sometimes"`)
	ask(t, s, "resources/read", `"uri":"test://sometimes"`)
	ask(t, s, "tools/call", `"name":"test_trigger_resource_update"`)
	same(t, "watched", ask(t, s, "resources/read", `"uri":"test://watched-resource"`)["contents"],
		`[{"uri":"test://watched-resource","mimeType":"text/plain","text":"Watched resource content, version 1."}]`)
}

// A listen that is not read keeps one notification for each changed list or resource, so the filter bounds their number.
func TestListenUnread(t *testing.T) {
	s := newServer(t, Options{})
	_, r := opened(t, s, `{"toolsListChanged":true,"resourceSubscriptions":["demo://counter"]}`, `{"toolsListChanged":true,"resourceSubscriptions":["demo://counter"]}`)
	defer func() { _ = r.Close() }()
	for range 100 {
		change(t, s)
	}
	want := []string{toolsChanged, "notifications/resources/updated demo://counter"}
	if got := received(t, r); !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	change(t, s)
	if got := received(t, r); !slices.Equal(got, want) {
		t.Errorf("again: %q; want %q", got, want)
	}
}

// A change wakes a waiting reader.
func TestListenWaits(t *testing.T) {
	s := newServer(t, Options{})
	_, r := opened(t, s, `{"toolsListChanged":true}`, `{"toolsListChanged":true}`)
	defer func() { _ = r.Close() }()
	if _, err := r.Next(time.Now().Add(time.Millisecond)); !errors.Is(err, proxy.ErrNotYet) {
		t.Errorf("nothing has changed: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { ask(t, s, "tools/call", `"name":"test_trigger_tool_change"`) })
	if m, err := r.Next(time.Now().Add(10 * time.Second)); err != nil || !m.Is(toolsChanged) {
		t.Errorf("%s, %v", m.Raw, err)
	}
	wg.Wait()
}

func TestListenEnds(t *testing.T) {
	cause := errors.New("gone")
	f := func(what string, end func(*Server, *proxy.Exchange), want error) {
		t.Helper()
		s := New(Options{})
		defer func() { _ = s.Close() }()
		ex, r := opened(t, s, `{"toolsListChanged":true}`, `{"toolsListChanged":true}`)
		var wg sync.WaitGroup
		wg.Go(func() { end(s, ex) })
		m, err := r.Next(time.Now().Add(10 * time.Second))
		wg.Wait()
		if want != nil {
			if !errors.Is(err, want) {
				t.Errorf("%s: %s, %v", what, m.Raw, err)
			}
		} else {
			same(t, what, m.Raw, `{"jsonrpc":"2.0","id":"q1","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"q1"}}}`)
			if _, err = r.Next(time.Time{}); !errors.Is(err, io.EOF) {
				t.Errorf("%s: after the response: %v", what, err)
			}
		}
		_ = r.Close()
		if n, _ := s.subscribers.Count(); n != 0 {
			t.Errorf("%s: %d listens are left", what, n)
		}
	}
	f("Cancel", func(_ *Server, ex *proxy.Exchange) { ex.Cancel(cause) }, cause)
	f("Leave", func(_ *Server, ex *proxy.Exchange) { ex.Leave() }, proxy.ErrCancelled)
	f("Drain", func(_ *Server, ex *proxy.Exchange) { ex.Cancel(proxy.ErrDraining) }, proxy.ErrDraining)
	f("Close of the server", func(s *Server, _ *proxy.Exchange) { _ = s.Close() }, nil)

	s := New(Options{})
	_ = s.Close()
	if _, err := s.Do(exchange(t, "subscriptions/listen", `"notifications":{}`, "")); proxy.AsError(err).Name != proxy.ShuttingDown.Name {
		t.Errorf("after Close: %v", err)
	}
}

func TestTooManyListens(t *testing.T) {
	s := newServer(t, Options{})
	var all []proxy.Replies
	for range changes.MaxListens {
		all = append(all, begin(t, s, exchange(t, "subscriptions/listen", `"notifications":{}`, "")))
	}
	if _, err := s.Do(exchange(t, "subscriptions/listen", `"notifications":{}`, "")); proxy.AsError(err).Name != proxy.Overloaded.Name {
		t.Errorf("one too many: %v", err)
	}
	for _, r := range all {
		_ = r.Close()
	}
	_ = begin(t, s, exchange(t, "subscriptions/listen", `"notifications":{}`, "")).Close()

	uris, _ := json.Marshal(slices.Repeat([]string{"demo://counter"}, changes.MaxWatched+1))
	if _, resp := do(t, s, exchange(t, "subscriptions/listen", `"notifications":{"resourceSubscriptions":`+string(uris)+`}`, "")); resp.Error == nil || resp.Error.Code != -32602 {
		t.Errorf("too many resources: %v", resp.Error)
	}
}

func TestLegacySubscriptions(t *testing.T) {
	s := newServer(t, Options{})
	c, idle := newLegacyClient(t, s, rev2511, ""), newLegacyClient(t, s, rev0618, "")
	f := func(what string, c *legacyClient, want ...string) {
		t.Helper()
		got := c.takePushed()
		for i, w := range want {
			want[i] = `{"jsonrpc":"2.0","method":"` + w + `}`
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q; want %q", what, got, want)
		}
	}
	all := func(updates ...string) []string {
		return append([]string{toolsChanged + `"`, promptsChanged + `"`, resourcesChanged + `"`}, updates...)
	}
	updated := func(uri string) string { return `notifications/resources/updated","params":{"uri":"` + uri + `"}` }
	change(t, s)
	f("nothing subscribed", c, all()...)
	c.call("resources/subscribe", `"uri":"demo://counter"`)
	c.call("resources/subscribe", `"uri":"demo://counter"`)
	change(t, s)
	f("one", c, all(updated("demo://counter"))...)
	c.call("resources/subscribe", `"uri":"test://watched-resource"`)
	change(t, s)
	f("two", c, all(updated("test://watched-resource"), updated("demo://counter"))...)
	c.call("resources/unsubscribe", `"uri":"demo://counter"`)
	change(t, s)
	f("one less", c, all(updated("test://watched-resource"))...)
	f("another session", idle, slices.Concat(all(), all(), all(), all())...)
	c.sess.End(proxy.Closed)
	idle.sess.End(proxy.Expired)
	if _, n := s.subscribers.Count(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	change(t, s)
	f("over", c)
}

// A client without a stream gets each notification once when it opens one.
func TestLegacyCatchesUp(t *testing.T) {
	s := newServer(t, Options{})
	c := newLegacyClient(t, s, rev2511, "")
	c.call("resources/subscribe", `"uri":"demo://counter"`)
	c.call("resources/subscribe", `"uri":"test://watched-resource"`)
	c.sess.ClearOutlet(c)
	for range 10 {
		change(t, s)
	}
	c.sess.SetOutlet(c)
	if got := c.takePushed(); len(got) != 5 {
		t.Errorf("%q", got)
	}
}

// A session before notifications/initialized gets only the updates of its subscriptions; one that has ended is removed.
func TestSubscribersJoin(t *testing.T) {
	s := newServer(t, Options{})
	late := proxy.NewSession("s", "stdio", "", proxy.Caller{}, time.Now())
	late.End(proxy.Closed)
	s.subscribers.Join(late)
	watched := s.subscribers.Watch(late, counterURI)
	if _, n := s.subscribers.Count(); !watched || n != 0 {
		t.Errorf("%d sessions", n)
	}
	live := newLegacyClient(t, s, rev2511, "").sess
	for i := range changes.MaxWatched {
		if !s.subscribers.Watch(live, fmt.Sprint("demo://item/", i)) {
			t.Fatalf("the %dth is refused", i)
		}
	}
	if s.subscribers.Watch(live, counterURI) {
		t.Error("one too many")
	}
	if !s.subscribers.Watch(live, "demo://item/1") {
		t.Error("one that is watched is refused")
	}
}

// Listens, sessions and changes run concurrently.
func TestListenParallel(t *testing.T) {
	s := newServer(t, Options{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c := newLegacyClient(t, s, rev2511, "")
			c.call("resources/subscribe", `"uri":"demo://counter"`)
			ex := exchange(t, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "")
			r := begin(t, s, ex)
			for n := range 20 {
				ask(t, s, "tools/call", `"name":"touch"`)
				ask(t, s, "tools/call", `"name":"test_trigger_tool_change"`)
				if n == i {
					ex.Leave()
				}
				if _, err := r.Next(time.Now().Add(10 * time.Second)); err != nil && n < i {
					t.Errorf("%d: %v", n, err)
				}
			}
			_ = r.Close()
			c.sess.End(proxy.Closed)
		})
	}
	wg.Wait()
}
