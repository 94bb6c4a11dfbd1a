package merge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A listen takes up what it has acknowledged when a member comes back: the resources there are said to have changed, and later updates come.
func TestListensAtAMemberThatReturns(t *testing.T) {
	r := newRig(t, Options{}, "a modern", "b modern", "c legacy")
	r.Start()
	r.settled()
	resource := func(name string) string { return `"dragoman+` + name + `://demo///counter"` }
	ex := exchange(t, "subscriptions/listen", `"notifications":{"resourceSubscriptions":[`+resource("b")+`,"dragoman+d://demo///counter"]}`)
	replies, err := r.Do(ex)
	if err != nil {
		t.Fatal(err)
	}
	defer replies.Close()
	next := nextIn(t, replies)
	has(t, next(), "acknowledged", `"resourceSubscriptions":[`+resource("b")+`]`)
	for range 2 {
		r.SetMembers(r.only("c"))
		r.SetMembers(r.only("a", "b", "c"))
		has(t, next(), rules.ResourceUpdated, `counter"`, `"io.modelcontextprotocol/subscriptionId":7`)
		r.as("", "{}", "tools/call", `"name":"touch","arguments":{},"_meta":{"io.dragoman/server":"b"}`)
		has(t, next(), rules.ResourceUpdated, `counter"`)
	}
	ex.Cancel(proxy.ErrCancelled)
}

// acknowledger is a modern member whose listens acknowledge the given resources, and note what they were asked for.
func acknowledger(asked chan string, resources *string) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		m := &ex.Msg
		asked <- string(wire.Get(m.Raw, m.Notifications, "resourceSubscriptions").Of(m.Raw))
		ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":[` + *resources + `]}}}`
		return &lasting{ex: ex, first: ack, ended: make(chan struct{})}, nil
	}
}

// A member that comes back is not asked for what it did not acknowledge, and only what it acknowledges again has changed.
func TestReturningMembersAreAskedForWhatWasAcknowledged(t *testing.T) {
	asked, resources := make(chan string, 10), `"demo://x","demo://y"`
	r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: acknowledger(asked, &resources)}, {Member: view.Member{Name: "none"}, Do: acknowledger(asked, new(string))}}})
	set := func() {
		r.catalogue.Keep(map[string]catalogue.Kept{"k": {Transport: "HTTP"}, "none": {Transport: "HTTP"}})
		var items []catalogue.Item
		for _, uri := range []string{"demo://x", "demo://y", "demo://z"} {
			items = append(items, catalogue.Item{Key: uri, Raw: []byte(`{"uri":"` + uri + `"}`)})
		}
		r.catalogue.SetList("k", catalogue.Resources, catalogue.List{Items: items})
		r.catalogue.SetList("none", catalogue.Resources, catalogue.List{Items: []catalogue.Item{{Key: "demo://n", Raw: []byte(`{"uri":"demo://n"}`)}}})
	}
	set()
	ex := exchange(t, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["demo://x","demo://y","demo://z","demo://n"]}`)
	replies, err := r.Do(ex)
	if err != nil {
		t.Fatal(err)
	}
	defer replies.Close()
	next := nextIn(t, replies)
	has(t, next(), `"resourceSubscriptions":["demo://x","demo://y"]`)
	first := []string{testkit.Receive(t, "a listen", asked), testkit.Receive(t, "a listen", asked)}
	slices.Sort(first)
	if got := strings.Join(first, " "); got != `["demo://n"] ["demo://x","demo://y","demo://z"]` {
		t.Errorf("asked at first: %s", got)
	}
	resources = `"demo://y","demo://z"`
	r.SetMembers(nil)
	r.catalogue.Keep(map[string]catalogue.Kept{})
	r.SetMembers(r.only("k", "none"))
	if got := testkit.Receive(t, "a listen", asked); got != `["demo://x","demo://y"]` {
		t.Errorf("asked of the member that is back: %s", got)
	}
	has(t, next(), rules.ResourceUpdated, `"uri":"demo://y"`) // as the client has asked, although nobody lists it yet
	if m, err := replies.Next(time.Now()); err != proxy.ErrNotYet {
		t.Errorf("told of more: %v, %v", m, err)
	}
	select {
	case got := <-asked:
		t.Errorf("a member that has acknowledged nothing is asked for %s", got)
	default:
	}
}

// What a member refuses to tell is not acknowledged, and not waited for; it is not asked for again.
func TestListensThatMembersRefuse(t *testing.T) {
	refused := proxy.ErrorMessage([]byte("1"), proxy.Errf(proxy.MethodNotFound, "no listens"))
	for what, do := range map[string]proxy.Handler{
		"scopes":   func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(proxy.InsufficientScope, "no") },
		"a rule":   func(*proxy.Exchange) (proxy.Replies, error) { return nil, proxy.Errf(proxy.InvalidParams, "no") },
		"a server": func(*proxy.Exchange) (proxy.Replies, error) { return proxy.Reply(refused), nil },
	} {
		asked, resources := make(chan string, 10), `"demo://x"`
		tries := make(chan struct{}, 100)
		r := newRig(t, Options{Members: []Member{{Member: view.Member{Name: "k"}, Do: acknowledger(asked, &resources)},
			{Member: view.Member{Name: "no"}, Do: func(ex *proxy.Exchange) (proxy.Replies, error) { tries <- struct{}{}; return do(ex) }}}})
		r.catalogue.Keep(map[string]catalogue.Kept{"k": {Transport: "HTTP"}, "no": {Transport: "HTTP"}})
		began := time.Now()
		ex := exchange(t, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["dragoman+k://demo///x","dragoman+no://demo///y"]}`)
		replies, err := r.Do(ex)
		if err != nil {
			t.Fatal(err)
		}
		m, err := replies.Next(time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		has(t, string(m.Append(nil)), `"resourceSubscriptions":["dragoman+k://demo///x"]`)
		if took := time.Since(began); took >= ackTime {
			t.Errorf("%s: the listen has waited for %s", what, took)
		}
		r.work.Cancel()
		r.work.Wait()
		if len(tries) != 1 {
			t.Errorf("%s: %d attempts", what, len(tries))
		}
		_ = replies.Close()
	}
}
