package subscriptions

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// lateNotices bounds the notices that are held from a replaced listen.
const lateNotices = 1024

// channelCall is a call on a channel that is shared with other calls; package mux implements it.
type channelCall interface {
	GiveUp(ctx context.Context)
	Drop(why error)
	Requested(n uint64) bool
}

// listen is one subscriptions/listen of a bridge.
type listen struct {
	bridge    *bridge
	ctx       context.Context
	cancel    context.CancelFunc
	lists     []string // in the filter
	uris      []string
	acked     chan struct{} // closed on acknowledgement
	ended     chan struct{} // closed when the reader has returned
	abandoned chan struct{} // closed when no session is left before the acknowledgement

	// Under bridge.mu.
	replies  proxy.Replies
	honoured []string            // the acknowledged resources
	since    time.Time           // when it was acknowledged
	late     map[string]delivery // notices received after the listen was replaced, by key; nil before
	over     bool
	err      error // why it ended
}

func newListen(w *bridge, lists, uris []string) *listen {
	l := &listen{bridge: w, lists: lists, uris: uris, acked: make(chan struct{}), ended: make(chan struct{}), abandoned: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(w.ctx)
	return l
}

// request builds the request on behalf of the first session of the bridge. It asks for no log messages: those belong to
// calls.
func (l *listen) request() (*proxy.Exchange, error) {
	filter := rules.SubscriptionFilter(l.lists, l.uris)
	l.bridge.mu.Lock()
	if len(l.bridge.subscribers) == 0 {
		l.bridge.mu.Unlock()
		return nil, errOver
	}
	m := l.bridge.subscribers[0]
	caller := m.caller
	l.bridge.mu.Unlock()
	params := wire.Object([]wire.Change{
		{Key: "notifications", Value: wire.Object(filter)},
		{Key: "_meta", Value: wire.Object(rules.ModernMeta(m.client.Info, m.client.Caps))},
	})
	id := strconv.FormatUint(l.bridge.x.listens.Add(1), 10)
	ex, err := transport.NewExchange(proxy.Modern, append(append([]byte(`{"jsonrpc":"2.0","id":"dragoman-listen-`+id+
		`","method":"subscriptions/listen","params":`), params...), '}'))
	if err != nil {
		return nil, err
	}
	// With the session, links give the request an id of their own; it is not one of the session's requests in flight.
	ex.Caller, ex.Client, ex.Session = caller, m.client, m.session
	return ex, nil
}

// run reads the listen until it ends. It runs as a goroutine of the upstream and ends with l.ctx.
func (l *listen) run() {
	err := l.read()
	l.cancel()
	l.bridge.change(func() {
		l.over, l.err = true, err
		l.bridge.lost(l)
	})
	close(l.ended)
	if l.bridge.ctx.Err() == nil {
		l.bridge.x.work.Note("debug", "a subscriptions/listen has ended", err)
	}
}

func (l *listen) read() error {
	ex, err := l.request()
	if err != nil {
		return err
	}
	defer ex.Follow(l.ctx)()
	replies, err := l.bridge.x.server.Listen(l.ctx, ex)
	if err != nil {
		return l.bridge.x.server.Fault(err)
	}
	defer func() { _ = replies.Close() }()
	l.bridge.mu.Lock()
	l.replies = replies
	l.bridge.mu.Unlock()
	for {
		m, err := replies.Next(time.Time{})
		switch {
		case errors.Is(err, proxy.ErrNotYet): // no message yet
		case errors.Is(err, io.EOF):
			return errEnded
		case err != nil:
			return l.bridge.x.server.Fault(err)
		case m.Kind == wire.Result:
			return errEnded
		case m.Kind == wire.Failure:
			return refusal(m)
		case m.Kind == wire.Notification:
			if changed := l.bridge.x.opt.Changed; changed != nil {
				changed(m)
			}
			l.receive(m)
		}
	}
}

// errEnded says that the server ended the listen.
var errEnded = proxy.Errf(proxy.BadAnswer, "the upstream server ended the subscription")

// refusal converts a server's error response to subscriptions/listen.
func refusal(m *wire.Message) error {
	f := proxy.BadAnswer
	switch m.ErrorCode {
	case proxy.CodeInvalidParams:
		f = proxy.InvalidParams
	case proxy.CodeMethodNotFound:
		f = proxy.MethodNotFound
	}
	return proxy.Errf(f, "the upstream server refused the subscription: %s (code %d)", m.Text(m.ErrorText), m.ErrorCode)
}

// acknowledged waits for the acknowledgement, up to the probe timeout.
func (l *listen) acknowledged() error {
	limit := l.bridge.x.opt.Timeout
	select {
	case <-l.acked:
		return nil
	case <-time.After(limit):
		return proxy.Errf(proxy.UpstreamTimeout, "the upstream server did not acknowledge the subscription in %s", limit)
	case <-l.abandoned:
		return errOver
	case <-l.ended:
	}
	select {
	case <-l.acked: // and ended at once
		return nil
	default:
		return l.err
	}
}

// stop cancels the listen and waits for its reader.
func (l *listen) stop() {
	l.cancel()
	<-l.ended
}

// shared reports whether the listen shares a process's pipes with other calls. The caller holds bridge.mu.
func (l *listen) shared() bool {
	_, is := transport.RepliesAs[channelCall](l.replies)
	return is
}

// giveUp ends a listen. At a process it returns only once the cancellation is written, so that no later request
// overtakes it, and waits a moment for the result with which some servers answer a cancellation.
func (l *listen) giveUp() {
	l.bridge.mu.Lock()
	c, is := transport.RepliesAs[channelCall](l.replies)
	is = is && !l.over
	l.bridge.mu.Unlock()
	if is {
		c.GiveUp(l.bridge.ctx)
		select {
		case <-l.ended:
		case <-time.After(giveUpTime):
		case <-l.bridge.ctx.Done():
		}
		c.Drop(proxy.ErrCancelled)
	}
	l.stop()
}

// withdraw ends the listen if it is request n of the process. The caller holds bridge.mu.
func (l *listen) withdraw(n uint64) {
	if c, is := transport.RepliesAs[channelCall](l.replies); is && c.Requested(n) {
		c.Drop(errEnded)
	}
}

// receive handles one notification: the acknowledgement, or a notice for sessions. Anything else is dropped.
func (l *listen) receive(m *wire.Message) {
	if m.Is("notifications/subscriptions/acknowledged") {
		l.acknowledge(m)
		return
	}
	if b, now := l.route(m); now {
		l.bridge.send(b)
	}
}

// route selects the sessions that receive a notification. now is false if no session does, or if the notice is held
// because the listen has been replaced.
func (l *listen) route(msg *wire.Message) (b delivery, now bool) {
	w := l.bridge
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.subscribers {
		if m.ready && m.wants(msg, l) {
			b.to = append(b.to, m.session)
		}
	}
	if len(b.to) == 0 {
		return b, false
	}
	b.Key, b.Msg = rules.NoticeKey(msg), untagged(msg)
	switch {
	case l.late != nil:
		if len(l.late) < lateNotices {
			l.late[b.Key] = b
		}
		return b, false
	case w.delivered != nil:
		w.delivered[b.Key] = true
	}
	return b, true
}

func (l *listen) acknowledge(m *wire.Message) {
	l.bridge.mu.Lock()
	defer l.bridge.mu.Unlock()
	if !l.since.IsZero() {
		return
	}
	l.since = time.Now()
	for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.Notifications, "resourceSubscriptions")) {
		if uri := string(s.Text(m.Raw)); slices.Contains(l.uris, uri) {
			l.honoured = append(l.honoured, uri)
		}
	}
	close(l.acked)
}

// wants reports whether the session receives a notice. An update below a subscribed resource counts as an update of it
// (2026-07-28 resources, Subscriptions). The listen may also deliver updates of resources that this session has
// unsubscribed from, or that only other sessions subscribed to. The caller holds bridge.mu.
func (s *subscriber) wants(msg *wire.Message, l *listen) bool {
	if !msg.Is(rules.ResourceUpdated) {
		method := msg.Text(msg.Method)
		return slices.ContainsFunc(s.lists, func(list string) bool { return rules.ListChanged(list) == string(method) })
	}
	uri := string(msg.Text(msg.URI))
	of := func(root string) bool { return rules.Below(uri, root) }
	switch {
	case slices.ContainsFunc(s.uris, of), slices.ContainsFunc(s.bridge.opening, func(j *subscribeCall) bool { return j.subscriber == s && !j.withdrawn && of(j.uri) }):
		return true
	case len(s.uris) == 0, s.bridge.several: // it may be another caller's
		return false
	}
	return !slices.ContainsFunc(l.uris, of)
}

// untagged copies a notice without the subscription id, which no legacy revision knows.
func untagged(m *wire.Message) []byte {
	switch {
	case !m.Subscription.Present():
	case wire.Count(m.Raw, m.Meta) == 1:
		m.EditObject(m.Params, []wire.Change{{Key: "_meta"}})
	default:
		m.EditObject(m.Meta, []wire.Change{{Key: wire.MetaPrefix + "subscriptionId"}})
	}
	return m.Append(nil)
}
