package subscriptions

import (
	"io"
	"slices"
	"time"

	"dragoman/adapters/era/work"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Subscribe answers resources/subscribe once a listen that includes the resource has been acknowledged.
func (x *Bridges) Subscribe(ex *proxy.Exchange) (proxy.Replies, error) {
	m, uri, err := x.target(ex)
	if err != nil {
		return nil, err
	}
	j := &subscribeCall{subscriber: m, ex: ex, uri: uri, at: time.Now(), done: make(chan struct{})}
	m.bridge.change(func() { m.bridge.join(j) })
	return j, nil
}

// Unsubscribe answers resources/unsubscribe. The open listen keeps its filter until it is replaced; until then notices
// are filtered here.
func (x *Bridges) Unsubscribe(ex *proxy.Exchange) (proxy.Replies, error) {
	m, uri, err := x.target(ex)
	if err != nil {
		return nil, err
	}
	m.bridge.change(func() {
		m.uris = slices.DeleteFunc(m.uris, func(s string) bool { return s == uri })
		for _, j := range slices.Concat(m.bridge.pending, m.bridge.opening) {
			j.withdrawn = j.withdrawn || j.subscriber == m && j.uri == uri // it is still answered, but does not take effect
		}
	})
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte("{}"))), nil
}

// target returns the subscriber and the resource URI of a request.
func (x *Bridges) target(ex *proxy.Exchange) (*subscriber, string, error) {
	m := x.get(ex.Session)
	if m == nil || !m.subscribes {
		return nil, "", proxy.Errf(proxy.MethodNotFound, "the server does not have the capability resources.subscribe")
	}
	uri := string(ex.Msg.Text(ex.Msg.URI))
	if uri == "" {
		return nil, "", proxy.Errf(proxy.InvalidParams, "params.uri must be the URI of a resource")
	}
	return m, uri, nil
}

// join adds a subscription. It succeeds at once if the session has it already or the current listen includes it. The
// caller holds b.mu.
func (b *bridge) join(j *subscribeCall) {
	j.subscriber.ready = true
	switch {
	case b.ctx.Err() != nil:
		j.settle(errOver)
	case slices.Contains(j.subscriber.uris, j.uri):
		j.settle(nil)
	case !b.admit(j):
	case b.current != nil && slices.Contains(b.current.honoured, j.uri):
		j.subscriber.uris = append(j.subscriber.uris, j.uri)
		j.settle(nil)
	default:
		b.pending = append(b.pending, j)
	}
}

// admit reports whether the bounds permit one more subscription, and fails j if they do not. The caller holds b.mu.
func (b *bridge) admit(j *subscribeCall) bool {
	count, size, all := 1, len(j.uri), len(j.uri)
	add := func(m *subscriber, uri string) {
		all += len(uri)
		if m == j.subscriber {
			count, size = count+1, size+len(uri)
		}
	}
	for _, m := range b.subscribers {
		for _, uri := range m.uris {
			add(m, uri)
		}
	}
	for _, o := range slices.Concat(b.pending, b.opening) {
		add(o.subscriber, o.uri)
	}
	switch {
	case count > maxSubscribed, size > subscribedBytes:
		j.settle(proxy.Errf(proxy.InvalidParams, "more than %d subscriptions, or %d bytes of URIs, in one session; unsubscribe from some",
			maxSubscribed, subscribedBytes))
	case all > listenedBytes:
		j.settle(proxy.Errf(proxy.Overloaded, "more than %d bytes of URIs are subscribed to at the upstream server", listenedBytes))
	}
	return !j.settled
}

// subscribeCall is the Replies of one resources/subscribe.
type subscribeCall struct {
	subscriber *subscriber
	ex         *proxy.Exchange
	uri        string
	at         time.Time
	done       chan struct{} // closed by settle

	err       error // guarded by bridge.mu until done is closed
	settled   bool  // guarded by bridge.mu
	withdrawn bool  // guarded by bridge.mu: the client no longer wants it
	answered  bool
}

// settle sets the answer, once; a nil error is success. The caller holds bridge.mu.
func (c *subscribeCall) settle(err error) {
	if c.settled {
		return
	}
	c.settled, c.err = true, err
	close(c.done)
}

// Next implements proxy.Replies.
func (c *subscribeCall) Next(until time.Time) (*wire.Message, error) {
	if c.answered {
		return nil, io.EOF
	}
	select {
	case <-c.done:
	case <-c.ex.Done():
		return nil, c.ex.Err()
	case <-work.After(until):
		return nil, proxy.ErrNotYet
	}
	c.answered = true
	if c.err != nil {
		return nil, c.err
	}
	m := proxy.ResultMessage(c.ex.Msg.Of(c.ex.Msg.ID), []byte("{}"))
	return &m, nil
}

// Close implements proxy.Replies. Closing before the answer withdraws the subscription.
func (c *subscribeCall) Close() error {
	w := c.subscriber.bridge
	w.change(func() {
		c.withdrawn = c.withdrawn || !c.settled
		w.pending = slices.DeleteFunc(w.pending, func(o *subscribeCall) bool { return o == c })
	})
	return nil
}
