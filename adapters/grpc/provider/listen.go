package provider

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/adapters/grpc/channel"
	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of one listen.
const (
	maxNotices    = 1024 // queued; of equal ones the newest counts, and the oldest is dropped
	maxSubscribed = 1024 // resources
)

// listen is a subscriptions/listen as proxy.Replies (2026-07-28 subscriptions). It tells of changes that the provider's Watch reports, and of
// those that its events report.
type listen struct {
	u      *Upstream
	ex     *proxy.Exchange
	id     []byte // raw JSON
	asked  *providerpb.WatchRequest
	stream *channel.Stream // nil: the provider has events only
	pumped chan struct{}   // closed at the end of pump

	mu    sync.Mutex
	lists map[string]bool // what is told of
	uris  []string
	queue []rules.Notice
	acked bool
	err   error
	wake  chan struct{}
	last  wire.Message
}

// listen begins a listen.
func (u *Upstream) listen(ex *proxy.Exchange, m *wire.Message) (proxy.Replies, error) {
	l := &listen{u: u, ex: ex, id: m.Of(m.ID), wake: make(chan struct{}, 1), lists: make(map[string]bool)}
	var err error
	if l.asked, err = watchRequest(m); err != nil {
		return nil, err
	}
	if u.watches() {
		if l.stream, err = u.c.Open(ex, watchMethod, l.asked, false); err != nil {
			return nil, err
		}
		l.pumped = make(chan struct{})
		go l.pump() // ends with the stream, which Close ends
		u.feed.add(l)
		return l, nil
	}
	if !u.feed.on() {
		return nil, proxy.Errf(proxy.MethodNotFound, "method subscriptions/listen is not offered: the provider reports no changes")
	}
	ex.Attach(l)
	u.feed.add(l)
	l.acknowledge(&providerpb.WatchRequest{})
	return l, nil
}

// watchRequest returns what a listen asks for.
func watchRequest(m *wire.Message) (*providerpb.WatchRequest, error) {
	on := func(list string) bool {
		return string(wire.Get(m.Raw, m.Notifications, list+"ListChanged").Of(m.Raw)) == "true"
	}
	asked := &providerpb.WatchRequest{Tools: on("tools"), Resources: on("resources"), Prompts: on("prompts")}
	for _, uri := range wire.Items(m.Raw, wire.Get(m.Raw, m.Notifications, "resourceSubscriptions")) {
		if !uri.IsString(m.Raw) {
			return nil, proxy.Errf(proxy.InvalidParams, "params.notifications.resourceSubscriptions must be an array of strings")
		}
		if len(asked.GetUris()) == maxSubscribed {
			return nil, proxy.Errf(proxy.InvalidParams, "more than %d resourceSubscriptions in one listen", maxSubscribed)
		}
		asked.Uris = append(asked.Uris, string(uri.Text(m.Raw)))
	}
	return asked, nil
}

// pump reads the messages of Watch.
func (l *listen) pump() {
	defer close(l.pumped)
	for {
		in, err := l.stream.Next(time.Time{})
		if err != nil {
			l.fail(err)
			return
		}
		m := in.(*providerpb.WatchResponse)
		switch change := m.GetMessage().(type) {
		case *providerpb.WatchResponse_Watching:
			l.acknowledge(change.Watching)
		case *providerpb.WatchResponse_Changed:
			l.u.known.forget(change.Changed)
			l.changed(change.Changed)
		case *providerpb.WatchResponse_Updated:
			l.updated(change.Updated)
		}
	}
}

func (l *listen) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	work.Signal(l.wake)
}

// acknowledge says what the listen tells of: what the provider watches, and with its events everything that was asked for.
func (l *listen) acknowledge(watched *providerpb.WatchRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked {
		return
	}
	events := l.u.feed.on()
	for list, on := range map[string]bool{"tools": l.asked.GetTools() && (events || watched.GetTools()), "prompts": l.asked.GetPrompts() && (events || watched.GetPrompts()),
		"resources": l.asked.GetResources() && (events || watched.GetResources())} {
		if on {
			l.lists[list] = true
		}
	}
	for _, uri := range l.asked.GetUris() {
		if events || slices.Contains(watched.GetUris(), uri) {
			l.uris = append(l.uris, uri)
		}
	}
	l.acked = true
	work.Signal(l.wake)
}

// lists are the names of lists by their kinds.
var lists = map[providerpb.Kind]string{providerpb.Kind_KIND_TOOL: "tools", providerpb.Kind_KIND_PROMPT: "prompts",
	providerpb.Kind_KIND_RESOURCE: "resources", providerpb.Kind_KIND_RESOURCE_TEMPLATE: "resources"}

// changed tells that a list has changed.
func (l *listen) changed(kind providerpb.Kind) {
	if list := lists[kind]; list != "" {
		l.put(rules.AllChanged([]string{list}, nil)[0], func() bool { return l.lists[list] })
	}
}

// updated tells that a resource has changed.
func (l *listen) updated(uri string) {
	l.put(rules.AllChanged(nil, []string{uri})[0], func() bool {
		return slices.ContainsFunc(l.uris, func(root string) bool { return rules.Below(uri, root) })
	})
}

// put queues a notice if it is wanted. What comes before the acknowledgement is wanted if it was asked for.
func (l *listen) put(n rules.Notice, wanted func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked && !wanted() {
		return
	}
	l.queue = slices.DeleteFunc(l.queue, func(o rules.Notice) bool { return o.Key == n.Key })
	if len(l.queue) >= maxNotices {
		l.queue = l.queue[1:]
	}
	l.queue = append(l.queue, n)
	work.Signal(l.wake)
}

// Next implements proxy.Replies. The first message is the acknowledgement.
func (l *listen) Next(until time.Time) (*wire.Message, error) {
	for {
		if m, err := l.pop(); m != nil || err != nil {
			return m, err
		}
		if !work.Pause(l.wake, until) && !until.IsZero() && !time.Now().Before(until) {
			return nil, proxy.ErrNotYet
		}
	}
}

// acknowledged is the method of the first message.
const acknowledged = "notifications/subscriptions/acknowledged"

// pop returns the next message; nil if there is none yet.
func (l *listen) pop() (*wire.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ex.Err(); err != nil {
		return nil, err
	}
	for l.acked && len(l.queue) > 0 && !l.wants(l.queue[0].Key) { // it came before the acknowledgement
		l.queue = l.queue[1:]
	}
	tag := wire.Change{Key: "_meta", Value: wire.Object([]wire.Change{{Key: wire.MetaPrefix + "subscriptionId", Value: l.id}})}
	switch {
	case l.acked && l.last.Raw == nil:
		names := slices.DeleteFunc(slices.Clone(rules.NoticeLists), func(list string) bool { return !l.lists[list] })
		params := wire.Object([]wire.Change{tag, {Key: "notifications", Value: wire.Object(rules.SubscriptionFilter(names, l.uris))}})
		return l.keep(append(append([]byte(`{"jsonrpc":"2.0","method":"`+acknowledged+`","params":`), params...), '}'))
	case l.acked && len(l.queue) > 0:
		n := l.queue[0]
		l.queue = l.queue[1:]
		m, err := wire.Scan(n.Msg)
		if err != nil {
			return nil, proxy.Errf(proxy.Internal, "a notice made here is no message: %w", err)
		}
		m.EditParams([]wire.Change{tag})
		return l.keep(m.Append(nil))
	case l.err != nil && errors.Is(l.err, io.EOF):
		return l.keep(proxy.ListenEnd(l.id).Raw)
	}
	return nil, l.err
}

// wants reports whether the listen tells of the subject of a notice. The caller holds l.mu.
func (l *listen) wants(key string) bool {
	for list := range l.lists {
		if rules.ListChanged(list) == key {
			return true
		}
	}
	return slices.ContainsFunc(l.uris, func(root string) bool { return rules.Below(rules.NoticeURI(key), root) })
}

func (l *listen) keep(raw []byte) (*wire.Message, error) {
	var err error
	if l.last, err = wire.Scan(raw); err != nil {
		return nil, proxy.Errf(proxy.Internal, "a notice made here is no message: %w", err)
	}
	return &l.last, nil
}

// Abort implements proxy.Aborter, for a listen without a Watch.
func (l *listen) Abort() { l.fail(proxy.ErrCancelled) }

// Close implements proxy.Replies.
func (l *listen) Close() error {
	l.u.feed.remove(l)
	if l.stream == nil {
		l.ex.Detach(l)
		return nil
	}
	l.stream.Close()
	<-l.pumped // which uses the exchange
	return nil
}
